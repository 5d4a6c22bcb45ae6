//! Floods beside real flows.

use std::time::Duration;

use guideway_control::controller::spec::Admin;
use guideway_forward::{Event, Outcome};
use guideway_soft::Limits;

use super::{tcp_echo, udp_echo};
use crate::backend::ECHO_PORT;
use crate::bed::{Bed, LIMITS, vips};
use crate::client::{EchoFlows, Flood, FloodKind};
use crate::forwarder::Forwarder;
use crate::topology::Plan;
use crate::wait;

const LONG: Duration = Duration::from_secs(10);
const PACKETS: u32 = 20_000;

/// While everything is settled a flood writes nothing: no flow is remembered.
pub fn a_flood_moves_no_flow_and_fills_nothing<F: Forwarder>() {
    let bed = Bed::<F>::start(&Plan::default(), &[tcp_echo(3), udp_echo(3)]).unwrap();
    let mut flows = EchoFlows::open(&bed.network.client.namespace, vips(ECHO_PORT)[0], 50).unwrap();
    flood(&bed);
    let broken = flows.exchange();
    assert!(broken.is_empty(), "{broken:?}");
    assert_eq!(bed.event(Event::FlowInserted), 0);
    assert_eq!(bed.event(Event::FlowInsertFailed), 0);
}

/// A change in the middle, with a flow table far too small: what cannot be remembered is counted and forwarded by its
/// slot, and the flows of before stay where they are.
pub fn a_flood_during_a_change_leaves_the_flows_where_they_are<F: Forwarder>() {
    let limits = Limits { flows: 1_024, ..LIMITS };
    let bed = Bed::<F>::start_with(&Plan::default(), limits, &[tcp_echo(3), udp_echo(3)]).unwrap();
    let mut flows = EchoFlows::open(&bed.network.client.namespace, vips(ECHO_PORT)[0], 50).unwrap();
    flood(&bed);
    for service in ["tcp-echo", "udp-echo"] {
        bed.change(|controller, _| controller.set_admin(service, "be2", Admin::Draining)).unwrap();
    }
    assert!(flows.exchange().is_empty());
    flood(&bed);
    for _ in 0..3 {
        let broken = flows.exchange();
        assert!(broken.is_empty(), "{broken:?}");
    }
    assert!(flows.by_backend().contains_key("be2"));
    let pressed = bed.event(Event::FlowInsertFailed) + bed.event(Event::FlowEvicted);
    assert!(pressed > 0, "the flow table was never full");
}

/// Floods both services and waits until the balancers have seen it.
fn flood<F: Forwarder>(bed: &Bed<F>) {
    let forwarded = || bed.outcome(Outcome::Forwarded);
    let before = forwarded();
    let mut flood = Flood::prepare(&bed.network).unwrap();
    flood.send(FloodKind::Syn, ECHO_PORT, PACKETS).unwrap();
    flood.send(FloodKind::Udp, ECHO_PORT, PACKETS).unwrap();
    // Queues may be too short for some of it.
    wait::until_true(LONG, "half of the flood", || forwarded() >= before + u64::from(PACKETS)).unwrap();
}
