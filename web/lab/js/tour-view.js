// Tour: predict, then verify. And questions, with answers.

import { h } from './dom.js';
import { EXPERIMENTS, QUESTIONS } from './experiments.js';

export class TourView {
  #session;
  #go;

  /** `go(state, play)` takes the page to a state. */
  constructor(session, go) {
    this.#session = session;
    this.#go = go;
    this.element = h('section.view.tour', {}, h('h2.unseen', {}, 'Experiments'),
      h('p.lead', {}, 'Three experiments. Predict first: being wrong once teaches more than reading twice. Every outcome is computed here and now, by the library that the balancer runs.'),
      EXPERIMENTS.map((experiment, i) => this.#experiment(experiment, i)),
      h('h2', {}, 'Questions'),
      h('div.questions', {}, QUESTIONS.map((question, i) => this.#question(question, i))));
  }

  update() {}

  #experiment(experiment, number) {
    const outcome = h('div.outcome', { role: 'status' });
    const verify = h('button.primary', { type: 'submit' }, 'Verify');
    const form = h('form.card', {
      'data-experiment': experiment.id,
      onsubmit: (event) => {
        event.preventDefault();
        const picked = new FormData(form).get(experiment.id);
        if (picked === null) {
          outcome.replaceChildren(h('p', {}, 'Choose what you expect first.'));
          return;
        }
        const { answer, say } = experiment.run(this.#session);
        const right = picked === answer;
        outcome.dataset.right = right ? 'yes' : 'no';
        outcome.replaceChildren(h('p.verdict', {}, right ? '✓ As you said. ' : `✗ You said “${picked}”; it is “${answer}”. `, say));
      },
    },
    h('p.kicker', {}, `Experiment ${number + 1}`), h('h3', {}, experiment.title), h('p', {}, experiment.story),
    choices(experiment.id, experiment.question, experiment.choices, experiment.choices),
    h('div.row', {}, verify, h('button', { type: 'button', onclick: () => this.#go(experiment.scene(), Boolean(experiment.play)) }, experiment.show)),
    outcome);
    return form;
  }

  #question({ ask, choices: list, right, because }, number) {
    const outcome = h('div.outcome', { role: 'status' });
    const name = `question-${number}`;
    const form = h('form.card.question', {
      'data-question': number,
      onsubmit: (event) => {
        event.preventDefault();
        const picked = new FormData(form).get(name);
        const good = picked === String(right);
        outcome.dataset.right = good ? 'yes' : 'no';
        const verdict = picked === null ? `“${list[right]}.” ` : good ? '✓ Yes. ' : `✗ No: “${list[right]}.” `;
        outcome.replaceChildren(h('p.verdict', {}, verdict, because));
      },
    }, choices(name, ask, list, list.map((_, i) => i)), h('div.row', {}, h('button', { type: 'submit' }, 'Answer')), outcome);
    return form;
  }
}

function choices(name, question, texts, values) {
  return h('fieldset', {}, h('legend', {}, question), texts.map((text, i) => h('label.choice', {},
    h('input', { type: 'radio', name, value: values[i] }), h('span', {}, text))));
}
