// The tour's three experiments. Their outcomes are computed, by the same library, when somebody asks.

import { EXAMPLES, FLOWS, DEFAULT_SEED, initial, changeOf, setupOf } from './state.js';
import { count, percent } from './dom.js';

const example = (id) => structuredClone(EXAMPLES.find((x) => x.id === id).setup);

/** A state of the page on top of the first one. */
const scene = (patch) => ({ ...initial(), seed: DEFAULT_SEED, added: [], changes: patch.backends.map(() => null), ...patch });

const seven = () => scene({ ...example('seven'), view: 'draft', policy: 'maglev' });
const hundred = () => scene({ ...example('hundred'), view: 'lookup', policy: 'maglev', key: 'user-42' });
const fewer = (size) => {
  const four = example('four');
  return scene({ ...four, size, view: 'change', policy: 'maglev', other: 'rendezvous-table', changes: four.backends.map((_, i) => (i === 3 ? { op: 'remove' } : null)) });
};

export const EXPERIMENTS = [
  {
    id: 'draft', title: 'The last slot',
    story: 'Seven slots; A wants 3 first, B wants 0, C wants 3 as well. They take turns: A, B, C, A, B, C, and A once more. Slot 6 is the last to go, and A has to ask for two others first.',
    question: 'How many times in the whole draft is a backend told “taken”?',
    choices: ['never', '2 times', '5 times', '12 times'],
    run(session) {
      const draft = session.draft(setupOf(seven()));
      let refusals = 0;
      for (let i = 0; i < draft.length; i += 1) refusals += draft.turn(i).refused.length;
      return { answer: `${refusals} times`, say: `${refusals} refusals in ${draft.length} turns. They grow rarer the emptier the table is: filling M slots takes about M ln M questions in all, which is why a draft of 65537 slots is still a matter of milliseconds.` };
    },
    scene: () => ({ ...seven(), turn: 0 }), show: 'Play it', play: true,
  },
  {
    id: 'lookup', title: 'Two policies, one flow',
    story: 'A hundred backends. The same 20,000 flows are looked up in a Maglev table and by rendezvous, which share a hash and a seed.',
    question: 'For how many of the flows do the two name the same backend?',
    choices: ['nearly all', 'about half', 'about 1 in 10', 'about 1 in 100'],
    run(session) {
      const state = hundred();
      const { moves } = session.flows(setupOf(state, 'maglev'), setupOf(state, 'rendezvous'), FLOWS);
      const same = moves.compared - moves.moved;
      const share = same / moves.compared;
      const choice = share > 0.75 ? 0 : share > 0.3 ? 1 : share > 0.04 ? 2 : 3;
      return { answer: this.choices[choice], say: `${count(same)} of ${count(moves.compared)} flows, ${percent(share)}: as many as chance gives. Neither policy is wrong; but changing from one to the other moves nearly every new flow once.` };
    },
    scene: hundred, show: 'Look one up',
  },
  {
    id: 'change', title: 'One of four leaves',
    story: 'Four equal backends, 20,000 flows. One leaves, so its quarter has to move. Under Maglev a few flows of the others move as well: needlessly.',
    question: 'The table grows from 31 slots to 65537. What becomes of the needless moves under Maglev?',
    choices: ['they stay about the same', 'they halve', 'they fall below a tenth', 'they vanish entirely'],
    run(session) {
      const needless = (size, policy) => {
        const { before, after } = changeOf(fewer(size), policy);
        return session.flows(before, after, FLOWS).moves.needless;
      };
      const [small, large] = [needless(31, 'maglev'), needless(65537, 'maglev')];
      const choice = large === 0 ? 3 : large < small / 10 ? 2 : large < small * 0.7 ? 1 : 0;
      const other = needless(31, 'rendezvous-table');
      return { answer: this.choices[choice], say: `${count(small)} needless moves at 31 slots, ${count(large)} at 65537. A rendezvous table has ${count(other)} at 31 slots and at any other size: a bid does not depend on who else is bidding.` };
    },
    scene: () => fewer(31), show: 'See which cells',
  },
];

export const QUESTIONS = [
  {
    ask: 'Why must M be a prime?',
    choices: ['So that every backend’s walk, whatever its skip, visits every slot', 'So that the remainder is quick to compute', 'So that all backends own equally many slots'],
    right: 0,
    because: 'A walk by steps of skip comes back to its start after M / gcd(M, skip) slots. With a prime M that is M for every skip. With another M some walks are short, and a draft may wait forever for a slot that nobody left can reach.',
  },
  {
    ask: 'Once the table is filled, what does a look-up cost?',
    choices: ['One hash for each backend', 'One hash, one remainder, one read', 'A binary search'],
    right: 1,
    because: 'The backends’ number does not come into it. That is what the table is for; rendezvous, which keeps none, hashes once for each backend.',
  },
  {
    ask: 'What does a larger table buy?',
    choices: ['Faster look-ups', 'More even shares and less needless churn', 'Nothing but memory spent'],
    right: 1,
    because: 'Shares are even to one slot, and one slot weighs less in a large table. Needless churn falls too. A hundred slots for each backend keep shares within one per cent.',
  },
  {
    ask: 'Two balancers list the same backends in different orders. Do they send flows alike?',
    choices: ['Yes: turns go by identity, not by place in a list', 'No: turns depend on the order', 'Only without weights'],
    right: 0,
    because: 'Guideway orders backends by their identity before the draft, and all balancers share one seed. Equal digests prove that two tables answer alike: try it, and give two backends each other’s name in the panel.',
  },
  {
    ask: 'A backend is drained. What becomes of its connections?',
    choices: ['They are cut off', 'They move to other backends', 'They stay until they end; new ones go elsewhere'],
    right: 2,
    because: 'The table says where new flows go, and there draining and removing look the same. The balancer remembers the old flows of slots that changed owner, and keeps sending them where they were.',
  },
];
