//! Drains under way, in a form that outlives the process.

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{DrainKey, Drains};
use crate::config::Renames;
use crate::state_file::State;

/// The drains that are not over, and when each began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    version: u32,
    drains: Vec<Begun>,
    /// Backends that were removed and may have flows, or packets in flight, whatever became of their drains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<Removed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Removed {
    service: String,
    backend: String,
    address: IpAddr,
    /// The index of its record in the service; never reused while the backend is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    service: String,
    backend: String,
    address: IpAddr,
    removed: bool,
    began_unix_seconds: u64,
    /// Its deadline, counted from there; of a removed backend only, which neither the configuration nor what operators said
    /// tells any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_seconds: Option<u64>,
}

impl State for Snapshot {
    const VERSION: u32 = 1;
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { version: Self::VERSION, drains: Vec::new(), removed: Vec::new() }
    }
}

impl Snapshot {
    /// The name of the removed backend that has this record: of a forwarder at work, only this tells it. An address
    /// alone does not, since it can have had several names.
    pub fn name_of(&self, service: &str, index: u16, address: IpAddr) -> Option<&str> {
        let mut removed = self.removed.iter().filter(|one| one.service == service && one.address == address);
        if self.removed.iter().any(|one| one.index.is_some()) {
            return removed.find(|one| one.index == Some(index)).map(|one| one.backend.as_str());
        }
        // The file of a daemon that did not write indices yet.
        let mut drains = self.drains.iter().filter(|begun| begun.removed);
        let drain = drains.find(|begun| begun.service == service && begun.address == address);
        drain.map(|begun| begun.backend.as_str()).or_else(|| removed.next().map(|one| one.backend.as_str()))
    }

    /// Some services are called otherwise from now on.
    pub fn rename(&mut self, names: &Renames) {
        let drains = self.drains.iter_mut().map(|drain| &mut drain.service);
        for service in drains.chain(self.removed.iter_mut().map(|removed| &mut removed.service)) {
            if let Some(name) = names.of(service) {
                *service = name.to_owned();
            }
        }
    }

    /// With the backends that were removed and the index that each has, those included whose drain is over.
    #[must_use]
    pub fn with_removed(mut self, removed: impl Iterator<Item = (DrainKey, u16)>) -> Self {
        let record = |(DrainKey { service, backend, address, .. }, index)| Removed {
            service,
            backend,
            address,
            index: Some(index),
        };
        self.removed = removed.map(record).collect();
        self
    }
}

impl Begun {
    fn key(&self) -> DrainKey {
        let Self { service, backend, address, removed, .. } = self;
        DrainKey { service: service.clone(), backend: backend.clone(), address: *address, removed: *removed }
    }
}

impl Drains {
    /// Those of an earlier process; `now` and `wall` are one moment by two clocks. The deadlines of backends that were not
    /// removed have to be told again; they count from when each began.
    pub fn restore(snapshot: &Snapshot, now: Instant, wall: SystemTime) -> Self {
        let mut drains = Self::new();
        for begun in &snapshot.drains {
            // A clock that was set back makes a drain young, which ends no flow too early.
            let began = UNIX_EPOCH.checked_add(Duration::from_secs(begun.began_unix_seconds));
            let age = began.and_then(|began| wall.duration_since(began).ok()).unwrap_or_default();
            let key = begun.key();
            let began = now.checked_sub(age).unwrap_or(now);
            let deadline =
                begun.deadline_seconds.and_then(|after| began.checked_add(Duration::from_secs(after)));
            drains.begin(key.clone(), began, deadline);
            if let Some(drain) = drains.drains.get_mut(&key) {
                drain.saved_unix_seconds = Some(begun.began_unix_seconds);
            }
        }
        drains.is_unsaved = false;
        drains
    }

    /// What a restart must not forget.
    pub fn snapshot(&self, now: Instant, wall: SystemTime) -> Snapshot {
        let under_way = self.drains.iter().filter(|(_, drain)| !drain.phase.is_over());
        let begun = under_way.map(|(key, drain)| {
            let age = now.saturating_duration_since(drain.began);
            let since = wall.checked_sub(age).and_then(|began| began.duration_since(UNIX_EPOCH).ok());
            let since = since.unwrap_or_default();
            // Two clocks are never read at quite the same moment: it must not make a drain younger at each restart. A
            // wall clock that was set since is another matter.
            let as_saved = |saved: &u64| since.abs_diff(Duration::from_secs(*saved)) < Duration::from_secs(1);
            let until = drain.deadline.filter(|_| key.removed);
            Begun {
                deadline_seconds: until.map(|until| whole(until.saturating_duration_since(drain.began))),
                service: key.service.clone(),
                backend: key.backend.clone(),
                address: key.address,
                removed: key.removed,
                // Rounded up, so that reading it back never shortens a drain.
                began_unix_seconds: drain.saved_unix_seconds.filter(as_saved).unwrap_or_else(|| whole(since)),
            }
        });
        Snapshot { drains: begun.collect(), ..Snapshot::default() }
    }

