//! One balancer: the real controller over the real forwarding core in memory.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;

use guideway_control::Controller;
use guideway_control::controller::spec::{
    Admin, AllDown, BackendSpec, Health, Listen, Protocol, ServiceSpec, TableRule, TableSizeSpec, TableSpec,
    TunnelSpec,
};
use guideway_control::controller::{ChangeError, Removal};
use guideway_forward::record::backend::NextHop;
use guideway_forward::record::{NO_BACKEND, Policy, Slot};
use guideway_forward::service::Target;
use guideway_forward::{Event, Outcome, Verdict, flow, service, slot};
use guideway_soft::{Limits, Memory, Worker};
use guideway_wire::{FlowKey, SliceFrame, Tunnel};

use super::frame::{SERVER_ID_LEN, SERVER_ID_OFFSET, VIP};
use super::history::{Change, Life, Server, World};
use super::settings::Settings;
use super::traffic::{Kind, Millis};

/// Room before a frame for the outer headers.
const HEAD_ROOM: usize = 128;
/// Room after it for an answer that is longer than what it answers.
const TAIL_ROOM: usize = 128;

/// Where a packet went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// To this server, by the outer destination of the frame that left.
    To(Server),
    /// The balancer answered, passed or dropped it.
    Not(Outcome),
}

/// What a balancer holds of a flow's place, read before a packet is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) index: u32,
    pub(crate) slot: Slot,
    /// Whether the table before a change of size or seed is consulted.
    pub(crate) prior: bool,
    /// To whom a new flow goes.
    pub(crate) current: Option<Server>,
    /// Where the flow table says, while the entry lives.
    pub(crate) remembered: Option<Remembered>,
}

/// A live entry of the flow table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) server: Option<Server>,
    /// When it was written or touched last.
    pub(crate) silence_seconds: u32,
}

impl View {
    /// Whether the slot alone decides.
    pub(crate) fn is_settled(&self) -> bool {
        self.slot.is_settled() && !self.prior
    }
}

/// A balancer.
#[derive(Debug)]
pub(crate) struct Balancer {
    controller: Controller<Arc<Memory>>,
    worker: Worker,
    frame: Vec<u8>,
    /// Its clock at the beginning of the run, seconds: every machine has another.
    clock: u32,
    /// When it began with an empty memory.
    pub(crate) began: Millis,
    /// Buckets of the flow table in which a flow could not be remembered, or was forgotten for another; and when last.
    pub(crate) crowded: HashMap<u32, Millis>,
}

impl Balancer {
    /// A balancer that has just started with this wanted of it.
    pub(crate) fn start(
        settings: &Settings,
        world: &World,
        number: u64,
        now: Millis,
    ) -> Result<Self, ChangeError> {
        let places = 4 * (settings.backends + settings.changes) + 64;
        let limits = Limits {
            services: Kind::ALL.len() as u16,
            backends: places * Kind::ALL.len() as u32,
            slots: 4 * Kind::ALL.len() as u32 * (settings.slots + 64),
            flows: settings.flow_entries,
            fragments: 4,
            threads: 1,
            icmp_per_second: 1_000,
        };
        let key = settings.seed ^ (number << 32) ^ now;
        let memory = Arc::new(Memory::new(limits, [key.wrapping_mul(0x9e37_79b9_7f4a_7c15), !key]));
        // Machines differ in what their clocks say; the wrap of the stamps (2^24 s) comes within the run on the second.
        let clock = ((number as u32).wrapping_mul(0xff_fe00) & 0xff_ffff) + 1;
        memory.set_now_seconds(clock + (now / 1000) as u32);
        let worker = memory.worker().ok_or(ChangeError::Full {
            service: String::new(),
            what: "packet thread",
            asked: 1,
            free: 0,
            capacity: 1,
        })?;
        let mut controller = Controller::new(memory);
        for kind in Kind::ALL {
            let health = |backend: &BackendSpec| match server_of(backend.address) {
                Some(server) if world.life(server) == Life::Down => Health::Down,
                _ => Health::Up,
            };
            controller.add_service_with(service_spec(settings, world, kind), health)?;
        }
        let mut balancer =
            Self { controller, worker, frame: Vec::new(), clock, began: now, crowded: HashMap::new() };
        balancer.tell_time(now);
        Ok(balancer)
    }

