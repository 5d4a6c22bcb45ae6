//! A backend host's programs do with every frame what the same rules do in memory, byte for byte.

mod end_frames;

use std::collections::BTreeSet;
use std::net::IpAddr;

use end_frames::{Host, OWN, TUNNELS, VIPS, at_tc, outer_end, plain, wrapped};
use etherparse::PacketBuilder;
use guideway_forward::tunnel_end::{Clamped, EndOutcome, EndSettings, Fate, clamp};
use guideway_testbed::privilege;
use guideway_wire::{SliceFrame, Tunnel};
use guideway_xdp::end::{Decapsulator, Which};

const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
const TC_NEXT: i32 = -1;
const TC_SHOT: i32 = 2;

fn loaded(host: &Host) -> Option<Decapsulator> {
    if !privilege::granted() {
        return None;
    }
    let mut programs = Decapsulator::load(None).unwrap();
    programs.set(&host.settings).unwrap();
    programs.set_addresses(&host.roles).unwrap();
    Some(programs)
}

/// Frames of every kind, each with its name.
fn frames() -> Vec<(String, Vec<u8>)> {
    let mut frames = Vec::new();
    for vip in VIPS {
        frames.push((format!("to {vip} without a tunnel"), plain(vip, 0)));
        for end in OWN {
            for tunnel in TUNNELS {
                let name = format!("{tunnel:?} {vip} over {end}");
                for class in [0, 1, 2, 3, 0xb8, 0xba] {
                    frames.push((format!("{name} class {class}"), wrapped(&plain(vip, class), tunnel, end)));
                }
                let good = wrapped(&plain(vip, 2), tunnel, end);
                let mut padded = good.clone();
                padded.extend_from_slice(&[0; 9]);
                frames.push((format!("{name} padded"), padded));
                let mut marked = wrapped(&plain(vip, 0), tunnel, end);
                mark_congestion(&mut marked);
                frames.push((format!("{name} marked, not capable"), marked));
                let mut marked = good.clone();
                mark_congestion(&mut marked);
                frames.push((format!("{name} marked, capable"), marked));
                for length in [34, 42, outer_end(end), good.len() - 1] {
                    frames.push((format!("{name} cut at {length}"), good[..length.min(good.len())].to_vec()));
                }
                for byte in 14..outer_end(end) + 24 {
                    for bit in [0x01, 0x20, 0x80] {
                        let mut damaged = good.clone();
                        damaged[byte] ^= bit;
                        frames.push((format!("{name} byte {byte} changed by {bit:#x}"), damaged));
                    }
                }
            }
            let other = wrapped(
                &plain(if vip.contains(':') { "2001:db8::99" } else { "192.0.2.99" }, 0),
                Tunnel::Ipip,
                end,
            );
            frames.push((format!("to no virtual address over {end}"), other));
            let twice = wrapped(&wrapped(&plain(vip, 0), Tunnel::Ipip, end), Tunnel::Gre, end);
            frames.push((format!("twice over {end}"), twice));
        }
        for stranger in ["10.0.0.2", "2001:db8:ffff::2", VIPS[0], VIPS[1]] {
            frames
                .push((format!("{vip} to {stranger}"), wrapped(&plain(vip, 0), Tunnel::GueHeader, stranger)));
        }
    }
    // An inner IPv6 packet to ::ffff:192.0.2.10, which reads like the IPv4 address.
    let mut mapped = wrapped(&plain(VIPS[1], 0), Tunnel::Ipip, OWN[0]);
    let at = 14 + 20 + 24;
    mapped[at..at + 16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 10]);
    frames.push(("to a mapped address".into(), mapped));
    // An outer header that is right, and not all of an inner one behind it.
    let mut short = wrapped(&plain(VIPS[0], 0), Tunnel::Ipip, OWN[0])[..14 + 20 + 12].to_vec();
    short[17] = 32;
    let mut header = etherparse::Ipv4HeaderSlice::from_slice(&short[14..]).unwrap().to_header();
    header.header_checksum = header.calc_header_checksum();
    short[14..34].copy_from_slice(&header.to_bytes());
    frames.push(("the inner header cut".into(), short));
    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, 1, 8, 6]);
    arp.resize(60, 0);
    frames.push(("ARP".into(), arp));
    frames
}

