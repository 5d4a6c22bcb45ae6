//! The demo, as a user runs it: to its end, interrupted, and killed. Whichever it is, nothing stays behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guideway_testbed::kernel::KernelForwarder;
use guideway_testbed::{privilege, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// The variable by which a demo's processes are known.
const MARK: &str = "GUIDEWAY_DEMO_TEST";

/// One demo at a time: each of them asks as fast as it is answered.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A demo that was started, and what there was before.
struct Demo {
    child: Option<Child>,
    mark: String,
    before: Outside,
}

/// What of the machine a demo could leave something in.
#[derive(Debug, PartialEq, Eq)]
struct Outside {
    links: BTreeSet<PathBuf>,
    runtime: BTreeSet<PathBuf>,
    mounts: usize,
}

impl Outside {
    fn now() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        Self {
            links: entries("/sys/class/net"),
            runtime: entries("/run/guideway"),
            mounts: mounts.lines().filter(|line| line.contains("guideway")).count(),
        }
    }
}

fn entries(directory: &str) -> BTreeSet<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

impl Demo {
    fn start(name: &str, words: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        Self::start_from(Path::new(env!("CARGO_BIN_EXE_guideway")), name, words, prepare)
    }

    fn start_from(program: &Path, name: &str, words: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        let mark = format!("{name}-{}", std::process::id());
        let before = Outside::now();
        let mut command = Command::new(program);
        command.arg("demo").args(words.split_whitespace()).env(MARK, &mark);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        prepare(&mut command);
        Self { child: Some(command.spawn().unwrap()), mark, before }
    }

    /// Processes of this demo.
    fn processes(&self) -> Vec<PathBuf> {
        let wanted = format!("{MARK}={}", self.mark);
        let ours = |process: &PathBuf| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        entries("/proc").into_iter().filter(ours).collect()
    }

    /// Network namespaces that processes of this demo are in or hold open.
    fn namespaces(&self) -> BTreeSet<u64> {
        let ours = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let mut found: BTreeSet<_> = self.processes().iter().flat_map(|process| held(process)).collect();
        found.remove(&ours);
        found
    }

    /// Waits for its end, and for everything of it to be gone.
    fn end(mut self, namespaces: &BTreeSet<u64>) -> Output {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        wait::until_true(LONG, "the end of all processes", || self.processes().is_empty()).unwrap();
        let left =
            || entries("/proc").iter().flat_map(|process| held(process)).find(|ns| namespaces.contains(ns));
        wait::until_true(LONG, "the end of all namespaces", || left().is_none()).unwrap();
        assert_eq!(Outside::now(), self.before);
        output
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Network namespaces that a process is in, with any thread, or holds open.
fn held(process: &Path) -> BTreeSet<u64> {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let entered = threads.map(|thread| thread.path().join("ns/net"));
    let opened = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|file| file.path());
    let is_network =
        |place: &PathBuf| fs::read_link(place).is_ok_and(|to| to.to_string_lossy().starts_with("net:"));
    entered
        .chain(opened)
        .filter(is_network)
        .filter_map(|place| Some(fs::metadata(place).ok()?.ino()))
        .collect()
}

/// What a demo that went well has to say.
fn assert_all_shown(output: &Output, engine: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert_eq!(report["requests"]["failed"], 0, "{report:#}");
    assert!(output.status.success() && report["ok"] == true, "{report:#}");
    assert_eq!(report["engine"], engine);
    assert!(report["requests"]["total"].as_u64().unwrap() > 2_000, "{report:#}");
    let list = |of: &str, key: &str| -> Vec<String> {
        let all = report[of].as_array().unwrap();
        all.iter().map(|each| each[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(list("scenes", "scene"), ["steady", "drain", "kill-backend", "add-backend", "kill-daemon"]);
    let changes = report["changes"].as_array().unwrap();
    let moved: Vec<_> = changes.iter().map(|change| change["moved"].as_u64().unwrap()).collect();
    assert!(moved.len() == 5 && moved[..4].iter().all(|moved| *moved > 0) && moved[4] == 0, "{report:#}");
    assert!(
        changes
            .iter()
            .all(|change| change["needless"].as_u64() < change["slots"].as_u64().map(|all| all / 20))
    );
    for backend in ["be1", "be2", "be3", "be4"] {
        assert!(report["requests"]["answered_by"][backend].as_u64().unwrap() > 100, "{report:#}");
    }
    assert!(report["downloads"]["total"].as_u64().unwrap() >= 6, "{report:#}");
    assert_eq!(report["downloads"]["total"], report["downloads"]["whole"]);
    assert!(report["packets"]["forwarded"].as_u64().unwrap() > 10_000, "{report:#}");
    assert_eq!(list("promises", "promise").len(), 4);
}

#[test]
fn the_kernel_fails_no_request() {
    if !privilege::granted_to::<KernelForwarder>() {
        return;
    }
    let _alone = alone();
    let demo = Demo::start("kernel", "--quick --json --engine xdp", |_| ());
    assert_all_shown(&demo.end(&BTreeSet::new()), "xdp");
}

#[test]
fn user_space_fails_no_request_with_or_without_root() {
    if !privilege::granted() {
        return;
    }
    let _alone = alone();
    let demo = Demo::start("soft", "--quick --json --engine soft", |_| ());
    assert_all_shown(&demo.end(&BTreeSet::new()), "soft");
    if !Uid::effective().is_root() {
        return;
    }
    // Where anybody can read it.
    let directory = std::env::temp_dir().join(format!("guideway-demo-{}", std::process::id()));
    let program = directory.join("guideway");
    fs::create_dir_all(&directory).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_guideway"), &program).unwrap();
    for path in [&directory, &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Nobody, on most machines; somebody else than root on all.
    let demo = Demo::start_from(&program, "rootless", "--quick --json", |command| {
        command.uid(65_534).gid(65_534).current_dir("/");
    });
    let output = demo.end(&BTreeSet::new());
    fs::remove_dir_all(&directory).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("needs root or user namespaces") {
        eprintln!("passed over without root: {told}");
        return;
    }
    assert_all_shown(&output, "soft");
}

#[test]
fn nothing_stays_behind_when_it_is_interrupted_or_killed() {
    if !privilege::granted() {
        return;
    }
    let _alone = alone();
    for (name, signal) in
        [("interrupted", Signal::SIGINT), ("ended", Signal::SIGTERM), ("killed", Signal::SIGKILL)]
    {
        let mut demo = Demo::start(name, "--duration 10m", |_| ());
        let child = demo.child.as_mut().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = said.by_ref().map_while(Result::ok).find(|line| line.contains("requests, 0 failed"));
        assert!(first.is_some(), "the demo ended before its first picture");
        let namespaces = demo.namespaces();
        // Client, router, balancer and three backends at least.
        assert!(
            namespaces.len() >= 6 && demo.processes().len() == 2,
            "{namespaces:?} {:?}",
            demo.processes()
        );
        kill(pid, signal).unwrap();
        let output = demo.end(&namespaces);
        if signal == Signal::SIGKILL {
            assert_eq!(output.status.signal(), Some(Signal::SIGKILL as i32));
        } else {
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(told.contains("interrupted"), "{told}");
        }
    }
}
