//! A network with one balancer's machine, on which the daemon is started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::bed::Backend;
use guideway_testbed::client::http;
use guideway_testbed::process::{Output, Process};
use guideway_testbed::server::{self, TcpServer};
use guideway_testbed::soft::SoftDecapsulator;
use guideway_testbed::topology::Arms;
use guideway_testbed::{Network, Plan, Program, vips, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// What forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Soft,
    /// In generic mode: in native mode this kind of link sends only where the other end has a program too.
    Xdp,
    /// In native mode, where the test has put programs at the other ends.
    Native,
    /// In the mode that the daemon chooses.
    Auto,
}

/// The network, its backends at work, and a directory for the daemon's files.
pub(crate) struct Bed {
    pub(crate) network: Network,
    /// What runs on the backends.
    pub(crate) backends: Vec<Backend<SoftDecapsulator>>,
    /// What direct probes ask; `None` where it was stopped.
    pub(crate) own: Vec<Option<TcpServer>>,
    directory: PathBuf,
    engine: Engine,
    pins: PathBuf,
}

impl Bed {
    pub(crate) fn new(test: &str, engine: Engine) -> Self {
        Self::of(test, engine, Arms::One)
    }

    /// One whose balancer has these links.
    pub(crate) fn of(test: &str, engine: Engine, arms: Arms) -> Self {
        let network = Network::build(&Plan { balancers: 1, arms, ..Plan::default() }).unwrap();
        let backends = network.backends.iter().map(|host| Backend::start(host).unwrap()).collect();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("daemon-{test}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let pins = PathBuf::from(format!("/sys/fs/bpf/guideway-{test}-{}", std::process::id()));
        let mut bed = Self { network, backends, own: Vec::new(), directory, engine, pins };
        bed.own = (0..bed.network.backends.len()).map(|backend| Some(bed.own_server(backend))).collect();
        bed
    }

    /// A server at the backend's own address.
    pub(crate) fn own_server(&self, backend: usize) -> TcpServer {
        let host = &self.network.backends[backend];
        TcpServer::start(&host.namespace, &[host.v4], HTTP_PORT, server::http(&host.name)).unwrap()
    }

    /// A file of the daemon's.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Where the daemon pins what outlives it.
    pub(crate) fn pins(&self) -> &Path {
        &self.pins
    }

    /// Writes the configuration as an editor does: another file, renamed.
    pub(crate) fn configure(&self, text: &str) {
        let beside = self.path("guideway.toml.new");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.path("guideway.toml")).unwrap();
    }

    /// Starts the daemon.
    pub(crate) fn start(&self) -> Process {
        self.start_with(&[])
    }

    /// Starts the daemon with more arguments.
    pub(crate) fn start_with(&self, more: &[&str]) -> Process {
        let daemon = Program::new(env!("CARGO_BIN_EXE_guideway")).args(self.arguments()).args(more);
        daemon.start(&self.network.balancers[0].namespace).unwrap()
    }

    /// Starts the daemon by a program that becomes it.
    pub(crate) fn start_under(&self, program: &str, arguments: &[String]) -> Process {
        let daemon = Program::new(program).args(arguments).args([env!("CARGO_BIN_EXE_guideway")]);
        daemon.args(self.arguments()).start(&self.network.balancers[0].namespace).unwrap()
    }

    /// Starts another daemon with the same pins and all else its own.
    pub(crate) fn second(&self) -> Process {
        let own = |name: &str| self.path(name).into_os_string();
        let (state, socket) = (own("second-state"), own("second.sock"));
        let mut words = self.arguments();
        for (option, place) in [("--state", state), ("--socket", socket)] {
            let at = words.iter().position(|word| word == option).unwrap();
            words[at + 1] = place;
        }
        let daemon = Program::new(env!("CARGO_BIN_EXE_guideway")).args(words);
        daemon.start(&self.network.balancers[0].namespace).unwrap()
    }

    /// What the daemon is told, and by which interface packets come.
    fn arguments(&self) -> Vec<OsString> {
        let host = &self.network.balancers[0];
        let interface = host.front.as_ref().map_or(&host.link, |front| &front.link).name();
        let mut words = self.arguments_alone();
        words.extend(["--interface", interface].map(OsString::from));
        words
    }

    fn arguments_alone(&self) -> Vec<OsString> {
        let (config, state, socket) = (self.path("guideway.toml"), self.path("state"), self.path("api.sock"));
        let engine: &[&str] = match self.engine {
            Engine::Soft => &["soft"],
            Engine::Xdp => &["xdp", "--xdp-mode", "generic"],
            Engine::Native => &["xdp", "--xdp-mode", "native"],
            Engine::Auto => &["xdp"],
        };
        let words = ["run", "--engine"].iter().chain(engine).map(OsString::from);
        let places: [(&str, &OsStr); 4] = [
            ("--config", config.as_os_str()),
            ("--state", state.as_os_str()),
            ("--pins", self.pins.as_os_str()),
            ("--socket", socket.as_os_str()),
        ];
        words.chain(places.iter().flat_map(|(option, place)| [option.into(), (*place).to_owned()])).collect()
    }

