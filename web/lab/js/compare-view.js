// Compare: churn and balance against the size of the table, measured while you watch.

import { draw, mark, placeOf } from './chart.js';
import { count, h, percent, s } from './dom.js';
import { FLOWS, POLICIES, changeOf, isChanged, setupOf } from './state.js';

const SIZES = [7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65537];
/** Seeds besides the fleet's own are its successors. */
const SEED_CHOICES = [1, 3, 5, 10];
const CHARTS = [
  { id: 'churn', title: 'Needless churn', floor: 0.0001, of: (f) => f.moves.needless / f.moves.compared, about: 'share of all flows that would move needlessly by the change that is set under Change' },
  { id: 'balance', title: 'Imbalance', floor: 0.001, of: (f) => f.overProvisioning, about: 'how far the busiest backend is above its fair share of flows, before the change' },
];

export class CompareView {
  #store;
  #session;
  #refs = {};
  #run = 0;
  #key = '';
  #results = new Map();
  /** Why there is no figure, by policy: what was said last. */
  #refused = new Map();
  #at = null;

  constructor(store, session) {
    this.#store = store;
    this.#session = session;
    const r = this.#refs;
    r.subject = h('p.lead');
    r.leave = h('button', { type: 'button', onclick: () => this.#letLastLeave() }, 'Let the last one leave');
    r.policies = h('div.policies', { role: 'group', 'aria-label': 'Policies to compare' }, POLICIES.map((p, i) => h('label.pick', { 'data-series': i },
      h('input', { type: 'checkbox', value: p.id, onchange: () => this.#pick() }), h('span', { 'aria-hidden': 'true' }, mark(i)), p.title)));
    r.seeds = h('select', { id: 'seeds', onchange: (e) => store.update({ seeds: Number(e.target.value) }) },
      SEED_CHOICES.map((n) => h('option', { value: n }, n)));
    r.progress = h('progress', { 'aria-label': 'Measured so far', max: 1, value: 0 });
    r.status = h('p.note', { role: 'status' });
    r.charts = CHARTS.map((chart) => h('figure.chart', { 'data-chart': chart.id },
      h('figcaption', {}, h('h3', {}, chart.title), h('p.note', {}, chart.about)),
      s('svg', { role: 'img', tabindex: 0 }), h('p.readout')));
    r.body = h('tbody');
    r.head = h('tr');
    this.element = h('section.view.compare', {}, h('h2.unseen', {}, 'Compare'), h('div', {}, r.subject, r.leave),
      h('div.row', {}, r.policies, h('label', { for: 'seeds' }, 'Seeds'), r.seeds), h('div.row', {}, r.progress, r.status),
      h('div.charts', {}, r.charts),
      h('details.data', {}, h('summary', {}, 'The figures as a table'), h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Figures' }, h('table.figures', {}, h('thead', {}, r.head), r.body))));
    // Drawn again at its own width, so that text keeps its size.
    new ResizeObserver(() => this.#show(store.state)).observe(r.charts[0]);
    for (const figure of r.charts) {
      const svg = figure.querySelector('svg');
      svg.addEventListener('pointermove', (event) => this.#point(event, svg));
      svg.addEventListener('keydown', (event) => this.#step(event));
    }
  }

  #pick() {
    const compared = [...this.#refs.policies.querySelectorAll('input:checked')].map((box) => box.value);
    this.#store.update({ compared });
  }

  #letLastLeave() {
    const { changes } = this.#store.state;
    this.#store.update({ changes: changes.map((c, i) => (i === changes.length - 1 ? { op: 'remove' } : c)) });
  }

  leave() {
    this.#run += 1;
    this.#key = '';
  }

  update(state) {
    const r = this.#refs;
    r.seeds.value = SEED_CHOICES.includes(state.seeds) ? state.seeds : 5;
    for (const box of r.policies.querySelectorAll('input')) box.checked = state.compared.includes(box.value);
    r.subject.textContent = subject(state);
    r.leave.hidden = isChanged(state);
    const { before, after } = changeOf(state, 'maglev');
    const key = JSON.stringify([before, after, state.seeds, state.compared], (_, v) => (typeof v === 'bigint' ? `${v}` : v));
    if (key === this.#key) return;
    this.#key = key;
    this.#results.clear();
    this.#refused.clear();
    this.#run += 1;
    this.#measure(state, this.#run);
  }

  /** Measures point after point, and gives the page time to breathe between them. */
  async #measure(state, run) {
    const r = this.#refs;
    const points = SIZES.flatMap((size) => state.compared.map((id) => ({ size, id })));
    r.status.textContent = `Measuring ${count(FLOWS)} flows at each point…`;
    for (const [done, { size, id }] of points.entries()) {
      const samples = [];
      for (let i = 0; i < state.seeds; i += 1) {
        await new Promise((resume) => { setTimeout(resume, 0); });
        if (run !== this.#run) return;
        samples.push(this.#sample(state, size, id, i));
      }
      this.#add(size, id, samples.filter(Boolean));
      r.progress.value = (done + 1) / points.length;
      if (done + 1 === points.length || done % state.compared.length === 0) this.#show(state);
    }
    r.status.textContent = points.length ? `${count(FLOWS)} flows, ${state.seeds} seed${state.seeds > 1 ? 's' : ''}: mean, and the band from least to most.${this.#missing(state)}` : 'Choose at least one policy.';
    this.#show(state);
  }

  /** Which policies have no figure at any size, and why not. */
  #missing(state) {
    const none = POLICIES.filter((p) => state.compared.includes(p.id) && this.#points(CHARTS[0], p.id).length === 0);
    return none.map((p) => ` ${p.title} has no figures: ${this.#refused.get(p.id)}.`).join('');
  }

  /** The measure under one seed; null where there is none, such as with more backends than slots. */
  #sample(state, size, id, i) {
    const moment = { ...state, size, given: false, seed: BigInt.asUintN(64, state.seed + BigInt(i)) };
    const { before, after } = changeOf(moment, id);
    try {
      return this.#session.flows(before, after, FLOWS);
    } catch (error) {
      this.#refused.set(id, error.message);
      return null;
    }
  }

  #add(size, id, samples) {
    if (samples.length === 0) return;
    for (const chart of CHARTS) {
      const values = samples.map(chart.of);
      const list = this.#results.get(`${chart.id} ${id}`) ?? [];
      list.push({ x: size, y: values.reduce((a, b) => a + b) / values.length, low: Math.min(...values), high: Math.max(...values) });
      this.#results.set(`${chart.id} ${id}`, list);
    }
  }

  #points(chart, id) {
    return this.#results.get(`${chart.id} ${id}`) ?? [];
  }

  #show(state) {
    CHARTS.forEach((chart, i) => {
      const series = POLICIES.flatMap((p, index) => (state.compared.includes(p.id) ? [{ index, title: p.title, points: this.#points(chart, p.id) }] : []));
      const figure = this.#refs.charts[i];
      const summary = series.filter((one) => one.points.length).map((one) => `${one.title}: ${percent(one.points[0].y)} at ${one.points[0].x} slots, ${percent(one.points.at(-1).y)} at ${count(one.points.at(-1).x)}`);
      draw(figure.querySelector('svg'), { series, sizes: SIZES, floor: chart.floor, label: `${chart.title}. ${summary.join('. ')}`, at: this.#at });
      const at = this.#at ?? SIZES.at(-1);
      const read = series.flatMap((one) => {
        const point = one.points.find((p) => p.x === at);
        return point ? [`${mark(one.index)} ${one.title} ${percent(point.y)}`] : [];
      });
      figure.querySelector('.readout').textContent = `At ${count(at)} slots: ${read.join(' · ')}`;
    });
    this.#table(state);
  }

  #table(state) {
    const columns = CHARTS.flatMap((chart) => state.compared.map((id) => ({ chart, id })));
    const title = (id) => POLICIES.find((p) => p.id === id).title;
    this.#refs.head.replaceChildren(h('th', { scope: 'col' }, 'M'), ...columns.map(({ chart, id }) => h('th', { scope: 'col' }, `${chart.title}, ${title(id)}`)));
    this.#refs.body.replaceChildren(...SIZES.map((size) => h('tr', {}, h('th', { scope: 'row' }, count(size)),
      ...columns.map(({ chart, id }) => {
        const point = this.#points(chart, id).find((p) => p.x === size);
        return h('td', { 'data-cell': `${chart.id} ${id} ${size}` }, point ? percent(point.y) : '–');
      }))));
  }

  #point(event, svg) {
    const box = svg.getBoundingClientRect();
    const within = placeOf(event.clientX - box.left, box.width);
    const wanted = Math.log(SIZES[0]) + within * (Math.log(SIZES.at(-1)) - Math.log(SIZES[0]));
    const distance = (size) => Math.abs(Math.log(size) - wanted);
    this.#read(SIZES.reduce((best, size) => (distance(size) < distance(best) ? size : best)));
  }

  #step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = this.#at === null ? SIZES.length - 1 : SIZES.indexOf(this.#at) + by;
    this.#read(SIZES[Math.max(0, Math.min(SIZES.length - 1, at))]);
  }

  #read(at) {
    if (at === this.#at) return;
    this.#at = at;
    this.#show(this.#store.state);
  }
}

function subject(state) {
  const n = setupOf(state).backends.length;
  const gone = state.changes.filter((c) => c && c.op !== 'weight').length;
  const weighted = state.changes.filter((c) => c?.op === 'weight').length;
  const parts = [gone && `${gone} leave${gone === 1 ? 's' : ''}`, state.added.length && `${state.added.length} join${state.added.length === 1 ? 's' : ''}`, weighted && `${weighted} change${weighted === 1 ? 's' : ''} weight`].filter(Boolean);
  const some = `${n} backend${n === 1 ? '' : 's'}`;
  if (!isChanged(state)) return `${some}, and nothing changes yet. Churn wants a change: set one under Change, or`;
  return `${some}, of which ${parts.join(', ')}. What does that cost, and how even were the shares, at each size of table?`;
}
