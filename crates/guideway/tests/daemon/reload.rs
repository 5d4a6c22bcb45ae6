//! Another configuration while the daemon runs.

use guideway_testbed::{privilege, wait};
use nix::sys::signal::Signal;

use crate::api::command;
use crate::bed::{Bed, Engine, LONG, backends, config, end, said, signal, times_said};

#[test]
fn a_file_that_is_written_is_taken_and_a_bad_one_changes_nothing() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("reload", Engine::Soft);
    bed.configure(&config("200ms", &backends(2, |_| "")));
    let daemon = bed.run();
    bed.serves();
    wait::until_true(LONG, "two backends", || bed.answers(10).len() == 2).unwrap();
    bed.configure(&config("200ms", &backends(3, |n| if n == 1 { ", state = \"draining\"" } else { "" })));
    said(&daemon, "the file was written: ");
    wait::until_true(LONG, "be3", || bed.answers(10).contains_key("be3")).unwrap();
    assert!(!bed.answers(60).contains_key("be1"));
    bed.configure(&config("200ms", &backends(3, |_| "")).replace("[underlay]", "[underlay]\nmtuu = 1500"));
    said(&daemon, "did you mean `mtu`?");
    said(&daemon, "the configuration stays as it was");
    assert!(!bed.answers(60).contains_key("be1"));
    let told = |success: u8| {
        let line = format!("guideway_config_last_reload_successful {success}\n");
        wait::until_true(LONG, &line, || command(&bed, "metrics").stdout.contains(&line)).unwrap();
    };
    told(0);
    // As an editor leaves it for a moment, and a full disk for longer.
    bed.configure("\n");
    said(&daemon, "the file is empty");
    assert!(!bed.answers(60).contains_key("be1"));
    // Good, and larger than the forwarder was made.
    let huge = "[[service]]\nname = \"huge\"\nvip = \"192.0.2.10\"\nport = 81\nprotocol = \"tcp\"\n\
                table_size = 5000011\nbackend = [{ name = \"be1\", address = \"10.0.0.1\" }]\n";
    let large = format!("{}{huge}", config("200ms", &backends(3, |_| "")));
    bed.configure(&large);
    said(&daemon, "needs 5000011 more slots");
    told(0);
    assert!(!bed.answers(60).contains_key("be1"), "nothing of it is done");
    bed.configure(&config("200ms", &backends(3, |_| "")));
    wait::until_true(LONG, "be1", || bed.answers(10).contains_key("be1")).unwrap();
    told(1);
    // The same text again is no change.
    let commits = times_said(&daemon, "generation ");
    signal(&daemon, Signal::SIGHUP);
    said(&daemon, "SIGHUP: ");
    assert_eq!(times_said(&daemon, "generation "), commits);
    assert!(end(daemon).status.success());
}