    /// Makes a change of the fleet known here.
    pub(crate) fn apply(&mut self, change: Change, world: &World, now: Millis) -> Result<(), ChangeError> {
        self.tell_time(now);
        for kind in Kind::ALL {
            let (service, controller) = (kind.service(), &mut self.controller);
            match change {
                Change::Add(server, weight) => {
                    controller.add_backend(service, backend_spec(server, Life::Active, weight), Health::Up)
                }
                Change::AddAgain(server) => {
                    let weight = world.servers.get(&server).map_or(1, |&(_, weight)| weight);
                    controller.add_backend(service, backend_spec(server, Life::Active, weight), Health::Up)
                }
                Change::Remove(server) => {
                    controller.remove_backend(service, &identity(server), Removal::Drain)
                }
                Change::RemoveAtOnce(server) => {
                    controller.remove_backend(service, &identity(server), Removal::AtOnce)
                }
                Change::Drain(server) => controller.set_admin(service, &identity(server), Admin::Draining),
                Change::Undrain(server) => controller.set_admin(service, &identity(server), Admin::Active),
                Change::Down(server) => controller.set_health(service, &identity(server), Health::Down),
                Change::Up(server) => controller.set_health(service, &identity(server), Health::Up),
                Change::Weight(server, weight) => controller.set_weight(service, &identity(server), weight),
                Change::Resize(_) | Change::Reseed(_) => {
                    controller.resize(service, TableSizeSpec::Slots(world.slots), world.seed)
                }
            }?;
        }
        Ok(())
    }

    /// Lets the controller do what is due.
    pub(crate) fn tick(&mut self, now: Millis) {
        self.tell_time(now);
        self.controller.tick();
    }

    /// What is held of the place of a flow.
    pub(crate) fn view(&self, key: &FlowKey) -> Option<View> {
        let target = service::find(key, &self.worker)?;
        let place = slot::place(&target, key, &self.worker)?;
        let keyed = self.worker.memory().settings().keyed_hash(key, target.id);
        let seconds = self.worker.memory().now_seconds();
        let remembered = flow::find(keyed, &target, seconds, &self.worker).map(|found| Remembered {
            server: self.server(&target, found.tag.backend()),
            silence_seconds: found.info.silence(seconds),
        });
        Some(View {
            index: place.index,
            slot: place.slot,
            prior: target.active.prior(),
            current: self.server(&target, place.slot.current()),
            remembered,
        })
    }

    /// The server that a local index of the flow's service means.
    pub(crate) fn server_at(&self, key: &FlowKey, local: u16) -> Option<Server> {
        self.server(&service::find(key, &self.worker)?, local)
    }

    /// The bucket of the flow table that a flow belongs to.
    pub(crate) fn bucket(&self, key: &FlowKey) -> Option<u32> {
        let target = service::find(key, &self.worker)?;
        let memory = self.worker.memory();
        let mask = memory.flows().len() as u32 - 1;
        Some(memory.settings().keyed_hash(key, target.id) as u32 & mask)
    }

    /// Decides a frame.
    pub(crate) fn packet(&mut self, bytes: &[u8], key: &FlowKey, now: Millis) -> Went {
        self.tell_time(now);
        self.frame.clear();
        self.frame.resize(HEAD_ROOM + bytes.len() + TAIL_ROOM, 0);
        self.frame[HEAD_ROOM..HEAD_ROOM + bytes.len()].copy_from_slice(bytes);
        let bucket = self.bucket(key);
        let full = bucket.is_some_and(|bucket| self.is_full(bucket));
        let before = if full { self.crowding() } else { 0 };
        let Some(mut packet) = SliceFrame::new(&mut self.frame, HEAD_ROOM, bytes.len()) else {
            return Went::Not(Outcome::DroppedNoHeadRoom);
        };
        let verdict = self.worker.process(&mut packet);
        let range = packet.range();
        if let Some(bucket) = bucket.filter(|_| full)
            && self.crowding() != before
        {
            self.crowded.insert(bucket, now);
        }
        let outer = self.frame.get(range.0 + 30..range.0 + 34);
        match (verdict, outer) {
            (Verdict::Forward(_), Some(&[a, b, c, d])) => {
                match server_of(IpAddr::V4(Ipv4Addr::new(a, b, c, d))) {
                    Some(server) => Went::To(server),
                    None => Went::Not(verdict.outcome()),
                }
            }
            _ => Went::Not(verdict.outcome()),
        }
    }

