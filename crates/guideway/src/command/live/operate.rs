//! `guideway drain`, `ready`, `maintenance`, `weight` and `reset`: what operators say of a backend.

use std::io::Write;
use std::time::{Duration, Instant};

use guideway_control::counted;
use guideway_daemon::model::{Backend, Drain, Service, SetAdmin, SetWeight};
use serde_json::{Value, json};

use super::change::not_kept;
use super::{legend, service};
use crate::daemon_client::{DaemonArgs, segment};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, report};
use crate::times;

/// The pause between two looks at a drain.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A daemon that is started anew is away for a moment: it is waited for so long.
const AWAY_AT_MOST: Duration = Duration::from_secs(60);

/// After so long a drain has seen every flow that is not silent: on settled slots nothing is remembered before it begins.
const SEEN_AFTER: Duration = Duration::from_secs(10);

/// After so long a drain has been looked at.
const COUNTED_AFTER: Duration = Duration::from_secs(2);

/// The longest deadline that the daemon takes.
const LONGEST_DRAIN: Duration = Duration::from_secs(604_800);

/// A command on one backend.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `guideway weight`.
#[derive(Debug, clap::Args)]
pub(crate) struct WeightArgs {
    #[command(flatten)]
    which: Which,
    /// The weight: 0 to 65535
    #[arg(value_name = "WEIGHT", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(..=65_535))]
    weight: u32,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// The service
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The backend
    #[arg(value_name = "BACKEND")]
    backend: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  it drains; with --wait: nothing lives there any more, as its flows came to
     their end or its deadline ended them, or with --quiet no live flow is seen
  1  failed; with --wait also: it no longer drains, as somebody else said
     `ready`, `maintenance` or `reset`: flows may be there; or its service was
     removed from the configuration, which ended its flows
  2  the command line is wrong
  3  the daemon cannot be reached
  4  --timeout passed before that

UDP has no packet that opens a flow: with `udp = \"grace\"`, the default, the
backend still takes new flows of it for `idle_udp` (30 s), as those that are not
known may be old; with `udp = \"track\"` it takes none.

A daemon that ends while this waits is waited for as well, for a minute: the
drain goes on over a restart. So it does where the backend is removed from the
configuration meanwhile, until nothing is left of it.")]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// End the flows that are left after this time, as 10m; 1s to 7 days. The backend is in maintenance from then on
    #[arg(long, value_name = "TIME", value_parser = times::between(Duration::from_secs(1), LONGEST_DRAIN))]
    deadline: Option<humantime::Duration>,
    /// Wait until nothing lives there any more; with --quiet, until no live flow is seen
    ///
    /// That is only sure once the slots that changed their owner have settled, an idle time after the change (15m for
    /// TCP): flows that are silent for so long may still come back.
    #[arg(long)]
    wait: bool,
    /// With --wait: be content when no live flow is seen, 10s after it began at the earliest, though silent ones may be there
    #[arg(long, requires = "wait")]
    quiet: bool,
    /// With --wait: give up waiting after this time; the drain goes on
    #[arg(long, value_name = "TIME", requires = "wait")]
    timeout: Option<humantime::Duration>,
}

/// It takes flows while its checks pass.
pub(crate) fn ready(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    set_admin(args, "ready", screen)
}

/// It takes nothing; its flows end at once.
pub(crate) fn maintenance(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    set_admin(args, "maintenance", screen)
}

/// It has another weight.
pub(crate) fn weight(args: &WeightArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let body = json!(SetWeight { weight: args.weight });
    let answer = args.daemon.change("PUT", &path(&args.which, "/weight"), Some(&body))?;
    if args.weight == 0 {
        note_the_last(&args.which, &args.daemon);
    }
    show(&answer.value::<Value>()?, args.json, screen)
}

/// The configuration holds again.
pub(crate) fn reset(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let answer = args.daemon.change("DELETE", &path(&args.which, "/override"), None)?;
    show(&answer.value::<Value>()?, args.json, screen)
}

fn path(which: &Which, rest: &str) -> String {
    format!("/v1/services/{}/backends/{}{rest}", segment(&which.service), segment(&which.backend))
}

