//! Whether packets can come and go by the interfaces at all.
//!
//! While none of them can, a check that fails tells nothing of its backend, so the verdict stays: flows that wait for the link
//! go on when it is back. While one can, a failure counts, whichever way the backend is reached: clients that still come are
//! better off elsewhere.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use guideway_control::health::{Answer, Fault};

use super::Core;
use crate::api::model::Interface;
use crate::forwarder::Renamed;
use crate::journal::{Grade, Kind};

/// What was asked while all interfaces were down may be answered so much later, and neighbours are found anew then.
const AFTER_DOWN: Duration = Duration::from_secs(3);

impl Core {
    /// What an answer tells of backends: nothing that went wrong while no packet could leave.
    pub(super) fn heard<'a>(&self, answer: &'a Answer, now: Instant) -> Cow<'a, Answer> {
        if self.cut_off_until.is_none_or(|until| until <= now) {
            return Cow::Borrowed(answer);
        }
        let mut answer = answer.clone();
        for fault in answer.results.iter_mut().filter_map(|result| result.as_mut().err()) {
            let what = match &mut *fault {
                Fault::Local { said } => std::mem::take(said),
                fault => fault.to_string(),
            };
            *fault = Fault::Local { said: format!("all interfaces are down, or were a moment ago: {what}") };
        }
        Cow::Owned(answer)
    }

    /// Until it is known which links are down, failures tell nothing, for a while at most.
    pub(crate) fn await_links(&mut self, now: Instant) {
        self.cut_off_until = (!self.about.interfaces.is_empty()).then(|| now + AFTER_DOWN);
        self.awaits_links = true;
    }

    /// It is known now.
    pub(crate) fn links_are_known(&mut self) {
        if std::mem::take(&mut self.awaits_links) {
            self.cut_off_until = None;
        }
    }

    /// Takes which links are down, and tells of each that goes down or comes back.
    pub(crate) fn note_links(&mut self, now: Instant, is_down: impl Fn(u32) -> bool) {
        for port in &mut self.about.interfaces {
            port.down = is_down(port.index);
            if port.down && self.down.insert(port.name.clone()) {
                self.journal.note(Grade::Error, Kind::Daemon, is_down_text(port));
            } else if !port.down && self.down.remove(&port.name) {
                self.journal.note(Grade::Info, Kind::Daemon, format!("{} is up again", port.name));
            }
        }
        let ports = &self.about.interfaces;
        if !ports.is_empty() && ports.iter().all(|port| port.down) {
            self.cut_off_until = Some(now + AFTER_DOWN);
        }
    }
}

impl Core {
    /// Takes an interface's new name, and tells that it has one: who starts the daemon anew has to say it.
    pub(crate) fn note_renamed(&mut self, Renamed { index, from, to }: Renamed) {
        for port in self.about.interfaces.iter_mut().filter(|port| port.index == index) {
            port.name.clone_from(&to);
        }
        if self.down.remove(&from) {
            self.down.insert(to.clone());
        }
        self.links.entry(index).and_modify(|name| name.clone_from(&to));
        let renamed = &mut self.about.renamed;
        renamed.values_mut().filter(|now| **now == from).for_each(|now| now.clone_from(&to));
        renamed.insert(from.clone(), to.clone());
        // One that has its old name back.
        renamed.remove(&to);
        let (grade, text) = match self.renamed_texts().find(|(now, _)| *now == to) {
            Some((_, text)) => (Grade::Warning, text),
            None => (Grade::Info, format!("the interface {from} is named {to} now")),
        };
        self.journal.note(grade, Kind::Daemon, text);
    }

    /// Of each interface that was asked for by a name that it has no more: the present one, and what to do.
    pub(crate) fn renamed_texts(&self) -> impl Iterator<Item = (&str, String)> {
        let (given, configured) = (self.about.interfaces_are_given, &self.config.daemon.interfaces);
        let asked_for = self.about.renamed.iter().filter(move |(from, _)| given || configured.contains(from));
        asked_for.map(move |(from, to)| {
            let place = if given { "--interface" } else { "daemon.interfaces of the configuration" };
            let text = format!(
                "the interface {from} is named {to} now: packets go on, but a restart looks for {from}; say {to} in {place}"
            );
            (to.as_str(), text)
        })
    }
}

/// What is wrong with an interface that is down.
pub(crate) fn is_down_text(port: &Interface) -> String {
    format!("{} is down, gone or without a carrier: no packet comes by it", port.name)
}

#[cfg(test)]
mod tests {
    use guideway_control::config::{self, Source};
    use guideway_control::health::{LegResult, Passed, Verdict};

    use super::*;
    use crate::api::view;
    use crate::core::Refused;
    use crate::in_process::{self, CHECK, CONFIG};
    use crate::metrics::{Format, Reading};

    fn port(name: &str, index: u32) -> Interface {
        Interface {
            name: name.to_owned(),
            index,
            mode: "native".to_owned(),
            fell_back: None,
            lost: None,
            down: false,
        }
    }

