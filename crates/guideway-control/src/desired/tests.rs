//! Configuration, overrides, checks and the real controller over memory, against a virtual clock.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, UNIX_EPOCH};

use guideway_forward::record::flow::Class;
use guideway_forward::record::{BackendState, Info, Slot, Tag};
use guideway_soft::{Limits, Memory};

use super::*;
use crate::config::{self, Source};
use crate::controller::{BackendStatus, Removal, ServiceStatus};
use crate::drain::{self, DrainEvent, DrainKey, Drains, Phase};
use crate::health::{Answer, Fault, Passed};
use crate::overrides::AdminState;

mod drains;
mod next_hops;
mod renames;
mod verdicts;

const SECOND: Duration = Duration::from_secs(1);

struct World {
    board: Board,
    desired: Desired,
    controller: Controller<Arc<Memory>>,
    start: Instant,
    now: Instant,
    /// The last octets of those that do not answer.
    sick: HashSet<u8>,
    commits: usize,
}

fn memory() -> Arc<Memory> {
    let limits = Limits { services: 8, backends: 256, slots: 200_000, flows: 1_024, ..Limits::default() };
    Arc::new(Memory::new(limits, [1, 2]))
}

impl World {
    fn new(config: &Config) -> Self {
        let now = Instant::now();
        let (board, desired) = (Board::new(3), Desired::default());
        let controller = Controller::new(memory());
        let mut world =
            Self { board, desired, controller, start: now, now, sick: HashSet::new(), commits: 0 };
        world.configure(config);
        world
    }

    /// One whose backends are all up, and whose slots have settled.
    fn well(config: &Config) -> Self {
        let mut world = Self::new(config);
        world.pass(400 * SECOND);
        world
    }

    fn configure(&mut self, config: &Config) {
        self.desired.configure(config, &mut self.board, self.now);
        self.commit();
    }

    /// Another process over other memory, with what the files say.
    fn restart(&mut self, config: &Config) {
        let snapshot = serde_json::to_string(&self.board.snapshot(self.now)).unwrap();
        let overrides = serde_json::to_string(self.desired.overrides()).unwrap();
        self.board = Board::restore(4, serde_json::from_str(&snapshot).unwrap(), SECOND);
        self.desired = Desired::new(serde_json::from_str(&overrides).unwrap());
        self.controller = Controller::new(memory());
        self.set_clock(self.now + SECOND);
        self.configure(config);
    }

    /// Another process that takes this one's forwarder over, and the drains.
    fn take_over(&mut self, config: &Config, drains: &mut Drains) {
        let wall = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let kept = drains.snapshot(self.now, wall).with_removed(self.controller.removed());
        let kept = serde_json::to_string(&kept).unwrap();
        let kept: drain::Snapshot = serde_json::from_str(&kept).unwrap();
        let (memory, known) = (Arc::clone(self.controller.engine()), from_config::services(config));
        self.controller = Controller::adopt_with(memory, &known, &kept).unwrap();
        self.board = Board::restore(5, self.board.snapshot(self.now), SECOND);
        self.desired = Desired::new(self.desired.overrides().clone());
        self.set_clock(self.now + SECOND);
        *drains = Drains::restore(&kept, self.now, wall + SECOND);
        self.desired.take_leaving(&self.controller.remaining());
        self.configure(config);
    }

    /// As the daemon does every second: what drains after its removal is followed.
    fn follow_leaving(&mut self) {
        let remaining = self.controller.remaining();
        self.desired.follow_leaving(&mut self.controller, &remaining, &mut self.board, self.now);
    }

    fn commit(&mut self) {
        for committed in self.desired.commit(&mut self.controller, &self.board, self.now) {
            committed.result.unwrap();
            self.commits += 1;
        }
        // Whatever happened, no new flow may go to a backend that fails its checks, while another passes.
        for service in self.controller.status() {
            if service.last_resort {
                continue;
            }
            for backend in &service.backends {
                let verdict = self.board.verdict(&of(&service.name, &backend.identity));
                let fine = matches!(verdict, None | Some(Verdict::Up));
                assert!(fine || backend.slots == 0, "{backend:?}");
            }
        }
    }

