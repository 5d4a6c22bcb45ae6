//! The clients: short requests without an end, and downloads that take their time.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::client::{Download, Failed, HttpLoad, Pace, Progress};
use guideway_testbed::{Namespace, vips};

use crate::failure::Failure;

/// Clients that ask at once.
const CLIENTS: usize = 8;

/// How long a client waits for anything: long enough for the kernel to send its first packet twice again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time that rates are taken over.
const RATE_OVER: Duration = Duration::from_secs(1);

/// How many bytes of each download are read a second.
const DOWNLOAD_RATE: u64 = 1 << 20;

/// All clients.
#[derive(Debug)]
pub(crate) struct Clients {
    namespace: Namespace,
    loads: Vec<HttpLoad>,
    downloads: Vec<Download>,
    history: VecDeque<(Instant, BTreeMap<String, u64>)>,
}

/// What they have seen so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Requests that were answered right, by backend.
    pub(crate) answered: BTreeMap<String, u64>,
    /// Requests that were not.
    pub(crate) failed: Vec<Failed>,
    /// What the slowest answer took.
    pub(crate) slowest: Duration,
}

impl Seen {
    /// All requests.
    pub(crate) fn total(&self) -> u64 {
        self.answered.values().sum::<u64>() + self.failed.len() as u64
    }
}

impl Clients {
    /// Starts the short requests.
    pub(crate) fn start(namespace: &Namespace, pause: Duration) -> Result<Self, Failure> {
        let pace = Pace { pause, patience: PATIENCE };
        let mut addresses = vips(HTTP_PORT);
        let loads = (0..CLIENTS)
            .map(|_| {
                addresses.reverse();
                HttpLoad::paced(namespace, &addresses, pace).map_err(Failure::failed)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { namespace: namespace.clone(), loads, downloads: Vec::new(), history: VecDeque::new() })
    }

    /// What short requests have seen.
    pub(crate) fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        for report in self.loads.iter().map(HttpLoad::report) {
            for (backend, count) in report.answered {
                *seen.answered.entry(backend).or_default() += count;
            }
            seen.slowest = seen.slowest.max(report.slowest);
            seen.failed.extend(report.failed);
        }
        seen
    }

    /// Requests that each client has ended. When each has ended one more, all that were under way are over.
    pub(crate) fn ended(&self) -> Vec<u64> {
        let ended = |load: &HttpLoad| {
            let report = load.report();
            report.total() + report.failed.len() as u64
        };
        self.loads.iter().map(ended).collect()
    }

    /// Begins downloads that last about so long, to both virtual addresses in turn, until `enough` of those that there
    /// are now say so.
    pub(crate) fn download(
        &mut self,
        lasting: Duration,
        enough: impl Fn(&[Progress]) -> bool,
    ) -> Result<(), Failure> {
        let bytes = (DOWNLOAD_RATE as f64 * lasting.as_secs_f64()) as u64;
        let mut begun = Vec::new();
        for &vip in vips(HTTP_PORT).iter().cycle().take(MOST_DOWNLOADS) {
            let download = Download::start(&self.namespace, vip, bytes, DOWNLOAD_RATE);
            let download = download.map_err(Failure::failed)?;
            begun.push(download.progress());
            self.downloads.push(download);
            if enough(&begun) {
                return Ok(());
            }
        }
        Err(Failure::failed(format!("of {MOST_DOWNLOADS} downloads not enough went where they were needed")))
    }

    /// How far all downloads are.
    pub(crate) fn downloads(&self) -> Vec<Progress> {
        self.downloads.iter().map(Download::progress).collect()
    }

    /// Takes a sample for [`Clients::rates`].
    pub(crate) fn sample(&mut self) {
        let now = Instant::now();
        self.history.push_back((now, self.seen().answered));
        // The oldest that is kept is just as old as rates need.
        while self.history.get(1).is_some_and(|(at, _)| now - *at >= RATE_OVER) {
            self.history.pop_front();
        }
    }

    /// Answers a second lately, by backend.
    pub(crate) fn rates(&self) -> BTreeMap<String, f64> {
        let (Some((from, before)), Some((to, after))) = (self.history.front(), self.history.back()) else {
            return BTreeMap::new();
        };
        let seconds = (*to - *from).as_secs_f64();
        if seconds == 0.0 {
            return BTreeMap::new();
        }
        let rate = |(backend, count): (&String, &u64)| {
            let more = count - before.get(backend).copied().unwrap_or_default();
            (backend.clone(), more as f64 / seconds)
        };
        after.iter().map(rate).collect()
    }
}

/// Downloads that are tried until enough are where they are needed: with three equal backends, 64 all miss one of them
/// once in 10^11 times.
const MOST_DOWNLOADS: usize = 64;
