//! Other table sizes over a restart.

use guideway_testbed::wait;

use crate::api::get;
use crate::bed::{Bed, Engine, LONG, backends, end};
use crate::pool::{Loads, config, exchange, flows, granted, on, run};

/// Hundreds of flows, and requests all the time, while the daemon is killed and comes back with another table size,
/// twice: nothing fails, no flow moves, and the size is what was asked for in the end.
#[test]
fn another_table_size_over_a_restart_moves_no_flow() {
    if !granted(Engine::Xdp) {
        return;
    }
    let bed = Bed::new("sizes", Engine::Xdp);
    let sized = |size: u32| {
        let text = config(&format!("table_size = {size}"), 80, 1, &backends(3, |_| ""));
        // Longer than a start may take: a daemon is ready after its first checks, for which it waits 3 s.
        text.replace("idle_tcp = \"5s\"", "idle_tcp = \"8s\"")
            .replace("idle_udp = \"5s\"", "idle_udp = \"1s\"")
    };
    bed.configure(&sized(65_537));
    let mut daemon = run(&bed);
    let mut flows = flows(&bed, 250);
    let loads = Loads::start(&bed);
    loads.more(100);
    let before = ["be1", "be2", "be3"].map(|backend| on(&flows, backend));
    for size in [16_381, 131_071] {
        // None is silent for as long as flows are remembered.
        exchange(&mut flows);
        daemon.kill().unwrap();
        loads.more(50);
        bed.configure(&sized(size));
        daemon = bed.run();
        exchange(&mut flows);
        wait::until(2 * LONG, "the new size", || {
            // Silent flows would be forgotten.
            exchange(&mut flows);
            let echo = get(&bed, "/v1/services/echo");
            if echo["slots"] == size && echo["prior_table"] == false { Ok(()) } else { Err(echo.to_string()) }
        })
        .unwrap();
        exchange(&mut flows);
    }
    assert_eq!(["be1", "be2", "be3"].map(|backend| on(&flows, backend)), before);
    loads.over();
    loads.none_failed();
    assert!(end(daemon).status.success());
}
