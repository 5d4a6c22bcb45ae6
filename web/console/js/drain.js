// How far a drain is.

import { count } from '../../lab/js/dom.js';
import { age } from './words.js';

/** What may still live there; nothing where nobody drains. */
export function progress({ drain }) {
  if (!drain) return '';
  if (drain.phase === 'busy') return `${count(drain.live_flows)} live flows`;
  return drain.phase === 'quiet' ? `quiet, ${count(drain.unsettled_slots)} slots` : drain.phase;
}

/** Since when, until when, and the flows that are about to end anyway. */
export function detail({ drain }) {
  if (!drain) return '';
  const parts = [`for ${age(drain.age_seconds)}`];
  if (drain.cut_in_seconds !== undefined) parts.push(`cut in ${age(drain.cut_in_seconds)}`);
  if (drain.ending_flows > 0) parts.push(`${count(drain.ending_flows)} ending flows`);
  return parts.join(', ');
}
