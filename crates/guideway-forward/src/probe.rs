//! A health probe's way into the tunnel: it leaves by the very encapsulation that a client's packet gets.
//!
//! A probe is an ordinary connection of the balancer to the virtual address, on a socket whose mark names the backend.

use guideway_wire::{FlowHasher, HashKey, Packet, Parsed};

use crate::outcome::{Drop, Outcome, Verdict};
use crate::process::layers;
use crate::record::{Backend, BackendState};
use crate::send::wrap;

/// The probes to find a backend for.
pub trait Probes {
    /// The backend that a mark names.
    fn backend(&self, mark: u32) -> Option<&Backend>;

    /// Whether probes go to this address; IPv4 as `::ffff:a.b.c.d`.
    fn is_vip(&self, address: &[u8; 16]) -> bool;
}

/// What became of a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// It is no probe, and as it was.
    NoProbe,
    /// Encapsulated, to leave by this interface.
    Encapsulated(u32),
    /// It cannot get there.
    Dropped(Drop),
}

/// Encapsulates what goes to a virtual address with a mark that names a backend.
#[inline(always)]
pub fn encapsulate<P: Packet, S: Probes>(packet: &mut P, mark: u32, probes: &S) -> ProbeOutcome {
    if mark == 0 {
        return ProbeOutcome::NoProbe;
    }
    let parsed = &mut { Parsed::EMPTY };
    if layers(packet, parsed).is_err() {
        return ProbeOutcome::NoProbe;
    }
    if !probes.is_vip(&parsed.key.dst.octets()) {
        return ProbeOutcome::NoProbe;
    }
    let Some(backend) = probes.backend(mark) else {
        return ProbeOutcome::NoProbe;
    };
    let status = backend.status();
    if matches!(status.state(), BackendState::Free) {
        return ProbeOutcome::Dropped(Drop::StaleSlot);
    }
    if parsed.ip_length > status.room() {
        return ProbeOutcome::Dropped(Drop::TooBig);
    }
    // No seed: the hash only spreads probes over the ways to the backend.
    let hash = FlowHasher::new(0).hash(&parsed.key, HashKey::FiveTuple);
    let mut interface = 0;
    match wrap(packet, parsed, backend, hash, &mut interface) {
        Outcome::Forwarded => ProbeOutcome::Encapsulated(interface),
        outcome => match outcome.ending() {
            Some(Verdict::Drop(reason)) => ProbeOutcome::Dropped(reason),
            _ => ProbeOutcome::Dropped(Drop::Truncated),
        },
    }
}
