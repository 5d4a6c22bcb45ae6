//! What holds for every packet: the books balance, what leaves is well-formed, what passes is untouched.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use guideway_forward::cases::audit::{audit, audit_books};
use guideway_forward::cases::memory::Memory;
use guideway_forward::cases::packets::{self, Tcp, tunnelled};
use guideway_forward::cases::world::{World, backend};
use guideway_forward::cases::{Step, all};
use guideway_forward::outcome::Verdict;
use guideway_forward::record::{BackendState, Class, Slot};
use guideway_forward::service::Target;
use guideway_forward::{Event, flow, process, record};
use guideway_wire::{HashKey, SliceFrame, Tunnel};
use proptest::prelude::*;

const HEAD_ROOM: usize = 128;

fn run(memory: &Memory, input: &[u8], head_room: usize) -> (Verdict, Vec<u8>) {
    let mut buffer = vec![0xa5; head_room];
    buffer.extend(input);
    let mut frame = SliceFrame::new(&mut buffer, head_room, input.len()).unwrap();
    let verdict = process(&mut frame, memory);
    (verdict, frame.bytes().to_vec())
}

/// The frames of all cases: a packet of every kind that the core knows.
fn seeds() -> Vec<Vec<u8>> {
    let frames = all().into_iter().flat_map(|case| case.steps).filter_map(|step| match step {
        Step::Frame { input, .. } => Some(input),
        _ => None,
    });
    frames.collect::<HashSet<_>>().into_iter().collect()
}

fn slots() -> impl Strategy<Value = Slot> {
    prop_oneof![
        (0u16..5).prop_map(Slot::settled_on),
        (0u16..5, 0u16..5).prop_map(|(old, new)| Slot::settled_on(old).change_owner(new)),
        (0u16..5, 0u16..5).prop_map(|(old, new)| Slot::settled_on(old).change_owner(new).end_grace()),
        Just(Slot::EMPTY),
    ]
}

fn worlds() -> impl Strategy<Value = World> {
    let tunnels =
        prop_oneof![Just(Tunnel::Ipip), Just(Tunnel::Gre), Just(Tunnel::GueDirect), Just(Tunnel::GueHeader)];
    let states = prop_oneof![
        4 => Just(BackendState::Active),
        1 => Just(BackendState::Draining),
        1 => Just(BackendState::Down),
        1 => Just(BackendState::Free)
    ];
    let prior = proptest::option::of(slots());
    (
        slots(),
        prior,
        tunnels,
        any::<bool>(),
        [states.clone(), states.clone(), states.clone(), states],
        any::<u8>(),
        0u32..4,
    )
        .prop_map(|(slot, prior, tunnel, v4, states, bits, tokens)| {
            let mut world = World::usual(slot).with_tunnel(tunnel, v4);
            for (backend, state) in world.backends.iter_mut().zip(states) {
                backend.state = state;
            }
            for service in &mut world.services {
                // Every combination of the policy bits, with the server id at byte 1.
                service.policy = record::Policy(u64::from(bits) | 1 << 8 | 2 << 16);
                service.quic_servers = vec![(3, 2)];
                service.prior = prior.map(|slot| vec![slot; 7]).unwrap_or_default();
            }
            world.icmp_tokens = tokens;
            world
        })
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (prop::sample::select(seeds()), changes, proptest::option::weighted(0.2, any::<prop::sample::Index>()))
        .prop_map(|(mut frame, changes, cut)| {
            for (at, byte) in changes {
                // The headers are where it matters.
                let at = at.index(frame.len().clamp(1, 100));
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len().max(1)));
            }
            frame
        })
}

/// Checks one frame against everything that holds for all.
fn check(memory: &Memory, input: &[u8], head_room: usize) -> Result<(), TestCaseError> {
    audit(memory, input, head_room).map(|_| ()).map_err(TestCaseError::fail)
}

