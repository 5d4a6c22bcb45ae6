//! Packet threads forward while a controller commits: no packet is lost, and each goes where the table before or after
//! the commit sends it.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use guideway_control::Controller;
use guideway_control::controller::ChangeError;
use guideway_control::controller::spec::{
    Admin, AllDown, BackendSpec, Health, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use guideway_forward::Verdict;
use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_hash::maglev::MaglevBuilder;
use guideway_hash::{NativeHasher, TableSize};
use guideway_soft::{Limits, Memory, Worker};
use guideway_wire::{FlowHasher, HashKey, SliceFrame, Tunnel, parse};

const THREADS: u16 = 3;
const COMMITS: usize = 2_000;
const BACKENDS: u8 = 6;
const SEED: u64 = 11;
const SIZES: [u32; 2] = [251, 509];

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A TCP segment from `port` of 198.51.100.7 to 192.0.2.10:80. The checksums are nobody's business here.
fn segment(port: u16, flags: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 198, 51, 100, 7, 192, 0, 2, 10]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    frame
}

fn service() -> ServiceSpec {
    let backend = |number| BackendSpec {
        identity: format!("be{number}").into(),
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)),
        weight: 1,
        admin: Admin::Active,
        tunnel: TunnelSpec {
            kind: Tunnel::Ipip,
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254)),
            source_entropy_bits: 0,
            gue_port: 6080,
            mtu: 1500,
            next_hop: NextHop { interface: 1, neighbour: [2; 6], own_mac: [4; 6], link_mtu: None },
        },
        quic_id: None,
    };
    ServiceSpec {
        name: "web".into(),
        listen: vec![Listen::on(
            IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)),
            NonZeroU16::new(80).unwrap(),
            Protocol::Tcp,
        )],
        table: TableSpec { rule: TableRule::Maglev, size: TableSizeSpec::Slots(SIZES[0]), seed: SEED },
        policy: Policy::default(),
        tcp_idle_seconds: 5,
        udp_idle_seconds: 5,
        all_down: AllDown::LastResort,
        backends: (1..=BACKENDS).map(backend).collect(),
    }
}

fn controller() -> Controller<Arc<Memory>> {
    // Room for the two tables of a resize and little more, so that regions are used again and again.
    let limits = Limits {
        services: 1,
        backends: 32,
        slots: 2 * SIZES[1] + SIZES[0],
        flows: 8_192,
        threads: THREADS,
        ..Limits::default()
    };
    let mut controller = Controller::new(Arc::new(Memory::new(limits, [3, 4])));
    controller.add_service(service(), Health::Unchecked).unwrap();
    controller
}

/// The table of the backends whose bit is set: number of the owner of each slot. By the hashing library, not by the controller.
fn owners(eligible: u8, size: u32) -> Vec<u8> {
    let numbers: Vec<u8> = (1..=BACKENDS).filter(|number| eligible & (1 << number) != 0).collect();
    let candidates: Vec<(String, u32)> = numbers.iter().map(|number| (format!("be{number}"), 1)).collect();
    let candidates: Vec<(&str, u32)> =
        candidates.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
    let table = MaglevBuilder::new()
        .size(TableSize::new(size).unwrap())
        .hasher(NativeHasher::new(SEED))
        .build(&candidates)
        .unwrap();
    table.iter().map(|owner| numbers[owner as usize]).collect()
}

fn flow_hash(frame: &[u8]) -> u64 {
    FlowHasher::new(SEED).hash(&parse(frame).unwrap().key, HashKey::FiveTuple)
}

/// The number of the backend whose outer header the frame got.
fn forwarded(worker: &mut Worker, frame: &[u8]) -> u8 {
    const HEAD_ROOM: usize = 64;
    worker.refresh();
    let mut buffer = [0; 256];
    buffer[HEAD_ROOM..HEAD_ROOM + frame.len()].copy_from_slice(frame);
    let mut packet = SliceFrame::new(&mut buffer, HEAD_ROOM, frame.len()).unwrap();
    let verdict = worker.process(&mut packet);
    assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
    // The last byte of the outer destination.
    packet.bytes()[33]
}

/// Pseudo-random numbers, the same each time.
fn random(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 8
}

/// One backend taken from those that get new flows, or given back; two stay at least.
fn toggle(eligible: u8, state: &mut u32) -> (u8, u8) {
    loop {
        let number = 1 + (random(state) % u32::from(BACKENDS)) as u8;
        let toggled = eligible ^ (1 << number);
        if toggled.count_ones() >= 2 {
            return (number, toggled);
        }
    }
}

