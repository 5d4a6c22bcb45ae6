//! Three services on one pool of backends, and the clients that talk to them.

use std::time::Duration;

use guideway_testbed::backend::{ECHO_PORT, HTTP_PORT};
use guideway_testbed::client::{EchoFlows, HttpLoad, Pace};
use guideway_testbed::kernel::GenericForwarder;
use guideway_testbed::process::Process;
use guideway_testbed::{privilege, vips, wait};

use crate::api::{command, get};
use crate::bed::{Bed, Engine, LONG};

/// Whether a test on this engine can be run here.
pub(crate) fn granted(engine: Engine) -> bool {
    match engine {
        Engine::Soft => privilege::granted(),
        Engine::Xdp | Engine::Native | Engine::Auto => privilege::granted_to::<GenericForwarder>(),
    }
}

/// `web` and `echo` on TCP and `datagrams` on UDP, on both virtual addresses, with a direct check of `port` and these
/// backends. `defaults` stands beside.
pub(crate) fn config(defaults: &str, check_port: u16, rise: u16, backends: &str) -> String {
    let service = |name: &str, port: u16, protocol: &str| {
        format!(
            r#"
[[service]]
name = "{name}"
vip = ["192.0.2.10", "2001:db8::10"]
port = {port}
protocol = "{protocol}"
pool = "all"
"#
        )
    };
    format!(
        r#"[underlay]
source_v4 = "10.0.1.1"

[defaults]
idle_tcp = "5s"
idle_udp = "5s"
{defaults}
health = {{ kind = "tcp", port = {check_port}, via = "direct", interval = "100ms", timeout = "100ms", rise = {rise}, fall = 2 }}

[[pool]]
name = "all"
backend = [
{backends}]
{}{}{}"#,
        service("web", HTTP_PORT, "tcp"),
        service("echo", ECHO_PORT, "tcp"),
        service("datagrams", ECHO_PORT, "udp"),
    )
}

/// Starts the daemon, and waits until all three services have three backends.
pub(crate) fn run(bed: &Bed) -> Process {
    let daemon = bed.run();
    eligible(bed, 9);
    bed.serves();
    daemon
}

/// Waits until so many backends take flows, counted once for each service.
pub(crate) fn eligible(bed: &Bed, number: u64) {
    let now = || get(bed, "/v1/status")["backends"]["eligible"].as_u64();
    wait::until_true(LONG, "the backends", || now() == Some(number)).unwrap();
}

/// Runs a command that has to succeed.
pub(crate) fn told(bed: &Bed, line: &str) {
    let output = command(bed, line);
    assert!(output.status.success(), "{line}: {}{}", output.stdout, output.stderr);
}

/// Clients that ask `web`, each as fast as it is answered.
pub(crate) struct Loads(Vec<HttpLoad>);

impl Loads {
    pub(crate) fn start(bed: &Bed) -> Self {
        // Longer than a daemon takes to come back.
        let pace = Pace { patience: Duration::from_secs(8), ..Pace::default() };
        let client = &bed.network.client.namespace;
        Self((0..4).map(|_| HttpLoad::paced(client, &vips(HTTP_PORT), pace).unwrap()).collect())
    }

    /// Requests that have ended, by client.
    fn ended(&self) -> Vec<u64> {
        self.0
            .iter()
            .map(HttpLoad::report)
            .map(|report| report.total() + report.failed.len() as u64)
            .collect()
    }

    /// Waits until all requests that are under way are over.
    pub(crate) fn over(&self) {
        let before = self.ended();
        let all = || before.iter().zip(self.ended()).all(|(before, now)| now > *before);
        wait::until_true(LONG, "the end of the requests under way", all).unwrap();
    }

    /// Requests that were answered so far.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|load| load.report().total()).sum()
    }

    /// Waits for so many more answers.
    pub(crate) fn more(&self, number: u64) {
        let before = self.total();
        wait::until_true(LONG, "more answers", || self.total() >= before + number).unwrap();
    }

    /// Requests that this backend has answered.
    pub(crate) fn answered_by(&self, backend: &str) -> u64 {
        self.0.iter().map(|load| load.report().answered.get(backend).copied().unwrap_or_default()).sum()
    }

    /// Ends them, and asserts that none has failed.
    pub(crate) fn none_failed(self) {
        let failed: Vec<_> = self.0.iter().flat_map(|load| load.report().failed).collect();
        assert!(failed.is_empty(), "{} of {}, the first: {}", failed.len(), self.total(), failed[0]);
    }
}

/// So many flows to `echo` at each virtual address.
pub(crate) fn flows(bed: &Bed, at_each: usize) -> [EchoFlows; 2] {
    vips(ECHO_PORT).map(|vip| EchoFlows::open(&bed.network.client.namespace, vip, at_each).unwrap())
}

/// Has each flow exchange a message: none may break.
pub(crate) fn exchange(flows: &mut [EchoFlows; 2]) {
    for flows in flows {
        let broken = flows.exchange();
        assert!(broken.is_empty(), "{broken:?}");
    }
}

/// Flows on this backend.
pub(crate) fn on(flows: &[EchoFlows; 2], backend: &str) -> usize {
    flows.iter().map(|flows| flows.by_backend().get(backend).copied().unwrap_or_default()).sum()
}
