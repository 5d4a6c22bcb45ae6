// The panel in which table and backends are edited.

import { chip, labels } from './palette.js';
import { h, show } from './dom.js';
import { parseSeed } from './link.js';
import {
  BUTTON_SIZES, EXAMPLES, MAP_SIZES, MAX_BACKENDS, MAX_SIZE, MAX_WEIGHT, POLICIES, backend, freshName, policy, setupOf,
} from './state.js';
import { commandLine } from './command-line.js';

export class SetupPanel {
  #store;
  #session;
  #rows = h('ul.backends');
  #shape = '';
  #seen = [];
  #refs = {};

  constructor(store, session) {
    this.#store = store;
    this.#session = session;
    this.element = h('div.setup', {}, this.#table(), this.#people(), this.#footer());
  }

  #table() {
    const r = this.#refs;
    r.example = h('select', { id: 'example', onchange: (e) => this.#load(e.target.value) },
      h('option', { value: '' }, 'Choose an example…'), EXAMPLES.map((x) => h('option', { value: x.id }, x.title)));
    r.policy = h('select', { id: 'policy', onchange: (e) => this.#store.update({ policy: e.target.value }) },
      POLICIES.map((p) => h('option', { value: p.id }, p.title)));
    r.note = h('p.note');
    const button = (size) => h('button.size', { type: 'button', 'data-size': size, onclick: () => this.#resize(size) }, String(size));
    r.small = h('div.sizes', { role: 'group', 'aria-label': 'Small tables' }, BUTTON_SIZES.map(button));
    r.large = h('div.sizes', { role: 'group', 'aria-label': 'Large tables, drawn as maps' }, MAP_SIZES.map(button));
    r.size = h('input', { id: 'size', inputmode: 'numeric', autocomplete: 'off', size: 7, onchange: (e) => this.#typeSize(e.target.value) });
    r.sizeError = h('p.error', { role: 'alert', hidden: true });
    return h('fieldset', {}, h('legend', {}, 'Table'),
      h('label', { for: 'example' }, 'Example'), r.example,
      h('label', { for: 'policy' }, 'Policy'), r.policy, r.note,
      h('div.row', {}, h('label', { for: 'size' }, 'Slots, M (a prime)'), r.size), r.small, r.large, r.sizeError);
  }

  #people() {
    const r = this.#refs;
    r.given = h('input', { type: 'checkbox', id: 'given', onchange: (e) => this.#setGiven(e.target.checked) });
    r.givenRow = h('p.check', {}, r.given, h('label', { for: 'given' }, 'Set offsets and skips by hand'));
    r.add = h('button.add', { type: 'button', onclick: () => this.#add() }, '+ Add a backend');
    r.full = h('p.note', { hidden: true }, `This page holds ${MAX_BACKENDS} backends; the library and the commands take more.`);
    r.error = h('p.error', { role: 'alert', hidden: true });
    r.columns = h('div.columns', { 'aria-hidden': 'true' });
    return h('fieldset', {}, h('legend', {}, 'Backends'), r.columns, this.#rows, r.add, r.full, r.givenRow, r.error);
  }

  #footer() {
    const r = this.#refs;
    r.seed = h('input', { id: 'seed', autocomplete: 'off', spellcheck: 'false', onchange: (e) => this.#typeSeed(e.target.value) });
    r.seedError = h('p.error', { role: 'alert', hidden: true });
    const another = () => {
      const words = crypto.getRandomValues(new Uint32Array(2));
      this.#store.update({ seed: (BigInt(words[0]) << 32n) | BigInt(words[1]) });
    };
    r.digest = h('code.digest');
    r.command = h('code.command');
    return h('fieldset', {}, h('legend', {}, 'Fleet'),
      h('label', { for: 'seed' }, 'Seed, which all balancers share'),
      h('div.row', {}, r.seed, h('button', { type: 'button', onclick: another }, 'Another')), r.seedError,
      h('details', {}, h('summary', {}, 'Digest and command'),
        h('p.note', {}, 'Every balancer with this table shows this digest:'), r.digest,
        h('p.note', {}, 'The same from the command line:'), r.command));
  }

  update(state) {
    // A turn more or less changes nothing here.
    const seen = ['backends', 'added', 'size', 'seed', 'given', 'policy', 'key'].map((name) => state[name]);
    if (this.#seen.length > 0 && seen.every((value, i) => value === this.#seen[i])) return;
    this.#seen = seen;
    const r = this.#refs;
    show(r.policy, state.policy);
    r.note.textContent = policy(state.policy).note;
    show(r.size, state.size);
    r.sizeError.hidden = true;
    r.seedError.hidden = true;
    for (const b of this.element.querySelectorAll('.size')) {
      b.setAttribute('aria-pressed', String(Number(b.dataset.size) === state.size));
    }
    show(r.seed, `0x${state.seed.toString(16)}`);
    r.given.checked = state.given;
    r.givenRow.hidden = state.policy !== 'maglev';
    r.add.disabled = state.backends.length >= MAX_BACKENDS;
    r.full.hidden = !r.add.disabled;
    this.#updateRows(state);
    r.command.textContent = commandLine(state) ?? '(no command: beside offsets and skips it takes no weights)';
    try {
      const { digest } = this.#session.cells(setupOf(state));
      r.digest.textContent = digest || '(no table, no digest)';
      r.error.hidden = true;
    } catch (error) {
      r.error.textContent = error.message;
      r.error.hidden = false;
    }
  }

  #updateRows(state) {
    const hands = state.given && state.policy === 'maglev';
    const shape = `${state.backends.length} ${hands}`;
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#rows.replaceChildren(...state.backends.map((_, i) => this.#row(i, hands)));
      this.#rows.classList.toggle('hands', hands);
      const heads = ['', 'name', 'weight', ...(hands ? ['offset', 'skip'] : []), ''];
      this.#refs.columns.replaceChildren(...heads.map((text) => h('span', {}, text)));
      this.#refs.columns.classList.toggle('hands', hands);
    }
    const short = labels(state.backends);
    [...this.#rows.children].forEach((row, i) => {
      row.querySelector('.chip').replaceWith(chip(i, short[i], { 'aria-hidden': 'true' }));
      for (const input of row.querySelectorAll('input')) {
        show(input, state.backends[i][input.dataset.field]);
        input.setAttribute('aria-label', `${input.dataset.field} of backend ${short[i]}`);
      }
      row.querySelector('button').setAttribute('aria-label', `Take ${state.backends[i].name} off the list`);
    });
  }

  #row(i, hands) {
    const field = (name, parse) => h('input', {
      'data-field': name, autocomplete: 'off', spellcheck: 'false', inputmode: name === 'name' ? 'text' : 'numeric',
      onchange: (e) => {
        const value = parse(e.target.value);
        if (value === undefined) e.target.value = this.#store.state.backends[i][name];
        else this.#edit(i, { [name]: value });
      },
    });
    const whole = (low, high) => (text) => (/^\d+$/.test(text.trim()) ? Math.min(high, Math.max(low, Number(text))) : undefined);
    return h('li', {}, chip(i, ''), field('name', (v) => v.trim() || undefined), field('weight', whole(0, MAX_WEIGHT)),
      hands ? [field('offset', whole(0, MAX_SIZE)), field('skip', whole(1, MAX_SIZE))] : [],
      h('button.remove', { type: 'button', onclick: () => this.#remove(i) }, '✕'));
  }

  #edit(i, patch) {
    const { backends } = this.#store.state;
    this.#store.update({ backends: backends.map((b, at) => (at === i ? { ...b, ...patch } : b)) });
  }

  #remove(i) {
    const { backends, changes } = this.#store.state;
    const others = (list) => list.filter((_, at) => at !== i);
    this.#store.update({ backends: others(backends), changes: others(changes) });
    (this.#rows.children[Math.min(i, backends.length - 2)]?.querySelector('button') ?? this.#refs.add).focus();
  }

  #add() {
    const { state } = this.#store;
    const fresh = backend(freshName([...state.backends, ...state.added]));
    this.#store.update({ backends: [...state.backends, this.#hashed(fresh)] });
  }

  /** The backend with the offset and skip that its name hashes to. */
  #hashed(b) {
    const setup = { ...setupOf(this.#store.state, 'maglev'), given: false, backends: [{ ...b, weight: 1 }] };
    const [{ offset, skip }] = this.#session.draft(setup).order;
    return { ...b, offset, skip };
  }

  #setGiven(given) {
    const { backends } = this.#store.state;
    this.#store.update(given ? { given, backends: backends.map((b) => this.#hashed(b)) } : { given });
  }

  #load(id) {
    const example = EXAMPLES.find((x) => x.id === id);
    this.#refs.example.value = '';
    if (!example) return;
    const { backends, ...rest } = structuredClone(example.setup);
    const last = backends.length - 1;
    const gone = id === 'seven' ? 1 : last;
    this.#store.update({
      ...rest, backends, policy: 'maglev', turn: 0, added: [], changes: backends.map((_, i) => (i === gone ? { op: 'remove' } : null)),
    });
  }

  #resize(size) {
    // The size may be the one there is; what was refused before it is gone all the same.
    this.#refs.sizeError.hidden = true;
    show(this.#refs.size, size);
    this.#store.update({ size });
  }

  #typeSize(text) {
    const error = this.#refs.sizeError;
    const refuse = (message) => {
      error.textContent = message;
      error.hidden = false;
    };
    // Digits, or groups of three with marks between them.
    if (!/^\s*(\d+|\d{1,3}([\s,._]\d{3})+)\s*$/.test(text)) return refuse('Write a whole number.');
    const number = Number(text.replace(/\D/g, ''));
    if (number > MAX_SIZE) return refuse(`This page goes up to ${MAX_SIZE} slots; the library up to 5000011.`);
    try {
      this.#session.size(number);
    } catch (refusal) {
      return refuse(refusal.message);
    }
    return this.#resize(number);
  }

  #typeSeed(text) {
    const seed = parseSeed(text);
    this.#refs.seedError.hidden = seed !== undefined;
    this.#refs.seedError.textContent = 'Write a number below 2^64, decimal or, after 0x, hexadecimal.';
    if (seed !== undefined) this.#store.update({ seed });
  }
}
