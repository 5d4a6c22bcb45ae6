//! What the forwarder would do with a packet now, step by step, from the live state.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use guideway_control::Engine;
use guideway_control::trial::{Sample, Trial, trial};
use guideway_forward::record::BackendState;
use guideway_forward::{Event, Outcome, Verdict};
use guideway_wire::{IpProtocol, Tunnel, parse};

use super::model::{Explanation, Outer, Referee, Tried};
use super::trace::protocol;
use super::view::fits;
use crate::core::Core;
use crate::engine::Plane;

/// What a packet of this flow meets: for TCP, the first and a later one of a connection. With `ask`, the program in the
/// kernel is run on the packet as well, where it would leave no memory; it counts it.
pub(crate) fn explain(
    core: &Core,
    source: SocketAddr,
    destination: SocketAddr,
    tcp: bool,
    ask: bool,
) -> Option<Explanation> {
    let samples: &[Sample] = if tcp { &[Sample::TcpSyn, Sample::TcpAck] } else { &[Sample::Udp] };
    let tried = samples.iter().map(|&sample| case(core, sample, source, destination, ask));
    Some(Explanation {
        source: source.to_string(),
        destination: destination.to_string(),
        protocol: if tcp { "tcp" } else { "udp" }.to_owned(),
        packets: tried.collect::<Option<Vec<_>>>()?,
    })
}

fn case(
    core: &Core,
    sample: Sample,
    source: SocketAddr,
    destination: SocketAddr,
    ask: bool,
) -> Option<Tried> {
    let name = match sample {
        Sample::TcpSyn => "tcp-syn",
        Sample::TcpAck => "tcp-ack",
        Sample::Udp => "udp",
    };
    tried(core, name, &sample.frame(source, destination)?, ask)
}

/// What a packet that came in meets.
pub(super) fn explain_frame(core: &Core, frame: &[u8]) -> Option<Tried> {
    let protocol = protocol(parse(frame).ok()?.key.protocol);
    tried(core, &protocol, frame, false)
}

fn tried(core: &Core, name: &str, frame: &[u8], ask: bool) -> Option<Tried> {
    let engine = core.controller.engine();
    let trial = trial(engine, frame)?;
    let outcome = trial.verdict.outcome();
    let mut tried = Tried {
        packet: name.to_owned(),
        outcome: outcome.as_str().to_owned(),
        meaning: outcome.meaning().to_owned(),
        events: trial.events.iter().map(|event| event.as_str().to_owned()).collect(),
        ..Tried::default()
    };
    if let Verdict::Forward(forward) = trial.verdict {
        describe_backend(core, forward.backend, &trial, &mut tried);
    }
    describe_slot(core, frame, &trial, &mut tried);
    tried.decided_by = decided_by(&trial).map(str::to_owned);
    tried.steps = steps(&tried);
    if ask && let Plane::Kernel(balancer) = engine {
        tried.referee = Some(referee(balancer, frame, &trial));
    }
    Some(tried)
}

/// Service, slot and hash, as far as the packet got.
fn describe_slot(core: &Core, frame: &[u8], trial: &Trial, tried: &mut Tried) {
    let engine = core.controller.engine();
    let Some(&(offset, index, slot)) = trial.slots.first() else { return };
    let Some((id, service)) = core.controller.service_of_slot(offset) else { return };
    tried.service = Some(service.to_owned());
    tried.slot = Some(index);
    tried.slot_is_settled = Some(slot.is_settled());
    let name = |local| core.controller.identity(id, local).map(str::to_owned);
    tried.slot_current = name(slot.current());
    tried.slot_settled = name(slot.settled()).filter(|_| !slot.is_settled());
    if let Some(tag) = trial.remembered {
        tried.remembered_on = name(tag.backend());
        tried.remembered_as = Some(tag.class().as_str().to_owned());
    }
    if let Ok(parsed) = parse(frame)
        && let Some(record) = engine.service(id)
    {
        let table = record.table(record.active());
        tried.hash = Some(format!("{:016x}", table.hash(&parsed.key, record.policy().hash_key())));
        tried.table_size = Some(table.place().1);
        tried.generation = Some(record.active().generation());
    }
}

