//! The last steps: backend, size, encapsulation, next hop.

use guideway_wire::encap::{encapsulate, overhead};
use guideway_wire::reply::MIN_MTU_V6;
use guideway_wire::{
    EncapError, EncapSpec, IcmpClass, IpProtocol, IpVersion, MacAddr, Outer, Packet, Parsed, Tunnel,
};

use crate::outcome::{Drop, Forward, Verdict};
use crate::record::BackendState;
use crate::service::Target;
use crate::state::Backends;
use crate::{State, answer};

/// The least MTU that an IPv4 link has (RFC 791): a way that carries less is not worth telling.
const MIN_MTU_V4: u32 = 68;

/// Wraps the packet for the backend with this local index and names the interface that it leaves by.
///
/// `hash` feeds the outer headers: equal for all packets of a flow.
#[inline(always)]
pub fn to_backend<P: Packet, S: State>(
    packet: &mut P,
    parsed: &Parsed,
    (target, local): (&Target<'_>, u16),
    hash: u64,
    state: &S,
) -> Verdict {
    let Some(index) = target.service.backend_index(local) else {
        return Verdict::Drop(Drop::StaleSlot);
    };
    let Some(backend) = Backends::backend(state, index) else {
        return Verdict::Drop(Drop::StaleSlot);
    };
    let status = backend.status();
    if matches!(status.state(), BackendState::Free) {
        return Verdict::Drop(Drop::StaleSlot);
    }
    let family = if status.underlay_is_v4() { IpVersion::V4 } else { IpVersion::V6 };
    let room = (status.mtu() as usize).saturating_sub(overhead(status.tunnel(), family));
    if parsed.ip_length > room {
        return does_not_fit(packet, parsed, room as u32, state);
    }
    // In a GUE tunnel, a packet to the port of GUE would be unwrapped twice, or wrapped again at each turn of a loop. To a
    // backend behind any other tunnel that port is one like all others.
    let is_gue = matches!(status.tunnel(), Tunnel::GueDirect | Tunnel::GueHeader);
    if is_gue && parsed.protocol() == IpProtocol::UDP && parsed.is_tunnelled(status.gue_port()) {
        return Verdict::Drop(Drop::AlreadyEncapsulated);
    }
    let Some(neighbour) = backend.neighbour() else {
        return Verdict::Drop(Drop::NoNeighbour);
    };
    let (source, destination) = (backend.outer_source(), backend.address());
    let outer = match family {
        IpVersion::V4 => Outer::V4 { source: low(source), destination: low(destination) },
        IpVersion::V6 => Outer::V6 { source, destination },
    };
    let spec = EncapSpec {
        tunnel: status.tunnel(),
        outer,
        source_entropy_bits: status.source_entropy_bits(),
        gue_port: status.gue_port(),
        source_mac: MacAddr(backend.own_mac()),
        destination_mac: MacAddr(neighbour),
    };
    match encapsulate(packet, parsed, &spec, hash) {
        Ok(()) => {
            Verdict::Forward(Forward { interface: backend.interface(), service: target.id, backend: index })
        }
        Err(EncapError::NoHeadRoom) => Verdict::Drop(Drop::NoHeadRoom),
        Err(EncapError::TooLong) => Verdict::Drop(Drop::TooBig),
        Err(EncapError::Mismatch) => Verdict::Drop(Drop::Truncated),
    }
}

/// Too big for the tunnel: the client is told if it asked not to be fragmented. Never about an ICMP error, and IPv6
/// is never told less than every link carries (RFC 8200 section 5).
#[inline(never)]
fn does_not_fit<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, room: u32, state: &S) -> Verdict {
    if !parsed.dont_fragment || parsed.icmp == IcmpClass::Error || parsed.fragment.is_later() {
        return Verdict::Drop(Drop::TooBig);
    }
    let told = match parsed.ip {
        IpVersion::V4 => room,
        IpVersion::V6 => room.max(MIN_MTU_V6),
    };
    if told < MIN_MTU_V4 || parsed.ip_length as u32 <= told {
        return Verdict::Drop(Drop::TooBig);
    }
    answer::too_big(packet, parsed, told, state)
}

#[inline(always)]
const fn low(address: [u8; 16]) -> [u8; 4] {
    let [.., a, b, c, d] = address;
    [a, b, c, d]
}
