//! What Guideway is compared with: the same tables without memory, and with a table of recently used connections.

use guideway_hash::maglev::{BuildError, MaglevBuilder};
use guideway_hash::prime::SizeError;
use guideway_hash::{NativeHasher, TableSize};
use guideway_wire::{FlowHasher, FlowKey, HashKey};

use super::balancer::identity;
use super::history::{Life, Server, World};
use super::lru::Lru;
use super::traffic::{Kind, Millis, Send};

/// A lookup table built straight from the wanted state, with no thought of what was before.
#[derive(Debug)]
pub(crate) struct Plain {
    owners: Vec<Server>,
    hasher: FlowHasher,
}

/// The table can't be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlainError {
    /// Its size is wrong.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Maglev refuses.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Plain {
    pub(crate) fn build(world: &World) -> Result<Self, PlainError> {
        let eligible: Vec<(Server, String, u32)> = world
            .servers
            .iter()
            .filter(|(_, (life, weight))| *life == Life::Active && *weight > 0)
            .map(|(&server, &(_, weight))| (server, identity(server), weight))
            .collect();
        let backends: Vec<(&str, u32)> =
            eligible.iter().map(|(_, name, weight)| (name.as_str(), *weight)).collect();
        let table = MaglevBuilder::new()
            .size(TableSize::new(world.slots)?)
            .hasher(NativeHasher::new(world.seed))
            .build(&backends)?;
        let owners =
            table.iter().filter_map(|place| eligible.get(place as usize)).map(|&(server, ..)| server);
        Ok(Self { owners: owners.collect(), hasher: FlowHasher::new(world.seed) })
    }

    /// The owner of the flow's slot.
    pub(crate) fn owner(&self, key: &FlowKey) -> Option<Server> {
        let slot = self.hasher.hash(key, HashKey::FiveTuple).checked_rem(self.owners.len() as u64)?;
        self.owners.get(slot as usize).copied()
    }

    /// Bytes at the four a slot that all strategies are charged.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.owners.len() * 4
    }
}

/// Bytes of an entry of a table of connections: the 40 bytes of an IPv6-sized key, backend and time stamp, and the
/// links that keep the order of use. Kernel hash tables of this sort take more.
pub(crate) const LRU_ENTRY_BYTES: usize = 64;

/// A balancer's tables of connections beside the plain table, as Katran and GLB have: a SYN always takes the present
/// owner, any other packet what the table says, or the present owner when it says nothing.
///
/// There is one table, or one for each CPU, which share the memory. A CPU sees only the flows whose packets the network
/// card hands to it.
#[derive(Debug)]
pub(crate) struct Connections {
    tables: Vec<Lru<FlowKey, (Server, Millis)>>,
    udp_idle: Millis,
}

/// How a packet came to a balancer: by which of its network cards. Each spreads flows over the CPUs by a key of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) balancer: usize,
    pub(crate) card: u64,
}

impl Arrival {
    fn cpu(self, key: &FlowKey, cpus: usize) -> usize {
        if cpus < 2 {
            return 0;
        }
        let receive_side_scaling = FlowHasher::new(self.balancer as u64 * 2 + self.card);
        (receive_side_scaling.hash(key, HashKey::FiveTuple) % cpus as u64) as usize
    }
}

impl Connections {
    pub(crate) fn new(entries: usize, cpus: usize, udp_idle: Millis) -> Self {
        Self { tables: (0..cpus).map(|_| Lru::new(entries / cpus)).collect(), udp_idle }
    }

    pub(crate) fn packet(
        &mut self,
        key: &FlowKey,
        arrival: Arrival,
        (kind, send): (Kind, Send),
        (plain, world): (&Plain, &World),
        now: Millis,
    ) -> Option<Server> {
        let cpu = arrival.cpu(key, self.tables.len());
        let table = self.tables.get_mut(cpu)?;
        let opens = kind == Kind::Tcp && send == Send::Open;
        let known = table.get(key).filter(|(server, seen)| {
            let over = kind != Kind::Tcp && now - seen > self.udp_idle;
            !opens && !over && world.life(*server).keeps_flows()
        });
        let server = match known {
            Some((server, _)) => server,
            None => plain.owner(key)?,
        };
        table.insert(*key, (server, now));
        Some(server)
    }

    pub(crate) fn remembered(&self) -> usize {
        self.tables.iter().map(Lru::len).sum()
    }
}

/// Which server a packet's connection id names; all strategies route QUIC by it.
pub(crate) fn by_connection_id(
    (kind, send): (Kind, Send),
    server: Option<Server>,
    world: &World,
) -> Option<Server> {
    let named = kind == Kind::Quic && send != Send::Open;
    server.filter(|server| named && world.life(*server).keeps_flows())
}
