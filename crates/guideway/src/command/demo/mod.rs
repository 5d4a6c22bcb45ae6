//! `guideway demo`: the balancer at work in a network of its own, while things go wrong.

mod books;
mod churn;
mod clients;
mod pace;
mod picture;
mod scenes;
mod stage;
mod world;

use std::time::{Duration, Instant};

use guideway_testbed::forwarder::Forwarder;
use guideway_testbed::kernel::KernelForwarder;
use guideway_testbed::soft::SoftForwarder;

use self::books::{Report, Rig};
use self::clients::Clients;
use self::pace::Pace;
use self::picture::Picture;
use self::stage::Stage;
use self::world::{BACKENDS, World};
use crate::failure::{Failure, Outcome};
use crate::sandbox::{self, EngineWish, Ground, Interrupt, LONG};
use crate::screen::{Screen, Style};
use crate::times;

/// The pause of a client after each answer: hundreds of requests a second that leave the machine to its owner.
const PAUSE: Duration = Duration::from_millis(10);

/// The same when it has to be quick.
const PAUSE_QUICK: Duration = Duration::from_millis(2);

/// See it at work: a network of its own, with clients, balancer and backends, while things go wrong
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It makes namespaces of its own, in which are a client, a router, a balancer that is the real `guideway run`, and
backends with a real HTTP server. Nothing outside is touched, and nothing stays behind, however it ends. As root the
kernel forwards, by XDP; other users have it in a user namespace, and forward in user space.

While clients ask without a pause, it drains a backend, kills one, adds one, and kills the balancer's daemon itself. The
report at the end says what became of every request.

Exit codes:
  0  every promise was kept
  1  a request failed that may not fail, or another promise was broken; or the demo could not be set up
  2  the command line is wrong

Examples:
  sudo guideway demo
  guideway demo --engine soft
  guideway demo --quick --json")]
pub(crate) struct Args {
    /// What forwards the packets; auto is XDP where it may be used
    #[arg(long, value_enum, default_value_t = EngineWish::Auto)]
    engine: EngineWish,
    /// How long it takes, as 60s; 15s to an hour. On a slow machine the shortest take longer
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "quick",
        value_parser = times::between(Duration::from_secs(15), Duration::from_secs(3_600))
    )]
    duration: Option<humantime::Duration>,
    /// Show every scene only as long as it takes
    #[arg(long)]
    quick: bool,
    /// Leave it up at the end until Ctrl-C, and say how to look into it
    #[arg(long, conflicts_with = "json")]
    keep: bool,
    /// Print the report as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let interrupt = Interrupt::hold_back()?;
    let ground = sandbox::take(args.engine)?;
    let picture = Picture::on(screen, args.json);
    if ground.kernel {
        show::<KernelForwarder>(args, &ground, picture, interrupt)
    } else {
        show::<SoftForwarder>(args, &ground, picture, interrupt)
    }
}

fn show<F: Forwarder>(
    args: &Args,
    ground: &Ground,
    mut picture: Picture<'_>,
    interrupt: Interrupt,
) -> Result<Outcome, Failure> {
    let begin = Instant::now();
    let mut world = World::<F>::build(ground.kernel)?;
    let rig = start(&mut world, ground, &interrupt)?;
    let (engine, mode) = (&rig.engine, &rig.mode);
    let who = if ground.root { "as root" } else { "without root, in a user namespace" };
    picture.say(Some(Style::Heading), &format!("Guideway at work {who}: engine {engine}, {mode} mode"))?;
    if let Some(why) = &ground.why_not {
        picture.say(
            Some(Style::Faint),
            &format!("  not in the kernel: {}", why.lines().next().unwrap_or_default()),
        )?;
    }
    let pause = if args.quick { PAUSE_QUICK } else { PAUSE };
    let clients = Clients::start(&world.bed.network.client.namespace, pause)?;
    let pace = match args.duration {
        Some(duration) => Pace::Until(begin + *duration),
        None if args.quick => Pace::Quick,
        None => Pace::Ordinary,
    };
    let mut stage = Stage::new(world, clients, picture, interrupt, ground.kernel);
    scenes::play(&mut stage, &pace)?;
    let Stage { clients, world, mut picture, interrupt, books, .. } = stage;
    let (seen, downloads) = (clients.seen(), clients.downloads());
    let report = books.close(rig, seen, &downloads, begin.elapsed().as_secs_f64());
    tell(&report, args.json, picture.screen())?;
    if args.keep {
        keep(&world, ground, &mut picture, &interrupt)?;
    }
    // Nobody asks any more when the network goes.
    drop(clients);
    Ok(if report.ok { Outcome::Ok } else { Outcome::Differs })
}

/// Starts the daemon, and waits until all backends take flows: what it runs on.
fn start<F: Forwarder>(world: &mut World<F>, ground: &Ground, interrupt: &Interrupt) -> Result<Rig, Failure> {
    world.daemon.start()?;
    let begin = Instant::now();
    loop {
        interrupt.wait(Duration::from_millis(20))?;
        world.daemon.check()?;
        let status = world.daemon.status();
        match status {
            Ok(status) if status.backends.eligible == u64::from(BACKENDS) => {
                let mode = status.interfaces.first().map(|interface| interface.mode.clone());
                return Ok(Rig { engine: status.engine, mode: mode.unwrap_or_default(), root: ground.root });
            }
            Err(error) if begin.elapsed() > LONG => return Err(error),
            Ok(_) if begin.elapsed() > LONG => {
                return Err(Failure::failed("the backends passed no check in time"));
            }
            _ => {}
        }
    }
}

fn tell(report: &Report, json: bool, screen: &mut Screen) -> Result<(), Failure> {
    if json {
        screen.json(report)?;
    } else {
        report.show(screen)?;
    }
    Ok(screen.finish()?)
}

/// Leaves everything up until somebody has seen enough.
fn keep<F: Forwarder>(
    world: &World<F>,
    ground: &Ground,
    picture: &mut Picture<'_>,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let id = std::process::id();
    let user = if ground.root {
        String::new()
    } else {
        format!("--user=/proc/{id}/ns/user --preserve-credentials ")
    };
    let network = world.bed.network.client.namespace.path();
    let socket = world.daemon.socket();
    picture.say(None, "\nIt stays up until Ctrl-C. In another terminal:")?;
    for line in [
        format!("nsenter {user}--net={} curl http://192.0.2.10/", network.display()),
        format!("guideway status --socket /proc/{id}/root{}", socket.display()),
    ] {
        picture.say(None, &format!("  {line}"))?;
    }
    while interrupt.wait(Duration::from_secs(1)).is_ok() {}
    Ok(())
}
