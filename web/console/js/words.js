// Numbers and times, as the commands write them.

import { count } from '../../lab/js/dom.js';

/** How long, in the two largest units. */
export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds) || 0);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours >= 48) return `${Math.floor(hours / 24)}d ${hours % 24}h`;
  if (hours > 0) return `${hours}h ${minutes}m`;
  return minutes > 0 ? `${minutes}m ${rest}s` : `${rest}s`;
}

/** Three digits that matter, with the multiple of a thousand. */
export function short(number) {
  let unit = 0;
  while (number >= 999.5 && unit < 4) {
    number /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return number.toFixed(digits) + ['', 'k', 'M', 'G', 'T'][unit];
}

/** A rate that may not be known yet. */
export const rate = (number) => (number === null || number === undefined ? '–' : short(number));

/** A part of 1. */
export const share = (part) => `${(part * 100).toFixed(1)} %`;

/** One of something, or several. */
export const several = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

/** How long ago or ahead a stamp is of the daemon's clock, seconds. */
export const until = (stamp, clock) => (Date.parse(stamp) - clock) / 1000;
