//! The same forwarder twice: the program in the kernel, run on given bytes, and the core over memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use guideway_forward::cases::world::World;
use guideway_forward::outcome::{Event, Outcome, Verdict};
use guideway_forward::record::{
    Active, Backend, BackendState, Bucket, Entry, Service, ServiceId, Settings, Slot,
};
use guideway_soft::{Binding, Limits, Memory, QuicBinding, Totals, Worker};
use guideway_wire::SliceFrame;
use guideway_xdp::{Action, Balancer, Error};

const FLOW_KEY: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
/// The head room that the kernel gives to an XDP program.
const HEAD_ROOM: usize = 256;

const LIMITS: Limits = Limits {
    services: 16,
    backends: 16,
    slots: 1_024,
    flows: 256,
    fragments: 256,
    threads: 1,
    icmp_per_second: 100,
};

/// Both engines, holding the same.
pub(crate) struct Twin {
    kernel: Balancer,
    soft: Arc<Memory>,
    worker: Worker,
    now: u32,
    services: usize,
}

impl Twin {
    /// `None`, with a line that says so, where the machine does not let BPF programs be loaded; a failure of the test
    /// where that is required.
    pub(crate) fn new() -> Option<Twin> {
        let kernel = match Balancer::load(&LIMITS, FLOW_KEY) {
            Ok(kernel) => kernel,
            Err(Error::NotPermitted) if std::env::var_os("GUIDEWAY_REQUIRE_PRIVILEGES").is_none() => {
                eprintln!("skipped: {}", Error::NotPermitted);
                return None;
            }
            Err(Error::Refused { log, .. }) => panic!("refused:\n{log}"),
            Err(error) => panic!("{error}"),
        };
        kernel.reach_slots(u32::MAX).unwrap();
        let (soft, worker) = memory(LIMITS.icmp_per_second);
        Some(Twin { kernel, soft, worker, now: 1_000, services: 0 })
    }

    /// Both forget everything and hold `world`.
    pub(crate) fn install(&mut self, world: &World) {
        // A second in which nothing was sent or remembered yet.
        self.now = self.now.wrapping_add(1_000_000);
        (self.soft, self.worker) = memory(world.icmp_tokens);
        self.kernel.set_icmp_per_second(world.icmp_tokens);
        self.services = world.services.len();
        let (bindings, quic) = (bindings(world), quic(world));
        fill(&self.kernel, world);
        fill(&*self.soft, world);
        self.kernel.publish(&bindings, &quic).unwrap();
        self.soft.publish(guideway_soft::Directory::build(&bindings, &quic));
        self.worker.refresh();
        self.pass(0);
    }

    /// Seconds pass.
    pub(crate) fn pass(&mut self, seconds: u32) {
        self.now = self.now.wrapping_add(seconds);
        self.kernel.stop_clock(Some(self.now));
        self.soft.set_now_seconds(self.now);
    }

    /// Every slot of every active table becomes this word.
    pub(crate) fn rewrite_slots(&self, slot: Slot) {
        for id in (0..self.services).map(|id| ServiceId(id as u16)) {
            rewrite(self.kernel.service(id).unwrap(), self.kernel.slots(), slot);
            rewrite(self.soft.service(id).unwrap(), self.soft.slots(), slot);
        }
    }

    /// A backend changes its state.
    pub(crate) fn set_state(&self, backend: usize, state: BackendState) {
        self.kernel.backend(backend as u32).unwrap().set_state(state);
        self.soft.backend(backend as u32).unwrap().set_state(state);
    }

    /// Runs a frame through both, and compares what became of it: bytes, action, every counter.
    pub(crate) fn run(&self, input: &[u8]) -> Result<Seen, String> {
        let (before, soft_before) = (self.kernel.totals(), self.soft.totals());
        let mut buffer = vec![0xa5; HEAD_ROOM];
        buffer.extend(input);
        let mut frame = SliceFrame::new(&mut buffer, HEAD_ROOM, input.len()).unwrap();
        let verdict = self.worker.process(&mut frame);
        let run = self.kernel.run(input).map_err(|error| error.to_string())?;
        let expected = match verdict {
            Verdict::Forward(_) => Action::Redirect,
            Verdict::Answer(_) => Action::Transmit,
            Verdict::Pass(_) => Action::Pass,
            Verdict::Drop(_) => Action::Drop,
        };
        let differ = |what: String| {
            Err(format!("{what}\n    soft {verdict:?}, kernel {:?}\n in {input:02x?}", run.action))
        };
        if run.action != expected {
            return differ("the actions differ".into());
        }
        if !matches!(verdict, Verdict::Drop(_)) && run.frame != frame.bytes() {
            return differ(format!(
                "the frames differ:\n  soft {:02x?}\nkernel {:02x?}",
                frame.bytes(),
                run.frame
            ));
        }
        let (kernel, soft) =
            (changes(&before, &self.kernel.totals()), changes(&soft_before, &self.soft.totals()));
        if kernel != soft {
            return differ(format!("the counters differ: soft {soft:?}, kernel {kernel:?}"));
        }
        Ok(Seen { outcome: verdict.outcome(), output: run.frame, events: kernel.1 })
    }

