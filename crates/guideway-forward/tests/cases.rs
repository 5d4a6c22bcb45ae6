//! Runs the packet cases through the core in memory.

use std::sync::atomic::Ordering::Relaxed;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use guideway_forward::cases::memory::Memory;
use guideway_forward::cases::world::{CLIENT4, CLIENT6, VIP4, VIP6};
use guideway_forward::cases::{Case, Output, Step, all};
use guideway_forward::outcome::Verdict;
use guideway_forward::process;
use guideway_forward::record::ServiceId;
use guideway_wire::SliceFrame;

const HEAD_ROOM: usize = 128;

/// The verdict, and the frame as it is left.
fn run(memory: &Memory, input: &[u8]) -> (Verdict, Vec<u8>) {
    let mut buffer = vec![0xa5; HEAD_ROOM];
    buffer.extend(input);
    let mut frame = SliceFrame::new(&mut buffer, HEAD_ROOM, input.len()).unwrap();
    let verdict = process(&mut frame, memory);
    (verdict, frame.bytes().to_vec())
}

#[test]
fn every_case_comes_out_as_it_says() {
    let cases = all();
    assert!(cases.len() > 60);
    let failures: Vec<String> = cases.iter().filter_map(|case| check(case).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check(case: &Case) -> Result<(), String> {
    let memory = Memory::new(&case.world, 64);
    for (number, step) in case.steps.iter().enumerate() {
        match step {
            Step::Slots(slot) => {
                for id in 0..case.world.services.len() {
                    memory.rewrite_slots(ServiceId(id as u16), |_| *slot);
                }
            }
            Step::State(index, state) => memory.backends[*index].set_state(*state),
            Step::Pass(seconds) => {
                memory.now.fetch_add(*seconds, Relaxed);
            }
            Step::Frame { input, expect } => {
                let before = expect.event.map(|event| memory.events(event));
                let (verdict, output) = run(&memory, input);
                let fail = |what: String| Err(format!("{}, step {number}: {what}", case.name));
                if verdict.outcome() != expect.outcome {
                    return fail(format!("{verdict:?}, not {:?}", expect.outcome));
                }
                if let (Some(event), Some(before)) = (expect.event, before)
                    && memory.events(event) == before
                {
                    return fail(format!("{event:?} was not counted"));
                }
                if let Err(what) = matches(input, &output, &expect.output) {
                    return fail(what);
                }
            }
        }
    }
    Ok(())
}

fn matches(input: &[u8], output: &[u8], expected: &Output) -> Result<(), String> {
    let same = |left: &[u8], right: &[u8]| {
        if left == right { Ok(()) } else { Err(format!("\n got {left:02x?}\nwant {right:02x?}")) }
    };
    match expected {
        Output::Any => Ok(()),
        Output::Same => same(output, input),
        Output::Frame(frame, follows_hash) => {
            let mut output = output.to_vec();
            for &at in follows_hash {
                output[at] = if at == 15 { output[at] & 0xf0 } else { 0 };
            }
            same(&output, frame)
        }
        Output::TooBig(mtu) => {
            let (head, body) = answer(input, output)?;
            let told = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            let kind = if output[14] >> 4 == 4 { [3, 4] } else { [2, 0] };
            same(&head[..2], &kind)?;
            same(&told.to_be_bytes(), &mtu.to_be_bytes())?;
            assert!(body.len() >= 28 && output[14..].len() <= 1280);
            same(&body, &input[14..14 + body.len()])
        }
        Output::Unreachable => {
            let (head, body) = answer(input, output)?;
            same(&head[..2], if output[14] >> 4 == 4 { &[3, 3] } else { &[1, 4] })?;
            same(&body, &input[14..14 + body.len()])
        }
        Output::Echo => {
            let (head, body) = answer(input, output)?;
            let at = if output[14] >> 4 == 4 { 34 } else { 54 };
            same(&head[..2], if output[14] >> 4 == 4 { &[0, 0] } else { &[129, 0] })?;
            same(&head[4..], &input[at + 4..at + 8])?;
            same(&body, &input[at + 8..])
        }
        Output::Reset(sequence) => {
            let (head, body) = answer(input, output)?;
            let tcp = etherparse::TcpHeader::from_slice(&head).unwrap().0;
            assert!(body.is_empty() && tcp.rst && !tcp.syn);
            same(&tcp.sequence_number.to_be_bytes(), &sequence.to_be_bytes())
        }
    }
}

/// The transport header and payload of a well-formed answer from the VIP to the sender of `input`.
fn answer(input: &[u8], output: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    assert_eq!((&output[..6], &output[6..12]), (&input[6..12], &input[..6]), "back the way it came");
    let sliced = SlicedPacket::from_ethernet(output).map_err(|error| error.to_string())?;
    let ip_payload = match sliced.net.as_ref() {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            assert_eq!((header.source(), header.destination()), (VIP4, CLIENT4));
            assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
            assert!(!ip.is_payload_fragmented());
            ip.payload().payload.to_vec()
        }
        Some(NetSlice::Ipv6(ip)) => {
            assert_eq!((ip.header().source(), ip.header().destination()), (VIP6, CLIENT6));
            ip.payload().payload.to_vec()
        }
        other => return Err(format!("no IP: {other:?}")),
    };
    match sliced.transport {
        Some(TransportSlice::Icmpv4(icmp)) => {
            assert_eq!(
                etherparse::checksum::Sum16BitWords::new().add_slice(&ip_payload).ones_complement(),
                0
            );
            Ok((ip_payload[..8].to_vec(), icmp.payload().to_vec()))
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            assert!(icmp.is_checksum_valid(VIP6, CLIENT6));
            Ok((ip_payload[..8].to_vec(), ip_payload[8..].to_vec()))
        }
        Some(TransportSlice::Tcp(tcp)) => {
            let header = tcp.to_header();
            let right = if output[14] >> 4 == 4 {
                header.calc_checksum_ipv4_raw(VIP4, CLIENT4, tcp.payload())
            } else {
                header.calc_checksum_ipv6_raw(VIP6, CLIENT6, tcp.payload())
            };
            assert_eq!(Ok(header.checksum), right);
            Ok((tcp.header_slice().to_vec(), tcp.payload().to_vec()))
        }
        other => Err(format!("no answer: {other:?}")),
    }
}