    /// Runs a command that asks the daemon.
    pub(crate) fn command(&self, line: &str) -> Output {
        self.start_command(line).finish(LONG).unwrap()
    }

    /// Starts a command that asks the daemon.
    pub(crate) fn start_command(&self, line: &str) -> Process {
        self.start_command_at("api.sock", line)
    }

    /// Starts one that asks it at that socket.
    pub(crate) fn start_command_at(&self, socket: &str, line: &str) -> Process {
        let socket = self.path(socket).display().to_string();
        let words = line.split(' ').map(str::to_owned).chain(["--socket".into(), socket]);
        let program = Program::new(env!("CARGO_BIN_EXE_guideway")).args(words);
        program.start(&self.network.client.namespace).unwrap()
    }

    /// Something that the daemon pins in the kernel.
    pub(crate) fn pin(&self, name: &str) -> PathBuf {
        let layout = fs::read_dir(&self.pins).into_iter().flatten().flatten().next();
        layout.map_or_else(|| self.pins.clone(), |layout| layout.path()).join(name)
    }

    /// Starts the daemon at the interfaces of its configuration.
    pub(crate) fn start_where_configured(&self) -> Process {
        let daemon = Program::new(env!("CARGO_BIN_EXE_guideway")).args(self.arguments_alone());
        daemon.start(&self.network.balancers[0].namespace).unwrap()
    }

    /// Starts the daemon at the interfaces of its configuration and waits until it is ready.
    pub(crate) fn run_where_configured(&self) -> Process {
        let daemon = self.start_where_configured();
        said(&daemon, "ready: ");
        daemon
    }

    /// Starts the daemon and waits until it is ready.
    pub(crate) fn run(&self) -> Process {
        self.run_with(&[])
    }

    /// Starts the daemon with more arguments and waits until it is ready.
    pub(crate) fn run_with(&self, more: &[&str]) -> Process {
        let daemon = self.start_with(more);
        said(&daemon, "ready: ");
        daemon
    }

    /// Which backends answer so many new connections; each has to be answered.
    pub(crate) fn answers(&self, requests: usize) -> BTreeMap<String, usize> {
        let mut answers = BTreeMap::new();
        for &vip in vips(HTTP_PORT).iter().cycle().take(requests) {
            let answer = http::get(&self.network.client.namespace, vip, "/").unwrap();
            let (backend, _) = answer.split_once(' ').unwrap();
            *answers.entry(backend.to_owned()).or_default() += 1;
        }
        answers
    }

    /// Waits until the VIP is served.
    pub(crate) fn serves(&self) {
        let vip = vips(HTTP_PORT)[0];
        wait::until(LONG, "an answer", || http::get(&self.network.client.namespace, vip, "/")).unwrap();
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
        let _ = fs::remove_dir_all(&self.pins);
    }
}

/// A configuration: HTTP on both virtual addresses, and a direct check each `interval`.
pub(crate) fn config(interval: &str, backends: &str) -> String {
    format!(
        r#"[underlay]
source_v4 = "10.0.1.1"

[[service]]
name = "web"
vip = ["192.0.2.10", "2001:db8::10"]
port = {HTTP_PORT}
protocol = "tcp"
health = {{ kind = "tcp", via = "direct", interval = "{interval}", timeout = "100ms", rise = 1, fall = 2 }}
backend = [
{backends}]
"#
    )
}

/// Backends `be1` to `be<count>`, each with what `extra` says.
pub(crate) fn backends(count: usize, extra: impl Fn(usize) -> &'static str) -> String {
    (1..=count)
        .map(|n| format!("  {{ name = \"be{n}\", address = \"10.0.0.{n}\"{} }},\n", extra(n)))
        .collect()
}

/// Waits until the daemon's log has a text.
pub(crate) fn said(daemon: &Process, text: &str) {
    let log = || {
        let [_, log] = daemon.printed();
        if log.contains(text) { Ok(()) } else { Err(log) }
    };
    wait::until(LONG, &format!("{text:?} in the log"), log).unwrap();
}

/// How often the log has a text so far.
pub(crate) fn times_said(daemon: &Process, text: &str) -> usize {
    daemon.printed()[1].matches(text).count()
}

/// Sends a signal.
pub(crate) fn signal(daemon: &Process, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(daemon.id()).unwrap()), signal).unwrap();
}

/// Ends the daemon by SIGTERM.
pub(crate) fn end(daemon: Process) -> Output {
    signal(&daemon, Signal::SIGTERM);
    daemon.finish(LONG).unwrap()
}
