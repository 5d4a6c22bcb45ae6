//! What a change writes into the forwarder's memory.

use guideway_forward::record::{BackendSpec, BackendState, Service, Slot};

use super::member::Member;
use super::region::Region;
use super::service::{Held, Prior, write};
use crate::engine::Engine;

/// Writes a whole new table beside the present one and flips to it.
pub(super) fn flip(
    engine: &impl Engine,
    held: &mut Held,
    table: Region,
    seed: u64,
    owners: &[u16],
    now: u32,
) {
    let words: Vec<Slot> = owners.iter().map(|&owner| Slot::settled_on(owner)).collect();
    for (slot, &word) in words.iter().enumerate() {
        write(engine, table, slot as u32, word);
    }
    let before = std::mem::replace(&mut held.words, words);
    let in_grace = !held.knows_udp_flows(now);
    held.prior = Some(Prior { region: held.table, words: before, seed: held.seed, since: now, in_grace });
    held.table = table;
    held.seed = seed;
    held.second = !held.second;
    held.unsettled.clear();
    held.generation = held.generation.wrapping_add(1);
    if let Some(record) = engine.service(held.id) {
        record.other_table(record.active()).set(table.offset, table.len, seed);
        record.set_active(held.active());
    }
}

/// The record of a service as it should be, as far as packets read it.
pub(super) fn wanted_service(held: &Held) -> Service {
    let record = Service::new();
    store_whole(&record, held);
    record
}

/// Stores a service's record with the tables that packets consult.
pub(super) fn store_whole(record: &Service, held: &Held) {
    let active = held.active();
    store_service(record, held);
    if let Some(prior) = &held.prior {
        record.other_table(active).set(prior.region.offset, prior.region.len, prior.seed);
    }
    record.table(active).set(held.table.offset, held.table.len, held.seed);
    record.set_active(active);
}

pub(super) fn store_service(record: &Service, held: &Held) {
    record.set_backends(held.places.offset, held.places.len);
    record.set_policy(held.spec.policy);
    record.set_idle_seconds(held.spec.tcp_idle_seconds, held.spec.udp_idle_seconds);
}

/// Counts follow a backend to another place, and a place that is used again starts from what it had counted.
pub(super) fn carry_counts(
    engine: &impl Engine,
    held: &Held,
    members: &mut [Option<Member>],
    new_places: Option<Region>,
) {
    let places = new_places.unwrap_or(held.places);
    for (local, member) in members.iter_mut().enumerate() {
        let Some(member) = member else { continue };
        let was_here = held.members.get(local).is_some_and(|before| {
            before.as_ref().is_some_and(|before| before.spec.identity == member.spec.identity)
        });
        if was_here && new_places.is_none() {
            continue;
        }
        if was_here {
            member.carried = held.count(engine, local as u16);
        }
        member.baseline = engine.backend_count(places.offset + local as u32);
    }
}

/// Stores the records of members that take flows, and leaves the state of the others for [`store_records`]. In a new
/// place every record is stored, with the state it had or better.
pub(super) fn raise_records(engine: &impl Engine, held: &Held, moved: bool) {
    for (local, member) in held.members.iter().enumerate() {
        let (Some(member), Some(record)) = (member, engine.backend(held.places.offset + local as u32)) else {
            continue;
        };
        let state = member.state(held.last_resort && member.is_last_resort());
        if moved || state == BackendState::Active {
            record.store(&member.record(state));
        }
    }
}

/// Stores every record as it is wanted.
pub(super) fn store_records(engine: &impl Engine, held: &Held) {
    for local in 0..held.members.len() as u32 {
        if let (Some(wanted), Some(record)) =
            (wanted_record(held, local), engine.backend(held.places.offset + local))
        {
            record.store(&wanted);
        }
    }
}

/// What the record of a local index should be; `None`: a free one.
pub(super) fn wanted_record(held: &Held, local: u32) -> Option<BackendSpec> {
    let member = held.members.get(local as usize)?.as_ref()?;
    Some(member.record(member.state(held.last_resort && member.is_last_resort())))
}
