//! The demo's network: clients, a router, one balancer with the real daemon, backends.

use std::fmt::Write as _;
use std::time::Duration;

use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::forwarder::Forwarder;
use guideway_testbed::server::{self, TcpServer};
use guideway_testbed::{Bed, Plan, kernel};
use guideway_xdp::peer::Pass;

use crate::failure::Failure;
use crate::sandbox::Daemon;

/// The only service.
pub(crate) const SERVICE: &str = "web";

/// Backends at the start.
pub(crate) const BACKENDS: u8 = 3;

/// How often a backend is asked whether it is well. Two answers in a row that do not come take it out.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Buffers of TCP on both ends, bytes: least, first and greatest. A download is then still under way when most of it was
/// read, and not long since in the client's memory.
const BUFFERS: &str = "4096 65536 131072";

/// The network, and what runs in it. Gone when it is dropped.
#[derive(Debug)]
pub(crate) struct World<F: Forwarder> {
    // Ends first.
    pub(crate) daemon: Daemon,
    /// What direct checks ask.
    own: Vec<TcpServer>,
    _passes: Vec<Pass>,
    pub(crate) bed: Bed<F>,
}

impl<F: Forwarder> World<F> {
    /// Builds it, with a daemon that does not run yet.
    pub(crate) fn build(kernel: bool) -> Result<Self, Failure> {
        let plan = Plan { balancers: 1, backends: BACKENDS, ..Plan::default() };
        let bed = Bed::<F>::start_without_balancers(&plan).map_err(Failure::failed)?;
        let machine = &bed.network.balancers[0];
        // This kind of link takes what a program in native mode sends only where the far end has a program, too. Where
        // that cannot be, the daemon finds it out and forwards in generic mode.
        let passes = if kernel { kernel::pass_all(machine).unwrap_or_default() } else { Vec::new() };
        let client = &bed.network.client.namespace;
        client.set("ipv4/tcp_rmem", BUFFERS).map_err(Failure::failed)?;
        // Many short connections in a short time.
        client.set("ipv4/ip_local_port_range", "1024 65535").map_err(Failure::failed)?;
        let daemon = Daemon::new(machine.link.clone(), kernel);
        let mut world = Self { daemon, own: Vec::new(), _passes: passes, bed };
        for backend in 0..usize::from(BACKENDS) {
            world.furnish(backend)?;
        }
        world.daemon.configure(&world.config())?;
        Ok(world)
    }

    /// Adds a backend's machine; its name.
    pub(crate) fn add_backend(&mut self) -> Result<String, Failure> {
        let backend = self.bed.add_backend().map_err(Failure::failed)?;
        self.furnish(backend)?;
        Ok(self.bed.network.backends[backend].name.clone())
    }

    fn furnish(&mut self, backend: usize) -> Result<(), Failure> {
        let host = &self.bed.network.backends[backend];
        host.namespace.set("ipv4/tcp_wmem", BUFFERS).map_err(Failure::failed)?;
        let server = TcpServer::start(&host.namespace, &[host.v4], HTTP_PORT, server::http(&host.name));
        self.own.push(server.map_err(Failure::failed)?);
        Ok(())
    }

    /// The configuration of all backends that there are.
    pub(crate) fn config(&self) -> String {
        let source = self.bed.network.balancers[0].v4;
        let every = CHECK_EVERY.as_millis();
        let mut text = format!(
            r#"[underlay]
source_v4 = "{source}"

[[service]]
name = "{SERVICE}"
vip = ["192.0.2.10", "2001:db8::10"]
port = {HTTP_PORT}
protocol = "tcp"
idle_tcp = "5s"
health = {{ kind = "http", path = "/", interval = "{every}ms", timeout = "{every}ms", rise = 2, fall = 2 }}
backend = [
"#
        );
        for host in &self.bed.network.backends {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {{ name = \"{}\", address = \"{}\" }},", host.name, host.v4);
        }
        text + "]\n"
    }
}
