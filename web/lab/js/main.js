// Puts the page together: library, state, link, views.

import { ChangeView } from './change-view.js';
import { CompareView } from './compare-view.js';
import { h } from './dom.js';
import { DraftView } from './draft-view.js';
import { Library } from './library.js';
import { decode, encode } from './link.js';
import { LookupView } from './lookup-view.js';
import { Session } from './session.js';
import { SetupPanel } from './setup-panel.js';
import { Store } from './state.js';
import { attachTheme } from './theme.js';
import { TourView } from './tour-view.js';

const at = (id) => document.getElementById(id);

async function start() {
  const library = await Library.load();
  const session = new Session(library);
  const store = new Store(decode(location.hash));
  const draft = new DraftView(store, session);
  const views = {
    draft,
    lookup: new LookupView(store, session),
    change: new ChangeView(store, session),
    compare: new CompareView(store, session),
    tour: new TourView(session, (state, play) => {
      store.update(state);
      at('views').scrollIntoView({ block: 'start' });
      at(`tab-${state.view}`).focus({ preventScroll: true });
      if (play) draft.player.play();
    }),
  };
  const panel = new SetupPanel(store, session);
  at('setup').append(panel.element);
  // On a phone the panel would hide the page; there it is opened when wanted.
  at('setup-fold').open = matchMedia('(min-width: 62rem)').matches;
  const tabs = attachTabs(store, views);

  let shown = null;
  const render = (state) => {
    panel.update(state);
    tabs(state.view);
    if (shown !== state.view) {
      views[shown]?.leave?.();
      shown = state.view;
    }
    const problem = at('problem');
    try {
      views[state.view].update(state);
      problem.hidden = true;
      views[state.view].element.hidden = false;
    } catch (error) {
      draft.player.pause();
      problem.textContent = error.message;
      problem.hidden = false;
      views[state.view].element.hidden = true;
    }
    rememberInLink(state);
  };
  store.listen(render);
  // Beside a daemon's API the page is at /lab/, and its console beside it.
  at('console').hidden = !location.pathname.endsWith('/lab/');
  attachTheme(at('theme'), () => render(store.state));
  attachShare(at('share'), () => store.state);
  addEventListener('hashchange', () => {
    if (location.hash !== encode(store.state)) store.update(decode(location.hash));
  });
  document.documentElement.dataset.ready = 'yes';
}

/** Tabs by the usual keys: arrows move along, Home and End go to the ends. */
function attachTabs(store, views) {
  const names = Object.keys(views);
  for (const name of names) {
    const panel = h('div.tab-panel', { id: `panel-${name}`, role: 'tabpanel', 'aria-labelledby': `tab-${name}`, tabindex: -1 }, views[name].element);
    at('views').append(panel);
    const tab = at(`tab-${name}`);
    tab.addEventListener('click', () => store.update({ view: name }));
    tab.addEventListener('keydown', (event) => {
      const here = names.indexOf(name);
      const to = { ArrowRight: here + 1, ArrowLeft: here - 1 + names.length, Home: 0, End: names.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      store.update({ view: names[to % names.length] });
      at(`tab-${names[to % names.length]}`).focus();
    });
  }
  return (view) => {
    for (const name of names) {
      const chosen = name === view;
      at(`tab-${name}`).setAttribute('aria-selected', String(chosen));
      at(`tab-${name}`).tabIndex = chosen ? 0 : -1;
      at(`panel-${name}`).hidden = !chosen;
    }
  };
}

let linkTimer = null;

/** Browsers allow only so many changes of the address a second. */
function rememberInLink(state) {
  clearTimeout(linkTimer);
  linkTimer = setTimeout(() => history.replaceState(null, '', encode(state)), 150);
}

function attachShare(button, state) {
  const said = at('shared');
  button.addEventListener('click', async () => {
    const link = new URL(encode(state()), location.href).href;
    history.replaceState(null, '', link);
    try {
      await navigator.clipboard.writeText(link);
      said.textContent = 'Link copied.';
    } catch {
      said.textContent = 'The address bar holds the link.';
    }
    setTimeout(() => { said.textContent = ''; }, 4000);
  });
}

start().catch((error) => {
  at('problem').textContent = `The page could not start: ${error.message}`;
  at('problem').hidden = false;
});
