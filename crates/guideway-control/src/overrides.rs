//! What operators changed at run time, apart from the configuration: it holds over reloads and restarts until it is
//! taken back.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::config::{MAX_WEIGHT, Renames};
use crate::controller::spec::{Admin, ServiceSpec};
use crate::health::Who;
use crate::state_file::State;

/// An operator's word on whether a backend takes flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminState {
    /// New flows and old, while its checks pass.
    Ready,
    /// Old flows only.
    Drain,
    /// Nothing; its flows end at once.
    Maintenance,
}

impl AdminState {
    /// A stable name for people, metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Drain => "drain",
            Self::Maintenance => "maintenance",
        }
    }
}

impl From<AdminState> for Admin {
    fn from(state: AdminState) -> Self {
        match state {
            AdminState::Ready => Self::Active,
            AdminState::Drain => Self::Draining,
            AdminState::Maintenance => Self::Disabled,
        }
    }
}

impl From<Admin> for AdminState {
    fn from(admin: Admin) -> Self {
        match admin {
            Admin::Active => Self::Ready,
            Admin::Draining => Self::Drain,
            Admin::Disabled => Self::Maintenance,
        }
    }
}

/// What is different from the configuration for one backend of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Override {
    /// Its state.
    pub admin: Option<AdminState>,
    /// Its weight.
    pub weight: Option<u32>,
    /// When its drain is over, or was before maintenance, whatever still lives on it: whole seconds of the wall clock,
    /// which a restart keeps.
    pub drain_until: Option<SystemTime>,
}

/// All overrides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "File", try_from = "File")]
pub struct Overrides {
    backends: BTreeMap<Who, Override>,
}

impl State for Overrides {
    const VERSION: u32 = 1;
}

/// A weight that no backend can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("weight {weight} is out of range; weights are 0 to {MAX_WEIGHT}")]
pub struct WeightError {
    /// The weight.
    pub weight: u32,
}

impl Overrides {
    /// Says what state a backend is in.
    pub fn set_admin(&mut self, who: &Who, admin: AdminState, drain_until: Option<SystemTime>) {
        let entry = self.backends.entry(who.clone()).or_default();
        entry.admin = Some(admin);
        entry.drain_until = drain_until.filter(|_| admin != AdminState::Ready);
    }

    /// Gives a backend another weight.
    ///
    /// # Errors
    /// [`WeightError`]; nothing has changed then.
    pub fn set_weight(&mut self, who: &Who, weight: u32) -> Result<(), WeightError> {
        if u64::from(weight) > MAX_WEIGHT {
            return Err(WeightError { weight });
        }
        self.backends.entry(who.clone()).or_default().weight = Some(weight);
        Ok(())
    }

    /// Gives back to the configuration what it says of a backend; returns what was different.
    pub fn clear(&mut self, who: &Who) -> Option<Override> {
        self.backends.remove(who)
    }

    /// What is different for a backend.
    pub fn of(&self, who: &Who) -> Override {
        self.backends.get(who).copied().unwrap_or_default()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Who, &Override)> {
        self.backends.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.backends.is_empty()
    }

    /// Changes a service's desired state by what is different for its backends.
    pub fn apply(&self, spec: &mut ServiceSpec) {
        if self.is_empty() {
            return;
        }
        for backend in &mut spec.backends {
            let who = Who { service: spec.name.clone(), backend: backend.identity.to_string() };
            let Some(entry) = self.backends.get(&who) else { continue };
            if let Some(admin) = entry.admin {
                backend.admin = admin.into();
            }
            if let Some(weight) = entry.weight {
                backend.weight = weight;
            }
        }
    }

    /// Some services are called otherwise from now on. What is under such a new name already was said of a service that is no more.
    pub fn rename(&mut self, names: &Renames) {
        let all = std::mem::take(&mut self.backends).into_iter();
        let (moved, kept): (Vec<_>, Vec<_>) = all.partition(|(who, _)| names.of(&who.service).is_some());
        let moved: BTreeMap<Who, Override> =
            moved.into_iter().map(|(who, said)| (who.renamed(names), said)).collect();
        let taken: HashSet<&str> = moved.keys().map(|who| who.service.as_str()).collect();
        let kept = kept.into_iter().filter(|(who, _)| !taken.contains(who.service.as_str()));
        self.backends = kept.collect();
        self.backends.extend(moved);
    }

    /// Forgets those for backends that nobody has any more; returns whose they were.
    pub fn retain(&mut self, exists: impl Fn(&Who) -> bool) -> Vec<Who> {
        let gone: Vec<Who> = self.backends.keys().filter(|who| !exists(who)).cloned().collect();
        for who in &gone {
            self.backends.remove(who);
        }
        gone
    }
}

/// The form of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    overrides: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    service: String,
    backend: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admin: Option<AdminState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drain_until_unix_seconds: Option<u64>,
}

impl From<Overrides> for File {
    fn from(overrides: Overrides) -> Self {
        let entry = |(who, entry): (Who, Override)| Entry {
            service: who.service,
            backend: who.backend,
            admin: entry.admin,
            weight: entry.weight,
            drain_until_unix_seconds: entry.drain_until.map(|until| {
                // Rounded up, so that reading it back never shortens a drain.
                let since = until.duration_since(UNIX_EPOCH).unwrap_or_default();
                since.as_secs() + u64::from(since.subsec_nanos() > 0)
            }),
        };
        Self { version: Overrides::VERSION, overrides: overrides.backends.into_iter().map(entry).collect() }
    }
}

