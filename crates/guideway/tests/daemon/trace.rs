//! Samples of real packets, taken while requests are served.

use std::collections::BTreeSet;

use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::client::HttpLoad;
use guideway_testbed::{privilege, vips, wait};
use serde_json::Value;

use crate::bed::{Bed, Engine, LONG, backends, config, end, said};

fn ready(bed: &Bed) {
    bed.serves();
    wait::until_true(LONG, "three backends", || bed.answers(10).len() == 3).unwrap();
}

fn traced(bed: &Bed, line: &str) -> Value {
    let output = bed.command(line);
    serde_json::from_str(&output.stdout)
        .unwrap_or_else(|_| panic!("{line}: {}{}", output.stdout, output.stderr))
}

fn a_trace_shows_what_comes_and_harms_nothing(engine: Engine) {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new(&format!("trace-{engine:?}").to_lowercase(), engine);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    ready(&bed);
    let load = HttpLoad::start(&bed.network.client.namespace, &vips(HTTP_PORT)).unwrap();
    let mut owners = BTreeSet::new();
    for _ in 0..3 {
        let trace = traced(&bed, "trace --count 40 --vip 192.0.2.10 --protocol tcp --timeout 20s --json");
        let packets = trace["packets"].as_array().unwrap();
        assert_eq!(packets.len(), 40, "{trace}");
        for packet in packets {
            let verdict = &packet["verdict"];
            assert_eq!(
                (&verdict["outcome"], &verdict["service"]),
                (&"forwarded".into(), &"web".into()),
                "{packet}"
            );
            assert_eq!(packet["destination"], "192.0.2.10:80");
            assert!(packet["bytes"].as_u64().unwrap() >= 54, "{packet}");
            owners.insert(verdict["backend"].as_str().unwrap().to_owned());
        }
        assert!(trace["looked_at"].as_u64().unwrap() >= 40);
    }
    // A sample holds the packets of a few connections, which one backend may have all.
    assert!(owners.len() > 1, "{owners:?}");
    let shown = bed.command("trace --count 2 --timeout 20s").stdout;
    assert!(shown.contains("forwarded to web/be"), "{shown}");
    let none = bed.command("trace --client 203.0.113.99 --timeout 1s");
    assert_eq!(none.status.code(), Some(4), "{}{}", none.stdout, none.stderr);
    let before = load.report().total();
    wait::until_true(LONG, "answers", || load.report().total() >= before + 50).unwrap();
    assert!(load.report().failed.is_empty(), "{:?}", load.report().failed);
    drop(load);
    assert!(end(daemon).status.success());
}

#[test]
fn in_user_space() {
    a_trace_shows_what_comes_and_harms_nothing(Engine::Soft);
}

#[test]
fn in_the_kernel() {
    a_trace_shows_what_comes_and_harms_nothing(Engine::Xdp);
}

#[test]
fn a_daemon_that_is_killed_while_it_samples_loses_no_request() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("trace-kill", Engine::Xdp);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    ready(&bed);
    let load = HttpLoad::start(&bed.network.client.namespace, &vips(HTTP_PORT)).unwrap();
    let answered = |more: u64| {
        let before = load.report().total();
        wait::until_true(LONG, "answers", || load.report().total() >= before + more).unwrap();
    };
    answered(50);
    // Nothing fits, so it samples until its end.
    let asking = bed.start_command("trace --client 203.0.113.99 --timeout 25s");
    wait::until_true(LONG, "the sampling program", || bed.pin("SAMPLED").exists()).unwrap();
    let refused = bed.command("trace --timeout 1s");
    assert!(refused.stderr.contains("sampled for somebody else"), "{}", refused.stderr);
    answered(50);
    daemon.kill().unwrap();
    answered(100);
    let _ = asking.finish(LONG);
    let daemon = bed.run();
    said(&daemon, "took over the forwarder of an earlier daemon");
    answered(100);
    assert_eq!(traced(&bed, "trace --count 5 --timeout 20s --json")["packets"].as_array().unwrap().len(), 5);
    assert!(!bed.pin("SAMPLED").exists());
    assert!(load.report().failed.is_empty(), "{:?}", load.report().failed);
    drop(load);
    assert!(end(daemon).status.success());
}