    fn set_clock(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let seconds = (self.now - self.start).as_secs() as u32;
        let memory = self.controller.engine();
        if memory.now_seconds() != seconds {
            memory.set_now_seconds(seconds);
            self.controller.tick();
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.board.next_due().filter(|&due| due <= end) {
            self.set_clock(due);
            let advanced = self.board.advance(self.now);
            self.desired.note_advanced(&advanced);
            for round in advanced.rounds {
                let IpAddr::V4(address) = round.check.address else { panic!("IPv4 only") };
                let result = if self.sick.contains(&address.octets()[3]) {
                    Err(Fault::Refused)
                } else {
                    Ok(Passed { took: SECOND / 1000 })
                };
                let results = vec![result; round.legs.len()].into();
                let changes = self.board.answer(&Answer { id: round.id, results }, self.now);
                self.desired.note_changes(&changes);
            }
            if self.desired.first_verdicts_due().is_some() {
                self.desired.note_first_verdicts(&self.board, self.now);
            }
            self.commit();
        }
        while self.now < end {
            self.set_clock((self.now + SECOND).min(end));
        }
    }

    fn overriding<T>(&mut self, change: impl FnOnce(&mut Overrides) -> T) -> T {
        let result = self.desired.with_overrides(&mut self.board, self.now, change);
        self.commit();
        result
    }

    fn service(&self) -> ServiceStatus {
        self.controller.status().into_iter().find(|status| status.name == "web").unwrap()
    }

    fn backend(&self, name: &str) -> BackendStatus {
        let wanted = |backend: &BackendStatus| *backend.identity == *name && !backend.removed;
        self.service().backends.into_iter().find(wanted).unwrap()
    }

    /// Slots of `be1`, `be2` …
    fn slots(&self) -> Vec<u32> {
        let count = self.desired.spec("web", &self.board, self.now).unwrap().backends.len();
        (1..=count).map(|n| self.backend(&format!("be{n}")).slots).collect()
    }

    /// Puts a live flow of a backend into the flow table.
    fn remember(&self, place: usize, slot: u32, backend: u16) {
        let entry = &self.controller.engine().flows()[place].entries[0];
        let id = self.controller.service_id("web").unwrap();
        let now = self.controller.engine().now_seconds();
        entry.info.store(Info::new(now, id, slot).0, Relaxed);
        entry.tag.store(Tag::new((place as u64 + 1) << 40, backend, Class::Old).0, Relaxed);
    }

    fn forget(&self, place: usize) {
        self.controller.engine().flows()[place].entries[0].tag.store(0, Relaxed);
    }
}

fn of(service: &str, backend: &str) -> Who {
    Who { service: service.into(), backend: backend.into() }
}

/// A service with as many backends as there are weights, after `settings`.
fn config(weights: &[u32], settings: &str) -> Config {
    let backends: Vec<String> = (1..)
        .zip(weights)
        .map(|(n, weight)| format!("{{ name = \"be{n}\", address = \"10.0.0.{n}\", weight = {weight} }}"))
        .collect();
    let text = format!(
        "[underlay]\nsource_v4 = \"10.0.0.254\"\n[[service]]\nname = \"web\"\nvip = \"192.0.2.10\"\nport = 80\n\
         protocol = \"tcp\"\ntable_size = 1009\nidle_tcp = \"5m\"\n{settings}\nbackend = [{}]\n\
         [service.health]\nkind = \"tcp\"\ninterval = \"2s\"\n",
        backends.join(", ")
    );
    parse(&text)
}

fn parse(text: &str) -> Config {
    config::parse(&Source::new("guideway.toml", text)).unwrap_or_else(|problems| panic!("{problems:?}"))
}