impl TryFrom<File> for Overrides {
    type Error = String;

    fn try_from(file: File) -> Result<Self, String> {
        let mut overrides = Self::default();
        for entry in file.overrides {
            let who = Who { service: entry.service, backend: entry.backend };
            if let Some(weight) = entry.weight {
                overrides.set_weight(&who, weight).map_err(|error| format!("{who}: {error}"))?;
            }
            if let Some(admin) = entry.admin {
                let until = entry.drain_until_unix_seconds.map(|seconds| {
                    UNIX_EPOCH
                        .checked_add(Duration::from_secs(seconds))
                        .ok_or_else(|| format!("{who}: {seconds} is no time"))
                });
                overrides.set_admin(&who, admin, until.transpose()?);
            }
        }
        Ok(overrides)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn who(backend: &str) -> Who {
        Who { service: "web".into(), backend: backend.into() }
    }

    #[test]
    fn the_file_reads_as_it_is_documented() {
        let mut overrides = Overrides::default();
        overrides.set_weight(&who("be1"), 0).unwrap();
        let until = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        overrides.set_admin(&who("be2"), AdminState::Drain, Some(until));
        let json: serde_json::Value = serde_json::to_value(&overrides).unwrap();
        let expected = serde_json::json!({ "version": 1, "overrides": [
            { "service": "web", "backend": "be1", "weight": 0 },
            { "service": "web", "backend": "be2", "admin": "drain", "drain_until_unix_seconds": 1_800_000_000 },
        ] });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<Overrides>(json).unwrap(), overrides);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        let mut overrides = Overrides::default();
        assert_eq!(overrides.set_weight(&who("be1"), 65_536), Err(WeightError { weight: 65_536 }));
        assert!(overrides.is_empty());
        for entry in [
            r#"{"service": "web", "backend": "be1", "weight": 65536}"#,
            r#"{"service": "web", "backend": "be1", "weight": -1}"#,
            r#"{"service": "web", "backend": "be1", "wieght": 3}"#,
            r#"{"service": "web", "backend": "be1", "admin": "drained"}"#,
            r#"{"service": "web", "backend": "be1", "admin": "drain", "drain_until_unix_seconds": 18446744073709551615}"#,
        ] {
            let text = format!("{{\"version\": 1, \"overrides\": [{entry}]}}");
            assert!(serde_json::from_str::<Overrides>(&text).is_err(), "{entry}");
        }
    }

    #[test]
    fn what_was_said_of_a_service_goes_with_it_where_it_is_called_as_one_was_that_is_no_more() {
        let of = |service: &str, backend: &str| Who { service: service.into(), backend: backend.into() };
        for name in ["app", "zone"] {
            let mut overrides = Overrides::default();
            for (service, weight) in [("web", 3), (name, 7)] {
                overrides.set_weight(&of(service, "be1"), weight).unwrap();
            }
            overrides.set_weight(&of(name, "be2"), 7).unwrap();
            let names = Renames::from_iter([("web".to_owned(), name.to_owned())]);
            overrides.rename(&names);
            let known: Vec<_> = overrides.iter().map(|(who, said)| (who.to_string(), said.weight)).collect();
            assert_eq!(known, [(format!("{name}/be1"), Some(3))]);
            // Where nothing is known under the old name, the new one was used already.
            overrides.rename(&names);
            assert_eq!(overrides.iter().count(), 1);
        }
    }

    #[test]
    fn a_deadline_goes_with_a_drain_only() {
        let mut overrides = Overrides::default();
        overrides.set_admin(&who("be1"), AdminState::Drain, Some(UNIX_EPOCH));
        overrides.set_admin(&who("be1"), AdminState::Ready, Some(UNIX_EPOCH));
        assert_eq!(overrides.of(&who("be1")).drain_until, None);
        overrides.set_weight(&who("be1"), 3).unwrap();
        assert_eq!(overrides.clear(&who("be1")).unwrap().weight, Some(3));
        assert_eq!(overrides.of(&who("be1")), Override::default());
    }

    proptest! {
        #[test]
        fn overrides_read_back_as_written(
            entries in prop::collection::vec(
                ("[a-c]", "[a-z0-9._-]{1,8}", prop::option::of(0_u8..3), prop::option::of(0_u32..=65_535),
                 prop::option::of(0_u64..1 << 40)), 0..20),
        ) {
            let mut overrides = Overrides::default();
            for (service, backend, admin, weight, until) in entries {
                let who = Who { service, backend };
                if let Some(weight) = weight {
                    overrides.set_weight(&who, weight).unwrap();
                }
                if let Some(admin) = admin {
                    let states = [AdminState::Ready, AdminState::Drain, AdminState::Maintenance];
                    let until = until.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
                    overrides.set_admin(&who, states[usize::from(admin)], until);
                }
            }
            let text = serde_json::to_string(&overrides).unwrap();
            prop_assert_eq!(serde_json::from_str::<Overrides>(&text).unwrap(), overrides);
        }
    }
}