fn books(memory: &Memory, received: u64) -> Result<(), TestCaseError> {
    audit_books(memory, received).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn books_balance_over_mutated_packets(
        world in worlds(),
        frames in proptest::collection::vec((mutated(), 0u32..20), 1..24),
        head_room in prop_oneof![9 => Just(HEAD_ROOM), 1 => 0usize..84],
    ) {
        let memory = Memory::new(&world, 4);
        let received = frames.len() as u64;
        for (frame, seconds) in frames {
            memory.now.fetch_add(seconds, Relaxed);
            check(&memory, &frame, head_room)?;
        }
        books(&memory, received)?;
    }

    #[test]
    fn books_balance_over_any_bytes(
        world in worlds(),
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..8),
        typed in any::<bool>(),
    ) {
        let memory = Memory::new(&world, 4);
        let received = frames.len() as u64;
        for mut frame in frames {
            if typed && frame.len() > 14 {
                let v4 = frame[14] & 1 == 0;
                frame[12..14].copy_from_slice(if v4 { &[8, 0] } else { &[0x86, 0xdd] });
            }
            check(&memory, &frame, HEAD_ROOM)?;
        }
        books(&memory, received)?;
    }

    #[test]
    fn a_flow_on_a_living_backend_stays_there(
        changes in proptest::collection::vec((0u16..4, any::<bool>(), 0u32..60), 1..12),
    ) {
        let memory = Memory::new(&World::usual(Slot::settled_on(0)), 64);
        let opened = |port| packets::tcp(true, port, Tcp::Syn, 0);
        let follows = |port| packets::tcp(true, port, Tcp::Ack, 8);
        let place = |input: &[u8]| match run(&memory, input, HEAD_ROOM).0 {
            Verdict::Forward(forward) => Some(forward.backend),
            _ => None,
        };
        let mut flows = HashMap::new();
        let mut slot = Slot::settled_on(0);
        for (step, (owner, drains, seconds)) in changes.into_iter().enumerate() {
            let port = 10_000 + step as u16;
            flows.insert(port, place(&opened(port)).unwrap());
            place(&follows(port));
            if drains {
                memory.backends[slot.current() as usize].set_state(BackendState::Draining);
            }
            slot = slot.change_owner(owner);
            memory.rewrite_slots(record::ServiceId(0), |_| slot);
            memory.now.fetch_add(seconds, Relaxed);
            for (&port, &home) in &flows {
                prop_assert_eq!(place(&follows(port)), Some(home), "flow {} after change {}", port, step);
            }
        }
    }

    /// Fragments of one client under few identifications, which come round within the time that a datagram is remembered: each
    /// datagram goes where a whole packet of its flow does; one that begins with a later fragment, all to one backend.
    #[test]
    fn an_identification_that_comes_round_takes_no_datagram_elsewhere(
        datagrams in proptest::collection::vec((any::<bool>(), 0u16..12, 0u16..2, any::<bool>(), 0u32..3), 1..60),
    ) {
        let mut world = World::usual(Slot::settled_on(0));
        for service in &mut world.services {
            service.table = (0..13).map(|slot| Slot::settled_on(slot % 4)).collect();
        }
        let memory = Memory::new(&world, 64);
        let backend = |input: &[u8]| match run(&memory, input, HEAD_ROOM).0 {
            Verdict::Forward(forward) => Some(forward.backend),
            _ => None,
        };
        for (tcp, port, id, is_late, seconds) in datagrams {
            memory.now.fetch_add(seconds, Relaxed);
            let whole =
                if tcp { packets::tcp(true, port, Tcp::Ack, 80) } else { packets::udp(true, port, &[7; 80]) };
            let piece = |from: usize, to: usize, more| {
                packets::fragment_v4(if tcp { 6 } else { 17 }, id, from as u16, more, &whole[34 + from..34 + to])
            };
            let (first, second, last) = (piece(0, 40, true), piece(40, 64, true), piece(64, 80, false));
            let home = backend(&whole);
            if is_late && !tcp {
                // Whatever had this identification before is over.
                memory.now.fetch_add(record::fragment::FRAGMENT_SECONDS + 1, Relaxed);
                let by_source = backend(&last);
                prop_assert_eq!([&first, &second].map(|piece| backend(piece)), [by_source; 2]);
            } else {
                prop_assert_eq!([&first, &second, &last].map(|piece| backend(piece)), [home; 3]);
            }
        }
    }

    /// The flow table against a map that forgets nothing: what it finds is right, and it finds whatever a bucket has room for.
    #[test]
    fn the_flow_table_says_what_a_map_says(
        operations in proptest::collection::vec((0u64..24, 0u16..4, 0u32..40), 1..200),
    ) {
        // An unsettled slot that agrees with no entry, so that none is redundant.
        let memory = Memory::new(&World::usual(Slot::settled_on(9).change_owner(8)), 64);
        let target = Target::of(record::ServiceId(0), &memory).unwrap();
        let mut model: HashMap<u64, (u16, u32)> = HashMap::new();
        for (flow, backend, seconds) in operations {
            // Distinct fingerprints, two flows a bucket: there is always room.
            let hash = (flow << 40) | (flow / 2);
            memory.now.fetch_add(seconds, Relaxed);
            let now = memory.now.load(Relaxed);
            let found = flow::find(hash, &target, now, &memory).map(|found| found.tag.backend());
            let expected = model.get(&hash).filter(|(_, seen)| now - seen <= 900).map(|(backend, _)| *backend);
            prop_assert_eq!(found, expected);
            let memo = flow::Memo::new(backend, Class::Confirmed, 0);
            flow::remember(hash, target.id, memo, &memory);
            model.insert(hash, (backend, now));
        }
        prop_assert_eq!(memory.events(Event::FlowEvicted), 0);
        prop_assert_eq!(memory.remembered(), model.len());
    }

    /// Of a full bucket of flows that are half open and one that is closing, a newcomer takes the place of the closing one
    /// once that has been silent for longer than a reset flow is remembered, and before that of a half-open one.
    #[test]
    fn a_closing_flow_gives_way_when_it_is_silent(silence in 0u32..60, closing in 1u64..5) {
        let memory = Memory::new(&World::usual(Slot::settled_on(9).change_owner(8)), 1);
        let target = Target::of(record::ServiceId(0), &memory).unwrap();
        let remember = |flow: u64, class| flow::remember(flow << 40, target.id, flow::Memo::new(1, class, 0), &memory);
        let half_open = |flow: &u64| *flow != closing;
        for flow in 1..5 {
            remember(flow, if half_open(&flow) { Class::HalfOpen } else { Class::Closing });
        }
        memory.now.fetch_add(silence, Relaxed);
        for flow in (1..5).filter(half_open) {
            remember(flow, Class::HalfOpen);
        }
        prop_assert!(remember(5, Class::HalfOpen));
        let now = memory.now.load(Relaxed);
        let is_known = |flow: u64| flow::find(flow << 40, &target, now, &memory).is_some();
        prop_assert_eq!(is_known(closing), silence <= record::flow::RESET_SECONDS);
        prop_assert_eq!((1..6).filter(|flow| is_known(*flow)).count(), 4);
        prop_assert_eq!(memory.events(Event::FlowEvicted), 1);
    }
}