    #[test]
    fn an_interface_that_is_down_is_a_fault_and_told_once_until_it_is_up_again() {
        let now = Instant::now();
        let mut core = in_process::core(CONFIG, now).unwrap();
        let ports = vec![port("eth0", 2), port("eth1", 3)];
        core.about.interfaces = ports.clone();
        let metric = |core: &Core, name: &str| {
            let text = Reading::take(core).text(Format::Classic);
            let name = format!("guideway_interface_forwarding{{interface=\"{name}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().to_owned()
        };
        core.note_links(now, |_| false);
        assert_eq!(view::status(&core).faults, Vec::<String>::new());
        let text = "eth1 is down, gone or without a carrier: no packet comes by it";
        let before = core.journal.last().unwrap().number;
        for _ in 0..2 {
            // As after a look at the forwarder, which knows nothing of links.
            core.about.interfaces = ports.clone();
            core.note_links(now, |index| index == 3);
            assert_eq!(view::status(&core).faults, [text]);
        }
        assert_eq!((metric(&core, "eth0").as_str(), metric(&core, "eth1").as_str()), ("1", "0"));
        core.note_links(now, |_| false);
        assert_eq!(view::status(&core).faults, Vec::<String>::new());
        assert_eq!(metric(&core, "eth1"), "1");
        let told: Vec<_> = core.journal.since(before).map(|event| event.text.as_str()).collect();
        assert_eq!(told, [text, "eth1 is up again"]);
    }

    #[test]
    fn a_new_name_is_told_where_it_has_to_be_said_and_a_configuration_that_says_it_is_taken() {
        let now = Instant::now();
        let named = |name: &str| format!("[daemon]\ninterfaces = [\"{name}\"]\n{CONFIG}");
        let parse = |name: &str| config::parse(&Source::new("test", named(name))).unwrap();
        let mut core = in_process::core(&named("eth0"), now).unwrap();
        core.about.interfaces_are_given = false;
        core.about.interfaces = vec![port("eth0", 2)];
        let rename = |core: &mut Core, from: &str, to: &str| {
            core.note_renamed(Renamed { index: 2, from: from.to_owned(), to: to.to_owned() });
        };
        let notes = |core: &Core| view::status(core).notes;
        let text = |to: &str| {
            format!(
                "the interface eth0 is named {to} now: packets go on, but a restart looks for eth0; say {to} in \
                 daemon.interfaces of the configuration"
            )
        };
        core.note_links(now, |_| true);
        rename(&mut core, "eth0", "wan0");
        assert_eq!(notes(&core)[0], text("wan0"));
        core.note_links(now, |_| false);
        assert_eq!(core.journal.last().unwrap().text, "wan0 is up again");
        rename(&mut core, "wan0", "wan1");
        assert_eq!(notes(&core), [text("wan1")]);

        assert_eq!(core.reconfigure(parse("eth1"), now), Err(Refused::Interfaces));
        core.reconfigure(parse("wan1"), now).unwrap();
        assert_eq!(notes(&core), Vec::<String>::new());
        core.reconfigure(parse("eth0"), now).unwrap();
        rename(&mut core, "wan1", "eth0");
        assert_eq!(notes(&core), Vec::<String>::new());
    }

    /// Lets so many seconds pass, in which these links are down and every check gets this answer.
    fn pass(core: &mut Core, now: &mut Instant, seconds: u64, down: &[u32], result: &LegResult) -> Verdict {
        in_process::check_while(core, now, Duration::from_secs(seconds), result, |core, now| {
            core.note_links(now, |index| down.contains(&index));
        });
        core.board.verdicts().next().unwrap().1
    }

    #[test]
    fn failures_tell_nothing_of_backends_while_every_interface_is_down_and_count_while_one_is_up() {
        let mut now = Instant::now();
        let mut core = in_process::core(&format!("{CONFIG}{CHECK}"), now).unwrap();
        core.about.interfaces = vec![port("eth0", 2), port("eth1", 3)];
        let passed: LegResult = Ok(Passed { took: Duration::from_millis(1) });
        let failed: LegResult = Err(Fault::Refused);
        assert_eq!(pass(&mut core, &mut now, 5, &[], &passed), Verdict::Up);
        assert_eq!(pass(&mut core, &mut now, 60, &[2, 3], &failed), Verdict::Up);
        let faults = view::status(&core).faults.join("\n");
        assert!(faults.contains("cannot be made") && faults.contains("all interfaces are down"), "{faults}");
        let local: LegResult = Err(Fault::Local { said: "no route".to_owned() });
        assert_eq!(pass(&mut core, &mut now, 10, &[2, 3], &local), Verdict::Up);
        let faults = view::status(&core).faults.join("\n");
        assert!(
            faults.contains("could not check: all interfaces are down, or were a moment ago: no route"),
            "{faults}"
        );
        assert_eq!(pass(&mut core, &mut now, 1, &[], &failed), Verdict::Up, "they are back a moment ago");
        assert_eq!(pass(&mut core, &mut now, 10, &[], &passed), Verdict::Up);
        assert_eq!(pass(&mut core, &mut now, 10, &[3], &failed), Verdict::Down);
        assert_eq!(pass(&mut core, &mut now, 10, &[2, 3], &passed), Verdict::Up, "what passes has passed");
    }

    #[test]
    fn failures_tell_nothing_before_links_are_known() {
        let mut now = Instant::now();
        let mut core = in_process::core(&format!("{CONFIG}{CHECK}"), now).unwrap();
        core.about.interfaces = vec![port("eth0", 2)];
        let passed: LegResult = Ok(Passed { took: Duration::from_millis(1) });
        let failed: LegResult = Err(Fault::Refused);
        assert_eq!(pass(&mut core, &mut now, 5, &[], &passed), Verdict::Up);
        core.await_links(now);
        assert_eq!(pass(&mut core, &mut now, 2, &[], &failed), Verdict::Up);
        core.links_are_known();
        assert_eq!(pass(&mut core, &mut now, 2, &[], &failed), Verdict::Down);
    }
}
