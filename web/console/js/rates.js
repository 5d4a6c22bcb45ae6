// What passes in a second, from two readings of counters.

const packets = (it) => [it.packets_total, it.bytes_total];
const ofService = (service) => service.name;
// A backend that left and one that took its name differ by their addresses. JSON keeps names with any character apart.
const ofBackend = (backend) => JSON.stringify([backend.service, backend.name, backend.address]);

/** Counters at a moment, ms. */
export class Reading {
  constructor(status, services, at) {
    this.at = at;
    this.totals = status.packets;
    this.services = new Map(services.map((service) => [ofService(service), packets(service)]));
    this.backends = new Map(services.flatMap((service) => service.backends.map((backend) => [ofBackend(backend), packets(backend)])));
  }

  /** Rates since another reading; null as one where there was none. */
  since(before) {
    return new Rates(this, before);
  }
}

/** Each is null where the reading before does not know it, or its counters began anew. */
class Rates {
  #now;
  #before;
  #seconds;

  constructor(now, before) {
    this.#now = now;
    this.#before = before;
    this.#seconds = before && Math.max(now.at - before.at, 1) / 1000;
  }

  /** Packets a second of all, by the counter's name. */
  total(name) {
    return this.#before && this.#perSecond(this.#now.totals[name], this.#before.totals[name]);
  }

  service(service) {
    return this.#of('services', ofService(service));
  }

  backend(backend) {
    return this.#of('backends', ofBackend(backend));
  }

  #of(kind, key) {
    const now = this.#now[kind].get(key);
    const before = this.#before?.[kind].get(key);
    if (!now || !before) return null;
    const [perSecond, bytes] = now.map((count, i) => this.#perSecond(count, before[i]));
    return perSecond === null || bytes === null ? null : { packets: perSecond, bits: 8 * bytes };
  }

  #perSecond(now, before) {
    return now < before ? null : (now - before) / this.#seconds;
  }
}
