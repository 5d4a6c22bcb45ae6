//! Several balancers behind one router.

use guideway_forward::Outcome;

use super::{tcp_echo, web};
use crate::backend::{ECHO_PORT, HTTP_PORT};
use crate::bed::{Bed, vips};
use crate::client::{EchoFlows, http};
use crate::forwarder::Forwarder;
use crate::topology::Plan;

/// Both balancers carry flows and would send new ones alike. One dies, the router notices, and every flow goes on where
/// it is.
pub fn flows_go_on_when_one_of_two_balancers_dies<F: Forwarder>() {
    let mut bed = Bed::<F>::start(&Plan::default(), &[tcp_echo(3), web(3)]).unwrap();
    let client = bed.network.client.namespace.clone();
    let mut flows = vips(ECHO_PORT).map(|vip| EchoFlows::open(&client, vip, 40).unwrap());
    let carried: Vec<_> = bed
        .balancers
        .iter()
        .flatten()
        .map(|balancer| balancer.totals().outcome(Outcome::Forwarded).packets)
        .collect();
    assert!(carried.iter().all(|&packets| packets > 0), "{carried:?}");
    let digests: Vec<_> =
        bed.balancers.iter().flatten().map(|balancer| balancer.controller().digest()).collect();
    assert_eq!(digests[0], digests[1]);

    bed.kill(0).unwrap();
    bed.route_to_the_living().unwrap();
    for _ in 0..3 {
        for flows in &mut flows {
            let broken = flows.exchange();
            assert!(broken.is_empty(), "{broken:?}");
        }
    }
    for vip in vips(HTTP_PORT) {
        for _ in 0..10 {
            http::get(&client, vip, "/").unwrap();
        }
    }
}
