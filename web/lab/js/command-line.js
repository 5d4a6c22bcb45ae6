// The command that shows in a terminal what the page shows; null where there is none.

import { quoted } from './shell.js';
import { DEFAULT_SEED, policy } from './state.js';

export function commandLine(state) {
  const named = state.policy === 'maglev' ? '' : ` --policy ${state.policy}`;
  const seed = state.seed === DEFAULT_SEED ? '' : ` --seed 0x${state.seed.toString(16)}`;
  const tail = `${named} --size ${state.size}${seed}`;
  const eligible = state.backends.filter((b) => b.weight > 0);
  if (state.given && state.policy === 'maglev') {
    if (eligible.some((b) => b.weight !== eligible[0].weight)) return null;
    const preferences = eligible.map((b) => `--preference ${quoted(`${b.name}=${b.offset}/${b.skip}`)}`);
    return `guideway table draft ${preferences.join(' ')}${tail}`;
  }
  const command = policy(state.policy).table ? 'build' : 'lookup';
  // The key comes last, where a dash at its beginning makes no option of it.
  const key = command === 'build' ? '' : ` -- ${quoted(state.key)}`;
  if (state.backends.some((b) => !isListed(b.name))) {
    const json = JSON.stringify(state.backends.map(({ name, weight }) => ({ name, weight })));
    return `printf %s ${quoted(json)} | guideway table ${command}${tail}${key}`;
  }
  // What follows the last '=' is a weight.
  const list = state.backends.map((b) => (b.weight === 1 && !b.name.includes('=') ? b.name : `${b.name}=${b.weight}`)).join(',');
  return `guideway table ${command} --backends=${quoted(list)}${tail}${key}`;
}

/** Whether a list with commas can have this name in it. */
const isListed = (name) => name === name.trim() && !name.includes(',') && /^[^[\]]*(\[[^[\]]*\][^[\]]*)?$/.test(name);
