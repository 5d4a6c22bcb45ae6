//! A service as the controller holds it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use guideway_forward::record::{Active, BackendState, NO_BACKEND, ServiceId, Slot, UdpRule};
use guideway_hash::table::Slots;
use guideway_hash::{FlowRule, Table};
use guideway_soft::Count;
use guideway_wire::HashKey;

use super::ChangeError;
use super::member::Member;
use super::region::Region;
use super::spec::{Protocol, ServiceSpec, TableSpec};
use super::unsettled::Unsettled;
use crate::engine::Engine;

/// A committed service.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: ServiceId,
    pub(crate) spec: ServiceSpec,
    /// By local index.
    pub(crate) members: Vec<Option<Member>>,
    /// Where the members' records lie.
    pub(crate) places: Region,
    /// Where the active table lies.
    pub(crate) table: Region,
    /// What it should hold there.
    pub(crate) words: Vec<Slot>,
    pub(crate) seed: u64,
    /// Whether the active table is the second of the service's record.
    pub(crate) second: bool,
    pub(crate) prior: Option<Prior>,
    /// Unsettled slots of the active table, and when each changed owner last.
    pub(crate) unsettled: Unsettled,
    /// Since when every UDP flow has been remembered, where the service asks for that.
    pub(crate) udp_tracked_since: Option<u32>,
    pub(crate) generation: u32,
    pub(crate) last_resort: bool,
    /// The table differs from what `spec` wants; to be done when the prior table is given up.
    pub(crate) resize_waits: bool,
    /// Why it could not be done when its turn came.
    pub(crate) resize_refused: Option<ChangeError>,
    /// What changes have moved since this process took charge.
    pub(crate) churn: Churn,
    pub(crate) counted: Counted,
}

/// Slots that changes have moved, as [`ServiceChange`](super::ServiceChange) counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Churn {
    /// Those that changed their owner.
    pub moved: u64,
    /// Those of them for which nothing asked.
    pub needless: u64,
}

/// What is counted over all slots, once somebody asks, and kept until a change forgets it.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// Slots that give new flows, by local index.
    owned: OnceLock<Vec<u32>>,
    digest: OnceLock<String>,
}

/// The table before the present one, of another size or seed.
#[derive(Debug, Clone)]
pub(crate) struct Prior {
    pub(crate) region: Region,
    /// What it should hold there.
    pub(crate) words: Vec<Slot>,
    pub(crate) seed: u64,
    /// When the present table took over.
    pub(crate) since: u32,
    /// Whether an unknown UDP flow still counts as older than that.
    pub(crate) in_grace: bool,
}

/// A service's state, for people and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// The forwarder's number of it.
    pub id: ServiceId,
    /// The committed table.
    pub generation: u32,
    /// Fingerprint of what takes new flows.
    pub digest: String,
    /// Slots of the table.
    pub slots: u32,
    /// Slots on which older flows may still be elsewhere.
    pub unsettled: u32,
    /// Whether the table before a resize is still consulted.
    pub prior: bool,
    /// Seconds until those slots can all settle, or that table be given up; `None` where all is settled.
    pub settles_in: Option<u32>,
    /// Whether a new size or seed waits for its turn, until all has settled.
    pub resize_waits: bool,
    /// Why a new size or seed, whose turn has come, is not in place.
    pub resize_refused: Option<ChangeError>,
    /// Whether backends are in use although every check fails.
    pub last_resort: bool,
    /// What changes have moved since this process took charge of it.
    pub churn: Churn,
    /// Packets forwarded.
    pub count: Count,
    /// Its backends, those that drain after their removal included.
    pub backends: Vec<BackendStatus>,
}

/// A backend's state, for people and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendStatus {
    /// What tables know it by.
    pub identity: Arc<str>,
    /// What the forwarder is told.
    pub state: BackendState,
    /// Whether it has left the desired state.
    pub removed: bool,
    /// Slots that give it new flows.
    pub slots: u32,
    /// The global index of its record.
    pub global: u32,
    /// Packets forwarded to it since it joined.
    pub count: Count,
}

impl Held {
    /// The word that says which table is active, and what else is consulted.
    pub(crate) fn active(&self) -> Active {
        Active::new(self.second, self.prior.is_some(), self.generation)
            .with_grace(self.prior.as_ref().is_some_and(|prior| prior.in_grace))
    }

    /// A slot of the active table, as it should be.
    pub(crate) fn slot(&self, index: u32) -> Slot {
        self.words.get(index as usize).copied().unwrap_or(Slot::EMPTY)
    }

    /// Stores a slot of the active table: one store of four bytes.
    pub(crate) fn set_slot(&mut self, engine: &impl Engine, index: u32, slot: Slot) {
        if let Some(word) = self.words.get_mut(index as usize) {
            *word = slot;
            write(engine, self.table, index, slot);
        }
    }

    /// The slots of the active table to which `owners` gives another owner, each with what it holds and who takes it.
    pub(crate) fn changed<'a>(&'a self, owners: &'a [u16]) -> impl Iterator<Item = (u32, Slot, u16)> + 'a {
        // Which ones can't be guessed, so each is written down, and counted only where it changed.
        const BLOCK: usize = 256;
        let mut changed = Vec::new();
        let mut block = [0; BLOCK];
        let blocks = self.words.chunks(BLOCK).zip(owners.chunks(BLOCK));
        for (first, (words, owners)) in (0_u32..).step_by(BLOCK).zip(blocks) {
            let mut many = 0;
            for ((slot, word), owner) in (first..).zip(words).zip(owners) {
                block[many] = slot;
                many += usize::from(word.current() != *owner);
            }
            changed.extend_from_slice(&block[..many]);
        }
        changed.into_iter().map(|slot| (slot, self.words[slot as usize], owners[slot as usize]))
    }

