//! Step two: the slot, and which backend it means for this packet.

use guideway_wire::{FlowKey, HashKey, IpProtocol, Parsed, TcpFlags};

use crate::State;
use crate::flow::{self, Found, Memo};
use crate::outcome::Event;
use crate::record::{BackendState, Class, NO_BACKEND, OrphanRule, ServiceId, Slot, TableRef, UdpRule};
use crate::service::Target;
use crate::state::Backends;

/// Where a flow falls in the active table of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot word, read once.
    pub slot: Slot,
    /// The slot's index in the table.
    pub index: u32,
    /// The flow hash. Its upper half also feeds the outer headers.
    pub hash: u64,
}

impl Place {
    /// Slot and index without the hash.
    #[inline(always)]
    pub const fn spot(&self) -> Spot {
        Spot(self.slot.0 as u64 | ((self.index as u64) << 32))
    }
}

/// A slot word and its index in the table, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot(pub u64);

impl Spot {
    /// The slot word, as it was read.
    #[inline(always)]
    pub const fn slot(self) -> Slot {
        Slot(self.0 as u32)
    }

    /// The slot's index in the table.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Which backend, by local index; or what else is to be done. One number, as is everything that a function of the
/// BPF target returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice(u16);

impl Choice {
    /// The service has nobody for this slot.
    pub const NO_BACKEND: Choice = Choice(NO_BACKEND);
    /// The flow's backend is gone or unknown, and the service wants it reset.
    pub const ORPHAN: Choice = Choice(1 << 15);
    /// Nothing is known here; the next step decides.
    pub const OPEN: Choice = Choice(1 << 15 | 1);
    /// The owner of flows older than the slot's last change.
    pub const OLDER: Choice = Choice(1 << 15 | 2);

    /// The backend with this local index; [`NO_BACKEND`] is nobody.
    #[inline(always)]
    pub const fn of(local: u16) -> Choice {
        Choice(local & 0x7fff)
    }

    /// The number, to hand it over; see [`Choice::from_word`].
    #[inline(always)]
    pub const fn word(self) -> u32 {
        self.0 as u32
    }

    /// The choice whose number this is.
    #[inline(always)]
    pub const fn from_word(word: u32) -> Choice {
        Choice(word as u16)
    }

