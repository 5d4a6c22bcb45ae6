//! Other next hops for backends, without another table.

use std::collections::HashMap;
use std::net::IpAddr;

use guideway_forward::record::backend::NextHop;

use super::Controller;
use super::service::Held;
use crate::engine::Engine;

impl<E: Engine> Controller<E> {
    /// Sends the frames to a backend another way from now on, in every service that has it; returns in how many places.
    pub fn set_next_hop(&mut self, backend: IpAddr, next_hop: NextHop) -> u32 {
        self.set_next_hops(&HashMap::from([(backend, next_hop)]))
    }

    /// The same for many backends, in one walk over all services.
    pub fn set_next_hops(&mut self, next_hops: &HashMap<IpAddr, NextHop>) -> u32 {
        let mut places = 0;
        let has = |held: &&Held| {
            held.members.iter().flatten().any(|member| next_hops.contains_key(&member.spec.address))
        };
        let names: Vec<String> =
            self.services.values().filter(has).map(|held| held.spec.name.clone()).collect();
        for name in names {
            let Some(held) = self.services.get_mut(&name) else { continue };
            for (local, member) in held.members.iter_mut().enumerate() {
                let Some(member) = member else { continue };
                let Some(&next_hop) = next_hops.get(&member.spec.address) else { continue };
                member.spec.tunnel.next_hop = next_hop;
                if let Some(record) = self.engine.backend(held.places.offset + local as u32) {
                    record.set_mtu(next_hop.limit(member.spec.tunnel.mtu));
                    record.set_next_hop(next_hop);
                    places += 1;
                }
            }
            for spec in &mut held.spec.backends {
                if let Some(&next_hop) = next_hops.get(&spec.address) {
                    spec.tunnel.next_hop = next_hop;
                }
            }
        }
        places
    }
}