fn set_admin(args: &Args, state: &str, screen: &mut Screen) -> Result<Outcome, Failure> {
    let body = json!(SetAdmin { state: state.to_owned(), deadline_seconds: None });
    let answer = args.daemon.change("PUT", &path(&args.which, "/admin"), Some(&body))?;
    if state != "ready" {
        note_the_last(&args.which, &args.daemon);
    }
    show(&answer.value::<Value>()?, args.json, screen)
}

/// It keeps its flows and takes no new ones; with `--wait`, until nothing lives there any more.
pub(crate) fn drain(args: &DrainArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let DrainArgs { which, daemon, json, .. } = args;
    let deadline_seconds = args.deadline.map(times::seconds);
    let body = json!(SetAdmin { state: "drain".to_owned(), deadline_seconds });
    let mut answer = daemon.change("PUT", &path(which, "/admin"), Some(&body))?.value::<Value>()?;
    note_the_last(which, daemon);
    let since = Instant::now();
    let (mut told, mut away_since) = (None, None);
    loop {
        if !args.wait {
            break;
        }
        let backend: Backend = serde_json::from_value(answer.clone()).map_err(Failure::failed)?;
        let was_cut = backend.drain.as_ref().is_some_and(|drain| drain.phase == "cut");
        if let Some(how) = taken_back(&backend.admin).filter(|_| !was_cut) {
            return Err(Failure::failed(format_args!(
                "{}/{} no longer drains, and flows may be on it: {how} meanwhile; `guideway audit` tells by whom",
                which.service, which.backend
            )));
        }
        // A backend that took no flows has none to drain.
        let (phase, age) =
            backend.drain.as_ref().map_or(("done", 0.0), |drain| (&*drain.phase, drain.age_seconds));
        if is_waited_for(phase, age, args.quiet) {
            if was_cut && !json {
                writeln!(screen, "its deadline passed, and ended the flows that were left")?;
            }
            break;
        }
        if args.timeout.is_some_and(|timeout| since.elapsed() >= *timeout) {
            return Err(Failure::TimedOut(format!(
                "{}/{} still drains ({phase}); it goes on without this command",
                which.service, which.backend
            )));
        }
        let now = backend.drain.as_ref().map(progress);
        if !json && now != told {
            if let Some(line) = &now {
                writeln!(screen, "{line}")?;
                screen.finish()?;
            }
            told = now;
        }
        let left = || args.timeout.map_or(Duration::MAX, |timeout| timeout.saturating_sub(since.elapsed()));
        std::thread::sleep(LOOK_EVERY.min(left()));
        match daemon.get_within(&path(which, ""), left()) {
            Ok(now) => (answer, away_since) = (now.value()?, None),
            Err(Failure::NotThere(_)) => {
                has_service(which, daemon)?;
                return gone(which, answer, *json, screen);
            }
            Err(Failure::Unreachable(_))
                if away_since.get_or_insert_with(Instant::now).elapsed() < AWAY_AT_MOST => {}
            Err(failure) => return Err(failure),
        }
    }
    show(&answer, *json, screen)
}

/// Says so where a change has left a service without a backend that takes new flows. The change is made, whatever becomes of this.
fn note_the_last(Which { service, .. }: &Which, daemon: &DaemonArgs) {
    let answer = daemon.get(&format!("/v1/services/{}", segment(service)));
    let Ok(now) = answer.and_then(|answer| answer.value::<Service>()) else { return };
    if now.eligible == 0 {
        report(
            "warning",
            format_args!("no backend of {service} takes new flows now; its clients are refused or dropped"),
        );
    } else if now.last_resort {
        report(
            "warning",
            format_args!("only backends whose checks fail are left in {service}, as a last resort"),
        );
    }
}

/// How a backend came out of the drain that is waited for, if it did. One that was removed drains on.
fn taken_back(admin: &str) -> Option<String> {
    (admin != "drain").then(|| format!("it was set to {admin}"))
}

/// Fails where the whole service was removed: that ends flows, however far the drain was.
fn has_service(which: &Which, daemon: &DaemonArgs) -> Result<(), Failure> {
    let Which { service, backend } = which;
    match daemon.get(&format!("/v1/services/{}", segment(service))) {
        Err(Failure::NotThere(_)) => Err(Failure::failed(format_args!(
            "{service} was removed from the configuration while {backend} drained, which ended the flows that were left there; \
             `guideway audit` tells by whom"
        ))),
        Err(failure) => Err(failure),
        Ok(_) => Ok(()),
    }
}

