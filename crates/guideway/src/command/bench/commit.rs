//! `guideway bench commit`: how long changes of tables take until the kernel has them.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use guideway_control::controller::spec::{
    Admin, AllDown, BackendSpec, Health, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use guideway_control::{Controller, Engine};
use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_soft::Limits;
use guideway_wire::Tunnel;
use guideway_xdp::Balancer;
use guideway_xdp::harness::{cpu_time, stay_on_this_cpu};
use serde::Serialize;

use super::failed;
use crate::columns::{Align, Columns};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A commit is the whole way of a change: the table is built, compared with the present one, and its slots are stored where
the kernel's program reads them. A CPU's time is counted, since other work on the machine has nothing to do with it; goals
are for the median. By the clock, the fastest is shown: it has any waiting in it.

Exit codes:
  0  measured, whether goals are met or not
  1  it could not be measured, or a service that was not changed changed
  2  the command line is wrong")]
pub(crate) struct Args {
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    what: String,
    median_ms: f64,
    least_ms: f64,
    least_by_the_clock_ms: f64,
    goal_ms: f64,
    of_goal: f64,
    met: bool,
}

const CHANGES: u32 = 200;
const MANY: u32 = 1_000;

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    stay_on_this_cpu().map_err(|error| Failure::failed(format_args!("can't stay on one CPU: {error}")))?;
    let limits = Limits { services: 1_001, backends: 40_000, slots: 2_200_000, ..Limits::default() };
    let balancer = Balancer::load(&limits, [1, 2]).map_err(failed)?;
    let mut controller = Controller::new(balancer);
    let mut rows = Vec::new();
    for backends in [10, 100, 1_000] {
        let spec = service(0, backends, 65_537);
        controller.add_service(spec, Health::Up).map_err(Failure::failed)?;
        let times = weights_in_turn(&mut controller)?;
        rows.push(row(format!("65,537 slots, {backends} backends, another weight"), times, 1.0));
        controller.remove_service("service-0").map_err(Failure::failed)?;
        give_back(&mut controller);
    }
    let services = || (1..=MANY).map(|number| service(number, 10, 1_021));
    controller.add_services(services(), Health::Up).map_err(Failure::failed)?;
    // One more, that nobody changes.
    controller.add_service(service(0, 10, 1_021), Health::Up).map_err(Failure::failed)?;
    let before = picture(&controller);
    let mut times = Vec::new();
    for round in 0..20 {
        let specs: Vec<_> = services().map(|spec| reweighted(spec, 1 + round % 2)).collect();
        let start = Start::now();
        let changes = controller.apply(specs, |_, _| Health::Up);
        times.push(start.until_now());
        changes.into_iter().collect::<Result<Vec<_>, _>>().map_err(Failure::failed)?;
        if picture(&controller) != before {
            return Err(Failure::failed("a service that was not changed has other slots or records now"));
        }
    }
    rows.push(row(format!("{MANY} services of 1,021 slots, other weights"), times, 1_000.0));
    if args.json {
        screen.json(&rows)?;
        return Ok(Outcome::Ok);
    }
    let mut columns = Columns::new([
        ("", Align::Left),
        ("ms", Align::Right),
        ("least", Align::Right),
        ("by the clock", Align::Right),
        ("goal", Align::Right),
        ("of goal", Align::Right),
        ("", Align::Left),
    ]);
    for row in rows {
        columns.row([
            row.what,
            format!("{:.3}", row.median_ms),
            format!("{:.3}", row.least_ms),
            format!("{:.3}", row.least_by_the_clock_ms),
            format!("{:.0}", row.goal_ms),
            format!("{:.2}", row.of_goal),
            if row.met { "met" } else { "missed" }.to_owned(),
        ]);
    }
    columns.write(screen)?;
    screen.flush()?;
    Ok(Outcome::Ok)
}

