// Elements that stay while what they show changes, so that focus, selection and a screen reader's place stay too.

import { h } from '../../lab/js/dom.js';

/** Children of `parent`, one for each item, made once by `make(item)` as `{ element, update(item) }`. */
export class Keyed {
  #parent;
  #make;
  #kept = new Map();

  constructor(parent, make) {
    this.#parent = parent;
    this.#make = make;
  }

  update(items, keyOf) {
    const wanted = new Map(items.map((item) => [keyOf(item), item]));
    for (const [key, { element }] of this.#kept) {
      if (wanted.has(key)) continue;
      element.remove();
      this.#kept.delete(key);
    }
    let place = this.#parent.firstElementChild;
    for (const [key, item] of wanted) {
      if (!this.#kept.has(key)) this.#kept.set(key, this.#make(item));
      const { element, update } = this.#kept.get(key);
      if (element === place) place = place.nextElementSibling;
      else this.#parent.insertBefore(element, place);
      update(item);
    }
  }
}

/** Sets a text, if it is another one. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute, or takes it away. */
export function mark(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** A word with its sign; null hides it. */
export function sign() {
  const [symbol, word] = [h('span.symbol', { 'aria-hidden': 'true' }), h('span')];
  const element = h('span.sign', {}, symbol, word);
  return {
    element,
    update: (judged) => {
      element.hidden = judged === null;
      if (judged === null) return;
      write(symbol, judged.sign);
      write(word, judged.word);
      mark(element, 'data-kind', judged.kind);
    },
  };
}

/** Names with values, as a list: `update([[name, text], …])`; those without a text are left out. */
export function facts() {
  const element = h('dl.facts');
  const rows = new Keyed(element, ([name]) => {
    const [value, note] = [h('span.value'), h('small')];
    return {
      element: h('div', { 'data-fact': name }, h('dt', {}, name), h('dd', {}, value, note)),
      update: ([, text, more = '']) => {
        write(value, String(text));
        write(note, more);
      },
    };
  });
  return { element, update: (all) => rows.update(all.filter(([, text]) => text !== null && text !== undefined), ([name]) => name) };
}
