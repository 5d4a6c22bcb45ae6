//! The fill as data: one item a turn.

use alloc::vec::Vec;

use super::preference::{self, step};
use super::{BuildError, Preference, Turns};

/// One turn of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The round, from 0.
    pub round: u32,
    /// The index of the backend whose turn it was.
    pub backend: u32,
    /// The slots it asked for and found taken, in order.
    pub refused: Vec<u32>,
    /// The slot it got.
    pub slot: u32,
}

/// The fill of a table, turn by turn: an iterator of M [`Turn`]s that give the table that
/// [`fill`](super::fill) gives.
///
/// It is for explaining and for tests. It allocates when a turn has refusals, and stops the process as any
/// collection does when memory runs out then.
#[derive(Clone, Debug)]
pub struct Draft<T> {
    size: u32,
    preferences: Vec<Preference>,
    /// Per backend, the slot it asks for next.
    wanted: Vec<u32>,
    taken: Vec<bool>,
    turns: T,
    done: u32,
    round: u32,
    last: Option<u32>,
}

impl<T: Turns> Draft<T> {
    /// The draft of a table of `size` slots.
    ///
    /// # Errors
    /// As [`fill`](super::fill), except that a turn for a backend that does not exist ends the iteration.
    pub fn new(size: u32, preferences: &[Preference], turns: T) -> Result<Self, BuildError> {
        preference::validate(size, preferences)?;
        let backends = preferences.len();
        let out_of_memory = |_| BuildError::Allocation { slots: size, backends };
        let mut own = Vec::new();
        let mut wanted = Vec::new();
        let mut taken = Vec::new();
        own.try_reserve_exact(backends).map_err(out_of_memory)?;
        own.extend_from_slice(preferences);
        wanted.try_reserve_exact(backends).map_err(out_of_memory)?;
        wanted.extend(preferences.iter().map(|p| p.offset));
        taken.try_reserve_exact(size as usize).map_err(out_of_memory)?;
        taken.resize(size as usize, false);
        Ok(Self { size, preferences: own, wanted, taken, turns, done: 0, round: 0, last: None })
    }
}

impl<T: Turns> Iterator for Draft<T> {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        if self.done == self.size {
            return None;
        }
        let backend = self.turns.next();
        let skip = self.preferences.get(backend as usize)?.skip;
        let wanted = &mut self.wanted[backend as usize];
        let mut refused = Vec::new();
        while self.taken[*wanted as usize] {
            refused.push(*wanted);
            *wanted = step(*wanted, skip, self.size);
        }
        let slot = *wanted;
        self.taken[slot as usize] = true;
        *wanted = step(slot, skip, self.size);
        self.done += 1;
        self.round = match self.turns.round() {
            Some(round) => round,
            None => self.round + u32::from(self.last.is_some_and(|last| backend <= last)),
        };
        self.last = Some(backend);
        Some(Turn { round: self.round, backend, refused, slot })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some((self.size - self.done) as usize))
    }
}
