// Commands to copy.

import { h } from '../../lab/js/dom.js';
import { Keyed, write } from './keyed.js';

/** A list of `[what, command]`; a click copies the command, or selects it where the browser lets nobody copy. */
export function commandList() {
  const element = h('ul.commands');
  const rows = new Keyed(element, ([what]) => {
    const code = h('code');
    const button = h('button', { type: 'button', onclick: () => copy(code, button) }, 'Copy');
    return {
      element: h('li', {}, h('span.what', {}, what), code, button),
      update: ([, command]) => {
        write(code, command);
        button.setAttribute('aria-label', `Copy as command: ${command}`);
      },
    };
  });
  return { element, update: (commands) => rows.update(commands, ([what]) => what) };
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    say(button, 'Copied');
  } catch {
    // Without TLS browsers let only pages of this machine copy.
    getSelection().selectAllChildren(code);
    say(button, 'Selected');
  }
}

function say(button, text) {
  button.textContent = text;
  document.getElementById('said').textContent = text === 'Copied' ? 'Copied.' : 'Selected: copy it with the keyboard.';
  setTimeout(() => { button.textContent = 'Copy'; }, 2500);
}
