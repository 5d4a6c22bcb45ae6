//! Packet headers, flow keys, tunnels and checksums for packet paths.
//!
//! No allocation, no panic, no `unsafe`, no unbounded loop: the same source compiles for user space and for the kernel's BPF
//! verifier. Bytes are reached through [`PacketRead`] and [`Packet`] alone, by offset and with a check at each access.
//!
//! [`parse()`] tells in one pass where a frame's layers lie and which flow it belongs to; [`FlowHasher`] hashes the
//! flow; [`encap`], [`decap`] and [`reply`] change the frame in place.
//!
//! ```
//! use guideway_wire::{FlowHasher, HashKey, parse};
//!
//! let frame = [
//!     2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, // Ethernet
//!     0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1, // IPv4
//!     0x03, 0xe8, 0x00, 0x35, 0, 8, 0, 0, // UDP
//! ];
//! let parsed = parse(&frame[..])?;
//! assert_eq!((parsed.key.src_port, parsed.key.dst_port), (1000, 53));
//! let slot = FlowHasher::new(7).hash(&parsed.key, HashKey::FiveTuple) % 65_537;
//! # let _ = slot;
//! # Ok::<(), guideway_wire::ParseError>(())
//! ```
#![no_std]

pub mod address;
pub mod checksum;
pub mod decap;
pub mod encap;
pub mod ethernet;
pub mod flow;
pub mod gre;
pub mod gue;
pub mod icmp;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
mod link;
pub mod mss;
pub mod packet;
pub mod parse;
pub mod quic;
pub mod ready;
pub mod reply;
pub mod tcp;
pub mod udp;

pub use address::Address;
pub use encap::{EncapError, EncapSpec, Outer, Tunnel};
pub use ethernet::{EtherType, MacAddr};
pub use flow::{FlowHasher, FlowKey, HashKey};
pub use ip::{Fragment, IpProtocol, IpVersion};
pub use packet::{Packet, PacketRead, SliceFrame};
pub use parse::{IcmpClass, ParseError, Parsed, parse};
pub use ready::ReadyOuter;
pub use tcp::TcpFlags;
