// The library with a memory: the same question about the same setup is asked once.

const KEPT = 24;

export class Session {
  #library;
  #answers = new Map();

  constructor(library) {
    this.#library = library;
  }

  cells = (setup) => this.#remembered('cells', setup);
  draft = (setup) => this.#remembered('draft', setup);
  lookup = (setup, key) => this.#remembered('lookup', setup, key);
  bids = (setup, key) => this.#remembered('bids', setup, key);
  change = (before, after) => this.#remembered('change', before, after);
  flows = (before, after, count) => this.#remembered('flows', before, after, count);
  size = (number) => this.#library.size(number);

  #remembered(question, ...parts) {
    const key = JSON.stringify([question, ...parts], (_, v) => (typeof v === 'bigint' ? `${v}n` : v));
    const known = this.#answers.get(key);
    if (known) return known;
    const answer = this.#library[question](...parts);
    this.#answers.set(key, answer);
    if (this.#answers.size > KEPT) this.#answers.delete(this.#answers.keys().next().value);
    return answer;
  }
}
