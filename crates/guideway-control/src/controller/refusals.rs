//! A forwarder that refuses where services listen: every change is all or nothing.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use guideway_forward::record::{Backend, BackendState, Bucket, Service, ServiceId, Settings};
use guideway_soft::{Binding, Count, Limits, Memory, QuicBinding};

use super::spec::{Admin, Health, Protocol, TableSizeSpec};
use super::tests::{of, service};
use super::{ChangeError, Controller};
use crate::engine::{Capacity, Engine, EngineError, Repaired};

/// Memory that refuses while it is told to, has room for a few places to listen, and counts how often its flows are read.
struct Stubborn {
    memory: Memory,
    refuses: Cell<bool>,
    /// Whether it reaches no more slots.
    is_short: Cell<bool>,
    readings: Cell<u32>,
}

impl Engine for Stubborn {
    fn capacity(&self) -> Capacity {
        Capacity { listens: 4, ..self.memory.capacity() }
    }

    fn now_seconds(&self) -> u32 {
        self.memory.now_seconds()
    }

    fn service(&self, id: ServiceId) -> Option<&Service> {
        self.memory.service(id)
    }

    fn backend(&self, global: u32) -> Option<&Backend> {
        self.memory.backend(global)
    }

    fn reach_slots(&self, slots: u32) -> Result<(), EngineError> {
        if self.is_short.get() {
            return Err(EngineError::Slots { reason: format!("{slots} are too many for it") });
        }
        Ok(())
    }

    fn slots(&self) -> &[AtomicU32] {
        self.memory.slots()
    }

    fn flows(&self) -> &[Bucket] {
        self.readings.set(self.readings.get() + 1);
        self.memory.flows()
    }

    fn settings(&self) -> &Settings {
        self.memory.settings()
    }

    fn publish(&self, bindings: &[Binding], quic: &[QuicBinding]) -> Result<(), EngineError> {
        if self.refuses.get() {
            return Err(EngineError::Listens { reason: "it is stubborn".into() });
        }
        Engine::publish(&self.memory, bindings, quic)
    }

    fn published(&self) -> (Vec<Binding>, Vec<QuicBinding>) {
        self.memory.published()
    }

    fn repair(&self) -> Result<Repaired, EngineError> {
        Ok(Repaired::default())
    }

    fn begin_grace(&self) -> u64 {
        self.memory.begin_grace()
    }

    fn grace_is_over(&self, epoch: u64) -> bool {
        self.memory.grace_is_over(epoch)
    }

    fn service_count(&self, id: ServiceId) -> Count {
        self.memory.service_count(id)
    }

    fn backend_count(&self, global: u32) -> Count {
        self.memory.backend_count(global)
    }
}

fn controller() -> Controller<Stubborn> {
    let limits =
        Limits { services: 4, backends: 64, slots: 4_096, flows: 256, fragments: 64, ..Limits::default() };
    let memory = Memory::new(limits, [1, 2]);
    let (refuses, is_short, readings) = Default::default();
    let engine = Stubborn { memory, refuses, is_short, readings };
    let mut controller = Controller::new(engine);
    controller.add_service(service(of(1..4), 251), Health::Up).unwrap();
    controller
}

/// All that packets of the service are decided by, and all that the controller says.
fn picture(controller: &Controller<Stubborn>) -> String {
    let memory = &controller.engine().memory;
    let record = memory.service(controller.service_id("web").unwrap()).unwrap();
    let (offset, size) = record.table(record.active()).place();
    let slots: Vec<u32> = memory.slots()[offset as usize..(offset + size) as usize]
        .iter()
        .map(|slot| slot.load(Relaxed))
        .collect();
    let backends: Vec<_> = (0..32)
        .map_while(|local| record.backend_index(local))
        .filter_map(|index| memory.backend(index))
        // A free record's other words mean nothing.
        .map(|backend| {
            let taken = backend.state() != BackendState::Free;
            taken.then(|| (backend.address(), backend.status(), backend.neighbour()))
        })
        .collect();
    let mut listening: Vec<_> = controller.listening.iter().collect();
    listening.sort_unstable();
    format!(
        "{:?} {:?} {:?} {slots:?} {backends:?} {} {:?} {:?}",
        record.active(),
        record.policy(),
        record.backends(),
        controller.digest(),
        controller.status(),
        listening,
    )
}

