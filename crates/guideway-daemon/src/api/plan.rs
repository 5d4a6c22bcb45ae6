//! What another configuration would change, compared with what is wanted now.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use guideway_control::Engine as _;
use guideway_control::config::{self, Config, Renames};
use guideway_control::controller::spec::{Admin, BackendSpec, Health, ServiceSpec, TunnelSpec};
use guideway_control::overrides::AdminState;

use super::explain::tunnel_word;
use super::model::{Plan, PlannedService};
use crate::core::Core;

/// What `config` would change.
pub(crate) fn plan(core: &Core, config: &Config, now: Instant) -> Plan {
    let renames = config::renamed(&core.config, config);
    if renames.is_empty() {
        return under_names_of_now(core, config, &renames, now);
    }
    let mut by_old_names = config.clone();
    renames.reversed().rename_in(&mut by_old_names);
    let mut plan = under_names_of_now(core, &by_old_names, &renames, now);
    for service in &mut plan.services {
        if let Some(name) = renames.of(&service.service) {
            service.settings.insert(0, format!("name: {} -> {name}", service.service));
            service.service = name.to_owned();
        }
    }
    plan
}

/// The same for a configuration in which services are called as they are now, whatever they will be.
fn under_names_of_now(core: &Core, config: &Config, renames: &Renames, now: Instant) -> Plan {
    let specs = |config| -> BTreeMap<String, ServiceSpec> {
        let specs = core.desired.specs_under(config, &core.board, now);
        specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect()
    };
    let (before, after) = (specs(&core.config), specs(config));
    let (configured, configured_then) = (by_name(&core.config), by_name(config));
    let mut plan = Plan { services: Vec::new(), unchanged: 0, refused: Vec::new() };
    if let Err(refused) = core.accepts(config) {
        plan.refused.push(refused.to_string());
    }
    let room = u64::from(core.controller.engine().capacity().slots);
    let slots: u64 = config.services.iter().map(|service| u64::from(service.table_size.get())).sum();
    let fits = slots <= room;
    if !fits {
        plan.refused.push(format!(
            "its tables have {slots} slots together, and the forwarder at work has room for {room}: end the daemon with \
             its forwarder and start it anew; no table was built to look at"
        ));
    }
    let gone: Vec<_> = before.iter().filter(|(name, _)| !after.contains_key(*name)).collect();
    let flows = core.controller.live_flows(gone.iter().map(|(name, _)| name.as_str()));
    for (name, gone) in gone {
        plan.services.push(PlannedService {
            backends_removed: gone.backends.iter().map(|backend| backend.identity.to_string()).collect(),
            flows_ended: flows.get(name.as_str()).copied().unwrap_or(0).into(),
            ..planned(name, "remove")
        });
    }
    for (name, wanted) in &after {
        core.heartbeat.beat(Instant::now());
        let known = before.get(name);
        let before_and_after = (configured.get(name.as_str()), configured_then.get(name.as_str()));
        let health_differs = || {
            let (before, after) = before_and_after;
            before.and_then(|service| service.health.as_ref())
                != after.and_then(|service| service.health.as_ref())
        };
        let settings: Vec<String> = match before_and_after {
            (Some(before), Some(after)) => {
                let pairs = words(before).into_iter().zip(words(after));
                let differing = pairs.filter(|(before, after)| before != after);
                differing.map(|((key, old), (_, new))| format!("{key}: {old} -> {new}")).collect()
            }
            _ => Vec::new(),
        };
        // Some settings ask the forwarder for nothing, as a size that is what `auto` came to; the file differs.
        let is_renamed = renames.of(name).is_some();
        if known == Some(wanted) && !health_differs() && settings.is_empty() && !is_renamed {
            plan.unchanged += 1;
            continue;
        }
        let mut service = planned(name, if known.is_some() { "change" } else { "add" });
        match known {
            Some(known) => compare(known, wanted, &mut service),
            None => service.backends_added = wanted.backends.iter().map(|b| b.identity.to_string()).collect(),
        }
        service.settings.extend(settings);
        if health_differs() && known.is_some() {
            service.settings.push("health: the checks change".to_owned());
            service.notes.extend(before_and_after.1.and_then(|service| kept_until_it_fails(service)));
        }
        let is_checked = before_and_after.1.is_some_and(|service| service.health.is_some());
        if is_checked && !service.backends_added.is_empty() && !(health_differs() && known.is_some()) {
            service
                .notes
                .push("backends that are new take flows once they have passed their checks".to_owned());
        }
        let border = before_and_after.1.and_then(|service| service.size_border());
        service.notes.extend(border.map(|border| border.to_string()));
        // A place that another service gives up first is free by then, which a preview cannot know.
        let preview = fits.then(|| core.controller.preview(wanted, |_| Health::Up));
        match preview {
            None => {}
            Some(Ok(change)) => {
                service.slots = change.slots;
                service.slots_moved = change.moved;
                service.slots_moved_needlessly = change.needless;
                service.flows_ended = change.voided_flows.into();
                service.eligible = change.eligible;
                service.resize_waits = change.resize_waits;
            }
            Some(Err(error)) => plan.refused.push(error.to_string()),
        }
        plan.services.push(service);
    }
    plan
}

