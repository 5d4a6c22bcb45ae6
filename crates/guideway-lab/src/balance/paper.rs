//! The Maglev paper's comparison of three ways to fill a table, beside the figures that it prints.
//!
//! D. Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 5.3: 1,000 backends, tables
//! of 65,537 and 655,373 slots, each filled by Maglev hashing, by Karger's ring with 1,000 views (points) a backend, and by rendezvous
//! hashing. Printed is how much backends must be over-provisioned. One table each was filled there; here there are several, so
//! that a printed figure can be seen among what chance allows.
//!
//! How the paper's ring becomes a table it does not say. A ring of as many *places* as the table has slots gives its figures
//! ([`Method::KargerPlaces`]); points of a finer circle, looked up by hashes, do not ([`Method::Ring`]), because there every slot is a
//! throw of its own.

use guideway_hash::TableSize;
use guideway_hash::churn::Balance;
use guideway_hash::hash::{self, NativeHasher, StableHasher, native};
use serde::Serialize;

use super::owned;
use crate::population::{Weights, names};
use crate::random::Random;
use crate::refusal::within;
use crate::{Contender, Estimate, Execution, Refusal};

/// Backends of the paper's comparison.
pub const BACKENDS: u32 = 1_000;
/// Its table sizes.
pub const SLOTS: [u32; 2] = [65_537, 655_373];
/// Points of a backend on its ring.
pub const VIEWS: u32 = 1_000;

/// A way to fill a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Maglev hashing.
    Maglev,
    /// A ring of M places. View after view, each backend takes the place that its hash names, unless it is taken; what is free at the
    /// end goes to the next taken place.
    KargerPlaces,
    /// Guideway's ring: points on a circle of 2^64 places, slots looked up by their hash.
    Ring,
    /// Rendezvous hashing of each slot.
    Rendezvous,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Maglev, Self::KargerPlaces, Self::Ring, Self::Rendezvous];

    /// What it is called.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Maglev => "Maglev",
            Self::KargerPlaces => "Karger's ring of M places, 1,000 views",
            Self::Ring => "ring of 2^64 places, 1,000 points",
            Self::Rendezvous => "rendezvous",
        }
    }

    /// The over-provisioning that the paper prints for a table of `slots`.
    pub fn published(self, slots: u32) -> Option<f64> {
        match (self, slots) {
            (Self::KargerPlaces, 65_537) => Some(0.297),
            (Self::KargerPlaces, 655_373) => Some(0.103),
            (Self::Rendezvous, 65_537) => Some(0.495),
            (Self::Rendezvous, 655_373) => Some(0.123),
            _ => None,
        }
    }
}

/// What the comparison found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Decided the hashes.
    pub seed: u64,
    /// How often each table was filled, each time with another hash.
    pub runs: u32,
    /// One way and size a row.
    pub rows: Vec<Row>,
}

/// One way to fill a table of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The way.
    pub method: Method,
    /// The size.
    pub slots: u32,
    /// The over-provisioning that the paper prints; `None` where it prints no number.
    pub published: Option<f64>,
    /// The over-provisioning here: the highest load less 1.
    pub over_provisioning: Estimate,
    /// The lowest load here.
    pub min_over_mean: Estimate,
}

impl Row {
    /// Whether the printed figure lies between the lowest and the highest run here, give or take half its last digit.
    pub fn agrees(&self) -> Option<bool> {
        let Estimate { least, most, .. } = self.over_provisioning;
        self.published.map(|published| (least - 0.000_5..=most + 0.000_5).contains(&published))
    }
}

/// Fills each table `runs` times.
///
/// # Errors
/// [`Refusal::Range`] for a number of runs that makes no sense.
pub fn run(seed: u64, runs: u32, execution: &Execution<'_>) -> Result<Report, Refusal> {
    within("the number of runs", runs, 1, 10_000)?;
    let cases: Vec<(Method, u32)> =
        SLOTS.into_iter().flat_map(|slots| Method::ALL.map(|method| (method, slots))).collect();
    let jobs: Vec<_> = cases.iter().flat_map(|&case| (0..runs).map(move |run| (case, run))).collect();
    let balances = execution.run(&jobs, |&((method, slots), run)| {
        let counts = fill(method, slots, BACKENDS, VIEWS, seed, run)?;
        let loads: Vec<(u64, u32)> = counts.into_iter().map(|count| (count, 1)).collect();
        Ok::<_, Refusal>(Balance::of(loads).unwrap_or_else(|| unreachable!("somebody owns something")))
    })?;
    let rows = cases.iter().zip(balances.chunks(runs as usize)).map(|(&(method, slots), runs)| {
        let of = |measure: fn(&Balance) -> f64| {
            Estimate::of(runs.iter().map(measure)).unwrap_or(Estimate::NOTHING)
        };
        Row {
            method,
            slots,
            published: method.published(slots),
            over_provisioning: of(|balance| balance.over_provisioning),
            min_over_mean: of(|balance| balance.min_over_mean),
        }
    });
    Ok(Report { seed, runs, rows: rows.collect() })
}

