//! The API without a network, files or a forwarder at work: its router, and a loop that does what requests ask for.
//!
//! It is for tests and for fuzzing: [`Api::survive`] makes a request of any bytes and looks at what comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
#[cfg(test)]
use std::time::Duration;
use std::time::{Instant, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Method, Request, Response, StatusCode, Uri, header};
use guideway_control::config::{self, Source};
use guideway_control::controller::Controller;
use guideway_control::health::Board;
#[cfg(test)]
use guideway_control::health::{Answer, LegResult};
use guideway_control::overrides::Overrides;
use guideway_soft::Memory;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::api::model::{ConfigStatus, Problem};
use crate::api::{Desk, Door, Loop, Order, Refusal, Role, Work, router};
use crate::core::{About, Core};
use crate::engine::Plane;
use crate::limits;

/// What the daemon is configured with.
pub(crate) const CONFIG: &str = r#"
[flow_table]
entries = 4096

[underlay]
source_v4 = "10.0.1.1"

[[service]]
name = "web"
vip = ["192.0.2.10"]
port = 80
protocol = "tcp"
backend = [
  { name = "be1", address = "10.0.0.1" },
  { name = "be2", address = "10.0.0.2", weight = 2 },
]
"#;

/// What checks the backends, to be put behind [`CONFIG`].
#[cfg(test)]
pub(crate) const CHECK: &str =
    r#"health = { kind = "tcp", via = "direct", interval = "1s", timeout = "100ms", rise = 1, fall = 1 }"#;

/// The API, and a daemon behind it.
#[derive(Debug)]
pub struct Api {
    runtime: Runtime,
    router: Router,
    work: mpsc::Receiver<Work>,
    core: Core,
}

impl Api {
    /// A daemon with a service of two backends.
    ///
    /// # Errors
    /// What the system refuses, in words.
    pub fn new() -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| failed(&e))?;
        let core = core(CONFIG, Instant::now())?;
        let (sender, work) = mpsc::channel(1);
        let router = router(Loop::new(sender, core.heartbeat.pulse().clone()), Door::Socket(Role::Operator));
        Ok(Self { runtime, router, work, core })
    }

    /// What every change changes.
    pub fn revision(&self) -> String {
        self.core.revision()
    }

    /// Asks. Orders that are about files are refused.
    ///
    /// # Panics
    /// When the router does not answer.
    pub fn ask(&mut self, request: Request<Body>) -> Response<Bytes> {
        let Self { runtime, router, work, core } = self;
        runtime.block_on(async {
            let mut answer = std::pin::pin!(router.clone().oneshot(request));
            let response = loop {
                tokio::select! {
                    answered = &mut answer => match answered {
                        Ok(response) => break response,
                        Err(never) => match never {},
                    },
                    Some(asked) = work.recv() => {
                        let mut order = None;
                        let tell = asked(&mut Desk { core, order: &mut order });
                        core.audit.take_unwritten();
                        tell();
                        if let Some((order, _)) = order {
                            refuse(order);
                        }
                    }
                }
            };
            let (parts, body) = response.into_parts();
            let bytes = to_bytes(body, usize::MAX).await;
            Response::from_parts(parts, bytes.unwrap_or_else(|error| panic!("no body: {error}")))
        })
    }

    /// Makes a request of any bytes and asks it: nothing may panic, every refusal is a problem with something to say, `GET`
    /// changes nothing, and what is refused changes nothing.
    ///
    /// # Panics
    /// When one of that is not so.
    pub fn survive(&mut self, data: &[u8]) {
        let Some(request) = request(data) else { return };
        let told = format!("{} {}", request.method(), request.uri());
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let heads = *request.method() == Method::HEAD;
        let before = self.revision();
        let answer = self.ask(request);
        let status = answer.status();
        assert!(!status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE, "{told}: {status}");
        if reads || status.is_client_error() {
            assert_eq!(self.revision(), before, "{told} changed something: {status}");
        }
        if status.is_client_error() && !heads {
            let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            assert_eq!(kind, Some("application/problem+json"), "{told}: {status}");
            let problem: Problem = serde_json::from_slice(answer.body())
                .unwrap_or_else(|error| panic!("{told}: a problem that is none: {error}"));
            assert!(!problem.detail.is_empty() && problem.status == status.as_u16(), "{told}: {problem:?}");
        }
    }
}

/// Lets this time pass, in which every check gets this answer.
#[cfg(test)]
pub(crate) fn check(core: &mut Core, now: &mut Instant, time: Duration, result: &LegResult) {
    check_while(core, now, time, result, |_, _| ());
}

