//! Who may have how many connections at once.
//!
//! A connection costs a descriptor, which the daemon needs for its own work, and everybody on the machine may open one. So
//! their number is bounded, and nobody can take all of them from the others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::descriptors;

/// Connections of one way in at most.
const MOST: u64 = 128;

/// That somebody is turned away is logged so often at most.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Who is at the other end, as far as the kernel knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// A user of this machine, and the process.
    User { uid: u32, pid: Option<i32> },
    /// An address.
    Address(IpAddr),
    /// The kernel does not say.
    Unknown,
}

impl Peer {
    /// All processes of a user count together.
    const fn counted(self) -> Self {
        match self {
            Self::User { uid, .. } => Self::User { uid, pid: None },
            other => other,
        }
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User { uid, pid: Some(pid) } => write!(f, "uid {uid}, pid {pid}"),
            Self::User { uid, pid: None } => write!(f, "uid {uid}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// The places of one way in.
#[derive(Debug)]
pub(crate) struct Places {
    /// `operators`, `readers` or `tcp`.
    pub(crate) door: &'static str,
    most: u64,
    taken: Mutex<Taken>,
    turned_away: AtomicU64,
}

#[derive(Debug, Default)]
struct Taken {
    all: u64,
    by_peer: HashMap<Peer, u64>,
    told: Option<Instant>,
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    peer: Peer,
}

impl Places {
    /// The places of one of so many ways in, as many as the descriptors of this process allow.
    pub(super) fn of_one_of(doors: u64, door: &'static str) -> Arc<Self> {
        Self::with(door, (descriptors::part() / doors).clamp(4, MOST))
    }

    pub(super) fn with(door: &'static str, most: u64) -> Arc<Self> {
        Arc::new(Self { door, most, taken: Mutex::default(), turned_away: AtomicU64::new(0) })
    }

    /// A place for who comes; `None` where there is none for them. One peer gets three quarters at most.
    pub(super) fn take(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        let peer = peer.counted();
        let mut taken = self.taken();
        let Taken { all, by_peer, told } = &mut *taken;
        let own = by_peer.get(&peer).copied().unwrap_or(0);
        if *all < self.most && own < self.most - self.most / 4 {
            *all += 1;
            by_peer.insert(peer, own + 1);
            return Some(Place { places: Arc::clone(self), peer });
        }
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            let (open, door) = (*all, self.door);
            tracing::warn!(
                about = "api",
                door,
                "a connection of {peer} is turned away: {open} are open, {own} of them theirs"
            );
        }
        None
    }

    /// Connections now.
    pub(crate) fn open(&self) -> u64 {
        self.taken().all
    }

    /// Connections that were turned away.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Counts are right after every statement, so a panic elsewhere spoils nothing.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Entry::Occupied(mut own) = taken.by_peer.entry(self.peer) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_places_and_a_place_that_is_left_is_free() {
        let places = Places::with("readers", 8);
        let user = |uid, pid| Peer::User { uid, pid: Some(pid) };
        let mut held: Vec<Place> = (0..6).map(|pid| places.take(user(1_000, pid)).unwrap()).collect();
        assert!(places.take(user(1_000, 99)).is_none(), "all processes of a user count together");
        held.push(places.take(user(0, 1)).unwrap());
        held.push(places.take(Peer::Unknown).unwrap());
        assert!(places.take(user(0, 1)).is_none());
        assert_eq!((places.open(), places.turned_away()), (8, 2));
        held.clear();
        assert_eq!(places.open(), 0);
        assert!(places.taken().by_peer.is_empty());
        assert!(places.take(user(1_000, 0)).is_some());
    }
}
