// What the page shows, as one plain object, and what can be asked of it.

export const POLICIES = [
  { id: 'maglev', title: 'Maglev', table: true, note: 'A table, filled in turns. Even to one slot.' },
  { id: 'rendezvous-table', title: 'Rendezvous table', table: true, note: 'A table in which each slot goes to its best bidder. Nothing moves needlessly.' },
  { id: 'rendezvous', title: 'Rendezvous', table: false, note: 'No table: everybody bids for each flow, the best bid wins.' },
  { id: 'ring', title: 'Ring', table: false, note: '160 points a backend on a circle; the next point owns the flow.' },
  { id: 'jump', title: 'Jump', table: false, note: 'A few steps of arithmetic. Only the last backend can leave cheaply.' },
  { id: 'modulo', title: 'Modulo', table: false, note: 'The remainder by the number of backends. The baseline: any change moves nearly all.' },
];
export const VIEWS = ['draft', 'lookup', 'change', 'compare', 'tour'];
export const BUTTON_SIZES = [7, 11, 13, 17, 19, 23, 29, 31];
export const MAP_SIZES = [127, 251, 1021, 4093, 16381, 65537];
export const MAX_SIZE = 65537;
export const MAX_BACKENDS = 120;
export const MAX_WEIGHT = 1_000_000;
export const DEFAULT_SEED = 0x6775_6964_6577_6179n;
export const FLOWS = 20_000;

export const policy = (id) => POLICIES.find((p) => p.id === id);

export const backend = (name, weight = 1, offset = 0, skip = 1) => ({ name, weight, offset, skip });

const numbered = (count) => Array.from({ length: count }, (_, i) => backend(`10.0.0.${i + 1}:443`));

/** Ready-made setups: what each replaces in the state. */
export const EXAMPLES = [
  {
    id: 'seven', title: 'Seven slots: A, B, C',
    setup: { size: 7, given: true, backends: [backend('A', 1, 3, 4), backend('B', 1, 0, 2), backend('C', 1, 3, 1)] },
  },
  { id: 'four', title: 'Four equal backends', setup: { size: 31, given: false, backends: ['alpha', 'beta', 'gamma', 'delta'].map((n) => backend(n)) } },
  { id: 'weights', title: 'Weights 1, 2 and 4', setup: { size: 31, given: false, backends: [backend('small', 1), backend('medium', 2), backend('large', 4)] } },
  { id: 'twelve', title: 'Twelve backends, 1021 slots', setup: { size: 1021, given: false, backends: numbered(12) } },
  { id: 'hundred', title: 'A hundred backends, 65537 slots', setup: { size: 65537, given: false, backends: numbered(100) } },
];

export function initial() {
  return {
    view: 'draft', policy: 'maglev', other: 'rendezvous-table', seed: DEFAULT_SEED,
    ...structuredClone(EXAMPLES[0].setup),
    turn: 0, key: 'user-42',
    changes: [null, { op: 'remove' }, null], added: [],
    compared: ['maglev', 'rendezvous-table'], seeds: 5,
  };
}

/** The setup that the library is asked about. Offsets and skips are brought into range. */
export function setupOf(state, policyId = state.policy, seed = state.seed) {
  return {
    policy: policyId, size: state.size, seed, given: state.given && policyId === 'maglev',
    backends: state.backends.map((b) => fit(b, state.size)),
  };
}

/** The setups before and after the change, over one list of backends: those there are, then those added. */
export function changeOf(state, policyId) {
  const base = setupOf(state, policyId);
  const added = state.added.map((b) => fit(b, state.size));
  const applied = base.backends.map((b, i) => {
    const change = state.changes[i];
    if (!change) return b;
    return change.op === 'weight' ? { ...b, weight: change.weight } : { ...b, out: true };
  });
  return {
    before: { ...base, backends: [...base.backends, ...added.map((b) => ({ ...b, out: true }))] },
    after: { ...base, backends: [...applied, ...added] },
  };
}

export const isChanged = (state) => state.added.length > 0 || state.changes.some(Boolean);

function fit(b, size) {
  const within = (value, low, span) => low + ((((value - low) % span) + span) % span);
  return { ...b, offset: within(b.offset, 0, size), skip: within(b.skip, 1, Math.max(1, size - 1)) };
}

/** A name that no backend has yet. */
export function freshName(backends) {
  const taken = new Set(backends.map((b) => b.name));
  const letters = Array.from({ length: 26 }, (_, i) => String.fromCharCode(65 + i));
  if (backends.every((b) => b.name.length === 1)) {
    const letter = letters.find((l) => !taken.has(l));
    if (letter) return letter;
  }
  const address = backends.some((b) => /^10\.0\.0\.\d+:443$/.test(b.name));
  for (let i = backends.length + 1; ; i += 1) {
    const name = address ? `10.0.0.${i}:443` : `backend-${i}`;
    if (!taken.has(name)) return name;
  }
}

/** Holds the state and tells who listens when it changes. */
export class Store {
  #state;
  #listeners = [];

  constructor(state) {
    this.#state = state;
  }

  get state() {
    return this.#state;
  }

  listen(listener) {
    this.#listeners.push(listener);
  }

  /** Takes over `patch`; a new list of backends begins the draft anew and keeps changes in step. */
  update(patch) {
    const next = { ...this.#state, ...patch };
    if (patch.backends && !patch.changes) {
      next.changes = next.backends.map((_, i) => next.changes[i] ?? null);
    }
    const replayed = ['backends', 'size', 'seed', 'given', 'policy'].some((name) => name in patch);
    if (replayed && !('turn' in patch)) next.turn = next.turn >= this.#state.size ? next.size : 0;
    next.turn = Math.min(next.turn, next.size);
    this.#state = next;
    for (const listener of this.#listeners) listener(next);
  }
}