/// Sets both ECN bits of the outer header, with the checksum that belongs to it.
fn mark_congestion(frame: &mut [u8]) {
    if frame[12] == 8 {
        frame[15] |= 3;
        let mut header = etherparse::Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap().to_header();
        header.header_checksum = header.calc_header_checksum();
        frame[14..34].copy_from_slice(&header.to_bytes());
    } else {
        frame[15] |= 0x30;
    }
}

#[test]
fn every_frame_comes_out_as_in_memory() {
    let host = Host::new();
    let Some(programs) = loaded(&host) else { return };
    let mut outcomes = BTreeSet::new();
    let mut decapsulated = 0;
    for (name, frame) in frames() {
        let (outcome, bytes) = host.decapsulate(&frame);
        outcomes.insert(outcome.as_str());
        decapsulated += u32::from(outcome == EndOutcome::Decapsulated);
        for which in [Which::Xdp, Which::Tc] {
            // The kernel makes no such packet for TC.
            let (drop, pass) = if which == Which::Xdp { (XDP_DROP, XDP_PASS) } else { (TC_SHOT, TC_NEXT) };
            let outcome = if which == Which::Xdp { outcome } else { at_tc(&frame, (outcome, &bytes)) };
            let before = programs.count(outcome).unwrap().packets;
            let (action, output) = match programs.run(which, &frame) {
                Ok(ran) => ran,
                Err(error) if which == Which::Tc && frame.len() < 14 + 40 => {
                    eprintln!("{name}: {error}");
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            assert_eq!(
                programs.count(outcome).unwrap().packets,
                before + 1,
                "{name}, {which:?}: not {outcome:?}"
            );
            assert_eq!(action, if outcome.fate() == Fate::Drop { drop } else { pass }, "{name}, {which:?}");
            if outcome.fate() != Fate::Drop {
                assert_eq!(output, bytes, "{name}, {which:?}: {outcome:?}");
            }
        }
    }
    eprintln!("{decapsulated} frames decapsulated; outcomes seen: {outcomes:?}");
    // All but those that no frame of this list can have.
    let unseen: Vec<_> = EndOutcome::ALL
        .iter()
        .map(|outcome| outcome.as_str())
        .filter(|name| !outcomes.contains(name))
        .collect();
    assert_eq!(unseen, ["pass_unknown_source", "pass_other_tunnel", "drop_immovable"]);
}

#[test]
fn a_tunnel_that_is_not_taken_passes() {
    let mut host = Host::new();
    host.settings.tunnels = EndSettings::bit(Tunnel::Gre);
    let Some(programs) = loaded(&host) else { return };
    for tunnel in TUNNELS {
        let frame = wrapped(&plain(VIPS[0], 0), tunnel, OWN[0]);
        let (outcome, bytes) = host.decapsulate(&frame);
        assert_eq!(outcome == EndOutcome::Decapsulated, tunnel == Tunnel::Gre);
        for which in [Which::Xdp, Which::Tc] {
            assert_eq!(programs.run(which, &frame).unwrap().1, bytes);
        }
    }
}

#[test]
fn tunnels_of_unknown_sources_pass_where_sources_are_told() {
    let mut host = Host::new();
    host.settings.tunnels |= EndSettings::KNOWN_SOURCES;
    let Some(mut programs) = loaded(&host) else { return };
    let prefix = |text: &str| text.parse::<IpAddr>().unwrap();
    let known = [(prefix("10.0.1.0"), 24), (prefix("fdfd::"), 16)];
    // The second: of both families none that sends here.
    for (sources, taken) in [(known, true), ([(prefix("10.0.2.0"), 24), (prefix("fd00::"), 16)], false)] {
        programs.set_sources(&sources.into()).unwrap();
        for tunnel in TUNNELS {
            for end in OWN {
                let frame = wrapped(&plain(VIPS[0], 0), tunnel, end);
                let (outcome, bytes) = host.decapsulate(&frame);
                assert_eq!(outcome, EndOutcome::Decapsulated);
                for which in [Which::Xdp, Which::Tc] {
                    let before = programs.count(EndOutcome::UnknownSource).unwrap().packets;
                    let (action, output) = programs.run(which, &frame).unwrap();
                    if taken && which == Which::Tc && at_tc(&frame, (outcome, &bytes)) != outcome {
                        assert_eq!(action, TC_SHOT, "{tunnel:?} {end}");
                    } else {
                        let expected = if taken { &bytes } else { &frame };
                        assert_eq!(output, expected[..], "{tunnel:?} {end} {which:?}");
                    }
                    let counted = programs.count(EndOutcome::UnknownSource).unwrap().packets - before;
                    assert_eq!(counted, u64::from(!taken));
                }
            }
        }
    }
}

#[test]
fn tags_stay_on_what_comes_out() {
    let host = Host::new();
    let Some(programs) = loaded(&host) else { return };
    for tunnel in TUNNELS {
        let mut frame = wrapped(&plain(VIPS[1], 0), tunnel, OWN[0]);
        let ethertype = [frame[12], frame[13]];
        frame.splice(12..14, [0x81, 0, 0, 100, ethertype[0], ethertype[1]]);
        let (outcome, bytes) = host.decapsulate(&frame);
        assert_eq!(outcome, EndOutcome::Decapsulated);
        assert_eq!(programs.run(Which::Xdp, &frame).unwrap(), (XDP_PASS, bytes));
    }
}

#[test]
fn announced_segments_are_lowered_as_in_memory() {
    let host = Host::new();
    let Some(programs) = loaded(&host) else { return };
    let options: [&[u8]; 3] = [&[2, 4, 5, 180], &[1, 2, 4, 5, 180, 0, 0, 0], &[2, 4, 2, 24]];
    for from in [VIPS[0], VIPS[1], OWN[0]] {
        for options in options {
            for syn in [true, false] {
                let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
                let ip = match from.parse().unwrap() {
                    IpAddr::V4(from) => link.ipv4(from.octets(), [198, 51, 100, 7], 64),
                    IpAddr::V6(from) => link.ipv6(from.octets(), [3; 16], 64),
                };
                let mut tcp = ip.tcp(80, 40_000, 7, 65_000).ack(8).options_raw(options).unwrap();
                if syn {
                    tcp = tcp.syn();
                }
                let mut frame = Vec::new();
                tcp.write(&mut frame, &[]).unwrap();
                let mut buffer = frame.clone();
                let mut packet = SliceFrame::new(&mut buffer, 0, frame.len()).unwrap();
                let clamped = clamp(&mut packet, &host);
                let lowered = syn && from != OWN[0] && options != [2, 4, 2, 24];
                assert_eq!(clamped == Clamped::Lowered, lowered);
                let (action, output) = programs.run(Which::Clamp, &frame).unwrap();
                assert_eq!((action, output), (TC_NEXT, buffer), "{from} {options:?}");
            }
        }
    }
    assert_eq!(programs.clamped(Clamped::Lowered).unwrap().packets, 4);
    assert_eq!(programs.clamped(Clamped::Fitting).unwrap().packets, 2);
}

#[test]
fn the_verifier_is_far_from_its_limit() {
    let Some(programs) = loaded(&Host::new()) else { return };
    for which in [Which::Xdp, Which::Tc, Which::Clamp] {
        let count = programs.verified_instructions(which).unwrap();
        eprintln!("{which:?}: {count} instructions verified");
        assert!(count < 500_000, "{which:?}: {count}");
    }
}
