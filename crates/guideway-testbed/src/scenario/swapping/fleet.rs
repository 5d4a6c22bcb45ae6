//! The backends and their changes; the tables that have to come of them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Release};

use guideway_control::controller::spec::{
    Admin, AllDown, BackendSpec, Health, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use guideway_control::controller::{ChangeError, Removal, ServiceChange};
use guideway_control::{Controller, Engine};
use guideway_forward::record::Policy;
use guideway_forward::record::backend::NextHop;
use guideway_hash::maglev::MaglevBuilder;
use guideway_hash::{NativeHasher, TableSize};
use guideway_wire::{FlowHasher, FlowKey, HashKey, Tunnel};

use super::super::port;
use crate::topology::{Host, VIPS};

pub(super) const PORT: u16 = 443;
pub(super) const SEED: u64 = 0x7ab1_e5a9_5eed_0001;
const NAME: &str = "swapped";
const SIZES: [u32; 4] = [251, 509, 1009, 2003];
const BACKENDS: usize = 8;

/// Those that take new flows at any time.
const FEWEST: usize = 2;

/// What the service takes for the end of a silent flow.
pub(super) const IDLE_SECONDS: u32 = 30;

/// The backends as they are wanted now.
pub(super) struct Fleet {
    host: Host,
    backends: [Option<(Admin, u32)>; BACKENDS],
    size: u32,
    seed: u64,
    random: Random,
}

/// A change of one backend, or of what the table is made with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// Size and seed: another region of the slots.
    Table(u32, u64),
    Remove(usize),
    Add(usize),
    Admin(usize, Admin),
    Weight(usize, u32),
}

/// Whose each slot of a table is, and which flows fall there.
#[derive(Clone)]
pub(super) struct Table {
    hasher: FlowHasher,
    owners: Vec<u8>,
}

/// What the balancer has held and holds.
pub(super) struct Oracle {
    /// All tables, by generation; the last one may be on its way into force.
    tables: RwLock<Vec<Table>>,
    /// The generation that is in force as a whole.
    whole: AtomicUsize,
    sent: AtomicU64,
    rounds: AtomicUsize,
}

impl Fleet {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            backends: [Some((Admin::Active, 1)); BACKENDS],
            size: SIZES[0],
            seed: SEED,
            random: Random(SEED),
        }
    }

    /// The service at the beginning.
    pub(super) fn service(&self) -> ServiceSpec {
        ServiceSpec {
            name: NAME.to_owned(),
            listen: VIPS.iter().map(|&vip| Listen::on(vip, port(PORT), Protocol::Tcp)).collect(),
            table: TableSpec {
                rule: TableRule::Maglev,
                size: TableSizeSpec::Slots(self.size),
                seed: self.seed,
            },
            policy: Policy::default(),
            tcp_idle_seconds: IDLE_SECONDS,
            udp_idle_seconds: IDLE_SECONDS,
            all_down: AllDown::default(),
            backends: (0..BACKENDS).map(|backend| self.backend(backend)).collect(),
        }
    }

    fn backend(&self, number: usize) -> BackendSpec {
        let (admin, weight) = self.backends[number].unwrap_or((Admin::Active, 1));
        BackendSpec {
            identity: name(number).into(),
            address: address(number),
            weight,
            admin,
            tunnel: TunnelSpec {
                kind: Tunnel::Ipip,
                source: self.host.v4,
                source_entropy_bits: 0,
                gue_port: guideway_wire::gue::PORT,
                mtu: 1500,
                next_hop: NextHop {
                    interface: self.host.link.index(),
                    neighbour: mac(number),
                    own_mac: self.host.link.mac(),
                    link_mtu: None,
                },
            },
            quic_id: None,
        }
    }

    /// The table as it is wanted now.
    pub(super) fn table(&self) -> Table {
        let active = self.backends.iter().enumerate().filter_map(|(number, backend)| match backend {
            Some((Admin::Active, weight)) => Some((number, *weight)),
            _ => None,
        });
        let (numbers, candidates): (Vec<_>, Vec<_>) =
            active.map(|(number, weight)| (number as u8, (name(number), weight))).unzip();
        let size = TableSize::new(self.size).unwrap();
        let builder = MaglevBuilder::new().size(size).hasher(NativeHasher::new(self.seed));
        let owners =
            builder.build(&candidates).unwrap().iter().map(|owner| numbers[owner as usize]).collect();
        Table { hasher: FlowHasher::new(self.seed), owners }
    }

    /// Makes the next change of backends that gives another table than `before`, and says how many slots it moves.
    pub(super) fn change(&mut self, before: &Table) -> (Change, Option<u32>) {
        loop {
            let change = self.any_change();
            let undo = self.backends;
            self.take(change);
            let active = self.backends.iter().flatten().filter(|(admin, _)| *admin == Admin::Active).count();
            if active >= FEWEST {
                let now = self.table().owners;
                let moved = now.iter().zip(&before.owners).filter(|(now, then)| now != then).count();
                if moved > 0 {
                    return (change, Some(moved as u32));
                }
            }
            self.backends = undo;
        }
    }

    /// Makes the next change of seed, size or both.
    pub(super) fn change_table(&mut self) -> Change {
        let before = (self.size, self.seed);
        while before == (self.size, self.seed) {
            let which = self.random.below(3);
            if which != 0 {
                self.size = SIZES[self.random.below(SIZES.len() as u64) as usize];
            }
            if which != 1 {
                self.seed = self.random.below(u64::MAX);
            }
        }
        Change::Table(self.size, self.seed)
    }

    fn any_change(&mut self) -> Change {
        let (kind, number) = (self.random.below(4), self.random.below(BACKENDS as u64) as usize);
        match (self.backends[number], kind) {
            (None, _) => Change::Add(number),
            (Some(_), 0) => Change::Remove(number),
            (Some(_), 1) => Change::Weight(number, 1 + self.random.below(5) as u32),
            (Some((Admin::Active, _)), _) => Change::Admin(number, Admin::Draining),
            (Some(_), _) => Change::Admin(number, Admin::Active),
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Table(size, seed) => (self.size, self.seed) = (size, seed),
            Change::Remove(number) => self.backends[number] = None,
            Change::Add(number) => self.backends[number] = Some((Admin::Active, 1)),
            Change::Admin(number, admin) => {
                self.backends[number].iter_mut().for_each(|backend| backend.0 = admin);
            }
            Change::Weight(number, weight) => {
                self.backends[number].iter_mut().for_each(|backend| backend.1 = weight);
            }
        }
    }
}

