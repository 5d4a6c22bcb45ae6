//! Replays of frames made here: books, scripted changes, and services made up from the frames themselves.

use std::time::Duration;

use guideway_control::replay::{Change, ChangeAction, Replay, auto::Servers};
use guideway_forward::Verdict;

/// A TCP frame of `client` (its port) to 192.0.2.10:80.
fn frame(client: u16, flags: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 198, 51, 100, 7, 192, 0, 2, 10]);
    let sum: u32 =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(client.to_be_bytes());
    frame.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    frame.extend([0; 6]);
    frame
}

/// The same between any two ports of 198.51.100.7 and 192.0.2.10, as UDP with a payload.
fn datagram(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = frame(from, 0);
    datagram.truncate(34);
    let length = 8 + payload.len() as u16;
    datagram[23] = 17;
    datagram[16..18].copy_from_slice(&(20 + length).to_be_bytes());
    for word in [from, to, length, 0] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(payload);
    datagram
}

fn found(frames: &[Vec<u8>]) -> Vec<String> {
    let mut servers = Servers::default();
    frames.iter().for_each(|frame| servers.observe(frame));
    servers.found().iter().map(ToString::to_string).collect()
}

fn servers() -> Servers {
    let mut servers = Servers::default();
    servers.observe(&frame(40_000, 0x02));
    servers
}

fn backend(replay: &mut Replay, at: Duration, frame: &[u8]) -> String {
    let verdict = replay.frame(at, frame).unwrap().verdict;
    let Verdict::Forward(forward) = verdict else { panic!("{verdict:?} at {at:?}") };
    replay.controller().backend_at(forward.backend).unwrap().1.identity.to_string()
}

#[test]
fn a_syn_makes_its_destination_a_service() {
    let found = servers().found();
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.10:80/tcp"]);
}

#[test]
fn a_guess_yields_to_what_is_certain() {
    // A client on a low port: without the SYN it is taken for the server.
    assert_eq!(found(&[frame(20, 0x10)]), ["198.51.100.7:20/tcp"]);
    assert_eq!(found(&[frame(20, 0x10), frame(20, 0x02), frame(20, 0x10)]), ["192.0.2.10:80/tcp"]);
    let initial = [0xc0, 0, 0, 0, 1, 8];
    assert_eq!(found(&[datagram(50_000, 4_433, &initial)]), ["192.0.2.10:4433/udp"]);
    assert_eq!(found(&[datagram(53, 50_000, &[1])]), ["198.51.100.7:53/udp"]);
}

#[test]
fn what_goes_to_a_group_shows_no_server() {
    let mut group = datagram(5_353, 5_353, &[1]);
    group[30..34].copy_from_slice(&[224, 0, 0, 251]);
    assert!(found(&[group]).is_empty());
}

#[test]
fn a_scan_of_every_port_becomes_as_many_services_as_there_may_be() {
    let mut servers = Servers::default();
    for port in 1..=u16::MAX {
        let mut syn = frame(40_000, 0x02);
        syn[36..38].copy_from_slice(&port.to_be_bytes());
        servers.observe(&syn);
    }
    let services = servers.services(4);
    assert_eq!(services.len(), guideway_control::replay::auto::MAX_SERVICES);
    let mut replay = Replay::new(services, 1_024, Vec::new()).unwrap();
    assert!(matches!(
        replay.frame(Duration::ZERO, &frame(40_000, 0x02)).unwrap().verdict,
        Verdict::Forward(_)
    ));
}

#[test]
fn more_services_than_the_forwarder_can_name_are_refused() {
    let listen = servers().found()[0];
    let mut services = servers().services(1);
    let one = services.remove(0);
    let many = (0..=u32::from(guideway_forward::record::MAX_SERVICES)).map(|number| {
        let network = std::net::IpAddr::from(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number)).into();
        guideway_control::controller::spec::ServiceSpec {
            name: number.to_string(),
            listen: vec![guideway_control::controller::spec::Listen { network, ..listen }],
            ..one.clone()
        }
    });
    let error = Replay::new(many.collect(), 64, Vec::new()).unwrap_err();
    assert!(error.to_string().contains("services"), "{error}");
}

#[test]
fn flows_stay_where_they_are_through_a_drain_and_the_books_balance() {
    let name = "192.0.2.10:80/tcp".to_owned();
    let drain = Change {
        at: Duration::from_secs(10),
        service: name.clone(),
        backend: "auto2".into(),
        action: ChangeAction::Drain,
    };
    let mut replay = Replay::new(servers().services(4), 1_024, vec![drain]).unwrap();
    let mut homes = Vec::new();
    for port in 0..200 {
        homes.push(backend(&mut replay, Duration::from_secs(5), &frame(1_000 + port, 0x02)));
    }
    assert!(homes.iter().any(|home| home == "auto2"));
    for second in [9, 10, 11, 60, 200, 450, 700, 990] {
        for (port, home) in homes.iter().enumerate() {
            let packet = frame(1_000 + port as u16, 0x10);
            assert_eq!(&backend(&mut replay, Duration::from_secs(5 + second), &packet), home);
        }
        for port in 0..50 {
            let at = Duration::from_secs(5 + second);
            let home = backend(&mut replay, at, &frame(20_000 + 40 * second as u16 + port, 0x02));
            assert!(second < 10 || home != "auto2", "a new flow went to a draining backend");
        }
    }
    let books = replay.books().unwrap();
    assert_eq!(books.received, 200 + 8 * 250);
    assert_eq!(books.forwarded, books.received);
    assert_eq!(books.services[0].packets, books.received);
    assert_eq!(books.changes.len(), 1);
    assert!(books.changes[0].moved > 0 && books.changes[0].moved < books.changes[0].slots / 2);
}

#[test]
fn frames_that_are_nobodys_pass_untouched() {
    let mut replay = Replay::new(servers().services(4), 1_024, Vec::new()).unwrap();
    let arp = [0xff; 60];
    let output = replay.frame(Duration::ZERO, &arp).unwrap();
    assert!(matches!(output.verdict, Verdict::Pass(_)));
    assert_eq!(output.frame, Some(&arp[..]));
    assert_eq!(replay.books().unwrap().passed, 1);
}