fn describe_backend(core: &Core, global: u32, trial: &Trial, tried: &mut Tried) {
    let Some(record) = core.controller.engine().backend(global) else { return };
    if let Some((name, spec)) = core.controller.backend_at(global) {
        tried.service = Some(name.to_owned());
        tried.backend = Some(spec.identity.to_string());
    }
    let address = |octets| Ipv6Addr::from(octets).to_canonical();
    tried.address = Some(address(record.address()));
    tried.backend_state = Some(record.state().as_str().to_owned());
    debug_assert_ne!(record.state(), BackendState::Free, "invariant violated: forwarded to nobody");
    let (mtu, packet_bytes) = fits(record);
    let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    // As they stand in the frame: some bits may follow the flow.
    let sent = parse(trial.frame.as_slice()).ok().map(|parsed| parsed.key);
    let ports = sent.filter(|key| key.protocol == IpProtocol::UDP);
    tried.outer = Some(Outer {
        tunnel: tunnel_word(record.status().tunnel()).to_owned(),
        source: sent.map_or_else(|| address(record.outer_source()), |key| IpAddr::from(key.src)),
        destination: address(record.address()),
        source_port: ports.map(|key| key.src_port),
        destination_port: ports.map(|key| key.dst_port),
        interface: record.interface(),
        interface_name: Some(core.link_name(record.interface())),
        mtu,
        packet_bytes,
        source_mac: mac(record.own_mac()),
        next_hop_mac: record.neighbour().map(mac),
        frame_bytes: trial.frame.len() as u32,
    });
}

/// The kind of tunnel as the configuration says it.
pub(super) fn tunnel_word(tunnel: Tunnel) -> &'static str {
    match tunnel {
        Tunnel::Ipip => "ipip",
        Tunnel::Gre => "gre",
        Tunnel::GueDirect => "gue",
        Tunnel::GueHeader => "gue-header",
    }
}

/// What decided which backend.
fn decided_by(trial: &Trial) -> Option<&'static str> {
    let Verdict::Forward(_) = trial.verdict else { return None };
    let had = |event| trial.events.contains(&event);
    Some(if had(Event::FlowHit) {
        "flow-table"
    } else if trial.slots.is_empty() {
        "quic-id"
    } else if trial.slots.first().is_some_and(|(_, _, slot)| slot.is_settled()) && trial.slots.len() == 1 {
        "slot"
    } else if had(Event::FlowAdopted) {
        "older-owner"
    } else if trial.slots.len() > 1 {
        "prior-table"
    } else {
        "current-owner"
    })
}

/// The steps in words.
fn steps(tried: &Tried) -> Vec<String> {
    let mut steps = Vec::new();
    let Some(service) = &tried.service else {
        return vec![format!("{}: {}", tried.outcome, tried.meaning)];
    };
    steps.push(format!("service {service}"));
    if let (Some(hash), Some(slot), Some(size)) = (&tried.hash, tried.slot, tried.table_size) {
        steps.push(format!("hash {hash} leads to slot {slot} of {size}"));
        let owner = tried.slot_current.as_deref().unwrap_or("nobody");
        steps.push(match (tried.slot_is_settled, &tried.slot_settled) {
            (Some(true), _) => format!("the slot is settled on {owner}"),
            (_, Some(older)) => format!("the slot is unsettled: new flows to {owner}, older ones to {older}"),
            (_, None) => format!("the slot is unsettled: new flows to {owner}"),
        });
    }
    if let (Some(backend), Some(class)) = (&tried.remembered_on, &tried.remembered_as) {
        steps.push(format!("the flow table knows the flow on {backend} ({class})"));
    } else if tried.slot_is_settled == Some(false) {
        steps.push("the flow table does not know the flow".to_owned());
    }
    match (&tried.backend, &tried.outer, &tried.decided_by) {
        (Some(backend), Some(outer), Some(by)) => {
            steps.push(format!(
                "to {backend}, which is {}, by {by}",
                tried.backend_state.as_deref().unwrap_or("")
            ));
            let at = |address: IpAddr, port: Option<u16>| match port {
                Some(port) => SocketAddr::new(address, port).to_string(),
                None => address.to_string(),
            };
            let from = at(outer.source, outer.source_port);
            let to = at(outer.destination, outer.destination_port);
            steps.push(format!("{} from {from} to {to}", outer.tunnel));
            let mac = outer.next_hop_mac.as_deref().unwrap_or("nobody");
            let by = outer.interface_name.as_deref().unwrap_or("an interface without a name");
            steps.push(format!("to {mac} by {by}"));
            let Outer { mtu, packet_bytes, .. } = outer;
            steps.push(format!("packets of up to {packet_bytes} bytes fit the tunnel, whose MTU is {mtu}"));
        }
        _ => steps.push(format!("{}: {}", tried.outcome, tried.meaning)),
    }
    steps
}

