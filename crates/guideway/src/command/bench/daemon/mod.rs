//! `guideway bench daemon`: what ten thousand services or backends cost the daemon.

mod bare;
mod estate;
mod reading;
mod show;

use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime};

use guideway_daemon::model::{Event, Status};
use indicatif::ProgressBar;

use self::bare::{Bare, Reset};
use self::estate::{Estate, Plan, SICK_BACKEND, SICK_SERVICE, Services};
use self::reading::Reading;
use self::show::{Figure, Report};
use crate::failure::{Failure, Outcome};
use crate::sandbox::{self, Daemon, EngineWish, Interrupt};
use crate::screen::Screen;
use crate::times;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
It makes two namespaces, one with the real `guideway run` and one that is all of its backends, and takes them away again.
Every backend is checked, through a TCP connection to its own address. Nothing is sent through the forwarder: this is
about what decides, not about packets.

What is measured, for many services and for one service with many backends:
  load      from the start of the process until its tables are committed, and until every backend is in use
  apply     from a configuration with a change of every service until it is committed and the answer is there
  verdict   from the event that a backend's checks changed their mind to the event that its table is committed
  idle      processor time of the process over a while, as a part of one core, with checks and without any; beside it what as \
many connections take a loop that does nothing else, reset before they are open on both sides, as checks are, and after it (the \
backends' part of a connection is in all: over a veth pair it is done for whoever sends); and resident memory
and for many ports of one address: a backend of all of them drained and taken back, or removed and added again, a step each.

Examples:
  sudo guideway bench daemon
  sudo guideway bench daemon --interval 2s --quick
  guideway bench daemon --quick --json

Exit codes:
  0  measured, whether goals are met or not
  1  it could not be measured
  2  the command line is wrong")]
pub(crate) struct Args {
    /// What forwards; auto is XDP where it may be used
    #[arg(long, value_enum, default_value_t = EngineWish::Auto)]
    engine: EngineWish,
    /// How many services, and how many backends; the goals are for 10,000
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    many: u32,
    /// How often every backend is checked, 1s to 1m; the goals are for 5s, as configurations have it that do not say
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = times::between(Duration::from_secs(1), Duration::from_secs(60)))]
    interval: humantime::Duration,
    /// Fewer verdicts and a shorter look at the idle daemon
    #[arg(long)]
    quick: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Goals, in the units of their figures.
const LOAD_SECONDS: f64 = 5.0;
const VERDICT_MILLISECONDS: f64 = 50.0;
const STEP_SECONDS: f64 = 1.0;
const IDLE_PERCENT: f64 = 2.0;
const MEMORY_MEGABYTES: f64 = 80.0;

/// The ports of one address, and the backends behind each.
const PORTS: usize = 500;
const ROLLED: usize = 10;

/// How long anything may take here before it counts as not done at all.
const PATIENCE: Duration = Duration::from_secs(300);

/// After work the daemon keeps what memory that took for a while, as more may come.
const SLACK: Duration = Duration::from_secs(3);

/// How often the daemon is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let interrupt = Interrupt::hold_back()?;
    let ground = sandbox::take(args.engine)?;
    let estate = Estate::build()?;
    let many = args.many as usize;
    let mut bench = Bench {
        daemon: Daemon::new(estate.front.clone(), ground.kernel),
        estate,
        interrupt,
        trials: if args.quick { 1 } else { 5 },
        // Every check comes once at least.
        window: Duration::from_secs(if args.quick { 3 } else { 10 }).max(*args.interval),
        report: Report::new(&ground),
        progress: ProgressBar::new_spinner(),
        with: String::new(),
    };
    let plan = Plan {
        services: Services::Addresses(many),
        backends: 4,
        machines: (many / 25).max(4),
        interval: Some(*args.interval),
        state: None,
        without: None,
        weight: 1,
    };
    let one = Plan { services: Services::Addresses(1), backends: many - 1, machines: many, ..plan.clone() };
    bench.with = format!("{many} services of 4 backends on {} machines", plan.machines);
    bench.measure(&plan, ground.kernel, None)?;
    bench.with = format!("one service with {many} backends");
    bench.measure(&one, ground.kernel, Some(MEMORY_MEGABYTES))?;
    let ports = PORTS.min(many);
    let plan = Plan { services: Services::Ports(ports), backends: ROLLED, machines: ROLLED, ..plan };
    bench.with = format!("{ports} ports of one address, {ROLLED} backends behind each");
    bench.roll(&plan)?;
    let Bench { report, progress, .. } = bench;
    progress.finish_and_clear();
    if args.json {
        screen.json(&report)?;
    } else {
        show::table(&report, screen)?;
    }
    screen.flush()?;
    Ok(Outcome::Ok)
}

