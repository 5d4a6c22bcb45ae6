//! Backends that were set up by the command alone serve clients behind a balancer.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use guideway_forward::Outcome;
use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::client::http;
use guideway_testbed::end::Ended;
use guideway_testbed::forwarder::Decapsulator;
use guideway_testbed::soft::SoftForwarder;
use guideway_testbed::topology::VIPS;
use guideway_testbed::{Bed, Host, Plan, Program, Result, privilege, scenario, vips};

const PATIENCE: Duration = Duration::from_secs(60);

/// A backend that `guideway backend up` has made; `down` when it is dropped.
#[derive(Debug)]
struct ByCommand {
    host: Host,
    places: PathBuf,
}

impl ByCommand {
    fn guideway(&self, line: &str) -> Result<String> {
        let places = format!("--bpffs {0}/bpf --run-dir {0}/run", self.places.display());
        let words = format!("backend {line} {places}");
        Program::new(env!("CARGO_BIN_EXE_guideway"))
            .args(words.split_whitespace())
            .succeed(&self.host.namespace, PATIENCE)
    }
}

impl Decapsulator for ByCommand {
    fn attach(backend: &Host) -> Result<Self> {
        // What the test bed has done for it.
        let lo = backend.namespace.link("lo")?;
        VIPS.into_iter().try_for_each(|vip| lo.remove_address(vip.into()))?;
        for (key, value) in [("arp_ignore", "0"), ("arp_announce", "0"), ("rp_filter", "1")] {
            backend.namespace.set(&format!("ipv4/conf/eth0/{key}"), value)?;
        }
        let places = format!("guideway-serves-{}-{}", backend.name, std::process::id());
        let made = Self { host: backend.clone(), places: std::env::temp_dir().join(places) };
        let bpf = made.places.join("bpf");
        fs::create_dir_all(&bpf).unwrap();
        let mount = ["-t", "bpf", "bpf", bpf.to_str().unwrap()];
        Program::new("mount").args(mount).succeed(&backend.namespace, PATIENCE)?;
        made.guideway(&format!(
            "up --listen-on eth0 --vip {},{} --from 10.0.1.0/24,2001:db8:ffff::1:0/112",
            VIPS[0], VIPS[1]
        ))?;
        Ok(made)
    }

    fn accepted(&self) -> u64 {
        let told = self.guideway("doctor").unwrap();
        let line = told.lines().find_map(|line| line.strip_suffix(" packets came out of a tunnel"));
        line.unwrap().trim_start_matches("ok").trim().parse().unwrap()
    }

    fn refused(&self) -> u64 {
        self.guideway("doctor").unwrap().matches("not taken out of a tunnel").count() as u64
    }
}

impl Drop for ByCommand {
    fn drop(&mut self) {
        let down = self.guideway("down");
        let unmounted = std::process::Command::new("umount").arg(self.places.join("bpf")).status();
        let removed = fs::remove_dir_all(&self.places);
        if !std::thread::panicking() {
            down.unwrap();
            assert!(unmounted.unwrap().success());
            removed.unwrap();
        }
    }
}

#[test]
fn a_backend_that_the_command_made_serves_and_its_clients_segments_fit_the_tunnel() {
    if !privilege::granted_to::<SoftForwarder>() {
        return;
    }
    let plan = Plan { clamp_mss: None, ..Plan::default() };
    let bed = Bed::<Ended<SoftForwarder, ByCommand>>::start(&plan, &[scenario::web(3)]).unwrap();
    let client = &bed.network.client;
    for vip in vips(HTTP_PORT) {
        for _ in 0..10 {
            let answer = http::get(&client.namespace, vip, "/").unwrap();
            assert!(answer.contains(&client.address(vip.ip()).to_string()), "{answer}");
        }
        let bytes = 1_000_000;
        let answer = http::post(&client.namespace, vip, bytes).unwrap();
        assert!(answer.ends_with(&format!(" received {bytes}\n")), "{answer}");
    }
    // Nobody had to be told that a packet was too big: servers announced segments that fit.
    assert_eq!(bed.outcome(Outcome::AnsweredTooBig), 0);
    assert!(bed.backends.iter().filter(|backend| backend.decapsulator.accepted() > 0).count() >= 2);
    assert!(bed.backends.iter().all(|backend| backend.decapsulator.refused() == 0));
}
