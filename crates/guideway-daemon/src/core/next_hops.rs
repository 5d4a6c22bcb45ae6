//! Frames go another way.

use std::net::IpAddr;

use guideway_forward::record::NextHop;

use super::Core;
use crate::journal::{Grade, Kind};

/// So many next hops that change together are told one by one.
const TOLD: usize = 8;

impl Core {
    /// Takes what the kernel says of where frames go.
    pub(crate) fn set_next_hops(&mut self, changes: &[(IpAddr, NextHop)]) {
        let ways = self.ways.find(changes);
        self.follow_ways(&ways);
    }

    /// Sends frames these ways.
    pub(super) fn follow_ways(&mut self, changes: &[(IpAddr, NextHop)]) {
        if changes.is_empty() {
            return;
        }
        self.tunnels_stale = true;
        self.desired.set_next_hops(&mut self.controller, changes);
        if changes.len() > TOLD {
            let unresolved = changes.iter().filter(|(_, next_hop)| next_hop.neighbour == [0; 6]).count();
            let text = format!("{} next hops changed; {unresolved} have no neighbour", changes.len());
            self.journal.note(Grade::Info, Kind::NextHop, text);
            return;
        }
        for &(backend, next_hop) in changes {
            let mac = next_hop.neighbour;
            if mac == [0; 6] {
                let text = format!("no neighbour leads to {backend}");
                self.journal.note(Grade::Warning, Kind::NextHop, text);
            } else {
                let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
                let text = format!("frames to {backend} go to {mac} by interface {}", next_hop.interface);
                let wanted = self.config.underlay.mtu;
                let text = match next_hop.limit(wanted) {
                    limit if limit < wanted => {
                        format!("{text}, whose MTU of {limit} holds instead of {wanted}, [underlay] mtu")
                    }
                    _ => text,
                };
                self.journal.note(Grade::Info, Kind::NextHop, text);
            }
        }
    }
}
