// A line chart in SVG: sizes along the bottom on a logarithmic scale, shares upward on one that also has a place for 0.

import { count, percent, s } from './dom.js';

const HEIGHT = 300;
const EDGE = { left: 56, top: 16, bottom: 44 };
/** Below this width there is no room for names beside the lines; the marks are told by the boxes above. */
const ROOM_FOR_NAMES = 520;
const right = (width) => (width < ROOM_FOR_NAMES ? 14 : 140);
const MARKS = ['●', '■', '▲', '◆', '✚', '▼'];
const DASHES = ['', '7 4', '2 4', '10 3 2 3', '12 4', '4 2'];
const ZERO_GAP = 26;

/** The sign and the dash of the series at `index`: so that colour is never needed to tell lines apart. */
export const mark = (index) => MARKS[index % MARKS.length];

/** How far along the axis a pointer at `x` is, from 0 to 1, in a chart that is `width` wide. */
export const placeOf = (x, width) => (x - EDGE.left) / (width - EDGE.left - right(width));

/**
 * Draws `series`, each { index, title, points: [{ x, y, low, high }] }, into `svg`. `floor` is the smallest share that
 * has a place of its own; below lies the line for exactly 0.
 */
export function draw(svg, { series, sizes, floor, label, at }) {
  const width = Math.round(svg.clientWidth) || 640;
  const end = width - right(width);
  const top = Math.max(floor * 100, ...series.flatMap((one) => one.points.map((p) => p.high)));
  const ceiling = 10 ** Math.ceil(Math.log10(top) - 1e-9);
  const bottom = HEIGHT - EDGE.bottom - ZERO_GAP;
  const across = scale(Math.log(sizes[0]), Math.log(sizes.at(-1)), EDGE.left, end);
  const upward = scale(Math.log(floor), Math.log(ceiling), bottom, EDGE.top);
  const x = (size) => across(Math.log(size));
  const y = (share) => (share < floor ? (share === 0 ? HEIGHT - EDGE.bottom : bottom + ZERO_GAP / 2) : upward(Math.log(share)));

  svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
  const grid = [];
  for (let decade = floor; decade <= ceiling * 1.001; decade *= 10) {
    grid.push(s('line', { class: 'grid', x1: EDGE.left, x2: end, y1: y(decade), y2: y(decade) }),
      text(EDGE.left - 8, y(decade) + 4, short(decade), 'end'));
  }
  const zero = HEIGHT - EDGE.bottom;
  grid.push(s('line', { class: 'axis', x1: EDGE.left, x2: end, y1: zero, y2: zero }), text(EDGE.left - 8, zero + 4, '0', 'end'));
  let edge = -Infinity;
  for (const size of sizes) {
    if (x(size) - edge < 44) continue;
    edge = x(size);
    grid.push(s('line', { class: 'tick', x1: edge, x2: edge, y1: zero, y2: zero + 5 }), text(edge, zero + 19, count(size), 'middle'));
  }
  grid.push(text((EDGE.left + end) / 2, HEIGHT - 4, 'slots, M', 'middle', 'title'));

  const drawn = series.filter((one) => one.points.length > 0).map((one) => line(one, x, y));
  const cursor = at === null ? [] : [s('line', { class: 'cursor-line', x1: x(at), x2: x(at), y1: EDGE.top, y2: zero })];
  svg.replaceChildren(s('title', {}, label), s('g', {}, grid), ...cursor, ...drawn, ...(width < ROOM_FOR_NAMES ? [] : names(series, y, end)));
  svg.setAttribute('aria-label', label);
}

function line({ index, points }, x, y) {
  const path = points.map((p, i) => `${i ? 'L' : 'M'}${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}`).join('');
  const band = [...points.map((p) => `${x(p.x).toFixed(1)},${y(p.high).toFixed(1)}`),
    ...points.toReversed().map((p) => `${x(p.x).toFixed(1)},${y(p.low).toFixed(1)}`)].join(' ');
  return s('g', { class: 'series', 'data-series': index },
    s('polygon', { class: 'band', points: band }),
    s('path', { class: 'stroke', d: path, 'stroke-dasharray': DASHES[index % DASHES.length] }),
    points.map((p) => text(x(p.x), y(p.y) + 4, mark(index), 'middle', 'mark')));
}

/** Names at the lines' ends, pushed apart where lines meet. */
function names(series, y, edge) {
  const ends = series.filter((one) => one.points.length > 0)
    .map((one) => ({ one, at: y(one.points.at(-1).y) })).sort((a, b) => a.at - b.at);
  for (let i = 1; i < ends.length; i += 1) ends[i].at = Math.max(ends[i].at, ends[i - 1].at + 15);
  // What was pushed below the chart moves up again, and its neighbours with it.
  let limit = HEIGHT - EDGE.bottom + 4;
  for (const end of ends.toReversed()) {
    end.at = Math.min(end.at, limit);
    limit = end.at - 15;
  }
  return ends.map(({ one, at }) => {
    const node = text(edge + 10, at + 4, `${mark(one.index)} ${one.title}`, 'start', 'series-name');
    node.dataset.series = one.index;
    return node;
  });
}

function scale(from, to, low, high) {
  return (value) => low + ((value - from) / (to - from)) * (high - low);
}

function text(x, y, content, anchor, name = 'label') {
  return s('text', { class: name, x: x.toFixed(1), y: y.toFixed(1), 'text-anchor': anchor }, content);
}

const short = (share) => (share >= 0.01 ? `${Math.round(share * 100)} %` : percent(share).replace(/0+ %/, ' %'));
