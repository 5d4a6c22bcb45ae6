//! Several balancers behind one router.

use guideway_forward::Outcome;

use super::{tcp_echo, web};
use crate::backend::{ECHO_PORT, HTTP_PORT};
use crate::bed::{Bed, vips};
use crate::client::{EchoFlows, http};
use crate::forwarder::Forwarder;
use crate::topology::{Arms, Plan};

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

/// Packets come by one link of the balancer and leave by another, both ways of the MTU's messages included.
pub fn a_balancer_of_two_arms_forwards_from_one_to_the_other<F: Forwarder>() {
    let plan = Plan { arms: Arms::Two, clamp_mss: None, ..Plan::default() };
    let bed = Bed::<F>::start(&plan, &[web(3)]).unwrap();
    let client = &bed.network.client.namespace;
    for vip in vips(HTTP_PORT) {
        for _ in 0..10 {
            http::get(client, vip, "/").unwrap();
        }
        let bytes = 1_000_000;
        let answer = http::post(client, vip, bytes).unwrap();
        assert!(answer.ends_with(&format!(" received {bytes}\n")), "{answer}");
    }
    let (forwarded, told) = (bed.outcome(Outcome::Forwarded), bed.outcome(Outcome::AnsweredTooBig));
    assert!(forwarded > 0 && told > 0, "{forwarded} forwarded, {told} answered");
}
