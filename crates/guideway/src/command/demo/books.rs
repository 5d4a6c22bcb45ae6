//! What is written down while scenes are played, and the report that comes of it.

use std::collections::BTreeMap;
use std::io::Write;

use guideway_forward::Outcome;
use guideway_testbed::client::Progress;
use serde::Serialize;

use super::churn::Change;
use super::clients::Seen;
use crate::columns::{Align, Columns};
use crate::failure::Failure;
use crate::screen::{Screen, Style};

/// What is written down.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) scenes: Vec<Scene>,
    pub(crate) changes: Vec<Change>,
    pub(crate) promises: Vec<Promise>,
    pub(crate) failed: Vec<String>,
    pub(crate) failed_on_killed: Vec<String>,
    /// The packets of daemons that took their books with them.
    pub(crate) packets: Packets,
}

/// A scene that was played.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Scene {
    pub(crate) scene: &'static str,
    pub(crate) seconds: f64,
}

/// Something that has to hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Promise {
    pub(crate) promise: String,
    pub(crate) kept: bool,
}

/// What became of packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Packets {
    pub(crate) received: u64,
    pub(crate) forwarded: u64,
    pub(crate) answered: u64,
    pub(crate) passed: u64,
    /// By reason; only those that there were.
    pub(crate) dropped: BTreeMap<String, u64>,
}

impl Packets {
    /// What a daemon's metrics say.
    pub(crate) fn of(metrics: &str) -> Self {
        let mut packets = Self::default();
        for line in metrics.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<u64>() else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            match name {
                "guideway_packets_received_total" => packets.received += value,
                "guideway_packets_forwarded_total" => packets.forwarded += value,
                "guideway_packets_answered_total" => packets.answered += value,
                "guideway_packets_passed_total" => packets.passed += value,
                "guideway_drops_total" if value > 0 => {
                    let reason = labels.split('"').nth(1).unwrap_or_default();
                    *packets.dropped.entry(reason.to_owned()).or_default() += value;
                }
                _ => {}
            }
        }
        packets
    }

    /// Adds others.
    pub(crate) fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.forwarded += other.forwarded;
        self.answered += other.answered;
        self.passed += other.passed;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason.clone()).or_default() += count;
        }
    }
}

/// What the demo has shown.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Whether every promise was kept.
    pub(crate) ok: bool,
    pub(crate) version: &'static str,
    /// `xdp` or `soft`.
    pub(crate) engine: String,
    /// How packets are read: `native`, `generic` or `socket`.
    pub(crate) mode: String,
    /// Whether it ran as root.
    pub(crate) root: bool,
    pub(crate) seconds: f64,
    pub(crate) scenes: Vec<Scene>,
    pub(crate) requests: Requests,
    pub(crate) downloads: Downloads,
    pub(crate) changes: Vec<Change>,
    pub(crate) packets: Packets,
    pub(crate) promises: Vec<Promise>,
}

/// Short requests.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Requests {
    pub(crate) total: u64,
    pub(crate) answered_by: BTreeMap<String, u64>,
    /// Those that may not fail and did.
    pub(crate) failed: u64,
    /// What their clients saw.
    pub(crate) failures: Vec<String>,
    /// Those that were on the backend that was killed when it died.
    pub(crate) failed_on_killed: u64,
    pub(crate) failures_on_killed: Vec<String>,
    pub(crate) slowest_seconds: f64,
}

/// Downloads.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Downloads {
    pub(crate) total: u64,
    pub(crate) whole: u64,
    /// What the clients of the others saw.
    pub(crate) failures: Vec<String>,
}

/// What it ran on.
#[derive(Debug, Clone)]
pub(crate) struct Rig {
    pub(crate) engine: String,
    pub(crate) mode: String,
    pub(crate) root: bool,
}

impl Books {
    /// Writes down whether something held that has to.
    pub(crate) fn promise(&mut self, promise: impl Into<String>, kept: bool) {
        self.promises.push(Promise { promise: promise.into(), kept });
    }

    /// Closes the books.
    pub(crate) fn close(mut self, rig: Rig, seen: Seen, downloads: &[Progress], seconds: f64) -> Report {
        let failure = |download: &Progress| match &download.end {
            Some(Ok(())) => None,
            Some(Err(what)) => Some(format!("{} after {} bytes: {what}", download.backend, download.bytes)),
            None => Some(format!("{} is not over after {} bytes", download.backend, download.bytes)),
        };
        let failures: Vec<_> = downloads.iter().filter_map(failure).collect();
        let total = downloads.len() as u64;
        let downloads = Downloads { total, whole: total - failures.len() as u64, failures };
        self.promise(
            "every request is answered, but for those on the backend that was killed",
            self.failed.is_empty(),
        );
        self.promise("every download comes whole", downloads.failures.is_empty());
        Report {
            ok: self.promises.iter().all(|promise| promise.kept),
            version: env!("CARGO_PKG_VERSION"),
            engine: rig.engine,
            mode: rig.mode,
            root: rig.root,
            seconds,
            scenes: self.scenes,
            requests: Requests {
                total: seen.total(),
                failed: self.failed.len() as u64,
                failures: self.failed,
                failed_on_killed: self.failed_on_killed.len() as u64,
                failures_on_killed: self.failed_on_killed,
                slowest_seconds: seen.slowest.as_secs_f64(),
                answered_by: seen.answered,
            },
            downloads,
            changes: self.changes,
            packets: self.packets,
            promises: self.promises,
        }
    }
}