    /// Whether the snapshot has changed since this was asked last.
    pub fn take_unsaved(&mut self) -> bool {
        std::mem::take(&mut self.is_unsaved)
    }
}

/// In seconds, rounded up.
const fn whole(time: Duration) -> u64 {
    time.as_secs().saturating_add(if time.subsec_nanos() > 0 { 1 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(backend: &str, removed: bool) -> DrainKey {
        let address = IpAddr::from([10, 0, 0, 2]);
        DrainKey { service: "web".into(), backend: backend.into(), address, removed }
    }

    #[test]
    fn a_drain_goes_on_from_where_it_began_over_a_restart() {
        let (start, wall) = (Instant::now(), UNIX_EPOCH + Duration::from_millis(1_800_000_000_300));
        let mut drains = Drains::new();
        drains.begin(key("be2", true), start, Some(start + Duration::from_secs(60)));
        assert!(drains.take_unsaved() && !drains.take_unsaved());
        let later = Duration::from_secs(20);
        let text = serde_json::to_value(drains.snapshot(start + later, wall + later)).unwrap();
        let expected = serde_json::json!({ "version": 1, "drains": [{
            "service": "web", "backend": "be2", "address": "10.0.0.2", "removed": true,
            "began_unix_seconds": 1_800_000_001, "deadline_seconds": 60,
        }] });
        assert_eq!(text, expected);
        let snapshot: Snapshot = serde_json::from_value(text).unwrap();
        let address = key("be2", true).address;
        assert_eq!(snapshot.name_of("web", 7, address), Some("be2"), "a file without indices");
        let snapshot = snapshot.with_removed([(key("be3", true), 2), (key("be2", true), 1)].into_iter());
        let name_of = |index| snapshot.name_of("web", index, address);
        assert_eq!([name_of(1), name_of(2), name_of(3)], [Some("be2"), Some("be3"), None]);
        // The next process has another clock, and comes 30 s after the drain began.
        let now = start + Duration::from_secs(500);
        let restored = Drains::restore(&snapshot, now, wall + Duration::from_secs(30));
        let drain = restored.of(&key("be2", true)).unwrap();
        assert_eq!(drain.began, now - Duration::from_millis(29_300), "a part of a second late, never early");
        assert_eq!(drain.deadline, Some(drain.began + Duration::from_secs(60)));
        let set_back = Drains::restore(&snapshot, now, UNIX_EPOCH);
        assert_eq!(set_back.of(&key("be2", true)).unwrap().began, now);
    }

    #[test]
    fn when_a_drain_began_survives_any_number_of_restarts_exactly() {
        let (start, wall) = (Instant::now(), UNIX_EPOCH + Duration::from_millis(1_800_000_000_300));
        let mut drains = Drains::new();
        drains.begin(key("be2", true), start, None);
        let first = drains.snapshot(start, wall);
        let mut snapshot = first.clone();
        for restart in 1..100_u32 {
            let at = Duration::from_millis(1_700) * restart;
            // Between the two clocks some microseconds pass, more or fewer each time.
            let apart = Duration::from_micros(u64::from(restart % 7));
            drains = Drains::restore(&snapshot, start + at, wall + at + apart);
            let began = drains.of(&key("be2", true)).unwrap().began;
            assert!(began + apart >= start && began <= start + Duration::from_secs(1));
            let later = at + Duration::from_millis(900);
            snapshot = drains.snapshot(start + later, wall + later + Duration::from_micros(3));
            assert_eq!(snapshot, first, "restart {restart}");
        }
        let set = drains.snapshot(start, wall + Duration::from_secs(3_600));
        assert_ne!(set, first, "a clock that was set right");
    }

    #[test]
    fn what_is_over_is_not_kept_and_each_change_of_what_is_asks_to_be_saved() {
        let now = Instant::now();
        let mut drains = Drains::new();
        drains.begin(key("be1", false), now, None);
        drains.begin(key("be2", false), now, None);
        assert!(drains.take_unsaved());
        drains.begin(key("be2", false), now, Some(now));
        assert!(!drains.take_unsaved(), "its deadline follows from the configuration");
        drains.begin(key("be3", true), now, None);
        assert!(drains.take_unsaved());
        drains.begin(key("be3", true), now, Some(now));
        assert!(drains.take_unsaved(), "nothing else tells the deadline of one that was removed");
        drains.cancel(&key("be3", true));
        drains.cancel(&key("be1", false));
        assert!(drains.take_unsaved());
        drains.observe(&[], now);
        assert!(drains.take_unsaved());
        assert_eq!(drains.snapshot(now, UNIX_EPOCH), Snapshot::default());
        assert_eq!(drains.of(&key("be2", false)).map(|drain| drain.phase.is_over()), Some(true));
    }
}
