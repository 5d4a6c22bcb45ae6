//! A VIP of either family over an underlay of either family by every tunnel.

use std::format;
use std::vec;
use std::vec::Vec;

use guideway_wire::Tunnel;

use super::{case, family, step};
use crate::cases::packets::{self, Tcp, hash_bytes, tunnelled};
use crate::cases::world::World;
use crate::cases::{Case, Output};
use crate::outcome::Outcome;
use crate::record::Slot;

pub(super) fn cases() -> Vec<Case> {
    let tunnels = [Tunnel::Ipip, Tunnel::Gre, Tunnel::GueDirect, Tunnel::GueHeader];
    let mut cases = Vec::new();
    for tunnel in tunnels {
        for (vip4, underlay4) in [(true, true), (true, false), (false, true), (false, false)] {
            let name = format!("{tunnel:?}: {} in {}", family(vip4), family(underlay4));
            let world = World::usual(Slot::settled_on(1)).with_tunnel(tunnel, underlay4);
            let expected = |input: &[u8]| {
                let frame = tunnelled(input, tunnel, underlay4, 2);
                step(input, Outcome::Forwarded, Output::Frame(frame, hash_bytes(tunnel, underlay4)))
            };
            let mut marked = packets::udp(true, 5_000, b"marked");
            // DSCP 46 and ECT(0), both copied outside; the inner checksum stays as wrong as it now is.
            if let Some(class) = marked.get_mut(15) {
                *class = 0xba;
            }
            let steps = vec![
                expected(&packets::tcp(vip4, 40_000, Tcp::Ack, 64)),
                expected(&packets::udp(vip4, 40_000, b"payload")),
                expected(&marked),
            ];
            cases.push(case(name, world, steps));
        }
    }
    cases
}
