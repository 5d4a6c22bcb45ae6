//! What time brings: graces end, slots settle, prior tables are given up, indices come free.

use std::collections::HashSet;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use guideway_forward::record::flow::{Class, RESET_SECONDS};
use guideway_forward::record::fragment::FRAGMENT_SECONDS;
use guideway_forward::record::{Backend, NO_BACKEND, ServiceId, Slot};

use super::by_id::ById;
use super::member::Member;
use super::service::Held;
use super::spec::{Health, ServiceSpec};
use super::unsettled::older_at;
use super::{ChangeError, Controller, Removal, Retired};
use crate::engine::Engine;

/// Seconds more than the idle time that everything waits: a flow's last packet may fall into the second of the change,
/// and its entry is stamped once a second.
pub(super) const MARGIN_SECONDS: u32 = 2;

/// What a tick did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Slots settled.
    pub settled: u32,
    /// Prior tables given up.
    pub priors_dropped: u32,
    /// Backends whose last trace is gone, so that their index is free again.
    pub freed: u32,
    /// Flows forgotten after their idle time.
    pub swept: u32,
    /// Why resizes that had waited for their turn are refused, each reason once. They are tried again at each tick.
    pub refused: Vec<ChangeError>,
}

/// A remembered flow, as far as the controller reads it.
pub(super) struct Flow {
    pub(super) service: ServiceId,
    pub(super) backend: u16,
    pub(super) slot: u32,
    pub(super) class: Class,
    pub(super) silent_seconds: u32,
    /// Whether it is not silent for as long as flows of its class are remembered.
    pub(super) remembered: bool,
}

impl Flow {
    /// Whether a connection stands: not one that has yet to open, nor one that has been closed. Where its client has
    /// closed only its own half, the client goes on to acknowledge what it gets.
    pub(super) fn is_live(&self) -> bool {
        self.remembered
            && match self.class {
                Class::Confirmed | Class::Old | Class::Udp => true,
                Class::Closing => self.silent_seconds <= RESET_SECONDS,
                Class::HalfOpen | Class::Reset => false,
            }
    }
}

/// What the flow table says of a service that awaits something of its flows.
struct Census {
    /// The slots of which a flow is on another backend than their owner.
    elsewhere: HashSet<u32>,
    /// Which backends any entry names, by their local indices.
    named: Vec<bool>,
}

impl Census {
    fn of(held: &Held) -> Self {
        Self { elsewhere: HashSet::new(), named: vec![false; held.members.len()] }
    }

    fn names(&self, local: usize) -> bool {
        self.named.get(local).is_some_and(|named| *named)
    }
}

impl<E: Engine> Controller<E> {
    /// Does what is due at the engine's present second. Cheap while everything is settled.
    pub fn tick(&mut self) -> Ticked {
        let mut ticked = Ticked::default();
        let now = self.engine.now_seconds();
        self.services.wake(now);
        self.services.for_each_awake(|held| {
            note_packets(&self.engine, held, now);
            end_grace(&self.engine, held, now);
        });
        let idle = self.retired.is_empty() && self.narrowing.is_none() && !self.unpublished;
        if idle && !self.services.awake().any(|held| held.awaits_flows(now)) {
            self.services.rest();
            return ticked;
        }
        let awaiting = self.services.awake().filter(|held| held.awaits_flows(now));
        let (censuses, swept) = sweep(&self.engine, awaiting);
        ticked.swept = swept;
        let mut resizes = Vec::new();
        let mut republish = self.unpublished;
        self.services.for_each_awake(|held| {
            let Some(census) = censuses.get(held.id) else { return };
            if let Some((since, region)) = held.prior.as_ref().map(|prior| (prior.since, prior.region))
                && now.saturating_sub(since) > held.settles_after()
            {
                give_up_prior(&self.engine, held, census, now);
                ticked.priors_dropped += 1;
                let epoch = self.engine.begin_grace();
                self.retired.push(Retired { epoch, slots: Some(region), places: None, id: None });
            }
            if held.resize_waits && held.prior.is_none() {
                resizes.push(held.spec.clone());
            }
            if held.prior.is_none() {
                ticked.settled += settle(&self.engine, held, census, now);
            }
            let freed = free_members(&self.engine, held, census, now);
            republish |= freed > 0;
            ticked.freed += freed;
        });
        self.services.rest();
        self.reclaim();
        if republish {
            // Server ids of backends that are gone: they do no harm until the next tick tries again.
            self.unpublished = true;
            self.unpublished = self.publish().is_err();
        }
        for spec in resizes {
            ticked.refused.extend(self.resize_at_last(spec));
        }
        ticked
    }

