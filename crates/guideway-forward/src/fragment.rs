//! Fragments: one backend for all of a datagram's.

use core::sync::atomic::Ordering::Relaxed;

use guideway_wire::{FlowKey, Fragment, HashKey, IpProtocol, IpVersion, Packet, Parsed};

use crate::outcome::{Drop, Event, Pass, Verdict};
use crate::record::fragment::{FRAGMENT_SECONDS, FragmentPlace};
use crate::record::{FragmentRule, NO_BACKEND, NO_SERVICE, ServiceId};
use crate::service::{self, Target};
use crate::{State, send, slot};

/// A fragment without ports: after the others of its datagram, to a backend or to the host. One that comes before the
/// first is the host's if the VIP has no service of the protocol, and is placed by its addresses if it has one UDP
/// service; of a TCP segment it is dropped, since a retransmission is better than the reset of a backend that does not
/// know the connection.
#[inline(never)]
pub fn later<P: Packet, S: State>(packet: &mut P, parsed: &Parsed, state: &S) -> Verdict {
    let Some(vip) = state.vip(&parsed.key.dst.octets()) else {
        return Verdict::Pass(Pass::NotVip);
    };
    let Fragment::Later { id, .. } = parsed.fragment else {
        return Verdict::Drop(Drop::Malformed);
    };
    let now = state.now_seconds();
    let hash = datagram_hash(parsed, id, state);
    let placed = known(hash, now, state);
    let id = match (&placed, parsed.protocol()) {
        (Some(place), _) => place.service(),
        (None, IpProtocol::TCP) => vip.tcp,
        (None, IpProtocol::UDP) => vip.udp,
        (None, protocol) => return Verdict::Pass(service::unserved(protocol)),
    };
    if id == NO_SERVICE {
        return Verdict::Pass(Pass::NoService);
    }
    // Of several services nobody knows which.
    let Some(target) = Target::of(id, state) else {
        return Verdict::Drop(Drop::UnknownFragment);
    };
    if target.policy.fragments() == FragmentRule::Drop {
        return Verdict::Drop(Drop::Fragment);
    }
    if let Some(reason) = service::refuses(parsed, state) {
        return Verdict::Drop(reason);
    }
    let table = target.service.table(target.active);
    let Some(place) = slot::place_in(table, &parsed.key, HashKey::SourceAddress, state) else {
        return Verdict::Drop(Drop::NoBackendUnanswered);
    };
    let known =
        placed.map(|place| place.backend()).filter(|local| slot::usable(&target, *local, place.slot, state));
    if let Some(local) = known {
        state.event(Event::FragmentHit);
        return send::to_backend(packet, parsed, (&target, local), place.hash, state);
    }
    if parsed.protocol() != IpProtocol::UDP {
        return Verdict::Drop(Drop::UnknownFragment);
    }
    let local = place.slot.current();
    if local == NO_BACKEND {
        return Verdict::Drop(Drop::NoBackendUnanswered);
    }
    remember(hash, target.id, local, now, state);
    send::to_backend(packet, parsed, (&target, local), place.hash, state)
}

/// The first fragment of a datagram to a VIP, but to a port that no service has: the others are the host's too.
#[inline(never)]
pub fn leave<S: State>(parsed: &Parsed, state: &S) {
    if let Some(id) = parsed.fragment.datagram_id() {
        remember(datagram_hash(parsed, id, state), NO_SERVICE, 0, state.now_seconds(), state);
    }
}

/// The secret hash of a datagram: source, destination, identification, and protocol in IPv4. In IPv6 addresses and
/// identification are enough (RFC 8200 section 4.5), and a later fragment may not tell the protocol.
#[inline(always)]
pub fn datagram_hash<S: State>(parsed: &Parsed, id: u32, state: &S) -> u64 {
    let protocol = match parsed.ip {
        IpVersion::V4 => parsed.protocol(),
        IpVersion::V6 => IpProtocol::FRAGMENT,
    };
    let key = FlowKey { src_port: (id >> 16) as u16, dst_port: id as u16, protocol, ..parsed.key };
    // 0 is a free entry.
    state.settings().keyed_hash(&key, NO_SERVICE) | 1
}

/// Where the other fragments of the datagram went.
#[inline(never)]
pub fn known<S: State>(hash: u64, now: u32, state: &S) -> Option<FragmentPlace> {
    let bucket = state.fragment_bucket((hash >> 1) as u32 & state.fragment_mask())?;
    for entry in &bucket.entries {
        let place = entry.place();
        if entry.hash.load(Relaxed) == hash && place.is_of(hash, now) {
            return Some(place);
        }
    }
    None
}

/// Remembers where the datagram goes, in place of the oldest of its bucket.
#[inline(never)]
pub fn remember<S: State>(hash: u64, service: ServiceId, backend: u16, now: u32, state: &S) {
    let Some(bucket) = state.fragment_bucket((hash >> 1) as u32 & state.fragment_mask()) else {
        state.event(Event::FragmentEvicted);
        return;
    };
    let mut oldest = None;
    let mut age = 0;
    for entry in &bucket.entries {
        let word = entry.hash.load(Relaxed);
        // Free and own entries are older than any other.
        let this = if word == 0 || word == hash { u32::MAX } else { entry.place().age(now) };
        if oldest.is_none() || this > age {
            (oldest, age) = (Some(entry), this);
        }
    }
    if let Some(entry) = oldest {
        // No reader takes the entry between the stores: hash and place would not agree.
        entry.hash.store(0, Relaxed);
        entry.place.store(FragmentPlace::new(hash, service, backend, now).0, Relaxed);
        entry.hash.store(hash, Relaxed);
        state.event(Event::FragmentInserted);
        if age <= FRAGMENT_SECONDS {
            state.event(Event::FragmentEvicted);
        }
    }
}
