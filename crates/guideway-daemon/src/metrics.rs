//! What is measured, as Prometheus' classic text, or as OpenMetrics to who asks for it.
//!
//! Labels are names of services and backends, and words of this program: their number is bounded by the configuration,
//! and none of them is a client's.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::{Instant, SystemTime};

use guideway_forward::outcome::Kind;

use crate::api::view;
use crate::core::Core;

/// How the text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format, version 0.0.4: counters and gauges.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What a request with these `Accept` headers gets: OpenMetrics if one of them names it and does not refuse it.
    pub(crate) fn accepted<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let takes_open_metrics = accept.into_iter().flat_map(|list| list.split(',')).any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let named = parts.next().is_some_and(|t| t.eq_ignore_ascii_case("application/openmetrics-text"));
            let quality = |part: &str| match part.split_once('=') {
                Some((key, value)) if key.trim().eq_ignore_ascii_case("q") => {
                    value.trim().parse::<f32>().ok()
                }
                _ => None,
            };
            named && parts.find_map(quality) != Some(0.0)
        });
        if takes_open_metrics { Self::OpenMetrics } else { Self::Classic }
    }

    /// The media type of the text.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Everything, at this moment.
pub(crate) fn text(core: &Core, now: Instant, format: Format) -> String {
    let mut page = Page { format, text: String::new() };
    let totals = core.controller.engine().totals();
    let version = env!("CARGO_PKG_VERSION");
    let engine = core.about.engine;
    page.family("guideway_build", "info", "The program's version and its engine.");
    page.sample("guideway_build_info", &[("version", version), ("engine", engine)], 1);
    page.family("guideway_start_time_seconds", "gauge", "When the daemon started, since 1970.");
    page.sample("guideway_start_time_seconds", &[], unix(core.about.started_at));

    page.family("guideway_packets_received", "counter", "Packets that came in.");
    page.sample("guideway_packets_received_total", &[], totals.received.packets);
    page.family("guideway_bytes_received", "counter", "Bytes that came in.");
    page.sample("guideway_bytes_received_total", &[], totals.received.bytes);
    for (family, kind, help) in [
        ("guideway_packets_forwarded", Kind::Forwarded, "Packets that were sent to a backend."),
        ("guideway_packets_answered", Kind::Answered, "Packets that were answered to the client, by reason."),
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
    page.family("guideway_events", "counter", "What happened on the packet path beside the fate of packets.");
    for (event, count) in totals.events() {
        page.sample("guideway_events_total", &[("event", event.as_str())], count);
    }
    let status = view::status(core, now);
    page.family("guideway_flow_table_entries", "gauge", "Live flows that are remembered.");
    page.sample("guideway_flow_table_entries", &[], status.flow_table.entries);
    page.family("guideway_flow_table_capacity", "gauge", "Flows that can be remembered.");
    page.sample("guideway_flow_table_capacity", &[], status.flow_table.capacity);

    services(&mut page, core, now);

    page.family(
        "guideway_config_last_reload_successful",
        "gauge",
        "Whether the last try to read a configuration succeeded.",
    );
    let successful = u8::from(core.about.config.last_reload_successful);
    page.sample("guideway_config_last_reload_successful", &[], successful);
    page.family(
        "guideway_config_last_reload_success_timestamp_seconds",
        "gauge",
        "When a configuration was taken last, since 1970.",
    );
    page.sample("guideway_config_last_reload_success_timestamp_seconds", &[], unix(core.about.taken_at));
    page.family("guideway_drains", "gauge", "Drains under way.");
    page.sample("guideway_drains", &[], status.drains);
    page.family(
        "guideway_drift_repairs",
        "counter",
        "What somebody else changed in the forwarder and was put right.",
    );
    for (kind, count) in core.drift.repairs() {
        page.sample("guideway_drift_repairs_total", &[("kind", kind)], count);
    }
    page.family("guideway_xdp_mode", "gauge", "How packets are read at an interface: 1 for the mode it has.");
    for port in &core.about.interfaces {
        let labels = [("interface", port.name.as_str()), ("mode", port.mode.as_str())];
        page.sample("guideway_xdp_mode", &labels, 1);
    }
    page.family(
        "guideway_interface_forwarding",
        "gauge",
        "Whether packets are read at an interface: 0 where the program was taken away and cannot be put back.",
    );
    for port in &core.about.interfaces {
        let forwarding = u8::from(port.lost.is_none());
        page.sample("guideway_interface_forwarding", &[("interface", port.name.as_str())], forwarding);
    }
    page.family(
        "guideway_audit_lost",
        "counter",
        "Changes that the audit log's file lacks, as it could not be written.",
    );
    page.sample("guideway_audit_lost_total", &[], core.audit.lost);
    page.family("guideway_api_connections", "gauge", "Connections to the API, by way in.");
    for places in &core.about.places {
        page.sample("guideway_api_connections", &[("door", places.door)], places.open());
    }
    page.family(
        "guideway_api_connections_refused",
        "counter",
        "Connections to the API that were turned away, since too many were open.",
    );
    for places in &core.about.places {
        page.sample("guideway_api_connections_refused_total", &[("door", places.door)], places.turned_away());
    }
    page.finish()
}

fn services(page: &mut Page, core: &Core, now: Instant) {
    let services = view::services(core, None, now);
    page.family("guideway_service_packets", "counter", "Packets forwarded for a service.");
    for service in &services {
        page.sample("guideway_service_packets_total", &[("service", &service.name)], service.packets_total);
    }
    page.family("guideway_service_bytes", "counter", "Bytes forwarded for a service, as they came in.");
    for service in &services {
        page.sample("guideway_service_bytes_total", &[("service", &service.name)], service.bytes_total);
    }
    page.family("guideway_service_eligible_backends", "gauge", "Backends that take new flows.");
    for service in &services {
        page.sample("guideway_service_eligible_backends", &[("service", &service.name)], service.eligible);
    }
    page.family(
        "guideway_service_last_resort",
        "gauge",
        "Whether backends are used although every check fails.",
    );
    for service in &services {
        page.sample(
            "guideway_service_last_resort",
            &[("service", &service.name)],
            u8::from(service.last_resort),
        );
    }
    page.family("guideway_service_unsettled_slots", "gauge", "Slots on which older flows may be elsewhere.");
    for service in &services {
        page.sample(
            "guideway_service_unsettled_slots",
            &[("service", &service.name)],
            service.unsettled_slots,
        );
    }
    page.family("guideway_table_slots_moved", "counter", "Slots that changes have moved to another owner.");
    for service in &services {
        let labels = [("service", service.name.as_str())];
        page.sample("guideway_table_slots_moved_total", &labels, service.slots_moved_total);
    }
    let needless = "Slots that changes have moved although nothing asked for it.";
    page.family("guideway_table_slots_moved_needlessly", "counter", needless);
    for service in &services {
        let labels = [("service", service.name.as_str())];
        page.sample(
            "guideway_table_slots_moved_needlessly_total",
            &labels,
            service.slots_moved_needlessly_total,
        );
    }
    page.family("guideway_table_generation", "gauge", "The number of the committed table.");
    for service in &services {
        page.sample("guideway_table_generation", &[("service", &service.name)], service.generation);
    }
    // A backend that left and one that took its name have one series: both counted for that name.
    let mut backends: BTreeMap<(&str, &str), [f64; 5]> = BTreeMap::new();
    let mut healthy: BTreeMap<(&str, &str), u8> = BTreeMap::new();
    for backend in services.iter().flat_map(|service| &service.backends) {
        let key = (backend.service.as_str(), backend.name.as_str());
        let [packets, bytes, slots, weight, flows] = backends.entry(key).or_default();
        *packets += backend.packets_total as f64;
        *bytes += backend.bytes_total as f64;
        *slots += f64::from(backend.slots);
        *weight += f64::from(backend.weight);
        *flows += backend.drain.as_ref().map_or(0.0, |drain| f64::from(drain.live_flows));
        if let Some(health) = &backend.health {
            healthy.insert(key, u8::from(health.verdict == "up"));
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
        let name = if kind == "counter" { format!("{family}_total") } else { family.to_owned() };
        for ((service, backend), values) in &backends {
            page.sample(&name, &[("service", service), ("backend", backend)], values[place]);
        }
    }
    page.family("guideway_backend_health", "gauge", "1 where the checks of a backend pass, else 0.");
    for ((service, backend), up) in &healthy {
        page.sample("guideway_backend_health", &[("service", service), ("backend", backend)], up);
    }
}

fn unix(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A page of metrics.
#[derive(Debug)]
struct Page {
    format: Format,
    text: String,
}

impl Page {
    /// Begins a family; its samples follow.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // The classic format has no infos, and its families bear the names of their samples.
        let (ending, kind) = match (self.format, kind) {
            (Format::Classic, "counter") => ("_total", "counter"),
            (Format::Classic, "info") => ("_info", "gauge"),
            _ => ("", kind),
        };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# TYPE {name}{ending} {kind}\n# HELP {name}{ending} {help}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text += name;
        for (place, (label, value)) in labels.iter().enumerate() {
            self.text.push(if place == 0 { '{' } else { ',' });
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text += "# EOF\n";
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, header};

    use super::Format;
    use crate::in_process::Api;

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
    fn the_classic_text_has_only_what_its_format_knows() {
        for accept in [None, Some("text/plain"), Some("*/*"), Some("application/openmetrics-text;q=0")] {
            let (media_type, text) = asked(accept);
            assert_eq!(media_type, "text/plain; version=0.0.4; charset=utf-8", "{accept:?}");
            let mut family = "";
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("# TYPE ") {
                    let (name, kind) = rest.split_once(' ').unwrap();
                    assert!(["counter", "gauge"].contains(&kind), "{line}");
                    assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                    family = name;
                } else if let Some(rest) = line.strip_prefix('#') {
                    assert!(rest.starts_with(&format!(" HELP {family} ")), "{line}");
                } else {
                    let name = line.split(['{', ' ']).next().unwrap();
                    assert_eq!(name, family, "{line}");
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
