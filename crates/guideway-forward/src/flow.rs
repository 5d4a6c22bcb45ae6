//! The flow table: flows that the slots alone would send elsewhere.

use core::sync::atomic::Ordering::Relaxed;

use crate::State;
use crate::outcome::Event;
use crate::record::{Class, Entry, Info, Tag};
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

/// What is to be remembered of a flow. By reference, since a function of the BPF target has five arguments at most.
#[derive(Clone, Copy, Debug)]
pub struct Memo {
    /// The local index of its backend.
    pub backend: u16,
    /// Its phase.
    pub class: Class,
    /// Its slot in the active table.
    pub slot: u32,
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

/// Remembers `memo` of the flow with this keyed hash, in place of whatever was remembered of it.
///
/// When nothing in the bucket may be forgotten, the flow is not remembered and the packet follows its slot.
#[inline(never)]
pub fn remember<S: State>(hash: u64, target: &Target<'_>, memo: &Memo, state: &S) {
    let Memo { backend, class, slot } = *memo;
    let now = state.now_seconds();
    let tag = Tag::new(hash, backend, class);
    let info = Info::new(now, target.id, slot);
    let Some(bucket) = state.flow_bucket(hash as u32 & state.flow_mask()) else {
        state.event(Event::FlowInsertFailed);
        return;
    };
    let mut best: Option<(&Entry, u64, u32)> = None;
    for entry in &bucket.entries {
        let word = entry.tag.load(Relaxed);
        if Tag(word).is_of(hash) && word != 0 {
            let live = !expired(Tag(word), entry.info(), target, now);
            publish(entry, word, tag, info, state);
            state.event(match live && Tag(word).backend() != backend {
                true => Event::FlowRewritten,
                false => Event::FlowInserted,
            });
            return;
        }
        let worth = worth(entry, word, now, state);
        if best.is_none_or(|(_, _, least)| worth < least) {
            best = Some((entry, word, worth));
        }
    }
    match best {
        Some((entry, word, worth)) if worth < KEEP => {
            if publish(entry, word, tag, info, state) {
                state.event(Event::FlowInserted);
                if worth >= REDUNDANT {
                    state.event(Event::FlowEvicted);
                }
            } else {
                state.event(Event::FlowInsertFailed);
            }
        }
        _ => state.event(Event::FlowInsertFailed),
    }
}

const FREE: u32 = 0;
const EXPIRED: u32 = 1;
const REDUNDANT: u32 = 2;
const HALF_OPEN: u32 = 3;
const CLOSING: u32 = 4;
const KEEP: u32 = 5;

/// What is lost with an entry, least first: nothing, a dead flow, what the slot says anyway, a flow that may never
/// be, one that is about to end, one that lives.
#[inline(always)]
fn worth<S: State>(entry: &Entry, word: u64, now: u32, state: &S) -> u32 {
    if word == 0 {
        return FREE;
    }
    let (tag, info) = (Tag(word), entry.info());
    let Some(owner) = Target::of(info.service(), state) else {
        return EXPIRED;
    };
    if expired(tag, info, &owner, now) {
        return EXPIRED;
    }
    if slot_says_the_same(tag, info, &owner, state) {
        return REDUNDANT;
    }
    match tag.class() {
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