/// A daemon, and what was measured of it.
struct Bench {
    // Ends before its network.
    daemon: Daemon,
    estate: Estate,
    interrupt: Interrupt,
    trials: usize,
    window: Duration,
    report: Report,
    progress: ProgressBar,
    /// What it is measured with.
    with: String,
}

impl Bench {
    /// All of a configuration, from a fresh start to the end.
    fn measure(&mut self, plan: &Plan, kernel: bool, memory_goal: Option<f64>) -> Result<(), Failure> {
        self.load(plan, "start to committed tables")?;
        self.checking(plan)?;
        self.memory("resident memory", memory_goal)?;
        self.apply(plan)?;
        self.verdicts(plan)?;
        self.interrupt.wait(SLACK)?;
        self.memory("resident memory after changes", memory_goal)?;
        if kernel {
            self.daemon.kill()?;
            self.start("start after kill -9 to tables taken over")?;
            self.all_in_use(plan)?;
            self.interrupt.wait(SLACK)?;
            self.memory("resident memory after kill -9", memory_goal)?;
        }
        self.unchecked(plan)?;
        self.daemon.end();
        sandbox::forget_state()
    }

    /// Starts it, and waits until every backend is in use.
    fn load(&mut self, plan: &Plan, what: &str) -> Result<(), Failure> {
        self.daemon.configure(&plan.text())?;
        let begin = self.start(what)?;
        let status = self.all_in_use(plan)?;
        self.figure(Figure::new(&self.with, "start to all backends in use", seconds(begin), "s"));
        self.report.engine = status.engine;
        self.report.mode = status.interfaces.first().map_or(String::new(), |port| port.mode.clone());
        Ok(())
    }

    /// Starts it; it answers once its tables are committed. When that was asked for.
    fn start(&mut self, what: &str) -> Result<Instant, Failure> {
        let begin = Instant::now();
        self.daemon.start()?;
        self.until(what, |bench| Ok(bench.daemon.is_up().then_some(())))?;
        self.figure(Figure::new(&self.with, what, seconds(begin), "s").within(LOAD_SECONDS));
        Ok(begin)
    }

    fn all_in_use(&mut self, plan: &Plan) -> Result<Status, Failure> {
        let wanted = plan.backends_of_all();
        self.until("all backends in use", |bench| {
            bench.interrupt.wait(LOOK_EVERY * 9)?;
            let status = bench.daemon.status()?;
            Ok((status.backends.eligible == wanted).then_some(status))
        })
    }

    /// Has every service change.
    fn apply(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.say("apply");
        let mut times = Vec::new();
        for turn in 0..2 {
            times.push(self.take(&Plan { weight: 2 - turn, ..plan.clone() })?);
        }
        self.figure(
            Figure::worst(&self.with, "apply, every service changed", times, "s").within(LOAD_SECONDS),
        );
        Ok(())
    }

