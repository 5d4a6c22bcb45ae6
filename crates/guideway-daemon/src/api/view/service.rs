//! Services, their backends, and drains.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use guideway_control::Engine;
use guideway_control::config;
use guideway_control::controller::{BackendStatus, ServiceStatus};
use guideway_control::drain::{DrainKey, Phase};
use guideway_control::health::{self, Who};
use guideway_control::overrides::{AdminState, Override};
use guideway_forward::record::{self, BackendState};
use guideway_wire::{IpVersion, encap::overhead};

use super::super::model::{Backend, Drain, Finding, Health, NextHop, Service};
use super::admin::admin;
use crate::core::Core;

/// All services, or the one of this name.
pub(crate) fn services(core: &Core, name: Option<&str>, now: Instant) -> Vec<Service> {
    let configured: HashMap<&str, &config::Service> =
        core.config.services.iter().map(|service| (service.name.as_str(), service)).collect();
    let statuses = match name {
        Some(name) => core.controller.status_of(name).into_iter().collect(),
        None => core.controller.status(),
    };
    let view = |status: ServiceStatus| {
        let configured = configured.get(status.name.as_str()).copied();
        service(core, configured, status, now)
    };
    statuses.into_iter().map(view).collect()
}

fn service(
    core: &Core,
    configured: Option<&config::Service>,
    status: ServiceStatus,
    now: Instant,
) -> Service {
    let listen = configured.into_iter().flat_map(|service| {
        service.vips.iter().flat_map(move |vip| {
            let host = vip.prefix_len() == vip.max_prefix_len();
            let place = match vip.addr() {
                _ if !host => format!("[{vip}]"),
                IpAddr::V4(v4) => v4.to_string(),
                IpAddr::V6(v6) => format!("[{v6}]"),
            };
            service.ports.iter().map(move |port| {
                let port = port.map_or("*".to_owned(), |port| port.to_string());
                format!("{place}:{port}/{}", service.protocol)
            })
        })
    });
    let wanted = configured.into_iter().flat_map(|service| &service.backends);
    let wanted: HashMap<&str, &config::Backend> =
        wanted.map(|backend| (backend.name.as_str(), backend)).collect();
    let view = |backend: &BackendStatus| {
        let wanted = wanted.get(backend.identity.as_ref()).copied();
        self::backend(core, wanted, &status, backend, now)
    };
    let backends: Vec<Backend> = status.backends.iter().map(view).collect();
    Service {
        listen: listen.collect(),
        policy: configured.map(|service| service.policy.word().to_owned()),
        generation: status.generation,
        digest: status.digest,
        slots: status.slots,
        unsettled_slots: status.unsettled,
        prior_table: status.prior,
        settles_in_seconds: status.settles_in,
        resize_waits: status.resize_waits,
        resize_refused: status.resize_refused.map(|error| error.to_string()),
        last_resort: status.last_resort,
        eligible: backends.iter().filter(|backend| backend.slots > 0).count() as u64,
        slots_moved_total: status.churn.moved,
        slots_moved_needlessly_total: status.churn.needless,
        packets_total: status.count.packets,
        bytes_total: status.count.bytes,
        name: status.name,
        backends,
    }
}

