//! What the forwarder is told beside records and slots: where services listen, which server id is which backend, which
//! addresses are our own.

use std::net::IpAddr;
use std::num::NonZeroU16;

use guideway_forward::record::{Network, ServiceId, Settings};
use guideway_forward::word::alike;
use guideway_soft::{Binding, QuicBinding};

use super::Controller;
use super::member::{Member, octets};
use super::spec::{Listen, TunnelSpec};
use crate::engine::{Engine, EngineError};

impl<E: Engine> Controller<E> {
    /// Tells the forwarder where services listen and which server id is which backend, unless it was told already: that
    /// is a walk over all services, and most changes leave it as it is.
    pub(super) fn publish(&mut self) -> Result<(), EngineError> {
        if !self.unpublished {
            return Ok(());
        }
        let mut bindings = Vec::new();
        let mut quic = Vec::new();
        for held in self.services.values() {
            bindings.extend(held.spec.listen.iter().map(|listen| binding(listen, held.id)));
            let (gone, wanted): (Vec<_>, Vec<_>) = held
                .members
                .iter()
                .enumerate()
                .filter_map(|(local, member)| Some((local, member.as_ref()?)))
                .partition(|(_, member)| member.removed.is_some());
            // Of two with one id the later counts: one that is wanted rather than one that left.
            for (local, member) in gone.into_iter().chain(wanted) {
                quic.extend(member.spec.quic_id.map(|server_id| QuicBinding {
                    service: held.id,
                    server_id,
                    backend: local as u16,
                }));
            }
        }
        let before = self.tell_settings();
        // What was refused may have been done in part: it is told again by the next tick.
        self.engine.publish(&bindings, &quic)?;
        self.unpublished = false;
        // Packets that still read the directory before this one need its look-ups.
        let after = self.lookups();
        let narrows = (before.0 && !after.0) || (before.1 && !after.1);
        self.narrowing = narrows.then(|| self.engine.begin_grace());
        Ok(())
    }

    /// Tells the forwarder which addresses are our own and which look-ups are needed beside those it does already;
    /// returns which those were.
    pub(super) fn tell_settings(&self) -> (bool, bool) {
        let settings = self.engine.settings();
        let members = self.services.values().flat_map(|held| held.members.iter().flatten());
        let [v4, v6] = own_sources(members.map(|member| &member.spec.tunnel));
        settings.set_own_sources(v4, v6);
        let (any_port, prefixes) = self.lookups();
        let before = (settings.has_any_port(), settings.has_prefixes());
        settings.set_lookups(any_port || before.0, prefixes || before.1);
        before
    }

    /// Whether the settings are as they should be; put right if they are not.
    pub(super) fn repair_settings(&mut self) -> bool {
        let settings = self.engine.settings();
        let members = self.services.values().flat_map(|held| held.members.iter().flatten());
        let [v4, v6] = own_sources(members.map(|member| &member.spec.tunnel));
        let (any_port, prefixes) = self.lookups();
        let stays = |has: bool| has && self.narrowing.is_some();
        let (any_port, prefixes) =
            (any_port || stays(settings.has_any_port()), prefixes || stays(settings.has_prefixes()));
        let store = |settings: &Settings| {
            settings.set_flow_key(self.watch.flow_key);
            settings.set_own_sources(v4, v6);
            settings.set_lookups(any_port, prefixes);
        };
        let wanted = Settings::new(self.watch.flow_key);
        store(&wanted);
        // Which directory is in use is the forwarder's own business, and compared there.
        wanted.set_directory(settings.directory());
        let right = alike(settings.words(), wanted.words());
        if !right {
            store(settings);
        }
        right
    }

    /// Switches off look-ups that no packet needs any more.
    pub(super) fn narrow(&mut self) {
        if self.narrowing.is_some_and(|epoch| self.engine.grace_is_over(epoch)) {
            let (any_port, prefixes) = self.lookups();
            self.engine.settings().set_lookups(any_port, prefixes);
            self.narrowing = None;
        }
    }

    /// Whether any service takes every port, and whether any has a prefix.
    fn lookups(&self) -> (bool, bool) {
        let listens = || self.services.values().flat_map(|held| &held.spec.listen);
        (listens().any(|listen| listen.port.is_none()), listens().any(|listen| listen.address().is_none()))
    }
}

/// What the forwarder is told of a service's backends beside their records.
pub(super) fn told(
    members: &[Option<Member>],
) -> impl Iterator<Item = (usize, Option<(u64, bool)>, IpAddr, u8)> {
    members.iter().enumerate().filter_map(|(local, member)| {
        let member = member.as_ref()?;
        let quic = member.spec.quic_id.map(|id| (id, member.removed.is_some()));
        Some((local, quic, member.spec.tunnel.source, member.spec.tunnel.source_entropy_bits))
    })
}

/// The networks that outer sources are in, IPv4 and IPv6. A family has one source by the configuration, and several
/// widths of entropy: the widest holds the others.
fn own_sources<'a>(tunnels: impl Iterator<Item = &'a TunnelSpec>) -> [Option<Network>; 2] {
    let mut widest: [Option<(IpAddr, u8)>; 2] = [None; 2];
    for tunnel in tunnels {
        let family = &mut widest[usize::from(tunnel.source.is_ipv6())];
        if family.is_none_or(|(_, bits)| bits < tunnel.source_entropy_bits) {
            *family = Some((tunnel.source, tunnel.source_entropy_bits));
        }
    }
    widest.map(|widest| {
        widest.map(|(source, bits)| Network::new(octets(source), 128 - u32::from(bits.min(128))))
    })
}

fn binding(listen: &Listen, service: ServiceId) -> Binding {
    let mapped = if listen.network.max_prefix_len() == 32 { 96 } else { 0 };
    Binding {
        address: octets(listen.network.network()),
        prefix_bits: listen.network.prefix_len() + mapped,
        port: listen.port.map_or(0, NonZeroU16::get),
        protocol: listen.protocol.number(),
        service,
    }
}