    /// Has the daemon take a configuration that changes every service; the seconds that it takes.
    fn take(&mut self, plan: &Plan) -> Result<f64, Failure> {
        let text = plan.text();
        self.interrupt.wait(Duration::ZERO)?;
        let begin = Instant::now();
        let applied = self.daemon.apply(&text)?.plan;
        let time = seconds(begin);
        if applied.services.len() != plan.many() {
            let many = applied.services.len();
            return Err(Failure::failed(format!("{many} services changed, where {} should", plan.many())));
        }
        Ok(time)
    }

    /// Has a backend fail and recover.
    fn verdicts(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.all_in_use(plan)?;
        let (mut down, mut up) = (Vec::new(), Vec::new());
        for _ in 0..self.trials {
            for (sick, times) in [(true, &mut down), (false, &mut up)] {
                let after = self.last_event()?;
                self.estate.set_sick(sick)?;
                let time = self.until(if sick { "a failed check" } else { "a passed check" }, |bench| {
                    Ok(verdict_to_commit(&bench.daemon.events(after)?))
                })?;
                times.push(time.as_secs_f64() * 1e3);
            }
        }
        for (what, times) in [("verdict down to commit", down), ("verdict up to commit", up)] {
            self.figure(Figure::worst(&self.with, what, times, "ms").within(VERDICT_MILLISECONDS));
        }
        Ok(())
    }

    /// The number of the last event.
    fn last_event(&self) -> Result<u64, Failure> {
        Ok(self.daemon.events(0)?.last().map_or(0, |event| event.number))
    }

    /// Looks at it while nothing changes, and at what the connections of its checks take alone.
    fn checking(&mut self, plan: &Plan) -> Result<(), Failure> {
        let Idle { part, a_second } = self.idle()?;
        let every = humantime::format_duration(plan.interval.unwrap_or_default());
        let what = format!("idle, checks every {every}");
        self.figure(Figure::new(&self.with, &what, part * 100.0, "% CPU").within(IDLE_PERCENT));
        let what = format!("the same by check, {a_second:.0} a second");
        self.figure(Figure::new(&self.with, &what, part / a_second * 1e6, "µs CPU"));
        self.say("connections alone");
        for (reset, what, each) in [
            (Reset::Answered, "as many connections by a bare loop", "the same by connection"),
            (Reset::Open, "as many that are opened on both sides", "the same by such a connection"),
        ] {
            let Bare { made, time } =
                bare::connections(&self.estate.front, &plan.checked(), reset, a_second, self.window)?;
            let (time, made) = (time.as_secs_f64(), made as f64);
            let part = time / self.window.as_secs_f64();
            self.figure(Figure::new(&self.with, what, part * 100.0, "% CPU"));
            self.figure(Figure::new(&self.with, each, time / made * 1e6, "µs CPU"));
        }
        Ok(())
    }

    /// Looks at it while nothing changes and nothing is checked.
    fn unchecked(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.daemon.apply(&Plan { interval: None, ..plan.clone() }.text())?;
        let percent = self.idle()?.part * 100.0;
        self.figure(Figure::new(&self.with, "idle, no check due", percent, "% CPU").within(IDLE_PERCENT));
        Ok(())
    }

    /// Looks at it for a while.
    fn idle(&mut self) -> Result<Idle, Failure> {
        self.say("idle");
        let reading = self.reading()?;
        // What was begun before ends first.
        self.interrupt.wait(Duration::from_secs(1))?;
        let (begin, before, taken) = (Instant::now(), reading.time()?, self.estate.connections()?);
        self.interrupt.wait(self.window)?;
        let time = reading.time()? - before;
        let connections = (self.estate.connections()? - taken) as f64;
        let over = seconds(begin);
        Ok(Idle { part: time.as_secs_f64() / over, a_second: connections / over })
    }

    fn memory(&mut self, what: &str, goal: Option<f64>) -> Result<(), Failure> {
        let memory = self.reading()?.memory()?;
        let all = Figure::new(&self.with, what, memory.all, "MB");
        self.figure(goal.into_iter().fold(all, Figure::within));
        self.figure(Figure::new(&self.with, "of it heaps and stacks", memory.own, "MB"));
        self.figure(Figure::new(&self.with, "of it program and mapped tables", memory.mapped, "MB"));
        Ok(())
    }

