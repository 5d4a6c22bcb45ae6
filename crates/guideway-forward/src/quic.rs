//! QUIC: the server id in the connection id, so that a connection keeps its backend when its client's address changes.

use guideway_wire::quic::{self, QuicKind, ServerIdLayout};
use guideway_wire::udp::UdpHeader;
use guideway_wire::{PacketRead, Parsed};

use crate::State;
use crate::outcome::Event;
use crate::service::Target;
use crate::slot::Choice;
use crate::state::Backends;

/// The backend that a packet's connection id names, while it is active or draining; otherwise open.
///
/// A client's first packets (Initial, 0-RTT) carry an id of the client's choice, so theirs is not read.
#[inline(never)]
pub fn backend<P: PacketRead, S: State>(
    packet: &P,
    parsed: &Parsed,
    target: &Target<'_>,
    state: &S,
) -> Choice {
    let Some(layout) = target.policy.quic().and_then(|(offset, length)| ServerIdLayout::new(offset, length))
    else {
        return Choice::OPEN;
    };
    let Some(header) = quic::parse(packet, parsed.l4_offset.wrapping_add(UdpHeader::LEN), parsed.end())
    else {
        state.event(Event::QuicShort);
        return Choice::OPEN;
    };
    if header.may_open() {
        return Choice::OPEN;
    }
    let Some(server) = header.server_id(packet, layout) else {
        if header.kind == QuicKind::Short {
            state.event(Event::QuicShort);
        }
        return Choice::OPEN;
    };
    let local = state.quic_backend(target.id, server).filter(|local| {
        let backend = target.service.backend_index(*local).and_then(|index| Backends::backend(state, index));
        backend.is_some_and(|backend| backend.state().keeps_flows())
    });
    let Some(local) = local else {
        state.event(Event::QuicUnknownId);
        return Choice::OPEN;
    };
    Choice::of(local)
}
