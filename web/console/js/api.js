// The daemon's API beside this page. It is only ever asked; nothing here changes anything.

const KEY = 'guideway-token';
/** Longer than a busy daemon takes for ten thousand services. */
const PATIENCE_MS = 15_000;

/** The daemon wants a token, or another one. */
export class Locked extends Error {}

export class Api {
  #base;
  #token = remembered();

  constructor(base) {
    this.#base = base;
  }

  get hasToken() {
    return this.#token !== null;
  }

  /** Takes a token, or forgets the one there is. It lasts as long as the browser's tab. */
  setToken(token) {
    this.#token = token;
    try {
      if (token === null) sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, token);
    } catch {
      // Storage may be forbidden; the token then lasts as long as the page.
    }
  }

  /** What the API says at `path`, and the daemon's clock when it said so, ms. */
  async get(path) {
    const headers = this.#token === null ? {} : { authorization: `Bearer ${this.#token}` };
    const response = await fetch(new URL(path, this.#base), { headers, cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
    if (response.status === 401) throw new Locked();
    if (!response.ok) throw new Error(await problem(response));
    const date = Date.parse(response.headers.get('date') ?? '');
    return { value: await response.json(), clock: Number.isNaN(date) ? Date.now() : date };
  }
}

/** Why it refused, in its own words where it has some. */
async function problem(response) {
  const told = await response.json().catch(() => null);
  return told?.detail ?? `it answered ${response.status} ${response.statusText}`;
}

function remembered() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
