// How far a drain is.

import { age, several } from './words.js';

/** What may still live there; nothing where nobody drains. */
export function progress({ drain }) {
  if (!drain) return '';
  if (drain.phase === 'busy') return several(drain.live_flows, 'live flow', 'live flows');
  return drain.phase === 'quiet' ? `quiet, ${several(drain.unsettled_slots, 'slot', 'slots')}` : drain.phase;
}

/** Since when, until when, and the flows that are about to end anyway. */
export function detail({ drain }) {
  if (!drain) return '';
  const parts = [`for ${age(drain.age_seconds)}`];
  if (drain.cut_in_seconds !== undefined) parts.push(`cut in ${age(drain.cut_in_seconds)}`);
  if (drain.ending_flows > 0) parts.push(several(drain.ending_flows, 'ending flow', 'ending flows'));
  return parts.join(', ');
}
