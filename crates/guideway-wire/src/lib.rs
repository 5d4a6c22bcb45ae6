//! Packet headers, flow keys, tunnels and checksums for packet paths.
//!
//! No allocation, no panic, no `unsafe`, no unbounded loop: the same source compiles for user space and for the kernel's BPF
//! verifier. Bytes are reached through [`PacketRead`] and [`Packet`] alone, by offset and with a check at each access.
//!
//! [`parse()`] tells in one pass where a frame's layers lie and which flow it belongs to; [`FlowHasher`] hashes the
//! flow; [`encap`], [`decap`] and [`reply`] change the frame in place.
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
pub mod packet;
pub mod parse;
pub mod quic;
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
pub use tcp::TcpFlags;
