// Change: what becomes of every cell when backends come, go or change weight; two policies side by side.

import { Board } from './board.js';
import { count, h, percent, show } from './dom.js';
import { chip, labels } from './palette.js';
import { FLOWS, MAX_BACKENDS, MAX_WEIGHT, POLICIES, backend, changeOf, freshName, isChanged, policy } from './state.js';

const FATES = ['stayed', 'departed', 'attracted', 'needless'];
const BADGES = ['', '→', '→', '!'];
const LISTED = 24;

export class ChangeView {
  #store;
  #session;
  #sides;
  #refs = {};
  #shape = '';

  constructor(store, session) {
    this.#store = store;
    this.#session = session;
    const r = this.#refs;
    r.list = h('ul.changes');
    r.error = h('p.error', { role: 'alert', hidden: true });
    r.add = h('button.add', { type: 'button', onclick: () => this.#add() }, '+ Let a new backend join');
    this.#sides = ['policy', 'other'].map((field) => new Side(store, session, field));
    this.element = h('section.view.change', {}, h('h2.unseen', {}, 'Change'),
      h('section.plan', {}, h('h3', {}, 'The change'), r.list, h('div.row', {}, r.add,
        h('button', { type: 'button', onclick: () => this.#clear() }, 'Undo all')), r.error,
        h('p.note', {}, 'To new flows, drained and removed are the same: both get none. A drained backend keeps the flows that it has until they end.')),
      h('p.key.fates', {}, h('span', {}, h('span.sample', { 'data-kind': 'stayed' }), ' keeps its owner'),
        h('span', {}, h('span.sample', { 'data-kind': 'departed' }, '→'), ' had to move, or was asked to'),
        h('span', {}, h('span.sample', { 'data-kind': 'needless' }, '!'), ' moved needlessly (on maps: ', h('span.sample.ink'), ')')),
      h('div.columns-2.sides', {}, this.#sides.map((side) => side.element)));
  }

  #clear() {
    const { backends } = this.#store.state;
    this.#store.update({ changes: backends.map(() => null), added: [] });
  }

  #add() {
    const { backends, added } = this.#store.state;
    if (backends.length + added.length >= MAX_BACKENDS) return;
    const fresh = backend(freshName([...backends, ...added]));
    const setup = { ...changeOf(this.#store.state, 'maglev').before, given: false, backends: [fresh] };
    const [{ offset, skip }] = this.#session.draft(setup).order;
    this.#store.update({ added: [...added, { ...fresh, offset, skip }] });
  }

  #set(i, change) {
    this.#store.update({ changes: this.#store.state.changes.map((c, at) => (at === i ? change : c)) });
  }

  update(state) {
    this.#updatePlan(state);
    this.#refs.error.hidden = true;
    for (const side of this.#sides) {
      side.element.classList.remove('stale');
      try {
        side.update(state);
      } catch (error) {
        side.element.classList.add('stale');
        this.#refs.error.textContent = error.message;
        this.#refs.error.hidden = false;
      }
    }
  }

  #updatePlan(state) {
    const shape = `${state.backends.length} ${state.added.length}`;
    const short = labels([...state.backends, ...state.added]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#refs.list.replaceChildren(...state.backends.map((_, i) => this.#row(i)),
        ...state.added.map((_, i) => this.#addedRow(i)));
    }
    [...this.#refs.list.children].forEach((row, i) => {
      row.querySelector('.chip').replaceWith(chip(i, short[i], { 'aria-hidden': 'true' }));
      const b = state.backends[i];
      const name = row.querySelector('.name');
      name.textContent = b ? b.name : state.added[i - state.backends.length].name;
      name.title = name.textContent;
      if (!b) return;
      const change = state.changes[i];
      row.dataset.op = change?.op ?? '';
      for (const button of row.querySelectorAll('button')) {
        button.setAttribute('aria-pressed', String(change?.op === button.dataset.op));
        button.setAttribute('aria-label', `${button.textContent} ${b.name}`);
      }
      const weight = row.querySelector('input');
      weight.setAttribute('aria-label', `New weight of ${b.name}`);
      show(weight, change?.op === 'weight' ? change.weight : b.weight);
    });
  }

  #row(i) {
    const toggle = (op, text) => h('button', {
      type: 'button', 'data-op': op,
      onclick: () => this.#set(i, this.#store.state.changes[i]?.op === op ? null : { op }),
    }, text);
    const weight = h('input', {
      inputmode: 'numeric', autocomplete: 'off',
      onchange: (e) => {
        const value = /^\d+$/.test(e.target.value.trim()) ? Math.min(MAX_WEIGHT, Number(e.target.value)) : null;
        const same = value === this.#store.state.backends[i].weight;
        this.#set(i, value === null || same ? null : { op: 'weight', weight: value });
      },
    });
    return h('li', {}, chip(i, ''), h('span.name'), toggle('remove', 'Remove'), toggle('drain', 'Drain'),
      h('label.weight', {}, h('span', {}, 'weight '), weight));
  }

  #addedRow(i) {
    const leave = () => this.#store.update({ added: this.#store.state.added.filter((_, at) => at !== i) });
    return h('li', { 'data-op': 'add' }, chip(0, ''), h('span.name'), h('span.tag', {}, 'joins'),
      h('button.remove', { type: 'button', 'aria-label': 'Not this one', onclick: leave }, '✕'));
  }
}

/** One policy's answer to the change. */
class Side {
  #session;
  #field;
  #board;
  #refs = {};

  constructor(store, session, field) {
    this.#session = session;
    this.#field = field;
    this.#board = new Board(field);
    const r = this.#refs;
    const id = `side-${field}`;
    r.policy = h('select', { id, onchange: (e) => store.update({ [field]: e.target.value }) },
      POLICIES.map((p) => h('option', { value: p.id }, p.title)));
    r.summary = h('p.summary', { role: 'status' });
    r.figures = h('tbody');
    r.needless = h('p.note');
    this.element = h('section.side', { 'data-side': field },
      h('div.row', {}, h('label', { for: id }, field === 'policy' ? 'This' : 'Beside'), r.policy), r.summary, this.#board.element, r.needless,
      h('table.figures', {},
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'fate'), h('th', { scope: 'col', 'data-cells': '' }, 'slots'), h('th', { scope: 'col' }, `of ${count(FLOWS)} flows`))),
        r.figures));
  }

