//! Whose the pins in the kernel are, and what is done where they are taken away from a daemon at work.

use std::fs;

use aya::programs::links::PinnedLink;
use guideway_soft::Limits;
use guideway_testbed::client::http;
use guideway_testbed::process::{Output, Process};
use guideway_testbed::{Namespace, Program, privilege, vips, wait};
use guideway_xdp::attach::{Attachment, Mode, Wish};
use guideway_xdp::balancer::Balancer;
use guideway_xdp::pins::Pins;
use serde_json::Value;

use crate::bed::{Bed, Engine, LONG, backends, config, end, said, times_said};
use crate::request::ask;

/// A daemon by XDP with three backends that take flows.
fn serving(bed: &Bed) -> Process {
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    said(&daemon, "3 backends take new flows");
    bed.serves();
    daemon
}

fn detach(bed: &Bed) -> Output {
    detach_with(bed, &[])
}

fn detach_with(bed: &Bed, more: &[&str]) -> Output {
    detach_in(&bed.network.balancers[0].namespace, bed, more)
}

fn detach_in(namespace: &Namespace, bed: &Bed, more: &[&str]) -> Output {
    let program = Program::new(env!("CARGO_BIN_EXE_guideway")).args(["detach", "--pins"]).args([bed.pins()]);
    let program = program.args(more);
    program.start(namespace).unwrap().finish(LONG).unwrap()
}

fn answers(bed: &Bed) -> bool {
    http::get(&bed.network.client.namespace, vips(guideway_testbed::backend::HTTP_PORT)[0], "/").is_ok()
}

#[test]
fn pins_of_a_daemon_at_work_are_refused_to_others_until_it_is_gone() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("held", Engine::Xdp);
    let daemon = serving(&bed);
    let place = format!("process {}, a Guideway at work", daemon.id());
    let second = bed.second().finish(LONG).unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stderr.contains(&place) && second.stderr.contains("--pins"), "{}", second.stderr);
    let refused = detach(&bed);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains(&place), "{}", refused.stderr);
    assert_eq!(bed.answers(60).len(), 3);
    let interface = bed.network.balancers[0].link.name();
    let asked = detach_with(&bed, &["--dry-run"]).stdout;
    assert!(asked.contains(&format!("the program at {interface}")) && answers(&bed), "{asked}");
    daemon.kill().unwrap();
    let told = detach_with(&bed, &["--dry-run"]);
    assert!(told.stdout.contains(&format!("the program at {interface}")), "{}{}", told.stdout, told.stderr);
    assert!(told.stdout.contains("nothing was changed") && answers(&bed), "{}", told.stdout);
    let told: Value = serde_json::from_str(&detach_with(&bed, &["--dry-run", "--json"]).stdout).unwrap();
    assert_eq!((&told["interfaces"][0]["name"], &told["taken_away"]), (&interface.into(), &false.into()));
    for more in [&[][..], &["--dry-run"]] {
        let refused = detach_in(&bed.network.client.namespace, &bed, more);
        assert_eq!(refused.status.code(), Some(1), "{}", refused.stdout);
        assert!(refused.stderr.contains("at no interface of this network namespace"), "{}", refused.stderr);
    }
    assert!(answers(&bed));
    let taken = detach(&bed);
    assert!(taken.status.success() && taken.stdout.contains("is taken away"), "{}", taken.stderr);
    assert!(!answers(&bed) && !bed.pins().exists());
    let nothing = detach_with(&bed, &["--dry-run"]);
    assert!(nothing.stdout.contains("nothing would be taken away"), "{}", nothing.stdout);
    assert!(!bed.pins().exists(), "asking makes nothing");
}

#[test]
fn a_pin_directory_that_was_removed_is_made_again_and_still_held() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("unpinned", Engine::Xdp);
    let daemon = serving(&bed);
    fs::remove_dir_all(bed.pins()).unwrap();
    said(&daemon, "pins of maps had been removed; they were made again");
    said(&daemon, "somebody had removed the pin of the program's link");
    assert_eq!(times_said(&daemon, "the program was not at"), 0, "it never was away");
    assert_eq!(bed.answers(60).len(), 3);
    assert_eq!(detach(&bed).status.code(), Some(1));
    assert!(end(daemon).status.success());
    assert!(!answers(&bed) && !bed.pins().exists());
}

#[test]
fn a_daemon_is_not_ready_while_its_program_cannot_be_put_back() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("lost", Engine::Xdp);
    let daemon = serving(&bed);
    let ready = || ask(&bed.path("api.sock"), "GET", "/readyz", &[], "");
    let interface = bed.network.balancers[0].link.name();
    let metric = |value: u8| {
        let line = format!("guideway_interface_forwarding{{interface=\"{interface}\"}} {value}\n");
        bed.command("metrics").stdout.contains(&line)
    };
    assert!(ready().status == 200 && metric(1));
    let foreign = wait::until(LONG, "a foreign program", || instead(&bed)).unwrap();
    wait::until_true(LONG, "not to be ready", || ready().status == 503).unwrap();
    let detail = ready().body["detail"].to_string();
    assert!(detail.contains("the program is not at") && detail.contains(interface), "{detail}");
    assert!(metric(0));
    let status = bed.command("status");
    assert_eq!(status.status.code(), Some(1));
    assert!(status.stdout.contains("a Guideway with other pins"), "{}", status.stdout);
    drop(foreign);
    wait::until_true(LONG, "to be ready", || ready().status == 200).unwrap();
    assert!(metric(1) && answers(&bed));
    assert!(end(daemon).status.success());
}

#[test]
fn a_daemon_that_ends_takes_its_program_off_although_another_process_holds_the_link() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("held-link", Engine::Xdp);
    let daemon = serving(&bed);
    let machine = &bed.network.balancers[0];
    let layout = fs::read_dir(bed.pins()).unwrap().flatten().next().unwrap().path();
    let held = PinnedLink::from_pin(layout.join(format!("generic-{}", machine.link.index()))).unwrap();
    assert!(end(daemon).status.success());
    assert!(!answers(&bed) && !bed.pins().exists());
    drop(held);

    // What `detach` has no pin of, it tells of.
    let load = || Balancer::load(&Limits::default(), [1, 2]).unwrap();
    let foreign = machine.namespace.run(move || {
        let balancer = load();
        let attachment = balancer.attach("lo", Wish::Exactly(Mode::Generic)).unwrap();
        (balancer, attachment)
    });
    let told = detach(&bed).stdout;
    let remedy = "or, where its pins are gone, `bpftool link detach id";
    assert!(told.contains("another balancer's program is at lo") && told.contains(remedy), "{told}");
    drop(foreign);
    assert_eq!(detach(&bed).stdout.lines().count(), 1);
}

/// Takes the daemon's program away and puts another in its place; fails where the daemon was faster.
fn instead(bed: &Bed) -> Result<(Balancer, Attachment), guideway_xdp::Error> {
    let machine = &bed.network.balancers[0];
    let put = || {
        let balancer = Balancer::load(&Limits::default(), [1, 2])?;
        Pins::new(bed.pins())?.take_off(machine.link.index())?;
        let attachment = balancer.attach(machine.link.name(), Wish::Exactly(Mode::Generic))?;
        Ok((balancer, attachment))
    };
    machine.namespace.run(put).unwrap()
}
