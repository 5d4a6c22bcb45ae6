//! QUIC server ids.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use toml::Spanned;
use toml::de::DeValue;

use super::model::Quic;
use super::problem::Problem;
use super::reader::{At, FromValue};

/// A QUIC server id as written; its length is known only beside its service.
#[derive(Debug, Clone)]
pub(crate) enum RawServerId {
    /// A number, to fill the configured length from the left with zeros.
    Number(u64),
    /// Bytes, which must have the configured length.
    Bytes(Vec<u8>),
}

impl RawServerId {
    /// The id, big-endian, where it has the length that its service says.
    pub(crate) fn read(id: &At<Self>, quic: Quic, problems: &mut Vec<Problem>) -> Option<u64> {
        let length = u32::from(quic.server_id_length);
        let fits = |number: u64| length >= 8 || number >> (8 * length) == 0;
        let read = match &id.value {
            Self::Number(number) => fits(*number).then_some(*number),
            Self::Bytes(bytes) if bytes.len() == usize::from(quic.server_id_length) => {
                Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
            }
            Self::Bytes(_) => None,
        };
        if read.is_none() {
            problems.push(
                Problem::new(id.span.clone(), format!("the server ids of this service have {length} bytes"))
                    .label("another length")
                    .help(format!("write {} hexadecimal digits in quotes", 2 * length)),
            );
        }
        read
    }
}

impl FromValue for RawServerId {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let read = match value.get_ref() {
            DeValue::Integer(_) => u64::try_from(i128::from_value(value, problems)?).ok().map(Self::Number),
            DeValue::String(text) => hex_bytes(text.strip_prefix("0x").unwrap_or(text)).map(Self::Bytes),
            _ => None,
        };
        if read.is_none() {
            problems.push(
                Problem::new(value.span(), "this is not a server id")
                    .label("expected hexadecimal bytes in quotes, or an integer from 0")
                    .help("write it like `\"0003\"`, two digits a byte"),
            );
        }
        read
    }
}

impl JsonSchema for RawServerId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ServerId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^(0x)?([0-9A-Fa-f]{2}){1,8}$" },
        ] })
    }
}

fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| {
            let pair = &digits[at..at + 2];
            let hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            hex.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
        })
        .collect()
}
