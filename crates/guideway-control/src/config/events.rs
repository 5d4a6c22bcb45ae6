//! Scripted events of a replay: what happens to backends, and when.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use schemars::JsonSchema;

use super::model::{Backend, Config, Service};
use super::problem::{Problem, Problems, nearest, one_of};
use super::raw::{MAX_WEIGHT, Name};
use super::reader::{At, FromSection, Section};
use super::server_id::RawServerId;
use super::source::{Source, Span};
use super::value::{Bounded, Time};
use super::words::EventKind;
use super::{document, finish};

/// Something that happens to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When, from the first packet of the capture on.
    pub at: Duration,
    /// The service's name.
    pub service: String,
    /// The backend's name.
    pub backend: String,
    /// What.
    pub action: Action,
}

/// What happens to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It takes no new flows.
    Drain,
    /// It is broken.
    Down,
    /// It takes new flows again.
    Up,
    /// It joins.
    Add {
        /// Where the tunnel ends.
        address: IpAddr,
        /// Its share of new flows.
        weight: u32,
        /// Its QUIC server id, big-endian, of the length that the service says.
        server_id: Option<u64>,
    },
    /// Its share of new flows changes.
    Weight(u32),
    /// It leaves at once.
    Remove,
}

/// Reads the events for a configuration, in the order of their times.
///
/// # Errors
/// Every problem of the text, services and backends that the configuration lacks at that time among them.
pub fn parse(source: &Source, config: &Config) -> Result<Vec<Event>, Problems> {
    let mut problems = Vec::new();
    let raw: RawEvents = document(source, &mut problems)?;
    let mut written: Vec<(Duration, &RawEvent)> =
        raw.event.iter().filter_map(|event| Some((event.value.at.as_ref()?.value.0, &event.value))).collect();
    written.sort_by_key(|(at, _)| *at);
    let mut cast = Cast::new(config);
    let events =
        written.into_iter().filter_map(|(at, raw)| build(at, raw, &mut cast, &mut problems)).collect();
    finish(source, problems, events)
}

/// The JSON schema of a file of events.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RawEvents).to_value()
}

/// What a replay does at which time.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Events")]
struct RawEvents {
    /// The events, in any order.
    #[schemars(default)]
    event: Vec<At<RawEvent>>,
}

impl FromSection for RawEvents {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self { event: section.tables("event") }
    }
}

/// Something that happens to a backend.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RawEvent {
    /// When, from the first packet of the capture on: `"12.5s"` as well as `"1m 30s"`.
    #[schemars(required, with = "EventTime")]
    at: Option<At<EventTime>>,
    /// What happens.
    #[schemars(required, with = "EventKind")]
    r#do: Option<At<EventKind>>,
    /// The service.
    #[schemars(required, with = "Name")]
    service: Option<At<Name>>,
    /// The backend.
    #[schemars(required, with = "Name")]
    backend: Option<At<Name>>,
    /// `add` (default 1) and `weight`: its share of new flows.
    weight: Option<At<Bounded<0, MAX_WEIGHT>>>,
    /// `add`: where the tunnel ends.
    address: Option<At<IpAddr>>,
    /// `add` to a service with `quic`: the id that it puts into connection ids.
    server_id: Option<At<RawServerId>>,
}

/// From the capture's start to a year after it.
type EventTime = Time<0, 31_536_000_000>;

impl FromSection for RawEvent {
    fn from_section(section: &mut Section<'_, '_>) -> Self {
        Self {
            at: section.required("at", "\"12.5s\""),
            r#do: section.required("do", "\"drain\""),
            service: section.required("service", "\"web\""),
            backend: section.required("backend", "\"be1\""),
            weight: section.field("weight"),
            address: section.field("address"),
            server_id: section.field("server_id"),
        }
    }
}

/// Which backends each service has at the time of an event, by name.
struct Cast<'a> {
    config: &'a Config,
    services: HashMap<&'a str, (&'a Service, HashMap<String, Member>)>,
}

/// What no two backends of a service have in common.
struct Member {
    address: IpAddr,
    server_id: Option<u64>,
}

impl<'a> Cast<'a> {
    fn new(config: &'a Config) -> Self {
        let member = |backend: &Backend| {
            (backend.name.clone(), Member { address: backend.address, server_id: backend.server_id })
        };
        let services = config
            .services
            .iter()
            .map(|service| (service.name.as_str(), (service, service.backends.iter().map(member).collect())));
        Self { config, services: services.collect() }
    }
}

