//! Somebody gives the interface that packets come by another name.

use guideway_testbed::kernel::GenericForwarder;
use guideway_testbed::{Program, privilege, wait};

use crate::api::get;
use crate::bed::{Bed, Engine, LONG, backends, config, end, said, times_said};

/// The daemon goes by its index and serves on, checks through the tunnel included. The next one is told the new name.
#[test]
fn a_renamed_interface_forwards_on_is_told_once_and_a_restart_names_the_new_name() {
    if !privilege::granted_to::<GenericForwarder>() {
        return;
    }
    let bed = Bed::new("rename", Engine::Xdp);
    let machine = &bed.network.balancers[0];
    let before = machine.link.name();
    let services = config("200ms", &backends(3, |_| "")).replace("via = \"direct\"", "via = \"tunnel\"");
    let named =
        |name: &str| format!("[daemon]\ninterfaces = [\"{name}\"]\ndrift_interval = \"1s\"\n\n{services}");
    bed.configure(&named(before));
    let daemon = bed.run_where_configured();
    bed.serves();
    assert_eq!(bed.answers(60).len(), 3);

    let ip =
        |words: &str| Program::new("ip").args(words.split(' ')).succeed(&machine.namespace, LONG).unwrap();
    ip(&format!("link set dev {before} name wan0"));
    let told = format!("the interface {before} is named wan0 now");
    said(&daemon, &told);
    let status = || get(&bed, "/v1/status");
    let rounds = || status()["drift"]["rounds_total"].as_u64().unwrap();
    let looked = rounds();
    wait::until_true(LONG, "looks at the forwarder", || rounds() > looked + 2).unwrap();
    assert_eq!(status()["drift"]["repairs_total"]["link"], 0);
    assert_eq!(status()["interfaces"][0]["name"], "wan0");
    assert!(status()["notes"].to_string().contains(&told), "{}", status()["notes"]);
    assert_eq!(bed.answers(60).len(), 3);
    let verdict = get(&bed, "/v1/services/web/backends/be1")["health"]["reason"].clone();
    assert!(verdict.as_str().is_some_and(|reason| reason.starts_with("tunnel probe ok")), "{verdict}");
    assert_eq!((times_said(&daemon, &told), times_said(&daemon, "cannot be made")), (1, 0));

    daemon.kill().unwrap();
    let refused = bed.start_where_configured().finish(LONG).unwrap();
    assert!(!refused.status.success());
    let told = format!("there is no interface `{before}`. An earlier daemon's program forwards at `wan0`");
    assert!(refused.stderr.contains(&told), "{}", refused.stderr);
    assert_eq!(bed.answers(60).len(), 3, "it forwards on all the same");

    bed.configure(&named("wan0"));
    let daemon = bed.run_where_configured();
    said(&daemon, "took over the forwarder");
    assert_eq!(bed.answers(60).len(), 3);
    assert!(!get(&bed, "/v1/status")["notes"].to_string().contains("is named"));
    assert!(end(daemon).status.success());
}
