//! What a change of the backends moves.

use guideway_hash::churn::{Balance, Churn, flow_hashes};
use guideway_hash::policy::{Correspondence, Move, ReconcileError};

use crate::Refusal;
use crate::setup::Setup;
use crate::solution::Solution;
use crate::words::{Reader, Writer};

fn read(reader: &mut Reader<'_>) -> Result<[(Setup, Solution); 2], Refusal> {
    let mut read = || {
        let setup = Setup::read(reader)?;
        let solution = Solution::of(&setup)?;
        Ok::<_, Refusal>((setup, solution))
    };
    Ok([read()?, read()?])
}

/// Answers [`CHANGE`](crate::question::CHANGE).
pub(crate) fn answer_cells(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let [(setup, old), (_, new)] = read(reader)?;
    let weighted = old.is_weighted() || new.is_weighted();
    let (before, after) = (old.cells(setup.size.get()), new.cells(setup.size.get()));
    let owners = || before.iter().copied().zip(after.iter().copied());
    let churn = Churn::of_owners(&old.roster, &new.roster, weighted, owners())?;
    let out_of_memory = |_| ReconcileError::Allocation;
    let change = Correspondence::new(&old.roster, &new.roster, weighted).map_err(out_of_memory)?;
    // `of_owners` has refused owners that a roster doesn't have.
    let fates = owners().map(|(was, is)| match (old.roster.position(was), new.roster.position(is)) {
        (Some(was), Some(is)) => number(change.judge(was, is)),
        _ => number(Move::Departed),
    });
    let fates: Vec<u32> = fates.collect();
    writer.word(u32::from(old.slots().is_some() && old.slots() == new.slots()));
    writer.words(before.into_iter());
    writer.words(after.into_iter());
    writer.words(fates.into_iter());
    write_moves(&churn, writer);
    Ok(())
}

/// Answers [`FLOWS`](crate::question::FLOWS).
pub(crate) fn answer_flows(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<(), Refusal> {
    let [(setup, old), (_, new)] = read(reader)?;
    let flows = flow_hashes(reader.word()?.into());
    let weighted = old.is_weighted() || new.is_weighted();
    let owners: Vec<_> = flows.map(|hash| (old.owner(hash), new.owner(hash))).collect();
    let churn = Churn::of_owners(&old.roster, &new.roster, weighted, owners.iter().copied())?;
    let mut counts = vec![0_u64; setup.backends.len()];
    for &(owner, _) in &owners {
        counts[owner as usize] += 1;
    }
    // What takes no new flows has no share, and is left out of the balance as weight 0 is.
    let weight = |place: u32, weight: u32| if old.roster.position(place).is_some() { weight } else { 0 };
    let shares: Vec<_> = (0..)
        .zip(&setup.backends)
        .zip(counts)
        .map(|((place, backend), count)| (count, weight(place, backend.weight)))
        .collect();
    let balance = Balance::of(shares);
    write_moves(&churn, writer);
    for measure in [
        balance.map(|b| b.max_over_mean),
        balance.map(|b| b.min_over_mean),
        balance.map(|b| b.variation),
        balance.map(|b| b.over_provisioning),
    ] {
        writer.float(measure.unwrap_or(f64::NAN));
    }
    Ok(())
}

fn write_moves(churn: &Churn, writer: &mut Writer) {
    let moves = churn.moves;
    for count in [moves.compared, moves.departed, moves.attracted, moves.needless, churn.least] {
        writer.word(count as u32);
    }
}

const fn number(fate: Move) -> u32 {
    match fate {
        Move::Stayed => 0,
        Move::Departed => 1,
        Move::Attracted => 2,
        Move::Needless => 3,
    }
}
