//! What is found before attaching, on real links. Needs root; elsewhere the test prints that it is skipped, and fails if
//! `GUIDEWAY_REQUIRE_PRIVILEGES` is set.

use std::path::Path;
use std::process::Command;

use guideway_soft::Limits;
use guideway_xdp::attach::{Mode, Wish};
use guideway_xdp::peer::Pass;
use guideway_xdp::preflight::{Finding, Grade, InterfaceReport, host, interface};
use guideway_xdp::{Balancer, Error};
use nix::sched::{CloneFlags, unshare};

const LIMITS: Limits =
    Limits { services: 1, backends: 1, slots: 16, flows: 4, fragments: 4, threads: 1, icmp_per_second: 100 };

const NO_PINS: &str = "/sys/fs/bpf/guideway-of-nobody";
const NATIVE: Wish = Wish::Exactly(Mode::Native);

/// Runs `work` in a network namespace of its own, with a pair of links `xb-a` and `xb-b`.
fn apart(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            assert!(std::env::var_os("GUIDEWAY_REQUIRE_PRIVILEGES").is_none(), "no namespaces: {error}");
            eprintln!("skipped: no namespaces ({error})");
            return;
        }
        ip("link add xb-a type veth peer name xb-b");
        ip("link set dev xb-a up");
        ip("link set dev xb-b up");
        work();
    });
    thread.join().unwrap();
}

/// Runs `ip` in this thread's namespace.
fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

fn look(name: &str, wish: Wish) -> InterfaceReport {
    interface(name, wish, Path::new(NO_PINS))
}

fn told(findings: &[Finding], grade: Grade) -> String {
    let those = findings.iter().filter(|finding| finding.grade == grade);
    those
        .map(|finding| {
            assert!(grade == Grade::Ok || finding.remedy.is_some(), "{finding:?}");
            format!("{} | {}\n", finding.cause, finding.remedy.as_deref().unwrap_or_default())
        })
        .collect()
}

#[test]
fn the_other_end_of_a_veth_must_take_what_a_program_sends() {
    apart(|| {
        let deaf = look("xb-a", NATIVE);
        let failed = told(&deaf.findings, Grade::Fail);
        assert!(deaf.mode.is_none() && failed.contains("other end"), "{failed}");
        let auto = look("xb-a", Wish::Auto);
        assert_eq!(auto.mode, Some(Mode::Generic));
        assert!(told(&auto.findings, Grade::Warn).contains("mode generic"));
        // A program at the other end makes it listen.
        let _pass = Pass::attach("xb-b").unwrap();
        let hears = look("xb-a", Wish::Auto);
        assert_eq!(hears.mode, Some(Mode::Native), "{:?}", hears.findings);
    });
}

#[test]
fn jumbo_frames_forbid_native_mode_before_and_at_attaching() {
    apart(|| {
        ip("link set dev xb-a mtu 9000");
        ip("link set dev xb-b mtu 9000");
        let report = look("xb-a", NATIVE);
        let failed = told(&report.findings, Grade::Fail);
        assert!(
            report.mode.is_none() && failed.contains("MTU 9000") && failed.contains("mtu 3498"),
            "{failed}"
        );
        let balancer = Balancer::load(&LIMITS, [1, 2]).unwrap();
        // Frames this large keep a program away from the other end, too.
        match balancer.attach("xb-a", NATIVE) {
            Err(Error::Attach { mode: "native", .. }) => {}
            other => panic!("{other:?}"),
        }
        let attached = balancer.attach("xb-a", Wish::Auto).unwrap();
        assert!(attached.mode == Mode::Generic && attached.fell_back.is_some());
    });
}

#[test]
fn a_program_of_other_pins_is_named_with_its_id() {
    apart(|| {
        let balancer = Balancer::load(&LIMITS, [1, 2]).unwrap();
        let _attached = balancer.attach("xb-a", Wish::Exactly(Mode::Generic)).unwrap();
        let failed = told(&look("xb-a", Wish::Auto).findings, Grade::Fail);
        assert!(failed.contains("a Guideway with other pins") && failed.contains("(id "), "{failed}");
        assert!(told(&look("xb-b", Wish::Auto).findings, Grade::Ok).contains("no XDP program"));
    });
}

#[test]
fn an_interface_that_is_not_there_or_has_no_native_mode_is_told() {
    apart(|| {
        let none = look("xb-none", Wish::Auto);
        assert!(none.mode.is_none() && told(&none.findings, Grade::Fail).contains("no such interface"));
        ip("link set dev lo up");
        let loopback = look("lo", NATIVE);
        assert!(
            loopback.mode.is_none() && told(&loopback.findings, Grade::Fail).contains("runs no programs")
        );
    });
}

#[test]
fn this_host_is_examined_with_a_remedy_for_whatever_is_wrong() {
    let findings = host(Path::new(NO_PINS));
    assert!(findings.iter().any(|finding| finding.cause.starts_with("Linux ")));
    told(&findings, Grade::Fail);
    told(&findings, Grade::Warn);
}
