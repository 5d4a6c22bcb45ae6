//! At each step of a change packets find the table before it or the one after, and a process that is killed there leaves
//! what the next one completes.

use std::num::NonZeroU16;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use guideway_control::Controller;
use guideway_control::controller::spec::{
    Admin, AllDown, BackendSpec, Health, Listen, Protocol, ServiceSpec, TableSizeSpec,
};
use guideway_control::engine::{Capacity, Engine, EngineError, Repaired};
use guideway_forward::record::backend::NextHop;
use guideway_forward::record::{Backend, Bucket, Service, ServiceId, Settings};
use guideway_soft::{Binding, Count, QuicBinding};
use guideway_testbed::bed::LIMITS;
use guideway_testbed::topology::VIPS;
use guideway_xdp::pins::Pins;
use guideway_xdp::{Balancer, Run, step};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The word that makes this program one that changes a pinned balancer until it is killed.
pub(crate) const STEP: &str = "step";

/// How often a process is killed in each change, at steps all over it.
const KILLS: usize = 5;

/// What is wanted.
struct State {
    services: Vec<ServiceSpec>,
    /// Whose checks fail.
    failing: &'static [&'static str],
}

/// One change of what is wanted.
struct Change {
    name: &'static str,
    before: State,
    after: State,
}

pub(crate) fn at_each_step_packets_find_the_table_before_or_after(root: &Path) {
    step::before_each(comes);
    let pins = Pins::new(root).unwrap();
    let mut balancer = Arc::new(Balancer::load_pinned(&LIMITS, [4, 2], &pins).unwrap());
    balancer.stop_clock(Some(1_000));
    let changes = changes();
    for (number, change) in changes.iter().enumerate() {
        let mut controller = Controller::adopt(Stepping(Arc::clone(&balancer)), &[]).unwrap();
        make(&mut controller, &change.before);
        settle(&mut controller, &balancer);
        let before = probe(&balancer);

        // What is found at each step is what a kill there would leave.
        let found = Arc::new(Mutex::new(Vec::new()));
        let (looked_at, list) = (Arc::clone(&balancer), Arc::clone(&found));
        at_each_step(move || list.lock().unwrap().push(probe(&looked_at)));
        make(&mut controller, &change.after);
        forget_steps();
        let after = probe(&balancer);
        assert!(before != after, "{} changes nothing", change.name);
        let found = std::mem::take(&mut *found.lock().unwrap());
        for (step, runs) in found.iter().enumerate() {
            is_before_or_after(change.name, step, runs, &before, &after);
        }
        let digest = controller.digest();
        make(&mut controller, &change.before);
        settle(&mut controller, &balancer);
        drop(controller);

        let steps = found.len();
        let mut killed = 0;
        for at in (0..steps).step_by(steps.div_ceil(KILLS)) {
            let status = Command::new(std::env::current_exe().unwrap())
                .arg(STEP)
                .arg(root)
                .args([number.to_string(), at.to_string()])
                .status()
                .unwrap();
            assert_eq!(
                status.signal(),
                Some(Signal::SIGKILL as i32),
                "{} at step {at}: {status}",
                change.name
            );
            is_before_or_after(change.name, at, &probe(&balancer), &before, &after);
            // The next process, with the configuration that the one before was killed over.
            balancer = Arc::new(Balancer::load_pinned(&LIMITS, [4, 2], &pins).unwrap());
            let known = [&change.after.services[..], &change.before.services].concat();
            let mut controller = Controller::adopt(Stepping(Arc::clone(&balancer)), &known).unwrap();
            make(&mut controller, &change.after);
            assert!(probe(&balancer) == after, "{} killed at step {at} is not completed", change.name);
            assert_eq!(controller.digest(), digest);
            make(&mut controller, &change.before);
            settle(&mut controller, &balancer);
            assert!(probe(&balancer) == before, "{} killed at step {at} is not taken back", change.name);
            killed += 1;
        }
        println!("{}: {steps} steps, killed at {killed} of them", change.name);
    }
    drop(balancer);
    pins.remove().unwrap();
}

