//! Next hops against a real kernel, in network namespaces of their own.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use guideway_control::neighbour::{Follower, is_local};
use guideway_forward::record::backend::NextHop;
use guideway_testbed::{Hop, Link, Namespace, Route, privilege, veth_pair};

/// Long enough for a machine that is busy with other things; where less is promised, less is asked for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A balancer with two links to a router each; behind them are the backends.
struct Net {
    balancer: Namespace,
    routers: [Namespace; 2],
    /// The balancer's ends.
    links: [Link; 2],
    /// The routers' ends.
    far: [Link; 2],
}

impl Net {
    fn new() -> Self {
        let balancer = Namespace::new("balancer").unwrap();
        let routers = ["one", "two"].map(|label| Namespace::new(label).unwrap());
        let pair = |n: usize| {
            let (near, far) = veth_pair((&balancer, ["up1", "up2"][n]), (&routers[n], "far"), 1500).unwrap();
            for (link, host) in [(&near, 1), (&far, 2)] {
                link.add_address(format!("10.{}.0.{host}/24", n + 1).parse().unwrap()).unwrap();
                link.add_address(format!("2001:db8:{}::{host}/64", n + 1).parse().unwrap()).unwrap();
            }
            (near, far)
        };
        let ((near_one, far_one), (near_two, far_two)) = (pair(0), pair(1));
        Self { routers, links: [near_one, near_two], far: [far_one, far_two], balancer }
    }

    fn hop(&self, n: usize, v6: bool) -> Hop {
        let gateway = if v6 { format!("2001:db8:{}::2", n + 1) } else { format!("10.{}.0.2", n + 1) };
        Hop::via(gateway.parse().unwrap(), &self.links[n])
    }

    fn route(&self, to: &str, ways: &[usize]) {
        let v6 = to.contains(':');
        let hops = ways.iter().map(|&n| self.hop(n, v6)).collect();
        self.balancer.set_route(&Route::new(to.parse().unwrap(), hops)).unwrap();
    }

    /// The next hop by a router with this MAC.
    fn by(&self, n: usize, neighbour: [u8; 6]) -> NextHop {
        NextHop {
            interface: self.links[n].index(),
            neighbour,
            own_mac: self.links[n].mac(),
            link_mtu: Some(1_500),
        }
    }

    fn ip(namespace: &Namespace, arguments: &str) {
        let run = || Command::new("ip").args(arguments.split(' ')).output().unwrap();
        let output = namespace.run(run).unwrap();
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a test on a thread inside the balancer's namespace.
    fn follow<T: Send>(&self, test: impl AsyncFnOnce(Follower) -> T + Send) -> T {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let follower = Follower::new().unwrap();
                test(follower).await
            })
        };
        self.balancer.run(run).unwrap()
    }
}