/// The same while something holds of the daemon, which is told to it before each round.
pub(crate) fn check_while(
    core: &mut Core,
    now: &mut Instant,
    time: Duration,
    result: &LegResult,
    tell: impl Fn(&mut Core, Instant),
) {
    let end = *now + time;
    while core.next_due() <= end {
        *now = core.next_due().max(*now);
        tell(core, *now);
        let rounds = core.rounds(*now);
        core.advance(*now);
        for round in rounds {
            let results = vec![result.clone(); round.legs.len()].into();
            core.answer(&Answer { id: round.id, results }, *now);
        }
    }
    *now = end;
}

/// The core of a daemon over memory, with this configuration in force.
pub(crate) fn core(text: &str, now: Instant) -> Result<Core, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let config = config::parse(&Source::new("<built in>", text)).map_err(|e| failed(&e))?;
    let memory = Memory::try_new(limits::of(&config), [1, 2]).map_err(|e| failed(&e))?;
    let started_at = SystemTime::now();
    let about = About {
        interfaces_are_given: true,
        is_ending: false,
        started_at,
        taken_at: started_at,
        engine: "soft",
        interfaces: Vec::new(),
        renamed: BTreeMap::new(),
        tunnel_probes: false,
        config: ConfigStatus {
            source: "<built in>".to_owned(),
            taken_at: String::new(),
            last_reload_successful: true,
            last_reload_error: None,
            confirm_by: None,
        },
        socket: None,
        address: None,
        places: Vec::new(),
        log: None,
        faults: Vec::new(),
    };
    let controller = Controller::new(Plane::Soft(Arc::new(memory)));
    let mut core = Core::new(config, controller, Board::new(1), Overrides::default(), about, now);
    core.begin(now).map_err(|e| failed(&e))?;
    Ok(core)
}

/// Files are no part of this.
fn refuse(order: Order) {
    let why = || Refusal::refused("there are no files here");
    match order {
        Order::Reload(tell) => drop(tell.send(Err(why()))),
        Order::Apply(_, tell) | Order::Rollback(tell) => drop(tell.send(Err(why()))),
        Order::Confirm(tell) => drop(tell.send(Err(why()))),
        Order::PlanRollback(tell) => drop(tell.send(Err(why()))),
    }
}

const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"];

const PARTS: &[&str] = &[
    "",
    "v1",
    "v2",
    "status",
    "services",
    "web",
    "wbe",
    "backends",
    "be1",
    "be9",
    "admin",
    "weight",
    "override",
    "table",
    "drains",
    "flows",
    "events",
    "audit",
    "config",
    "reload",
    "plan",
    "apply",
    "confirm",
    "rollback",
    "explain",
    "metrics",
    "livez",
    "readyz",
    "openapi.json",
    "lab",
    "js",
    "main.js",
    "..",
    "%2e%2e",
    "%00",
    "%ff",
    "%F0%9F%8D%BA",
    "a%2Fb",
    "%",
];

const QUERIES: &[&str] = &[
    "limit",
    "from",
    "after",
    "service",
    "backend",
    "source",
    "destination",
    "protocol",
    "confirm_within_seconds",
    "=",
    "&",
    "web",
    "be1",
    "0",
    "1",
    "-1",
    "10001",
    "18446744073709551616",
    "198.51.100.7:51514",
    "192.0.2.10:80",
    "[2001:db8::1]:80",
    "tcp",
    "udp",
    "sctp",
    "%zz",
    "+",
    "%26",
];

const BODIES: &[&str] = &[
    "{",
    "}",
    "\"state\"",
    ":",
    "\"drain\"",
    "\"ready\"",
    "\"maintenance\"",
    "\"weight\"",
    "1",
    "65535",
    "65536",
    "-1",
    "1e999",
    ",",
    "\"deadline_seconds\"",
    "18446744073709551615",
    "null",
    "[",
    "]",
    "\u{0}",
    "\"\\ud800\"",
    CONFIG,
    "[[service]]",
    "name = \"web\"\n",
];

/// Places that are worth to be asked at, whole.
const PLACES: &[&str] = &[
    "/v1/services/web/backends/be1/admin",
    "/v1/services/web/backends/be1/weight",
    "/v1/services/web/backends/be2/override",
    "/v1/services/web/table?from=3&limit=2",
    "/v1/explain?source=198.51.100.7:51514&destination=192.0.2.10:80&protocol=tcp",
    "/v1/plan",
    "/v1/apply?confirm_within_seconds=5",
    "/v1/rollback",
];