/// Whether the program in the kernel does the same with the packet, byte for byte.
fn referee(balancer: &guideway_xdp::Balancer, frame: &[u8], trial: &Trial) -> Referee {
    let remembers = |event: &Event| {
        matches!(
            event,
            Event::FlowHit
                | Event::FlowInserted
                | Event::FlowRewritten
                | Event::FlowAdopted
                | Event::FlowVoid
        )
    };
    if trial.events.iter().any(remembers) {
        let said = "not asked, as it would put the flow of this made-up packet into the flow table";
        return Referee { agrees: None, said: said.to_owned() };
    }
    match balancer.run(frame) {
        Ok(run) => {
            let same_action = match trial.verdict.outcome() {
                Outcome::Forwarded => {
                    matches!(run.action, guideway_xdp::Action::Transmit | guideway_xdp::Action::Redirect)
                }
                _ => true,
            };
            let agrees =
                same_action && (trial.verdict.outcome() != Outcome::Forwarded || run.frame == trial.frame);
            Referee { agrees: Some(agrees), said: format!("{:?}, {} bytes", run.action, run.frame.len()) }
        }
        Err(error) => Referee { agrees: None, said: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use guideway_forward::record::NextHop;

    use super::*;
    use crate::in_process::{self, CONFIG};

    #[test]
    fn the_ports_of_gue_are_told_where_its_source_follows_the_flow() {
        let tunnelled = |encapsulation: &str, port: u16| {
            let line = format!("name = \"web\"\nencapsulation = \"{encapsulation}\"");
            let mut core =
                in_process::core(&CONFIG.replace("name = \"web\"", &line), Instant::now()).unwrap();
            for backend in ["10.0.0.1", "10.0.0.2"] {
                let next_hop = NextHop { interface: 1, neighbour: [2; 6], own_mac: [4; 6], link_mtu: None };
                core.controller.set_next_hop(backend.parse().unwrap(), next_hop);
            }
            let from = SocketAddr::from(([198, 51, 100, 7], port));
            let told = explain(&core, from, SocketAddr::from(([192, 0, 2, 10], 80)), true, false).unwrap();
            let first = told.packets.into_iter().next().unwrap();
            (first.outer.unwrap(), first.steps.join("; "))
        };
        let (outer, steps) = tunnelled("gue", 40_000);
        assert_eq!(outer.destination_port, Some(6080));
        let port = outer.source_port.unwrap();
        assert!(port >= 0x8000 && steps.contains(&format!("gue from 10.0.1.1:{port} to ")), "{steps}");
        assert!((40_001..40_010).any(|other| tunnelled("gue", other).0.source_port != Some(port)));
        let (outer, steps) = tunnelled("ipip", 40_000);
        assert_eq!((outer.source_port, outer.destination_port), (None, None));
        assert!(steps.contains("ipip from 10.0.1.1 to 10.0.0."), "{steps}");
    }
}
