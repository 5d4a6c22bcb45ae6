// Asks for a token, and says which and where from.

import { h } from '../../lab/js/dom.js';

const SETUP = `(umask 077; openssl rand -hex 32 > read.token)
guideway run … --listen ${location.host || '127.0.0.1:8471'} --read-token-file read.token`;

/** `use(token)` is called with what was typed. */
export class TokenForm {
  #input = h('input', { type: 'password', id: 'token', required: true, autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'token-refused token-which' });
  #refused = h('p.error', { id: 'token-refused', role: 'alert', hidden: true }, '✗ The daemon does not know this token. Give the one that is in the file that --read-token-file names.');

  constructor(use) {
    const submit = (event) => {
      event.preventDefault();
      const token = this.#input.value.trim();
      this.#input.value = '';
      if (token) use(token);
    };
    this.element = h('section.token', { 'aria-labelledby': 'token-title', hidden: true },
      h('h2', { id: 'token-title' }, 'This daemon wants a token'),
      h('p', { id: 'token-which' }, 'The token for readers suffices: it is in the file that ', h('code', {}, '--read-token-file'),
        ' names. This page only reads, so do not give it the operators’ token. It stays in this tab, and is forgotten with it.'),
      h('form', { onsubmit: submit }, h('label', { for: 'token' }, 'Token for readers'), this.#input, h('button.primary', { type: 'submit' }, 'Open the console')),
      this.#refused,
      h('p.note', {}, 'There is none yet? Make one, and start the daemon with it:'),
      h('pre', { tabindex: 0, 'aria-label': 'Commands that make a token' }, h('code', {}, SETUP)));
  }

  show(refused) {
    const appears = this.element.hidden;
    this.element.hidden = false;
    this.#refused.hidden = !refused;
    if (appears) this.#input.focus();
  }
}
