//! Fragments: one backend for all of a datagram's.

use core::sync::atomic::Ordering::Relaxed;

use guideway_wire::{FlowKey, HashKey, IpProtocol, IpVersion, Parsed};

use crate::outcome::{Drop, Event, Outcome, Pass};
use crate::record::fragment::{FRAGMENT_SECONDS, FragmentPlace};
use crate::record::{FragmentRule, NO_BACKEND, NO_SERVICE, ServiceId, Slot};
use crate::send::Route;
use crate::service::{self, Target};
use crate::slot::Choice;
use crate::{State, slot};

/// Where the datagram of a first fragment went already, if a later fragment came before it; otherwise open. What a first
/// fragment has placed is of an earlier datagram with the same identification, perhaps of another flow.
#[inline(never)]
pub fn first<S: State>(parsed: &Parsed, target: &Target<'_>, slot: Slot, state: &S) -> Choice {
    let known = known(datagram_hash(parsed, state), state.now_seconds(), state);
    let awaits = known.awaits_first() && known.service() == target.id;
    if awaits && slot::usable(target, known.backend(), slot, state) {
        state.event(Event::FragmentHit);
        return Choice::of(known.backend());
    }
    Choice::OPEN
}

/// Remembers where a first fragment goes, for the others of its datagram; with [`NO_SERVICE`] they are the host's.
#[inline(never)]
pub fn place<S: State>(parsed: &Parsed, service: ServiceId, local: u16, state: &S) {
    let hash = datagram_hash(parsed, state);
    remember(hash, FragmentPlace::new(hash, service, local, state.now_seconds()), state);
}

/// The way of a fragment without ports: after the others of its datagram, to a backend or to the host. One that comes
/// before the first is the host's if the VIP has no service of the protocol, and is placed by its addresses if it has
/// one UDP service; of a TCP segment it is dropped, since a retransmission is better than the reset of a backend that
/// does not know the connection. Fills `route` where it leads to a backend.
#[inline(never)]
pub(crate) fn later<'a, S: State>(parsed: &Parsed, route: &mut Option<Route<'a>>, state: &'a S) -> Outcome {
    let Some(vip) = state.vip(&parsed.key.dst.octets()) else {
        return Pass::NotVip.outcome();
    };
    let now = state.now_seconds();
    let hash = datagram_hash(parsed, state);
    let placed = known(hash, now, state);
    let id = match parsed.protocol() {
        _ if placed != FragmentPlace::NONE => placed.service(),
        IpProtocol::TCP => vip.tcp,
        IpProtocol::UDP => vip.udp,
        protocol => return service::unserved(protocol).outcome(),
    };
    if id == NO_SERVICE {
        return Pass::NoService.outcome();
    }
    // Of several services nobody knows which.
    let Some(target) = Target::of(id, state) else {
        return Drop::UnknownFragment.outcome();
    };
    if target.policy.fragments() == FragmentRule::Drop {
        return Drop::Fragment.outcome();
    }
    if let Some(reason) = service::refuses(parsed, state) {
        return reason.outcome();
    }
    let table = target.service.table(target.active);
    let Some(place) = slot::place_in(table, &parsed.key, HashKey::SourceAddress, state) else {
        return Drop::NoBackendUnanswered.outcome();
    };
    if placed != FragmentPlace::NONE && slot::usable(&target, placed.backend(), place.slot, state) {
        state.event(Event::FragmentHit);
        *route = Some(Route::new(&target, placed.backend(), place.hash));
        return Outcome::Forwarded;
    }
    if parsed.protocol() != IpProtocol::UDP {
        return Drop::UnknownFragment.outcome();
    }
    let local = place.slot.current();
    if local == NO_BACKEND {
        return Drop::NoBackendUnanswered.outcome();
    }
    remember(hash, FragmentPlace::new(hash, target.id, local, now).awaiting_first(), state);
    *route = Some(Route::new(&target, local, place.hash));
    Outcome::Forwarded
}

/// The secret hash of a datagram: source, destination, identification, and protocol in IPv4. In IPv6 addresses and
/// identification are enough (RFC 8200 section 4.5), and a later fragment may not tell the protocol.
#[inline(always)]
pub fn datagram_hash<S: State>(parsed: &Parsed, state: &S) -> u64 {
    let id = parsed.fragment.datagram_id().unwrap_or_default();
    let protocol = match parsed.ip {
        IpVersion::V4 => parsed.protocol(),
        IpVersion::V6 => IpProtocol::FRAGMENT,
    };
    let key = FlowKey { src_port: (id >> 16) as u16, dst_port: id as u16, protocol, ..parsed.key };
    // 0 is a free entry.
    state.keyed_hash(&key, NO_SERVICE) | 1
}

/// Where the other fragments of the datagram went, or [`FragmentPlace::NONE`].
#[inline(never)]
pub fn known<S: State>(hash: u64, now: u32, state: &S) -> FragmentPlace {
    let Some(bucket) = state.fragment_bucket((hash >> 1) as u32 & state.fragment_mask()) else {
        return FragmentPlace::NONE;
    };
    for entry in &bucket.entries {
        let place = entry.place();
        if entry.hash.load(Relaxed) == hash && place.is_of(hash, now) {
            return place;
        }
    }
    FragmentPlace::NONE
}

/// Remembers where the datagram goes, in place of the oldest of its bucket.
#[inline(never)]
pub fn remember<S: State>(hash: u64, place: FragmentPlace, state: &S) {
    let Some(bucket) = state.fragment_bucket((hash >> 1) as u32 & state.fragment_mask()) else {
        state.event(Event::FragmentEvicted);
        return;
    };
    let mut oldest = None;
    let mut age = 0;
    for entry in &bucket.entries {
        let word = entry.hash.load(Relaxed);
        // Free and own entries are older than any other.
        let this = if word == 0 || word == hash { u32::MAX } else { entry.place().age(place.second()) };
        if oldest.is_none() || this > age {
            (oldest, age) = (Some(entry), this);
        }
    }
    if let Some(entry) = oldest {
        // No reader takes the entry between the stores: hash and place would not agree.
        entry.hash.store(0, Relaxed);
        entry.place.store(place.0, Relaxed);
        entry.hash.store(hash, Relaxed);
        state.event(Event::FragmentInserted);
        if age <= FRAGMENT_SECONDS {
            state.event(Event::FragmentEvicted);
        }
    }
}
