//! The backend's side: what comes out of the tunnel, and what is told to the client.
//!
//! [`decapsulate`] is strict: it takes off the outer headers of a packet that was sent to this host, by a balancer if it is
//! told which there are, for a virtual address, in a tunnel that is in use. All else stays as it came. [`clamp`] keeps the segments that a client sends small
//! enough for the tunnel.

mod outcome;

pub use outcome::{Clamped, EndOutcome, Fate};

use guideway_wire::decap::{DecapError, examine, take_off};
use guideway_wire::parse::ParseError;
use guideway_wire::{IpVersion, Packet, Parsed, Tunnel, mss};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::process::layers;

/// What a backend host is set to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EndSettings {
    /// The UDP port of GUE.
    pub gue_port: u16,
    /// The tunnels that are taken: bit n is that of the [`Tunnel`] whose number is n; and [`EndSettings::KNOWN_SOURCES`].
    pub tunnels: u16,
    /// The largest segment that servers on virtual IPv4 addresses announce, in bytes of TCP payload; 0 leaves theirs.
    pub mss_v4: u16,
    /// The same for IPv6.
    pub mss_v6: u16,
}

impl EndSettings {
    /// Every tunnel that there is.
    pub const ALL_TUNNELS: u16 = 0b1111;

    /// Takes tunnels from known sources alone: else whoever reaches the host can pretend to be any client.
    pub const KNOWN_SOURCES: u16 = 1 << 15;

    /// The bit of a tunnel.
    #[inline(always)]
    pub const fn bit(tunnel: Tunnel) -> u16 {
        1 << tunnel as u16
    }
}

/// What an address is to a backend host: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Role(pub u32);

impl Role {
    /// Nothing.
    pub const NONE: Role = Role(0);
    /// An address of the host, where tunnels end.
    pub const OWN: Role = Role(1);
    /// A virtual address, which the host serves.
    pub const VIRTUAL: Role = Role(2);

    /// Whether all of `role` is in this one.
    #[inline(always)]
    pub const fn has(self, role: Role) -> bool {
        self.0 & role.0 == role.0
    }

    /// Both.
    pub const fn with(self, role: Role) -> Role {
        Role(self.0 | role.0)
    }
}

/// Where the decision reads what the host is set to.
pub trait TunnelEnd {
    /// The host's settings.
    fn settings(&self) -> EndSettings;

    /// What an address is; IPv4 as `::ffff:a.b.c.d`.
    fn role(&self, address: &[u8; 16]) -> Role;

    /// Whether tunnels may come from this address, where [`EndSettings::KNOWN_SOURCES`] is set; IPv4 as above.
    fn is_known_source(&self, address: &[u8; 16]) -> bool;
}

/// Takes a packet out of its tunnel if it is one of ours. Otherwise the frame is what it was.
#[inline(always)]
pub fn decapsulate<P: Packet, E: TunnelEnd>(packet: &mut P, end: &E) -> EndOutcome {
    let parsed = &mut { Parsed::EMPTY };
    match layers(packet, parsed) {
        Ok(()) => {}
        Err(ParseError::NotIp) => return EndOutcome::NotTunnelled,
        Err(_) => return EndOutcome::Malformed,
    }
    let settings = end.settings();
    if !parsed.is_tunnelled(settings.gue_port) {
        return EndOutcome::NotTunnelled;
    }
    if !end.role(&parsed.key.dst.octets()).has(Role::OWN) {
        return EndOutcome::NotOwn;
    }
    if settings.tunnels & EndSettings::KNOWN_SOURCES != 0 && !end.is_known_source(&parsed.key.src.octets()) {
        return EndOutcome::UnknownSource;
    }
    let inside = match examine(packet, parsed, settings.gue_port) {
        Ok(inside) => inside,
        Err(error) => return refused(error),
    };
    if settings.tunnels & EndSettings::bit(inside.tunnel) == 0 {
        return EndOutcome::OtherTunnel;
    }
    let Some(destination) = inside.destination(packet) else {
        return EndOutcome::NotVirtual;
    };
    if !end.role(&destination.octets()).has(Role::VIRTUAL) {
        return EndOutcome::NotVirtual;
    }
    match take_off(packet, parsed, &inside) {
        Ok(()) => EndOutcome::Decapsulated,
        Err(_) => EndOutcome::Immovable,
    }
}

#[inline(always)]
const fn refused(error: DecapError) -> EndOutcome {
    match error {
        DecapError::NotTunnelled => EndOutcome::NotTunnelled,
        DecapError::Fragmented => EndOutcome::Fragmented,
        DecapError::OuterChecksum => EndOutcome::OuterChecksum,
        DecapError::GreFlags => EndOutcome::GreFlags,
        DecapError::GreProtocol => EndOutcome::GreProtocol,
        DecapError::GueControl => EndOutcome::GueControl,
        DecapError::GueProtocol => EndOutcome::GueProtocol,
        DecapError::GueFlags => EndOutcome::GueFlags,
        DecapError::Truncated => EndOutcome::Truncated,
        DecapError::InnerVersion => EndOutcome::InnerVersion,
        DecapError::InnerLength => EndOutcome::InnerLength,
        DecapError::EcnViolation => EndOutcome::EcnViolation,
        DecapError::Immovable => EndOutcome::Immovable,
    }
}

/// Lowers the segment size that a server on a virtual address announces to the one that fits the tunnel.
#[inline(always)]
pub fn clamp<P: Packet, E: TunnelEnd>(packet: &mut P, end: &E) -> Clamped {
    let parsed = &mut { Parsed::EMPTY };
    if layers(packet, parsed).is_err() {
        return Clamped::Untouched;
    }
    // Before the look-up: of a connection's packets this is one.
    if !parsed.tcp_flags.has(guideway_wire::TcpFlags::SYN) {
        return Clamped::Untouched;
    }
    if !end.role(&parsed.key.src.octets()).has(Role::VIRTUAL) {
        return Clamped::Untouched;
    }
    let settings = end.settings();
    let most = match parsed.ip {
        IpVersion::V4 => settings.mss_v4,
        IpVersion::V6 => settings.mss_v6,
    };
    if most == 0 {
        return Clamped::Untouched;
    }
    match mss::clamp(packet, parsed, most) {
        Some(_) => Clamped::Lowered,
        None => Clamped::Fitting,
    }
}

const _: () = assert!(size_of::<EndSettings>() == 8 && size_of::<Role>() == 4);