/// The backend was removed while its drain was waited for, and nothing is left of it.
fn gone(which: &Which, last: Value, json: bool, screen: &mut Screen) -> Result<Outcome, Failure> {
    if json {
        let mut last = last;
        (last["removed"], last["drain"]) = (json!(true), Value::Null);
        screen.json(&last)?;
    } else {
        let Which { service, backend } = which;
        writeln!(
            screen,
            "{service}/{backend} was removed from the configuration, and nothing is left of it"
        )?;
    }
    Ok(Outcome::Ok)
}

/// How far a drain is, as a line.
fn progress(drain: &Drain) -> String {
    let phase = &drain.phase;
    if (&**phase, drain.live_flows, drain.ending_flows) == ("busy", 0, 0) {
        let why = if drain.age_seconds < COUNTED_AFTER.as_secs_f64() {
            "not counted yet"
        } else {
            "QUIC connections may be there, which are not counted"
        };
        return format!("{phase}: {why}");
    }
    let flows = counted(drain.live_flows, "live flow", "live flows");
    let text = format!("{phase}: {flows}, {} opening or closing", drain.ending_flows);
    if phase == "busy" {
        // Slots with silent flows count once none speaks.
        return text;
    }
    let slots = counted(drain.unsettled_slots, "slot", "slots");
    // Until those settle there is nothing new to tell.
    format!("{text}, {slots} where silent ones may be, until they settle (--quiet does not wait for that)")
}

/// Whether a drain has come to what is waited for: nothing lives there, or with `quiet` nothing that speaks.
fn is_waited_for(phase: &str, age_seconds: f64, quiet: bool) -> bool {
    match phase {
        "done" | "cut" => true,
        "quiet" => quiet && age_seconds >= SEEN_AFTER.as_secs_f64(),
        _ => false,
    }
}

fn show(backend: &Value, json: bool, screen: &mut Screen) -> Result<Outcome, Failure> {
    if json {
        screen.json(backend)?;
    } else {
        let backend: Backend = serde_json::from_value(backend.clone()).map_err(Failure::failed)?;
        service::backends(std::slice::from_ref(&backend), screen)?;
        legend::of_backends(std::iter::once(&backend), screen)?;
        not_kept(backend.not_kept.as_deref(), screen)?;
    }
    Ok(Outcome::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_is_not_taken_for_quiet_before_its_flows_can_have_been_seen() {
        let waited_for = |phase, age| [false, true].map(|quiet| is_waited_for(phase, age, quiet));
        assert_eq!(waited_for("quiet", 9.9), [false, false]);
        assert_eq!(waited_for("quiet", 10.0), [false, true]);
        assert_eq!(waited_for("busy", 60.0), [false, false]);
        for phase in ["done", "cut"] {
            assert_eq!(waited_for(phase, 0.0), [true, true]);
        }
    }

    #[test]
    fn slots_of_silent_flows_are_told_once_nobody_speaks() {
        let drain = |phase: &str, live_flows, unsettled_slots| Drain {
            service: "web".into(),
            backend: "be1".into(),
            address: "10.0.0.1".parse().unwrap(),
            removed: false,
            phase: phase.into(),
            live_flows,
            ending_flows: 2,
            unsettled_slots,
            age_seconds: 30.0,
            cut_in_seconds: None,
        };
        assert_eq!(progress(&drain("busy", 6, 0)), "busy: 6 live flows, 2 opening or closing");
        let quiet = "quiet: 0 live flows, 2 opening or closing, 1 slot where silent ones may be, until they settle \
                     (--quiet does not wait for that)";
        assert_eq!(progress(&drain("quiet", 0, 1)), quiet);
    }

    #[test]
    fn a_drain_that_somebody_took_back_is_none() {
        assert_eq!(taken_back("drain"), None);
        for admin in ["ready", "maintenance"] {
            assert!(taken_back(admin).is_some_and(|how| how.contains(admin)), "{admin}");
        }
    }
}
