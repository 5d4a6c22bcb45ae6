// Puts the console together: the daemon's answers, the address, views.

import { attachTheme } from '../../lab/js/theme.js';
import { Api } from './api.js';
import { AttentionView } from './attention-view.js';
import { EventsView } from './events-view.js';
import { Feed } from './feed.js';
import { mark, write } from './keyed.js';
import { parse } from './route.js';
import { BackendView, ServiceView } from './service-view.js';
import { ServicesView } from './services-view.js';
import { StatusView } from './status-view.js';
import { TokenForm } from './token-form.js';
import { age } from './words.js';

const at = (id) => document.getElementById(id);
const NAME = 'Guideway · Console';

const api = new Api(new URL('../v1/', location.href));
const feed = new Feed(api, render);
const form = new TokenForm((token) => feed.setToken(token));
const attention = new AttentionView();
const status = new StatusView();
const services = new ServicesView();
const service = new ServiceView();
const backend = new BackendView();
const events = new EventsView();

at('view').append(form.element, attention.element, status.element, services.element, service.element, backend.element, events.element);

function render() {
  const { state, latest } = feed;
  mark(document.documentElement, 'data-state', state);
  const locked = state === 'locked';
  if (locked) form.show(feed.refused);
  form.element.hidden = !locked;
  at('forget').hidden = !api.hasToken;
  mark(at('pause'), 'aria-pressed', String(state === 'paused'));
  showAway();
  showAge();
  showPlace();
  if (latest) document.documentElement.dataset.ready = 'yes';
}

/** The part of the page that the address names. */
function showPlace() {
  const { latest } = feed;
  const place = parse(location.hash);
  const there = latest !== null && feed.state !== 'locked';
  const all = place.service === null;
  let found = true;
  attention.element.hidden = true;
  if (there) {
    attention.update(latest);
    if (all) {
      status.update(latest);
      services.update(latest);
    } else {
      found = place.backend ? backend.update(latest, place.service, place.backend) : service.update(latest, place.service);
    }
    events.update(latest, place);
  }
  status.element.hidden = services.element.hidden = !(there && all);
  service.element.hidden = !(there && found && !all && !place.backend);
  backend.element.hidden = !(there && found && place.backend);
  events.element.hidden = !there;
  at('missing').hidden = found;
  if (!found) write(at('missing-what'), place.backend ? `There is no backend ${place.backend} of a service ${place.service}.` : `There is no service ${place.service}.`);
  document.title = all ? NAME : `${[place.backend, place.service].filter(Boolean).join(' · ')} · ${NAME}`;
}

/** A daemon that does not answer is said once, and stays to be seen. */
function showAway() {
  const away = feed.state === 'away';
  at('away').hidden = !away;
  if (!away) return;
  write(at('away-what'), `✗ The daemon can't be reached: ${feed.problem}. This page goes on trying.`);
}

const STATES = { asking: '… Asking', live: '● Live', locked: '✗ No token', away: "✗ Can't be reached", paused: '❚❚ Paused' };

/** How old the numbers are, each second. */
function showAge() {
  const seconds = feed.age();
  write(at('state'), STATES[feed.state]);
  write(at('age'), seconds === null || feed.state === 'locked' ? '' : `numbers are ${age(seconds)} old`);
}

attachTheme(at('theme'), () => {});
at('pause').addEventListener('click', () => feed.setPaused(feed.state !== 'paused'));
// The address after '#' says what is shown, so this link does not go there.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  at('view').focus();
});
at('forget').addEventListener('click', () => feed.setToken(null));
addEventListener('hashchange', () => {
  showPlace();
  // Whoever follows a link by keyboard goes on where it leads.
  const shown = [service, backend].find((view) => !view.element.hidden);
  (shown ? shown.element.querySelector('h2') : at('view')).focus({ preventScroll: true });
  scrollTo(0, 0);
});
setInterval(showAge, 1000);
feed.resume();
