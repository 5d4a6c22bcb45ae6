// Answers as they come: asks again and again while somebody looks, and says when nobody answers.

import { Locked } from './api.js';
import { Reading } from './rates.js';

const EVERY_MS = 2000;
/** Of large answers the daemon and the page get this much rest for each moment that one took. */
const REST = 4;
/** Events that are kept. */
const EVENTS = 200;

/** What is known is `latest`; `state` is `asking`, `live`, `locked` (a token is wanted), `away` (nobody answers) or `paused`. */
export class Feed {
  state = 'asking';
  /** Why it is away. */
  problem = '';
  /** Whether the daemon refused the token that it was given. */
  refused = false;
  latest = null;
  #api;
  #tell;
  #timer = null;
  #round = 0;

  /** `tell` is called whenever there is something new. */
  constructor(api, tell) {
    this.#api = api;
    this.#tell = tell;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#rest() : this.resume()));
  }

  /** Asks at once, and again from then on. */
  async resume() {
    this.#rest();
    if (document.hidden || this.state === 'paused') return;
    const round = this.#round;
    const began = performance.now();
    try {
      const latest = await this.#ask();
      if (round !== this.#round) return;
      this.latest = latest;
      this.state = 'live';
      this.refused = false;
    } catch (error) {
      if (round !== this.#round) return;
      this.state = error instanceof Locked ? 'locked' : 'away';
      this.refused = this.state === 'locked' && this.#api.hasToken;
      this.problem = error.message;
    }
    this.#tell(this);
    if (this.state !== 'locked') this.#timer = setTimeout(() => this.resume(), Math.max(EVERY_MS, REST * (performance.now() - began)));
  }

  /** Stops where it is, or goes on. */
  setPaused(paused) {
    this.state = paused ? 'paused' : 'asking';
    this.#tell(this);
    this.resume();
  }

  /** Uses a token, or forgets it. */
  setToken(token) {
    this.#api.setToken(token);
    this.state = 'asking';
    if (token === null) this.latest = null;
    this.resume();
  }

  /** How old the numbers are, seconds. */
  age() {
    return this.latest === null ? null : (performance.now() - this.latest.at) / 1000;
  }

  /** Waits no more, and disregards what is still under way. */
  #rest() {
    this.#round += 1;
    clearTimeout(this.#timer);
  }

  async #ask() {
    const { value: status, clock } = await this.#api.get('status');
    // Events are numbered from 1 by each daemon.
    const sameDaemon = this.latest?.status.started_at === status.started_at;
    const known = sameDaemon ? this.latest.events : [];
    const after = known.at(-1)?.number ?? 0;
    const [services, events] = await Promise.all([this.#api.get('services'), this.#api.get(`events?after=${after}&limit=100`)]);
    const at = performance.now();
    const reading = new Reading(status, services.value, at);
    return {
      status, clock, at, reading,
      services: services.value,
      events: [...known, ...events.value].slice(-EVENTS),
      rates: reading.since(sameDaemon ? this.latest.reading : null),
    };
  }
}