fn set(controller: &mut Controller<Arc<Memory>>, number: u8, eligible: u8) {
    let admin = if eligible & (1 << number) == 0 { Admin::Draining } else { Admin::Active };
    controller.set_admin("web", &format!("be{number}"), admin).unwrap();
}

/// A resize that waits for the memory of the table before the last: packet threads that a busy machine keeps from
/// running hold on to it.
fn resize(controller: &mut Controller<Arc<Memory>>, size: u32) {
    loop {
        match controller.resize("web", TableSizeSpec::Slots(size), SEED) {
            Err(ChangeError::Full { .. }) => {
                thread::yield_now();
                controller.tick();
            }
            change => break assert!(!change.unwrap().resize_waits),
        }
    }
}

/// Ends the packet threads, also when the test fails, so that it does not wait for them forever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn books_balance(controller: &Controller<Arc<Memory>>) {
    let totals = controller.engine().totals();
    totals.balance().unwrap();
    assert!(totals.received.packets > 0);
    assert_eq!(totals.outcome(guideway_forward::Outcome::Forwarded), totals.received);
}

#[test]
fn a_new_flow_goes_where_the_table_before_or_after_a_commit_sends_it() {
    let mut controller = controller();
    let workers: Vec<_> = (0..THREADS).map(|_| controller.engine().worker().unwrap()).collect();
    // What each commit makes of the table, worked out beforehand.
    let mut state = 1;
    let mut eligible: u8 = ((1 << BACKENDS) - 1) << 1;
    let mut size = 0;
    let mut plan = vec![(0, eligible, SIZES[0])];
    for commit in 1..=COMMITS {
        let mut number = 0;
        if commit % 50 == 0 {
            size = 1 - size;
        } else {
            (number, eligible) = toggle(eligible, &mut state);
        }
        plan.push((number, eligible, SIZES[size]));
    }
    let tables: Vec<_> = plan.iter().map(|&(_, eligible, size)| owners(eligible, size)).collect();
    let (started, committed, over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let over_at_last = Over(&over);
        for (index, mut worker) in workers.into_iter().enumerate() {
            let (started, committed, over, tables) = (&started, &committed, &over, &tables);
            scope.spawn(move || {
                let mut state = 100 + index as u32;
                while !over.load(Ordering::Relaxed) {
                    let frame = segment(random(&mut state) as u16, SYN);
                    let hash = flow_hash(&frame);
                    let before = committed.load(Ordering::SeqCst);
                    let backend = forwarded(&mut worker, &frame);
                    let after = started.load(Ordering::SeqCst);
                    let right = tables[before..=after]
                        .iter()
                        .any(|table| table[(hash % table.len() as u64) as usize] == backend);
                    assert!(right, "be{backend} between commits {before} and {after}");
                }
            });
        }
        for (commit, &(number, eligible, size)) in plan.iter().enumerate().skip(1) {
            started.store(commit, Ordering::SeqCst);
            if number == 0 {
                resize(&mut controller, size);
            } else {
                set(&mut controller, number, eligible);
            }
            committed.store(commit, Ordering::SeqCst);
            if commit % 4 == 0 {
                controller.engine().set_now_seconds(controller.engine().now_seconds() + 1);
            }
            controller.tick();
        }
        drop(over_at_last);
    });
    assert_eq!(controller.status()[0].slots, SIZES[size]);
    books_balance(&controller);
}

#[test]
fn an_open_flow_stays_through_every_commit() {
    let mut controller = controller();
    let mut workers: Vec<_> = (0..THREADS).map(|_| controller.engine().worker().unwrap()).collect();
    let homes: Vec<(u16, u8)> =
        (0..600).map(|port| (port, forwarded(&mut workers[0], &segment(port, SYN)))).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over_at_last = Over(&over);
        for mut worker in workers {
            let (over, homes) = (&over, &homes);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    for &(port, home) in homes {
                        assert_eq!(forwarded(&mut worker, &segment(port, ACK)), home, "port {port}");
                    }
                }
            });
        }
        let mut state = 2;
        let mut eligible: u8 = ((1 << BACKENDS) - 1) << 1;
        for _ in 0..COMMITS {
            let number;
            (number, eligible) = toggle(eligible, &mut state);
            set(&mut controller, number, eligible);
        }
        drop(over_at_last);
    });
    books_balance(&controller);
}
