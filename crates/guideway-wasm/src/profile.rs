//! Other systems' tables, which the golden records are about.

use std::net::IpAddr;

use guideway_hash::profile::{self, Flow, Member, Params, Profile, ipvs};

use crate::Refusal;
use crate::words::{Reader, Writer};

struct Question {
    profile: Profile,
    size: u32,
    params: Params,
}

impl Question {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let profile: Profile = reader.text()?.parse()?;
        let size = reader.word()?;
        let pairs = reader.list(|reader| Ok((reader.text()?, reader.text()?)))?;
        let params =
            Params::parse(profile, pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        Ok(Self { profile, size, params })
    }
}

struct Backend {
    key: String,
    weight: Option<u32>,
    locality: Option<u32>,
    state: String,
    hostname: String,
    hash_key: String,
    last_weight: Option<u32>,
}

impl Backend {
    fn member(&self, profile: Profile) -> Result<Member<'_>, Refusal> {
        Ok(Member {
            locality: self.locality,
            state: self.state.parse()?,
            hostname: given(&self.hostname),
            hash_key: given(&self.hash_key),
            last_weight: self.last_weight,
            ..Member::new(&self.key, self.weight.unwrap_or(profile.default_weight()))
        })
    }
}

/// A text, unless it is empty.
fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Answers [`PROFILE`](crate::question::PROFILE).
pub(crate) fn answer_table(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let Question { profile, size, params } = Question::read(reader)?;
    let backends = reader.list(|reader| {
        Ok(Backend {
            key: reader.text()?,
            weight: reader.word()?.checked_sub(1),
            locality: reader.word()?.checked_sub(1),
            state: reader.text()?,
            hostname: reader.text()?,
            hash_key: reader.text()?,
            last_weight: reader.word()?.checked_sub(1),
        })
    })?;
    let members = backends.iter().map(|b| b.member(profile)).collect::<Result<Vec<_>, _>>()?;
    let built = profile::build(profile, size, &members, &params)?;
    writer.words(built.table.iter());
    Ok(())
}

/// Answers [`PROFILE_FLOW`](crate::question::PROFILE_FLOW).
pub(crate) fn answer_flow(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let Question { profile, size, params } = Question::read(reader)?;
    let mut address = || {
        let text = reader.text()?;
        text.parse::<IpAddr>().map_err(|_| Refusal::Address(text))
    };
    let (source, destination) = (address()?, address()?);
    let mut port = || {
        let value = reader.word()?;
        u16::try_from(value).map_err(|_| Refusal::Choice { what: "port", value })
    };
    let (source_port, destination_port) = (port()?, port()?);
    let value = reader.word()?;
    let protocol = u8::try_from(value).map_err(|_| Refusal::Choice { what: "protocol", value })?;
    // IPVS hashes a port or not by a flag of the service; a record gives the port that is hashed.
    let slot = if profile == Profile::IpvsMh {
        ipvs::flow_hash(source, source_port, params.kernel_bits) % size
    } else {
        let flow = Flow { source, destination, source_port, destination_port, protocol };
        profile.locate_flow(&flow, size, &params)?.slot
    };
    writer.word(slot);
    Ok(())
}
