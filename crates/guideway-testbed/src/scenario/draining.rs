//! Changes of the backends that break nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use guideway_control::controller::spec::{Admin, TableSizeSpec};

use guideway_forward::Event;

use super::{tcp_echo, web};
use crate::backend::{ECHO_PORT, HTTP_PORT};
use crate::bed::{Bed, vips};
use crate::client::http::{self, Response};
use crate::client::{EchoFlows, HttpLoad};
use crate::forwarder::Forwarder;
use crate::service::Service;
use crate::topology::Plan;
use crate::wait;

const LONG: Duration = Duration::from_secs(10);

/// Bytes of a download: more than the buffers between server and client hold.
const DOWNLOAD: u64 = 12 << 20;

/// Flows on the drained backend go on, downloads from it finish, no new flow comes to it, nothing moves on the others,
/// and its flows come to an end as clients close.
pub fn flows_and_downloads_of_a_drained_backend_go_on_and_new_ones_avoid_it<F: Forwarder>() {
    let bed = Bed::<F>::start(&Plan::default(), &[tcp_echo(3), web(3)]).unwrap();
    let client = &bed.network.client.namespace;
    let mut flows = vips(ECHO_PORT).map(|vip| EchoFlows::open(client, vip, 150).unwrap());
    let before = flows.each_ref().map(|flows| owned(flows.by_backend()));
    assert!(before.iter().all(|count| count.len() == 3), "{before:?}");
    let mut downloads: Vec<Response> = (0..12)
        .map(|number| {
            let path = format!("/bytes/{DOWNLOAD}");
            let mut download = http::begin_get(client, vips(HTTP_PORT)[number % 2], &path).unwrap();
            download.read_some(1 << 16).unwrap();
            download
        })
        .collect();
    let on_drained = bed.backends[1].servers.http.open();
    assert!(on_drained > 0, "none of the downloads is from be2");

    for service in ["tcp-echo", "web"] {
        bed.change(|controller, _| controller.set_admin(service, "be2", Admin::Draining)).unwrap();
    }
    for _ in 0..5 {
        for flows in &mut flows {
            let broken = flows.exchange();
            assert!(broken.is_empty(), "{broken:?}");
        }
    }
    for vip in vips(ECHO_PORT) {
        let fresh = EchoFlows::open(client, vip, 300).unwrap();
        assert!(!fresh.by_backend().contains_key("be2"), "{:?}", fresh.by_backend());
    }
    for download in &mut downloads {
        download.read_some(DOWNLOAD).unwrap();
        assert_eq!(download.left(), 0);
    }
    drop(downloads);
    for flows in &mut flows {
        flows.close_on("be2");
    }
    let drained = &bed.backends[1].servers;
    wait::until_true(LONG, "the drained backend to be empty", || {
        drained.echo.open() == 0 && drained.http.open() == 0
    })
    .unwrap();
    for (flows, mut before) in flows.iter_mut().zip(before) {
        assert!(flows.exchange().is_empty());
        before.remove("be2");
        assert_eq!(owned(flows.by_backend()), before);
    }
}

/// Tables are swapped some hundred times while flows talk and new ones come.
pub fn swapping_tables_breaks_nothing<F: Forwarder>() {
    let bed = Bed::<F>::start(&Plan::default(), &[tcp_echo(3), web(3)]).unwrap();
    let client = &bed.network.client.namespace;
    let mut flows = EchoFlows::open(client, vips(ECHO_PORT)[0], 30).unwrap();
    let before = owned(flows.by_backend());
    let load = HttpLoad::start(client, &vips(HTTP_PORT)).unwrap();
    for round in 0_u32..100 {
        let (backend, weight) = (["be1", "be2", "be3"][round as usize % 3], 1 + round % 5);
        for service in ["tcp-echo", "web"] {
            bed.change(|controller, _| controller.set_weight(service, backend, weight)).unwrap();
        }
        if round % 10 == 0 {
            let broken = flows.exchange();
            assert!(broken.is_empty(), "round {round}: {broken:?}");
        }
    }
    assert_eq!(owned(flows.by_backend()), before);
    wait::until_true(LONG, "some requests", || load.report().total() >= 50).unwrap();
    assert_eq!(load.report().failed, []);
}

