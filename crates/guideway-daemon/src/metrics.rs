//! What is measured, as Prometheus' classic text, or as OpenMetrics to who asks for it.
//!
//! Labels are names of services and backends, and words of this program: their number is bounded by the configuration,
//! and none of them is a client's.

mod exposition;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use guideway_control::Engine;
use guideway_control::config;
use guideway_control::controller::{Outline, remembered_flows};
use guideway_control::health::{Tally, Verdict, Who};
use guideway_control::histogram::Histogram;
use guideway_forward::outcome::Kind;
use guideway_forward::record::flow::ENTRIES;
use guideway_soft::Count;

pub(crate) use exposition::Format;
use exposition::{Page, sample_name};

use crate::api::model::Interface;
use crate::api::{Places, view};
use crate::core::Core;
use crate::engine::Plane;
use crate::log::Log;

/// What is measured at one moment. It is taken on the daemon's loop, in little time; counters are read and the text is
/// written elsewhere.
#[derive(Debug)]
pub(crate) struct Reading {
    plane: Plane,
    started_at: SystemTime,
    taken_at: SystemTime,
    last_reload_successful: bool,
    interfaces: Vec<Interface>,
    drains: u64,
    repairs: Vec<(&'static str, u64)>,
    drift_failing: Vec<(&'static str, bool)>,
    services: Vec<Outline>,
    /// What there is to say of backends beside that, in their order.
    backends: Vec<Said>,
    /// Backends whose checks cannot be made, by service.
    impossible: HashMap<String, u64>,
    audit_lost: u64,
    log_lost: u64,
    places: Vec<Arc<Places>>,
    lost_ways: usize,
    checks: Tally,
    commits: Histogram,
}

/// What the core says of a backend.
#[derive(Debug)]
struct Said {
    weight: u32,
    drain_flows: u32,
    /// Whether its checks pass, if it is checked.
    up: Option<bool>,
}

impl Reading {
    /// Everything, at this moment.
    pub(crate) fn take(core: &Core) -> Self {
        let services = core.controller.outlines();
        let backends = said(core, &services);
        let impossible = core.impossible_checks().into_iter();
        let impossible = impossible.map(|(service, those)| (service.to_owned(), those.backends)).collect();
        Self {
            plane: core.controller.engine().clone(),
            started_at: core.about.started_at,
            taken_at: core.about.taken_at,
            last_reload_successful: core.about.config.last_reload_successful,
            interfaces: core.about.interfaces.clone(),
            drains: view::drains_under_way(core),
            repairs: core.drift.repairs().collect(),
            drift_failing: core.drift.failing().collect(),
            services,
            backends,
            impossible,
            audit_lost: core.audit.lost,
            log_lost: core.about.log.as_ref().map_or(0, Log::lost),
            places: core.about.places.clone(),
            lost_ways: core.lost.len(),
            checks: core.board.tally(),
            commits: core.commits,
        }
    }

    /// It as text.
    pub(crate) fn text(&self, format: Format) -> String {
        let mut page = Page::new(format);
        self.forwarder(&mut page);
        self.services(&mut page);
        self.backends(&mut page);
        self.checks(&mut page);
        self.daemon(&mut page);
        page.finish()
    }

    fn forwarder(&self, page: &mut Page) {
        let totals = self.plane.totals();
        let version = env!("CARGO_PKG_VERSION");
        let engine = self.plane.name();
        page.family("guideway_build", "info", "The program's version and its engine.");
        page.sample("guideway_build_info", &[("version", version), ("engine", engine)], 1);
        page.family("guideway_start_time_seconds", "gauge", "When the daemon started, since 1970.");
        page.sample("guideway_start_time_seconds", &[], unix(self.started_at));

        page.family("guideway_packets_received", "counter", "Packets that came in.");
        page.sample("guideway_packets_received_total", &[], totals.received.packets);
        page.family("guideway_bytes_received", "counter", "Bytes that came in.");
        page.sample("guideway_bytes_received_total", &[], totals.received.bytes);
        for (family, kind, help) in [
            ("guideway_packets_forwarded", Kind::Forwarded, "Packets that were sent to a backend."),
            (
                "guideway_packets_answered",
                Kind::Answered,
                "Packets that were answered to the client, by reason.",
            ),
            ("guideway_packets_passed", Kind::Passed, "Packets that were left to the host, by reason."),
            ("guideway_drops", Kind::Dropped, "Packets that were dropped, by reason."),
        ] {
            page.family(family, "counter", help);
            let name = format!("{family}_total");
            for (outcome, count) in totals.outcomes().filter(|(outcome, _)| outcome.kind() == kind) {
                let reason = outcome.as_str().trim_start_matches(kind.as_str()).trim_start_matches('_');
                let labels: &[_] = if kind == Kind::Forwarded { &[] } else { &[("reason", reason)] };
                page.sample(&name, labels, count.packets);
            }
        }
        page.family(
            "guideway_events",
            "counter",
            "What happened on the packet path beside the fate of packets.",
        );
        for (event, count) in totals.events() {
            page.sample("guideway_events_total", &[("event", event.as_str())], count);
        }
        page.family("guideway_flow_table_entries", "gauge", "Live flows that are remembered.");
        let many = remembered_flows(&self.plane, self.services.iter().map(|service| service.id));
        page.sample("guideway_flow_table_entries", &[], many);
        page.family("guideway_flow_table_capacity", "gauge", "Flows that can be remembered.");
        page.sample("guideway_flow_table_capacity", &[], self.plane.flows().len() * ENTRIES);
    }

    fn services(&self, page: &mut Page) {
        let counts: Vec<Count> =
            self.services.iter().map(|service| self.plane.service_count(service.id)).collect();
        page.family("guideway_service_packets", "counter", "Packets forwarded for a service.");
        for (service, count) in self.services.iter().zip(&counts) {
            page.sample("guideway_service_packets_total", &[("service", &service.name)], count.packets);
        }
        page.family("guideway_service_bytes", "counter", "Bytes forwarded for a service, as they came in.");
        for (service, count) in self.services.iter().zip(&counts) {
            page.sample("guideway_service_bytes_total", &[("service", &service.name)], count.bytes);
        }
        for (family, kind, help, value) in OF_SERVICES {
            page.family(family, kind, help);
            let name = sample_name(family, kind);
            for service in &self.services {
                page.sample(&name, &[("service", &service.name)], value(service));
            }
        }
        page.family(
            "guideway_health_checks_impossible",
            "gauge",
            "Backends whose checks cannot be made, so that their verdicts stay as they are.",
        );
        for service in &self.services {
            let many = self.impossible.get(&service.name).copied().unwrap_or(0);
            page.sample("guideway_health_checks_impossible", &[("service", &service.name)], many);
        }
    }

    fn backends(&self, page: &mut Page) {
        // A backend that left and one that took its name have one series: both counted for that name.
        let mut backends: BTreeMap<(&str, &str), [f64; 5]> = BTreeMap::new();
        let mut healthy: BTreeMap<(&str, &str), u8> = BTreeMap::new();
        let all = self
            .services
            .iter()
            .flat_map(|service| service.backends.iter().map(|backend| (service.name.as_str(), backend)));
        for ((service, backend), said) in all.zip(&self.backends) {
            let key = (service, backend.identity.as_ref());
            let count = backend.counter.read(&self.plane);
            let [packets, bytes, slots, weight, flows] = backends.entry(key).or_default();
            *packets += count.packets as f64;
            *bytes += count.bytes as f64;
            *slots += f64::from(backend.slots);
            *weight += f64::from(said.weight);
            *flows += f64::from(said.drain_flows);
            if let Some(up) = said.up {
                healthy.insert(key, u8::from(up));
            }
        }
        for (place, family, kind, help) in [
            (0, "guideway_backend_packets", "counter", "Packets forwarded to a backend."),
            (1, "guideway_backend_bytes", "counter", "Bytes forwarded to a backend, as they came in."),
            (2, "guideway_backend_slots", "gauge", "Slots that give a backend new flows."),
            (3, "guideway_backend_weight", "gauge", "The weight by configuration and operators."),
            (4, "guideway_backend_drain_flows", "gauge", "Live flows on a backend that drains."),
        ] {
            page.family(family, kind, help);
            let name = sample_name(family, kind);
            for ((service, backend), values) in &backends {
                page.sample(&name, &[("service", service), ("backend", backend)], values[place]);
            }
        }
        page.family("guideway_backend_health", "gauge", "1 where the checks of a backend pass, else 0.");
        for ((service, backend), up) in &healthy {
            page.sample("guideway_backend_health", &[("service", service), ("backend", backend)], up);
        }
    }

    fn checks(&self, page: &mut Page) {
        let Tally { passed, failed, impossible } = &self.checks;
        page.family(
            "guideway_health_checks",
            "counter",
            "Checks that have ended; services that share one have it counted once.",
        );
        for (result, count) in [("passed", passed.count()), ("failed", *failed), ("impossible", *impossible)]
        {
            page.sample("guideway_health_checks_total", &[("result", result)], count);
        }
        let help = "How long backends took to answer checks that passed.";
        page.histogram("guideway_health_check_duration_seconds", help, passed);
    }

    fn daemon(&self, page: &mut Page) {
        let help = "How long the changes of one time took, from the first table to the last one committed.";
        page.histogram("guideway_commit_duration_seconds", help, &self.commits);
        page.family(
            "guideway_config_last_reload_successful",
            "gauge",
            "Whether the last try to read a configuration succeeded.",
        );
        let successful = u8::from(self.last_reload_successful);
        page.sample("guideway_config_last_reload_successful", &[], successful);
        page.family(
            "guideway_config_last_reload_success_timestamp_seconds",
            "gauge",
            "When a configuration was taken last, since 1970.",
        );
        page.sample("guideway_config_last_reload_success_timestamp_seconds", &[], unix(self.taken_at));
        page.family("guideway_drains", "gauge", "Drains under way.");
        page.sample("guideway_drains", &[], self.drains);
        page.family(
            "guideway_drift_repairs",
            "counter",
            "What somebody else changed in the forwarder and was put right.",
        );
        for (kind, count) in &self.repairs {
            page.sample("guideway_drift_repairs_total", &[("kind", kind)], count);
        }
        page.family(
            "guideway_drift_failing",
            "gauge",
            "1 where something could not be compared or put right at the last try; unknown: whether the program is at an interface could not be asked.",
        );
        for (kind, failing) in &self.drift_failing {
            page.sample("guideway_drift_failing", &[("kind", kind)], u8::from(*failing));
        }
        page.family(
            "guideway_xdp_mode",
            "gauge",
            "How packets are read at an interface: 1 for the mode it has.",
        );
        for port in &self.interfaces {
            let labels = [("interface", port.name.as_str()), ("mode", port.mode.as_str())];
            page.sample("guideway_xdp_mode", &labels, 1);
        }
        page.family(
            "guideway_interface_forwarding",
            "gauge",
            "Whether packets are read at an interface: 0 where it is down or the program cannot be put back.",
        );
        for port in &self.interfaces {
            let forwarding = u8::from(port.lost.is_none() && !port.down);
            page.sample("guideway_interface_forwarding", &[("interface", port.name.as_str())], forwarding);
        }
        page.family(
            "guideway_next_hops_missing",
            "gauge",
            "Addresses of backends that no frame can be sent to: no route, no interface, or a next hop that does not answer.",
        );
        page.sample("guideway_next_hops_missing", &[], self.lost_ways);
        page.family(
            "guideway_audit_lost",
            "counter",
            "Changes that the audit log's file lacks, as it could not be written.",
        );
        page.sample("guideway_audit_lost_total", &[], self.audit_lost);
        page.family(
            "guideway_log_lines_lost",
            "counter",
            "Lines that the log lacks, as nobody took them from standard error.",
        );
        page.sample("guideway_log_lines_lost_total", &[], self.log_lost);
        page.family("guideway_api_connections", "gauge", "Connections to the API, by way in.");
        for places in &self.places {
            page.sample("guideway_api_connections", &[("door", places.door)], places.open());
        }
        page.family(
            "guideway_api_connections_refused",
            "counter",
            "Connections to the API that were turned away, since too many were open.",
        );
        for places in &self.places {
            let labels = [("door", places.door)];
            page.sample("guideway_api_connections_refused_total", &labels, places.turned_away());
        }
    }
}

/// What is known of a service: the family, its kind, what it is, and how it is read.
type OfService = (&'static str, &'static str, &'static str, fn(&Outline) -> u64);

const OF_SERVICES: [OfService; 6] = [
    ("guideway_service_eligible_backends", "gauge", "Backends that take new flows.", Outline::eligible),
    (
        "guideway_service_last_resort",
        "gauge",
        "Whether backends are used although every check fails.",
        |service| u64::from(service.last_resort),
    ),
    (
        "guideway_service_unsettled_slots",
        "gauge",
        "Slots on which older flows may be elsewhere.",
        |service| u64::from(service.unsettled),
    ),
    ("guideway_table_slots_moved", "counter", "Slots that changes have moved to another owner.", |service| {
        service.churn.moved
    }),
    (
        "guideway_table_slots_moved_needlessly",
        "counter",
        "Slots that changes have moved although nothing asked for it.",
        |service| service.churn.needless,
    ),
    ("guideway_table_generation", "gauge", "The number of the committed table.", |service| {
        u64::from(service.generation)
    }),
];

/// What the core says of each backend.
fn said(core: &Core, services: &[Outline]) -> Vec<Said> {
    let mut drain_flows: HashMap<Who, u32> = HashMap::new();
    for (key, drain) in core.drains.iter() {
        let who = Who { service: key.service.clone(), backend: key.backend.clone() };
        *drain_flows.entry(who).or_default() += drain.live_flows();
    }
    let configured: HashMap<&str, &config::Service> =
        core.config.services.iter().map(|service| (service.name.as_str(), service)).collect();
    let mut all = Vec::new();
    for service in services {
        let wanted = configured.get(service.name.as_str()).into_iter().flat_map(|service| &service.backends);
        let weights: HashMap<&str, u32> =
            wanted.map(|backend| (backend.name.as_str(), backend.weight)).collect();
        for backend in &service.backends {
            let who = Who { service: service.name.clone(), backend: backend.identity.to_string() };
            if backend.removed {
                all.push(Said { weight: 0, drain_flows: drain_flows.remove(&who).unwrap_or(0), up: None });
                continue;
            }
            let weight = core.desired.overrides().of(&who).weight;
            all.push(Said {
                weight: weight.or_else(|| weights.get(backend.identity.as_ref()).copied()).unwrap_or(0),
                drain_flows: drain_flows.remove(&who).unwrap_or(0),
                up: core.board.verdict(&who).map(|verdict| verdict == Verdict::Up),
            });
        }
    }
    all
}

fn unix(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use axum::body::Body;
    use axum::http::{Request, header};

    use guideway_control::health::{Fault, Passed};

    use super::{Format, Reading};
    use crate::in_process::{self, Api, CHECK, CONFIG};

    /// The media type and the text that a request with this `Accept` gets.
    fn asked(accept: Option<&str>) -> (String, String) {
        let mut request = Request::get("/metrics");
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let answer = Api::new().unwrap().ask(request.body(Body::empty()).unwrap());
        let media_type = answer.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        (media_type, String::from_utf8(answer.body().to_vec()).unwrap())
    }

    #[test]
    fn checks_and_commits_are_counted_with_how_long_they_took() {
        let mut now = Instant::now();
        let mut core = in_process::core(&format!("{CONFIG}{CHECK}"), now).unwrap();
        let second = Duration::from_secs(1);
        in_process::check(&mut core, &mut now, second, &Ok(Passed { took: Duration::from_millis(3) }));
        in_process::check(&mut core, &mut now, second, &Err(Fault::Refused));
        let text = Reading::take(&core).text(Format::Classic);
        let value = |series: &str| -> u64 {
            let line =
                text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == series));
            line.unwrap_or_else(|| panic!("no {series}: {text}")).rsplit_once(' ').unwrap().1.parse().unwrap()
        };
        let passed = value("guideway_health_checks_total{result=\"passed\"}");
        assert!(passed >= 2 && value("guideway_health_checks_total{result=\"failed\"}") >= 2, "{text}");
        assert_eq!(value("guideway_health_checks_total{result=\"impossible\"}"), 0);
        let within =
            |bound| value(&format!("guideway_health_check_duration_seconds_bucket{{le=\"{bound}\"}}"));
        assert_eq!(
            [within("0.0025"), within("0.005"), within("1.0"), within("+Inf")],
            [0, passed, passed, passed]
        );
        assert_eq!(value("guideway_health_check_duration_seconds_count"), passed);
        // The one of the verdicts that they are up.
        assert!(value("guideway_commit_duration_seconds_count") >= 1, "{text}");
    }

    #[test]
    fn the_classic_text_has_only_what_its_format_knows() {
        for accept in [None, Some("text/plain"), Some("*/*"), Some("application/openmetrics-text;q=0")] {
            let (media_type, text) = asked(accept);
            assert_eq!(media_type, "text/plain; version=0.0.4; charset=utf-8", "{accept:?}");
            let (mut family, mut is_histogram) = ("", false);
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("# TYPE ") {
                    let (name, kind) = rest.split_once(' ').unwrap();
                    assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                    assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                    (family, is_histogram) = (name, kind == "histogram");
                } else if let Some(rest) = line.strip_prefix('#') {
                    assert!(rest.starts_with(&format!(" HELP {family} ")), "{line}");
                } else {
                    let name = line.split(['{', ' ']).next().unwrap();
                    let parts = ["_bucket", "_sum", "_count"].map(|part| format!("{family}{part}"));
                    assert!(
                        name == family || is_histogram && parts.iter().any(|part| name == part),
                        "{line}"
                    );
                }
            }
            assert!(text.contains("\n# TYPE guideway_drops_total counter\n"), "{text}");
        }
    }

    #[test]
    fn open_metrics_go_to_who_names_them_with_the_same_series() {
        let accept =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        let (media_type, text) = asked(Some(accept));
        assert_eq!(media_type, Format::OpenMetrics.media_type());
        assert!(text.starts_with("# TYPE guideway_build info\n") && text.ends_with("\n# EOF\n"), "{text}");
        let series = |text: &str| -> Vec<String> {
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
        };
        assert_eq!(series(&text), series(&asked(None).1));
    }
}