fn backend(
    core: &Core,
    wanted: Option<&config::Backend>,
    service: &ServiceStatus,
    status: &BackendStatus,
    now: Instant,
) -> Backend {
    let who = Who { service: service.name.clone(), backend: status.identity.to_string() };
    let wanted = wanted.filter(|_| !status.removed);
    let changed = if status.removed { Override::default() } else { core.desired.overrides().of(&who) };
    let admin = admin(&changed, wanted);
    let said = [("admin", changed.admin.is_some()), ("weight", changed.weight.is_some())];
    let overrides: Vec<String> =
        said.into_iter().filter(|(_, is_said)| *is_said).map(|(what, _)| what.to_owned()).collect();
    let record = core.controller.engine().backend(status.global);
    let address =
        record.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |r| Ipv6Addr::from(r.address()).to_canonical());
    let next_hop = record.and_then(|record| {
        let mac = record.neighbour()?.map(|byte| format!("{byte:02x}")).join(":");
        let (mtu, packet_bytes) = fits(record);
        let interface_name = Some(core.link_name(record.interface()));
        Some(NextHop { interface: record.interface(), interface_name, mac, mtu, packet_bytes })
    });
    let key = DrainKey {
        service: who.service.clone(),
        backend: who.backend.clone(),
        address,
        removed: status.removed,
    };
    let drains = status.state == BackendState::Draining || admin == AdminState::Drain;
    // Whoever waits for a drain has to see that its deadline was what ended it.
    let drain = core.drains.of(&key).filter(|drain| drains || matches!(drain.phase, Phase::Cut { .. }));
    Backend {
        address,
        state: status.state.as_str().to_owned(),
        admin: admin.as_str().to_owned(),
        overridden: !overrides.is_empty(),
        overrides,
        removed: status.removed,
        weight: changed.weight.or(wanted.map(|backend| backend.weight)).unwrap_or(0),
        configured_weight: wanted.map(|backend| backend.weight),
        slots: status.slots,
        share: f64::from(status.slots) / f64::from(service.slots.max(1)),
        health: core.board.status(&who, now).filter(|_| !status.removed).map(|h| health(h, now)),
        drain: drain.map(|drain| self::drain(&key, drain, now)),
        next_hop,
        packets_total: status.count.packets,
        bytes_total: status.count.bytes,
        not_kept: None,
        service: who.service,
        name: who.backend,
    }
}

/// The largest packet of the tunnel to a backend, and the largest of a client in it.
pub(in crate::api) fn fits(record: &record::Backend) -> (u16, u16) {
    let status = record.status();
    let family = if status.underlay_is_v4() { IpVersion::V4 } else { IpVersion::V6 };
    (status.mtu(), status.mtu().saturating_sub(overhead(status.tunnel(), family) as u16))
}

fn health(status: health::Status, now: Instant) -> Health {
    Health {
        verdict: status.verdict.as_str().to_owned(),
        age_seconds: seconds(now.saturating_duration_since(status.since)),
        contradicting: status.row.0,
        needed: status.row.1,
        flapping: status.flapping,
        slow_start_step: status.ramp,
        reason: status.because,
        last: status.last.map(|finding| Finding {
            reason: finding.reason.to_owned(),
            detail: finding.detail,
            took_seconds: finding.took.map(seconds),
            age_seconds: seconds(now.saturating_duration_since(finding.at)),
        }),
    }
}

/// All drains that are known.
pub(crate) fn drains(core: &Core, now: Instant) -> Vec<Drain> {
    core.drains.iter().map(|(key, state)| drain(key, state, now)).collect()
}

fn drain(key: &DrainKey, drain: &guideway_control::drain::Drain, now: Instant) -> Drain {
    let (phase, live_flows, ending_flows, unsettled_slots) = match drain.phase {
        Phase::Busy { live_flows, ending_flows } => ("busy", live_flows, ending_flows, 0),
        Phase::Quiet { ending_flows, unsettled_slots } => ("quiet", 0, ending_flows, unsettled_slots),
        Phase::Done => ("done", 0, 0, 0),
        Phase::Cut { live_flows } => ("cut", live_flows, 0, 0),
    };
    Drain {
        service: key.service.clone(),
        backend: key.backend.clone(),
        address: key.address,
        removed: key.removed,
        phase: phase.to_owned(),
        live_flows,
        ending_flows,
        unsettled_slots,
        age_seconds: seconds(now.saturating_duration_since(drain.began)),
        cut_in_seconds: drain
            .deadline
            .filter(|_| !drain.phase.is_over())
            .map(|deadline| seconds(deadline.saturating_duration_since(now))),
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