    /// Does a resize that has waited; if it is refused for a reason that was not told before, that reason.
    fn resize_at_last(&mut self, spec: ServiceSpec) -> Option<ChangeError> {
        let name = spec.name.clone();
        self.services.get_mut(&name)?.resize_waits = false;
        let refused = self.commit(spec, |_| Health::Unchecked, Removal::Drain).err();
        let held = self.services.get_mut(&name)?;
        held.resize_waits |= refused.is_some();
        let news = refused.clone().filter(|_| held.resize_refused != refused);
        held.resize_refused = refused;
        news
    }

    /// Frees memory whose grace period is over.
    fn reclaim(&mut self) {
        self.narrow();
        let (over, waiting): (Vec<Retired>, _) = std::mem::take(&mut self.retired)
            .into_iter()
            .partition(|retired| self.engine.grace_is_over(retired.epoch));
        self.retired = waiting;
        let gone: ById<()> = over.iter().filter_map(|retired| Some((retired.id?, ()))).collect();
        if !gone.is_empty() {
            forget_services(&self.engine, |id| gone.has(id));
        }
        for retired in over {
            if let Some(region) = retired.slots {
                self.slots.give_back(region);
            }
            if let Some(region) = retired.places {
                for global in region.offset..region.offset + region.len {
                    if let Some(record) = self.engine.backend(global) {
                        clear(record);
                    }
                }
                self.places.give_back(region);
            }
            if let Some(id) = retired.id {
                self.free_ids.insert(id.0);
            }
        }
    }
}

impl Held {
    /// Whether every tick has to look at it.
    pub(super) fn is_restless(&self) -> bool {
        self.prior.is_some() || self.resize_waits || self.members.iter().flatten().any(Member::is_leaving)
    }

    /// The second in which time brings something to it, if nothing changes until then.
    pub(super) fn due(&self) -> Option<u32> {
        let grace = self.unsettled.grace_ends_at(self.spec.udp_idle_seconds);
        let settles = self.unsettled.may_be_older_at(self.settles_after());
        grace.into_iter().chain(settles).min()
    }

    /// Whether anything can be due that depends on where flows are, so that they have to be looked at.
    fn awaits_flows(&self, now: u32) -> bool {
        self.prior.is_some()
            || self.resize_waits
            || self.unsettled.may_be_older(self.settles_after(), now)
            || self.members.iter().flatten().any(|member| member.removed.is_some())
    }

    /// Seconds until every slot of which no flow is elsewhere by then has settled; `None` where all have.
    pub(super) fn settles_in(&self, now: u32) -> Option<u32> {
        match &self.prior {
            Some(prior) => Some(older_at(prior.since, self.settles_after()).saturating_sub(now)),
            None => self.unsettled.all_older_in(self.settles_after(), now),
        }
    }

    /// Seconds from a change until a slot of which no flow is elsewhere can settle.
    fn settles_after(&self) -> u32 {
        self.idle_seconds().saturating_add(MARGIN_SECONDS)
    }
}

/// Reads every remembered flow.
pub(super) fn for_each_flow(engine: &impl Engine, mut read: impl FnMut(&Flow)) {
    visit(engine, |flow, _| read(flow));
}

fn visit(engine: &impl Engine, mut visit: impl FnMut(&Flow, &dyn Fn() -> bool)) {
    let now = engine.now_seconds();
    for bucket in engine.flows() {
        for entry in &bucket.entries {
            let Some(tag) = entry.tag() else { continue };
            let info = entry.info();
            let idle = engine.service(info.service()).map_or(0, |service| {
                tag.class().idle_seconds(service.tcp_idle_seconds(), service.udp_idle_seconds())
            });
            let flow = Flow {
                service: info.service(),
                backend: tag.backend(),
                slot: info.slot(),
                class: tag.class(),
                silent_seconds: info.silence(now),
                remembered: info.silence(now) <= idle,
            };
            visit(&flow, &|| entry.tag.compare_exchange(tag.0, 0, AcqRel, Relaxed).is_ok());
        }
    }
}

/// Forgets flows that are long silent, and how many; takes stock of the others of those services.
fn sweep<'a>(engine: &impl Engine, services: impl Iterator<Item = &'a Held>) -> (ById<Census>, u32) {
    let mut censuses: ById<_> = services.map(|held| (held.id, (held, Census::of(held)))).collect();
    let mut swept = 0;
    visit(engine, |flow, forget| {
        if !flow.remembered && forget() {
            swept += 1;
            return;
        }
        let Some((held, census)) = censuses.get_mut(flow.service) else { return };
        if flow.remembered && held.slot(flow.slot).current() != flow.backend {
            census.elsewhere.insert(flow.slot);
        }
        if let Some(named) = census.named.get_mut(usize::from(flow.backend)) {
            *named = true;
        }
    });
    (censuses.map(|(_, census)| census), swept)
}

