// Backends of one service as a table; on a phone each row becomes a card.

import { count, h } from '../../lab/js/dom.js';
import * as drain from './drain.js';
import { admin, complaint, health, state, weightInEffect } from './judge.js';
import { Keyed, mark, sign, write } from './keyed.js';
import { toBackend } from './route.js';
import { age, rate, share } from './words.js';

const COLUMNS = ['Backend', 'State', 'Admin', 'Health', 'Weight', 'Slots', 'Drain', 'Packets/s', 'Packets'];
const FIGURES = new Set(['Weight', 'Slots', 'Packets/s', 'Packets']);

/** Updated with a service, its backends that are shown, and the rates. */
export function backendTable() {
  // Roles are written out, since those of a table go where its rows are laid out as cards.
  const body = h('tbody', { role: 'rowgroup' });
  const caption = h('caption.unseen');
  const head = COLUMNS.map((name) => h(FIGURES.has(name) ? 'th.figure' : 'th', { role: 'columnheader', scope: 'col' }, name));
  const element = h('table.backends', { role: 'table' }, caption, h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head)), body);
  let rates = null;
  const rows = new Keyed(body, (backend) => row(backend, () => rates));
  return {
    element,
    update: (service, backends, now) => {
      rates = now;
      write(caption, `Backends of ${service.name}`);
      rows.update(backends, (backend) => JSON.stringify([backend.name, backend.address, backend.removed]));
    },
  };
}

function row(first, rates) {
  const [stateSign, healthSign] = [sign(), sign()];
  const texts = Object.fromEntries(['admin', 'by', 'since', 'why', 'weight', 'effect', 'slots', 'share', 'drain', 'left', 'rate', 'total'].map((name) => [name, h('span')]));
  const small = (node) => h('small', {}, node);
  const bar = h('span.bar', { 'aria-hidden': 'true' }, h('span'));
  const cells = [
    [h('a', { href: toBackend(first.service, first.name) }, first.name), small(h('span', {}, first.address))],
    [stateSign.element],
    [texts.admin, small(texts.by)],
    [healthSign.element, small(texts.since), h('span.why', {}, texts.why)],
    [texts.weight, small(texts.effect)],
    [texts.slots, small(texts.share), bar],
    [texts.drain, small(texts.left)],
    [texts.rate],
    [texts.total],
  ];
  const element = h('tr', { role: 'row', 'data-backend': first.name }, cells.map((content, i) => {
    const name = COLUMNS[i];
    return h(FIGURES.has(name) ? 'td.figure' : 'td', { role: i === 0 ? 'rowheader' : 'cell', 'data-column': name }, h('div', {}, content));
  }));
  const update = (backend) => {
    stateSign.update(state(backend));
    healthSign.update(health(backend));
    const effect = weightInEffect(backend);
    for (const [name, text] of Object.entries({
      admin: admin(backend),
      by: backend.overridden ? 'by an operator' : '',
      since: sinceText(backend),
      why: complaint(backend) ?? '',
      weight: String(backend.weight),
      effect: effect === backend.weight ? '' : `${effect} in effect`,
      slots: count(backend.slots),
      share: share(backend.share),
      drain: drain.progress(backend),
      left: drain.detail(backend),
      rate: rate(rates().backend(backend)?.packets),
      total: count(backend.packets_total),
    })) write(texts[name], text);
    bar.firstChild.style.setProperty('width', `${backend.share * 100}%`);
    mark(element, 'data-failing', healthSign.element.dataset.kind === 'bad' && 'yes');
  };
  return { element, update };
}

function sinceText({ health: found }) {
  if (!found) return '';
  const row = found.contradicting > 0 ? `, ${found.contradicting} of ${found.needed} contradict it` : '';
  return `for ${age(found.age_seconds)}${row}${found.flapping ? ', flapping' : ''}`;
}
