// The daemon and its forwarder as a whole.

import { count, h } from '../../lab/js/dom.js';
import { facts } from './keyed.js';
import { age, rate, several, share, until } from './words.js';

const PACKETS = ['received', 'forwarded', 'answered', 'passed', 'dropped'];

export class StatusView {
  #groups = ['Traffic', 'Backends', 'Daemon', 'Configuration'].map((name) => ({ name, facts: facts() }));

  constructor() {
    this.element = h('section.status', { 'aria-label': 'The daemon' },
      this.#groups.map(({ name, facts: { element } }) => h('div.group', { 'data-group': name }, h('h2', {}, name), element)));
  }

  update({ status, clock, rates }) {
    const { backends, config, drift, flow_table: table, packets } = status;
    const ago = (stamp) => `${age(-until(stamp, clock))} ago`;
    const repairs = Object.entries(drift.repairs_total).filter(([, number]) => number > 0);
    const all = {
      Traffic: [
        ...PACKETS.map((what) => [what[0].toUpperCase() + what.slice(1), count(packets[`${what}_total`]), `${rate(rates.total(`${what}_total`))} packets/s`]),
        ['Remembered flows', count(table.entries), `of ${count(table.capacity)}, ${share(table.capacity > 0 ? table.entries / table.capacity : 0)}`],
      ],
      Backends: [
        ['Services', count(status.services)],
        ['Backends', count(backends.total)],
        ['Take new flows', count(backends.eligible)],
        ['Failing', count(backends.failing)],
        ['Set to drain', count(backends.draining), `${several(status.drains, 'drain under way', 'drains under way')}${status.drains_of_removed > 0 ? `, ${count(status.drains_of_removed)} of removed backends` : ''}`],
        ['In maintenance', count(backends.maintenance)],
      ],
      Daemon: [
        ['Version', status.version],
        ['Started', ago(status.started_at), status.started_at],
        ['Engine', status.engine],
        ...status.interfaces.map((port) => [`Interface ${port.name}`, port.lost ? `✗ lost: ${port.lost}` : port.down ? '✗ down' : port.mode, port.fell_back ? `! not native: ${port.fell_back}` : '']),
        ['Compared with the kernel', several(drift.rounds_total, 'time'), repairs.length ? `put right: ${repairs.map(([what, number]) => `${number} ${what}`).join(', ')}` : 'nothing to put right'],
      ],
      Configuration: [
        ['Source', config.source],
        ['In force', ago(config.taken_at), config.taken_at],
        ['Last reload', config.last_reload_successful ? '✓ ok' : '✗ failed'],
        ['On trial', config.confirm_by ? `for ${age(until(config.confirm_by, clock))}` : null, config.confirm_by],
        ['Revision', status.revision],
        ['Digest', status.digest],
      ],
    };
    for (const { name, facts: group } of this.#groups) group.update(all[name]);
  }
}
