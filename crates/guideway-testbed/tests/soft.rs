//! Every scenario on the packet path in user space, and what only packet sockets meet.

use std::time::Duration;

use guideway_testbed::backend::{ECHO_PORT, HTTP_PORT};
use guideway_testbed::bed::{Bed, vips};
use guideway_testbed::client::{UdpClient, http};
use guideway_testbed::privilege;
use guideway_testbed::scenario::{udp_echo, web};
use guideway_testbed::soft::SoftForwarder;
use guideway_testbed::topology::Plan;

guideway_testbed::scenarios!(SoftForwarder);

const LONG: Duration = Duration::from_secs(10);

/// A bed of one balancer on whose way there and at the client nobody does what may be left to the next.
fn left_undone(checksums: bool, cutting: bool) -> Bed<SoftForwarder> {
    let plan = Plan { balancers: 1, ..Plan::default() };
    let bed = Bed::start(&plan, &[web(3), udp_echo(3)]).unwrap();
    for link in [&bed.network.client.link, &bed.network.balancers[0].port] {
        link.set_left_undone(checksums, cutting).unwrap();
    }
    bed
}

fn unaided(bed: &Bed<SoftForwarder>) -> &SoftForwarder {
    bed.balancers[0].as_ref().unwrap().forwarder()
}

#[test]
fn checksums_that_a_client_leaves_to_its_card_are_finished() {
    if !privilege::granted_to::<SoftForwarder>() {
        return;
    }
    let bed = left_undone(true, false);
    let client = &bed.network.client.namespace;
    for (web, echo) in vips(HTTP_PORT).into_iter().zip(vips(ECHO_PORT)) {
        UdpClient::open(client, echo).unwrap().ping(100, LONG).unwrap();
        let bytes = 1_000_000;
        let answer = http::post(client, web, bytes).unwrap();
        assert!(answer.ends_with(&format!(" received {bytes}\n")), "{answer}");
    }
    assert_eq!(unaided(&bed).joined(), 0);
}

#[test]
fn packets_that_come_as_one_are_counted() {
    if !privilege::granted_to::<SoftForwarder>() {
        return;
    }
    let bed = left_undone(true, true);
    let client = &bed.network.client.namespace;
    // It may stall: whatever is joined fits no tunnel.
    let _ = http::post(client, vips(HTTP_PORT)[0], 200_000);
    assert!(unaided(&bed).joined() > 0);
}
