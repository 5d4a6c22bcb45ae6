//! Timing several candidates in turns.

use std::time::{Duration, Instant};

/// Something to time, under a name.
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'static str,
    pub(crate) run: Box<dyn FnMut() + 'a>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new<T>(name: &'static str, mut work: impl FnMut() -> T + 'a) -> Self {
        let run = Box::new(move || {
            std::hint::black_box(work());
        });
        Self { name, run }
    }
}

/// The median time of one run of each candidate.
///
/// They run one after the other, `rounds` times, after one round that isn't counted; so whatever else the machine does
/// meets all of them alike. A short run follows another of the same candidate that isn't timed, so that none pays for
/// what its predecessor left in the caches. A run that takes over a second counts at once and isn't repeated.
pub(crate) fn medians(rounds: usize, candidates: &mut [Candidate<'_>]) -> Vec<(&'static str, Duration)> {
    let slow = Duration::from_secs(1);
    let short = Duration::from_millis(50);
    let mut times: Vec<Vec<Duration>> = candidates.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for (candidate, times) in candidates.iter_mut().zip(&mut times) {
            if times.first().is_some_and(|&first| first >= slow) {
                continue;
            }
            if times.first().is_some_and(|&first| first < short) {
                (candidate.run)();
            }
            let start = Instant::now();
            (candidate.run)();
            let elapsed = start.elapsed();
            if round > 0 || elapsed >= slow {
                times.push(elapsed);
            }
        }
    }
    candidates
        .iter()
        .zip(times)
        .map(|(candidate, mut times)| {
            times.sort();
            (candidate.name, times[times.len() / 2])
        })
        .collect()
}

/// What the measurements were made on.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{} ({architecture}, {os}), {cores} cores", model.unwrap_or("unknown processor"))
}
