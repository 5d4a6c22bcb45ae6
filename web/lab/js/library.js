// guideway-hash, compiled to WebAssembly: questions as functions.

import { NONE, Reader, Writer } from './words.js';

const POLICY_NUMBERS = {
  maglev: 0, 'rendezvous-table': 1, rendezvous: 2, ring: 3, jump: 4, modulo: 5,
};
const QUESTIONS = {
  size: 0, cells: 1, draft: 2, lookup: 3, bids: 4, change: 5, flows: 6, profile: 7, profileFlow: 8,
};

/** The library says no, in its own words. */
export class Refusal extends Error {}

/** The library over a compiled module. */
export class Library {
  #start;
  #exports;

  /** `instantiate` makes an instance of `module`; a test may have one of its own. */
  constructor(module, instantiate = (m) => new WebAssembly.Instance(m, {})) {
    this.#start = () => instantiate(module).exports;
    this.#exports = this.#start();
  }

  /** Loads the module from where this file lies; a server that does not know its type will do. */
  static async load(url = new URL('../guideway.wasm', import.meta.url)) {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`${url} could not be loaded: ${response.status} ${response.statusText}`);
    return Library.of(await response.arrayBuffer());
  }

  /** The library in the bytes of a module. */
  static async of(bytes) {
    return new Library(await WebAssembly.compile(bytes));
  }

  #ask(question, write) {
    const writer = new Writer().word(question);
    write(writer);
    const { memory, request, answer, response, response_words } = this.#exports;
    const at = request(writer.words.length);
    new Uint32Array(memory.buffer, at, writer.words.length).set(writer.words);
    let refused;
    try {
      refused = answer();
    } catch (trap) {
      // Nothing is known of a stopped instance's memory, so the next question gets a new one.
      this.#exports = this.#start();
      throw new Error(`The library stopped at this question, which is a fault in it (${trap.message}).`, { cause: trap });
    }
    const reader = new Reader(new Uint32Array(memory.buffer, response(), response_words()).slice());
    if (refused) throw new Refusal(reader.text());
    return reader;
  }

  /** A table size with its neighbours; 0 where there is none. */
  size(number) {
    const reader = this.#ask(QUESTIONS.size, (writer) => writer.word(number));
    return { size: reader.word(), below: reader.word(), above: reader.word() };
  }

  /** Who owns each cell. */
  cells(setup) {
    const reader = this.#ask(QUESTIONS.cells, (writer) => writeSetup(writer, setup));
    return {
      slots: reader.word() === 1, owners: reader.words(), counts: reader.words(), digest: reader.text(),
    };
  }

  /** The draft of a Maglev table: who takes turns, and all turns. */
  draft(setup) {
    const reader = this.#ask(QUESTIONS.draft, (writer) => writeSetup(writer, setup));
    const order = reader.list((r) => ({ backend: r.word(), offset: r.word(), skip: r.word() }));
    const [backends, slots, rounds, ends, refused] = Array.from({ length: 5 }, () => reader.words());
    return {
      order,
      length: backends.length,
      turn: (at) => ({
        backend: backends[at], slot: slots[at], round: rounds[at], refused: refused.subarray(ends[at], ends[at + 1]),
      }),
    };
  }

  /** Where a key goes. */
  lookup(setup, key) {
    const reader = this.#ask(QUESTIONS.lookup, (writer) => writeSetup(writer, setup).text(key));
    const hash = reader.long();
    const slot = reader.word();
    return { hash, slot: slot === NONE ? null : slot, owner: reader.word() };
  }

  /** What everybody bids for a hash (or, of a table, a slot). */
  bids(setup, key) {
    const reader = this.#ask(QUESTIONS.bids, (writer) => writeSetup(writer, setup).long(BigInt(key)));
    const winner = reader.word();
    const bids = reader.list((r) => ({ backend: r.word(), hash: r.long(), cost: r.float(), perWeight: r.float() }));
    return { winner, bids };
  }

  /** What a change moves, cell by cell. */
  change(before, after) {
    const reader = this.#ask(QUESTIONS.change, (writer) => writeSetup(writeSetup(writer, before), after));
    return {
      slots: reader.word() === 1, before: reader.words(), after: reader.words(), fates: reader.words(),
      moves: readMoves(reader),
    };
  }

  /** What a change moves among sample flows, and how even they lay before. */
  flows(before, after, count) {
    const reader = this.#ask(QUESTIONS.flows, (writer) => writeSetup(writeSetup(writer, before), after).word(count));
    return {
      moves: readMoves(reader),
      highest: reader.float(), lowest: reader.float(), variation: reader.float(), overProvisioning: reader.float(),
    };
  }

  /** The table that another system would have. `backends` are as golden records have them. */
  profile({ profile, size, params, backends }) {
    const reader = this.#ask(QUESTIONS.profile, (writer) => {
      writeProfile(writer, profile, size, params).list(backends, (w, b) => w
        .text(b.key).word((b.weight ?? -1) + 1).word((b.locality ?? -1) + 1).text(b.state ?? 'active')
        .text(b.hostname ?? '').text(b.hash_key ?? '').word((b.last_weight ?? -1) + 1));
    });
    return reader.words();
  }

  /** The slot that another system gives a flow. */
  profileFlow({ profile, size, params, flow }) {
    const nowhere = flow.src.includes(':') ? '::' : '0.0.0.0';
    return this.#ask(QUESTIONS.profileFlow, (writer) => writeProfile(writer, profile, size, params)
      .text(flow.src).text(flow.dst ?? nowhere)
      .word(flow.port ?? 0).word(flow.dst_port ?? 0).word(flow.protocol ?? 0)).word();
  }
}

function writeSetup(writer, { policy, size, seed, given, backends }) {
  return writer.word(POLICY_NUMBERS[policy]).word(size).long(seed).word(given ? 1 : 0)
    .list(backends, (w, b) => w.text(b.name).word(b.weight).word(b.out ? 1 : 0).word(b.offset).word(b.skip));
}

function writeProfile(writer, profile, size, params = {}) {
  const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
  return writer.text(profile).word(size)
    .list(Object.entries(params), (w, [name, value]) => w.text(name).text(text(value)));
}

function readMoves(reader) {
  const [compared, departed, attracted, needless, least] = Array.from({ length: 5 }, () => reader.word());
  return { compared, departed, attracted, needless, least, moved: departed + attracted + needless };
}
