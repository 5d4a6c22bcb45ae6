//! The names that services have had.
//!
//! After a kill, what the files of state tell of a service may be under another name than the configuration's: one that was on
//! trial, or one of the moment before. These are written before a service is called otherwise, so that a restart finds it.

use std::collections::{BTreeMap, BTreeSet};

use guideway_control::config::{Config, Renames};
use guideway_control::state_file::State;
use serde::{Deserialize, Serialize};

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    version: u32,
    /// By each later name of a service the first that it had.
    first: BTreeMap<String, String>,
}

impl State for Names {
    const VERSION: u32 = 1;
}

impl Default for Names {
    fn default() -> Self {
        Self { version: Self::VERSION, first: BTreeMap::new() }
    }
}

impl Names {
    /// Remembers other names.
    pub(crate) fn note(&mut self, names: &Renames) {
        for (from, to) in names.iter() {
            let first = self.first.get(from).map_or(from, String::as_str).to_owned();
            if first != to {
                self.first.insert(to.to_owned(), first);
            }
        }
    }

    /// From each name that a configuration does not know to the one of the same service that it has.
    pub(crate) fn towards(&self, config: &Config) -> Renames {
        let present: BTreeSet<&str> = config.services.iter().map(|service| service.name.as_str()).collect();
        let mut alike: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (later, first) in &self.first {
            alike.entry(first).or_insert_with(|| vec![first]).push(later);
        }
        let mut renames = Vec::new();
        for names in alike.values() {
            let (known, unknown): (Vec<&str>, Vec<&str>) =
                names.iter().partition(|name| present.contains(**name));
            if let [known] = known[..] {
                renames.extend(unknown.iter().map(|name| ((*name).to_owned(), known.to_owned())));
            }
        }
        renames.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use guideway_control::config::{Source, parse};

    use super::*;

    #[test]
    fn what_is_kept_under_any_name_of_a_service_is_found_under_the_one_that_the_configuration_has() {
        let config = |name: &str| {
            let text = crate::in_process::CONFIG.replace("\"web\"", &format!("\"{name}\""));
            parse(&Source::new("test", text)).unwrap()
        };
        let renames = |from: &str, to: &str| Renames::from_iter([(from.to_owned(), to.to_owned())]);
        let mut names = Names::default();
        assert!(names.towards(&config("web")).is_empty());
        for (from, to) in [("web", "site"), ("site", "www"), ("www", "web"), ("web", "site")] {
            names.note(&renames(from, to));
        }
        for (known, others) in [("web", ["site", "www"]), ("site", ["web", "www"]), ("www", ["site", "web"])]
        {
            let expected: Renames =
                others.map(|other| (other.to_owned(), known.to_owned())).into_iter().collect();
            assert_eq!(names.towards(&config(known)), expected);
        }
        assert!(names.towards(&config("mail")).is_empty());
    }
}
