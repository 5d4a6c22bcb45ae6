//! What a storm of verdicts costs, against a virtual clock.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use guideway_control::health::{Answer, Fault, Passed};

use super::{COMMIT_EVERY, Core};
use crate::in_process;
use crate::journal::Kind;

/// How long a verdict may wait for its commit.
const AT_MOST: Duration = Duration::from_millis(50);

const SERVICES: usize = 8;
const BACKENDS: usize = 60;

fn config() -> String {
    let mut text = "[flow_table]\nentries = 4096\n\n[underlay]\nsource_v4 = \"10.0.1.1\"\n".to_owned();
    for service in 0..SERVICES {
        write!(
            text,
            "\n[[service]]\nname = \"s{service}\"\nvip = \"192.0.2.{service}\"\nport = 80\nprotocol = \"tcp\"\n\
             table_size = 1009\n\
             health = {{ kind = \"tcp\", via = \"direct\", interval = \"100ms\", timeout = \"50ms\", rise = 1, fall = 1 }}\n\
             backend = [\n"
        )
        .unwrap();
        for backend in 0..BACKENDS {
            writeln!(text, "  {{ name = \"b{backend}\", address = \"10.1.{service}.{backend}\" }},").unwrap();
        }
        text += "]\n";
    }
    text
}

/// What happened when.
struct Watch {
    /// The number of the last event that was looked at.
    seen: u64,
    verdicts: usize,
    /// Since when a verdict of a service waits for its commit.
    waiting: BTreeMap<String, Instant>,
    longest: Duration,
    commits: Vec<Instant>,
}

impl Watch {
    fn look(&mut self, core: &Core, now: Instant) {
        for event in core.journal.since(self.seen) {
            self.seen = event.number;
            let Some(service) = &event.service else { continue };
            match event.kind {
                // The first verdicts of a new service wait for one another.
                Kind::Health if core.desired.first_verdicts_due().is_some() => self.verdicts += 1,
                Kind::Health => {
                    self.verdicts += 1;
                    self.waiting.entry(service.clone()).or_insert(now);
                }
                Kind::Commit => {
                    if let Some(since) = self.waiting.remove(service) {
                        self.longest = self.longest.max(now - since);
                    }
                }
                _ => {}
            }
        }
        // First verdicts are committed together: none of them waits before the last one is there.
        if core.desired.first_verdicts_due().is_some() {
            self.waiting.values_mut().for_each(|since| *since = now);
        }
        if core.committed_at == Some(now) && self.commits.last() != Some(&now) {
            self.commits.push(now);
        }
    }
}

#[test]
fn however_many_backends_flap_commits_keep_their_distance_and_no_verdict_waits_long() {
    let start = Instant::now();
    let mut core = in_process::core(&config(), start).unwrap();
    let mut watch = Watch {
        seen: core.journal.last().map_or(0, |event| event.number),
        verdicts: 0,
        waiting: BTreeMap::new(),
        longest: Duration::ZERO,
        commits: vec![start],
    };
    let (mut now, mut asked) = (start, HashSet::new());
    while now < start + Duration::from_secs(4) {
        now = core.next_due().max(now);
        let rounds = core.rounds(now);
        core.advance(now);
        watch.look(&core, now);
        for round in rounds {
            // Each answers every other time.
            let passes = asked.insert(round.check.address) || !asked.remove(&round.check.address);
            let result =
                if passes { Ok(Passed { took: Duration::from_millis(1) }) } else { Err(Fault::Refused) };
            core.answer(&Answer { id: round.id, results: vec![result; round.legs.len()].into() }, now);
            watch.look(&core, now);
        }
    }
    assert!(watch.verdicts > 1_000, "{} verdicts are no storm", watch.verdicts);
    for pair in watch.commits.windows(2) {
        assert!(pair[1] - pair[0] >= COMMIT_EVERY, "{:?} apart", pair[1] - pair[0]);
    }
    assert!(watch.longest <= AT_MOST, "a verdict waited for {:?}", watch.longest);
    let late = watch.waiting.values().filter(|since| now - **since > AT_MOST).count();
    assert_eq!(late, 0, "verdicts wait for ever");
}