/// The process that is killed: it takes a pinned balancer over and begins a change.
pub(crate) fn change_until_killed(arguments: &[String]) -> ! {
    let [root, number, steps] = arguments else { panic!("{arguments:?}") };
    step::before_each(comes);
    let pins = Pins::new(Path::new(root)).unwrap();
    let balancer = Arc::new(Balancer::load_pinned(&LIMITS, [4, 2], &pins).unwrap());
    let change = &changes()[number.parse::<usize>().unwrap()];
    let mut controller = Controller::adopt(Stepping(balancer), &change.before.services).unwrap();
    let mut left: u32 = steps.parse().unwrap();
    at_each_step(move || {
        if left == 0 {
            kill(Pid::this(), Signal::SIGKILL).unwrap();
        }
        left -= 1;
    });
    make(&mut controller, &change.after);
    panic!("the change had no step {steps}");
}

fn changes() -> Vec<Change> {
    let web = || of("web", 80, 1..=3);
    let well = |services: Vec<ServiceSpec>| State { services, failing: &[] };
    let edited = |edit: &dyn Fn(&mut ServiceSpec)| {
        let mut spec = web();
        edit(&mut spec);
        well(vec![spec])
    };
    let drained = edited(&|spec| spec.backends[1].admin = Admin::Draining);
    let weighed = edited(&|spec| {
        spec.backends.remove(0);
        spec.backends[0].weight = 5;
        spec.backends.extend(of("web", 80, 4..=4).backends);
    });
    let resized = edited(&|spec| spec.table.size = TableSizeSpec::Slots(61));
    let reseeded = edited(&|spec| spec.table.seed = 8);
    let rejecting = edited(&|spec| spec.all_down = AllDown::Reject);
    let elsewhere = edited(&|spec| {
        let network = "192.0.2.0/24".parse().unwrap();
        spec.listen = of("web", 81, []).listen;
        spec.listen.push(Listen { network, port: NonZeroU16::new(82), protocol: Protocol::Tcp });
    });
    [
        ("a backend drains", drained),
        ("one leaves, one joins, one gains weight", weighed),
        ("a backend fails", State { services: vec![web()], failing: &["be2"] }),
        ("all fail", State { failing: &["be1", "be2", "be3"], ..rejecting }),
        ("the pool is another, in other places", well(vec![of("web", 80, 4..=20)])),
        ("another table size", resized),
        ("another seed", reseeded),
        ("other ports and a prefix", elsewhere),
        ("one service goes, another comes", well(vec![of("other", 81, 4..=6)])),
    ]
    .into_iter()
    .map(|(name, after)| Change { name, before: well(vec![web()]), after })
    .collect()
}

/// A service on a small table, so that its slots can all be looked at.
fn of(name: &str, port: u16, backends: impl IntoIterator<Item = u8>) -> ServiceSpec {
    let words: Vec<String> =
        backends.into_iter().map(|n| format!("be{n}/10.0.0.{n}/02:00:00:00:00:{n:02x}")).collect();
    let next_hop =
        |neighbour| NextHop { interface: 1, neighbour, own_mac: [2, 0, 0, 0, 0, 0xfe], link_mtu: None };
    let mut spec = super::service(name, port, "10.0.0.254".parse().unwrap(), &next_hop, &words);
    spec.table.size = TableSizeSpec::Slots(31);
    spec
}

fn make(controller: &mut Controller<Stepping>, state: &State) {
    let is_wanted = |name: &str| state.services.iter().any(|spec| spec.name == name);
    let gone: Vec<String> =
        controller.service_names().filter(|name| !is_wanted(name)).map(str::to_owned).collect();
    for name in gone {
        controller.remove_service(&name).unwrap();
    }
    let health = |_: &str, backend: &BackendSpec| {
        if state.failing.contains(&&*backend.identity) { Health::Down } else { Health::Up }
    };
    for change in controller.apply(state.services.clone(), health) {
        change.unwrap();
    }
}