impl Change {
    /// Has the controller make it.
    pub(super) fn make<E: Engine>(
        self,
        controller: &mut Controller<E>,
        fleet: &Fleet,
    ) -> Result<ServiceChange, ChangeError> {
        match self {
            Self::Table(size, seed) => controller.resize(NAME, TableSizeSpec::Slots(size), seed),
            Self::Remove(number) => controller.remove_backend(NAME, &name(number), Removal::Drain),
            Self::Add(number) => controller.add_backend(NAME, fleet.backend(number), Health::Unchecked),
            Self::Admin(number, admin) => controller.set_admin(NAME, &name(number), admin),
            Self::Weight(number, weight) => controller.set_weight(NAME, &name(number), weight),
        }
    }
}

impl Table {
    fn owner(&self, flow: &FlowKey) -> u8 {
        let slot = self.hasher.hash(flow, HashKey::FiveTuple) % self.owners.len() as u64;
        self.owners[slot as usize]
    }
}

impl Oracle {
    /// Of a balancer whose first table is in force.
    pub(super) fn new(table: Table) -> Self {
        let [whole, rounds] = [const { AtomicUsize::new(0) }; 2];
        Self { tables: RwLock::new(vec![table]), whole, sent: AtomicU64::new(0), rounds }
    }

    /// A table is about to be written.
    pub(super) fn begin(&self, table: Table) {
        self.tables.write().unwrap().push(table);
    }

    /// It is written.
    pub(super) fn end(&self) {
        self.whole.fetch_add(1, Release);
    }

    /// The generation that is in force, or the last one that was before one that is being written.
    pub(super) fn whole(&self) -> usize {
        self.whole.load(Acquire)
    }

    /// Whom a new flow may have gone to since this generation was whole.
    pub(super) fn owners_since(&self, generation: usize, flow: &FlowKey) -> Vec<u8> {
        let mut owners: Vec<_> =
            self.tables.read().unwrap()[generation..].iter().map(|table| table.owner(flow)).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Packets on the link so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Acquire)
    }

    /// So many packets come onto the link now.
    pub(super) fn send(&self, packets: usize) {
        self.sent.fetch_add(packets as u64, Release);
    }

    /// Rounds of packets of which each was checked.
    pub(super) fn rounds(&self) -> usize {
        self.rounds.load(Acquire)
    }

    /// All packets of a round were checked.
    pub(super) fn end_round(&self) {
        self.rounds.fetch_add(1, Release);
    }
}

/// Arbitrary numbers, the same each time: SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// The next one, below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

fn name(number: usize) -> String {
    format!("be{number}")
}

/// The address of a backend that is nowhere but in the outer headers.
pub(super) fn address(number: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 2, number as u8))
}

pub(super) fn mac(number: usize) -> [u8; 6] {
    [2, 0x67, 0x77, 0x73, 0x77, number as u8]
}
