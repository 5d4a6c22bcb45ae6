//! The rounds of one distinct check. Thousands a second are begun and answered, in an order that no cache foresees: what that
//! takes lies together here, and a round that finds what the one before found takes no memory.

use std::sync::Arc;
use std::time::Instant;

use super::check::{Check, Way};
use super::pace::{Dice, Stand, Times};
use super::round::{Finding, Leg, Legs};
use super::slab::Slab;
use super::subjects::SubjectId;

/// All streams, by number.
pub(super) type Streams = Slab<Stream>;

/// The number of a stream, as long as it is there.
pub(super) type StreamId = u32;

/// The rounds of one distinct check.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) check: Arc<Check>,
    /// As the check has them, which is far away.
    pub(super) times: Times,
    /// In the order of their names.
    pub(super) subjects: Vec<SubjectId>,
    /// The outcome that changes nothing of any of them, however often it comes: so it is with nearly every round.
    pub(super) settled: Option<bool>,
    dice: Dice,
    /// The number of the present round, or else of the last.
    pub(super) round: u64,
    /// When the round under way began.
    pub(super) asking: Option<Instant>,
    /// What the present round asks, or else the last.
    pub(super) legs: Legs,
    /// When the queue calls it.
    pub(super) due: Instant,
    pub(super) tunnel_failed: bool,
    pub(super) finding: Option<Finding>,
}

impl Stream {
    /// One that begins its first round at `due`.
    pub(super) fn new(check: Arc<Check>, dice: Dice, due: Instant) -> Self {
        let times = check.times;
        Self {
            check,
            times,
            subjects: Vec::new(),
            settled: None,
            dice,
            round: 0,
            asking: None,
            legs: Legs::new(),
            due,
            tunnel_failed: false,
            finding: None,
        }
    }

    /// Whether the next round has to find out what its legs are; else it asks what the last one asked.
    pub(super) fn has_other_legs(&self) -> bool {
        let asks_beside = self.legs.iter().any(|leg| !leg.decides);
        let lacks_mark = |leg: &Leg| leg.way.is_tunnel() && leg.mark.is_none();
        self.legs.is_empty() || self.asks_beside() != asks_beside || self.legs.iter().any(lacks_mark)
    }

    /// Whether it asks directly beside the ways that decide, to say which of the two is broken.
    pub(super) fn asks_beside(&self) -> bool {
        self.tunnel_failed && !self.check.ways.contains(&Way::Direct)
    }

    /// When the next round is to begin, if the last began at `began`.
    pub(super) fn next_round(&mut self, began: Instant, stand: Stand) -> Instant {
        began + self.times.gap(&mut self.dice, stand)
    }
}
