//! The bids of a rendezvous, to be looked at.

use guideway_hash::hash::{self, StableHasher, native};
use guideway_hash::policy::{Roster, logarithm};

use crate::Refusal;
use crate::setup::{Kind, Setup};
use crate::solution::Solution;
use crate::words::{Reader, Writer};

/// Answers [`BIDS`](crate::question::BIDS).
pub(crate) fn answer(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let setup = Setup::read(reader)?;
    let key = reader.long()?;
    if !matches!(setup.kind, Kind::Rendezvous | Kind::RendezvousTable) {
        return Err(Refusal::NoSuchThing { policy: setup.kind.name(), what: "bids" });
    }
    let roster = Roster::new(&setup.candidates())?;
    // The table's own key is the slot, which the policy takes from the hash modulo M.
    let key = if setup.kind == Kind::RendezvousTable { key % u64::from(setup.size.get()) } else { key };
    writer.word(Solution::of(&setup)?.owner(key));
    writer.word(roster.len() as u32);
    for member in roster.iter() {
        let seed = setup.hasher().hash(hash::RENDEZVOUS, member.identity);
        let bid = native::hash_words(seed, &[key]);
        let cost = logarithm::cost(bid) as f64 / (1_u64 << logarithm::FRACTION_BITS) as f64;
        writer.word(member.index);
        writer.long(bid);
        writer.float(cost);
        writer.float(cost / f64::from(member.weight));
    }
    Ok(())
}
