//! What becomes of a flow's packets.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the forwarder would do with packets of a flow now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The flow's source, address and port.
    pub source: String,
    /// Its destination.
    pub destination: String,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Packets that it can send.
    pub packets: Vec<Tried>,
}

/// What would become of a packet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// `tcp-syn`, `tcp-ack` or `udp`.
    pub packet: String,
    /// The outcome that it would be counted under.
    pub outcome: String,
    /// What that means.
    pub meaning: String,
    /// What decides: `slot`, `flow-table`, `older-owner`, `current-owner`, `prior-table` or `quic-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The number of its table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The flow's hash, 16 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Slots of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_size: Option<u32>,
    /// The slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Whether no flow of the slot can be on any backend but its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_is_settled: Option<bool>,
    /// Who takes new flows of the slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_current: Option<String>,
    /// To whom its older flows belong, where that may be another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_settled: Option<String>,
    /// The backend that the flow table knows the flow on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remembered_on: Option<String>,
    /// The flow's phase there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remembered_as: Option<String>,
    /// The backend that it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The backend's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The backend's state in the forwarder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_state: Option<String>,
    /// What it is wrapped in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outer: Option<Outer>,
    /// What else would be counted.
    pub events: Vec<String>,
    /// All of this in words.
    pub steps: Vec<String>,
    /// What the program in the kernel does, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referee: Option<Referee>,
}

/// The outer headers of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outer {
    /// The kind of tunnel.
    pub tunnel: String,
    /// The outer source address.
    pub source: IpAddr,
    /// The outer destination address.
    pub destination: IpAddr,
    /// GUE: the outer UDP source port, which follows the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// GUE: the outer UDP destination port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// The index of the interface that it leaves by.
    pub interface: u32,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_name: Option<String>,
    /// The largest packet of the tunnel.
    #[serde(default)]
    pub mtu: u16,
    /// The largest packet of a client's that fits into it.
    #[serde(default)]
    pub packet_bytes: u16,
    /// The source MAC address.
    pub source_mac: String,
    /// The destination MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop_mac: Option<String>,
    /// Bytes of the whole frame.
    pub frame_bytes: u32,
}

/// What the program in the kernel does with a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Referee {
    /// Whether it does the same, byte for byte; not there where it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
    /// What it did, or why it was not asked.
    pub said: String,
}
