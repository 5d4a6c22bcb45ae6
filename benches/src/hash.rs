//! `hash`: ours by each kernel, the textbook loop, and the crates `poise-core` 0.1 and `maglev` 0.2.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use guideway_hash::hash::native::{hash_words, start};
use guideway_hash::hash::{FLOW, NativeHasher};
use guideway_hash::maglev::fast::{Kernel, fill_with};
use guideway_hash::maglev::{MaglevBuilder, RoundRobin, Weighted, fill_textbook};
use guideway_hash::{Table, TableSize};
use serde_json::{Value, json};

use crate::measure::{Candidate, machine, medians};

/// Table sizes and numbers of backends.
const BUILDS: [(u32, usize); 5] =
    [(65_537, 10), (65_537, 100), (65_537, 1000), (655_373, 1000), (5_000_011, 1000)];
/// `maglev` 0.2 keeps a permutation of 8-byte slots for each backend; above this it isn't run.
const MATRIX_LIMIT_BYTES: usize = 6 << 30;
const LOOK_UPS: usize = 1 << 16;

pub(crate) struct Report {
    machine: String,
    builds: Vec<Build>,
    parallel: Parallel,
    look_ups: Vec<(&'static str, f64)>,
}

struct Build {
    size: u32,
    backends: usize,
    medians: Vec<(&'static str, Duration)>,
    table_bytes: usize,
    scratch_bytes: usize,
}

struct Parallel {
    tables: usize,
    threads: usize,
    one_thread: Duration,
    all_threads: Duration,
}

pub(crate) fn run(quick: bool) -> Report {
    let sizes = if quick { &BUILDS[..4] } else { &BUILDS[..] };
    let builds = sizes.iter().map(|&(size, backends)| build(size, backends, quick)).collect();
    Report { machine: machine(), builds, parallel: parallel(quick), look_ups: look_ups(quick) }
}

fn names(backends: usize) -> Vec<String> {
    (0..backends).map(|i| format!("10.{}.{}.{}:443", i >> 16, (i >> 8) & 255, i & 255)).collect()
}

/// Each candidate starts from the same list of names and ends with a table, hashing included.
fn build(size: u32, backends: usize, quick: bool) -> Build {
    let builder = MaglevBuilder::new().size(TableSize::new(size).expect("the sizes above are primes"));
    let names = names(backends);
    let list: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let uneven: Vec<(&str, u32)> =
        names.iter().zip(1..).map(|(name, i)| (name.as_str(), 1 + i % 7)).collect();
    let by_kernel = |kernel| {
        let plan = builder.plan(&list).expect("the names differ");
        fill_with(kernel, size, &plan.preferences, RoundRobin::new(backends as u32)).expect("a valid plan")
    };
    let textbook = || {
        let plan = builder.plan(&list).expect("the names differ");
        fill_textbook(size, &plan.preferences, RoundRobin::new(backends as u32)).expect("a valid plan")
    };
    let table = builder.build(&list).expect("the names differ");
    assert!(by_kernel(Kernel::Portable) == textbook(), "kernels agree with the textbook");
    let mut candidates = vec![Candidate::new("guideway", || builder.build(&list).expect("the names differ"))];
    for kernel in [Kernel::Avx2, Kernel::Portable] {
        if kernel.is_available() {
            candidates.push(Candidate::new(kernel.name(), move || by_kernel(kernel)));
        }
    }
    candidates.push(Candidate::new("weighted 1-7", || builder.build(&uneven).expect("the names differ")));
    candidates.push(Candidate::new("weighted textbook", || {
        let plan = builder.plan(&uneven).expect("the names differ");
        let turns = Weighted::new(size, &plan.weights).expect("the weights are positive");
        fill_textbook(size, &plan.preferences, turns).expect("a valid plan")
    }));
    candidates.push(Candidate::new("textbook", textbook));
    candidates.push(Candidate::new("poise-core", || {
        use poise_core::policy::{Maglev, MaglevConfig};
        let peers: Vec<_> = names.iter().map(|name| poise_core::Backend::new(name.as_str())).collect();
        let mut policy = Maglev::<&str>::new(MaglevConfig::new(size as usize).expect("a prime"));
        policy.reconcile(&peers).expect("the names differ");
        policy
    }));
    if size as usize * backends * size_of::<usize>() <= if quick { 1 << 28 } else { MATRIX_LIMIT_BYTES } {
        candidates.push(Candidate::new("maglev", || {
            maglev::Maglev::with_capacity(names.iter().map(String::as_str), size as usize)
        }));
    }
    let rounds = if size > 1_000_000 {
        3
    } else if size > 100_000 {
        9
    } else if quick {
        15
    } else {
        51
    };
    let medians = medians(rounds, &mut candidates);
    let scratch_bytes = backends * 88 + size as usize / 8;
    Build { size, backends, medians, table_bytes: table.memory_bytes(), scratch_bytes }
}

/// Builds share nothing, so as many run at a time as there are cores.
fn parallel(quick: bool) -> Parallel {
    let tables = if quick { 16 } else { 64 };
    let names = names(1000);
    let list: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let work = |seeds: std::ops::Range<u64>| -> Vec<Table> {
        let builder = |seed| MaglevBuilder::new().hasher(NativeHasher::new(seed));
        seeds.map(|seed| builder(seed).build(&list).expect("the names differ")).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = (tables as u64).div_ceil(threads as u64);
    let mut candidates = [
        Candidate::new("one", || work(0..tables as u64)),
        Candidate::new("all", || {
            std::thread::scope(|scope| {
                let starts = (0..tables as u64).step_by(share as usize);
                let workers: Vec<_> = starts
                    .map(|from| scope.spawn(move || work(from..(from + share).min(tables as u64))))
                    .collect();
                workers
                    .into_iter()
                    .map(|worker| worker.join().expect("a build doesn't panic").len())
                    .sum::<usize>()
            })
        }),
    ];
    let medians = medians(5, &mut candidates);
    Parallel { tables, threads, one_thread: medians[0].1, all_threads: medians[1].1 }
}

/// Nanoseconds a look-up, over keys of two words as a packet's flow key has.
fn look_ups(quick: bool) -> Vec<(&'static str, f64)> {
    let names = names(100);
    let list: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let table = MaglevBuilder::new().build(&list).expect("the names differ");
    let bare: Vec<u16> = table.iter().map(|owner| owner as u16).collect();
    let state = start(NativeHasher::default().seed(), FLOW);
    let keys: Vec<[u64; 2]> =
        (0..LOOK_UPS as u64).map(|i| [i.wrapping_mul(0x9e37_79b9), i << 16 | 443]).collect();
    let peers: Vec<_> = names.iter().map(|name| poise_core::Backend::new(name.as_str())).collect();
    let mut poise = poise_core::policy::Maglev::<&str>::default();
    poise.reconcile(&peers).expect("the names differ");
    let other = maglev::Maglev::with_capacity(names.iter().map(String::as_str), 65_537);
    let mut candidates = [
        Candidate::new("hash alone", || keys.iter().fold(0, |sum, key| sum ^ hash_words(state, key))),
        Candidate::new("hash and one array read", || {
            let size = black_box(bare.len() as u64);
            keys.iter().fold(0, |sum, key| sum ^ u64::from(bare[(hash_words(state, key) % size) as usize]))
        }),
        Candidate::new("guideway", || {
            keys.iter().fold(0, |sum, key| sum ^ u64::from(table.pick(hash_words(state, key))))
        }),
        Candidate::new("poise-core", || {
            use poise_core::Policy;
            keys.iter().fold(0, |sum, key| sum ^ poise.pick(&peers, key).expect("eligible peers").index())
        }),
        Candidate::new("maglev", || {
            use maglev::ConsistentHasher;
            keys.iter().fold(0, |sum, key| sum ^ other.get(key).expect("nodes").len())
        }),
    ];
    let medians = medians(if quick { 5 } else { 31 }, &mut candidates);
    medians.into_iter().map(|(name, time)| (name, time.as_secs_f64() * 1e9 / LOOK_UPS as f64)).collect()
}

fn median_of(medians: &[(&'static str, Duration)], name: &str) -> Option<Duration> {
    medians.iter().find(|(candidate, _)| *candidate == name).map(|&(_, time)| time)
}

impl Build {
    /// How many times the textbook takes longer, on the same turns.
    fn speed_up(&self, name: &str, time: Duration) -> f64 {
        let base = if name.starts_with("weighted") { "weighted textbook" } else { "textbook" };
        let base = median_of(&self.medians, base).expect("the textbook always runs");
        base.as_secs_f64() / time.as_secs_f64()
    }
}

impl Report {
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.machine);
        // Writing to a string doesn't fail.
        for build in &self.builds {
            let _ = writeln!(
                text,
                "\nbuild: {} slots, {} backends ({} KiB table, about {} KiB scratch)\n  {:<24}{:>12}{:>20}",
                build.size,
                build.backends,
                build.table_bytes / 1024,
                build.scratch_bytes / 1024,
                "",
                "median ms",
                "times the textbook"
            );
            for &(name, time) in &build.medians {
                let ms = time.as_secs_f64() * 1e3;
                let _ = writeln!(text, "  {name:<24}{ms:>12.3}{:>20.2}", build.speed_up(name, time));
            }
        }
        let Parallel { tables, threads, one_thread, all_threads } = self.parallel;
        let (one, all) = (one_thread.as_secs_f64() * 1e3, all_threads.as_secs_f64() * 1e3);
        let _ = writeln!(
            text,
            "\n{tables} tables of 65537 slots, 1000 backends: {one:.1} ms on one thread, {all:.1} ms on {threads}"
        );
        let bare = self.look_ups.iter().find(|(name, _)| name.contains("array")).map_or(1.0, |&(_, ns)| ns);
        let _ = writeln!(text, "\nlook-up, 100 backends {:>15}{:>20}", "ns", "of the array read");
        for (name, ns) in &self.look_ups {
            let _ = writeln!(text, "  {name:<24}{ns:>12.2}{:>20.2}", ns / bare);
        }
        text
    }

    pub(crate) fn to_json(&self) -> Value {
        let build = |build: &Build| {
            let medians = |&(name, time): &(&str, Duration)| json!({ "name": name, "median_ms": time.as_secs_f64() * 1e3, "times_textbook": build.speed_up(name, time) });
            json!({
                "table_size": build.size,
                "backends": build.backends,
                "table_bytes": build.table_bytes,
                "scratch_bytes": build.scratch_bytes,
                "candidates": build.medians.iter().map(medians).collect::<Vec<_>>(),
            })
        };
        json!({
            "machine": self.machine,
            "builds": self.builds.iter().map(build).collect::<Vec<_>>(),
            "parallel": {
                "tables": self.parallel.tables,
                "threads": self.parallel.threads,
                "one_thread_ms": self.parallel.one_thread.as_secs_f64() * 1e3,
                "all_threads_ms": self.parallel.all_threads.as_secs_f64() * 1e3,
            },
            "look_ups": self.look_ups.iter().map(|(name, ns)| json!({ "name": name, "ns": ns })).collect::<Vec<_>>(),
        })
    }
}
