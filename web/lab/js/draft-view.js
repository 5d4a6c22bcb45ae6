// Draft: a table fills, turn by turn.

import { Board, GRID_LIMIT } from './board.js';
import { count, h } from './dom.js';
import { chip, labels } from './palette.js';
import { Player } from './player.js';
import { Replay, preferenceSlots, stepsOf } from './replay.js';
import { policy, setupOf } from './state.js';

const SHOWN_PREFERENCES = 31;
const WINDOW = 16;
const SHOWN_BACKENDS = 24;

export class DraftView {
  #store;
  #session;
  #replay = new Replay();
  #board = new Board('draft');
  #refs = {};

  constructor(store, session) {
    this.#store = store;
    this.#session = session;
    this.player = new Player((turn) => store.update({ turn }));
    const r = this.#refs;
    r.narration = h('p.narration');
    r.score = h('ol.score', { 'aria-label': 'Slots so far' });
    r.aside = h('div.preferences', { tabindex: 0, role: 'group', 'aria-label': 'Preference lists or bids' });
    r.asideTitle = h('h3');
    r.key = h('p.key', {}, keyItem('mine', 'got it'), keyItem('lost', 'asked, taken'), keyItem('wanted', 'asks next'));
    this.element = h('section.view.draft', {}, h('h2.unseen', {}, 'Draft'),
      h('div.stage', {}, r.narration, this.#board.element, this.player.element),
      h('div.columns-2', {},
        h('section', {}, h('h3', {}, 'Whose turn, and slots so far'), r.score),
        h('section', {}, r.asideTitle, r.aside, r.key)));
    this.element.addEventListener('keydown', (event) => this.#key(event));
  }

  #key(event) {
    if (event.target.matches('input, select, textarea') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'ArrowRight') this.player.step(1);
    else if (event.key === 'ArrowLeft') this.player.step(-1);
    else return;
    event.preventDefault();
  }

  leave() {
    this.player.pause();
  }

  update(state) {
    const setup = setupOf(state);
    const steps = stepsOf(this.#session, setup);
    const turn = Math.min(state.turn, steps.length);
    const replay = this.#replay.seek(steps, state.backends.length, turn);
    const last = turn > 0 ? steps.turn(turn - 1) : null;
    const short = labels(state.backends);
    const names = state.backends.map((b) => b.name);
    const refused = new Set(last?.refused ?? []);
    const noun = policy(state.policy).table ? 'slot' : 'flow';
    this.player.show(turn, steps.length);
    this.#board.show({
      size: steps.length, noun, labels: short, names,
      caption: `Table of ${count(steps.length)} ${noun}s, ${count(turn)} of them taken`,
      owner: (i) => replay.owners[i],
      mark: (i) => {
        if (last && i === last.slot) return { kind: 'fresh' };
        return refused.has(i) ? { kind: 'refused', badge: '✕' } : {};
      },
      // On a map a single pixel is hard to find, so the cursor goes there; not while it plays, nor when all is done.
      lit: last && steps.length > GRID_LIMIT && turn < steps.length && !this.player.playing ? last.slot : null,
    });
    this.#narrate(state, steps, turn, last, short, noun);
    this.#showScore(state, steps, replay, turn, last, short);
    this.#showAside(state, setup, steps, replay, last, short);
  }

