//! Backends that are gone, and what clients are told.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use guideway_control::controller::Removal;
use guideway_control::controller::spec::{AllDown, Health};
use guideway_forward::record::{OrphanRule, Policy};
use guideway_forward::{Event, Outcome};
use guideway_wire::{TcpFlags, parse};

use super::{tcp_echo, web};
use crate::backend::{ECHO_PORT, HTTP_PORT};
use crate::bed::{Bed, vips};
use crate::capture::Capture;
use crate::client::{EchoFlows, http};
use crate::forwarder::Forwarder;
use crate::service::Service;
use crate::topology::Plan;

const LONG: Duration = Duration::from_secs(10);

/// A backend is removed at once: with orphans = reset, the balancer itself resets its flows, from the virtual address.
pub fn an_orphan_is_reset_by_the_balancer<F: Forwarder>() {
    let resets = orphans::<F>(OrphanRule::Reset);
    assert!(resets > 0);
}

/// With orphans = rehash, the packet reaches another backend, and that backend's reset reaches the client.
pub fn an_orphan_is_sent_elsewhere_and_reset_there<F: Forwarder>() {
    let resets = orphans::<F>(OrphanRule::Rehash);
    assert_eq!(resets, 0);
}

/// How many resets the balancers sent.
fn orphans<F: Forwarder>(rule: OrphanRule) -> u64 {
    let service = Service { policy: Policy::default().with_orphans(rule), ..tcp_echo(3) };
    let bed = Bed::<F>::start(&Plan::default(), &[service]).unwrap();
    let client = &bed.network.client;
    for vip in vips(ECHO_PORT) {
        let resets = Capture::start(&client.link, move |frame| {
            parse(frame).is_ok_and(|parsed| {
                parsed.tcp_flags.has(TcpFlags::RST)
                    && vip == SocketAddr::new(parsed.key.src.into(), parsed.key.src_port)
            })
        })
        .unwrap();
        let mut flows = EchoFlows::open(&client.namespace, vip, 30).unwrap();
        let orphans = flows.by_backend().get("be2").copied().unwrap_or_default();
        assert!(orphans > 0, "{:?}", flows.by_backend());
        bed.change(|controller, _| controller.remove_backend("tcp-echo", "be2", Removal::AtOnce)).unwrap();
        let broken = flows.exchange();
        assert_eq!(broken.len(), orphans, "{broken:?}");
        for flow in broken {
            assert_eq!(flow.backend, "be2");
            assert_eq!(flow.error.kind(), ErrorKind::ConnectionReset, "{}", flow.error);
        }
        resets.wait_for(LONG, "a reset from the virtual address", |_| true).unwrap();
        let service = tcp_echo(3);
        bed.change(|controller, balancer| {
            let backend = bed.network.backend(balancer, 1, &service);
            controller.add_backend("tcp-echo", backend, Health::Unchecked)
        })
        .unwrap();
    }
    assert!(bed.event(Event::MidflowNoEntry) > 0);
    bed.outcome(Outcome::AnsweredReset)
}

/// Every check fails: backends go on to serve.
pub fn when_all_checks_fail_the_last_resort_serves<F: Forwarder>() {
    let bed = all_down::<F>(AllDown::LastResort);
    for vip in vips(HTTP_PORT) {
        http::get(&bed.network.client.namespace, vip, "/").unwrap();
    }
    let balancer = bed.balancers[0].as_ref().unwrap();
    assert!(balancer.controller().status().iter().all(|service| service.last_resort));
}

/// Every check fails: clients are refused at once; with one backend well again, they are served by it alone.
pub fn when_all_checks_fail_clients_are_refused_if_so_set<F: Forwarder>() {
    let bed = all_down::<F>(AllDown::Reject);
    let client = &bed.network.client.namespace;
    for vip in vips(HTTP_PORT) {
        let refused = http::get(client, vip, "/").unwrap_err().to_string();
        assert!(refused.contains("refused"), "{refused}");
    }
    assert!(bed.outcome(Outcome::AnsweredReset) > 0);
    bed.change(|controller, _| controller.set_health("web", "be3", Health::Up)).unwrap();
    for vip in vips(HTTP_PORT) {
        let answer = http::get(client, vip, "/").unwrap();
        assert!(answer.starts_with("be3 "), "{answer}");
    }
}

fn all_down<F: Forwarder>(all_down: AllDown) -> Bed<F> {
    let bed = Bed::<F>::start(&Plan::default(), &[Service { all_down, ..web(3) }]).unwrap();
    for backend in ["be1", "be2", "be3"] {
        bed.change(|controller, _| controller.set_health("web", backend, Health::Down)).unwrap();
    }
    bed
}

/// A backend loses power: once its checks say so, every new connection succeeds. A new machine joins and takes its share.
pub fn a_dead_backend_is_avoided_and_a_new_one_takes_its_share<F: Forwarder>() {
    let service = web(3);
    let mut bed = Bed::<F>::start(&Plan::default(), std::slice::from_ref(&service)).unwrap();
    let client = bed.network.client.namespace.clone();
    bed.kill_backend(1).unwrap();
    bed.change(|controller, _| controller.set_health("web", "be2", Health::Down)).unwrap();
    let number = bed.add_backend().unwrap();
    bed.change(|controller, balancer| {
        let backend = bed.network.backend(balancer, number, &service);
        controller.add_backend("web", backend, Health::Unchecked)
    })
    .unwrap();
    let mut names = BTreeSet::new();
    for vip in vips(HTTP_PORT) {
        for _ in 0..30 {
            let answer = http::get(&client, vip, "/").unwrap();
            names.extend(answer.split(' ').next().map(str::to_owned));
        }
    }
    assert_eq!(names, ["be1", "be3", "be4"].map(str::to_owned).into());
}
