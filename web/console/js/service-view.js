// One service with all that is known of it, and one of its backends where the address names one.

import { count, h } from '../../lab/js/dom.js';
import { backendTable } from './backend-table.js';
import { commandList } from './command-list.js';
import * as commands from './commands.js';
import * as drain from './drain.js';
import { admin, complaint, health, state, troubles, weightInEffect } from './judge.js';
import { facts, write } from './keyed.js';
import { picking } from './picking.js';
import { toService } from './route.js';
import { backendsOf, wordsOf } from './select.js';
import { hiddenText } from './services-view.js';
import { age, rate, several, share } from './words.js';

/** `update(latest, name)`; false where there is no such service. */
export class ServiceView {
  #title = h('h2', { tabindex: -1 });
  #wrong = h('p.error');
  #facts = facts();
  #table = backendTable();
  #rest = h('p.note');
  #commands = commandList();
  #choice = { filter: '', order: 'trouble' };
  #shown = null;

  constructor() {
    const choose = (choice) => {
      Object.assign(this.#choice, choice);
      this.update(...this.#shown);
    };
    this.element = h('section', {},
      h('nav', { 'aria-label': 'Where this is' }, h('a', { href: '#/' }, 'All services')),
      this.#title, this.#wrong, this.#facts.element,
      h('h3', {}, 'Backends'),
      picking('backends', choose),
      this.#table.element, this.#rest,
      h('h3', {}, 'Copy as command'), this.#commands.element);
  }

  update(latest, name) {
    this.#shown = [latest, name];
    const { services, rates, status } = latest;
    const service = services.find((known) => known.name === name);
    if (!service) return false;
    write(this.#title, name);
    const found = troubles(service);
    this.#wrong.hidden = found.length === 0;
    write(this.#wrong, `✗ ${found.map((trouble) => trouble.text).join(' · ')}`);
    const now = rates.service(service);
    this.#facts.update([
      ['Listens at', service.listen.join('  ') || 'nothing: it has left the configuration'],
      ['Policy', service.policy],
      ['Take new flows', `${count(service.eligible)} of ${count(service.backends.filter((b) => !b.removed).length)}`],
      ['Packets/s', rate(now?.packets), `${rate(now?.bits)} bits/s`],
      ['Packets', count(service.packets_total), several(service.bytes_total, 'byte', 'bytes')],
      ['Slots', count(service.slots), `${count(service.unsettled_slots)} unsettled`],
      ['Generation', count(service.generation), service.prior_table ? 'the table before a change of size or seed is still consulted' : ''],
      ['Digest', service.digest],
    ]);
    const rows = backendsOf(service, { words: wordsOf(this.#choice.filter), order: this.#choice.order, rates });
    this.#table.update(service, rows.backends, rates);
    write(this.#rest, hiddenText(rows));
    this.#commands.update(commands.ofService(service, status.socket));
    return true;
  }
}

/** `update(latest, service, name)`; false where there is no such backend. */
export class BackendView {
  #title = h('h2', { tabindex: -1 });
  #back = h('a');
  #wrong = h('p.error');
  #facts = facts();
  #commands = commandList();

  constructor() {
    this.element = h('section', {},
      h('nav', { 'aria-label': 'Where this is' }, h('a', { href: '#/' }, 'All services'), ' › ', this.#back),
      this.#title, this.#wrong, this.#facts.element, h('h3', {}, 'Copy as command'), this.#commands.element);
  }

  update({ services, rates, status }, serviceName, name) {
    const those = services.find((known) => known.name === serviceName)?.backends.filter((backend) => backend.name === name) ?? [];
    // One that is wanted rather than one of the same name that left.
    const backend = those.find((one) => !one.removed) ?? those[0];
    if (!backend) return false;
    write(this.#title, `${serviceName} › ${name}`);
    write(this.#back, serviceName);
    this.#back.href = toService(serviceName);
    const why = complaint(backend);
    this.#wrong.hidden = why === null;
    write(this.#wrong, `✗ ${why}`);
    const { health: found } = backend;
    const [is, checked] = [state(backend), health(backend)];
    const now = rates.backend(backend);
    this.#facts.update([
      ['Address', backend.address],
      ['State', `${is.sign} ${is.word}`],
      ['Admin', admin(backend), backend.overridden ? 'by an operator' : backend.removed ? 'it has left the configuration' : 'by the configuration'],
      ['Health', `${checked.sign} ${checked.word}`, found ? `for ${age(found.age_seconds)}${found.flapping ? ', flapping' : ''}` : ''],
      ['Decided by', found?.reason],
      ['Last check', found?.last?.reason, found?.last ? `${age(found.last.age_seconds)} ago${found.last.took_seconds === undefined ? '' : `, took ${(found.last.took_seconds * 1000).toFixed(1)} ms`}` : ''],
      ['What it found', found?.last?.detail.join('; ') || null],
      ['Contradicting', found?.contradicting > 0 ? `${found.contradicting} of ${found.needed} results that change the verdict` : null],
      ['Slow start', found?.slow_start_step === undefined ? null : `step ${found.slow_start_step} of 10`],
      ['Weight', backend.weight, backend.configured_weight === undefined || backend.configured_weight === backend.weight ? '' : `${backend.configured_weight} by the configuration`],
      ['Weight in effect', weightInEffect(backend)],
      ['Slots', count(backend.slots), share(backend.share)],
      ['Drain', drain.progress(backend) || null, drain.detail(backend)],
      ['Packets/s', rate(now?.packets), `${rate(now?.bits)} bits/s`],
      ['Packets', count(backend.packets_total), several(backend.bytes_total, 'byte', 'bytes')],
      ['Next hop', backend.next_hop?.mac ?? 'no neighbour is known', backend.next_hop ? `by interface ${backend.next_hop.interface}` : ''],
    ]);
    this.#commands.update(commands.ofBackend(backend, status.socket));
    return true;
  }
}
