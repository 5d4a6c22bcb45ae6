//! Reading single values: numbers, words, addresses, times.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use toml::Spanned;
use toml::de::DeValue;

use super::problem::Problem;
use super::reader::{At, FromValue, kind};

fn mismatch(value: &Spanned<DeValue<'_>>, expected: &str) -> Problem {
    Problem::new(value.span(), format!("expected {expected}, found {}", kind(value.get_ref())))
        .label(format!("expected {expected}"))
}

/// The text of a string value, or a report that it is something else.
pub(crate) fn string<'a>(
    value: &'a Spanned<DeValue<'_>>,
    expected: &str,
    problems: &mut Vec<Problem>,
) -> Option<&'a str> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        let mut problem = mismatch(value, expected);
        if let DeValue::Integer(_) | DeValue::Float(_) = value.get_ref() {
            problem = problem.help("put it in quotes");
        }
        problems.push(problem);
    }
    text
}

/// A string that is parsed further; a failure is reported at the string.
pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(
    value: &Spanned<DeValue<'_>>,
    expected: &str,
    example: &str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let text = string(value, expected, problems)?;
    match text.parse() {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            problems.push(
                Problem::new(value.span(), format!("`{text}` is not {expected}"))
                    .label(error.to_string())
                    .help(format!("write it like `{example}`")),
            );
            None
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        string(value, "a string", problems).map(str::to_owned)
    }
}

impl FromValue for bool {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let read = value.get_ref().as_bool();
        if read.is_none() {
            problems.push(mismatch(value, "`true` or `false`"));
        }
        read
    }
}

/// Integers are read wide, so that a range check can say the range; 128 bits hold all that 64-bit seeds need.
impl FromValue for i128 {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let Some(integer) = value.get_ref().as_integer() else {
            problems.push(mismatch(value, "an integer"));
            return None;
        };
        let read = Self::from_str_radix(integer.as_str(), integer.radix()).ok();
        if read.is_none() {
            problems.push(Problem::new(value.span(), "this integer is far out of range").label("too large"));
        }
        read
    }
}

/// An integer within bounds that are part of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounded<const MIN: u64, const MAX: u64>(pub(crate) u64);

impl<const MIN: u64, const MAX: u64> FromValue for Bounded<MIN, MAX> {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let read = i128::from_value(value, problems)?;
        match u64::try_from(read) {
            Ok(number) if (MIN..=MAX).contains(&number) => Some(Self(number)),
            _ => {
                problems.push(
                    Problem::new(value.span(), format!("{read} is out of range"))
                        .label(format!("must be {MIN} to {MAX}")),
                );
                None
            }
        }
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Bounded<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Integer{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// One value or a list of them; never empty.
#[derive(Debug, Clone)]
pub(crate) struct OneOrMany<T>(pub(crate) Vec<At<T>>);

impl<T: FromValue> FromValue for OneOrMany<T> {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let DeValue::Array(array) = value.get_ref() else {
            return Some(Self(vec![At::new(T::from_value(value, problems)?, value.span())]));
        };
        if array.is_empty() {
            problems.push(
                Problem::new(value.span(), "this list is empty").label("expected at least one element"),
            );
            return None;
        }
        let read: Vec<At<T>> = array
            .iter()
            .filter_map(|element| Some(At::new(T::from_value(element, problems)?, element.span())))
            .collect();
        // An element that is missing here has been reported; the list as a whole would mislead later checks.
        (read.len() == array.len()).then_some(Self(read))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// A list of strings: a command and its arguments.
impl FromValue for Vec<String> {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let DeValue::Array(array) = value.get_ref() else {
            problems.push(mismatch(value, "a list of strings"));
            return None;
        };
        let read: Self = array.iter().filter_map(|element| String::from_value(element, problems)).collect();
        (read.len() == array.len()).then_some(read)
    }
}

macro_rules! from_string {
    ($($kind:ty: $expected:literal, $example:literal;)*) => {$(
        impl FromValue for $kind {
            fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
                parsed(value, $expected, $example, problems)
            }
        }
    )*};
}

from_string! {
    IpAddr: "an IP address", "\"192.0.2.10\"";
    Ipv4Addr: "an IPv4 address", "\"192.0.2.10\"";
    Ipv6Addr: "an IPv6 address", "\"2001:db8::10\"";
    MacAddr: "a MAC address", "\"02:00:00:00:00:01\"";
}

/// An address or a prefix, written as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressOrPrefix(pub(crate) IpNet);

impl FromValue for AddressOrPrefix {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        let text = string(value, "an address or a prefix", problems)?;
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self(address.into()));
        }
        let Ok(net) = text.parse::<IpNet>() else {
            problems.push(
                Problem::new(value.span(), format!("`{text}` is neither an IP address nor a prefix"))
                    .label("not an address")
                    .help("write it like `\"192.0.2.10\"`, `\"2001:db8::10\"` or `\"192.0.2.0/24\"`"),
            );
            return None;
        };
        if net.trunc() != net {
            problems.push(
                Problem::new(value.span(), format!("`{text}` has bits beyond its prefix length"))
                    .label("not a network address")
                    .help(format!(
                        "for the network write `\"{}\"`, for the address alone `\"{}\"`",
                        net.trunc(),
                        net.addr()
                    )),
            );
            return None;
        }
        Some(Self(net))
    }
}

