//! What must hold of any frame in any state, for property tests and fuzzing.

use core::sync::atomic::Ordering::Relaxed;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use etherparse::{NetSlice, SlicedPacket};
use guideway_wire::{SliceFrame, Tunnel};

use super::memory::Memory;
use super::world::World;
use crate::outcome::{Kind, Verdict};
use crate::process::process;
use crate::record::{BackendState, Policy, Slot};

/// Sends one frame, with so much head room, through the core, and says what it broke: a passed frame is untouched, one that leaves
/// is well-formed and within the MTU by an independent parser.
///
/// # Errors
/// A sentence about what does not hold.
pub fn audit(memory: &Memory, input: &[u8], head_room: usize) -> Result<(Verdict, Vec<u8>), String> {
    let mut buffer = vec![0xa5; head_room];
    buffer.extend(input);
    let Some(mut frame) = SliceFrame::new(&mut buffer, head_room, input.len()) else {
        return Err(format!("no frame of {} bytes", input.len()));
    };
    let verdict = process(&mut frame, memory);
    let output = frame.bytes().to_vec();
    let broken = |what: &str| Err(format!("{verdict:?}: {what}\n in {input:02x?}\nout {output:02x?}"));
    match verdict {
        Verdict::Pass(_) if output != input => return broken("a passed frame was changed"),
        Verdict::Pass(_) | Verdict::Drop(_) => {}
        Verdict::Forward(_) | Verdict::Answer(_) => {
            let length = output.len().saturating_sub(14 + 4 * tags(&output));
            let sound = match SlicedPacket::from_ethernet(&output).map(|sliced| sliced.net) {
                Ok(Some(NetSlice::Ipv4(ip))) => {
                    let header = ip.header();
                    header.total_len() as usize == length
                        && header.header_checksum() == header.to_header().calc_header_checksum()
                }
                Ok(Some(NetSlice::Ipv6(ip))) => ip.header().payload_length() as usize + 40 == length,
                _ => false,
            };
            if !sound {
                return broken("what leaves is not well-formed");
            }
            if matches!(verdict, Verdict::Forward(_)) && length > 1500 {
                return broken("what leaves is above the MTU");
            }
        }
    }
    Ok((verdict, output))
}

/// Whether the books balance after `received` frames.
///
/// # Errors
/// A sentence with the terms that do not add up.
pub fn audit_books(memory: &Memory, received: u64) -> Result<(), String> {
    let terms =
        [Kind::Forwarded, Kind::Answered, Kind::Passed, Kind::Dropped].map(|kind| memory.packets(kind));
    let [forwarded, ..] = terms;
    if terms.iter().sum::<u64>() != received {
        return Err(format!("{received} received, but forwarded, answered, passed, dropped are {terms:?}"));
    }
    if memory.forwarded() != (forwarded, forwarded) {
        return Err(format!("{forwarded} forwarded, but services and backends say {:?}", memory.forwarded()));
    }
    Ok(())
}

/// One fuzz input: eight bytes of state, then frames, each behind a byte of seconds and two of length (big-endian).
///
/// # Errors
/// What the first broken frame broke, or the books.
pub fn audit_input(input: &[u8]) -> Result<(), String> {
    let Some(([slots, other, policy, states, tunnel, tokens, flags, head_room], mut rest)) =
        input.split_first_chunk::<8>()
    else {
        return Ok(());
    };
    let slot = |byte: u8| {
        let settled = Slot::settled_on((byte & 7) as u16);
        let slot = settled.change_owner(((byte >> 3) & 7) as u16);
        match byte >> 6 {
            0 => settled,
            1 => slot.end_grace(),
            2 => slot,
            _ => Slot::EMPTY,
        }
    };
    let tunnels = [Tunnel::Ipip, Tunnel::Gre, Tunnel::GueDirect, Tunnel::GueHeader];
    let kind = tunnels.get((tunnel & 3) as usize).copied().unwrap_or(Tunnel::Ipip);
    let mut world = World::usual(slot(*slots)).with_tunnel(kind, tunnel & 4 == 0);
    for (index, backend) in world.backends.iter_mut().enumerate() {
        backend.state = match (states >> (2 * index)) & 3 {
            0 => BackendState::Active,
            1 => BackendState::Draining,
            2 => BackendState::Down,
            _ => BackendState::Free,
        };
        backend.source_entropy_bits = flags & 31;
    }
    for service in &mut world.services {
        service.policy = Policy(u64::from(*policy) | (1 << 8) | (2 << 16));
        service.quic_servers = vec![(3, 2)];
        if flags & 0x80 != 0 {
            service.prior = vec![slot(*other); 7];
        }
    }
    world.icmp_tokens = u32::from(*tokens);
    let memory = Memory::new(&world, 4);
    let mut received = 0;
    while let Some(([seconds, high, low], tail)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (frame, after) = tail.split_at(length);
        memory.now.fetch_add(u32::from(*seconds), Relaxed);
        audit(&memory, frame, usize::from(*head_room))?;
        received += 1;
        rest = after;
    }
    audit_books(&memory, received)
}

fn tags(frame: &[u8]) -> usize {
    let tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8] | [0x91, 0]));
    match (tag(12), tag(16)) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    }
}