#[test]
fn a_change_that_the_forwarder_refuses_leaves_everything_as_it_was() {
    type Change = fn(&mut Controller<Stubborn>) -> Result<(), ChangeError>;
    let changes: [(&str, Change); 8] = [
        ("weights", |c| c.set_weight("web", "be1", 7).map(drop)),
        ("health", |c| c.set_health("web", "be2", Health::Down).map(drop)),
        ("admin", |c| c.set_admin("web", "be2", Admin::Draining).map(drop)),
        ("size", |c| c.resize("web", TableSizeSpec::Slots(509), 9).map(drop)),
        ("members", |c| c.replace_service(service(of(2..20), 251), Health::Up).map(drop)),
        ("all", |c| {
            let mut other = service(of(1..3), 251);
            other.name = "other".into();
            other.listen[0].protocol = Protocol::Udp;
            let specs = [service(of(3..9), 509), other];
            c.apply(specs, |_, _| Health::Down).into_iter().try_for_each(|change| change.map(drop))
        }),
        ("removal", |c| c.remove_service("web")),
        ("removed backend", |c| c.remove_backend("web", "be3", super::Removal::AtOnce).map(drop)),
    ];
    let mut controller = controller();
    let before = picture(&controller);
    // Often enough that memory which is not given back runs out.
    for round in 0..100 {
        controller.engine.refuses.set(true);
        for (what, change) in changes {
            // Also where the change itself would leave nothing to tell.
            controller.unpublished = true;
            match change(&mut controller) {
                Err(ChangeError::Forwarder { source, .. }) => {
                    assert!(source.to_string().contains("stubborn"));
                }
                other => panic!("{what}: {other:?}"),
            }
            assert_eq!(picture(&controller), before, "{what}, round {round}");
        }
        controller.engine.refuses.set(false);
        controller.engine.memory.set_now_seconds(round);
        controller.tick();
        assert_eq!(picture(&controller), before, "round {round}");
    }
    for (what, change) in changes.into_iter().filter(|(what, _)| *what != "removal") {
        change(&mut controller).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    controller.remove_service("web").unwrap();
}

#[test]
fn more_places_to_listen_than_there_is_room_for_are_refused_before_anything_is_written() {
    let mut controller = controller();
    let before = picture(&controller);
    let mut wide = service(of(1..4), 251);
    let first = wide.listen[0];
    wide.listen.extend((1..5).map(|port| {
        let mut listen = first;
        listen.port = std::num::NonZeroU16::new(port);
        listen
    }));
    match controller.replace_service(wide.clone(), Health::Up) {
        Err(ChangeError::Full { what, capacity: 4, .. }) => assert_eq!(what, "places to listen"),
        other => panic!("{other:?}"),
    }
    assert_eq!(picture(&controller), before);
    wide.listen.truncate(4);
    controller.replace_service(wide, Health::Up).unwrap();
}

#[test]
fn tables_whose_slots_cannot_be_reached_are_refused_and_their_room_is_free_again() {
    let mut controller = controller();
    let mut other = service(of(1..3), 251);
    other.name = "other".into();
    other.listen[0].protocol = Protocol::Udp;
    let before = picture(&controller);
    controller.engine.is_short.set(true);
    // Often enough that room which is not given back runs out.
    for _ in 0..100 {
        let resized = controller.resize("web", TableSizeSpec::Slots(509), 9).map(drop);
        let added = controller.add_service(other.clone(), Health::Up).map(drop);
        for refused in [resized, added] {
            match refused {
                Err(ChangeError::Forwarder { source: EngineError::Slots { .. }, .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(picture(&controller), before);
    }
    controller.engine.is_short.set(false);
    controller.add_service(other, Health::Up).unwrap();
    controller.resize("web", TableSizeSpec::Slots(509), 9).unwrap();
}

#[test]
fn the_flow_table_is_read_as_often_for_services_that_are_removed_together_as_for_one() {
    let readings = |many: u8| {
        let mut controller = controller();
        for number in 0..many {
            let mut other = service(of(1..3), 251);
            other.name = format!("other{number}");
            other.listen[0].port = std::num::NonZeroU16::new(8_000 + u16::from(number));
            controller.add_service(other, Health::Up).unwrap();
            controller.remove_service(&format!("other{number}")).unwrap();
        }
        controller.engine.readings.set(0);
        controller.engine.memory.set_now_seconds(1);
        controller.tick();
        assert!(controller.retired.is_empty());
        controller.engine.readings.get()
    };
    assert_eq!(readings(3), readings(1));
}
