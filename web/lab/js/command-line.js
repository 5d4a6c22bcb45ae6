// The command that shows in a terminal what the page shows.

import { DEFAULT_SEED, policy } from './state.js';

export function commandLine(state) {
  const named = state.policy === 'maglev' ? '' : ` --policy ${state.policy}`;
  const seed = state.seed === DEFAULT_SEED ? '' : ` --seed 0x${state.seed.toString(16)}`;
  const tail = `${named} --size ${state.size}${seed}`;
  const eligible = state.backends.filter((b) => b.weight > 0);
  if (state.given && state.policy === 'maglev') {
    const preferences = eligible.map((b) => `--preference ${quoted(`${b.name}=${b.offset}/${b.skip}`)}`);
    return `guideway table draft ${preferences.join(' ')}${tail}`;
  }
  const list = state.backends.map((b) => (b.weight === 1 ? b.name : `${b.name}=${b.weight}`)).join(',');
  const command = policy(state.policy).table ? 'build' : `lookup ${quoted(state.key)}`;
  return `guideway table ${command} --backends ${quoted(list)}${tail}`;
}

const quoted = (text) => (/^(?!-)[\w.,:=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