  #narrate(state, steps, turn, last, short, noun) {
    const { narration } = this.#refs;
    // While it plays by itself, nobody wants every turn read out.
    narration.setAttribute('aria-live', this.player.playing ? 'off' : 'polite');
    if (!last) {
      const opening = {
        maglev: 'Every backend has its own order of preference over the slots. In turns, each takes the one it wants most of those still free.',
        'rendezvous-table': 'There are no turns here: for each slot every backend makes a bid, and the best bid gets it.',
      }[state.policy] ?? `${policy(state.policy).title} has no table. Each cell is one of ${count(steps.length)} sample flows, and is given to whom the policy answers.`;
      narration.replaceChildren(opening);
      return;
    }
    const who = chip(last.backend, short[last.backend]);
    const name = h('strong', {}, state.backends[last.backend].name);
    const asked = [...last.refused];
    const text = [];
    if (last.round !== null) text.push(h('span.round', {}, `Round ${last.round + 1}`), ' ');
    text.push(who, ' ', name);
    if (asked.length > 0) {
      const listed = asked.length > 12 ? `${asked.slice(0, 12).join(', ')} and ${asked.length - 12} more` : asked.join(', ');
      text.push(` asks for ${listed}: taken. It gets `);
    } else {
      text.push(state.policy === 'maglev' ? ' gets its wish, ' : state.policy === 'rendezvous-table' ? ' bids best for ' : ' takes ');
    }
    text.push(h('strong', {}, `${noun} ${count(last.slot)}`), '.');
    if (turn === steps.length) text.push(' The table is full.');
    narration.replaceChildren(...text);
  }

  #showScore(state, steps, replay, turn, last, short) {
    const next = turn < steps.length ? steps.turn(turn).backend : null;
    const most = Math.max(1, ...replay.counts);
    const rows = steps.order.slice(0, SHOWN_BACKENDS).map(({ backend }) => {
      const mine = last?.backend === backend;
      const turnSign = mine ? 'its turn' : next === backend && state.policy === 'maglev' ? 'next' : '';
      return h('li', { 'data-turn': turnSign }, chip(backend, short[backend]), h('span.name', {}, state.backends[backend].name),
        h('span.bar', { 'aria-hidden': 'true' }, h('span', { style: { width: `${(100 * replay.counts[backend]) / most}%` } })),
        h('span.figure', {}, count(replay.counts[backend])), h('span.sign', {}, turnSign));
    });
    const more = steps.order.length - SHOWN_BACKENDS;
    if (more > 0) rows.push(h('li.more', {}, `and ${more} more`));
    this.#refs.score.replaceChildren(...rows);
  }

  #showAside(state, setup, steps, replay, last, short) {
    const { aside, asideTitle, key } = this.#refs;
    key.hidden = state.policy !== 'maglev';
    if (state.policy === 'maglev') {
      asideTitle.textContent = 'Preference lists';
      aside.replaceChildren(...steps.order.slice(0, SHOWN_BACKENDS).map((p) => preferenceRow(p, setup, replay, last, short)));
    } else if (setup.policy.startsWith('rendezvous') && last) {
      asideTitle.textContent = `Bids for ${policy(state.policy).table ? 'slot' : 'flow'} ${last.slot}`;
      aside.replaceChildren(state.policy === 'rendezvous-table'
        ? bidList(this.#session.bids(setup, last.slot), setup.backends, short)
        : h('p.note', {}, 'Look up a key to see the bids for it.'));
    } else {
      asideTitle.textContent = 'How it works';
      aside.replaceChildren(h('p.note', {}, policy(state.policy).note));
    }
  }
}

function keyItem(kind, text) {
  return h('span', {}, h('span.want', { 'data-kind': kind }, '4'), ` ${text}`);
}

function preferenceRow(preference, { size, backends }, replay, last, short) {
  const { backend, offset, skip } = preference;
  const asked = replay.asked[backend];
  const from = size <= SHOWN_PREFERENCES ? 0 : Math.max(0, Math.min(asked - 4, size - WINDOW));
  const slots = preferenceSlots(preference, size, from, size <= SHOWN_PREFERENCES ? size : WINDOW);
  const items = slots.map((slot, j) => {
    const place = from + j;
    const kind = place < asked ? (replay.owners[slot] === backend ? 'mine' : 'lost') : place === asked ? 'wanted' : 'later';
    return h('li.want', { 'data-kind': kind }, String(slot));
  });
  const current = last?.backend === backend;
  return h('div.preference', { 'data-current': current ? 'yes' : 'no', style: { '--hue': chip(backend, '').style.getPropertyValue('--hue') } },
    h('p', {}, chip(backend, short[backend]), ` offset ${count(offset)}, skip ${count(skip)}`, from > 0 ? `, from place ${count(from)}` : ''),
    h('ol.wants', { 'aria-label': `What ${backends[backend].name} wants, in order` }, from > 0 ? h('li.gap', {}, '…') : null, items, from + slots.length < size ? h('li.gap', {}, '…') : null));
}

/** Bids as bars: the longest wins. */
export function bidList({ winner, bids }, backends, short) {
  const sorted = [...bids].sort((a, b) => a.perWeight - b.perWeight).slice(0, SHOWN_BACKENDS);
  const best = 1 / sorted[0].perWeight;
  const items = sorted.map((bid) => {
    const score = 1 / bid.perWeight;
    return h('li', { 'data-winner': bid.backend === winner ? 'yes' : 'no' }, chip(bid.backend, short[bid.backend]),
      h('span.name', {}, backends[bid.backend].name),
      h('span.bar', { 'aria-hidden': 'true' }, h('span', { style: { width: `${(100 * score) / best}%` } })),
      h('span.figure', {}, score.toFixed(3)), h('span.sign', {}, bid.backend === winner ? 'wins' : ''));
  });
  const more = bids.length - sorted.length;
  return h('div', {},
    h('ol.score.bids', { 'aria-label': 'Bids, best first' }, items, more > 0 ? h('li.more', {}, `and ${more} lower bids`) : null),
    h('p.note', {}, 'A bid is the weight over −log₂ u, where u is a hash of backend and key between 0 and 1.'));
}
