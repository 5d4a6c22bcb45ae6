//! What the balancer holds while it is timed: services of one kind each, side by side in one memory.

use std::sync::atomic::Ordering::Relaxed;

use guideway_control::engine::{Engine, EngineError};
use guideway_forward::record::backend::NextHop;
use guideway_forward::record::{Active, BackendSpec, BackendState, Policy, ServiceId, Slot};
use guideway_soft::{Binding, QuicBinding};
use guideway_wire::{Address, Tunnel};

use super::frames::vip6;

/// Services that are alike, at addresses that follow one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// The first address; IPv6 ones end in it.
    pub(super) first: u32,
    pub(super) services: u32,
    pub(super) ipv6: bool,
    /// 6 on port 80, or 17 on port 443.
    pub(super) protocol: u8,
    pub(super) policy: Policy,
    /// Of each service.
    pub(super) backends: u32,
    pub(super) slots: u32,
    pub(super) settled: bool,
    pub(super) tunnel: Tunnel,
    pub(super) underlay_v6: bool,
}

impl Group {
    /// TCP by IP in IP over ten backends and 65,537 settled slots.
    pub(super) const fn usual(first: u32) -> Group {
        Group {
            first,
            services: 1,
            ipv6: false,
            protocol: 6,
            policy: Policy(0),
            backends: 10,
            slots: 65_537,
            settled: true,
            tunnel: Tunnel::Ipip,
            underlay_v6: false,
        }
    }

    pub(super) const fn udp(first: u32) -> Group {
        Group { protocol: 17, ..Group::usual(first) }
    }
}

/// The server id of QUIC clients, of the service's third backend.
pub(super) const SERVER_ID: u64 = 3;

/// Fills an engine with these groups.
pub(super) fn fill(engine: &impl Engine, groups: &[Group]) -> Result<(), EngineError> {
    let (mut id, mut place, mut slot) = (0, 0, 0);
    let (mut bindings, mut quic) = (Vec::new(), Vec::new());
    for group in groups {
        for number in 0..group.services {
            let service = ServiceId(id);
            if let Some(record) = engine.service(service) {
                record.set_backends(place, group.backends);
                record.set_policy(group.policy);
                record.set_idle_seconds(900, 30);
                let active = Active::new(false, false, 1);
                record.table(active).set(slot, group.slots, SEED);
                record.set_active(active);
            }
            engine.reach_slots(slot + group.slots)?;
            for index in 0..group.slots {
                let owner = |seed: u64| (mix(u64::from(index) ^ seed) % u64::from(group.backends)) as u16;
                let settled = Slot::settled_on(owner(0));
                let word =
                    if group.settled { settled } else { unsettled(settled, owner(SEED), group.backends) };
                if let Some(place) = engine.slots().get((slot + index) as usize) {
                    place.store(word.0, Relaxed);
                }
            }
            for local in 0..group.backends {
                if let Some(record) = engine.backend(place + local) {
                    record.store(&backend(group, place + local));
                }
            }
            let address = group.first + number;
            let address =
                if group.ipv6 { vip6(address) } else { Address::v4(address.to_be_bytes()).octets() };
            let port = if group.protocol == 6 { 80 } else { 443 };
            bindings.push(Binding { address, prefix_bits: 128, port, protocol: group.protocol, service });
            if group.policy.quic().is_some() {
                quic.push(QuicBinding { service, server_id: SERVER_ID, backend: 2 });
            }
            (id, place, slot) = (id + 1, place + group.backends, slot + group.slots);
        }
    }
    engine.publish(&bindings, &quic)
}

/// An unsettled slot whose owner is another than before.
fn unsettled(settled: Slot, owner: u16, backends: u32) -> Slot {
    let other = if owner == settled.current() { (owner + 1) % backends as u16 } else { owner };
    settled.change_owner(other)
}

fn backend(group: &Group, number: u32) -> BackendSpec {
    let wide = |low: u32| {
        let mut address = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        address[12..].copy_from_slice(&low.to_be_bytes());
        address
    };
    let of = |low: u32| match group.underlay_v6 {
        true => wide(low),
        false => Address::v4(low.to_be_bytes()).octets(),
    };
    BackendSpec {
        state: BackendState::Active,
        address: of(0xac10_0000 + number),
        tunnel: group.tunnel,
        outer_source: of(0xc0a8_0001),
        source_entropy_bits: 0,
        gue_port: guideway_wire::gue::PORT,
        mtu: 1500,
        // Test runs come in by the loopback interface, so what leaves by it goes back where it came from.
        next_hop: NextHop {
            interface: 1,
            neighbour: [2, 0, 0, 0, 3, 3],
            own_mac: [2, 0, 0, 0, 2, 2],
            link_mtu: None,
        },
    }
}

const SEED: u64 = 0x6775_6964_6577_6179;

/// Spreads owners over slots as a hash would: the output function of SplitMix64.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
