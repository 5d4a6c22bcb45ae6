//! QUIC: the server id in the connection id, so that a connection keeps its backend when its client's address changes.

use guideway_wire::quic::{self, QuicKind, ServerIdLayout};
use guideway_wire::udp::UdpHeader;
use guideway_wire::{PacketRead, Parsed};

use crate::State;
use crate::outcome::Event;
use crate::service::Target;
use crate::state::Backends;

/// The backend that a packet's connection id names, while it is active or draining; `None` means by hash.
///
/// A client's first packets (Initial, 0-RTT) carry an id of the client's choice, so theirs is not read.
#[inline(never)]
pub fn backend<P: PacketRead, S: State>(
    packet: &P,
    parsed: &Parsed,
    target: &Target<'_>,
    state: &S,
) -> Option<u16> {
    let (offset, length) = target.policy.quic()?;
    let layout = ServerIdLayout::new(offset, length)?;
    let Some(header) = quic::parse(packet, parsed.l4_offset.wrapping_add(UdpHeader::LEN), parsed.end())
    else {
        state.event(Event::QuicShort);
        return None;
    };
    if header.may_open() {
        return None;
    }
    let Some(server) = header.server_id(packet, layout) else {
        if header.kind == QuicKind::Short {
            state.event(Event::QuicShort);
        }
        return None;
    };
    let local = state.quic_backend(target.id, server).filter(|local| {
        let backend = target.service.backend_index(*local).and_then(|index| Backends::backend(state, index));
        backend.is_some_and(|backend| backend.state().keeps_flows())
    });
    if local.is_none() {
        state.event(Event::QuicUnknownId);
    }
    local
}
