// Colours, patterns and short labels of backends. The label says who it is; colour and pattern only help.
// The hues are chosen to stay apart under the common forms of colour blindness, and light enough for dark text
// (after Paul Tol's "light" scheme).

import { h } from './dom.js';

const HUES = ['#77aadd', '#ee8866', '#44bb99', '#eedd88', '#ffaabb', '#99ddff', '#bbcc33', '#b9a5e2'];
const PATTERNS = ['plain', 'rising', 'dots', 'falling', 'level', 'grid'];

/** The colour of the backend at `index`, as three bytes. */
export function rgb(index) {
  const hue = HUES[index % HUES.length];
  const lap = Math.floor(index / HUES.length);
  const shade = [1, 0.8, 0.9, 0.7, 0.85, 0.75][lap % 6];
  return [1, 3, 5].map((at) => Math.round(parseInt(hue.slice(at, at + 2), 16) * shade));
}

export const colour = (index) => `rgb(${rgb(index).join(' ')})`;

/** Every lap round the hues has a pattern of its own; within the first, patterns follow the hues. */
export const pattern = (index) => PATTERNS[(index < HUES.length ? index : index + Math.floor(index / HUES.length)) % PATTERNS.length];

/** Labels of up to three characters, different for every backend. */
export function labels(backends) {
  const initial = (name) => (/^\d+\.\d+\.\d+\.(\d+)/.exec(name)?.[1] ?? [...name][0] ?? '?');
  const wanted = backends.map((b) => initial(b.name));
  const tail = (name) => /(\d+)$/.exec(name)?.[1];
  const seen = new Map();
  for (const label of wanted) seen.set(label, (seen.get(label) ?? 0) + 1);
  const taken = new Set();
  return wanted.map((label, i) => {
    const name = backends[i].name;
    const choices = [seen.get(label) === 1 ? label : null, `${[...name][0] ?? '?'}${tail(name) ?? i + 1}`, `${i + 1}`];
    const found = choices.find((c) => c && c.length <= 4 && !taken.has(c)) ?? `#${i + 1}`;
    taken.add(found);
    return found;
  });
}

/** A small square that stands for a backend. */
export function chip(index, label, properties = {}) {
  return h('span.chip', { 'data-pattern': pattern(index), style: { '--hue': colour(index) }, ...properties }, label);
}
