//! Other programs inside a namespace.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

use crate::error::{Context, Error, Result};
use crate::namespace::Namespace;
use crate::{sys, wait};

/// A program to be run inside a namespace, with nothing on its input.
#[derive(Debug, Clone)]
pub struct Program {
    name: OsString,
    arguments: Vec<OsString>,
}

/// A program that runs. It is killed when this is dropped, and when this process ends.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: [Reader; 2],
}

/// What a program that ended had printed.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it printed on its error output.
    pub stderr: String,
}

impl Program {
    /// A program by its name in the path, or by its own path.
    pub fn new(name: impl AsRef<OsStr>) -> Self {
        Self { name: name.as_ref().to_owned(), arguments: Vec::new() }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Starts it inside the namespace.
    ///
    /// # Errors
    /// [`Error::NoProgram`] when it is not installed, [`Error::System`] otherwise.
    pub fn start(&self, namespace: &Namespace) -> Result<Process> {
        let name = self.name.to_string_lossy().into_owned();
        let mut command = Command::new(&self.name);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        sys::die_with_parent(&mut command);
        let mut child = match launch(command, namespace)? {
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NoProgram { program: name, source });
            }
            launched => launched.context(|| format!("starting {name} in {}", namespace.label()))?,
        };
        let output = [Reader::of(child.stdout.take()), Reader::of(child.stderr.take())];
        Ok(Process { name, child, output })
    }

    /// Runs it inside the namespace until it ends.
    ///
    /// # Errors
    /// As [`Program::start`], and [`Error::Deadline`] when it takes longer than `at_most`; it is killed then.
    pub fn run(&self, namespace: &Namespace, at_most: Duration) -> Result<Output> {
        self.start(namespace)?.finish(at_most)
    }

    /// As [`Program::run`], for a program that has to succeed: what it printed.
    ///
    /// # Errors
    /// As [`Program::run`], and [`Error::Program`] when it fails.
    pub fn succeed(&self, namespace: &Namespace, at_most: Duration) -> Result<String> {
        let Output { status, stdout, stderr } = self.run(namespace, at_most)?;
        if status.success() {
            return Ok(stdout);
        }
        let output = if stderr.trim().is_empty() { stdout } else { stderr };
        let program = self.name.to_string_lossy().into_owned();
        Err(Error::Program { program, status: status.to_string(), output: output.trim().to_owned() })
    }
}

impl Process {
    /// Whether it still runs.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn is_running(&mut self) -> Result<bool> {
        let ended = self.child.try_wait().context(|| format!("looking after {}", self.name))?;
        Ok(ended.is_none())
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far, on its output and on its error output.
    pub fn printed(&self) -> [String; 2] {
        [self.output[0].text(), self.output[1].text()]
    }

    /// Kills it, as `kill -9` does.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn kill(mut self) -> Result<()> {
        self.child.kill().context(|| format!("killing {}", self.name))
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// [`Error::Deadline`] when it takes longer than `at_most`; it is killed then.
    pub fn finish(mut self, at_most: Duration) -> Result<Output> {
        let what = format!("the end of {}", self.name);
        let child = &mut self.child;
        let status = wait::until(at_most, &what, || match child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err("it runs".to_owned()),
            Err(error) => Err(error.to_string()),
        })?;
        self.output.iter_mut().for_each(Reader::finish);
        let [stdout, stderr] = self.printed();
        Ok(Output { status, stdout, stderr })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads what a program prints, so that it never waits for us.
#[derive(Debug)]
struct Reader {
    text: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn of(source: Option<impl Read + Send + 'static>) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&text);
        let thread = source.map(|mut source| {
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(length @ 1..) = source.read(&mut piece) {
                    let mut text = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                    text.extend_from_slice(&piece[..length]);
                }
            })
        });
        Self { text, thread }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits for the end of what is printed.
    fn finish(&mut self) {
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// What the launcher is asked.
struct Launch {
    command: Command,
    namespace: Namespace,
    answer: Sender<Result<io::Result<Child>>>,
}

/// Starts a command inside a namespace, from a thread that lives as long as this process: the kernel kills a child with
/// the thread that started it.
fn launch(command: Command, namespace: &Namespace) -> Result<io::Result<Child>> {
    static LAUNCHER: OnceLock<Sender<Launch>> = OnceLock::new();
    let launcher = LAUNCHER.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Launch>();
        thread::spawn(move || {
            // It goes home after each start, so that it keeps no namespace alive. Home is one of its own: from a user
            // namespace there is no way back into the one that the process came from.
            let home = unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|error| Error::Privilege { source: error.into() })
                .and_then(|()| Namespace::of_this_thread("home"));
            for Launch { mut command, namespace, answer } in receiver {
                let launched = namespace.enter().map(|()| command.spawn());
                let launched = match &home {
                    Ok(home) => home.enter().and(launched),
                    Err(error) => Err(Error::Answer { what: "going home".into(), answer: error.to_string() }),
                };
                // Whoever asked waits for the answer.
                let _ = answer.send(launched);
            }
        });
        sender
    });
    let (answer, answered) = mpsc::channel();
    let gone = |_| io::Error::other("the thread that starts programs is gone");
    let request = Launch { command, namespace: namespace.clone(), answer };
    let asked = launcher.send(request).map_err(|_| gone(mpsc::RecvError));
    asked.and_then(|()| answered.recv().map_err(gone)).context(|| "starting a program".to_owned())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privilege;

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn a_program_runs_inside_and_its_output_comes_back() {
        if !privilege::granted() {
            return;
        }
        let namespace = Namespace::new("program").unwrap();
        namespace.set("ipv4/ip_default_ttl", "77").unwrap();
        let shell = |script| Program::new("sh").args(["-c", script]);
        let read = shell("cat /proc/sys/net/ipv4/ip_default_ttl").succeed(&namespace, LONG).unwrap();
        assert_eq!(read, "77\n");
        let error = shell("echo told >&2; exit 3").succeed(&namespace, LONG).unwrap_err().to_string();
        assert_eq!(error, r#""sh" ended with exit status: 3: told"#);
        let missing = Program::new("no-such-program").start(&namespace).unwrap_err();
        assert!(matches!(missing, Error::NoProgram { .. }), "{missing}");
    }

    #[test]
    fn a_program_ends_with_its_handle_and_at_its_deadline() {
        if !privilege::granted() {
            return;
        }
        let namespace = Namespace::new("program").unwrap();
        let sleep = Program::new("sleep").args(["1000"]);
        let mut process = sleep.start(&namespace).unwrap();
        assert!(process.is_running().unwrap());
        let folder = format!("/proc/{}", process.id());
        drop(process);
        assert!(!std::path::Path::new(&folder).exists());
        let late = sleep.run(&namespace, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(late, Error::Deadline { .. }), "{late}");
    }
}
