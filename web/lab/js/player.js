// Play, pause, step, speed: moves a number between 0 and an end.

import { h, s } from './dom.js';

const SPEEDS = [0.5, 1, 2, 4, 8, 16];
/** However large the table, playing it takes no more steps than this. */
const FRAMES = 240;
/** Paths in a square of 16: fonts don't agree on how players' signs look. */
const ICONS = {
  start: 'M3 3h2v10H3zM13 3v10L6 8z', back: 'M11 3v10L4 8z', on: 'M5 3v10l7-5z', end: 'M11 3h2v10h-2zM3 3v10l7-5z',
  play: 'M4 2.5v11l9-5.5z', pause: 'M4 3h3v10H4zM9 3h3v10H9z', again: 'M8 2a6 6 0 1 0 6 6h-2a4 4 0 1 1-4-4v2.5L12 3 8 0z',
};

export class Player {
  #seek;
  #timer = null;
  #at = 0;
  #end = 0;
  #speed = 2;
  #refs = {};

  /** `seek(at)` is called when another moment is to be shown. */
  constructor(seek) {
    this.#seek = seek;
    const r = this.#refs;
    const button = (label, name, onclick) => h('button', { type: 'button', 'aria-label': label, title: label, onclick }, icon(name));
    r.playIcon = icon('play');
    r.playText = h('span');
    r.play = h('button.play', { type: 'button', onclick: () => this.toggle() }, r.playIcon, r.playText);
    r.slider = h('input', {
      type: 'range', min: 0, step: 1, 'aria-label': 'Turns taken', oninput: (e) => { this.pause(); this.#go(Number(e.target.value)); },
    });
    r.speed = h('select', { 'aria-label': 'Speed', title: 'Speed', onchange: (e) => { this.#speed = Number(e.target.value); this.#restart(); } },
      SPEEDS.map((x) => h('option', { value: x }, `${x} ×`)));
    r.speed.value = this.#speed;
    r.counter = h('output.counter');
    this.element = h('div.player', { role: 'group', 'aria-label': 'Player' },
      h('div.buttons', {},
        button('To the start', 'start', () => { this.pause(); this.#go(0); }),
        button('One turn back', 'back', () => this.step(-1)),
        r.play,
        button('One turn on', 'on', () => this.step(1)),
        button('To the end', 'end', () => { this.pause(); this.#go(this.#end); })),
      r.slider, r.counter, r.speed);
  }

  get playing() {
    return this.#timer !== null;
  }

  show(at, end) {
    this.#at = at;
    this.#end = end;
    const r = this.#refs;
    r.slider.max = end;
    r.slider.value = at;
    r.counter.textContent = `${at} / ${end}`;
    const [name, label] = this.playing ? ['pause', 'Pause'] : at >= end ? ['again', 'Play again'] : ['play', 'Play'];
    r.playIcon.firstChild.setAttribute('d', ICONS[name]);
    r.playText.textContent = label;
  }

  step(by) {
    this.pause();
    this.#go(this.#at + by);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.#at >= this.#end) this.#go(0);
    this.#start();
  }

  pause() {
    clearInterval(this.#timer);
    this.#timer = null;
    this.show(this.#at, this.#end);
  }

  #restart() {
    if (this.playing) this.#start();
  }

  #start() {
    clearInterval(this.#timer);
    const large = this.#end > FRAMES;
    const by = Math.max(1, Math.ceil(this.#end / FRAMES));
    const pause = (large ? 100 : 1000) / this.#speed;
    this.#timer = setInterval(() => {
      this.#go(this.#at + by);
      if (this.#at >= this.#end) this.pause();
    }, pause);
    this.show(this.#at, this.#end);
  }

  #go(at) {
    this.#seek(Math.max(0, Math.min(this.#end, at)));
  }
}

function icon(name) {
  return s('svg', { viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': 'true' }, s('path', { d: ICONS[name] }));
}
