//! What another configuration would change, compared with what is wanted now.

use std::collections::BTreeMap;
use std::time::Instant;

use guideway_control::config::Config;
use guideway_control::controller::spec::{Admin, BackendSpec, Health, ServiceSpec};
use guideway_control::overrides::AdminState;

use super::model::{Plan, PlannedService};
use crate::core::Core;

/// What `config` would change.
pub(crate) fn plan(core: &Core, config: &Config, now: Instant) -> Plan {
    let specs = |config| -> BTreeMap<String, ServiceSpec> {
        let specs = core.desired.specs_under(config, &core.board, now);
        specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect()
    };
    let (before, after) = (specs(&core.config), specs(config));
    let mut plan = Plan { services: Vec::new(), unchanged: 0, refused: Vec::new() };
    if let Err(refused) = core.accepts(config) {
        plan.refused.push(refused.to_string());
    }
    for (name, gone) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        let (flows_ended, _) = core.controller.flows(Some(name), None, 0);
        plan.services.push(PlannedService {
            backends_removed: gone.backends.iter().map(|backend| backend.identity.clone()).collect(),
            flows_ended,
            ..planned(name, "remove")
        });
    }
    for (name, wanted) in &after {
        let known = before.get(name);
        let health_differs = || of_service(&core.config, name) != of_service(config, name);
        if known == Some(wanted) && !health_differs() {
            plan.unchanged += 1;
            continue;
        }
        let mut service = planned(name, if known.is_some() { "change" } else { "add" });
        match known {
            Some(known) => compare(known, wanted, &mut service),
            None => service.backends_added = wanted.backends.iter().map(|b| b.identity.clone()).collect(),
        }
        if health_differs() && known.is_some() {
            service.settings.push("health: the checks change".to_owned());
        }
        // A place that another service gives up first is free by then, which a preview cannot know.
        match core.controller.preview(wanted, |_| Health::Up) {
            Ok(change) => {
                service.slots = change.slots;
                service.slots_moved = change.moved;
                service.slots_moved_needlessly = change.needless;
                service.flows_ended = change.voided_flows.into();
                service.eligible = change.eligible;
                service.resize_waits = change.resize_waits;
            }
            Err(error) => plan.refused.push(error.to_string()),
        }
        plan.services.push(service);
    }
    plan
}

fn planned(name: &str, action: &str) -> PlannedService {
    PlannedService {
        service: name.to_owned(),
        action: action.to_owned(),
        settings: Vec::new(),
        backends_added: Vec::new(),
        backends_removed: Vec::new(),
        backends_changed: Vec::new(),
        slots: 0,
        slots_moved: 0,
        slots_moved_needlessly: 0,
        flows_ended: 0,
        eligible: 0,
        resize_waits: false,
    }
}

/// How a service is checked.
fn of_service<'a>(config: &'a Config, name: &str) -> Option<&'a guideway_control::config::Health> {
    config.services.iter().find(|service| service.name == name)?.health.as_ref()
}

fn compare(before: &ServiceSpec, after: &ServiceSpec, into: &mut PlannedService) {
    let mut setting = |key: &str, before: String, after: String| {
        if before != after {
            into.settings.push(format!("{key}: {before} -> {after}"));
        }
    };
    let places = |spec: &ServiceSpec| {
        let mut places: Vec<String> = spec.listen.iter().map(ToString::to_string).collect();
        places.sort();
        places.join(" ")
    };
    setting("listen", places(before), places(after));
    setting("table size", format!("{:?}", before.table.size), format!("{:?}", after.table.size));
    setting("policy", format!("{:?}", before.table.rule), format!("{:?}", after.table.rule));
    setting("seed", format!("{:016x}", before.table.seed), format!("{:016x}", after.table.seed));
    setting("all_down", format!("{:?}", before.all_down), format!("{:?}", after.all_down));
    setting("idle_tcp", before.tcp_idle_seconds.to_string(), after.tcp_idle_seconds.to_string());
    setting("idle_udp", before.udp_idle_seconds.to_string(), after.udp_idle_seconds.to_string());
    setting("packets", format!("{:?}", before.policy), format!("{:?}", after.policy));
    let by_name = |spec: &ServiceSpec| -> BTreeMap<String, BackendSpec> {
        spec.backends.iter().map(|backend| (backend.identity.clone(), backend.clone())).collect()
    };
    let (old, new) = (by_name(before), by_name(after));
    into.backends_added = new.keys().filter(|name| !old.contains_key(*name)).cloned().collect();
    into.backends_removed = old.keys().filter(|name| !new.contains_key(*name)).cloned().collect();
    for (name, new) in &new {
        if let Some(old) = old.get(name).filter(|old| *old != new) {
            into.backends_changed.push(format!("{name}: {}", differences(old, new).join(", ")));
        }
    }
}

fn differences(old: &BackendSpec, new: &BackendSpec) -> Vec<String> {
    let mut list = Vec::new();
    if old.address != new.address {
        list.push(format!("address {} -> {}; the old one drains", old.address, new.address));
    }
    if old.weight != new.weight {
        list.push(format!("weight {} -> {}", old.weight, new.weight));
    }
    if old.admin != new.admin {
        let word = |admin: Admin| AdminState::from(admin).as_str();
        list.push(format!("{} -> {}", word(old.admin), word(new.admin)));
    }
    if old.quic_id != new.quic_id {
        list.push("server_id".to_owned());
    }
    if old.tunnel != new.tunnel {
        list.push("tunnel".to_owned());
    }
    list
}
