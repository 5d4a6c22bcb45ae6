//! Checks through the tunnel on real links: the board's marks, the driver's sockets, the probe encapsulator, a backend's
//! decapsulator, and a server on the virtual address, which answers the balancer directly.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guideway_control::config::{Encapsulation, Probe};
use guideway_control::health::probe::{Driver, Options};
use guideway_control::health::{Board, Check, ProbeTunnel, Thresholds, Times, Verdict, Wanted, Way, Who};
use guideway_forward::record::{BackendSpec, BackendState, NextHop};
use guideway_testbed::backend::{HTTP_PORT, Servers};
use guideway_testbed::end::XdpDecapsulator;
use guideway_testbed::forwarder::Decapsulator;
use guideway_testbed::server::{TcpServer, http};
use guideway_testbed::topology::VIPS;
use guideway_testbed::{Host, Network, Plan, privilege};
use guideway_wire::{Address, Tunnel, gue};
use guideway_xdp::prober::Prober;

const INTERVAL: Duration = Duration::from_secs(10);
/// What a probe waits that nobody answers.
const TIMEOUT: Duration = Duration::from_secs(2);
const THRESHOLDS: Thresholds = Thresholds { rise: 1, fall: 2 };

fn who(backend: &Host, way: Way) -> Who {
    Who { service: format!("{way:?}"), backend: backend.name.clone() }
}

/// Every backend, checked by every tunnel to both virtual addresses.
fn wanted(backends: &[Host]) -> Vec<Wanted> {
    let ways = VIPS.into_iter().flat_map(|vip| {
        Encapsulation::ALL.iter().map(move |&encapsulation| Way::Tunnel { vip, encapsulation })
    });
    let one = |backend: &Host, way: Way| Wanted {
        who: who(backend, way),
        check: Arc::new(Check {
            address: backend.address(VIPS[0]),
            port: Some(HTTP_PORT),
            probe: Arc::new(Probe::Http {
                tls: false,
                host: None,
                path: "/".into(),
                status: vec![200],
                body: Some(backend.name.clone()),
            }),
            ca_file: None,
            ways: Arc::new([way]),
            times: Times { interval: INTERVAL, recheck: INTERVAL, timeout: TIMEOUT },
        }),
        thresholds: THRESHOLDS,
        slow_start: Duration::ZERO,
    };
    ways.flat_map(|way| backends.iter().map(move |backend| one(backend, way))).collect()
}

/// What the prober is told of a tunnel.
fn record(from: &Host, backends: &[Host], tunnel: ProbeTunnel) -> BackendSpec {
    let backend = backends.iter().find(|backend| [backend.v4, backend.v6].contains(&tunnel.address)).unwrap();
    BackendSpec {
        state: BackendState::Active,
        address: Address::from(tunnel.address).octets(),
        tunnel: match tunnel.encapsulation() {
            Encapsulation::Ipip => Tunnel::Ipip,
            Encapsulation::Gre => Tunnel::Gre,
            Encapsulation::Gue => Tunnel::GueDirect,
            Encapsulation::GueHeader => Tunnel::GueHeader,
        },
        outer_source: Address::from(from.address(tunnel.address)).octets(),
        source_entropy_bits: 0,
        gue_port: gue::PORT,
        mtu: 1500,
        next_hop: NextHop {
            interface: from.link.index(),
            neighbour: backend.link.mac(),
            own_mac: from.link.mac(),
            link_mtu: None,
        },
    }
}

/// Asks what is due until nothing is, so many times.
async fn ask(board: &mut Board, now: &mut Instant, rounds: u32) {
    let (mut driver, mut answers) = Driver::new(Options::default()).unwrap();
    for _ in 0..rounds {
        *now += INTERVAL;
        let due = board.advance(*now).rounds;
        assert!(!due.is_empty());
        let asked = due.len();
        due.into_iter().for_each(|round| driver.start(round));
        for _ in 0..asked {
            board.answer(&answers.next().await.unwrap(), *now);
        }
    }
}

#[test]
fn a_check_reaches_the_backend_that_it_is_of_and_tells_a_broken_one_from_a_broken_way() {
    if !privilege::granted() {
        return;
    }
    let plan = Plan { balancers: 1, backends: 2, ..Plan::default() };
    let network = Network::build(&plan).unwrap();
    let (balancer, backends) = (&network.balancers[0], &network.backends);
    let ends: Vec<_> = backends.iter().map(|backend| XdpDecapsulator::attach(backend).unwrap()).collect();
    let _servers: Vec<_> = backends.iter().map(|backend| Servers::start(backend).unwrap()).collect();
    // The same on each one's own address, for those who ask there.
    let own = |backend: &Host| {
        TcpServer::start(&backend.namespace, &[backend.v4], HTTP_PORT, http(&backend.name)).unwrap()
    };
    let _own_servers: Vec<_> = backends.iter().map(own).collect();

    let mut now = Instant::now();
    let mut board = Board::new(1);
    board.follow(wanted(backends), now);
    let tunnels: BTreeMap<u32, BackendSpec> =
        board.probe_tunnels().map(|(mark, tunnel)| (mark, record(balancer, backends, tunnel))).collect();
    assert_eq!(tunnels.len(), 2 * Encapsulation::ALL.len());
    let mut prober = Prober::load(16, 2, None).unwrap();
    prober.set_vips(&VIPS.into()).unwrap();
    prober.set_tunnels(&tunnels).unwrap();
    let verdict = |board: &Board, backend: &Host, vip: IpAddr| {
        let ways = Encapsulation::ALL.iter().map(|&encapsulation| Way::Tunnel { vip, encapsulation });
        ways.map(|way| {
            let status = board.status(&who(backend, way), Instant::now()).unwrap();
            (status.verdict, status.because.unwrap_or_default())
        })
        .collect::<Vec<_>>()
    };
    let work = async {
        ask(&mut board, &mut now, 2).await;
        for backend in backends {
            for vip in VIPS {
                for (verdict, because) in verdict(&board, backend, vip) {
                    assert_eq!(verdict, Verdict::Up, "{} {vip}: {because}", backend.name);
                }
            }
        }
        // One backend loses one of the addresses: its server is well, and clients get no answer.
        backends[1].namespace.link("lo").unwrap().remove_address(VIPS[0].into()).unwrap();
        ask(&mut board, &mut now, 4).await;
        for (verdict, because) in verdict(&board, &backends[1], VIPS[0]) {
            assert_eq!(verdict, Verdict::Down);
            assert!(because.contains("tunnel") && because.contains("direct"), "{because}");
        }
        for (backend, vip) in [(0, VIPS[0]), (0, VIPS[1]), (1, VIPS[1])] {
            for (verdict, because) in verdict(&board, &backends[backend], vip) {
                assert_eq!(verdict, Verdict::Up, "{because}");
            }
        }
    };
    let run = || {
        let _attached = prober.attach(balancer.link.name()).unwrap();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(work);
    };
    balancer.namespace.run(run).unwrap();
    assert!(ends.iter().all(|end| end.accepted() > 0 && end.refused() == 0));
}
