// What an operator should look at, above everything else.

import { h } from '../../lab/js/dom.js';
import { commandList } from './command-list.js';
import { ofTrial } from './commands.js';
import { Keyed, write } from './keyed.js';
import { age, until } from './words.js';

export class AttentionView {
  #list = h('ul');
  #items = new Keyed(this.#list, () => {
    const text = h('span');
    return { element: h('li', {}, h('strong', { 'aria-hidden': 'true' }, '✗ '), text), update: (found) => write(text, found) };
  });
  #trialText = h('p');
  #trialCommands = commandList();
  #trial = h('div.trial', { hidden: true }, this.#trialText, this.#trialCommands.element);

  constructor() {
    this.#trialCommands.update(ofTrial());
    this.element = h('section.attention', { 'aria-label': 'Needs attention', hidden: true }, h('div', { role: 'status' }, this.#list), this.#trial);
  }

  update({ status, clock }) {
    const { confirm_by: deadline } = status.config;
    const found = attention(status);
    this.element.hidden = found.length === 0 && !deadline;
    this.#list.hidden = found.length === 0;
    this.#items.update(found, (text) => text);
    this.#trial.hidden = !deadline;
    if (deadline) write(this.#trialText, `! The configuration is on trial: it goes back in ${age(until(deadline, clock))}, at ${deadline}, unless somebody confirms it.`);
  }
}

/** Each thing once: notes repeat some of what stands elsewhere in the status. */
export function attention({ interfaces, config, drift, notes }) {
  const found = interfaces.filter((port) => port.lost).map((port) => `${port.name}: the program is not there: ${port.lost}`);
  if (!config.last_reload_successful) found.push(`The last reload failed, and what was in force goes on: ${config.last_reload_error ?? 'no reason is given'}`);
  const said = notes.join('\n');
  for (const port of interfaces) {
    if (port.fell_back && !said.includes(port.fell_back)) found.push(`${port.name} runs in ${port.mode} mode: ${port.fell_back}`);
  }
  found.push(...notes, ...Object.values(drift.failing).filter((why) => !said.includes(why)));
  return [...new Set(found)];
}