fn weights_in_turn(controller: &mut Controller<Balancer>) -> Result<Vec<Took>, Failure> {
    let change = |number: u32| {
        let start = Start::now();
        let backend = format!("backend-{}", number % 10);
        controller.set_weight("service-0", &backend, 1 + number % 3).map_err(Failure::failed)?;
        Ok(start.until_now())
    };
    (0..CHANGES).map(change).collect()
}

/// Waits until the memory of what was removed is free again.
fn give_back(controller: &mut Controller<Balancer>) {
    let period = controller.engine().begin_grace();
    while !Engine::grace_is_over(controller.engine(), period) {
        std::thread::yield_now();
    }
    controller.tick();
}

/// Slots and records of the service that nobody changes.
fn picture(controller: &Controller<Balancer>) -> Option<Vec<u64>> {
    let engine = controller.engine();
    let record = engine.service(controller.service_id("service-0")?)?;
    let (offset, size) = record.table(record.active()).place();
    let slots = engine.slots().get(offset as usize..(offset + size) as usize)?;
    let mut words: Vec<u64> =
        slots.iter().map(|slot| u64::from(slot.load(std::sync::atomic::Ordering::Relaxed))).collect();
    words.push(record.active().0);
    for local in 0..10 {
        let backend = engine.backend(record.backend_index(local)?)?;
        words.extend([backend.state() as u64, u64::from(backend.interface())]);
        words.extend(backend.address().map(u64::from));
    }
    Some(words)
}

/// What a change took.
struct Took {
    cpu: Duration,
    clock: Duration,
}

/// When a change began.
struct Start {
    cpu: Duration,
    clock: Instant,
}

impl Start {
    fn now() -> Start {
        Start { cpu: cpu_time(), clock: Instant::now() }
    }

    fn until_now(&self) -> Took {
        Took { cpu: cpu_time().saturating_sub(self.cpu), clock: self.clock.elapsed() }
    }
}

fn row(what: String, times: Vec<Took>, goal_ms: f64) -> Row {
    let milliseconds = |time: Option<Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    let mut cpu: Vec<_> = times.iter().map(|took| took.cpu).collect();
    cpu.sort_unstable();
    let median_ms = milliseconds(cpu.get(cpu.len() / 2).copied());
    Row {
        what,
        median_ms,
        least_ms: milliseconds(cpu.first().copied()),
        least_by_the_clock_ms: milliseconds(times.iter().map(|took| took.clock).min()),
        goal_ms,
        of_goal: median_ms / goal_ms,
        met: median_ms <= goal_ms,
    }
}

fn reweighted(mut spec: ServiceSpec, weight: u32) -> ServiceSpec {
    for backend in spec.backends.iter_mut().take(3) {
        backend.weight = weight;
    }
    spec
}

fn service(number: u32, backends: u32, slots: u32) -> ServiceSpec {
    let address = IpAddr::V4(Ipv4Addr::from(0xc612_0000 + number));
    ServiceSpec {
        name: format!("service-{number}"),
        listen: vec![Listen::on(address, NonZeroU16::MIN, Protocol::Tcp)],
        table: TableSpec { rule: TableRule::Maglev, size: TableSizeSpec::Slots(slots), seed: 7 },
        policy: Policy::default(),
        tcp_idle_seconds: 900,
        udp_idle_seconds: 30,
        all_down: AllDown::LastResort,
        backends: (0..backends).map(|local| backend(number, local)).collect(),
    }
}

fn backend(service: u32, local: u32) -> BackendSpec {
    BackendSpec {
        identity: format!("backend-{local}").into(),
        address: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + service * 1_024 + local)),
        weight: 1,
        admin: Admin::Active,
        tunnel: TunnelSpec {
            kind: Tunnel::Ipip,
            source: IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
            source_entropy_bits: 0,
            gue_port: guideway_wire::gue::PORT,
            mtu: 1_500,
            next_hop: NextHop { interface: 1, neighbour: [2; 6], own_mac: [4; 6], link_mtu: None },
        },
        quic_id: None,
    }
}