#[test]
fn a_syn_flood_on_settled_slots_writes_nothing() {
    let memory = Memory::new(&World::usual(Slot::settled_on(1)), 64);
    for source in 0..20_000u32 {
        let mut syn = packets::tcp(true, source as u16, Tcp::Syn, 0);
        syn[26..30].copy_from_slice(&(0x0b00_0000 | source.wrapping_mul(2_654_435_761) >> 8).to_be_bytes());
        assert!(matches!(run(&memory, &syn, HEAD_ROOM).0, Verdict::Forward(_)));
    }
    assert_eq!(memory.remembered(), 0);
    let silent = Event::ALL.iter().all(|event| memory.events(*event) == 0);
    assert!(silent, "not even an event");
}

#[test]
fn a_flood_on_unsettled_slots_pushes_no_established_flow_out() {
    let memory = Memory::new(&World::usual(Slot::settled_on(0).change_owner(1)), 64);
    // Established flows of the new owner: those the table must keep.
    let ports: Vec<u16> = (1..40).collect();
    for &port in &ports {
        run(&memory, &packets::tcp(true, port, Tcp::Syn, 0), HEAD_ROOM);
        run(&memory, &packets::tcp(true, port, Tcp::Ack, 0), HEAD_ROOM);
    }
    for source in 0..20_000u32 {
        let mut syn = packets::tcp(true, source as u16, Tcp::Syn, 0);
        syn[26..30].copy_from_slice(&(0x0b00_0000 | source).to_be_bytes());
        assert!(matches!(run(&memory, &syn, HEAD_ROOM).0, Verdict::Forward(to) if to.backend == 1));
    }
    for &port in &ports {
        let (verdict, _) = run(&memory, &packets::tcp(true, port, Tcp::Ack, 0), HEAD_ROOM);
        assert!(matches!(verdict, Verdict::Forward(to) if to.backend == 1), "port {port} lost its entry");
    }
    assert!(memory.events(Event::FlowEvicted) > 0);
    assert!(memory.remembered() <= 256);
}

