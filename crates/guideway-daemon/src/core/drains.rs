//! Drains: their deadlines, and what becomes of what is left then.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

use guideway_control::config::{BackendState, Config, Renames, Service};
use guideway_control::controller::Remaining;
use guideway_control::counted;
use guideway_control::drain::{DrainEvent, DrainKey, Phase};
use guideway_control::health::Who;
use guideway_control::overrides::AdminState;

use super::Core;
use crate::journal::{Grade, Kind};

/// After a change drains are looked at so often at most: that is a walk over the whole flow table.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Core {
    /// How long flows of a service's backends that drain may last, by the configuration.
    pub(super) fn drain_timeout(&self, service: &str) -> Option<Duration> {
        self.config.services.iter().find(|one| one.name == service)?.drain_timeout
    }

    /// Gives backends back to a new configuration that were cut because the one before had them drain.
    pub(super) fn forget_cuts(&mut self, before: &Config, renames: &Renames, now: Instant) {
        let old_names = renames.reversed();
        let state = |config: &Config, name: &str, who: &Who| {
            let service = config.services.iter().find(|service| service.name == name)?;
            service.backends.iter().find(|backend| backend.name == who.backend).map(|backend| backend.state)
        };
        let cut = |(who, said): (&Who, &guideway_control::overrides::Override)| {
            let ended = said.admin == Some(AdminState::Maintenance) && said.drain_until.is_some();
            let name_before = old_names.of(&who.service).unwrap_or(&who.service);
            let drained = state(before, name_before, who) == Some(BackendState::Draining);
            (ended && drained && state(&self.config, &who.service, who) != Some(BackendState::Draining))
                .then(|| who.clone())
        };
        let cut: Vec<Who> = self.desired.overrides().iter().filter_map(cut).collect();
        if !cut.is_empty() {
            self.desired.with_overrides(&mut self.board, now, |overrides| {
                for who in &cut {
                    overrides.clear(who);
                }
            });
        }
    }

    /// Notes the drains of services that were committed.
    pub(super) fn note_drains(&mut self, services: &HashSet<String>, now: Instant) {
        for service in services {
            for key in self.controller.draining(service) {
                self.drains.note(key, now);
            }
        }
    }

    /// Looks at what is left of drains at once, or in a moment if that was done a moment ago.
    pub(super) fn look_at_drains_soon(&mut self, now: Instant) {
        match self.drains_rest_until.filter(|until| *until > now) {
            Some(until) => self.drains_due = Some(until),
            None => self.look_at_drains(now),
        }
    }

    /// Tells the drains that operators asked for in these services, and their deadlines.
    pub(super) fn follow_deadlines(&mut self, now: Instant, which: impl Fn(&str) -> bool) {
        if self.desired.overrides().is_empty()
            && self.drains.iter().next().is_none()
            && !self.has_configured_drains()
        {
            return;
        }
        let wall = SystemTime::now();
        // Those of which anything can be said: most services have none, and are passed over.
        let said = self.desired.overrides().iter().map(|(who, _)| &who.service);
        let known = self.drains.iter().map(|(key, _)| &key.service);
        let touched: HashSet<String> = said.chain(known).filter(|name| which(name)).cloned().collect();
        for service in self.config.services.iter().filter(|service| which(&service.name)) {
            let drain_timeout = service.drain_timeout;
            let touched = touched.contains(&service.name);
            for backend in &service.backends {
                if !touched && backend.state != BackendState::Draining {
                    continue;
                }
                let who = Who { service: service.name.clone(), backend: backend.name.clone() };
                let said = self.desired.overrides().of(&who);
                let admin =
                    said.admin.map_or(backend.state == BackendState::Draining, |a| a == AdminState::Drain);
                let Who { service, backend: name } = who;
                let key = DrainKey { service, backend: name, address: backend.address, removed: false };
                let known = self.drains.of(&key).copied();
                if !admin {
                    // After its deadline a backend is in maintenance, and its drain can be asked about for a while.
                    let was_cut = known.is_some_and(|drain| matches!(drain.phase, Phase::Cut { .. }));
                    if !was_cut || said.admin != Some(AdminState::Maintenance) {
                        self.drains.cancel(&key);
                    }
                    continue;
                }
                if known.is_some_and(|drain| drain.phase.is_over()) {
                    continue;
                }
                // A deadline that passed while no daemon was there is due at once.
                let said_until = said
                    .drain_until
                    .and_then(|until| now.checked_add(until.duration_since(wall).unwrap_or_default()));
                let began = known.map_or(now, |drain| drain.began);
                let configured = drain_timeout.and_then(|timeout| began.checked_add(timeout));
                let deadline = said_until.or(configured);
                if deadline.is_some() || known.is_some_and(|drain| drain.deadline.is_some()) {
                    self.drains.begin(key, now, deadline);
                }
            }
        }
    }

    fn has_configured_drains(&self) -> bool {
        let backends = self.config.services.iter().flat_map(|service| &service.backends);
        backends.into_iter().any(|backend| backend.state == BackendState::Draining)
    }

    /// Forgets the removal of backends that the configuration has again.
    fn forget_returned(&mut self, remaining: &[Remaining]) {
        let services: OnceCell<HashMap<&str, &Service>> = OnceCell::new();
        self.drains.forget_returned(remaining, |key| {
            let by_name = || self.config.services.iter().map(|one| (one.name.as_str(), one)).collect();
            let service = services.get_or_init(by_name).get(key.service.as_str());
            service.is_some_and(|service| {
                service.backends.iter().any(|one| one.name == key.backend && one.address == key.address)
            })
        });
    }

    /// Gives the drains of backends that were removed the deadline that the configuration has for them, once.
    fn limit_removed(&mut self, remaining: &[Remaining], now: Instant) {
        if !remaining.iter().any(|one| one.removed) {
            return;
        }
        let services = self.config.services.iter();
        let timeouts: HashMap<String, Duration> =
            services.filter_map(|service| Some((service.name.clone(), service.drain_timeout?))).collect();
        for one in remaining.iter().filter(|one| one.removed) {
            let Remaining { service, backend, address, .. } = one;
            let key = DrainKey {
                service: service.clone(),
                backend: backend.clone(),
                address: *address,
                removed: true,
            };
            let known = self.drains.of(&key);
            if known.is_none_or(|drain| drain.deadline.is_none() && !drain.phase.is_over())
                && let Some(&timeout) = timeouts.get(service)
            {
                let began = known.map_or(now, |drain| drain.began);
                self.drains.begin(key, now, began.checked_add(timeout));
            }
        }
    }

    /// Follows the drains; those whose deadline has passed are cut.
    pub(super) fn look_at_drains(&mut self, now: Instant) {
        self.drains_due = None;
        self.drains_rest_until = Some(now + LOOK_EVERY);
        let remaining = self.controller.remaining();
        self.desired.follow_leaving(&mut self.controller, &remaining, &mut self.board, now);
        self.forget_returned(&remaining);
        self.limit_removed(&remaining, now);
        for event in self.drains.observe(&remaining, now) {
            match event {
                DrainEvent::Done { key, took } => {
                    let has_service = self.config.services.iter().any(|one| one.name == key.service);
                    let text = if has_service {
                        format!("drained after {} s", took.as_secs())
                    } else {
                        "its service was removed: its drain is over, and flows that were left ended"
                            .to_owned()
                    };
                    let (service, backend) = (Some(key.service.as_str()), Some(key.backend.as_str()));
                    self.journal.note_of(Grade::Info, Kind::Drain, service, backend, text);
                }
                DrainEvent::Cut { key, live_flows } => self.cut(key, live_flows, now),
            }
        }
    }

    /// Ends what a drain has left: what still comes of it gets what the service says of orphans.
    fn cut(&mut self, key: DrainKey, live_flows: u32, now: Instant) {
        let flows = counted(live_flows, "live flow ends", "live flows end");
        let text = format!("the deadline of its drain passed: {flows}");
        let (service, backend) = (Some(key.service.as_str()), Some(key.backend.as_str()));
        self.journal.note_of(Grade::Warning, Kind::Drain, service, backend, text);
        if key.removed {
            if let Err(error) = self.controller.end_removed(&key.service, &key.backend, key.address) {
                self.journal.note(Grade::Error, Kind::Drain, error.to_string());
            }
            return;
        }
        let who = Who { service: key.service, backend: key.backend };
        self.desired.override_one(&who, &mut self.board, now, |overrides| {
            overrides.set_admin(&who, AdminState::Maintenance, Some(SystemTime::now()));
        });
        self.unsaved.overrides = true;
    }
}