/// Forgets the flows of those services.
pub(super) fn forget_services(engine: &impl Engine, which: impl Fn(ServiceId) -> bool) {
    visit(engine, |flow, forget| {
        if which(flow.service) {
            forget();
        }
    });
}

/// From one UDP idle time after a change on, an unknown UDP flow is a new one. More than the idle time, since whole
/// seconds are compared: a flow that was seen late in the second of the change is not yet over early in the last one.
fn end_grace(engine: &impl Engine, held: &mut Held, now: u32) {
    let udp_idle = held.spec.udp_idle_seconds;
    let is_over = |changed: u32| now.saturating_sub(changed) > udp_idle;
    for slot in held.unsettled.end_grace(udp_idle, now) {
        let word = held.slot(slot);
        if word.in_grace() {
            held.set_slot(engine, slot, word.end_grace());
        }
    }
    if let Some(prior) = held.prior.as_mut().filter(|prior| prior.in_grace && is_over(prior.since)) {
        prior.in_grace = false;
        if let Some(record) = engine.service(held.id) {
            record.set_active(held.active());
        }
    }
}

/// Settles the slots of which no remembered flow is elsewhere and none can be, unseen.
fn settle(engine: &impl Engine, held: &mut Held, census: &Census, now: u32) -> u32 {
    let wait = held.settles_after();
    if !held.unsettled.may_be_older(wait, now) {
        return 0;
    }
    let due: Vec<u32> = held
        .unsettled
        .iter()
        .filter(|&(slot, changed)| now.saturating_sub(changed) > wait && !census.elsewhere.contains(&slot))
        .map(|(slot, _)| slot)
        .collect();
    for &slot in &due {
        held.set_slot(engine, slot, held.slot(slot).settle());
        held.unsettled.remove(slot);
    }
    held.unsettled.note_oldest();
    due.len() as u32
}

/// By now every live flow has been seen under the present table, so it is remembered with its slot there. Slots with
/// flows elsewhere become unsettled ones, and the prior table is of no more use.
fn give_up_prior(engine: &impl Engine, held: &mut Held, census: &Census, now: u32) {
    for &slot in &census.elsewhere {
        let word = held.slot(slot);
        if slot < held.table.len && word.is_settled() {
            let other = if word.current() == NO_BACKEND { 0 } else { NO_BACKEND };
            held.set_slot(engine, slot, word.change_owner(other).change_owner(word.current()).end_grace());
            held.unsettled.insert(slot, held.table.len, now);
        }
    }
    held.prior = None;
    if let Some(record) = engine.service(held.id) {
        record.set_active(held.active());
    }
}

/// Frees the indices of backends that left and that nothing names any more.
fn free_members(engine: &impl Engine, held: &mut Held, census: &Census, now: u32) -> u32 {
    let quiet_for = held.settles_after().max(FRAGMENT_SECONDS + MARGIN_SECONDS);
    let long_gone: Vec<u16> = held
        .members
        .iter()
        .enumerate()
        .filter(|(local, member)| {
            // The fragment cache, and clients of QUIC, name a backend for so long after its last packet.
            let is_gone = |member: &Member| member.removed.is_some() && member.is_quiet_for(quiet_for, now);
            member.as_ref().is_some_and(is_gone) && !census.names(*local)
        })
        .map(|(local, _)| local as u16)
        .collect();
    if long_gone.is_empty() {
        return 0;
    }
    let mut in_slots = HashSet::new();
    let mut note = |slot: Slot| {
        in_slots.insert(slot.current());
        in_slots.insert(slot.settled());
    };
    held.words.iter().chain(held.prior.iter().flat_map(|prior| &prior.words)).for_each(|slot| note(*slot));
    let mut freed = 0;
    for local in long_gone.into_iter().filter(|local| !in_slots.contains(local)) {
        if let Some(record) = engine.backend(held.places.offset + u32::from(local)) {
            clear(record);
        }
        held.members[usize::from(local)] = None;
        freed += 1;
    }
    freed
}

/// Notes which of the backends that drain or have left got packets since the last time.
fn note_packets(engine: &impl Engine, held: &mut Held, now: u32) {
    let offset = held.places.offset;
    for (local, member) in held.members.iter_mut().enumerate() {
        let Some(member) = member else { continue };
        if member.is_leaving() {
            member.note_packets(engine.backend_count(offset + local as u32).packets, now);
        } else {
            member.heard = None;
        }
    }
}

fn clear(record: &Backend) {
    record.set_state(guideway_forward::record::BackendState::Free);
}
