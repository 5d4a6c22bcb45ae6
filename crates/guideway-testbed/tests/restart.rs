//! The process that loaded the program is killed, again and again, under load and at each step of a change: the program
//! goes on without it, and the next process takes over what it left. A test program of its own, since it runs itself as
//! that process.

#[path = "restart/steps.rs"]
mod steps;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use guideway_control::Controller;
use guideway_control::controller::spec::{
    Admin, AllDown, BackendSpec, Health, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_testbed::backend::{ECHO_PORT, HTTP_PORT};
use guideway_testbed::bed::LIMITS;
use guideway_testbed::client::http;
use guideway_testbed::client::{EchoFlows, HttpLoad};
use guideway_testbed::kernel::{KernelForwarder, pass_all};
use guideway_testbed::process::Process;
use guideway_testbed::topology::VIPS;
use guideway_testbed::{Bed, Plan, Program, privilege, vips, wait};
use guideway_wire::{Tunnel, gue};
use guideway_xdp::Balancer;
use guideway_xdp::attach::{Mode, Wish};
use guideway_xdp::pins::Pins;
use nix::mount::{MsFlags, mount, umount};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};

const LONG: Duration = Duration::from_secs(20);

/// The word that makes this program the process that holds the balancer.
const HOLD: &str = "hold";

/// The balancer's interface.
const INTERFACE: &str = "eth0";

/// Before the name of a backend that is to drain.
const DRAINING: &str = "draining=";

/// Has that process change its tables without a pause.
const CHANGING: &str = "changing";

/// Bytes of a download: more than the buffers between server and client hold.
const DOWNLOAD: u64 = 12 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == HOLD) {
        hold(&arguments[1..]);
    }
    if arguments.first().is_some_and(|word| word == steps::STEP) {
        steps::change_until_killed(&arguments[1..]);
    }
    if privilege::granted_to::<KernelForwarder>() {
        in_bpf_file_system(|pins| {
            steps::at_each_step_packets_find_the_table_before_or_after(pins);
            println!("looked at and killed at each step of a change ... ok");
            no_request_fails_and_no_flow_moves(pins);
            println!("killed under load and taken over ... ok");
        });
    }
    ExitCode::SUCCESS
}

fn no_request_fails_and_no_flow_moves(pins: &Path) {
    let plan = Plan { balancers: 1, ..Plan::default() };
    let bed = Bed::<KernelForwarder>::start_without_balancers(&plan).unwrap();
    let _passes = pass_all(&bed.network.balancers[0]).unwrap();
    let client = &bed.network.client.namespace;
    let start = |what: &[&str]| {
        let process = holder(&bed, pins, what);
        wait::until_true(LONG, "the balancer to be ready", || process.printed()[0].contains("ready"))
            .unwrap_or_else(|error| panic!("{error}: {:?}", process.printed()));
        process
    };
    let first = start(&[]);
    assert!(first.printed()[0].starts_with("new"));
    let mut flows = vips(ECHO_PORT).map(|vip| EchoFlows::open(client, vip, 60).unwrap());
    let before = flows.each_ref().map(|flows| owned(flows.by_backend()));
    assert!(before.iter().all(|count| count.len() == 3), "{before:?}");
    let mut downloads: Vec<_> = (0..6)
        .map(|number| {
            let path = format!("/bytes/{DOWNLOAD}");
            let mut download = http::begin_get(client, vips(HTTP_PORT)[number % 2], &path).unwrap();
            download.read_some(1 << 16).unwrap();
            download
        })
        .collect();
    let loads = [0, 1].map(|_| HttpLoad::start(client, &vips(HTTP_PORT)).unwrap());
    let requests = |number: u64| {
        let total = || loads.iter().map(|load| load.report().total()).sum::<u64>();
        let wanted = total() + number;
        wait::until_true(LONG, "more requests", || total() >= wanted).unwrap();
    };
    let exchange = |flows: &mut [EchoFlows; 2]| {
        for flows in flows {
            let broken = flows.exchange();
            assert!(broken.is_empty(), "{broken:?}");
        }
    };
    requests(100);
    first.kill().unwrap();
    // Nobody is at home.
    requests(200);
    exchange(&mut flows);

    let second = start(&["draining=be2"]);
    assert!(second.printed()[0].starts_with("adopted"), "{:?}", second.printed());
    exchange(&mut flows);
    requests(50);
    let fresh = EchoFlows::open(client, vips(ECHO_PORT)[0], 100).unwrap();
    assert!(!fresh.by_backend().contains_key("be2"), "{:?}", fresh.by_backend());
    second.kill().unwrap();
    requests(50);
    exchange(&mut flows);

    // Killed in the middle of changes.
    for _ in 0..6 {
        let changing = start(&[CHANGING]);
        requests(50);
        changing.kill().unwrap();
        exchange(&mut flows);
    }
    let last = start(&[]);
    requests(50);
    for download in &mut downloads {
        download.read_some(DOWNLOAD).unwrap();
        assert_eq!(download.left(), 0);
    }
    exchange(&mut flows);
    assert_eq!(flows.each_ref().map(|flows| owned(flows.by_backend())), before);
    let failed: Vec<_> = loads.iter().flat_map(|load| load.report().failed).collect();
    assert!(failed.is_empty(), "{} requests failed, the first: {:?}", failed.len(), failed.first());
    last.kill().unwrap();
    Pins::new(pins).unwrap().remove().unwrap();
}

