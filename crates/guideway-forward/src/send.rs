//! The last steps: backend, size, encapsulation, next hop.

use guideway_wire::reply::MIN_MTU_V6;
use guideway_wire::{EncapError, IcmpClass, IpProtocol, IpVersion, Packet, Parsed, Tunnel};

use crate::answer::Question;
use crate::outcome::{Drop, Forward, Outcome};
use crate::record::backend::{Backend, BackendState};
use crate::record::{Service, ServiceId};
use crate::service::Target;
use crate::state::{Answers, Backends};

/// The least MTU that an IPv4 link has (RFC 791): a way that carries less is not worth telling.
const MIN_MTU_V4: u32 = 68;

/// Where a packet goes: a backend of a service, and the hash that feeds the outer headers.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    service: &'a Service,
    id: ServiceId,
    local: u16,
    hash: u64,
}

impl<'a> Route<'a> {
    /// To the backend with this local index. `hash` is equal for all packets of a flow.
    #[inline(always)]
    pub fn new(target: &Target<'a>, local: u16, hash: u64) -> Route<'a> {
        Route { service: target.service, id: target.id, local, hash }
    }
}

/// Wraps the packet for the backend that the route leads to and names the interface that it leaves by.
#[inline(always)]
pub fn to_backend<P: Packet, S: Answers<P>>(
    packet: &mut P,
    parsed: &Parsed,
    route: &Route<'_>,
    state: &S,
) -> Result<Forward, Outcome> {
    let Some(index) = route.service.backend_index(route.local) else {
        return Err(Drop::StaleSlot.outcome());
    };
    state.expect(route.id, index);
    let Some(backend) = Backends::backend(state, index) else {
        return Err(Drop::StaleSlot.outcome());
    };
    let status = backend.status();
    if matches!(status.state(), BackendState::Free) {
        return Err(Drop::StaleSlot.outcome());
    }
    if parsed.ip_length.wrapping_add(status.overhead()) > status.mtu() as usize {
        return Err(does_not_fit(packet, parsed, status.room() as u32, state));
    }
    // In a GUE tunnel, a packet to the port of GUE would be unwrapped twice, or wrapped again at each turn of a loop. To a
    // backend behind any other tunnel that port is one like all others.
    let is_gue = matches!(status.tunnel(), Tunnel::GueDirect | Tunnel::GueHeader);
    if is_gue && parsed.protocol() == IpProtocol::UDP && parsed.is_tunnelled(status.gue_port()) {
        return Err(Drop::AlreadyEncapsulated.outcome());
    }
    let mut interface = 0;
    match wrap(packet, parsed, backend, route.hash, &mut interface) {
        Outcome::Forwarded => Ok(Forward { interface, service: route.id, backend: index }),
        outcome => Err(outcome),
    }
}

/// Encapsulates in a stack frame of its own, and tells the interface that the packet leaves by.
#[inline(never)]
pub(crate) fn wrap<P: Packet>(
    packet: &mut P,
    parsed: &Parsed,
    backend: &Backend,
    hash: u64,
    interface: &mut u32,
) -> Outcome {
    let Some((outer, exit)) = backend.outer(backend.status()) else {
        return Drop::NoNeighbour.outcome();
    };
    *interface = exit;
    match outer.put(packet, parsed, hash) {
        Ok(()) => Outcome::Forwarded,
        Err(EncapError::NoHeadRoom) => Drop::NoHeadRoom.outcome(),
        Err(EncapError::TooLong) => Drop::TooBig.outcome(),
        Err(EncapError::Mismatch) => Drop::Truncated.outcome(),
    }
}

/// Too big for the tunnel: the client is told. Never about an ICMP error or a fragment without ports (RFC 1122 section
/// 3.2.2), and IPv6 is never told less than every link carries (RFC 8200 section 5).
///
/// IPv4 without DF is told too. A router would fragment, but here one packet comes in and one goes out, and hosts lower
/// their path MTU by this message whether or not they set DF. In silence every full-size fragment would be lost for good.
// Inlined: one call more, and the longest chain of calls outgrows the stack that kernels before 6.8 allow.
#[inline(always)]
fn does_not_fit<P: Packet, S: Answers<P>>(packet: &mut P, parsed: &Parsed, room: u32, state: &S) -> Outcome {
    if parsed.icmp == IcmpClass::Error || parsed.fragment.is_later() {
        return Drop::TooBig.outcome();
    }
    let told = match parsed.ip {
        IpVersion::V4 => room,
        IpVersion::V6 => room.max(MIN_MTU_V6),
    };
    if told < MIN_MTU_V4 || parsed.ip_length as u32 <= told {
        return Drop::TooBig.outcome();
    }
    state.answer(packet, parsed, Question::too_big(told))
}
