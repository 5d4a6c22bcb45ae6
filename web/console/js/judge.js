// What states mean: a word, a sign and how bad it is. The sign stands beside the word; colour only helps.

const STATES = {
  active: ['●', 'good'], draining: ['◐', 'idle'], down: ['✗', 'bad'],
};
const VERDICTS = { up: ['✓', 'good'], down: ['✗', 'bad'], 'never-passed': ['?', 'bad'] };
const UNKNOWN = ['·', 'idle'];

const judged = (word, [sign, kind] = UNKNOWN) => ({ word, sign, kind });

/** What the forwarder does with a backend. */
export const state = (backend) => judged(backend.state, STATES[backend.state]);

/** What operators or the configuration say of it. */
export const admin = (backend) => (backend.removed ? 'removed' : backend.admin);

/** What its checks say. */
export function health(backend) {
  if (!backend.health) return judged('not checked');
  const { verdict } = backend.health;
  return judged(verdict, VERDICTS[verdict]);
}

export const isFailing = (backend) => Boolean(backend.health) && !backend.removed && backend.health.verdict !== 'up';

/** The weight with which it takes new flows now: part of its own during a slow start, none while it takes none. */
export function weightInEffect(backend) {
  if (backend.slots === 0) return 0;
  const step = backend.health?.slow_start_step;
  return step === undefined ? backend.weight : (backend.weight * step) / 10;
}

/** Why its checks fail, or what the last round found wrong although they pass; null where there is nothing. */
export function complaint(backend) {
  const { health: found } = backend;
  if (!found) return null;
  const last = found.last && found.last.detail.length > 0 ? `${found.last.reason}: ${found.last.detail.join('; ')}` : null;
  if (isFailing(backend)) return last ?? found.reason ?? 'no check has passed yet';
  return found.contradicting > 0 ? last : null;
}

/** How much a backend wants looking at. */
export function concern(backend) {
  if (isFailing(backend)) return 3;
  if (backend.slots === 0 && backend.admin === 'ready' && !backend.removed) return 2;
  return backend.slots === 0 ? 1 : 0;
}

/** What is wrong with a service, worst first; empty where nothing is. */
export function troubles(service) {
  const found = [];
  if (service.last_resort) found.push({ text: 'last resort: every check fails', concern: 5 });
  else if (service.eligible === 0) found.push({ text: 'no backend takes new flows', concern: 5 });
  const failing = service.backends.filter(isFailing).length;
  if (failing > 0) found.push({ text: `${failing} failing`, concern: 3 });
  if (service.resize_refused) found.push({ text: `not resized: ${service.resize_refused}`, concern: 2 });
  return found;
}
