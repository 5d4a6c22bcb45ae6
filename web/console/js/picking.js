// Which rows, and in which order: a field and a list above them.

import { h } from '../../lab/js/dom.js';
import { ORDERS } from './select.js';

/** `change({ filter })` or `change({ order })` is called with what was chosen; `id` begins the names of both. */
export function picking(id, change) {
  const filter = h('input', {
    type: 'search', id: `${id}-filter`, placeholder: 'name or address', autocomplete: 'off', spellcheck: 'false',
    oninput: () => change({ filter: filter.value }),
  });
  const order = h('select', { id: `${id}-order`, onchange: () => change({ order: order.value }) },
    Object.entries(ORDERS).map(([value, { text }]) => h('option', { value }, text)));
  return h('div.picking', {}, h('label', { for: filter.id }, 'Filter'), filter, h('label', { for: order.id }, 'Order'), order);
}