#[cfg(test)]
mod tests {
    use guideway_control::config::{self, Source};

    use super::*;
    use crate::in_process;

    const SECOND: Duration = Duration::from_secs(1);

    fn apply(core: &mut Core, text: String, now: Instant) {
        core.reconfigure(config::parse(&Source::new("<test>", text)).unwrap(), now).unwrap();
    }

    fn config(backends: u8) -> String {
        let backend = |n| format!("{{ name = \"b{n}\", address = \"10.0.0.{n}\" }}");
        let backends: Vec<String> = (1..=backends).map(backend).collect();
        format!(
            "[flow_table]\nentries = 4096\n[underlay]\nsource_v4 = \"10.0.1.1\"\n[[service]]\nname = \"web\"\n\
             vip = \"192.0.2.1\"\nport = 80\nprotocol = \"tcp\"\ndrain_timeout = \"5s\"\ntable_size = 251\n\
             backend = [{}]\n",
            backends.join(", ")
        )
    }

    #[test]
    fn each_removal_of_a_backend_has_its_own_drain_and_its_own_deadline() {
        let mut now = Instant::now();
        let mut core = in_process::core(&config(3), now).unwrap();
        for _ in 0..3 {
            apply(&mut core, config(2), now);
            let (key, drain) = core.drains.iter().next().unwrap();
            assert_eq!((key.backend.as_str(), key.removed), ("b3", true));
            assert_eq!((drain.began, drain.deadline), (now, Some(now + 5 * SECOND)));
            assert!(!drain.phase.is_over() && core.drains.take_unsaved());
            now += 5 * SECOND;
            core.advance(now);
            let (_, drain) = core.drains.iter().next().unwrap();
            assert_eq!(drain.phase, Phase::Cut { live_flows: 0 });
            now += SECOND;
            apply(&mut core, config(3), now);
            assert_eq!(core.drains.iter().count(), 0, "it is back");
            now += SECOND;
        }
    }
    #[test]
    fn a_backend_that_was_cut_is_ready_again_where_its_service_gets_another_name_with_its_state() {
        let now = Instant::now();
        let draining = config(2).replace("\"b2\",", "\"b2\", state = \"draining\",");
        let mut core = in_process::core(&config(2), now).unwrap();
        apply(&mut core, draining, now);
        core.advance(now + 6 * SECOND);
        let said = |core: &Core, service: &str| {
            let who = Who { service: service.to_owned(), backend: "b2".to_owned() };
            core.desired.overrides().of(&who).admin
        };
        assert_eq!(said(&core, "web"), Some(AdminState::Maintenance));
        apply(&mut core, config(2).replace("\"web\"", "\"site\""), now + 7 * SECOND);
        assert_eq!((said(&core, "site"), said(&core, "web")), (None, None));
    }
}
