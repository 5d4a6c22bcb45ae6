//! The real daemon, as a process of its own, asked as the commands ask it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use guideway_daemon::model::{Applied, Event, Explanation, Service, Status, Table};
use guideway_testbed::process::Process;
use guideway_testbed::{Link, Program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::ground::{DIRECTORY, END_AT_MOST, PINS, STATE};
use crate::daemon_client::{DaemonArgs, segment};
use crate::failure::Failure;

/// A daemon, and how it is started and asked.
#[derive(Debug)]
pub(crate) struct Daemon {
    process: Option<Process>,
    link: Link,
    kernel: bool,
    asked: DaemonArgs,
}

impl Daemon {
    /// One that does not run yet, and will forward at this link.
    pub(crate) fn new(link: Link, kernel: bool) -> Self {
        let socket = Path::new(DIRECTORY).join("guideway.sock");
        Self { process: None, link, kernel, asked: DaemonArgs { socket } }
    }

    /// Its socket, as seen inside.
    pub(crate) fn socket(&self) -> &Path {
        &self.asked.socket
    }

    fn config() -> PathBuf {
        Path::new(DIRECTORY).join("guideway.toml")
    }

    /// Writes the configuration that it starts with.
    pub(crate) fn configure(&self, text: &str) -> Result<(), Failure> {
        fs::write(Self::config(), text)
            .map_err(|error| Failure::failed(format!("writing {}: {error}", Self::config().display())))
    }

    /// Starts it. It is at work when [`Daemon::status`] answers.
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("the program does not find itself: {error}")))?;
        let place = |name: &str| Path::new(DIRECTORY).join(name).display().to_string();
        let words = [
            "run",
            "--engine",
            if self.kernel { "xdp" } else { "soft" },
            "--interface",
            self.link.name(),
            "--config",
            &Self::config().display().to_string(),
            "--state",
            &place(STATE),
            "--pins",
            PINS,
            "--socket",
            &self.asked.socket.display().to_string(),
        ]
        .map(str::to_owned);
        self.process =
            Some(Program::new(program).args(words).start(self.link.namespace()).map_err(Failure::failed)?);
        Ok(())
    }

    /// Whether it runs; its log where it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        let Some(process) = &mut self.process else { return Ok(()) };
        if process.is_running().map_err(Failure::failed)? {
            return Ok(());
        }
        let [_, log] = process.printed();
        Err(Failure::failed(format!("the daemon has ended:\n{log}")))
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        self.process.take().map_or(Ok(()), |process| process.kill().map_err(Failure::failed))
    }

    /// Its process, while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Whether it was started and not killed since.
    pub(crate) fn is_started(&self) -> bool {
        self.process.is_some()
    }

    /// Whether it answers at all, which it does as soon as its tables are committed.
    pub(crate) fn is_up(&self) -> bool {
        self.asked.get("/livez").is_ok()
    }

    /// What it is as a whole.
    pub(crate) fn status(&self) -> Result<Status, Failure> {
        self.asked.get("/v1/status")?.value()
    }

    /// A service.
    pub(crate) fn service(&self, name: &str) -> Result<Service, Failure> {
        self.asked.get(&format!("/v1/services/{}", segment(name)))?.value()
    }

    /// A service's table, whole.
    pub(crate) fn table(&self, service: &str) -> Result<Table, Failure> {
        self.asked.get(&format!("/v1/services/{}/table?limit=10000", segment(service)))?.value()
    }

    /// What has happened since the event of this number.
    pub(crate) fn events(&self, after: u64) -> Result<Vec<Event>, Failure> {
        self.asked.get(&format!("/v1/events?after={after}&limit=10000"))?.value()
    }

    /// What becomes of packets of a TCP flow.
    pub(crate) fn explain(&self, source: &str, destination: &str) -> Result<Explanation, Failure> {
        let [source, destination] = [source, destination].map(segment);
        self.asked
            .get(&format!("/v1/explain?source={source}&destination={destination}&protocol=tcp"))?
            .value()
    }

    /// What it measures.
    pub(crate) fn metrics(&self) -> Result<String, Failure> {
        Ok(self.asked.get("/metrics")?.text())
    }

    /// Says of a backend what an operator would.
    pub(crate) fn set_admin(&self, service: &str, backend: &str, state: &str) -> Result<(), Failure> {
        let path = format!("/v1/services/{}/backends/{}/admin", segment(service), segment(backend));
        let body = serde_json::json!({ "state": state });
        self.asked.change("PUT", &path, Some(&body))?.value::<Value>().map(drop)
    }

    /// Has it take another configuration.
    pub(crate) fn apply(&self, text: &str) -> Result<Applied, Failure> {
        self.asked.post("/v1/apply", text.as_bytes())?.value()
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn end(&mut self) {
        let Some(process) = self.process.take() else { return };
        if let Ok(id) = i32::try_from(process.id()) {
            // It may have been asked by the same Ctrl-C already.
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        // One that does not end in time is killed.
        let _ = process.finish(END_AT_MOST);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

/// How long the daemon may take for anything.
pub(crate) const LONG: Duration = Duration::from_secs(20);
