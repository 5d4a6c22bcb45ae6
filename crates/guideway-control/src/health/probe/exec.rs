//! A program that looks for itself.

use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::progress::{Progress, words};
use crate::health::check::Check;
use crate::health::round::{Fault, Stage};

/// How much of what the program says is kept.
const SAID_BYTES: usize = 256;

/// Runs the program with `GUIDEWAY_ADDRESS` and, where the check has one, `GUIDEWAY_PORT` in its environment. When the
/// check is dropped, the program is killed, with those that it started.
pub(super) async fn ask(command: &[String], check: &Check, progress: &Progress) -> Result<(), Fault> {
    progress.enter(Stage::Exit);
    let Some((program, arguments)) = command.split_first() else {
        return Err(Fault::Local { said: "no program is named".to_owned() });
    };
    let mut command = Command::new(program);
    command.args(arguments).env("GUIDEWAY_ADDRESS", check.address.to_string());
    if let Some(port) = check.port {
        command.env("GUIDEWAY_PORT", port.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let child =
        command.spawn().map_err(|error| Fault::Local { said: format!("{program}: {}", words(&error)) })?;
    let mut running = Running { child };
    let (status, said) = running.end().await.map_err(|error| progress.fault(&error))?;
    if status.success() {
        return Ok(());
    }
    let said = said.lines().next().map(|line| format!(": {line}")).unwrap_or_default();
    let ended = match (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)) {
        (Some(code), _) => format!("the program ended with {code}{said}"),
        (None, Some(signal)) => format!("the program was ended by signal {signal}{said}"),
        (None, None) => format!("the program did not end{said}"),
    };
    Err(Fault::Exit { ended })
}

/// A program under way, in a process group of its own.
struct Running {
    child: Child,
}

impl Running {
    /// Waits for the end, and reads all the while, so that a talkative program is not stopped by a full pipe.
    async fn end(&mut self) -> std::io::Result<(ExitStatus, String)> {
        let mut pipe = self.child.stderr.take();
        let mut said = Vec::new();
        let mut buffer = [0; 1024];
        let status = loop {
            let Some(open) = pipe.as_mut() else { break self.child.wait().await? };
            tokio::select! {
                biased;
                read = open.read(&mut buffer) => match read? {
                    0 => pipe = None,
                    length => {
                        let room = SAID_BYTES - said.len();
                        said.extend_from_slice(&buffer[..length.min(room)]);
                    }
                },
                // A program that it started may hold the pipe open; it is not awaited.
                status = self.child.wait() => break status?,
            }
        };
        Ok((status, String::from_utf8_lossy(&said).into_owned()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Until the program is reaped, nobody else can have its number; afterwards there is none here.
        if let Some(group) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            // Those that it started as well; it may have ended this very moment.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}
