// All services, each with its backends below it when it is opened.

import { count, h } from '../../lab/js/dom.js';
import { backendTable } from './backend-table.js';
import { troubles } from './judge.js';
import { Keyed, mark, write } from './keyed.js';
import { picking } from './picking.js';
import { toService } from './route.js';
import { select } from './select.js';
import { rate, several } from './words.js';

export class ServicesView {
  #choice = { filter: '', order: 'trouble', opened: new Map() };
  #latest = null;
  #told = h('p.note', { role: 'status' });
  #list = h('ul.services');
  #rows = new Keyed(this.#list, (item) => this.#row(item));

  constructor() {
    this.element = h('section', { 'aria-labelledby': 'services-title' },
      h('h2', { id: 'services-title' }, 'Services'),
      picking('services', (choice) => this.#choose(choice)),
      this.#told, this.#list);
  }

  update(latest) {
    this.#latest = latest;
    const { services, rates } = latest;
    const { shown, hidden, fitting } = select(services, { ...this.#choice, rates });
    const fit = this.#choice.filter.trim() ? `${several(fitting, 'service fits', 'services fit')}, of ${count(services.length)}.` : '';
    write(this.#told, hidden > 0 ? `${fit} ${several(hidden, 'more service is', 'more services are')} hidden: filter, or order otherwise, to see them.`.trim() : fit);
    this.#rows.update(shown, ({ service }) => service.name);
  }

  #choose(choice) {
    Object.assign(this.#choice, choice);
    if (this.#latest) this.update(this.#latest);
  }

  #row({ service: { name } }) {
    const table = backendTable();
    const id = `backends-of-${encodeURIComponent(name)}`;
    const rest = h('p.note');
    const fold = h('div.fold-of', { id }, table.element, rest);
    const toggle = h('button.toggle', {
      type: 'button', 'aria-controls': id, 'aria-label': `Backends of ${name}`,
      onclick: () => this.#choose({ opened: this.#choice.opened.set(name, toggle.getAttribute('aria-expanded') !== 'true') }),
    });
    const texts = Object.fromEntries(['listen', 'policy', 'eligible', 'slots', 'unsettled', 'packets', 'bits', 'total'].map((key) => [key, h('span')]));
    const wrong = h('p.wrong');
    const figure = (label, ...nodes) => h('div.figure', { 'data-column': label }, h('small', {}, label), nodes);
    const element = h('li.service', { 'data-service': name },
      h('div.head', {},
        toggle,
        h('div.who', {}, h('h3', {}, h('a', { href: toService(name) }, name)), texts.listen),
        figure('Policy', texts.policy), figure('Slots', texts.slots, h('small', {}, texts.unsettled)), figure('Take new flows', texts.eligible),
        figure('Packets/s', texts.packets), figure('Bits/s', texts.bits), figure('Packets', texts.total)),
      wrong, fold);
    const update = ({ service, isOpen, rows }) => {
      const now = this.#latest.rates.service(service);
      mark(toggle, 'aria-expanded', String(isOpen));
      for (const [key, text] of Object.entries({
        listen: service.listen.join('  '),
        policy: service.policy ?? 'removed',
        slots: count(service.slots),
        unsettled: service.unsettled_slots > 0 ? `${count(service.unsettled_slots)} unsettled` : '',
        eligible: `${count(service.eligible)} of ${count(service.backends.filter((b) => !b.removed).length)}`,
        packets: rate(now?.packets), bits: rate(now?.bits), total: count(service.packets_total),
      })) write(texts[key], text);
      const found = troubles(service);
      write(wrong, found.length ? `✗ ${found.map((trouble) => trouble.text).join(' · ')}` : '');
      wrong.hidden = found.length === 0;
      fold.hidden = !isOpen;
      if (isOpen) table.update(service, rows.backends, this.#latest.rates);
      write(rest, isOpen ? hiddenText(rows) : '');
    };
    return { element, update };
  }
}

/** How many backends are not shown. */
export function hiddenText({ hidden, failingHidden }) {
  if (hidden === 0) return '';
  const failing = failingHidden > 0 ? `, ${count(failingHidden)} of them failing` : '';
  return `${several(hidden, 'more backend is', 'more backends are')} hidden${failing}: filter, or order otherwise, to see them.`;
}
