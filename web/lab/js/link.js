// The state in the part of the address after '#', so that a link shows what its sender saw.
// Names are percent-encoded first, so ',' and ':' are free to separate.

import {
  DEFAULT_SEED, MAX_BACKENDS, MAX_SIZE, MAX_WEIGHT, POLICIES, VIEWS, initial,
} from './state.js';

const part = encodeURIComponent;

export function encode(state) {
  const fields = [['view', state.view], ['policy', state.policy], ['m', state.size]];
  if (state.seed !== DEFAULT_SEED) fields.push(['seed', `0x${state.seed.toString(16)}`]);
  if (state.given) fields.push(['given', 1]);
  fields.push(['b', state.backends.map((b) => encodeBackend(b, state.given)).join(',')]);
  if (state.view === 'draft') fields.push(['turn', state.turn]);
  if (state.view === 'lookup') fields.push(['key', part(state.key)]);
  if (state.view === 'lookup' || state.view === 'change') fields.push(['other', state.other]);
  if (state.view === 'change' || state.view === 'compare') {
    const changes = state.changes.flatMap((c, i) => (c ? [c.op === 'weight' ? `${i}:weight:${c.weight}` : `${i}:${c.op}`] : []));
    fields.push(['change', changes.join(',')]);
    if (state.added.length) fields.push(['add', state.added.map((b) => encodeBackend(b, state.given)).join(',')]);
  }
  if (state.view === 'compare') fields.push(['with', state.compared.join(',')], ['seeds', state.seeds]);
  return `#${fields.map(([name, value]) => `${name}=${value}`).join('&')}`;
}

function encodeBackend(b, given) {
  if (given) return [part(b.name), b.weight, b.offset, b.skip].join(':');
  return b.weight === 1 ? part(b.name) : `${part(b.name)}:${b.weight}`;
}

/** The state in `hash`. What is missing or makes no sense is as at first. */
export function decode(hash) {
  const state = initial();
  const fields = new Map(hash.replace(/^#/, '').split('&').map((f) => {
    const at = f.indexOf('=');
    return at < 0 ? [f, ''] : [f.slice(0, at), f.slice(at + 1)];
  }));
  const take = (name, parse) => {
    if (!fields.has(name)) return undefined;
    try {
      return parse(fields.get(name));
    } catch {
      return undefined;
    }
  };
  const among = (list) => (value) => (list.includes(value) ? value : undefined);
  const ids = POLICIES.map((p) => p.id);
  const set = (name, value) => { if (value !== undefined) state[name] = value; };

  set('view', take('view', among(VIEWS)));
  set('policy', take('policy', among(ids)));
  set('other', take('other', among(ids)));
  set('size', take('m', (v) => whole(v, 2, MAX_SIZE)));
  set('seed', take('seed', parseSeed));
  const backends = take('b', (v) => decodeBackends(v));
  if (backends?.length) {
    state.backends = backends;
    state.given = fields.get('given') === '1';
    state.changes = backends.map(() => null);
  }
  set('turn', take('turn', (v) => whole(v, 0, state.size)));
  set('key', take('key', decodeURIComponent));
  for (const [i, change] of take('change', decodeChanges) ?? []) {
    if (i < state.backends.length) state.changes[i] = change;
  }
  set('added', take('add', decodeBackends));
  set('compared', take('with', (v) => ids.filter((id) => v.split(',').includes(id))));
  set('seeds', take('seeds', (v) => whole(v, 1, 10)));
  return state;
}

/** A seed, decimal or after 0x hexadecimal, below 2^64; undefined for anything else. */
export function parseSeed(text) {
  if (!/^(0x[0-9a-f]{1,16}|\d{1,20})$/i.test(text.trim())) return undefined;
  const seed = BigInt(text.trim());
  return seed < 1n << 64n ? seed : undefined;
}

function whole(text, low, high) {
  if (!/^\d+$/.test(text)) return undefined;
  const value = Number(text);
  return value >= low && value <= high ? value : undefined;
}

function decodeBackends(text) {
  return text.split(',').filter(Boolean).slice(0, MAX_BACKENDS).map((item) => {
    const [name, weight, offset, skip] = item.split(':');
    return {
      name: decodeURIComponent(name), weight: whole(weight ?? '', 0, MAX_WEIGHT) ?? 1,
      offset: whole(offset ?? '', 0, MAX_SIZE) ?? 0, skip: whole(skip ?? '', 1, MAX_SIZE) ?? 1,
    };
  });
}

function decodeChanges(text) {
  return text.split(',').flatMap((item) => {
    const [at, op, weight] = item.split(':');
    const index = whole(at, 0, MAX_BACKENDS);
    if (index === undefined) return [];
    if (op === 'remove' || op === 'drain') return [[index, { op }]];
    const value = whole(weight ?? '', 0, MAX_WEIGHT);
    return op === 'weight' && value !== undefined ? [[index, { op, weight: value }]] : [];
  });
}