/// What becomes of the flows when the checks of a service are others.
fn kept_until_it_fails(service: &config::Service) -> Option<String> {
    let fall = service.health.as_ref()?.fall;
    Some(format!(
        "backends that take flows keep them until the new check has failed {fall} times in a row; those that are new \
         have to pass it first"
    ))
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
        notes: Vec::new(),
    }
}

fn by_name(config: &Config) -> HashMap<&str, &config::Service> {
    config.services.iter().map(|service| (service.name.as_str(), service)).collect()
}

/// The settings of a service that are told as they were and as they will be, by the keys and words of the file.
fn words(service: &config::Service) -> Vec<(&'static str, String)> {
    let size = match (service.table_size_auto, service.table_size) {
        (true, slots) => format!("auto ({slots} slots)"),
        (false, slots) => slots.to_string(),
    };
    let seconds = |time: Duration| format!("{}s", time.as_secs());
    let quic = service.quic.as_ref().map_or_else(
        || "none".to_owned(),
        |quic| format!("{} bytes from byte {}", quic.server_id_length, quic.server_id_offset),
    );
    vec![
        ("table_size", size),
        ("policy", service.policy.to_string()),
        ("hash_key", service.hash_key.to_string()),
        ("fragments", service.fragments.to_string()),
        ("orphans", service.orphans.to_string()),
        ("no_backend", service.no_backend.to_string()),
        ("all_down", service.all_down.to_string()),
        ("udp", service.udp.to_string()),
        ("track", service.track.to_string()),
        ("idle", seconds(service.idle)),
        ("drain_timeout", service.drain_timeout.map_or_else(|| "none".to_owned(), seconds)),
        ("quic server ids", quic),
    ]
}

fn compare(before: &ServiceSpec, after: &ServiceSpec, into: &mut PlannedService) {
    let places = |spec: &ServiceSpec| {
        let mut places: Vec<String> = spec.listen.iter().map(ToString::to_string).collect();
        places.sort();
        places.join(" ")
    };
    let (old, new) = (places(before), places(after));
    if old != new {
        into.settings.push(format!("listen: {old} -> {new}"));
    }
    if before.table.seed != after.table.seed {
        into.settings.push(format!("seed: {:016x} -> {:016x}", before.table.seed, after.table.seed));
    }
    let by_name = |spec: &ServiceSpec| -> BTreeMap<String, BackendSpec> {
        spec.backends.iter().map(|backend| (backend.identity.to_string(), backend.clone())).collect()
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
        list.extend(tunnel_differences(&old.tunnel, &new.tunnel));
    }
    list
}