impl Report {
    /// Shows it to a person.
    pub(crate) fn show(&self, screen: &mut Screen) -> Result<(), Failure> {
        writeln!(screen, "\n{}", screen.paint(Style::Heading, "Report"))?;
        let Requests { total, failed, failed_on_killed, slowest_seconds, .. } = &self.requests;
        let by = |(backend, count): (&String, &u64)| format!("{backend} {count}");
        let by: Vec<_> = self.requests.answered_by.iter().map(by).collect();
        writeln!(screen, "  requests   {total}: {}", by.join(", "))?;
        writeln!(
            screen,
            "  failed     {failed}, and {failed_on_killed} that were on the backend that was killed when it died"
        )?;
        for (failures, mark) in [(&self.requests.failures, "!"), (&self.requests.failures_on_killed, "-")] {
            for failure in failures.iter().take(MOST_FAILURES) {
                writeln!(screen, "             {mark} {failure}")?;
            }
            if failures.len() > MOST_FAILURES {
                writeln!(screen, "             {mark} and {} more", failures.len() - MOST_FAILURES)?;
            }
        }
        let again =
            if *slowest_seconds >= SENT_AGAIN { ": its first packet was lost and sent again" } else { "" };
        writeln!(screen, "  slowest    {slowest_seconds:.3} s{again}")?;
        let Downloads { total, whole, failures } = &self.downloads;
        writeln!(screen, "  downloads  {total}, of which {whole} came whole")?;
        for failure in failures {
            writeln!(screen, "             ! {failure}")?;
        }
        let Packets { received, forwarded, answered, passed, dropped } = &self.packets;
        let all: u64 = dropped.values().sum();
        writeln!(
            screen,
            "  packets    {received} received: {forwarded} forwarded, {answered} answered, {passed} passed to the host, {all} dropped"
        )?;
        for (reason, count) in dropped {
            writeln!(screen, "             - {count} {reason}: {}", meaning(reason))?;
        }
        writeln!(screen, "\n{}", screen.paint(Style::Heading, "What each change moved"))?;
        let heads = [
            ("change", Align::Left),
            ("slots", Align::Right),
            ("moved", Align::Right),
            ("needlessly", Align::Right),
        ];
        let mut columns = Columns::new(heads);
        for change in &self.changes {
            let numbers = [change.slots, change.moved, change.needless].map(|number| number.to_string());
            columns.row(std::iter::once(change.what.clone()).chain(numbers));
        }
        columns.write(screen)?;
        writeln!(
            screen,
            "  (needlessly: from one backend that took new flows before and after to another such one)"
        )?;
        writeln!(screen, "\n{}", screen.paint(Style::Heading, "What had to hold"))?;
        for Promise { promise, kept } in &self.promises {
            let mark = match kept {
                true => screen.paint(Style::Good, "kept    "),
                false => screen.paint(Style::Bad, "BROKEN  "),
            };
            writeln!(screen, "  {mark} {promise}")?;
        }
        Ok(())
    }
}

/// What a reason of metrics says.
fn meaning(reason: &str) -> &'static str {
    if reason == "own_source" {
        return "A reset of the balancer's to what came after the end of a check; no tunnel takes it, so it came back";
    }
    let named = |outcome: &&Outcome| outcome.as_str().strip_prefix("dropped_") == Some(reason);
    Outcome::ALL.iter().find(named).map_or("", |outcome| outcome.meaning().trim_end_matches('.'))
}

/// After so many seconds Linux sends the first packet of a connection again that was not answered.
const SENT_AGAIN: f64 = 1.0;

/// Failures that are shown one by one.
const MOST_FAILURES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_from_metrics_and_added_up() {
        let text = "# HELP x\nguideway_packets_received_total 10\nguideway_packets_forwarded_total 7\n\
                    guideway_packets_passed_total{reason=\"not_ours\"} 2\nguideway_drops_total{reason=\"no_backend\"} 1\n\
                    guideway_drops_total{reason=\"fragment\"} 0\n# EOF\n";
        let mut packets = Packets::of(text);
        assert_eq!((packets.received, packets.forwarded, packets.passed), (10, 7, 2));
        assert_eq!(packets.dropped, BTreeMap::from([("no_backend".to_owned(), 1)]));
        packets.add(&packets.clone());
        assert_eq!((packets.received, packets.dropped["no_backend"]), (20, 2));
        assert_eq!(meaning("no_backend"), "The service has no backend, and says to drop");
    }

    #[test]
    fn one_broken_promise_is_a_failure() {
        let rig = Rig { engine: "soft".into(), mode: "socket".into(), root: false };
        let seen = || Seen { answered: BTreeMap::from([("be1".to_owned(), 3)]), ..Seen::default() };
        let download = Progress { backend: "be1".into(), bytes: 5, of: 5, end: Some(Ok(())) };
        let good = Books::default().close(rig.clone(), seen(), std::slice::from_ref(&download), 1.0);
        assert!(good.ok && good.requests.total == 3 && good.downloads.whole == 1, "{good:?}");
        let killed = Books { failed_on_killed: vec!["a request".into()], ..Books::default() };
        assert!(killed.close(rig.clone(), seen(), &[], 1.0).ok);
        let failed = Books { failed: vec!["a request".into()], ..Books::default() };
        assert!(!failed.close(rig.clone(), seen(), &[], 1.0).ok);
        let cut = Progress { end: Some(Err("reset".into())), ..download };
        assert!(!Books::default().close(rig, seen(), &[cut], 1.0).ok);
    }
}