    /// Flows that are remembered and live.
    pub(crate) fn remembered(&self) -> usize {
        let memory = self.worker.memory();
        let now = memory.now_seconds();
        let entries = memory.flows().iter().flat_map(|bucket| &bucket.entries);
        entries
            .filter(|entry| {
                let (Some(tag), info) = (entry.tag(), entry.info()) else { return false };
                memory.service(info.service()).is_some_and(|service| {
                    let idle =
                        tag.class().idle_seconds(service.tcp_idle_seconds(), service.udp_idle_seconds());
                    info.silence(now) <= idle
                })
            })
            .count()
    }

    /// Bytes of the tables that decide: slots in use, and the flow table.
    pub(crate) fn memory_bytes(&self) -> (usize, usize) {
        let slots: usize = self.controller.status().iter().map(|service| service.slots as usize * 4).sum();
        (slots, self.worker.memory().memory_report().flows)
    }

    /// The sum of the generations of all tables: it rises when any owner changes.
    pub(crate) fn generation(&self) -> u32 {
        Kind::ALL
            .iter()
            .filter_map(|kind| self.controller.service_id(kind.service()))
            .filter_map(|id| self.worker.memory().service(id))
            .map(|record| record.active().generation())
            .sum()
    }

    /// Checks that every packet has one fate.
    pub(crate) fn balance(&self) -> Result<(), guideway_soft::Unbalanced> {
        self.worker.memory().totals().balance()
    }

    fn tell_time(&mut self, now: Millis) {
        self.worker.memory().set_now_seconds(self.clock + (now / 1000) as u32);
        self.worker.refresh();
    }

    fn server(&self, target: &Target<'_>, local: u16) -> Option<Server> {
        if local == NO_BACKEND {
            return None;
        }
        let record = self.worker.memory().backend(target.service.backend_index(local)?)?;
        let [.., a, b, c, d] = record.address();
        server_of(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
    }

    fn is_full(&self, bucket: u32) -> bool {
        let bucket = self.worker.memory().flows().get(bucket as usize);
        bucket.is_some_and(|bucket| bucket.entries.iter().all(|entry| entry.tag().is_some()))
    }

    fn crowding(&self) -> u64 {
        let totals = self.worker.memory().totals();
        totals.event(Event::FlowInsertFailed) + totals.event(Event::FlowEvicted)
    }
}

fn service_spec(settings: &Settings, world: &World, kind: Kind) -> ServiceSpec {
    let protocol = if kind == Kind::Tcp { Protocol::Tcp } else { Protocol::Udp };
    let quic = (kind == Kind::Quic).then_some((SERVER_ID_OFFSET, SERVER_ID_LEN));
    let backends = world
        .servers
        .iter()
        .filter(|(_, (life, _))| life.is_wanted())
        .map(|(&server, &(life, weight))| backend_spec(server, life, weight))
        .collect();
    ServiceSpec {
        name: kind.service().to_owned(),
        listen: NonZeroU16::new(kind.port())
            .map(|port| Listen::on(IpAddr::V4(VIP.into()), port, protocol))
            .into_iter()
            .collect(),
        table: TableSpec {
            rule: TableRule::Maglev,
            size: TableSizeSpec::Slots(world.slots),
            seed: world.seed,
        },
        policy: Policy::default().with_quic(quic),
        tcp_idle_seconds: settings.tcp_idle_seconds,
        udp_idle_seconds: settings.udp_idle_seconds,
        all_down: AllDown::LastResort,
        backends,
    }
}

fn backend_spec(server: Server, life: Life, weight: u32) -> BackendSpec {
    BackendSpec {
        identity: identity(server).into(),
        address: address_of(server),
        weight,
        admin: if life == Life::Draining { Admin::Draining } else { Admin::Active },
        tunnel: TunnelSpec {
            kind: Tunnel::Ipip,
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254)),
            source_entropy_bits: 0,
            gue_port: guideway_wire::gue::PORT,
            mtu: 1500,
            next_hop: NextHop {
                interface: 1,
                neighbour: [2, 0, 0, 0, 3, 3],
                own_mac: [2, 0, 0, 0, 2, 2],
                link_mtu: None,
            },
        },
        quic_id: Some(u64::from(server.0)),
    }
}

/// What tables know a server by.
pub(crate) fn identity(server: Server) -> String {
    format!("server-{}", server.0)
}

fn address_of(server: Server) -> IpAddr {
    let [high, low] = server.0.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 1, high, low))
}

fn server_of(address: IpAddr) -> Option<Server> {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, 1, high, low] => Some(Server(u16::from_be_bytes([high, low]))),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}
