//! Golden records: tables written down so that another implementation, or another version, can be held to them.
//!
//! A record is a JSON object with what a table is built from and what must come of it:
//!
//! | field | meaning |
//! |---|---|
//! | `profile` | name of the [`Profile`] |
//! | `case` | what the record is about |
//! | `table_size` | slots |
//! | `params` | names and values as [`Params::parse`] reads them; numbers, booleans and lists may be bare JSON |
//! | `backends` | in input order: `key`, and where they matter `weight`, `locality`, `state`, `hostname`, `hash_key`, `last_weight` |
//! | `sha256_le_u32` | SHA-256 of the owners, one little-endian `u32` a slot |
//! | `first32` | the owners of the first 32 slots |
//! | `counts_by_input_index` | slots of each backend |
//! | `flow_slots` | slots of given flows, where the profile hashes flows |
//!
//! A file is an array of records. Needs the feature `vectors`.

use alloc::{
    borrow::ToOwned,
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt::Write as _, net::IpAddr};

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    profile::{
        self, Built, Flow, FlowError, Member, ParamError, Params, Profile, ProfileError, State,
        UnknownProfile, ipvs,
    },
    table::Table,
};

/// What a table is built from, and what must come of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the profile.
    pub profile: String,
    /// What the record is about.
    #[serde(default)]
    pub case: String,
    /// Slots.
    pub table_size: u32,
    /// Parameters of the profile, as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "as_text")]
    pub params: BTreeMap<String, String>,
    /// The backends in input order.
    pub backends: Vec<Backend>,
    /// SHA-256 of the table as little-endian `u32`, in hexadecimal.
    pub sha256_le_u32: String,
    /// The owners of the first slots, up to 32.
    #[serde(default)]
    pub first32: Vec<u32>,
    /// Slots of each backend; empty to leave this out.
    #[serde(default)]
    pub counts_by_input_index: Vec<u32>,
    /// Slots of given flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_slots: Vec<FlowSlot>,
}

/// A backend of a record; see [`Member`] for the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backend {
    /// What identifies it.
    pub key: String,
    /// Its weight; the profile's default where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Place of its locality in `locality_weights`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<u32>,
    /// Its state by name; active where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The metadata string that is hashed in place of its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_key: Option<String>,
    /// Its last weight that was not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_weight: Option<u32>,
}

/// The slot of a flow.
///
/// For `ipvs-mh`, `port` is what is hashed: 0 without the flag `mh-port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSlot {
    /// The client's address.
    pub src: IpAddr,
    /// The client's port.
    #[serde(default)]
    pub port: u16,
    /// The service's address, where it is hashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<IpAddr>,
    /// The service's port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dst_port: u16,
    /// The IP protocol number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protocol: u8,
    /// The slot.
    pub slot: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Values as they stand in configuration: text stays as it is, anything else is written as JSON.
fn as_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let values: Option<BTreeMap<String, serde_json::Value>> = Option::deserialize(deserializer)?;
    let text = |value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(values.unwrap_or_default().into_iter().map(|(name, value)| (name, text(value))).collect())
}