  update(state) {
    const r = this.#refs;
    const id = state[this.#field];
    show(r.policy, id);
    const { before, after } = changeOf(state, id);
    const change = this.#session.change(before, after);
    const flows = this.#session.flows(before, after, FLOWS).moves;
    const short = labels(before.backends);
    const names = before.backends.map((b) => b.name);
    const noun = policy(id).table ? 'slot' : 'flow';
    const { moves } = change;
    this.element.querySelector('[data-cells]').textContent = policy(id).table ? 'slots' : 'cells (sample flows)';
    this.#board.show({
      size: change.after.length, columns: 7, noun, labels: short, names, lit: null,
      caption: `${policy(id).title} after the change: ${count(moves.moved)} of ${count(moves.compared)} ${noun}s have another owner`,
      owner: (i) => change.after[i],
      mark: (i) => {
        const fate = change.fates[i];
        return { kind: FATES[fate], badge: BADGES[fate], faded: fate === 0, from: fate === 0 ? -1 : change.before[i] };
      },
    });
    const kept = moves.compared - moves.moved;
    r.summary.replaceChildren(...(isChanged(state)
      ? [h('strong', {}, `${count(moves.needless)} needless`), ` of ${count(moves.moved)} moved; ${count(kept)} of ${count(moves.compared)} keep their owner.`]
      : ['Nothing changes yet. Remove or drain a backend above, or give it another weight.']));
    this.#listNeedless(change, short, moves);
    const rows = [
      ['compared', moves.compared, flows.compared], ['kept', kept, flows.compared - flows.moved],
      ['had to move: owner gone', moves.departed, flows.departed], ['asked to move: weight', moves.attracted, flows.attracted],
      ['moved needlessly', moves.needless, flows.needless], ['least possible', moves.least, flows.least],
    ];
    r.figures.replaceChildren(...rows.map(([name, cells, of]) => h('tr', { 'data-row': name.split(':')[0] },
      h('th', { scope: 'row' }, name), figure(cells, moves.compared), figure(of, flows.compared))));
  }

  #listNeedless({ fates, before, after }, short, moves) {
    const listed = [];
    for (let i = 0; i < fates.length && listed.length < LISTED; i += 1) {
      if (fates[i] === 3) listed.push(`${count(i)} (${short[before[i]]} → ${short[after[i]]})`);
    }
    const more = moves.needless > listed.length ? ' …' : '';
    this.#refs.needless.textContent = listed.length ? `Needlessly: ${listed.join(', ')}${more}` : 'Nothing moved needlessly.';
  }
}

function figure(n, of) {
  return h('td', {}, count(n), h('small', {}, ` ${percent(n / of)}`));
}