impl JsonSchema for AddressOrPrefix {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AddressOrPrefix".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "An IPv4 or IPv6 address, or a prefix in CIDR notation.",
            "examples": ["192.0.2.10", "2001:db8::10", "192.0.2.0/24"],
        })
    }
}

/// A span of time such as `"1500ms"` or `"15m"`, within bounds in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time<const MIN_MS: u64, const MAX_MS: u64>(pub(crate) Duration);

impl<const MIN_MS: u64, const MAX_MS: u64> FromValue for Time<MIN_MS, MAX_MS> {
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self> {
        if let DeValue::Integer(integer) = value.get_ref() {
            problems.push(
                mismatch(value, "a time with its unit").help(format!("for seconds write `\"{integer}s\"`")),
            );
            return None;
        }
        let text = string(value, "a time with its unit", problems)?;
        let read = match humantime::parse_duration(text) {
            Ok(read) => read,
            Err(error) => {
                problems.push(
                    Problem::new(value.span(), format!("`{text}` is not a time"))
                        .label(error.to_string())
                        .help("write it like `\"500ms\"`, `\"30s\"` or `\"1h 30m\"`"),
                );
                return None;
            }
        };
        let (min, max) = (Duration::from_millis(MIN_MS), Duration::from_millis(MAX_MS));
        if (min..=max).contains(&read) {
            return Some(Self(read));
        }
        let show = humantime::format_duration;
        problems.push(Problem::new(value.span(), format!("`{text}` is out of range")).label(format!(
            "must be {} to {}",
            show(min),
            show(max)
        )));
        None
    }
}

impl<const MIN_MS: u64, const MAX_MS: u64> JsonSchema for Time<MIN_MS, MAX_MS> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let show = |ms| humantime::format_duration(Duration::from_millis(ms)).to_string();
        json_schema!({
            "type": "string",
            "description": format!("A time with its unit, {} to {}.", show(MIN_MS), show(MAX_MS)),
            "examples": ["500ms", "30s", "1h 30m"],
        })
    }
}

/// An Ethernet address of one station.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

/// Why a text is no station's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MacAddrError {
    /// Not six octets.
    #[error("six two-digit hexadecimal octets with colons between them are needed")]
    Form,
    /// The group bit is set, or all bits are clear.
    #[error("this is not the address of one station")]
    Station,
}

impl FromStr for MacAddr {
    type Err = MacAddrError;

    fn from_str(text: &str) -> Result<Self, MacAddrError> {
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            let part = parts.next().ok_or(MacAddrError::Form)?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(MacAddrError::Form);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| MacAddrError::Form)?;
        }
        if parts.next().is_some() {
            return Err(MacAddrError::Form);
        }
        if octets[0] & 1 != 0 || octets == [0; 6] {
            return Err(MacAddrError::Station);
        }
        Ok(Self(octets))
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl Serialize for MacAddr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for MacAddr {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MacAddr".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_address_is_six_octets_of_one_station() {
        let mac: MacAddr = "02:00:00:00:00:0a".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:00:00:00:0a");
        for bad in ["", "02:00", "02:00:00:00:00:0a:0b", "2:0:0:0:0:1", "02:00:00:00:00:+1"] {
            assert_eq!(bad.parse::<MacAddr>(), Err(MacAddrError::Form), "{bad}");
        }
        for bad in ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "00:00:00:00:00:00"] {
            assert_eq!(bad.parse::<MacAddr>(), Err(MacAddrError::Station), "{bad}");
        }
    }
}
