//! Checks through the tunnel whose answers may not be heard.
//!
//! Such a check's socket belongs to the interface where the program that wraps it is, the first one, and the kernel gives a packet
//! that comes by another one to no such socket. Answers that come by interfaces to backends are brought there; where the kernel is
//! too old for that, checks fail that should pass.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use guideway_control::counted;

use super::Core;

impl Core {
    /// What may be the cause where checks fail through the tunnel alone, of backends that another interface leads to.
    pub(crate) fn unheard_checks(&self) -> Option<String> {
        let first = self.about.interfaces.first().filter(|_| self.about.tunnel_probes)?;
        let elsewhere: HashMap<IpAddr, u32> =
            self.ways.by(|link| link != 0 && link != first.index && !self.hears_at.contains(&link)).collect();
        if elsewhere.is_empty() {
            return None;
        }
        let fails: BTreeSet<_> = self
            .board
            .verdicts()
            .map(|(who, _)| who)
            .filter(|who| self.board.last(who).is_some_and(|last| last.blames_tunnel()))
            .map(|who| (who.service.as_str(), who.backend.as_str()))
            .collect();
        let services = self.config.services.iter().filter(|_| !fails.is_empty());
        let backends = services
            .flat_map(|service| service.backends.iter().map(move |backend| (service.name.as_str(), backend)));
        let links = backends
            .filter(|(service, backend)| fails.contains(&(*service, backend.name.as_str())))
            .filter_map(|(_, backend)| elsewhere.get(&backend.address));
        let links: Vec<u32> = links.copied().collect();
        let by: BTreeSet<String> = links.iter().map(|&link| self.link_name(link)).collect();
        let by = by.into_iter().collect::<Vec<_>>().join(", ");
        (!links.is_empty()).then(|| {
            format!(
                "checks through the tunnel leave by {0} and hear what is answered there alone: they fail of {1} that {2} leads to. \
                 Where the answers come by {2}, name that interface before {0} and route the virtual addresses by it, or check with \
                 via = \"direct\"",
                first.name,
                counted(links.len() as u64, "backend", "backends"),
                by,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use guideway_control::health::{Answer, Fault, Passed};
    use guideway_forward::record::NextHop;

    use crate::api::model::Interface;
    use crate::api::view;
    use crate::in_process::{self, CHECK, CONFIG};

    #[test]
    fn checks_that_fail_through_the_tunnel_behind_another_interface_are_told_with_the_likely_cause() {
        let mut now = Instant::now();
        let check = CHECK.replace("via = \"direct\"", "via = \"tunnel\"");
        let mut core = in_process::core(&format!("{CONFIG}{check}"), now).unwrap();
        core.about.tunnel_probes = true;
        core.reconfigure(core.config.clone(), now).unwrap();
        let port = |index| Interface {
            name: "eth0".to_owned(),
            index,
            mode: "native".to_owned(),
            fell_back: None,
            lost: None,
            down: false,
        };
        core.about.interfaces = vec![port(0x7fff_0000)];
        let way = NextHop { interface: 0x7fff_0001, neighbour: [2; 6], own_mac: [4; 6], link_mtu: None };
        core.set_next_hops(&[([10, 0, 0, 1].into(), way)], now);
        let end = now + Duration::from_secs(5);
        while core.next_due() <= end {
            now = core.next_due().max(now);
            let rounds = core.rounds(now);
            core.advance(now);
            for round in rounds {
                let passed = Ok(Passed { took: Duration::from_millis(1) });
                let result = |tunnel| if tunnel { Err(Fault::Refused) } else { passed.clone() };
                let results = round.legs.iter().map(|leg| result(leg.way.is_tunnel())).collect();
                core.answer(&Answer { id: round.id, results }, now);
            }
        }
        let notes = view::status(&core).notes;
        let told = "checks through the tunnel leave by eth0 and hear what is answered there alone: they fail of 1 backend that \
                    interface 2147418113 leads to";
        assert!(notes.iter().any(|note| note.starts_with(told)), "{notes:?}");
        core.about.interfaces = vec![port(0x7fff_0001)];
        assert!(core.unheard_checks().is_none());
    }
}
