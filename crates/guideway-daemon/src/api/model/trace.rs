//! Samples of real packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::explanation::Tried;

/// Packets that came in while they were looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Those that fit what was asked for, in the order in which they came.
    pub packets: Vec<Traced>,
    /// Packets that were looked at.
    pub looked_at: u64,
    /// Packets for which there was no room: more came than could be copied out.
    pub lost: u64,
}

/// A packet that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traced {
    /// When it was read.
    pub at: String,
    /// The index of the interface.
    pub interface: u32,
    /// Its bytes on the link.
    pub bytes: u32,
    /// Where it came from: address and port, or the address alone.
    pub source: String,
    /// Where it went.
    pub destination: String,
    /// `tcp`, `udp`, `icmp`, `icmpv6`, or the protocol's number.
    pub protocol: String,
    /// What such a packet meets, by the live state a moment after it came.
    pub verdict: Tried,
}
