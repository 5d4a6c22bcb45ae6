// Look-up: one flow, resolved by a table and by rendezvous.

import { Board } from './board.js';
import { count, h, show } from './dom.js';
import { bidList } from './draft-view.js';
import { chip, labels } from './palette.js';
import { policy, setupOf } from './state.js';

const KEYS = ['user-42', 'user-43', '198.51.100.7:51514 > 192.0.2.10:443', '198.51.100.7:51515 > 192.0.2.10:443', 'GET /index.html', 'cart-7f3a'];

export class LookupView {
  #store;
  #session;
  #board = new Board('lookup');
  #refs = {};

  constructor(store, session) {
    this.#store = store;
    this.#session = session;
    const r = this.#refs;
    r.key = h('input', { id: 'key', autocomplete: 'off', spellcheck: 'false', oninput: (e) => store.update({ key: e.target.value }) });
    r.keys = h('div.keys', { role: 'group', 'aria-label': 'Example keys' },
      KEYS.map((key) => h('button', { type: 'button', 'data-key': key, onclick: () => store.update({ key }) }, key)));
    r.steps = h('ol.pipeline', { 'aria-label': 'The way of a look-up' });
    r.bids = h('div');
    r.table = h('h3');
    r.verdict = h('p.verdict', { role: 'status' });
    this.element = h('section.view.lookup', {}, h('h2.unseen', {}, 'Look-up'),
      h('div.ask', {}, h('label', { for: 'key' }, 'A key: whatever names the flow'), r.key, r.keys),
      h('div.columns-2', {},
        h('section', {}, r.table, r.steps),
        h('section', {}, h('h3', {}, 'By rendezvous: everybody bids'), r.bids)),
      h('section', {}, h('h3', {}, 'Who answers'), r.verdict, this.#board.element));
  }

  update(state) {
    const r = this.#refs;
    show(r.key, state.key);
    for (const b of r.keys.children) b.setAttribute('aria-pressed', String(b.dataset.key === state.key));
    const tablePolicy = state.policy === 'rendezvous' ? 'maglev' : state.policy;
    const setup = setupOf(state, tablePolicy);
    const found = this.#session.lookup(setup, state.key);
    const short = labels(state.backends);
    const { owners } = this.#session.cells(setup);
    r.table.textContent = `By ${policy(tablePolicy).title}${found.slot === null ? '' : ': one read of a table'}`;
    r.steps.replaceChildren(...this.#steps(state, setup, found, short));

    const rival = setupOf(state, 'rendezvous');
    const bids = this.#session.bids(rival, found.hash);
    r.bids.replaceChildren(bidList(bids, state.backends, short));
    const agree = bids.winner === found.owner;
    r.verdict.replaceChildren(chip(found.owner, short[found.owner]), ` ${agree ? 'and' : 'against'} `, chip(bids.winner, short[bids.winner]),
      agree ? ': this time both agree. By chance they do for about one flow in as many as there are backends.' : ': two policies, two answers. That is why a migration between them moves flows once.');

    this.#board.element.hidden = found.slot === null;
    if (found.slot !== null) {
      this.#board.show({
        size: state.size, noun: 'slot', labels: short, names: state.backends.map((b) => b.name),
        caption: `Table of ${count(state.size)} slots; slot ${count(found.slot)} is lit`,
        owner: (i) => owners[i], lit: found.slot,
        mark: (i) => (i === found.slot ? { kind: 'found', badge: '◆' } : {}),
      });
    }
  }

  #steps(state, setup, { hash, slot, owner }, short) {
    const step = (title, ...body) => h('li', {}, h('span.step', {}, title), h('span.value', {}, ...body));
    const steps = [
      step('key', h('code', {}, state.key || '(empty)')),
      step('hash(key)', h('code', { 'data-test': 'hash' }, `0x${hash.toString(16).padStart(16, '0')}`)),
    ];
    if (slot !== null) {
      steps.push(step(`mod ${count(setup.size)}`, h('code', { 'data-test': 'slot' }, count(slot)), h('small', {}, `${hash} = ${hash / BigInt(setup.size)} × ${setup.size} + ${slot}`)));
      steps.push(step(`table[${count(slot)}]`, chip(owner, short[owner]), ' ', h('strong', { 'data-test': 'owner' }, state.backends[owner].name)));
    } else {
      steps.push(step(policy(setup.policy).title, chip(owner, short[owner]), ' ', h('strong', { 'data-test': 'owner' }, state.backends[owner].name)));
    }
    return steps;
  }
}
