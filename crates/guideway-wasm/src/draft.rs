//! A Maglev draft, turn by turn.

use guideway_hash::maglev::{Draft, Weighted};
use guideway_hash::policy::Roster;

use crate::Refusal;
use crate::setup::{Kind, Setup};
use crate::solution::Solution;
use crate::words::{Reader, Writer};

/// Answers [`DRAFT`](crate::question::DRAFT).
pub(crate) fn answer(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let setup = Setup::read(reader)?;
    if setup.kind != Kind::Maglev {
        return Err(Refusal::NoSuchThing { policy: setup.kind.name(), what: "draft" });
    }
    // Refuses what the policy itself refuses, in its own words.
    Solution::of(&setup)?;
    let roster = Roster::new(&setup.candidates())?;
    let size = setup.size.get();
    let places: Vec<u32> = roster.iter().map(|member| member.index).collect();
    let weights: Vec<u32> = roster.iter().map(|member| member.weight).collect();
    let preferences: Vec<_> = places.iter().map(|&place| setup.preference(place)).collect();

    writer.word(places.len() as u32);
    for (&place, preference) in places.iter().zip(&preferences) {
        writer.word(place);
        writer.word(preference.offset);
        writer.word(preference.skip);
    }
    let turns: Vec<_> = Draft::new(size, &preferences, Weighted::new(size, &weights)?)?.collect();
    writer.words(turns.iter().map(|turn| places[turn.backend as usize]));
    writer.words(turns.iter().map(|turn| turn.slot));
    writer.words(turns.iter().map(|turn| turn.round));
    let mut ends = vec![0];
    let mut refused = Vec::new();
    for turn in &turns {
        refused.extend_from_slice(&turn.refused);
        ends.push(refused.len() as u32);
    }
    writer.words(ends.into_iter());
    writer.words(refused.into_iter());
    Ok(())
}