    /// The local index, if this is a backend.
    #[inline(always)]
    pub const fn backend(self) -> Option<u16> {
        if self.0 < NO_BACKEND { Some(self.0) } else { None }
    }
}

/// The flow's slot in the active table; `None` when the service has no table.
#[inline(always)]
pub fn place<S: State>(target: &Target<'_>, flow: &FlowKey, state: &S) -> Option<Place> {
    place_in(target.service.table(target.active), flow, target.policy.hash_key(), state)
}

/// The flow's slot in one table.
#[inline(always)]
pub fn place_in<S: State>(table: &TableRef, flow: &FlowKey, by: HashKey, state: &S) -> Option<Place> {
    let (offset, size) = table.place();
    let hash = state.flow_hash(table, flow, by);
    let index = hash.checked_rem(size as u64)? as u32;
    Some(Place { slot: state.slot(offset, index)?, index, hash })
}

/// The backend of a TCP packet. A settled slot of a service that does not track answers by itself.
#[inline(always)]
pub fn choose_tcp<S: State>(target: &Target<'_>, parsed: &Parsed, place: &Place, state: &S) -> Choice {
    if place.slot.is_settled() && !target.active.prior() && !target.policy.track_tcp() {
        return Choice::of(place.slot.current());
    }
    state.consult(target.id, parsed, place.spot())
}

/// The backend of a packet of a protocol without an opening packet.
#[inline(always)]
pub fn choose_udp<S: State>(target: &Target<'_>, parsed: &Parsed, place: &Place, state: &S) -> Choice {
    let settled = place.slot.is_settled() && !target.active.prior();
    match target.policy.udp() {
        UdpRule::Rehash => Choice::of(place.slot.current()),
        UdpRule::Grace if settled => Choice::of(place.slot.current()),
        UdpRule::Grace | UdpRule::Track => state.consult(target.id, parsed, place.spot()),
    }
}

/// The backend that an ICMP error about this flow belongs to: as a packet of the flow, but nothing is remembered.
#[inline(always)]
pub fn choose_for_error<S: State>(target: &Target<'_>, flow: &FlowKey, place: &Place, state: &S) -> Choice {
    let current = place.slot.current();
    let local = match state.belonging(target.id, flow, place.slot) {
        Choice::OLDER => older_owner(target, flow, place.slot, flow.protocol == IpProtocol::UDP, state),
        choice => choice.backend().unwrap_or(current),
    };
    Choice::of(if usable(target, local, place.slot, state) { local } else { current })
}

/// Where a flow belongs, as far as the flow table and the slot's flags tell: to a backend, to the older owner, or open.
#[inline(always)]
pub fn belonging<S: State>(service: ServiceId, flow: &FlowKey, slot: Slot, state: &S) -> Choice {
    let Some(target) = &Target::of(service, state) else {
        return Choice::OPEN;
    };
    let settled = slot.is_settled() && !target.active.prior();
    let udp = flow.protocol == IpProtocol::UDP;
    let remembers = if udp {
        target.policy.udp() == UdpRule::Track || !settled && target.policy.udp() == UdpRule::Grace
    } else {
        !settled || target.policy.track_tcp()
    };
    if !remembers {
        return Choice::OPEN;
    }
    let hash = state.keyed_hash(flow, target.id);
    match flow::find(hash, target, state.now_seconds(), state) {
        Some(found) => Choice::of(found.tag.backend()),
        None if settled || udp && !slot.in_grace() && !target.active.in_grace() => Choice::OPEN,
        None => Choice::OLDER,
    }
}

/// Whether a flow may stay on this backend: it is active or draining, or it is down but the slot names it all the
/// same, as it does when the policy is to use the last backends known.
#[inline(always)]
pub fn usable<S: State>(target: &Target<'_>, local: u16, slot: Slot, state: &S) -> bool {
    let Some(backend) = target.service.backend_index(local).and_then(|index| Backends::backend(state, index))
    else {
        return false;
    };
    match backend.state() {
        BackendState::Active | BackendState::Draining => true,
        BackendState::Down => local == slot.current(),
        BackendState::Free => false,
    }
}

/// The backend of a packet where slots are unsettled or flows are tracked: as the flow table says, and remembered in it.
#[inline(always)]
pub fn consult<S: State>(service: ServiceId, parsed: &Parsed, spot: Spot, state: &S) -> Choice {
    let Some(target) = &Target::of(service, state) else {
        return Choice::NO_BACKEND;
    };
    if parsed.protocol() != IpProtocol::TCP {
        continue_udp(target, &parsed.key, spot, state)
    } else if parsed.tcp_flags.opens() {
        open(target, &parsed.key, spot, state)
    } else {
        resume(target, parsed, spot, state)
    }
}

/// A SYN: the present owner, whatever was remembered of this tuple before.
#[inline(always)]
fn open<S: State>(target: &Target<'_>, flow: &FlowKey, spot: Spot, state: &S) -> Choice {
    let current = spot.slot().current();
    if current != NO_BACKEND {
        let hash = state.keyed_hash(flow, target.id);
        state.remember(hash, target.id, memo(current, Class::HalfOpen, spot));
    }
    Choice::of(current)
}

/// Any other TCP packet where slots are unsettled or flows are tracked: where it is remembered, or with the owner
/// that older flows belong to.
#[inline(always)]
fn resume<S: State>(target: &Target<'_>, parsed: &Parsed, spot: Spot, state: &S) -> Choice {
    let (flow, flags) = (&parsed.key, parsed.tcp_flags);
    let hash = state.keyed_hash(flow, target.id);
    let now = state.now_seconds();
    let closes = flags.has(TcpFlags::FIN);
    if let Some(found) = flow::find(hash, target, now, state) {
        state.event(Event::FlowHit);
        let local = found.tag.backend();
        if usable(target, local, spot.slot(), state) {
            let class = match found.tag.class() {
                _ if flags.has(TcpFlags::RST) => Class::Reset,
                _ if closes => Class::Closing,
                Class::HalfOpen | Class::Reset => Class::Confirmed,
                class => class,
            };
            flow::touch(&found, target, class, (now, spot.index()), state);
            return Choice::of(local);
        }
        state.event(Event::FlowVoid);
    } else {
        state.event(Event::FlowMiss);
        let older = older_owner(target, flow, spot.slot(), false, state);
        if usable(target, older, spot.slot(), state) {
            if !flags.has(TcpFlags::RST) {
                let class = if closes { Class::Closing } else { Class::Old };
                state.remember(hash, target.id, memo(older, class, spot));
                state.event(Event::FlowAdopted);
            }
            return Choice::of(older);
        }
    }
    state.event(Event::MidflowNoEntry);
    if target.policy.orphans() == OrphanRule::Reset {
        return Choice::ORPHAN;
    }
    let current = spot.slot().current();
    if current != NO_BACKEND && !flags.has(TcpFlags::RST) {
        let class = if closes { Class::Closing } else { Class::Old };
        state.remember(hash, target.id, memo(current, class, spot));
    }
    Choice::of(current)
}

/// A UDP packet where slots are unsettled or flows are tracked.
#[inline(always)]
fn continue_udp<S: State>(target: &Target<'_>, flow: &FlowKey, spot: Spot, state: &S) -> Choice {
    let hash = state.keyed_hash(flow, target.id);
    let now = state.now_seconds();
    let found = flow::find(hash, target, now, state);
    let local = match &found {
        Some(found) => known_udp(found, target, spot, state),
        None => {
            state.event(Event::FlowMiss);
            unknown_udp(target, flow, spot, state)
        }
    };
    if local == NO_BACKEND {
        return Choice::NO_BACKEND;
    }
    match &found {
        Some(found) if found.tag.backend() == local => {
            flow::touch(found, target, Class::Udp, (now, spot.index()), state);
        }
        _ => {
            state.remember(hash, target.id, memo(local, Class::Udp, spot));
        }
    }
    Choice::of(local)
}

#[inline(always)]
fn known_udp<S: State>(found: &Found<'_>, target: &Target<'_>, spot: Spot, state: &S) -> u16 {
    let local = found.tag.backend();
    if usable(target, local, spot.slot(), state) {
        state.event(Event::FlowHit);
        return local;
    }
    state.event(Event::FlowVoid);
    spot.slot().current()
}

#[inline(always)]
fn unknown_udp<S: State>(target: &Target<'_>, flow: &FlowKey, spot: Spot, state: &S) -> u16 {
    let older = older_owner(target, flow, spot.slot(), true, state);
    if usable(target, older, spot.slot(), state) { older } else { spot.slot().current() }
}

#[inline(always)]
const fn memo(backend: u16, class: Class, spot: Spot) -> Memo {
    Memo::new(backend, class, spot.index())
}

/// To whom a flow belongs that may be older than the last change: by the prior table while one is consulted.
///
/// A UDP flow is older only while a change is in its grace, and a change of size or seed has one of its own; after it
/// every older flow has been seen.
#[inline(always)]
fn older_owner<S: State>(target: &Target<'_>, flow: &FlowKey, slot: Slot, udp: bool, state: &S) -> u16 {
    let by_prior = if udp { target.active.in_grace() } else { target.active.prior() };
    if by_prior {
        let prior = target.service.other_table(target.active);
        return match place_in(prior, flow, target.policy.hash_key(), state) {
            Some(prior) => prior.slot.owner(!udp || prior.slot.in_grace()),
            None => NO_BACKEND,
        };
    }
    slot.owner(!udp || slot.in_grace())
}