    /// That both remember the same flows in the same places.
    pub(crate) fn compare_memories(&self) -> Result<(), String> {
        let words = |buckets: &[Bucket]| -> Vec<[u64; 2]> {
            let word = |entry: &Entry| [entry.tag.load(Relaxed), entry.info.load(Relaxed)];
            buckets.iter().flat_map(|bucket| &bucket.entries).map(word).collect()
        };
        let (kernel, soft) = (words(self.kernel.flows()), words(self.soft.flows()));
        match kernel == soft {
            true => Ok(()),
            false => Err(format!(
                "the flow tables differ: {} entries in the kernel, {} in memory",
                kernel.iter().filter(|entry| entry[0] != 0).count(),
                soft.iter().filter(|entry| entry[0] != 0).count(),
            )),
        }
    }
}

/// What became of a frame, in both engines.
pub(crate) struct Seen {
    pub(crate) outcome: Outcome,
    pub(crate) output: Vec<u8>,
    pub(crate) events: Vec<(Event, u64)>,
}

type Changes = (Vec<(Outcome, u64, u64)>, Vec<(Event, u64)>);

fn changes(before: &Totals, after: &Totals) -> Changes {
    let outcomes = after.outcomes().filter_map(|(outcome, count)| {
        let change = count.since(before.outcome(outcome));
        (change.packets != 0).then_some((outcome, change.packets, change.bytes))
    });
    let events = after.events().filter_map(|(event, count)| {
        let change = count - before.event(event);
        (change != 0).then_some((event, change))
    });
    (outcomes.collect(), events.collect())
}

fn memory(icmp_per_second: u32) -> (Arc<Memory>, Worker) {
    let memory = Arc::new(Memory::new(Limits { icmp_per_second, ..LIMITS }, FLOW_KEY));
    let worker = memory.worker().unwrap();
    (memory, worker)
}

/// What both engines let a controller reach.
trait Records {
    fn service(&self, id: ServiceId) -> Option<&Service>;
    fn backend(&self, index: u32) -> Option<&Backend>;
    fn slots(&self) -> &[AtomicU32];
    fn settings(&self) -> &Settings;
    fn forget(&self);
}

impl Records for Balancer {
    fn service(&self, id: ServiceId) -> Option<&Service> {
        self.service(id)
    }

    fn backend(&self, index: u32) -> Option<&Backend> {
        self.backend(index)
    }

    fn slots(&self) -> &[AtomicU32] {
        self.slots()
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn forget(&self) {
        for entry in self.flows().iter().flat_map(|bucket| &bucket.entries) {
            entry.tag.store(0, Relaxed);
            entry.info.store(0, Relaxed);
        }
        for entry in self.fragments().iter().flat_map(|bucket| &bucket.entries) {
            entry.hash.store(0, Relaxed);
            entry.place.store(0, Relaxed);
        }
    }
}

impl Records for Memory {
    fn service(&self, id: ServiceId) -> Option<&Service> {
        self.service(id)
    }

    fn backend(&self, index: u32) -> Option<&Backend> {
        self.backend(index)
    }

    fn slots(&self) -> &[AtomicU32] {
        self.slots()
    }

    fn settings(&self) -> &Settings {
        self.settings()
    }

    fn forget(&self) {}
}

fn fill(engine: &impl Records, world: &World) {
    engine.forget();
    let mut offset = 0;
    for (id, spec) in world.services.iter().enumerate() {
        let service = engine.service(ServiceId(id as u16)).unwrap();
        service.set_backends(0, world.backends.len() as u32);
        service.set_policy(spec.policy);
        service.set_idle_seconds(spec.tcp_idle_seconds, spec.udp_idle_seconds);
        let first = Active::new(false, false, 1);
        for (table, slots) in [(service.table(first), &spec.table), (service.other_table(first), &spec.prior)]
        {
            table.set(offset, slots.len() as u32, spec.seed ^ slots.len() as u64);
            for slot in slots {
                engine.slots()[offset as usize].store(slot.0, Relaxed);
                offset += 1;
            }
        }
        let active = Active::new(false, !spec.prior.is_empty(), 1);
        service.set_active(active.with_grace(spec.prior_in_grace));
    }
    for index in 0..LIMITS.backends {
        let backend = engine.backend(index).unwrap();
        match world.backends.get(index as usize) {
            Some(spec) => backend.store(spec),
            None => backend.set_state(BackendState::Free),
        }
    }
    let any_port = world.services.iter().any(|spec| spec.port == 0);
    engine.settings().set_lookups(any_port, world.services.iter().any(|spec| spec.prefix_bits.is_some()));
    engine.settings().set_own_sources(world.own_sources.first().copied(), world.own_sources.get(1).copied());
}

fn rewrite(service: &Service, slots: &[AtomicU32], slot: Slot) {
    let (offset, size) = service.table(service.active()).place();
    slots.iter().skip(offset as usize).take(size as usize).for_each(|word| word.store(slot.0, Relaxed));
}

fn bindings(world: &World) -> Vec<Binding> {
    let binding = |(id, spec): (usize, &guideway_forward::cases::world::ServiceSpec)| Binding {
        address: spec.address,
        prefix_bits: spec.prefix_bits.unwrap_or(128) as u8,
        port: spec.port,
        protocol: spec.protocol,
        service: ServiceId(id as u16),
    };
    world.services.iter().enumerate().map(binding).collect()
}

fn quic(world: &World) -> Vec<QuicBinding> {
    let of_service = |(id, spec): (usize, &guideway_forward::cases::world::ServiceSpec)| {
        let service = ServiceId(id as u16);
        let servers = spec.quic_servers.clone();
        servers.into_iter().map(move |(server_id, backend)| QuicBinding { service, server_id, backend })
    };
    world.services.iter().enumerate().flat_map(of_service).collect()
}