#[test]
fn entropy_spreads_flows_and_keeps_each_together() {
    for (tunnel, v4) in [(Tunnel::Ipip, true), (Tunnel::Ipip, false), (Tunnel::GueDirect, true)] {
        let mut world = World::usual(Slot::settled_on(1)).with_tunnel(tunnel, v4);
        world.backends.fill(backend(tunnel, v4, 2));
        for backend in &mut world.backends {
            backend.source_entropy_bits = if tunnel == Tunnel::Ipip { 16 } else { 0 };
        }
        let memory = Memory::new(&world, 64);
        let mut outers = HashSet::new();
        for port in 0..10_000 {
            let (_, first) = run(&memory, &packets::tcp(true, port, Tcp::Syn, 0), HEAD_ROOM);
            let (_, second) = run(&memory, &packets::tcp(true, port, Tcp::Fin, 0), HEAD_ROOM);
            let outer = if v4 { 26..36 } else { 22..38 };
            assert_eq!(first[outer.clone()], second[outer.clone()], "constant per flow");
            outers.insert(first[outer].to_vec());
        }
        assert!(outers.len() > 7_000, "{tunnel:?}: {} outer headers of 10,000 flows", outers.len());
    }
}

#[test]
fn a_source_key_keeps_a_client_together_and_a_five_tuple_spreads_it() {
    for (key, backends) in [(HashKey::FiveTuple, 4), (HashKey::SourceAddress, 1)] {
        let mut world = World::usual(Slot::settled_on(0)).with_policy(|policy| policy.with_hash_key(key));
        for service in &mut world.services {
            service.table = (0..4_001).map(|slot| Slot::settled_on(slot % 4)).collect();
        }
        let memory = Memory::new(&world, 64);
        let mut counts = HashMap::new();
        for port in 0..10_000 {
            if let (Verdict::Forward(to), _) = run(&memory, &packets::tcp(true, port, Tcp::Syn, 0), HEAD_ROOM)
            {
                *counts.entry(to.backend).or_insert(0) += 1;
            }
        }
        assert_eq!(counts.len(), backends);
        assert!(counts.values().all(|&count| count > 9_000 / backends));
    }
}

#[test]
fn a_frame_without_head_room_is_dropped_and_counted() {
    let memory = Memory::new(&World::usual(Slot::settled_on(1)), 64);
    let ack = packets::tcp(true, 1, Tcp::Ack, 0);
    assert!(matches!(run(&memory, &ack, 19).0, Verdict::Drop(_)));
    let (verdict, output) = run(&memory, &ack, 20);
    assert!(matches!(verdict, Verdict::Forward(_)));
    assert_eq!(output, tunnelled(&ack, Tunnel::Ipip, true, 2));
}
