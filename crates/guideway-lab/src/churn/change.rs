//! What becomes of the backends.

use guideway_hash::policy::{Candidate, State};
use serde::Serialize;

use crate::Refusal;
use crate::population::{Weights, candidates};
use crate::random::Random;

/// A change of the backends. Which of them it meets is drawn by lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// So many take no new flows any more.
    Drain(u32),
    /// So many join.
    Add(u32),
    /// So many get another weight.
    Reweight {
        /// How many.
        count: u32,
        /// Their new weight.
        to: u32,
    },
}

impl Change {
    /// How many backends it meets.
    pub fn count(self) -> u32 {
        match self {
            Self::Drain(count) | Self::Add(count) | Self::Reweight { count, .. } => count,
        }
    }

    /// `drain 1 of 4`, `add 1 to 4`, `weigh 2 of 4 at 3`.
    pub fn among(self, backends: u32) -> String {
        match self {
            Self::Drain(count) => format!("drain {count} of {backends}"),
            Self::Add(count) => format!("add {count} to {backends}"),
            Self::Reweight { count, to } => format!("weigh {count} of {backends} at {to}"),
        }
    }

    /// The most backends that there are at a time, of `backends` before the change.
    pub(crate) fn most_backends(self, backends: u32) -> Result<u32, Refusal> {
        let count = self.count();
        crate::refusal::within("the number of backends that change", count, 1, 100_000)?;
        match self {
            Self::Drain(_) if count >= backends => Err(Refusal::NobodyLeft { count, backends }),
            Self::Reweight { .. } if count > backends => Err(Refusal::TooMany { count, backends }),
            Self::Reweight { to, .. } => {
                crate::refusal::within("the new weight", to, 1, u32::MAX).map(|()| backends)
            }
            Self::Drain(_) => Ok(backends),
            Self::Add(_) => Ok(backends + count),
        }
    }

    /// The backends before and after. `names` are as many as there are at most, the first `backends` of them there before.
    pub(crate) fn lists<'a>(
        self,
        names: &'a [String],
        backends: u32,
        weights: &Weights,
        random: &mut Random,
    ) -> (Vec<Candidate<'a>>, Vec<Candidate<'a>>) {
        let all = candidates(names, weights);
        let before = all[..backends as usize].to_vec();
        let mut places: Vec<usize> = (0..before.len()).collect();
        random.shuffle(&mut places);
        let met = places.into_iter().take(self.count() as usize);
        let mut after = before.clone();
        match self {
            Self::Add(_) => after = all,
            Self::Drain(_) => met.for_each(|place| after[place] = after[place].with_state(State::Ineligible)),
            Self::Reweight { to, .. } => met.for_each(|place| after[place] = after[place].with_weight(to)),
        }
        (before, after)
    }
}
