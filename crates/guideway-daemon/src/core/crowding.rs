//! Whether flows find no place in the flow table. Packets go on by their slots then, so nothing else would show it.

use std::time::{Duration, Instant};

use guideway_forward::outcome::Event;

use super::Core;
use crate::journal::{Grade, Kind};

/// The status tells what happened within this time.
const LATELY: Duration = Duration::from_secs(60);

/// How full a flow table may be before that is told, in percent.
const NEARLY_FULL: u64 = 80;

/// What to do about it.
const REMEDY: &str = "raise [flow_table] entries, and start daemon and forwarder anew with `guideway detach` between, or make \
                      fewer changes at a time";

/// What the forwarder counts, and when that rose last.
#[derive(Debug, Default)]
struct Watched {
    count: Option<u64>,
    rose_at: Option<Instant>,
}

impl Watched {
    /// Takes the count of now. What was counted before the first look is of another time.
    fn look(&mut self, count: u64, now: Instant) {
        let rose = self.count.replace(count).is_some_and(|before| count > before);
        self.rose_at = if rose { Some(now) } else { self.rose_at.filter(|&at| now < at + LATELY) };
    }

    fn is_recent(&self) -> bool {
        self.rose_at.is_some()
    }
}

/// What was seen of the flow table lately.
#[derive(Debug, Default)]
pub(crate) struct Crowding {
    refused: Watched,
    displaced: Watched,
}

impl Crowding {
    /// What somebody should see to.
    pub(crate) fn fault(&self) -> Option<String> {
        self.refused.is_recent().then(|| {
            format!(
                "flows found no place in the flow table within the last minute: they go by their slots alone, and may break \
                 when those change; {REMEDY}"
            )
        })
    }

    /// What is no fault yet, of a table that holds so many flows.
    pub(crate) fn aside(&self, entries: u64, capacity: u64) -> Option<String> {
        if self.refused.is_recent() {
            return None;
        }
        if self.displaced.is_recent() {
            return Some(format!(
                "the flow table is full in places: within the last minute flows that are half open or about to end were \
                 forgotten for others; {REMEDY}"
            ));
        }
        let percent = entries.saturating_mul(100) / capacity.max(1);
        (percent >= NEARLY_FULL).then(|| format!("the flow table is {percent} % full; {REMEDY}"))
    }
}

impl Core {
    /// Takes what the forwarder has counted by now; tells once that flows find no place, and of the end of that.
    pub(super) fn note_crowding(&mut self, now: Instant) {
        let totals = self.controller.engine().totals();
        let before = self.crowding.fault();
        self.crowding.refused.look(totals.event(Event::FlowInsertFailed), now);
        self.crowding.displaced.look(totals.event(Event::FlowEvicted), now);
        match (before, self.crowding.fault()) {
            (None, Some(fault)) => self.journal.note(Grade::Warning, Kind::Daemon, fault),
            (Some(_), None) => {
                let text = "for a minute every flow has found a place in the flow table";
                self.journal.note(Grade::Info, Kind::Daemon, text);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_flow_table_is_told_for_a_minute_with_what_to_do() {
        let (start, mut crowding) = (Instant::now(), Crowding::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        crowding.refused.look(7, at(0));
        assert_eq!((crowding.fault(), crowding.aside(0, 4_096)), (None, None), "what was before the daemon");
        crowding.displaced.look(0, at(0));
        crowding.displaced.look(1, at(1));
        assert!(crowding.aside(0, 4_096).unwrap().contains("full in places"));
        crowding.refused.look(8, at(1));
        assert!(crowding.fault().unwrap().contains("raise [flow_table] entries"));
        assert_eq!(crowding.aside(4_096, 4_096), None, "the fault says it");
        crowding.refused.look(8, at(60));
        assert!(crowding.fault().is_some());
        crowding.refused.look(8, at(61));
        assert_eq!(crowding.fault(), None);
    }

    #[test]
    fn a_table_that_fills_is_told_before_it_is_full() {
        let crowding = Crowding::default();
        assert_eq!(crowding.aside(3_276, 4_096), None);
        assert!(crowding.aside(3_277, 4_096).unwrap().starts_with("the flow table is 80 % full; raise"));
    }
}