    /// The wanted member with this identity.
    pub(crate) fn named(&self, backend: &str) -> Option<(u16, &Member)> {
        self.members.iter().enumerate().find_map(|(local, member)| {
            let member = member.as_ref()?;
            (member.removed.is_none() && *member.spec.identity == *backend).then_some((local as u16, member))
        })
    }

    /// Seconds after which a silent flow of this service is forgotten.
    pub(crate) fn idle_seconds(&self) -> u32 {
        let of = |protocol| self.spec.listen.iter().any(|listen| listen.protocol == protocol);
        let tcp = if of(Protocol::Tcp) { self.spec.tcp_idle_seconds } else { 0 };
        let udp = if of(Protocol::Udp) { self.spec.udp_idle_seconds } else { 0 };
        tcp.max(udp)
    }

    /// Whether the flow table has every live UDP flow, so that one which it does not know is new.
    pub(crate) fn knows_udp_flows(&self, now: u32) -> bool {
        self.udp_tracked_since.is_some_and(|since| now.saturating_sub(since) > self.spec.udp_idle_seconds)
    }

    /// Remembers since when every UDP flow is remembered.
    pub(crate) fn note_udp_rule(&mut self, now: u32) {
        match self.spec.policy.udp() {
            UdpRule::Track => _ = self.udp_tracked_since.get_or_insert(now),
            _ => self.udp_tracked_since = None,
        }
    }

    /// Whether this is the table that a resize waits for. What else changes meanwhile is done in the present one.
    pub(crate) fn waits_for(&self, table: &TableSpec) -> bool {
        self.resize_waits && self.spec.table == *table
    }

    /// Whether a table of this size and seed takes the place of the active one, rather than being written into it.
    pub(crate) fn is_replaced_by(&self, size: u32, seed: u64) -> bool {
        size != self.table.len || seed != self.seed
    }

    /// Packets forwarded to a member since it joined.
    pub(crate) fn count(&self, engine: &impl Engine, local: u16) -> Count {
        let Some(Some(member)) = self.members.get(usize::from(local)) else { return Count::default() };
        let mut count = engine.backend_count(self.places.offset + u32::from(local)).since(member.baseline);
        count += member.carried;
        count
    }

    /// The fingerprint of the active table.
    pub(crate) fn digest(&self) -> &str {
        self.counted.digest.get_or_init(|| self.take_digest())
    }

    fn take_digest(&self) -> String {
        let nobody = self.members.len() as u16;
        let mut identities: Vec<&str> = self
            .members
            .iter()
            .map(|member| member.as_ref().map_or("", |m| m.spec.identity.as_ref()))
            .collect();
        identities.push("");
        let owners = self.words.iter().map(|slot| match slot.current() {
            NO_BACKEND => nobody,
            owner => owner,
        });
        let name = match self.spec.policy.hash_key() {
            HashKey::FiveTuple => "native",
            HashKey::SourceAddress => "native-source",
        };
        Table::new(Slots::U16(owners.collect()))
            .digest(FlowRule { name, seed: self.seed }, &identities)
            .map_or_else(|error| error.to_string(), |digest| digest.to_string())
    }

    /// How many slots give new flows to the backend with each local index.
    pub(super) fn owned(&self) -> &[u32] {
        self.counted.owned.get_or_init(|| {
            let mut owned = vec![0; self.members.len()];
            for slot in &self.words {
                if let Some(owned) = owned.get_mut(usize::from(slot.current())) {
                    *owned += 1;
                }
            }
            owned
        })
    }

    /// What people and metrics want to know.
    pub(crate) fn status(&self, engine: &impl Engine) -> ServiceStatus {
        let owned = self.owned();
        let backends = self.members.iter().enumerate().filter_map(|(local, member)| {
            let member = member.as_ref()?;
            Some(BackendStatus {
                identity: member.spec.identity.clone(),
                state: member.state(self.last_resort && member.is_last_resort()),
                removed: member.removed.is_some(),
                slots: owned.get(local).copied().unwrap_or(0),
                global: self.places.offset + local as u32,
                count: self.count(engine, local as u16),
            })
        });
        ServiceStatus {
            name: self.spec.name.clone(),
            id: self.id,
            generation: self.generation,
            digest: self.digest().to_owned(),
            slots: self.table.len,
            unsettled: self.unsettled.len(),
            prior: self.prior.is_some(),
            settles_in: self.settles_in(engine.now_seconds()),
            resize_waits: self.resize_waits,
            resize_refused: self.resize_refused.clone(),
            last_resort: self.last_resort,
            churn: self.churn,
            count: engine.service_count(self.id),
            backends: backends.collect(),
        }
    }
}

/// Slot `index` of a table.
pub(crate) fn read(engine: &impl Engine, table: Region, index: u32) -> Slot {
    engine.slots().get((table.offset + index) as usize).map_or(Slot::EMPTY, |word| Slot(word.load(Relaxed)))
}

/// Stores slot `index` of a table.
pub(crate) fn write(engine: &impl Engine, table: Region, index: u32, slot: Slot) {
    if let Some(word) = engine.slots().get((table.offset + index) as usize) {
        word.store(slot.0, Relaxed);
    }
}
