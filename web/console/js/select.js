// Which rows are shown, in which order, and how many are not: a page of ten thousand rows would be of use to nobody.

import { concern, isFailing, troubles } from './judge.js';

/** Rows of services and backends together. */
export const MOST_ROWS = 300;
/** Services show their backends by themselves while all rows together are no more. */
const FEW_ROWS = 100;

const names = new Intl.Collator('en', { numeric: true });
const byName = (a, b) => names.compare(a.name, b.name);
const worst = (service) => Math.max(troubles(service)[0]?.concern ?? 0, ...[0, 1, 2].filter((c) => service.backends.some((b) => concern(b) === c)));

/** Orders by what the user chose: of services, and of backends. */
export const ORDERS = {
  trouble: { text: 'Trouble first', service: worst, backend: concern },
  name: { text: 'Name' },
  traffic: { text: 'Most packets/s', service: (s, rates) => rates.service(s)?.packets ?? 0, backend: (b, rates) => rates.backend(b)?.packets ?? 0 },
  share: { text: 'Most slots', service: (s) => s.slots, backend: (b) => b.slots },
};

/** Sorted by a figure, the largest first, and then by name. */
function sorted(items, figure, rates) {
  if (!figure) return items.toSorted(byName);
  return items.map((item) => [figure(item, rates), item]).sort(([x, a], [y, b]) => y - x || byName(a, b)).map(([, item]) => item);
}

/** Backends of one service that fit `words`, the first `most` of them, and what is left out. */
export function backendsOf(service, { words = [], order, rates, most = MOST_ROWS }) {
  const fitting = words.length && !fits(words, service.name, ...service.listen)
    ? service.backends.filter((backend) => fits(words, service.name, ...service.listen, backend.name, backend.address))
    : service.backends;
  const all = sorted(fitting, ORDERS[order].backend, rates);
  return { backends: all.slice(0, most), hidden: all.length - Math.min(most, all.length), failingHidden: all.slice(most).filter(isFailing).length };
}

/** Services that fit a filter; each word has to be in a name, an address or a listening place. */
export function select(services, { filter, order, rates, opened }) {
  const words = wordsOf(filter);
  const fitting = services.filter((service) => words.length === 0 || fits(words, service.name, ...service.listen)
    || service.backends.some((backend) => fits(words, service.name, ...service.listen, backend.name, backend.address)));
  const all = sorted(fitting, ORDERS[order].service, rates);
  const few = all.length + all.reduce((sum, service) => sum + service.backends.length, 0) <= FEW_ROWS;
  let room = MOST_ROWS;
  const shown = [];
  for (const service of all) {
    if (room <= 0) break;
    room -= 1;
    const isOpen = opened.get(service.name) ?? few;
    const rows = isOpen ? backendsOf(service, { words, order, rates, most: room }) : null;
    room -= rows?.backends.length ?? 0;
    shown.push({ service, isOpen, rows });
  }
  return { shown, hidden: all.length - shown.length, fitting: all.length };
}

export const wordsOf = (filter) => filter.toLowerCase().split(/\s+/).filter(Boolean);

function fits(words, ...texts) {
  const text = texts.join('\n').toLowerCase();
  return words.every((word) => text.includes(word));
}