/// A request of bytes: each byte chooses what comes next, so that bytes that differ little ask alike.
fn request(data: &[u8]) -> Option<Request<Body>> {
    let mut bytes = data.iter().copied();
    let mut next = || usize::from(bytes.next().unwrap_or(0));
    let method = METHODS[next() % METHODS.len()];
    let mut path = match next() {
        raw if raw < 64 => PLACES[raw % PLACES.len()].to_owned(),
        count => (0..=count % 8).map(|_| format!("/{}", PARTS[next() % PARTS.len()])).collect(),
    };
    let words = next();
    if words > 96 {
        path.push('?');
        path.extend((0..words % 12).map(|_| QUERIES[next() % QUERIES.len()]));
    }
    let condition = [None, Some("*"), Some("\"0-0\""), Some(","), Some("\"")][next() % 5];
    let encoding = next();
    let body: Vec<u8> = match encoding {
        0..=31 => bytes.collect(),
        32..=63 => br#"{"weight": 3}"#.to_vec(),
        64..=95 => br#"{"state": "drain", "deadline_seconds": 9}"#.to_vec(),
        count => (0..count % 16).flat_map(|_| BODIES[next() % BODIES.len()].bytes()).collect(),
    };
    let mut request = Request::builder().method(method).uri(path.parse::<Uri>().ok()?);
    if let Some(condition) = condition {
        request = request.header(header::IF_MATCH, condition);
    }
    request.body(Body::from(body)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_is_answered_and_what_is_refused_changes_nothing() {
        let mut api = Api::new().unwrap();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        let before = api.revision();
        for round in 0..3_000 {
            let data: Vec<u8> = (0..8 + round % 40).map(|_| byte()).collect();
            api.survive(&data);
        }
        assert_ne!(api.revision(), before, "nothing was ever changed, so little was tried");
    }

    #[test]
    fn a_body_that_is_too_large_is_told_so() {
        let mut api = Api::new().unwrap();
        let request = Request::post("/v1/plan").body(Body::from(vec![b'#'; 17 << 20])).unwrap();
        let answer = api.ask(request);
        let problem: Problem = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!((answer.status().as_u16(), problem.kind.as_str()), (413, "too-large"), "{problem:?}");
        assert!(problem.detail.contains("16 MiB"), "{}", problem.detail);
    }

    #[test]
    fn the_status_has_what_operators_said_that_is_not_what_the_configuration_says() {
        let mut api = Api::new().unwrap();
        let mut say = |method: &str, of: &str, body: &str| {
            let request = Request::builder().method(method).uri(format!("/v1/services/web/backends/{of}"));
            let request = request.header("If-Match", "*").body(Body::from(body.to_owned())).unwrap();
            assert_eq!(api.ask(request).status(), 200, "{of} {body}");
            let answer = api.ask(Request::get("/v1/status").body(Body::empty()).unwrap());
            serde_json::from_slice::<serde_json::Value>(answer.body()).unwrap()["overrides"].clone()
        };
        let be1 =
            serde_json::json!({ "service": "web", "backend": "be1", "weight": 3, "configured_weight": 1 });
        let be2 = serde_json::json!({
            "service": "web", "backend": "be2", "admin": "drain", "configured_admin": "ready"
        });
        say("PUT", "be1/admin", "{\"state\": \"ready\"}");
        assert_eq!(say("PUT", "be2/weight", "{\"weight\": 2}")["total"], 0, "both are so in the file");
        say("PUT", "be1/weight", "{\"weight\": 3}");
        let both = say("PUT", "be2/admin", "{\"state\": \"drain\"}");
        assert_eq!(both, serde_json::json!({ "total": 2, "backends": [be1, be2] }));
        assert_eq!(say("DELETE", "be1/override", "")["backends"], serde_json::json!([be2]));
    }

    #[test]
    fn a_change_that_cannot_be_kept_is_made_and_says_so() {
        let mut api = Api::new().unwrap();
        let not_kept = |api: &mut Api| {
            let request = Request::put("/v1/services/web/backends/be1/weight").header("If-Match", "*");
            let answer = api.ask(request.body(Body::from("{\"weight\": 3}")).unwrap());
            let backend: crate::api::model::Backend = serde_json::from_slice(answer.body()).unwrap();
            assert_eq!((backend.weight, backend.overrides), (3, vec!["weight".to_owned()]));
            backend.not_kept
        };
        assert_eq!(not_kept(&mut api), None);
        for file in ["overrides.json", "history.json"] {
            api.core.note_written(file, Some(format!("cannot write {file}")));
        }
        assert_eq!(not_kept(&mut api).as_deref(), Some("cannot write overrides.json"));
    }
}
