//! Checks that cannot be made: a fault of this host's, which tells nothing of the backends and is told loudly.

use std::collections::{BTreeMap, BTreeSet};

use guideway_control::counted;

use super::Core;
use crate::journal::{Grade, Kind};

/// The checks of a service that cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Impossible<'a> {
    /// How many backends they are of.
    pub(crate) backends: u64,
    /// Why that of the first cannot.
    why: &'a str,
}

impl std::fmt::Display for Impossible<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { backends, why } = self;
        let whose = counted(*backends, "backend", "backends");
        write!(out, "the checks of {whose} cannot be made, and what they found last holds: {why}")
    }
}

impl Core {
    /// By service, as far as its backends are wanted.
    pub(crate) fn impossible_checks(&self) -> BTreeMap<&str, Impossible<'_>> {
        let mut all: BTreeMap<&str, Impossible<'_>> = BTreeMap::new();
        for (who, finding) in self.board.impossible().filter(|(who, _)| self.desired.is_checked(who)) {
            let why = finding.detail.first().map_or("", String::as_str);
            all.entry(&who.service).or_insert(Impossible { backends: 0, why }).backends += 1;
        }
        all
    }

    /// Tells, once for each service, that its checks cannot be made, and of the end of that.
    pub(super) fn note_impossible(&mut self) {
        let now: BTreeMap<String, String> = self
            .impossible_checks()
            .into_iter()
            .map(|(service, impossible)| (service.to_owned(), impossible.to_string()))
            .collect();
        let before = std::mem::replace(&mut self.impossible, now.keys().cloned().collect::<BTreeSet<_>>());
        for (service, text) in now.iter().filter(|(service, _)| !before.contains(*service)) {
            self.journal.note_of(Grade::Warning, Kind::Health, Some(service), None, text);
        }
        for service in before.iter().filter(|service| !now.contains_key(*service)) {
            // Of a service that went there is nothing to tell.
            if self.config.services.iter().any(|present| present.name == *service) {
                let text = "every check can be made again";
                self.journal.note_of(Grade::Info, Kind::Health, Some(service), None, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use guideway_control::health::{Fault, LegResult, Passed, Verdict};

    use super::*;
    use crate::api::view;
    use crate::in_process::{self, CHECK, CONFIG};
    use crate::metrics::{Format, Reading};

    /// Lets ten seconds pass, in which every check gets this answer.
    fn pass(core: &mut Core, now: &mut Instant, result: &LegResult) {
        in_process::check(core, now, Duration::from_secs(10), result);
    }

    fn told(core: &Core, since: u64) -> Vec<(Grade, String)> {
        let events = core.journal.since(since).filter(|event| event.kind == Kind::Health);
        events.map(|event| (event.grade, event.text.clone())).collect()
    }

    #[test]
    fn checks_that_cannot_be_made_keep_verdicts_and_are_told_once_a_service_until_they_can() {
        let mut now = Instant::now();
        let mut core = in_process::core(&format!("{CONFIG}{CHECK}"), now).unwrap();
        let passed: LegResult = Ok(Passed { took: Duration::from_millis(1) });
        let local: LegResult = Err(Fault::Local { said: "no route".to_owned() });
        let metric = |core: &Core, many: u64| {
            let line = format!("\nguideway_health_checks_impossible{{service=\"web\"}} {many}\n");
            let text = Reading::take(core).text(Format::Classic);
            assert!(text.contains(&line), "no {line} in {text}");
        };
        pass(&mut core, &mut now, &passed);
        assert_eq!(view::status(&core).faults, Vec::<String>::new());
        metric(&core, 0);

        let before = core.journal.last().unwrap().number;
        pass(&mut core, &mut now, &local);
        let text = "the checks of 2 backends cannot be made, and what they found last holds: direct: could not \
                    check: no route";
        assert_eq!(view::status(&core).faults, [format!("web: {text}")]);
        assert!(core.board.verdicts().all(|(_, verdict)| verdict == Verdict::Up));
        assert_eq!(told(&core, before), [(Grade::Warning, text.to_owned())]);
        metric(&core, 2);

        let before = core.journal.last().unwrap().number;
        pass(&mut core, &mut now, &passed);
        assert_eq!(view::status(&core).faults, Vec::<String>::new());
        assert_eq!(told(&core, before), [(Grade::Info, "every check can be made again".to_owned())]);
        metric(&core, 0);
    }
}
