// A table at any moment of its making.

/** The steps by which a table of `setup` comes about: a draft's turns, or one slot after another. */
export function stepsOf(session, setup) {
  if (setup.policy === 'maglev') return session.draft(setup);
  const { owners } = session.cells(setup);
  const order = setup.backends.flatMap((b, i) => (b.weight > 0 ? [{ backend: i }] : []));
  return {
    order,
    length: owners.length,
    turn: (at) => ({ backend: owners[at], slot: at, round: null, refused: [] }),
  };
}

/** Plays steps to a moment and keeps what is to be seen then. */
export class Replay {
  #steps = null;

  /** Goes to the moment after `done` steps. */
  seek(steps, backends, done) {
    if (steps !== this.#steps || done < this.done) {
      this.#steps = steps;
      this.done = 0;
      this.owners = new Int32Array(steps.length).fill(-1);
      this.counts = new Uint32Array(backends);
      this.asked = new Uint32Array(backends);
    }
    for (; this.done < done; this.done += 1) {
      const { backend, slot, refused } = steps.turn(this.done);
      this.owners[slot] = backend;
      this.counts[backend] += 1;
      this.asked[backend] += refused.length + 1;
    }
    return this;
  }
}

/** The slots that a backend wants, from place `from` on, at most `length` of them. */
export function preferenceSlots({ offset, skip }, size, from, length) {
  const places = Math.min(length, size - from);
  return Array.from({ length: Math.max(0, places) }, (_, j) => (offset + (from + j) * skip) % size);
}
