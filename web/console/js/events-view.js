// What happened lately, newest first.

import { h } from '../../lab/js/dom.js';
import { Keyed } from './keyed.js';
import { toBackend, toService } from './route.js';

const SHOWN = 50;
const SIGNS = { info: '·', warning: '!', error: '✗' };

export class EventsView {
  #list = h('ol.events');
  #none = h('p.note', {}, 'Nothing has happened lately.');
  // Events never change.
  #rows = new Keyed(this.#list, (event) => ({ element: row(event), update: () => {} }));

  constructor() {
    this.element = h('section', { 'aria-labelledby': 'events-title' }, h('h2', { id: 'events-title' }, 'Events'), this.#none, this.#list);
  }

  /** All of them, or those about a service or a backend. */
  update({ events, status }, { service, backend }) {
    const about = events.filter((event) => (!service || event.service === service) && (!backend || event.backend === backend));
    const newest = about.slice(-SHOWN).reverse();
    this.#none.hidden = newest.length > 0;
    this.#rows.update(newest, (event) => `${status.started_at} ${event.number}`);
  }
}

function row(event) {
  const about = event.backend
    ? h('a', { href: toBackend(event.service, event.backend) }, `${event.service} › ${event.backend}`)
    : event.service && h('a', { href: toService(event.service) }, event.service);
  return h('li', { 'data-grade': event.grade },
    h('time', { datetime: event.at, title: event.at }, event.at.slice(11, 19)),
    h('span.grade', {}, h('span', { 'aria-hidden': 'true' }, `${SIGNS[event.grade] ?? '·'} `), `${event.grade}`),
    h('span.kind', {}, event.kind),
    h('span.text', {}, about, about ? ' ' : null, event.text, event.by ? h('small', {}, ` by ${event.by}`) : null));
}