/// Starts the process that holds the balancer of this bed, with these words as its last arguments.
fn holder(bed: &Bed<KernelForwarder>, pins: &Path, words: &[&str]) -> Process {
    let host = &bed.network.balancers[0];
    let (pins, source) = (pins.display().to_string(), host.v4.to_string());
    let mut arguments = vec![HOLD.to_owned(), pins, source, colons(host.link.mac())];
    arguments.extend(bed.network.backends.iter().map(|backend| {
        let mac = colons(backend.link.mac());
        format!("{}/{}/{mac}", backend.name, backend.v4)
    }));
    arguments.extend(words.iter().map(|word| (*word).to_owned()));
    Program::new(std::env::current_exe().unwrap()).args(arguments).start(&host.namespace).unwrap()
}

/// Holds a balancer until it is killed: a new one, or the one that is pinned.
fn hold(arguments: &[String]) -> ! {
    let [root, source, own_mac, rest @ ..] = arguments else { panic!("{arguments:?}") };
    let mut services = [("web", HTTP_PORT), ("tcp-echo", ECHO_PORT)].map(|(name, port)| {
        let next_hop = |neighbour| NextHop {
            interface: if_nametoindex(INTERFACE).unwrap(),
            neighbour,
            own_mac: mac(own_mac),
            link_mtu: None,
        };
        service(name, port, source.parse().unwrap(), &next_hop, rest)
    });
    let pins = Pins::new(Path::new(root)).unwrap();
    let found = pins.is_taken();
    let balancer = Balancer::load_pinned(&LIMITS, [4, 2], &pins).unwrap();
    let attachment = balancer.attach(INTERFACE, Wish::Auto).unwrap();
    assert_eq!((attachment.mode, attachment.replaced), (Mode::Native, found));
    let mut controller =
        if found { Controller::adopt(balancer, &services).unwrap() } else { Controller::new(balancer) };
    for spec in services.clone() {
        let made = if found {
            controller.replace_service(spec, Health::Unchecked)
        } else {
            controller.add_service(spec, Health::Unchecked)
        };
        made.unwrap();
    }
    println!("{}, ready", if found { "adopted" } else { "new" });
    let changing = rest.iter().any(|word| word == CHANGING);
    for round in 0_usize.. {
        if !changing {
            thread::sleep(Duration::from_secs(1));
        }
        for spec in services.iter_mut().filter(|_| changing) {
            let backends = spec.backends.len();
            // Each in turn drains and comes back.
            let backend = &mut spec.backends[round / 2 % backends];
            backend.admin = if round % 2 == 0 { Admin::Draining } else { Admin::Active };
            controller.replace_service(spec.clone(), Health::Unchecked).unwrap();
        }
        controller.tick();
    }
    unreachable!("killed before");
}

fn service(
    name: &str,
    port: u16,
    source: IpAddr,
    next_hop: &dyn Fn([u8; 6]) -> NextHop,
    words: &[String],
) -> ServiceSpec {
    let port = NonZeroU16::new(port).unwrap();
    let drains = |name: &str| words.iter().any(|word| word.strip_prefix(DRAINING) == Some(name));
    let backends = words.iter().filter_map(|word| {
        let [name, address, neighbour] = word.split('/').collect::<Vec<_>>().try_into().ok()?;
        Some(BackendSpec {
            identity: name.into(),
            address: address.parse().unwrap(),
            weight: 1,
            admin: if drains(name) { Admin::Draining } else { Admin::Active },
            tunnel: TunnelSpec {
                kind: Tunnel::Ipip,
                source,
                source_entropy_bits: 0,
                gue_port: gue::PORT,
                mtu: 1500,
                next_hop: next_hop(mac(neighbour)),
            },
            quic_id: None,
        })
    });
    ServiceSpec {
        name: name.to_owned(),
        listen: VIPS.iter().map(|&vip| Listen::on(vip, port, Protocol::Tcp)).collect(),
        table: TableSpec { rule: TableRule::Maglev, size: TableSizeSpec::Slots(1009), seed: 7 },
        policy: Policy::default(),
        tcp_idle_seconds: 60,
        udp_idle_seconds: 60,
        all_down: AllDown::default(),
        backends: backends.collect(),
    }
}

/// Runs `work` with a BPF file system of its own.
fn in_bpf_file_system(work: impl FnOnce(&Path)) {
    // Before the first thread, so that all of them see it.
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let directory = std::env::temp_dir().join(format!("guideway-restart-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    mount(Some("bpf"), &directory, Some("bpf"), MsFlags::empty(), none).unwrap();
    work(&directory);
    umount(&directory).unwrap();
    std::fs::remove_dir(&directory).unwrap();
}

fn colons(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn mac(text: &str) -> [u8; 6] {
    let bytes: Vec<_> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

fn owned(counts: BTreeMap<&str, usize>) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(backend, count)| (backend.to_owned(), count)).collect()
}
