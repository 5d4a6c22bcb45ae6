//! The whole way, client to backend and back, with real connections.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::time::Duration;

use guideway_control::controller::spec::Protocol;
use guideway_testbed::backend::{ECHO_PORT, HTTP_PORT};
use guideway_testbed::client::{UdpClient, http};
use guideway_testbed::service::Family;
use guideway_testbed::soft::SoftForwarder;
use guideway_testbed::{Bed, Plan, Service, privilege, vips};
use guideway_wire::Tunnel;

fn service(port: u16, protocol: Protocol) -> Service {
    Service::new(&format!("{protocol}-{port}"), NonZeroU16::new(port).unwrap(), protocol, 3)
}

#[test]
fn http_reaches_several_backends_and_the_client_keeps_its_address() {
    if !privilege::granted() {
        return;
    }
    let bed = Bed::<SoftForwarder>::start(&Plan::default(), &[service(HTTP_PORT, Protocol::Tcp)]).unwrap();
    let client = &bed.network.client;
    for vip in vips(HTTP_PORT) {
        let mut backends = BTreeSet::new();
        for _ in 0..30 {
            let answer = http::get(&client.namespace, vip, "/").unwrap();
            let (backend, seen) = answer.trim_end().split_once(' ').unwrap();
            let seen: std::net::SocketAddr = seen.parse().unwrap();
            assert_eq!(seen.ip(), client.address(vip.ip()));
            backends.insert(backend.to_owned());
        }
        assert_eq!(backends.len(), 3, "30 connections to {vip} went to {backends:?}");
    }
    for balancer in bed.balancers.iter().flatten() {
        let totals = balancer.totals();
        assert!(totals.outcome(guideway_forward::Outcome::Forwarded).packets > 0, "{totals:?}");
        assert_eq!(balancer.forwarder().unsent(), 0);
    }
}

#[test]
fn every_tunnel_carries_both_families_over_both() {
    if !privilege::granted() {
        return;
    }
    let mut services = Vec::new();
    for tunnel in [Tunnel::Ipip, Tunnel::Gre, Tunnel::GueDirect, Tunnel::GueHeader] {
        for underlay in [Family::V4, Family::V6] {
            services.push((tunnel, underlay));
        }
    }
    for (tunnel, underlay) in services {
        let tcp = Service { tunnel, underlay, ..service(HTTP_PORT, Protocol::Tcp) };
        let udp = Service { tunnel, underlay, ..service(ECHO_PORT, Protocol::Udp) };
        let plan = Plan { balancers: 1, ..Plan::default() };
        let bed = Bed::<SoftForwarder>::start(&plan, &[tcp, udp]).unwrap();
        let client = &bed.network.client.namespace;
        for (web, echo) in vips(HTTP_PORT).into_iter().zip(vips(ECHO_PORT)) {
            for _ in 0..4 {
                http::get(client, web, "/").unwrap();
            }
            let mut pinger = UdpClient::open(client, echo).unwrap();
            pinger.ping(100, Duration::from_secs(2)).unwrap();
        }
        let source = bed.network.balancers[0].address(if underlay == Family::V4 {
            bed.network.client.v4
        } else {
            bed.network.client.v6
        });
        for backend in &bed.backends {
            let counts = backend.decapsulator.counts();
            assert!(counts.refused.is_empty(), "{tunnel:?} over {underlay:?}: {counts:?}");
            assert!(counts.accepted.keys().all(|from| *from == source), "{tunnel:?}: {counts:?}");
        }
    }
}