/// Another table size, larger and then smaller, with flows that were there before.
pub fn another_table_size_breaks_nothing<F: Forwarder>() {
    let bed = Bed::<F>::start(&Plan::default(), &[tcp_echo(3), web(3)]).unwrap();
    let client = &bed.network.client.namespace;
    let mut flows = EchoFlows::open(client, vips(ECHO_PORT)[1], 50).unwrap();
    let load = HttpLoad::start(client, &vips(HTTP_PORT)).unwrap();
    let wanted = |number: u64| {
        let target = load.report().total() + number;
        wait::until_true(LONG, "more requests", || load.report().total() >= target).unwrap();
    };
    wanted(10);
    for (service, slots) in [("tcp-echo", 4099), ("web", 131)] {
        let size = TableSizeSpec::Slots(slots);
        let changes =
            bed.change(|controller, _| controller.resize(service, size, 0x5eed ^ u64::from(slots))).unwrap();
        assert!(changes.iter().all(|change| change.slots == slots && !change.resize_waits), "{changes:?}");
        let broken = flows.exchange();
        assert!(broken.is_empty(), "{broken:?}");
        wanted(20);
    }
    assert_eq!(load.report().failed, []);
    assert_eq!(flows.flows().len(), 50);
}

/// More than a thousand requests while each backend in turn is drained and comes back: none fails.
pub fn draining_under_load_fails_no_request<F: Forwarder>() {
    let bed = Bed::<F>::start(&Plan::default(), &[web(3)]).unwrap();
    let client = &bed.network.client.namespace;
    let loads = [0, 1].map(|_| HttpLoad::start(client, &vips(HTTP_PORT)).unwrap());
    let total = || loads.iter().map(|load| load.report().total()).sum::<u64>();
    let mut wanted = 0;
    for round in 0..6 {
        let backend = ["be1", "be2", "be3"][round % 3];
        for admin in [Admin::Draining, Admin::Active] {
            bed.change(|controller, _| controller.set_admin("web", backend, admin)).unwrap();
            wanted += 100;
            wait::until_true(LONG, "more requests", || total() >= wanted).unwrap();
        }
    }
    let failed: Vec<_> = loads.iter().flat_map(|load| load.report().failed).collect();
    assert_eq!(failed, []);
}

/// Some seconds after a change, with every flow where its slot sends it, no slot is unsettled any more: the flow table
/// is out of the way again.
pub fn slots_settle_when_the_idle_time_has_passed<F: Forwarder>() {
    // Longer than a busy machine keeps the flows from speaking between the change and their exchange.
    // Of two backends, so that no slot moves between those that stay, and takes a silent flow along when it settles.
    let service = Service { tcp_idle_seconds: 3, udp_idle_seconds: 3, ..tcp_echo(2) };
    let bed = Bed::<F>::start(&Plan::default(), &[service]).unwrap();
    let client = &bed.network.client.namespace;
    let mut flows = EchoFlows::open(client, vips(ECHO_PORT)[0], 20).unwrap();
    bed.change(|controller, _| controller.set_admin("tcp-echo", "be2", Admin::Draining)).unwrap();
    let unsettled =
        || bed.sum(|balancer| balancer.controller().status().iter().map(|s| u64::from(s.unsettled)).sum());
    assert!(unsettled() > 0);
    assert!(flows.exchange().is_empty());
    flows.close_on("be2");
    wait::until_true(2 * LONG, "all slots to settle", || unsettled() == 0).unwrap();
    let hits = bed.event(Event::FlowHit) + bed.event(Event::FlowMiss);
    assert!(flows.exchange().is_empty());
    assert_eq!(bed.event(Event::FlowHit) + bed.event(Event::FlowMiss), hits);
}

fn owned(counts: BTreeMap<&str, usize>) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(backend, count)| (backend.to_owned(), count)).collect()
}
