//! The set-up as a script of stock commands.

use std::fs;

use guideway_testbed::{Namespace, Program, privilege};

use crate::PATIENCE;

#[test]
fn a_script_is_one_that_a_shell_and_nft_understand() {
    let line = "backend script --vip 192.0.2.10,2001:db8::10 --listen-on eth0 --address 10.0.0.1,2001:db8:ffff::1 --mtu 1500";
    for more in [
        "",
        "--encap gre",
        "--encap ipip",
        "--encap gue --gue-port 6081",
        "--from 10.0.1.0/24,10.0.2.1",
        "--remove",
    ] {
        let words = line.split_whitespace().chain(more.split_whitespace());
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_guideway")).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let script = String::from_utf8(output.stdout).unwrap();
        let checked = std::process::Command::new("sh").args(["-n", "-c", &script]).output().unwrap();
        assert!(checked.status.success(), "{script}");
        let file = std::env::temp_dir().join(format!("guideway-script-{}", std::process::id()));
        fs::write(&file, &script).unwrap();
        // Where it is installed.
        if let Ok(checked) = std::process::Command::new("shellcheck").arg(&file).output() {
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        }
        fs::remove_file(&file).unwrap();
        let all = more.is_empty() || more.contains("--from");
        let gue = all || more.contains("gue");
        assert_eq!(script.contains("fou add"), gue, "{more}: {script}");
        assert_eq!(script.contains("device gwgre0 gre "), all || more.contains("gre"), "{more}: {script}");
        if more == "--remove" {
            assert!(script.contains("ip address del 192.0.2.10/32 dev lo"), "{script}");
            continue;
        }
        assert!(script.contains("ip address replace 192.0.2.10/32 dev lo"), "{script}");
        let rules = script.split("nft -f - <<'RULES'\n").nth(1).unwrap().split("RULES\n").next().unwrap();
        if !privilege::granted() || !privilege::installed("nft") {
            continue;
        }
        let folder = std::env::temp_dir().join(format!("guideway-rules-{}", std::process::id()));
        fs::write(&folder, rules).unwrap();
        let namespace = Namespace::new("rules").unwrap();
        // Twice: it can be run again.
        for _ in 0..2 {
            let nft = Program::new("nft").args(["-f", folder.to_str().unwrap()]);
            nft.succeed(&namespace, PATIENCE).unwrap();
        }
        let listed = Program::new("nft").args(["list", "ruleset"]).succeed(&namespace, PATIENCE).unwrap();
        assert_eq!(listed.matches("maxseg size set").count(), 2, "{listed}");
        // Of each tunnel end, IP in IP with GRE, and GUE.
        assert_eq!(listed.matches("drop").count(), if more.contains("--from") { 4 } else { 0 }, "{listed}");
        fs::remove_file(&folder).unwrap();
    }
}

#[test]
fn a_script_ends_before_the_addresses_where_the_kernel_has_no_such_tunnels_and_names_all_that_lack() {
    // GUE wants a socket of either family, and lacks once.
    let script = script_of("192.0.2.10,2001:db8::10", "10.0.0.1,2001:db8:ffff::1");
    // No device is there, and GRE alone can be made.
    let ip = r#"ip() {
        case "$*" in
            "link add"*gre*) ;;
            "link show"* | "link add"* | *"fou add"*) return 2 ;;
            *address*) echo "an address" ;;
        esac
    }
    sysctl() { :; }
    nft() { :; }
"#;
    let run = std::process::Command::new("sh").args(["-c", &format!("{ip}{script}")]).output().unwrap();
    assert_eq!((run.status.code(), run.stdout.len()), (Some(1), 0), "{run:?}");
    let told = String::from_utf8(run.stderr).unwrap();
    assert!(told.starts_with("this kernel makes no such tunnels: ipip sit ip6tnl fou\n"), "{told}");
    let has_all = ip.replace("\"link add\"*gre*", "\"link add\"* | *\"fou add\"*");
    let run = std::process::Command::new("sh").args(["-c", &format!("{has_all}{script}")]).output().unwrap();
    assert!(run.status.success() && run.stdout == b"an address\nan address\n", "{run:?}");
}

#[test]
fn a_script_asks_of_the_kernel_only_the_tunnels_of_the_families_that_are_served() {
    for (vips, ipip, sit) in
        [("192.0.2.10", true, false), ("2001:db8::10", false, true), ("192.0.2.10,2001:db8::10", true, true)]
    {
        let script = script_of(vips, "10.0.0.1");
        assert_eq!(script.contains("device gwipip0 ipip "), ipip, "{vips}: {script}");
        assert_eq!(script.contains("device gwsit0 sit "), sit, "{vips}: {script}");
        assert!(script.contains("device gwgre0 gre "), "{vips}: {script}");
    }
}

/// A script for all tunnels.
fn script_of(vips: &str, ends: &str) -> String {
    let line =
        ["backend", "script", "--vip", vips, "--listen-on", "eth0", "--address", ends, "--mtu", "1500"];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_guideway")).args(line).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
