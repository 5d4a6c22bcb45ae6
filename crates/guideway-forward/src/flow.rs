//! The flow table: flows that the slots alone would send elsewhere.

use core::sync::atomic::Ordering::Relaxed;

use crate::State;
use crate::outcome::Event;
use crate::record::flow::RESET_SECONDS;
use crate::record::{Class, Entry, Info, ServiceId, Tag};
use crate::service::Target;

/// A live entry, as it was when it was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Where it is.
    pub entry: &'a Entry,
    /// Flow, backend and phase.
    pub tag: Tag,
    /// When and where it was seen last.
    pub info: Info,
}

/// What is to be remembered of a flow, in one number: bits 0–15 backend, 16–23 phase, 32–63 slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memo(pub u64);

impl Memo {
    /// The flow is on the backend with this local index, in this phase, and falls into this slot of the active table.
    #[inline(always)]
    pub const fn new(backend: u16, class: Class, slot: u32) -> Memo {
        Memo(backend as u64 | ((class as u64) << 16) | ((slot as u64) << 32))
    }

    #[inline(always)]
    const fn backend(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    const fn slot(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    const fn tag(self, hash: u64) -> Tag {
        Tag(Tag::new(hash, self.backend(), Class::HalfOpen).0 & !7 | (self.0 >> 16) & 7)
    }
}

/// The live entry of the flow with this keyed hash.
#[inline(always)]
pub fn find<'a, S: State>(hash: u64, target: &Target<'_>, now: u32, state: &'a S) -> Option<Found<'a>> {
    let bucket = state.flow_bucket(hash as u32 & state.flow_mask())?;
    for entry in &bucket.entries {
        if let Some(tag) = entry.tag() {
            let info = entry.info();
            if tag.is_of(hash) && info.service() == target.id && !expired(tag, info, target, now) {
                return Some(Found { entry, tag, info });
            }
        }
    }
    None
}

/// Notes that a flow was seen: its phase if that changed, its time at most once a second.
#[inline(always)]
pub fn touch<S: State>(
    found: &Found<'_>,
    target: &Target<'_>,
    class: Class,
    (now, slot): (u32, u32),
    state: &S,
) {
    let info = Info::new(now, target.id, slot);
    if info != found.info {
        found.entry.info.store(info.0, Relaxed);
    }
    if class != found.tag.class() {
        // Losing the race leaves what the other packet of this flow, or the entry's next owner, wrote.
        state.compare_exchange(&found.entry.tag, found.tag.0, found.tag.with_class(class).0);
    }
}

/// Remembers `memo` of the flow with this keyed hash, in place of whatever was remembered of it. Whether it could.
///
/// When nothing in the bucket may be forgotten, the flow is not remembered and the packet follows its slot.
#[inline(always)]
pub fn remember<S: State>(hash: u64, service: ServiceId, memo: Memo, state: &S) -> bool {
    let event = insert(hash, service, memo, state);
    state.event(event);
    event != Event::FlowInsertFailed
}

#[inline(always)]
fn insert<S: State>(hash: u64, service: ServiceId, memo: Memo, state: &S) -> Event {
    let now = state.now_seconds();
    let tag = memo.tag(hash);
    let info = Info::new(now, service, memo.slot());
    let (Some(target), Some(bucket)) =
        (Target::of(service, state), state.flow_bucket(hash as u32 & state.flow_mask()))
    else {
        return Event::FlowInsertFailed;
    };
    let mut best: Option<(&Entry, u64, u32)> = None;
    for entry in &bucket.entries {
        let word = entry.tag.load(Relaxed);
        if Tag(word).is_of(hash) && word != 0 {
            let live = !expired(Tag(word), entry.info(), &target, now);
            publish(entry, word, tag, info, state);
            let moved = live && Tag(word).backend() != memo.backend();
            return if moved { Event::FlowRewritten } else { Event::FlowInserted };
        }
        let worth = worth(entry, word, &target, now, state);
        if best.is_none_or(|(_, _, least)| worth < least) {
            best = Some((entry, word, worth));
        }
    }
    match best {
        Some((entry, word, worth)) if worth < KEEP && publish(entry, word, tag, info, state) => {
            if worth >= REDUNDANT {
                state.event(Event::FlowEvicted);
            }
            Event::FlowInserted
        }
        _ => Event::FlowInsertFailed,
    }
}

const FREE: u32 = 0;
const EXPIRED: u32 = 1;
const REDUNDANT: u32 = 2;
const RESET: u32 = 3;
const HALF_OPEN: u32 = 4;
const CLOSING: u32 = 5;
const KEEP: u32 = 6;

/// What is lost with an entry, least first: nothing, a dead flow, what the slot says anyway, a flow that was reset or
/// closed and is silent since, one that may never be, one that is about to end, one that lives.
#[inline(always)]
fn worth<S: State>(entry: &Entry, word: u64, newcomers: &Target<'_>, now: u32, state: &S) -> u32 {
    if word == 0 {
        return FREE;
    }
    let (tag, info) = (Tag(word), entry.info());
    // In most buckets most flows are of the service that most packets are for.
    let owner = if info.service() == newcomers.id {
        *newcomers
    } else {
        match Target::of(info.service(), state) {
            Some(owner) => owner,
            None => return EXPIRED,
        }
    };
    if expired(tag, info, &owner, now) {
        return EXPIRED;
    }
    if slot_says_the_same(tag, info, &owner, state) {
        return REDUNDANT;
    }
    match tag.class() {
        Class::Reset => RESET,
        // Its client has closed, and nothing was heard for as long as a reset flow is remembered at all.
        Class::Closing if info.silence(now) > RESET_SECONDS => RESET,
        Class::HalfOpen => HALF_OPEN,
        Class::Closing => CLOSING,
        Class::Confirmed | Class::Old | Class::Udp => KEEP,
    }
}

/// Whether the flow would reach the same backend unremembered.
#[inline(always)]
fn slot_says_the_same<S: State>(tag: Tag, info: Info, owner: &Target<'_>, state: &S) -> bool {
    let (offset, size) = owner.service.table(owner.active).place();
    if owner.active.prior() || info.slot() >= size {
        return false;
    }
    let Some(slot) = state.slot(offset, info.slot()) else {
        return false;
    };
    let older = tag.class() != Class::Udp || slot.in_grace();
    tag.backend() == slot.owner(older)
}

#[inline(always)]
fn expired(tag: Tag, info: Info, target: &Target<'_>, now: u32) -> bool {
    let service = target.service;
    info.silence(now) > tag.class().idle_seconds(service.tcp_idle_seconds(), service.udp_idle_seconds())
}

/// Info, tag, info: whoever sees the tag sees an info of this flow, even if a packet of the flow that lost the entry
/// touched it between.
#[inline(always)]
fn publish<S: State>(entry: &Entry, old: u64, tag: Tag, info: Info, state: &S) -> bool {
    entry.info.store(info.0, Relaxed);
    let won = old == tag.0 || state.compare_exchange(&entry.tag, old, tag.0);
    if won {
        entry.info.store(info.0, Relaxed);
    }
    won
}