/// Lets idle times pass until nothing is in transition.
fn settle(controller: &mut Controller<Stepping>, balancer: &Balancer) {
    for _ in 0..6 {
        balancer.stop_clock(Some(balancer.now_seconds() + 70));
        controller.tick();
    }
    let status = controller.status();
    assert!(status.iter().all(|service| !service.prior && service.unsettled == 0), "{status:?}");
}

fn is_before_or_after(change: &str, step: usize, runs: &[Run], before: &[Run], after: &[Run]) {
    for (packet, run) in runs.iter().enumerate() {
        let known = run == &before[packet] || run == &after[packet];
        assert!(
            known,
            "{change}, step {step}, packet {packet}: {run:?}\nbefore {:?}\nafter {:?}",
            before[packet], after[packet]
        );
    }
}

/// What becomes of new flows and of old ones, from many clients to each port.
fn probe(balancer: &Balancer) -> Vec<Run> {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let mut runs = Vec::new();
    for port in [80, 81, 82] {
        for (flags, first) in [(SYN, 40_000), (ACK, 50_000)] {
            for client in 0..64 {
                runs.push(balancer.run(&frame(first + client, port, flags)).unwrap());
            }
        }
    }
    runs
}

fn frame(from: u16, port: u16, flags: u8) -> Vec<u8> {
    let std::net::IpAddr::V4(vip) = VIPS[0] else { panic!("the first is of IPv4") };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 198, 51, 100, 7]);
    frame.extend(vip.octets());
    frame.extend(from.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame
}

type Action = Box<dyn FnMut() + Send>;

static ACTION: Mutex<Option<Action>> = Mutex::new(None);

fn at_each_step(action: impl FnMut() + Send + 'static) {
    *ACTION.lock().unwrap() = Some(Box::new(action));
}

fn forget_steps() {
    *ACTION.lock().unwrap() = None;
}

/// A step comes: whatever is stored next goes through what was asked for now.
fn comes() {
    if let Some(action) = ACTION.lock().unwrap().as_mut() {
        action();
    }
}

/// The kernel's balancer, with a step before each thing that is asked of it.
#[derive(Debug)]
struct Stepping(Arc<Balancer>);

impl Stepping {
    fn next(&self) -> &Balancer {
        comes();
        &self.0
    }
}

impl Engine for Stepping {
    fn capacity(&self) -> Capacity {
        Engine::capacity(&*self.0)
    }

    fn now_seconds(&self) -> u32 {
        self.0.now_seconds()
    }

    fn service(&self, id: ServiceId) -> Option<&Service> {
        self.next().service(id)
    }

    fn backend(&self, global: u32) -> Option<&Backend> {
        self.next().backend(global)
    }

    fn reach_slots(&self, slots: u32) -> Result<(), EngineError> {
        // No store that packets could see.
        Engine::reach_slots(&*self.0, slots)
    }

    fn slots(&self) -> &[AtomicU32] {
        self.next().slots()
    }

    fn flows(&self) -> &[Bucket] {
        self.next().flows()
    }

    fn settings(&self) -> &Settings {
        self.next().settings()
    }

    fn publish(&self, bindings: &[Binding], quic: &[QuicBinding]) -> Result<(), EngineError> {
        Engine::publish(self.next(), bindings, quic)
    }

    fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>) {
        self.0.published()
    }

    fn repair(&self) -> Result<Repaired, EngineError> {
        Engine::repair(&*self.0)
    }

    fn begin_grace(&self) -> u64 {
        self.next().begin_grace()
    }

    fn grace_is_over(&self, epoch: u64) -> bool {
        self.0.grace_is_over(epoch)
    }

    fn service_count(&self, id: ServiceId) -> Count {
        self.0.service_count(id)
    }

    fn backend_count(&self, global: u32) -> Count {
        self.0.backend_count(global)
    }
}
