// Arrays of 32-bit words, as crates/guideway-wasm defines them.

export const NONE = 0xffff_ffff;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Writes a request. */
export class Writer {
  words = [];

  word(value) {
    this.words.push(value >>> 0);
    return this;
  }

  /** A 64-bit number, given as BigInt. */
  long(value) {
    this.words.push(Number(value & 0xffff_ffffn), Number((value >> 32n) & 0xffff_ffffn));
    return this;
  }

  text(text) {
    const bytes = encoder.encode(text);
    this.words.push(bytes.length);
    for (let at = 0; at < bytes.length; at += 4) {
      let word = 0;
      for (let i = 0; i < 4; i += 1) word |= (bytes[at + i] ?? 0) << (8 * i);
      this.words.push(word >>> 0);
    }
    return this;
  }

  list(items, write) {
    this.word(items.length);
    for (const item of items) write(this, item);
    return this;
  }
}

/** Reads a response. */
export class Reader {
  #words;
  #at = 0;

  constructor(words) {
    this.#words = words;
  }

  word() {
    return this.#words[this.#at++];
  }

  long() {
    const low = BigInt(this.word());
    return (BigInt(this.word()) << 32n) | low;
  }

  float() {
    const pair = Uint32Array.of(this.word(), this.word());
    return new Float64Array(pair.buffer)[0];
  }

  text() {
    const length = this.word();
    const bytes = new Uint8Array(length);
    for (let at = 0; at < length; at += 1) {
      if (at % 4 === 0) this.#at += 1;
      bytes[at] = this.#words[this.#at - 1] >>> (8 * (at % 4));
    }
    return decoder.decode(bytes);
  }

  /** A list of plain words, without copying. */
  words() {
    const length = this.word();
    this.#at += length;
    return this.#words.subarray(this.#at - length, this.#at);
  }

  list(read) {
    return Array.from({ length: this.word() }, () => read(this));
  }
}
