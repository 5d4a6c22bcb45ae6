//! What people should know of: faults that somebody should see to, and asides.

use std::collections::HashMap;

use guideway_control::config;
use guideway_control::controller::Outline;
use guideway_control::counted;
use guideway_control::health::{Verdict, Who};
use guideway_control::overrides::AdminState;

use super::super::model::{FlowTable, Interface};
use super::admin::admin;
use crate::core::Core;
use crate::core::links::is_down_text;
use crate::log::Log;

/// So many backends are named in a line.
const NAMED: usize = 5;

/// What is no fault, and good to know.
pub(super) fn asides(core: &Core, flow_table: FlowTable, services: &[Outline]) -> Vec<String> {
    let fell_back = fell_back_text(&core.about.interfaces);
    let renamed = core.renamed_texts().map(|(_, text)| text);
    let crowded = core.crowding.aside(flow_table.entries, flow_table.capacity);
    let others = renamed
        .chain(core.foreign_sources())
        .chain(core.narrow_links())
        .chain(core.routed_texts())
        .chain(crowded);
    fell_back.into_iter().chain(others).chain(core.unheard_checks()).chain(resizes_wait(services)).collect()
}

/// Which services still have another table than the configuration says: one line for all of them.
fn resizes_wait(services: &[Outline]) -> Option<String> {
    let waiting: Vec<&str> =
        services.iter().filter(|service| service.resize_waits).map(|service| service.name.as_str()).collect();
    let first = waiting.first()?;
    let more = match waiting.len() {
        1 => String::new(),
        many => format!(" and {}", counted((many - 1) as u64, "other", "others")),
    };
    Some(format!(
        "{first}{more}: a new table size or seed waits until older flows have settled, and the digest is another than that of \
         balancers that have it; `guideway service {first}` tells how long"
    ))
}

/// Which interfaces run in another mode than native, where that was wanted: one line for all of them.
fn fell_back_text(interfaces: &[Interface]) -> Option<String> {
    let fell_back: Vec<&Interface> = interfaces.iter().filter(|port| port.fell_back.is_some()).collect();
    let mode = &fell_back.first()?.mode;
    let names: Vec<&str> = fell_back.iter().map(|port| port.name.as_str()).collect();
    let runs = if names.len() == 1 { "runs" } else { "run" };
    Some(format!(
        "{} {runs} in {mode} mode, not in native; `guideway doctor {}` tells more",
        names.join(", "),
        names.join(" ")
    ))
}

/// A backend that is wanted and fails its checks.
pub(super) type Failing<'a> = (&'a Who, Verdict);

/// All of them, by service.
pub(super) fn all_failing(core: &Core) -> HashMap<&str, Vec<Failing<'_>>> {
    let mut all: HashMap<&str, Vec<Failing<'_>>> = HashMap::new();
    for (who, verdict) in core.board.verdicts().filter(|(_, verdict)| *verdict != Verdict::Up) {
        if core.desired.is_checked(who) {
            all.entry(who.service.as_str()).or_default().push((who, verdict));
        }
    }
    all
}

/// What somebody should see to.
pub(super) fn faults(core: &Core, services: &[Outline]) -> Vec<String> {
    let mut faults = core.about.faults.clone();
    faults.extend(core.unwritten.values().cloned());
    faults.extend(core.about.log.as_ref().and_then(Log::fault));
    faults.extend(core.drift.failing.values().cloned());
    faults.extend(core.about.interfaces.iter().filter(|port| port.down).map(is_down_text));
    faults.extend(core.lost_texts());
    faults.extend(core.crowding.fault());
    let configured: HashMap<&str, &config::Service> =
        core.config.services.iter().map(|service| (service.name.as_str(), service)).collect();
    let mut all_failing = all_failing(core);
    let mut impossible = core.impossible_checks();
    for service in services {
        let failing = all_failing.remove(service.name.as_str()).unwrap_or_default();
        if service.last_resort {
            faults.push(format!(
                "{}: every check fails; the backends are used as a last resort, as all_down says, and flows on those that \
                 still fail end when others pass again",
                service.name
            ));
        } else if service.eligible() == 0 {
            let never_passed = |backend: &Failing<'_>| {
                backend.1 == Verdict::NeverPassed
                    && core.board.rising(backend.0).is_none()
                    && !is_unasked(core, backend)
            };
            let why = if failing.iter().any(never_passed) {
                ": those that have never passed their checks are no last resort"
            } else {
                ""
            };
            faults.push(format!("{}: no backend takes new flows{why}", service.name));
        }
        let configured = configured.get(service.name.as_str()).copied();
        faults.extend(checks_fail(core, &service.name, configured, &failing));
        let impossible = impossible.remove(service.name.as_str());
        faults.extend(impossible.map(|impossible| format!("{}: {impossible}", service.name)));
    }
    faults
}