/// How many slots each backend owns.
fn fill(
    method: Method,
    slots: u32,
    backends: u32,
    views: u32,
    seed: u64,
    run: u32,
) -> Result<Vec<u64>, Refusal> {
    let hash_seed = Random::stream(seed, 2 * u64::from(run)).word();
    let names = names(backends);
    let contender = match method {
        Method::Maglev => Contender::Maglev,
        Method::Ring => Contender::Ring(views),
        Method::Rendezvous => Contender::RendezvousTable,
        Method::KargerPlaces => return Ok(karger_places(&names, views, slots, hash_seed)),
    };
    let size = TableSize::new(slots).unwrap_or_default();
    owned(contender, &names, &Weights::equal(), size, hash_seed, || {
        Random::stream(seed, 2 * u64::from(run) + 1)
    })
}

fn karger_places(names: &[String], views: u32, slots: u32, seed: u64) -> Vec<u64> {
    let hasher = NativeHasher::new(seed);
    let keys: Vec<u64> = names.iter().map(|name| hasher.hash(hash::RING, name.as_bytes())).collect();
    let mut places: Vec<Option<usize>> = vec![None; slots as usize];
    for view in 0..u64::from(views) {
        for (backend, &key) in keys.iter().enumerate() {
            let place = native::hash_words(key, &[view]) % u64::from(slots);
            places[place as usize].get_or_insert(backend);
        }
    }
    let mut counts = vec![0; names.len()];
    // From the end back, what is free follows the place after it; the first taken place also serves the end of the ring.
    let mut next = places.iter().flatten().next().copied();
    for place in places.iter().rev() {
        next = place.or(next);
        if let Some(owner) = next {
            counts[owner] += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_of_places_is_filled_as_told() {
        let names = names(5);
        for (slots, views) in [(31, 2), (31, 50), (257, 7)] {
            let hasher = NativeHasher::new(3);
            // Slowly: the owner of a place is the first to have asked for the nearest place, at or after it, that anybody asked for.
            let asked: Vec<(u64, usize)> = (0..views)
                .flat_map(|view| names.iter().enumerate().map(move |(backend, name)| (view, backend, name)))
                .map(|(view, backend, name)| {
                    let key = hasher.hash(hash::RING, name.as_bytes());
                    (native::hash_words(key, &[view]) % u64::from(slots), backend)
                })
                .collect();
            let mut counts = vec![0; 5];
            for slot in 0..u64::from(slots) {
                let distance = |place: u64| (place + u64::from(slots) - slot) % u64::from(slots);
                let (_, owner) = asked.iter().min_by_key(|&&(place, _)| distance(place)).unwrap();
                counts[*owner] += 1;
            }
            assert_eq!(karger_places(&names, views as u32, slots, 3), counts);
        }
    }

    #[test]
    fn the_printed_figures_are_among_what_chance_allows() {
        // The larger table takes a while; the laboratory's document shows it.
        for method in [Method::KargerPlaces, Method::Rendezvous] {
            let runs = (0..12).map(|run| {
                let counts = fill(method, SLOTS[0], BACKENDS, VIEWS, 1, run).unwrap();
                *counts.iter().max().unwrap() as f64 * f64::from(BACKENDS) / f64::from(SLOTS[0]) - 1.0
            });
            let row = Row {
                method,
                slots: SLOTS[0],
                published: method.published(SLOTS[0]),
                over_provisioning: Estimate::of(runs).unwrap(),
                min_over_mean: Estimate::NOTHING,
            };
            assert_eq!(row.agrees(), Some(true), "{row:?}");
        }
    }
}