/// Waits until a backend's next hop is as it should be, no longer than `at_most`.
async fn until(follower: &mut Follower, backend: IpAddr, at_most: Duration, fits: impl Fn(&NextHop) -> bool) {
    let waited = tokio::time::timeout(at_most, async {
        while !follower.table().next_hop(backend).is_some_and(|next_hop| fits(&next_hop)) {
            follower.changes().await.unwrap();
        }
    });
    let found = waited.await;
    let now = follower.table().next_hop(backend);
    assert!(found.is_ok(), "after {at_most:?} {backend} is at {now:?}, {:?}", follower.table().counts());
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn backends_behind_routers_and_on_the_link_are_resolved_in_both_families() {
    if !privilege::granted() {
        return;
    }
    let net = Net::new();
    net.route("10.50.0.0/16", &[0]);
    net.route("2001:db8:50::/48", &[1]);
    let backends = [
        ("10.50.0.1", net.by(0, net.far[0].mac())),
        ("2001:db8:50::1", net.by(1, net.far[1].mac())),
        ("10.2.0.2", net.by(1, net.far[1].mac())),
        ("2001:db8:1::2", net.by(0, net.far[0].mac())),
    ];
    net.follow(async |mut follower| {
        follower.follow(backends.iter().map(|(backend, _)| address(backend)));
        for (backend, expected) in backends {
            until(&mut follower, address(backend), PATIENCE, |next_hop| *next_hop == expected).await;
        }
        assert_eq!(follower.table().unresolved().count(), 0);
    });
}

#[test]
fn an_address_is_local_where_routes_end_here() {
    if !privilege::granted() {
        return;
    }
    let net = Net::new();
    net.route("0.0.0.0/0", &[0]);
    Net::ip(&net.balancer, "route add local 10.70.0.0/16 dev lo");
    Net::ip(&net.balancer, "route add prohibit 10.71.0.0/16");
    let local = |text: &str| net.balancer.run(|| is_local(address(text)).unwrap()).unwrap();
    for own in ["10.1.0.1", "2001:db8:2::1", "10.70.3.4"] {
        assert!(local(own), "{own}");
    }
    for other in ["10.1.0.2", "2001:db8:2::2", "192.0.2.1", "2001:db8:99::1", "10.71.0.1"] {
        assert!(!local(other), "{other}");
    }
}

#[test]
fn the_mtu_of_a_route_holds_where_it_is_less_than_the_links() {
    if !privilege::granted() {
        return;
    }
    let net = Net::new();
    let by = |link_mtu| NextHop { link_mtu: Some(link_mtu), ..net.by(0, net.far[0].mac()) };
    let (v4, v6) = (address("10.60.0.1"), address("2001:db8:60::1"));
    Net::ip(&net.balancer, "route add 10.60.0.0/16 via 10.1.0.2 mtu 1400");
    Net::ip(&net.balancer, "route add 2001:db8:60::/48 via 2001:db8:1::2 mtu 1420");
    net.follow(async |mut follower| {
        follower.follow([v4, v6]);
        until(&mut follower, v4, PATIENCE, |next_hop| *next_hop == by(1_400)).await;
        until(&mut follower, v6, PATIENCE, |next_hop| *next_hop == by(1_420)).await;
        Net::ip(&net.balancer, "route replace 10.60.0.0/16 via 10.1.0.2 mtu 9000");
        until(&mut follower, v4, PATIENCE, |next_hop| *next_hop == by(1_500)).await;
    });
}

#[test]
fn a_next_hop_that_changes_its_mac_without_a_word_is_followed_within_two_seconds() {
    if !privilege::granted() {
        return;
    }
    let net = Net::new();
    for (to, backend) in [("10.50.0.0/16", "10.50.0.1"), ("2001:db8:50::/48", "2001:db8:50::1")] {
        net.route(to, &[0]);
        let backend = address(backend);
        net.follow(async |mut follower| {
            follower.follow([backend]);
            until(&mut follower, backend, PATIENCE, |next_hop| next_hop.neighbour != [0; 6]).await;
            for last in [0x51, 0x52] {
                let mac = [2, 0, 0, 0, if backend.is_ipv4() { 4 } else { 6 }, last];
                let words: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
                Net::ip(&net.routers[0], &format!("link set dev far address {}", words.join(":")));
                let at_most = Duration::from_secs(2);
                until(&mut follower, backend, at_most, |next_hop| next_hop.neighbour == mac).await;
            }
            assert!(follower.table().counts().resolutions >= 2);
        });
    }
}

#[test]
fn a_flushed_neighbour_is_resolved_and_frames_go_on_meanwhile() {
    if !privilege::granted() {
        return;
    }
    let net = Net::new();
    net.route("10.50.0.0/16", &[0]);
    let (backend, expected) = (address("10.50.0.1"), net.by(0, net.far[0].mac()));
    net.follow(async |mut follower| {
        follower.follow([backend]);
        until(&mut follower, backend, PATIENCE, |next_hop| *next_hop == expected).await;
        let before = follower.table().counts().resolutions;
        for _ in 0..5 {
            Net::ip(&net.balancer, "neigh flush all");
            let resolutions = follower.table().counts().resolutions;
            let again = tokio::time::timeout(Duration::from_secs(2), async {
                // Nothing changes, so that `changes` does not return: it is dropped and called again.
                while follower.table().counts().resolutions == resolutions {
                    let pause = Duration::from_millis(20);
                    if let Ok(changes) = tokio::time::timeout(pause, follower.changes()).await {
                        panic!("frames stopped: {changes:?}");
                    }
                }
            });
            assert!(again.await.is_ok());
        }
        assert!(follower.table().counts().resolutions >= before + 5);
        assert_eq!(follower.table().next_hop(backend), Some(expected));
    });
}

#[test]
fn a_carrier_that_bounces_is_followed_and_what_is_missing_meanwhile_is_counted() {
    if !privilege::granted() {
        return;
    }
    let net = Net::new();
    net.route("10.50.0.0/16", &[0]);
    let (backend, expected) = (address("10.50.0.1"), net.by(0, net.far[0].mac()));
    net.follow(async |mut follower| {
        follower.follow([backend]);
        until(&mut follower, backend, PATIENCE, |next_hop| *next_hop == expected).await;
        net.far[0].set_up(false).unwrap();
        until(&mut follower, backend, Duration::from_secs(2), |next_hop| next_hop.neighbour == [0; 6]).await;
        assert_eq!(follower.table().unresolved().collect::<Vec<_>>(), [backend]);
        net.far[0].set_up(true).unwrap();
        until(&mut follower, backend, PATIENCE, |next_hop| *next_hop == expected).await;
    });
}

#[test]
fn ways_are_shared_out_and_a_way_that_is_lost_is_left() {
    if !privilege::granted() {
        return;
    }
    let net = Net::new();
    net.route("10.50.0.0/16", &[0, 1]);
    let backends: Vec<IpAddr> = (1..=40).map(|n| IpAddr::from([10, 50, 0, n])).collect();
    net.follow(async |mut follower| {
        follower.follow(backends.iter().copied());
        let on = |follower: &Follower, n: usize| {
            let here = net.by(n, net.far[n].mac());
            let those = backends.iter().filter(|backend| follower.table().next_hop(**backend) == Some(here));
            those.count()
        };
        let settled = tokio::time::timeout(PATIENCE, async {
            while on(&follower, 0) + on(&follower, 1) < 40 || on(&follower, 0) % 40 == 0 {
                follower.changes().await.unwrap();
            }
        });
        assert!(settled.await.is_ok());
        // Another router falls silent, without a word: all leave it.
        net.far[1].set_up(false).unwrap();
        let left = tokio::time::timeout(PATIENCE, async {
            while on(&follower, 0) < 40 {
                follower.changes().await.unwrap();
            }
        });
        assert!(left.await.is_ok());
        assert_eq!(follower.table().unresolved().count(), 0);
        // And a route that changes is followed as a whole.
        net.far[1].set_up(true).unwrap();
        net.route("10.50.0.0/16", &[1]);
        let moved = tokio::time::timeout(PATIENCE, async {
            while on(&follower, 1) < 40 {
                follower.changes().await.unwrap();
            }
        });
        assert!(moved.await.is_ok());
        net.balancer.remove_route("10.50.0.0/16".parse().unwrap()).unwrap();
        let lost = tokio::time::timeout(PATIENCE, async {
            while follower.table().unresolved().count() < 40 {
                follower.changes().await.unwrap();
            }
        });
        assert!(lost.await.is_ok());
    });
}
