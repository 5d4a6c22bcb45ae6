//! Commands that show what passes, and lists for people and programs.

use guideway_testbed::backend::HTTP_PORT;
use guideway_testbed::client::HttpLoad;
use guideway_testbed::{privilege, vips, wait};
use serde_json::Value;

use crate::bed::{Bed, Engine, LONG, backends, config, end};

#[test]
fn top_tells_rates_and_lists_tell_what_is_there() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("top", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    bed.serves();
    wait::until_true(LONG, "three backends", || bed.answers(10).len() == 3).unwrap();
    let load = HttpLoad::start(&bed.network.client.namespace, &vips(HTTP_PORT)).unwrap();
    let top = bed.command("top --once --json --interval 500ms");
    let top: Value = serde_json::from_str(&top.stdout).unwrap_or_else(|_| panic!("{}", top.stderr));
    let rate = |value: &Value| value["packets_per_second"].as_f64().unwrap();
    let web = &top["services"][0];
    assert!(rate(web) > 10.0 && top["seconds"].as_f64().unwrap() >= 0.5, "{top}");
    let sum: f64 = web["backends"].as_array().unwrap().iter().map(rate).sum();
    assert!((sum / rate(web) - 1.0).abs() < 0.01, "{top}");
    assert!(web["bits_per_second"].as_f64().unwrap() > 8.0 * 40.0 * rate(web), "{top}");
    assert!(top["packets"]["forwarded_per_second"].as_f64().unwrap() > 10.0, "{top}");
    let table = bed.command("top web --once --interval 100ms").stdout;
    for part in ["packets/s", "web", "be3", "3 of 3"] {
        assert!(table.contains(part), "no {part:?} in {table}");
    }
    drop(load);
    let list = bed.command("backend list web");
    assert!(list.stdout.contains("service") && list.stdout.contains("be2"), "{}", list.stderr);
    let bare = bed.command("backend list --no-headers").stdout;
    assert!(!bare.contains("service") && bare.lines().count() == 3, "{bare}");
    let shown = bed.command("backend show web be2").stdout;
    assert!(shown.contains("checks: up for"), "{shown}");
    let json: Value = serde_json::from_str(&bed.command("backend show web be2 --json").stdout).unwrap();
    assert_eq!(json["name"], "be2");
    let slots: Value = serde_json::from_str(&bed.command("table show web --limit 5 --json").stdout).unwrap();
    assert_eq!(slots["slots"].as_array().unwrap().len(), 5);
    assert_eq!(bed.command("backend show web be9").status.code(), Some(1));
    assert!(!table.contains('\x1b'), "colours without a terminal");
    assert!(end(daemon).status.success());
}
