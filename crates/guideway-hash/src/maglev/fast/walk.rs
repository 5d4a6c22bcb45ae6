//! Turns in batches: first all look, then all claim.

use super::Unknown;
use super::board::{Board, Owner, Walker, step};
use crate::maglev::Turns;

/// Turns that look before any of them claims.
///
/// If each turn claimed at once, its store would stand between its own loads and the next turn's. The two touch
/// the same word often enough for the processor to stop guessing that they don't, and to finish one turn before it
/// begins the next. Eight looks without a store between them overlap.
const BATCH: usize = 8;

/// Gives `count` turns. `find` is the first free slot of a walk, given the bitmap of taken slots.
///
/// A turn whose slot was claimed, or whose backend walked on, earlier in the same batch looks again: rare, as long
/// as there are more free slots and more backends than turns in a batch.
#[inline(always)]
pub(super) fn walk<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    count: u32,
    find: impl Fn(&[u32], Walker) -> u32,
) -> Result<(), Unknown> {
    // Slices of their own, so that the compiler sees that no store moves them.
    let Board { size, walkers, taken, owners } = board;
    let (size, walkers, taken, owners) = (*size, &mut walkers[..], &mut taken[..], &mut owners[..]);
    let mut done = 0;
    while done < count {
        let batch = BATCH.min((count - done) as usize);
        let mut looks = [Look::default(); BATCH];
        for (after, look) in (done..).zip(&mut looks[..batch]) {
            let backend = turns.next();
            let Some(&walker) = walkers.get(backend as usize) else { return Err(Unknown { after, backend }) };
            *look = Look { backend, from: walker.at, slot: find(taken, walker) };
        }
        for &Look { backend, from, mut slot } in &looks[..batch] {
            let walker = &mut walkers[backend as usize];
            if walker.at != from {
                slot = walker.at;
            }
            while is_taken(taken, slot) {
                slot = step(slot, walker.skip, size);
            }
            taken[(slot >> 5) as usize] |= 1 << (slot & 31);
            owners[slot as usize] = S::of(backend);
            walker.at = step(slot, walker.skip, size);
        }
        done += batch as u32;
    }
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct Look {
    backend: u32,
    /// Where the backend stood.
    from: u32,
    /// The slot it found free.
    slot: u32,
}

#[inline(always)]
fn is_taken(taken: &[u32], slot: u32) -> bool {
    (taken[(slot >> 5) as usize] >> (slot & 31)) & 1 != 0
}