/// Whose checks fail, of those that should take new flows, and whose pass and have not done so often enough, each with how
/// it is with the first.
fn checks_fail(
    core: &Core,
    service: &str,
    configured: Option<&config::Service>,
    failing: &[Failing<'_>],
) -> Vec<String> {
    let Some(configured) = configured.filter(|_| !failing.is_empty()) else { return Vec::new() };
    let configured = configured.backends.iter();
    let configured: HashMap<&str, &config::Backend> =
        configured.map(|backend| (backend.name.as_str(), backend)).collect();
    let is_ready = |who: &Who| {
        let said = core.desired.overrides().of(who);
        admin(&said, configured.get(who.backend.as_str()).copied()) == AdminState::Ready
    };
    let ready = failing.iter().filter(|(who, _)| is_ready(who));
    let (unasked, asked): (Vec<Failing<'_>>, Vec<Failing<'_>>) =
        ready.partition(|backend| is_unasked(core, backend));
    let (rising, failing): (Vec<Failing<'_>>, Vec<Failing<'_>>) =
        asked.into_iter().partition(|(who, _)| core.board.rising(who).is_some());
    let fail = failing.first().map(|(first, verdict)| {
        // One that has never passed has no verdict yet that something decided.
        let last = || core.board.last(first).map(|last| last.reason);
        let because = core.board.because(first).or_else(last);
        let because = because.map_or(String::new(), |because| format!(", {because}"));
        let (whose, of) = named(&failing);
        format!("{service}: checks fail of {whose} ({of}{}{because})", verdict.as_str())
    });
    let rise = rising.first().and_then(|(first, _)| {
        let (passed, needed) = core.board.rising(first)?;
        let (whose, of) = named(&rising);
        Some(format!(
            "{service}: checks of {whose} have not passed often enough yet ({of}{passed} of {needed})"
        ))
    });
    let wait = (!unasked.is_empty()).then(|| {
        let (whose, _) = named(&unasked);
        format!("{service}: checks of {whose} have not come back yet for the first time")
    });
    fail.into_iter().chain(rise).chain(wait).collect()
}

/// Whether nothing is known of a backend, as its first check is still to be made or answered.
fn is_unasked(core: &Core, &(who, verdict): &Failing<'_>) -> bool {
    verdict == Verdict::NeverPassed && core.board.last(who).is_none()
}

/// Some backends by name, and what goes before a word on the first: with several it has to be said whose that is.
fn named(backends: &[Failing<'_>]) -> (String, String) {
    let names: Vec<&str> = backends.iter().take(NAMED).map(|(who, _)| who.backend.as_str()).collect();
    let more = backends.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let of = if backends.len() > 1 { format!("{}: ", names[0]) } else { String::new() };
    (format!("{}{more}", names.join(", ")), of)
}

#[cfg(test)]
mod tests {
    use guideway_control::controller::spec::TableSizeSpec;
    use guideway_control::health::{Fault, Passed};

    use std::time::{Duration, Instant};

    use super::super::status;
    use super::*;
    use crate::in_process::{self, CHECK, CONFIG};

    #[test]
    fn checks_that_are_to_come_or_pass_and_have_not_done_so_often_enough_are_not_said_to_fail() {
        let mut now = Instant::now();
        let file = format!("{CONFIG}{}", CHECK.replace("rise = 1", "rise = 3"));
        let mut core = in_process::core(&file, now).unwrap();
        let (passed, refused) = (Ok(Passed { took: Duration::from_millis(1) }), Err(Fault::Refused));
        let second = Duration::from_secs(1);
        let unasked = "web: checks of be1, be2 have not come back yet for the first time";
        assert_eq!(status(&core).faults, ["web: no backend takes new flows", unasked]);
        let rises = "web: checks of be1, be2 have not passed often enough yet (be1: 1 of 3)";
        in_process::check(&mut core, &mut now, second, &passed);
        assert_eq!(status(&core).faults, ["web: no backend takes new flows", rises]);
        in_process::check(&mut core, &mut now, second, &refused);
        let never =
            "web: no backend takes new flows: those that have never passed their checks are no last resort";
        let fails = "web: checks fail of be1, be2 (be1: never-passed, direct probe failed)";
        assert_eq!(status(&core).faults, [never, fails]);
        in_process::check(&mut core, &mut now, 3 * second, &passed);
        assert_eq!(status(&core).faults, Vec::<String>::new());
    }

    #[test]
    fn a_resize_that_waits_is_told_with_the_service() {
        let now = Instant::now();
        let mut core = in_process::core(CONFIG, now).unwrap();
        assert!(status(&core).notes.iter().all(|note| !note.contains("waits")));
        for size in [1_009, 2_003] {
            core.controller.resize("web", TableSizeSpec::Slots(size), 7).unwrap();
        }
        let notes = status(&core).notes;
        let waits = "web: a new table size or seed waits until older flows have settled";
        assert!(notes.iter().any(|note| note.starts_with(waits)), "{notes:?}");
    }

    #[test]
    fn interfaces_in_generic_mode_are_told_in_one_line() {
        let port = |name: &str, fell_back: Option<&str>| Interface {
            name: name.to_owned(),
            index: 1,
            mode: if fell_back.is_some() { "generic" } else { "native" }.to_owned(),
            fell_back: fell_back.map(str::to_owned),
            lost: None,
            down: false,
        };
        let told = |ports: &[Interface]| fell_back_text(ports);
        assert_eq!(told(&[port("eth0", None)]), None);
        let [first, second, third] = [port("eth0", Some("no")), port("eth1", None), port("eth2", Some("no"))];
        let both = "eth0, eth2 run in generic mode, not in native; `guideway doctor eth0 eth2` tells more";
        assert_eq!(told(&[first.clone(), second, third]).as_deref(), Some(both));
        assert!(told(&[first]).unwrap().starts_with("eth0 runs in generic mode"));
    }
}
