//! Which mode the daemon chooses for itself.

use std::time::Duration;

use guideway_testbed::kernel::pass_all;
use guideway_testbed::{Program, privilege};

use crate::api::get;
use crate::bed::{Bed, Engine, backends, config, end};

/// Packets come in by an interface that native mode is good for, and leave by it, or by another one.
#[test]
fn auto_is_generic_where_native_mode_would_lose_what_is_sent_to_a_backend() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("mode", Engine::Auto);
    let _passes = pass_all(&bed.network.balancers[0]).unwrap();
    bed.configure(&config("200ms", &backends(3, |_| "")));
    let daemon = bed.run();
    assert_eq!(get(&bed, "/v1/status")["interfaces"][0]["mode"], "native");
    assert!(end(daemon).status.success());

    let here = &bed.network.balancers[0].namespace;
    // Nobody is at the other end of this pair.
    for line in [
        "link add spare0 type veth peer name spare1",
        "link set spare0 up",
        "link set spare1 up",
        "route add 10.0.0.3 dev spare0",
    ] {
        Program::new("ip").args(line.split(' ')).succeed(here, Duration::from_secs(10)).unwrap();
    }
    let daemon = bed.run();
    let port = get(&bed, "/v1/status")["interfaces"][0].clone();
    assert_eq!(port["mode"], "generic");
    let why = port["fell_back"].as_str().unwrap();
    assert!(why.starts_with("native mode would lose what is sent to backends by spare0: "), "{why}");
    bed.serves();
    assert!(end(daemon).status.success());
}
