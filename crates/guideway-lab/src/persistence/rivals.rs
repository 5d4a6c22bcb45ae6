//! The strategies that Guideway is compared with, over the same packets and the same routers.

use std::collections::BTreeMap;

use guideway_wire::FlowKey;

use super::history::World;
use super::oracle::{Fate, Judgement};
use super::report::{Row, kind_name};
use super::settings::Settings;
use super::strategy::{Arrival, Connections, LRU_ENTRY_BYTES, Plain, PlainError, by_connection_id};
use super::traffic::{Kind, Millis, Send};

/// All of them. They share one table of slots, built anew at each change.
#[derive(Debug)]
pub(crate) struct Rivals {
    plain: Plain,
    rivals: Vec<Rival>,
    udp_idle: Millis,
}

#[derive(Debug)]
struct Rival {
    name: String,
    entries: usize,
    cpus: usize,
    /// One a balancer; none for the strategy without memory.
    tables: Vec<Connections>,
    lost: u64,
    broken: BTreeMap<&'static str, u64>,
    remembered: usize,
    packets: u64,
    consulted: u64,
}

impl Rivals {
    pub(crate) fn new(settings: &Settings, world: &World) -> Result<Self, PlainError> {
        let udp_idle = u64::from(settings.udp_idle_seconds) * 1000;
        let equal = settings.flow_entries as usize * 16 / LRU_ENTRY_BYTES;
        let rival = |name: String, entries: usize, cpus: usize| Rival {
            name,
            entries,
            cpus,
            tables: (0..settings.balancers)
                .filter(|_| entries > 0)
                .map(|_| Connections::new(entries, cpus, udp_idle))
                .collect(),
            lost: 0,
            broken: BTreeMap::new(),
            remembered: 0,
            packets: 0,
            consulted: 0,
        };
        let mut rivals = vec![rival("Maglev".to_owned(), 0, 1)];
        let cpus = settings.cpus as usize;
        for entries in [settings.lru_entries as usize, equal] {
            rivals.push(rival(format!("Maglev + LRU of {entries}"), entries, 1));
            let share = entries / cpus;
            let name = format!("Maglev + LRU of {share} on each of {cpus} CPUs");
            rivals.push(rival(name, share * cpus, cpus));
        }
        Ok(Self { plain: Plain::build(world)?, rivals, udp_idle })
    }

    pub(crate) fn len(&self) -> usize {
        self.rivals.len()
    }

    pub(crate) fn change(&mut self, world: &World) -> Result<(), PlainError> {
        self.plain = Plain::build(world)?;
        Ok(())
    }

    /// A balancer loses its memory.
    pub(crate) fn restart(&mut self, balancer: usize) {
        for rival in &mut self.rivals {
            if let Some(table) = rival.tables.get_mut(balancer) {
                *table = Connections::new(rival.entries, rival.cpus, self.udp_idle);
            }
        }
    }

    /// A packet through every strategy for which its flow still lives.
    pub(crate) fn packet(
        &mut self,
        fates: &mut [Fate],
        arrival: Arrival,
        key: &FlowKey,
        sent: (Kind, Send),
        world: &World,
        now: Millis,
    ) {
        for (rival, fate) in self.rivals.iter_mut().zip(fates) {
            let home = match *fate {
                Fate::Over => continue,
                Fate::Unborn => None,
                Fate::At(home) => Some(home),
            };
            rival.packets += 1;
            let named = by_connection_id(sent, home, world);
            let server = match (named, rival.tables.get_mut(arrival.balancer)) {
                (Some(server), _) => Some(server),
                (None, None) => self.plain.owner(key),
                (None, Some(table)) => {
                    rival.consulted += 1;
                    let server = table.packet(key, arrival, sent, (&self.plain, world), now);
                    rival.remembered = rival.remembered.max(table.remembered());
                    server
                }
            };
            let opens = sent == (Kind::Tcp, Send::Open);
            match fate.judge(server, opens, sent.0, world) {
                Judgement::Fine => {}
                Judgement::Lost | Judgement::Moved => rival.lost += 1,
                Judgement::Broken { .. } => *rival.broken.entry(kind_name(sent.0)).or_default() += 1,
            }
        }
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |rival: &Rival| Row {
            strategy: rival.name.clone(),
            lost: rival.lost,
            broken: rival.broken.values().sum(),
            broken_by_kind: rival.broken.clone(),
            remembered: rival.remembered,
            slot_bytes: self.plain.memory_bytes(),
            flow_bytes: rival.entries * LRU_ENTRY_BYTES,
            consulted: super::tally::share(rival.consulted, rival.packets),
        };
        self.rivals.iter().map(row).collect()
    }
}
