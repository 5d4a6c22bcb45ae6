//! What is logged: nobody waits for whoever reads it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use guideway_testbed::process::Process;
use guideway_testbed::{privilege, wait};
use nix::libc::O_NONBLOCK;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::api::get;
use crate::bed::{Bed, Engine, LONG, backends, config, end};
use crate::request::ask;

/// A pipe that a daemon logs to, and that takes nothing at first.
struct FullPipe {
    pipe: File,
    read: Vec<u8>,
}

impl FullPipe {
    fn new(bed: &Bed) -> Self {
        let path = bed.path("log");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let options = || OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).clone();
        Self { pipe: options().open(path).unwrap(), read: Vec::new() }
    }

    /// Starts the daemon with this as its standard error, full, and waits until it serves.
    fn start(&mut self, bed: &Bed) -> Process {
        while self.pipe.write(&[b'#'; 4_096]).is_ok() {}
        let script = format!("exec \"$0\" \"$@\" 2>{}", bed.path("log").display());
        let daemon = bed.start_under("sh", &["-c".to_owned(), script]);
        wait::until_true(LONG, "a daemon", || bed.command("status").status.code() != Some(3)).unwrap();
        bed.serves();
        daemon
    }

    /// What has been logged by now.
    fn log(&mut self) -> String {
        let mut piece = [0; 4_096];
        while let Ok(length @ 1..) = self.pipe.read(&mut piece) {
            self.read.extend_from_slice(&piece[..length]);
        }
        String::from_utf8_lossy(&self.read).into_owned()
    }
}

fn lost(bed: &Bed) -> u64 {
    let metrics = bed.command("metrics").stdout;
    let line = metrics.lines().find_map(|line| line.strip_prefix("guideway_log_lines_lost_total "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_daemon_whose_log_nobody_takes_goes_on_and_tells_what_was_lost() {
    if !privilege::granted() {
        return;
    }
    let mut bed = Bed::new("log", Engine::Soft);
    let good = config("200ms", &backends(3, |_| ""));
    bed.configure(&good);
    let mut pipe = FullPipe::new(&bed);
    let daemon = pipe.start(&bed);
    assert_eq!(lost(&bed), 0, "a little may wait");

    let wrong: String = (0..2_000).map(|number| format!("wrong-{number} = 1\n")).collect();
    bed.configure(&wrong);
    wait::until_true(LONG, "a line that is lost", || {
        bed.command("reload");
        lost(&bed) > 0
    })
    .unwrap();
    bed.configure(&good);
    wait::until_true(LONG, "a good configuration", || bed.command("reload").status.success()).unwrap();
    let faults = |bed: &Bed| get(bed, "/v1/status")["faults"].to_string();
    assert!(faults(&bed).contains("the log is not written"), "{}", faults(&bed));
    assert_eq!(ask(&bed.path("api.sock"), "GET", "/livez", &[], "").status, 200);
    bed.own[1] = None;
    wait::until_true(LONG, "a check that fails", || faults(&bed).contains("checks fail of be2")).unwrap();

    wait::until_true(LONG, "a line that tells", || pipe.log().contains("were lost before this one")).unwrap();
    let many = lost(&bed);
    assert!(many > 0 && pipe.log().contains(&format!("lost={many}")), "{many}");
    assert!(!faults(&bed).contains("the log is not written"), "{}", faults(&bed));
    assert!(end(daemon).status.success());
    let log = pipe.log();
    assert!(log.contains("asked to end by SIGTERM") && log.trim_end().contains(" ended "), "{log}");
}

#[test]
fn a_daemon_ends_although_nobody_takes_its_last_lines() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("log-end", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let mut pipe = FullPipe::new(&bed);
    let daemon = pipe.start(&bed);
    // The pipe has a reader all the while, who does not read.
    assert!(end(daemon).status.success());
    drop(pipe);
}
