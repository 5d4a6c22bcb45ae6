//! The backend commands as a user meets them, each in a network namespace of its own.

mod places;
mod programs;
mod script;
mod set_up;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use guideway_testbed::process::Output;
use guideway_testbed::{Link, Namespace, Program, privilege, veth_pair};

const PATIENCE: Duration = Duration::from_secs(60);
const VIPS: [&str; 2] = ["192.0.2.10", "2001:db8::10"];

/// A host with an interface, and places of its own.
struct Host {
    namespace: Namespace,
    other_end: Link,
    places: PathBuf,
}

impl Host {
    fn new(name: &str) -> Option<Host> {
        if !privilege::granted() {
            return None;
        }
        let namespace = Namespace::new(name).unwrap();
        let other = Namespace::new("other").unwrap();
        let (link, other_end) = veth_pair((&namespace, "net0"), (&other, "net0"), 1500).unwrap();
        link.add_address("10.0.0.1/24".parse().unwrap()).unwrap();
        link.add_address("2001:db8:ffff::1/64".parse().unwrap()).unwrap();
        let places = std::env::temp_dir().join(format!("guideway-backend-{name}-{}", std::process::id()));
        fs::create_dir_all(places.join("bpf")).unwrap();
        let host = Host { namespace, other_end, places };
        host.program("mount", &["-t", "bpf", "bpf", host.places.join("bpf").to_str().unwrap()]);
        Some(host)
    }

    fn program(&self, name: &str, arguments: &[&str]) -> String {
        Program::new(name).args(arguments).succeed(&self.namespace, PATIENCE).unwrap()
    }

    fn guideway(&self, line: &str) -> Output {
        self.command(line).run(&self.namespace, PATIENCE).unwrap()
    }

    fn command(&self, line: &str) -> Program {
        let places = [
            "--bpffs".to_owned(),
            self.places.join("bpf").display().to_string(),
            "--run-dir".to_owned(),
            self.places.join("run").display().to_string(),
        ];
        let words = line.split_whitespace().map(str::to_owned);
        Program::new(env!("CARGO_BIN_EXE_guideway")).args(words.chain(places))
    }

    /// Runs `guideway` and asserts its exit code; what it printed, on both outputs.
    fn expect(&self, code: i32, line: &str) -> String {
        let output = self.guideway(line);
        let printed = output.stdout + &output.stderr;
        assert_eq!(output.status.code(), Some(code), "{line}: {printed}");
        printed
    }

    fn addresses(&self) -> String {
        self.program("ip", &["-o", "address", "show", "dev", "lo"])
    }

    fn settings(&self) -> Vec<String> {
        ["ipv4/conf/net0/rp_filter", "ipv4/conf/all/arp_ignore", "ipv4/conf/all/arp_announce"]
            .map(|key| self.namespace.setting(key).unwrap())
            .into()
    }

    /// Where programs and maps are pinned.
    fn pins(&self) -> PathBuf {
        self.places.join("bpf/guideway-backend/v1")
    }

    /// Asserts that nothing is pinned and no record kept.
    fn has_no_leftovers(&self) {
        assert!(!self.places.join("bpf/guideway-backend").exists());
        assert!(!self.places.join("run/backend.json").exists());
    }

    /// Runs `guideway` with `--json` and asserts its exit code; what it printed.
    fn json(&self, code: i32, line: &str) -> serde_json::Value {
        let output = self.guideway(&format!("{line} --json"));
        assert_eq!(output.status.code(), Some(code), "{line}: {}{}", output.stdout, output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// What the kernel says of programs at the interface.
    fn programs(&self) -> String {
        self.program("ip", &["-d", "link", "show", "dev", "net0"])
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let bpf = self.places.join("bpf");
        // It may not have been mounted.
        let _ = std::process::Command::new("umount").arg(&bpf).status();
        let _ = fs::remove_dir_all(&self.places);
    }
}

fn up(more: &str) -> String {
    format!("backend up --vip {} --listen-on net0 {more}", VIPS.join(","))
}