/// Why a record does not hold.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// There is no such profile.
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
    /// A parameter is refused.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The table is refused.
    #[error(transparent)]
    Build(#[from] ProfileError),
    /// A flow has no slot.
    #[error(transparent)]
    NoSlot(#[from] FlowError),
    /// A state that is none.
    #[error("backend {place}: {state:?} is no state: {reason}")]
    State {
        /// Place of the backend.
        place: usize,
        /// What it says.
        state: String,
        /// Why not.
        reason: profile::UnknownState,
    },
    /// A slot has another owner.
    #[error("slot {slot} belongs to backend {got}, where the record has {want}")]
    Owner {
        /// The slot.
        slot: usize,
        /// The owner that the record has.
        want: u32,
        /// The owner that was built.
        got: u32,
    },
    /// A backend has another number of slots.
    #[error("backend {place} owns {got} slots, where the record has {want}")]
    Count {
        /// Place of the backend.
        place: usize,
        /// The number that the record has.
        want: u32,
        /// The number that was built.
        got: u32,
    },
    /// The record lists more slots or counts than the table has.
    #[error("the record has {want} entries in {field}, the table has {got}")]
    Length {
        /// The field.
        field: &'static str,
        /// How many it has.
        want: usize,
        /// How many there are.
        got: usize,
    },
    /// The whole table differs, beyond what the other fields show.
    #[error("the table's SHA-256 is {got}, where the record has {want}")]
    Checksum {
        /// The sum that the record has.
        want: String,
        /// The sum of what was built.
        got: String,
    },
    /// A flow goes to another slot.
    #[error("the flow from {src} port {port} goes to slot {got}, where the record has {want}")]
    FlowSlot {
        /// The client's address.
        src: IpAddr,
        /// The client's port.
        port: u16,
        /// The slot that the record has.
        want: u32,
        /// The slot that was found.
        got: u32,
    },
}

/// Builds the record's table anew and compares all that the record says of it.
///
/// # Errors
/// The first difference, slots before counts before the checksum before flows; or why there is no table.
pub fn verify(record: &Record) -> Result<(), Mismatch> {
    let (profile, params, built) = record.build()?;
    let table = &built.table;
    let (slots, want) = (table.size() as usize, record.first32.len());
    if want > slots {
        return Err(Mismatch::Length { field: "first32", want, got: slots });
    }
    for (slot, (got, &want)) in table.iter().zip(&record.first32).enumerate() {
        if got != want {
            return Err(Mismatch::Owner { slot, want, got });
        }
    }
    if !record.counts_by_input_index.is_empty() {
        let (want, got) = (record.counts_by_input_index.len(), record.backends.len());
        if want != got {
            return Err(Mismatch::Length { field: "counts_by_input_index", want, got });
        }
        let counts = table.counts(got);
        for (place, (got, &want)) in counts.into_iter().zip(&record.counts_by_input_index).enumerate() {
            if got != want {
                return Err(Mismatch::Count { place, want, got });
            }
        }
    }
    let got = sha256(table);
    if !got.eq_ignore_ascii_case(&record.sha256_le_u32) {
        return Err(Mismatch::Checksum { want: record.sha256_le_u32.clone(), got });
    }
    for flow in &record.flow_slots {
        let got = flow.locate(profile, record.table_size, &params)?;
        if got != flow.slot {
            return Err(Mismatch::FlowSlot { src: flow.src, port: flow.port, want: flow.slot, got });
        }
    }
    Ok(())
}

impl Record {
    /// A record of what is built from these inputs now. The slots in `flows` are filled in.
    ///
    /// # Errors
    /// Why there is no such table.
    pub fn write(
        profile: Profile,
        case: &str,
        table_size: u32,
        params: &[(&str, &str)],
        backends: Vec<Backend>,
        flows: Vec<FlowSlot>,
    ) -> Result<Self, Mismatch> {
        let mut record = Self {
            profile: profile.to_string(),
            case: case.to_owned(),
            table_size,
            params: params.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            backends,
            sha256_le_u32: String::new(),
            first32: Vec::new(),
            counts_by_input_index: Vec::new(),
            flow_slots: flows,
        };
        let (profile, params, built) = record.build()?;
        record.sha256_le_u32 = sha256(&built.table);
        record.first32 = built.table.iter().take(32).collect();
        record.counts_by_input_index = built.table.counts(record.backends.len());
        for flow in &mut record.flow_slots {
            flow.slot = flow.locate(profile, table_size, &params)?;
        }
        Ok(record)
    }

    /// Builds the table: its profile, parameters and what came of them.
    ///
    /// # Errors
    /// Why there is no such table.
    pub fn build(&self) -> Result<(Profile, Params, Built), Mismatch> {
        let profile: Profile = self.profile.parse()?;
        let params =
            Params::parse(profile, self.params.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        let members = self
            .backends
            .iter()
            .enumerate()
            .map(|(place, backend)| backend.member(place, profile))
            .collect::<Result<Vec<_>, _>>()?;
        let built = profile::build(profile, self.table_size, &members, &params)?;
        Ok((profile, params, built))
    }
}

impl Backend {
    fn member(&self, place: usize, profile: Profile) -> Result<Member<'_>, Mismatch> {
        let state = match &self.state {
            None => State::Active,
            Some(name) => {
                name.parse().map_err(|reason| Mismatch::State { place, state: name.clone(), reason })?
            }
        };
        Ok(Member {
            locality: self.locality,
            state,
            hostname: self.hostname.as_deref(),
            hash_key: self.hash_key.as_deref(),
            last_weight: self.last_weight,
            ..Member::new(&self.key, self.weight.unwrap_or(profile.default_weight()))
        })
    }
}

impl FlowSlot {
    fn locate(&self, profile: Profile, size: u32, params: &Params) -> Result<u32, FlowError> {
        if profile == Profile::IpvsMh {
            return Ok(ipvs::flow_hash(self.src, self.port, params.kernel_bits) % size);
        }
        let unspecified = match self.src {
            IpAddr::V4(_) => IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
        };
        let flow = Flow {
            source: self.src,
            destination: self.dst.unwrap_or(unspecified),
            source_port: self.port,
            destination_port: self.dst_port,
            protocol: self.protocol,
        };
        Ok(profile.locate_flow(&flow, size, params)?.slot)
    }
}

/// SHA-256 of a table as little-endian `u32` owners, in lower-case hexadecimal.
#[must_use]
pub fn sha256(table: &Table) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(table.to_le_u32_bytes()) {
        // Writing to a string can't fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let backends =
            (1..=5).map(|i| Backend { key: alloc::format!("10.0.0.{i}:80"), ..Backend::default() }).collect();
        let flow =
            FlowSlot { src: [192, 0, 2, 1].into(), port: 0, dst: None, dst_port: 0, protocol: 0, slot: 0 };
        Record::write(Profile::IpvsMh, "five", 251, &[("list_order", "input")], backends, [flow].into())
            .unwrap()
    }

    #[test]
    fn a_record_survives_json_and_holds() {
        let json = serde_json::to_string(&record()).unwrap();
        let read: Record = serde_json::from_str(&json).unwrap();
        assert_eq!(read, record());
        assert_eq!(verify(&read), Ok(()));
        assert_eq!(read.flow_slots[0].slot, 227);
    }

    #[test]
    fn every_field_is_compared() {
        let changed = |change: fn(&mut Record)| {
            let mut record = record();
            change(&mut record);
            verify(&record).unwrap_err()
        };
        assert!(matches!(changed(|r| r.first32[3] ^= 1), Mismatch::Owner { slot: 3, .. }));
        assert!(matches!(changed(|r| r.counts_by_input_index[4] += 1), Mismatch::Count { place: 4, .. }));
        assert!(matches!(changed(|r| r.sha256_le_u32.replace_range(..1, "x")), Mismatch::Checksum { .. }));
        assert!(matches!(changed(|r| r.flow_slots[0].slot += 1), Mismatch::FlowSlot { got: 227, .. }));
        assert!(matches!(changed(|r| r.profile = "ketama".into()), Mismatch::Profile(_)));
        assert!(matches!(changed(|r| r.table_size = 65_537), Mismatch::Build(_)));
        assert!(matches!(changed(|r| r.backends[0].state = Some("tired".into())), Mismatch::State { .. }));
        assert!(matches!(changed(|r| r.params = [("x".into(), "y".into())].into()), Mismatch::Param(_)));
    }

    #[test]
    fn parameters_may_be_bare_json() {
        let json = r#"{"profile":"go-maglev","table_size":7,"params":{"dead":[1]},"sha256_le_u32":"","backends":[{"id":0,"key":"backend-0"}]}"#;
        let read: Record = serde_json::from_str(json).unwrap();
        assert_eq!(read.params["dead"], "[1]");
    }
}