fn build(at: Duration, raw: &RawEvent, cast: &mut Cast<'_>, problems: &mut Vec<Problem>) -> Option<Event> {
    let (kind, service, backend) = (raw.r#do.as_ref()?, raw.service.as_ref()?, raw.backend.as_ref()?);
    check_keys(raw, kind, problems);
    let config = cast.config;
    let Some((there, members)) = cast.services.get_mut(service.value.0.as_str()) else {
        let known = || config.services.iter().map(|service| service.name.as_str());
        problems.push(absent("service", &service.value.0, known(), service));
        return None;
    };
    let name = backend.value.0.clone();
    let weight = raw.weight.as_ref().map(|weight| u32::try_from(weight.value.0).unwrap_or(u32::MAX));
    if kind.value != EventKind::Add && !members.contains_key(&name) {
        let mut known: Vec<&str> = members.keys().map(String::as_str).collect();
        known.sort_unstable();
        problems.push(absent("backend", &name, known.into_iter(), backend));
        return None;
    }
    let action = match kind.value {
        EventKind::Drain => Action::Drain,
        EventKind::Down => Action::Down,
        EventKind::Up => Action::Up,
        EventKind::Weight => Action::Weight(weight?),
        EventKind::Remove => {
            members.remove(&name);
            Action::Remove
        }
        EventKind::Add => {
            let address = raw.address.as_ref()?;
            let server_id = raw.server_id.as_ref().and_then(|id| read_server_id(id, there, problems));
            check_joining(raw, server_id, members, problems);
            if config.underlay.source_for(address.value).is_none() {
                problems.push(
                    Problem::new(
                        address.span.clone(),
                        "the configuration has no tunnel source of this family",
                    )
                    .label("no source address")
                    .help("add `source_v4` or `source_v6` to its `[underlay]`"),
                );
            }
            members.entry(name.clone()).or_insert(Member { address: address.value, server_id });
            Action::Add { address: address.value, weight: weight.unwrap_or(1), server_id }
        }
    };
    Some(Event { at, service: service.value.0.clone(), backend: name, action })
}

fn read_server_id(id: &At<RawServerId>, service: &Service, problems: &mut Vec<Problem>) -> Option<u64> {
    let Some(quic) = service.quic else {
        problems.push(
            Problem::new(id.span.clone(), format!("`{}` reads no server ids", service.name))
                .label("cannot be honoured")
                .help("add `[service.quic]` with `server_id_length` to the service, or leave the id out"),
        );
        return None;
    };
    RawServerId::read(id, quic, problems)
}

/// A backend that joins has a name, an address and a server id of its own.
fn check_joining(
    raw: &RawEvent,
    server_id: Option<u64>,
    members: &HashMap<String, Member>,
    problems: &mut Vec<Problem>,
) {
    let mut taken = |span: &Span, message: String| {
        problems.push(Problem::new(span.clone(), message).label("taken at that time"));
    };
    let (Some(service), Some(name), Some(address)) = (&raw.service, &raw.backend, &raw.address) else {
        return;
    };
    if members.contains_key(&name.value.0) {
        let message = format!("`{}` has a backend `{}` already", service.value.0, name.value.0);
        return taken(&name.span, message);
    }
    if let Some((other, _)) = members.iter().find(|(_, member)| member.address == address.value) {
        taken(&address.span, format!("backend `{other}` has the address `{}`", address.value));
    }
    if let (Some(id), Some(place)) = (server_id, &raw.server_id)
        && let Some((other, _)) = members.iter().find(|(_, member)| member.server_id == Some(id))
    {
        taken(&place.span, format!("backend `{other}` has this server id"));
    }
}

fn check_keys(raw: &RawEvent, kind: &At<EventKind>, problems: &mut Vec<Problem>) {
    let word = kind.value;
    let add = word == EventKind::Add;
    let keys = [
        (
            "weight",
            raw.weight.as_ref().map(|at| &at.span),
            add || word == EventKind::Weight,
            word == EventKind::Weight,
        ),
        ("address", raw.address.as_ref().map(|at| &at.span), add, add),
        ("server_id", raw.server_id.as_ref().map(|at| &at.span), add, false),
    ];
    for (key, span, allowed, needed) in keys {
        match span {
            Some(span) if !allowed => problems.push(
                Problem::new(span.clone(), format!("`{key}` means nothing for `{word}`"))
                    .label("cannot be honoured")
                    .related(kind.span.clone(), "the event"),
            ),
            None if needed => problems.push(
                Problem::new(kind.span.clone(), format!("`{word}` needs `{key}`"))
                    .label(format!("which {key}?"))
                    .help(format!("add a line `{key} = …`")),
            ),
            _ => {}
        }
    }
}

fn absent<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
    place: &At<Name>,
) -> Problem {
    let help = match nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("at that time there is {}", one_of(known.take(20))),
    };
    Problem::new(place.span.clone(), format!("there is no {what} `{name}`")).label("not found").help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = "[underlay]\nsource_v4 = \"10.0.0.254\"\n[[service]]\nname = \"web\"\nvip = \"192.0.2.10\"\nport = 80\n\
                    protocol = \"tcp\"\nbackend = [{ name = \"be1\", address = \"10.0.0.1\" }]\n";
        super::super::parse(&Source::new("guideway.toml", text)).unwrap()
    }

    fn events(text: &str) -> Result<Vec<Event>, Problems> {
        parse(&Source::new("events.toml", text), &config())
    }

    #[test]
    fn events_come_in_the_order_of_their_times() {
        let text = "[[event]]\nat = \"12500ms\"\ndo = \"drain\"\nservice = \"web\"\nbackend = \"be2\"\n\
                    [[event]]\nat = \"1s\"\ndo = \"add\"\nservice = \"web\"\nbackend = \"be2\"\naddress = \"10.0.0.2\"\n";
        let events = events(text).unwrap();
        let address = "10.0.0.2".parse().unwrap();
        assert_eq!(events[0].action, Action::Add { address, weight: 1, server_id: None });
        assert_eq!((events[1].at, events[1].action), (Duration::from_millis(12_500), Action::Drain));
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        let text = "[[event]]\nat = \"12.5s\"\ndo = \"down\"\nservice = \"web\"\nbackend = \"be1\"\n";
        assert_eq!(events(text).unwrap()[0].at, Duration::from_millis(12_500));
    }

    #[test]
    fn every_mistake_is_named() {
        let text = "[[event]]\nat = \"1s\"\ndo = \"drian\"\nservice = \"web\"\nbackend = \"be1\"\n\
                    [[event]]\nat = \"2s\"\ndo = \"weight\"\nservice = \"wbe\"\nbackend = \"be1\"\n\
                    [[event]]\nat = \"2s\"\ndo = \"drain\"\nservice = \"web\"\nbackend = \"be9\"\nweight = 3\n";
        let messages: Vec<String> =
            events(text).unwrap_err().list().iter().map(|problem| problem.message.clone()).collect();
        assert_eq!(
            messages,
            [
                "unknown event `drian`",
                "`weight` needs `weight`",
                "there is no service `wbe`",
                "there is no backend `be9`",
                "`weight` means nothing for `drain`",
            ]
        );
    }

    fn messages(text: &str) -> Vec<String> {
        events(text).unwrap_err().list().iter().map(|problem| problem.message.clone()).collect()
    }

    #[test]
    fn what_a_backend_leaves_another_may_have() {
        let event = |at: u8, what: &str, backend: &str, rest: &str| {
            format!(
                "[[event]]\nat = \"{at}s\"\ndo = \"{what}\"\nservice = \"web\"\nbackend = \"{backend}\"\n{rest}"
            )
        };
        let same = "address = \"10.0.0.1\"\n";
        let add = event(2, "add", "be2", same);
        assert_eq!(messages(&add), ["backend `be1` has the address `10.0.0.1`"]);
        assert_eq!(events(&(event(1, "remove", "be1", "") + &add)).unwrap().len(), 2);
    }

    #[test]
    fn a_backend_that_joins_brings_its_server_id() {
        let text = |id: &str| {
            format!(
                "[[event]]\nat = \"1s\"\ndo = \"add\"\nservice = \"quic\"\nbackend = \"be2\"\naddress = \"10.0.0.2\"\nserver_id = {id}\n"
            )
        };
        let config = "[underlay]\nsource_v4 = \"10.0.0.254\"\n[[service]]\nname = \"quic\"\nvip = \"192.0.2.10\"\nport = 443\n\
                      protocol = \"udp\"\nquic = { server_id_length = 2 }\n\
                      backend = [{ name = \"be1\", address = \"10.0.0.1\", server_id = 1 }]\n";
        let config = super::super::parse(&Source::new("guideway.toml", config)).unwrap();
        let read = |id: &str| parse(&Source::new("events.toml", text(id)), &config);
        let address = "10.0.0.2".parse().unwrap();
        assert_eq!(
            read("\"0102\"").unwrap()[0].action,
            Action::Add { address, weight: 1, server_id: Some(0x102) }
        );
        let message = |id: &str| read(id).unwrap_err().list()[0].message.clone();
        assert_eq!(message("\"010203\""), "the server ids of this service have 2 bytes");
        assert_eq!(message("1"), "backend `be1` has this server id");
        let without = messages(&text("2").replace("\"quic\"", "\"web\""));
        assert_eq!(without, ["`web` reads no server ids"]);
    }
}
