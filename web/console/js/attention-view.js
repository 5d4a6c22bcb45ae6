// What an operator should look at, above everything else.

import { h } from '../../lab/js/dom.js';
import { commandList } from './command-list.js';
import { ofTrial } from './commands.js';
import { Keyed, mark, write } from './keyed.js';
import { age, until } from './words.js';

export class AttentionView {
  #list = h('ul');
  // What is said never changes, but for what is no longer said.
  #items = new Keyed(this.#list, ({ text, isFault }) => ({
    element: h('li', { 'data-fault': isFault ? 'yes' : 'no' }, h('strong', {}, isFault ? '✗ Fault: ' : '· Note: '), h('span', {}, text)),
    update: () => {},
  }));
  #trialText = h('p');
  #trialCommands = commandList();
  #trial = h('div.trial', { hidden: true }, this.#trialText, this.#trialCommands.element);

  constructor() {
    this.element = h('section.attention', { 'aria-label': 'Needs attention', hidden: true }, h('div', { role: 'status' }, this.#list), this.#trial);
  }

  update({ status, clock }) {
    const { confirm_by: deadline } = status.config;
    const found = attention(status);
    this.element.hidden = found.length === 0 && !deadline;
    mark(this.element, 'data-fault', found.some(({ isFault }) => isFault) || deadline ? 'yes' : 'no');
    this.#list.hidden = found.length === 0;
    this.#items.update(found, ({ text, isFault }) => `${isFault} ${text}`);
    this.#trial.hidden = !deadline;
    this.#trialCommands.update(ofTrial(status.socket));
    if (deadline) write(this.#trialText, `! The configuration is on trial: it goes back in ${age(until(deadline, clock))}, at ${deadline}, unless somebody confirms it.`);
  }
}

/** Each thing once, faults first: notes and faults repeat some of what stands elsewhere in the status. */
export function attention({ interfaces, config, drift, notes, faults }) {
  const found = config.last_reload_successful ? [] : [`The last reload failed, and what was in force goes on: ${config.last_reload_error ?? 'no reason is given'}`];
  const said = [...notes, ...faults].join('\n');
  const unsaid = (why) => why && !said.includes(why);
  for (const { name, lost } of interfaces) if (unsaid(lost)) found.push(`${name}: the program is not there: ${lost}`);
  found.push(...faults, ...Object.values(drift.failing).filter(unsaid));
  const asides = notes.filter((note) => !faults.includes(note));
  const items = (texts, isFault) => [...new Set(texts)].map((text) => ({ text, isFault }));
  return [...items(found, true), ...items(asides, false)];
}
