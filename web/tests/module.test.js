// The module itself, in Node.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Library, Refusal } from '../lab/js/library.js';
import { decode, encode, parseSeed } from '../lab/js/link.js';
import { EXAMPLES, changeOf, initial, setupOf } from '../lab/js/state.js';
import { Reader, Writer } from '../lab/js/words.js';
import { differences, records } from './golden.js';

// WASM names another build of the module, where the kept one can't be had from this compiler.
const library = await Library.of(await readFile(process.env.WASM ?? new URL('../lab/guideway.wasm', import.meta.url)));

test('golden records hold in the module', async () => {
  const all = await records();
  assert.ok(all.length > 50, `${all.length} records`);
  assert.deepEqual(await differences(library, all), []);
});

test('a record that does not hold is found', async () => {
  const [record] = (await records()).filter((r) => r.flow_slots?.length);
  const spoilt = { ...record, sha256_le_u32: '00', flow_slots: [{ ...record.flow_slots[0], slot: record.table_size }] };
  assert.equal((await differences(library, [spoilt])).length, 2);
});

test('the seven slots of the specification are drafted as printed', () => {
  const draft = library.draft(setupOf(initial()));
  const turns = Array.from({ length: draft.length }, (_, i) => {
    const { round, backend, refused, slot } = draft.turn(i);
    return [round, 'ABC'[backend], [...refused], slot];
  });
  assert.deepEqual(turns, [
    [0, 'A', [], 3], [0, 'B', [], 0], [0, 'C', [3], 4],
    [1, 'A', [0, 4], 1], [1, 'B', [], 2], [1, 'C', [], 5],
    [2, 'A', [5, 2], 6],
  ]);
});

test('without B slot 6 moves needlessly, and nothing does in a rendezvous table', () => {
  const moves = (policy) => {
    const { before, after } = changeOf(initial(), policy);
    return library.change(before, after).moves;
  };
  assert.deepEqual(moves('maglev'), { compared: 7, departed: 2, attracted: 0, needless: 1, least: 2, moved: 3 });
  assert.equal(moves('rendezvous-table').needless, 0);
});

test('refusals come in the library’s words and leave the module usable', () => {
  const setup = setupOf(initial());
  assert.throws(() => library.size(100), (e) => e instanceof Refusal && e.message.includes('97 and 101'));
  assert.throws(() => library.cells({ ...setup, backends: [setup.backends[0], setup.backends[0]] }), /same identity/);
  assert.equal(library.cells(setup).owners.join(''), '1010220');
});

test('a library that stops is started anew', () => {
  let started = 0;
  const stopping = new Library(null, () => {
    started += 1;
    return { exports: { memory: { buffer: new ArrayBuffer(64) }, request: () => 0, answer: () => { throw new WebAssembly.RuntimeError('unreachable'); } } };
  });
  assert.throws(() => stopping.size(7), /stopped at this question.*unreachable/);
  assert.equal(started, 2);
});

test('texts and numbers survive the way into words and back', () => {
  const written = new Writer().text('zürich 🚋').long(0x0123_4567_89ab_cdefn).word(7).list([1, 2], (w, n) => w.word(n));
  const reader = new Reader(Uint32Array.from(written.words));
  assert.equal(reader.text(), 'zürich 🚋');
  assert.equal(reader.long(), 0x0123_4567_89ab_cdefn);
  assert.equal(reader.word(), 7);
  assert.deepEqual([...reader.words()], [1, 2]);
});

test('a state survives the way into a link and back', () => {
  const odd = [{ name: 'a:b,c&d=é#%', weight: 3, offset: 5, skip: 2 }, { name: '<b>', weight: 1, offset: 1, skip: 1 }];
  const states = [
    initial(),
    { ...initial(), ...structuredClone(EXAMPLES[3].setup), view: 'lookup', key: 'x&y=z #1', changes: Array(12).fill(null) },
    { ...initial(), view: 'change', backends: odd, changes: [{ op: 'weight', weight: 9 }, { op: 'drain' }], added: [odd[0]] },
    { ...initial(), view: 'compare', policy: 'ring', seed: 1n << 63n, compared: ['maglev', 'jump'], seeds: 10 },
  ];
  for (const state of states) {
    const link = encode(state);
    assert.equal(encode(decode(link)), link);
    assert.deepEqual(decode(link).backends, state.backends.map((b) => (state.given ? b : { ...b, offset: 0, skip: 1 })));
  }
});

test('a link that makes no sense is read as far as it does', () => {
  for (const link of ['#', '#view=nowhere', '#m=abc&b=', '#b=%E0%A4%A&seed=zzz', '#turn=999999&m=7', '#change=99:remove,x,1:weight:-1']) {
    const state = decode(link);
    assert.ok(state.backends.length > 0 && state.turn <= state.size, link);
  }
  assert.equal(parseSeed('18446744073709551615'), (1n << 64n) - 1n);
  assert.equal(parseSeed('18446744073709551616'), undefined);
});