    fn reading(&self) -> Result<Reading, Failure> {
        self.daemon.id().map(Reading).ok_or_else(|| Failure::failed("the daemon does not run"))
    }

    /// Rolls all backends of all ports, one after the other.
    fn roll(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.load(plan, "start to committed tables")?;
        self.say("rolling");
        let (mut drained, mut removed) = (Vec::new(), Vec::new());
        for backend in 0..plan.backends {
            drained.push(self.take(&Plan { state: Some((backend, "draining")), ..plan.clone() })?);
            drained.push(self.take(plan)?);
        }
        for backend in 0..plan.backends {
            removed.push(self.take(&Plan { without: Some(backend), ..plan.clone() })?);
            removed.push(self.take(plan)?);
        }
        let mut operated = Vec::new();
        for state in ["drain", "ready"] {
            let begin = Instant::now();
            for service in 0..plan.many() {
                self.daemon.set_admin(&format!("service-{service}"), "be0", state)?;
            }
            operated.push(seconds(begin));
        }
        for (what, times) in [
            ("a step: drained or taken back, by one file", drained),
            ("a step: removed or added, by one file", removed),
            ("a step: drained or taken back, a request for each port", operated),
        ] {
            self.figure(Figure::worst(&self.with, what, times, "s").within(STEP_SECONDS));
        }
        self.daemon.end();
        sandbox::forget_state()
    }

    fn say(&self, what: &str) {
        self.progress.set_message(format!("{}: {what}", self.with));
        self.progress.tick();
    }

    fn figure(&mut self, figure: Figure) {
        self.report.figures.push(figure);
    }

    /// Waits until `found` finds something, while the daemon runs.
    fn until<T>(
        &mut self,
        what: &str,
        mut found: impl FnMut(&mut Self) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        self.say(what);
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            self.interrupt.wait(LOOK_EVERY)?;
            self.daemon.check()?;
            if let Some(found) = found(self)? {
                return Ok(found);
            }
        }
        Err(Failure::failed(format!("{}: {what} did not happen within {} s", self.with, PATIENCE.as_secs())))
    }
}

/// A daemon while nothing changes.
struct Idle {
    /// The part of a core that it takes.
    part: f64,
    /// Checks a second, as the backends count them.
    a_second: f64,
}

/// From the first change of the sick backend's verdict to the next commit of its service.
fn verdict_to_commit(events: &[Event]) -> Option<Duration> {
    let of_service = |event: &&Event| event.service.as_deref() == Some(SICK_SERVICE);
    let mut events = events.iter().filter(of_service);
    let verdict =
        events.find(|event| event.kind == "health" && event.backend.as_deref() == Some(SICK_BACKEND))?;
    let commit = events.find(|event| event.kind == "commit")?;
    let at = |event: &Event| humantime::parse_rfc3339(&event.at).unwrap_or(SystemTime::UNIX_EPOCH);
    at(commit).duration_since(at(verdict)).ok()
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_counted_from_the_verdict_before_it() {
        let event = |number: u64, milliseconds: u64, kind: &str, backend: Option<&str>| Event {
            number,
            at: format!("2026-01-01T00:00:00.{milliseconds:03}Z"),
            grade: "info".into(),
            kind: kind.into(),
            service: Some(SICK_SERVICE.into()),
            backend: backend.map(Into::into),
            by: None,
            text: String::new(),
        };
        let mut events = vec![
            event(1, 1, "commit", None),
            event(2, 5, "health", Some("be1")),
            event(3, 9, "health", Some(SICK_BACKEND)),
        ];
        assert_eq!(verdict_to_commit(&events), None, "it is not committed yet");
        events.push(event(4, 21, "commit", None));
        assert_eq!(verdict_to_commit(&events), Some(Duration::from_millis(12)));
    }
}