fn tunnel_differences(old: &TunnelSpec, new: &TunnelSpec) -> Vec<String> {
    let mut list = Vec::new();
    if old.kind != new.kind {
        list.push(format!("tunnel {} -> {}", tunnel_word(old.kind), tunnel_word(new.kind)));
    }
    if old.source != new.source {
        list.push(format!("source {} -> {}", old.source, new.source));
    }
    if old.mtu != new.mtu {
        list.push(format!("mtu {} -> {}", old.mtu, new.mtu));
    }
    if (old.source_entropy_bits, old.gue_port) != (new.source_entropy_bits, new.gue_port) {
        list.push("how its tunnel spreads flows".to_owned());
    }
    if old.next_hop != new.next_hop {
        list.push("next hop".to_owned());
    }
    list
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use guideway_forward::record::NextHop;
    use guideway_wire::Tunnel;

    use super::*;
    use crate::in_process::{Api, CONFIG};

    #[test]
    fn settings_are_told_in_the_words_of_the_file() {
        let mut api = Api::new().unwrap();
        let settings = r#"
            table_size = 1009
            policy = "rendezvous-table"
            all_down = "reject"
            hash_key = "source"
            track = "always"
            idle_tcp = "5m"
        "#;
        let file = format!("{CONFIG}{settings}");
        let answer = api.ask(Request::post("/v1/plan").body(Body::from(file)).unwrap());
        let plan: Plan = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(
            plan.services[0].settings,
            [
                "table_size: auto (251 slots) -> 1009",
                "policy: maglev -> rendezvous-table",
                "hash_key: 5-tuple -> source",
                "all_down: last-resort -> reject",
                "track: unsettled -> always",
                "idle: 900s -> 300s",
            ]
        );
    }

    #[test]
    fn settings_that_move_nothing_are_changes_all_the_same() {
        let mut api = Api::new().unwrap();
        for (setting, told) in [
            ("table_size = 251", "table_size: auto (251 slots) -> 251"),
            ("drain_timeout = \"5m\"", "drain_timeout: none -> 300s"),
        ] {
            let file = format!("{CONFIG}\n{setting}\n");
            let answer = api.ask(Request::post("/v1/plan").body(Body::from(file)).unwrap());
            let plan: Plan = serde_json::from_slice(answer.body()).unwrap();
            assert_eq!(plan.services[0].settings, [told]);
            assert_eq!((plan.services[0].slots, plan.services[0].slots_moved, plan.unchanged), (251, 0, 0));
        }
    }

    #[test]
    fn tables_that_the_forwarder_has_no_room_for_are_not_built() {
        let mut api = Api::new().unwrap();
        let service = |n: usize| {
            format!(
                "[[service]]\nname = \"s{n}\"\nvip = [\"192.0.2.10\"]\nport = {}\nprotocol = \"tcp\"\n\
                 table_size = 65537\nbackend = [{{ name = \"be1\", address = \"10.0.0.1\" }}]\n",
                n + 1
            )
        };
        let head = "flow_table = { entries = 4096 }\nunderlay = { source_v4 = \"10.0.1.1\" }\n".to_owned();
        let file = head + &(0..1_000).map(service).collect::<String>();
        let answer = api.ask(Request::post("/v1/plan").body(Body::from(file)).unwrap());
        let plan: Plan = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(plan.refused.len(), 1, "{:?}", plan.refused);
        assert!(plan.refused[0].contains("65537000 slots"), "{:?}", plan.refused);
        assert_eq!(plan.services.iter().filter(|service| service.slots > 0).count(), 0);
    }

    #[test]
    fn tunnels_are_told_with_what_they_were() {
        let old = TunnelSpec {
            kind: Tunnel::Ipip,
            source: [10, 0, 0, 254].into(),
            source_entropy_bits: 0,
            gue_port: 6080,
            mtu: 1500,
            next_hop: NextHop::default(),
        };
        let new = TunnelSpec { kind: Tunnel::GueHeader, mtu: 1400, ..old };
        assert_eq!(tunnel_differences(&old, &new), ["tunnel ipip -> gue-header", "mtu 1500 -> 1400"]);
        assert!(tunnel_differences(&old, &old).is_empty());
    }
}
