//! UDP, which has no beginning and no end.

use std::time::Duration;

use guideway_control::controller::Removal;
use guideway_control::controller::spec::Health;
use guideway_forward::{Event, Outcome};

use super::udp_echo;
use crate::backend::ECHO_PORT;
use crate::bed::{Bed, vips};
use crate::client::{UdpClient, UdpReport, UdpStream};
use crate::forwarder::{Decapsulator, Forwarder};
use crate::topology::Plan;
use crate::wait;

const LONG: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(10);

/// A sender that never pauses, on one socket, is served elsewhere as soon as its backend fails.
pub fn a_fast_sender_moves_off_a_failing_backend<F: Forwarder>() {
    let bed = Bed::<F>::start(&Plan::default(), &[udp_echo(3)]).unwrap();
    for vip in vips(ECHO_PORT) {
        let sender = UdpStream::start(&bed.network.client.namespace, vip, INTERVAL).unwrap();
        answers(&sender, 5);
        let first = last_backend(&sender.report());
        bed.change(|controller, _| controller.set_health("udp-echo", &first, Health::Down)).unwrap();
        let sent = sender.report().sent;
        // Those under way when the backend failed may still be answered by it.
        wait::until_true(LONG, "answers from elsewhere", || {
            sender.report().answers.range(sent + 3..).count() >= 10
        })
        .unwrap();
        let report = sender.report();
        let after: Vec<_> = report.answers.range(sent + 3..).collect();
        assert!(after.iter().all(|(_, (backend, _))| *backend != first), "{after:?}");
        // None was lost: the first of them is the first that was sent.
        assert_eq!(*after[0].0, sent + 3);
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        bed.change(|controller, _| controller.set_health("udp-echo", &first, Health::Up)).unwrap();
    }
}

/// The pool goes from one backend to none, to another one, and then the service goes.
pub fn a_pool_that_goes_to_zero_and_back_is_followed_at_once<F: Forwarder>() {
    let service = udp_echo(1);
    let bed = Bed::<F>::start(&Plan::default(), std::slice::from_ref(&service)).unwrap();
    let sender = UdpStream::start(&bed.network.client.namespace, vips(ECHO_PORT)[0], INTERVAL).unwrap();
    answers(&sender, 5);
    assert_eq!(last_backend(&sender.report()), "be1");

    bed.change(|controller, _| controller.remove_backend("udp-echo", "be1", Removal::AtOnce)).unwrap();
    let unserved = || bed.outcome(Outcome::AnsweredUnreachable);
    wait::until_true(LONG, "clients to be told", || unserved() >= 3).unwrap();
    let at_zero = bed.backends[0].decapsulator.accepted();
    let told = unserved();
    wait::until_true(LONG, "clients to be told again", || unserved() >= told + 10).unwrap();
    assert_eq!(bed.backends[0].decapsulator.accepted(), at_zero);
    assert!(!sender.report().errors.is_empty());

    bed.change(|controller, balancer| {
        let backend = bed.network.backend(balancer, 1, &service);
        controller.add_backend("udp-echo", backend, Health::Unchecked)
    })
    .unwrap();
    let sent = sender.report().sent;
    wait::until_true(Duration::from_secs(1), "the new backend to serve", || {
        sender.report().answers.range(sent..).count() >= 3
    })
    .unwrap();
    assert_eq!(last_backend(&sender.report()), "be2");

    for balancer in bed.balancers.iter().flatten() {
        balancer.controller().remove_service("udp-echo").unwrap();
    }
    let passed = || bed.outcome(Outcome::PassedNotVip);
    let before = passed();
    wait::until_true(LONG, "packets of nobody", || passed() >= before + 3).unwrap();
    let seen = |bed: &Bed<F>| bed.backends.iter().map(|backend| backend.decapsulator.accepted()).sum::<u64>();
    let at_end = seen(&bed);
    wait::until_true(LONG, "more packets of nobody", || passed() >= before + 15).unwrap();
    assert_eq!(seen(&bed), at_end);
}

/// Datagrams longer than the client's link, whole at the backend; and the answers back.
pub fn large_datagrams_arrive_in_fragments<F: Forwarder>() {
    // Fragments of the client's link fit into the tunnel.
    let plan = Plan { access_mtu: 1400, ..Plan::default() };
    let bed = Bed::<F>::start(&plan, &[udp_echo(3)]).unwrap();
    for vip in vips(ECHO_PORT) {
        for _ in 0..5 {
            let mut client = UdpClient::open(&bed.network.client.namespace, vip).unwrap();
            // The first answer over IPv6 is too long for the client's link: the router tells the backend, by way of
            // the balancer.
            wait::until(LONG, "an answer", || client.ping(4000, Duration::from_millis(200))).unwrap();
        }
    }
    assert!(bed.event(Event::FragmentHit) > 0);
    assert_eq!(bed.outcome(Outcome::DroppedUnknownFragment), 0);
}

fn answers(sender: &UdpStream, number: usize) {
    wait::until_true(LONG, "answers", || sender.report().answers.len() >= number).unwrap();
}

fn last_backend(report: &UdpReport) -> String {
    report.answers.last_key_value().map(|(_, (backend, _))| backend.clone()).unwrap()
}
