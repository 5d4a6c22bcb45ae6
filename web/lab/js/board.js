// A table as cells: a grid of labelled cells where there is room, a map of one pixel a cell where there is not.

import { count, h } from './dom.js';
import { chip, colour, pattern, rgb } from './palette.js';

export const GRID_LIMIT = 127;
const LEGEND_LIMIT = 40;
const PLAIN = {};

/** Shows who owns which cell. One board stands for one table on the page. */
export class Board {
  #grid = new Grid();
  #map = new PixelMap();

  constructor(name) {
    this.element = h('div.board', { 'data-board': name }, this.#grid.element, this.#map.element);
  }

  /**
   * `view`: size; noun (what a cell is); labels; names; owner(i), -1 for nobody; mark(i), which may say
   * { kind, badge, from, faded }; lit, the cell to point at, or null; caption; columns, how many roomy cells fit a row.
   */
  show(view) {
    const small = view.size <= GRID_LIMIT;
    this.#grid.element.hidden = !small;
    this.#map.element.hidden = small;
    (small ? this.#grid : this.#map).show({ mark: () => PLAIN, lit: null, columns: 11, ...view });
  }
}

class Grid {
  #cells = [];
  element = h('ol.cells');

  show({ size, noun, labels, names, owner, mark, lit, caption, columns }) {
    this.element.setAttribute('aria-label', caption);
    this.element.dataset.density = size <= 31 ? 'roomy' : 'tight';
    // Few cells take one row; more are spread over rows of about equal length.
    const most = size <= 31 ? columns : 2 * columns;
    this.element.style.setProperty('--columns', size <= columns + 2 ? size : Math.ceil(size / Math.ceil(size / most)));
    while (this.#cells.length > size) this.#cells.pop().item.remove();
    while (this.#cells.length < size) {
      const number = h('span.number', {}, String(this.#cells.length));
      const who = h('span.who');
      const badge = h('span.badge');
      const item = h('li.cell', {}, number, who, badge);
      this.#cells.push({ item, who, badge, seen: '' });
      this.element.append(item);
    }
    this.#cells.forEach((cell, i) => {
      const at = owner(i);
      const { kind = '', badge = '', from = -1 } = mark(i);
      const seen = `${at} ${at < 0 ? '' : labels[at]} ${kind} ${badge} ${from} ${lit === i} ${noun}`;
      if (cell.seen === seen) return;
      cell.seen = seen;
      const { item } = cell;
      item.dataset.owner = at < 0 ? '' : labels[at];
      item.dataset.kind = kind;
      item.dataset.pattern = at < 0 ? 'empty' : pattern(at);
      item.classList.toggle('lit', lit === i);
      item.style.setProperty('--hue', at < 0 ? 'transparent' : colour(at));
      item.style.setProperty('--from', from < 0 ? 'transparent' : colour(from));
      item.title = `${noun} ${i}: ${at < 0 ? 'free' : names[at]}`;
      cell.who.textContent = at < 0 ? '' : labels[at];
      cell.badge.textContent = badge;
    });
  }
}

/** One pixel a cell. The arrow keys, and the pointer, move a cursor that tells whose cell it is on. */
class PixelMap {
  #canvas = h('canvas', { tabindex: 0, role: 'img' });
  #cursor = h('div.cursor', { hidden: true });
  #readout = h('p.readout', { role: 'status' });
  #frame = h('div.frame', {}, this.#canvas, this.#cursor);
  #legend = h('div.legend', { role: 'group', 'aria-label': 'Show the cells of one backend alone' });
  #legendOf = '';
  #alone = null;
  #at = null;
  #columns = 1;
  #view = null;
  element = h('div.map', {}, this.#frame, this.#readout, this.#legend);

  constructor() {
    this.#canvas.addEventListener('pointermove', (event) => this.#point(event));
    this.#canvas.addEventListener('pointerdown', (event) => this.#point(event));
    this.#canvas.addEventListener('keydown', (event) => this.#key(event));
  }

  show(view) {
    this.#view = view;
    const { size, owner, mark, lit, caption } = view;
    this.#columns = Math.ceil(Math.sqrt(size * 1.8));
    const rows = Math.ceil(size / this.#columns);
    this.#canvas.width = this.#columns;
    this.#canvas.height = rows;
    this.#frame.style.setProperty('--ratio', `${this.#columns} / ${rows}`);
    this.#canvas.setAttribute('aria-label', `${caption}. The arrow keys read single cells.`);
    const style = getComputedStyle(this.#canvas);
    const [empty, ink] = ['--cell-empty', '--ink'].map((name) => bytes(style.getPropertyValue(name)));
    const context = this.#canvas.getContext('2d');
    const image = context.createImageData(this.#columns, rows);
    for (let i = 0; i < size; i += 1) {
      const at = owner(i);
      const { kind, faded } = mark(i);
      let pixel = at < 0 ? empty : rgb(at);
      if (faded || (this.#alone !== null && at !== this.#alone)) pixel = pixel.map((v, c) => Math.round(v * 0.28 + empty[c] * 0.72));
      if (kind === 'needless') pixel = ink;
      [image.data[i * 4], image.data[i * 4 + 1], image.data[i * 4 + 2]] = pixel;
      image.data[i * 4 + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    this.#showLegend(view);
    if (lit !== null) this.#at = lit;
    if (this.#at !== null && this.#at >= size) this.#at = null;
    this.#place();
  }

  #showLegend({ labels, names }) {
    const key = names.join('\n');
    if (key !== this.#legendOf) {
      this.#legendOf = key;
      this.#alone = null;
      this.#legend.replaceChildren(...names.slice(0, LEGEND_LIMIT).map((name, i) => h('button', {
        type: 'button', 'aria-label': `Only ${name}`, title: name,
        onclick: () => {
          this.#alone = this.#alone === i ? null : i;
          this.show(this.#view);
        },
      }, chip(i, labels[i]))));
    }
    [...this.#legend.children].forEach((button, i) => button.setAttribute('aria-pressed', String(this.#alone === i)));
  }

  #point(event) {
    const box = this.#canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.#columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.#canvas.height);
    this.#move(row * this.#columns + column);
  }

  #key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#columns, ArrowDown: this.#columns };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    this.#move((this.#at ?? -1) + steps[event.key]);
  }

  #move(at) {
    if (at < 0 || at >= this.#view.size) return;
    this.#at = at;
    this.#place();
  }

  #place() {
    this.#cursor.hidden = this.#at === null;
    if (this.#at === null) {
      this.#readout.textContent = 'Point at the map, or focus it and use the arrow keys, to read single cells.';
      return;
    }
    const { noun, owner, names, mark } = this.#view;
    const at = owner(this.#at);
    const { from = -1, kind = '' } = mark(this.#at);
    const past = from < 0 ? '' : `, before: ${names[from]} (${kind})`;
    this.#readout.textContent = `${noun} ${count(this.#at)}: ${at < 0 ? 'free' : names[at]}${past}`;
    this.#cursor.style.left = `${((this.#at % this.#columns) + 0.5) / this.#columns * 100}%`;
    this.#cursor.style.top = `${(Math.floor(this.#at / this.#columns) + 0.5) / this.#canvas.height * 100}%`;
  }
}

/** "#rrggbb" as three bytes. */
function bytes(hex) {
  const text = hex.trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16) || 0);
}
