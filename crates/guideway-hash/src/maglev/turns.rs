//! Whose turn it is: the part of Maglev hashing that weights change.

/// Whose turn it is to claim a slot.
///
/// The fill asks once a slot. Implementors must not stop: a fill of M slots takes M turns.
pub trait Turns {
    /// The index of the backend whose turn is next.
    fn next(&mut self) -> u32;

    /// The round that the last turn belonged to, from 0, where the rule counts rounds.
    ///
    /// Only the [`Draft`](super::Draft) shows it. Where it is `None` the draft begins a round whenever the index
    /// did not rise.
    fn round(&self) -> Option<u32> {
        None
    }
}

/// One turn each, in order, round after round: the paper's rule (section 3.4).
#[derive(Clone, Debug)]
pub struct RoundRobin {
    backends: u32,
    next: u32,
    rounds: u32,
}

impl RoundRobin {
    /// Turns for backends 0 to `backends - 1`.
    pub const fn new(backends: u32) -> Self {
        Self { backends, next: 0, rounds: 0 }
    }
}

impl Turns for RoundRobin {
    #[inline]
    fn next(&mut self) -> u32 {
        let turn = self.next;
        if turn == 0 {
            self.rounds += 1;
        }
        self.next += 1;
        if self.next >= self.backends {
            self.next = 0;
        }
        turn
    }

    fn round(&self) -> Option<u32> {
        self.rounds.checked_sub(1)
    }
}
