//! The walk with AVX2 gathers: eight, twenty-four or thirty-two slots of one walk a look, or one slot of thirty-two
//! walks.
//!
//! The only module of this crate with `unsafe` code. It is needed for gathered loads, which take a pointer, and
//! for asking the processor what it can do.

use core::arch::x86_64::{
    __cpuid, __cpuid_count, __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256,
    _mm256_castsi256_ps, _mm256_i32gather_epi32, _mm256_min_epu32, _mm256_movemask_ps, _mm256_mullo_epi32,
    _mm256_set1_epi32, _mm256_setr_epi32, _mm256_sllv_epi32, _mm256_srai_epi32, _mm256_srli_epi32,
    _mm256_sub_epi32, _xgetbv,
};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use super::board::{Board, Owner, Walker, step};
use super::reach::Reach;
use super::walk::{step_by_step, walk};
use super::{Unknown, tail};
use crate::maglev::Turns;

/// The largest table: seven steps and an offset must add up in 31 bits.
pub(super) const MAX_SIZE: u32 = 1 << 28;

/// Whether processor and operating system provide AVX2 (and BMI1 and BMI2, which every such processor has).
pub(super) fn is_available() -> bool {
    /// 0 until asked, then 1 for no and 2 for yes: asking takes microseconds in a virtual machine.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let available = ask();
            KNOWN.store(1 + u8::from(available), Ordering::Relaxed);
            available
        }
        known => known == 2,
    }
}

fn ask() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const AVX: u32 = 1 << 28;
    const AVX2: u32 = 1 << 5;
    const BMI1: u32 = 1 << 3;
    const BMI2: u32 = 1 << 8;
    /// The operating system saves the SSE and AVX registers.
    const YMM_STATE: u64 = 0b110;
    if cfg!(miri) {
        // The interpreter can't ask, and runs what it was told to compile for.
        return cfg!(all(target_feature = "avx2", target_feature = "bmi1", target_feature = "bmi2"));
    }
    if __cpuid(0).eax < 7 {
        return false;
    }
    let basic = __cpuid(1).ecx;
    if basic & (OSXSAVE | AVX) != OSXSAVE | AVX {
        return false;
    }
    // SAFETY: OSXSAVE says that the operating system has enabled `xgetbv`.
    let saved = unsafe { _xgetbv(0) };
    let extended = __cpuid_count(7, 0).ebx;
    saved & YMM_STATE == YMM_STATE && extended & (AVX2 | BMI1 | BMI2) == AVX2 | BMI1 | BMI2
}

/// Gives the turns before `walked`, each `percent` of the slots in the way that is fastest then. The caller has
/// checked [`is_available`] and [`MAX_SIZE`].
pub(super) fn turns<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    percent: impl Fn(u32) -> u32,
    walked: u32,
) -> Result<(), Unknown> {
    assert!(is_available() && board.size <= MAX_SIZE, "the caller chooses this kernel only where it can run");
    let many = board.walkers.len() >= ABREAST;
    if !many {
        step_by_step(board, turns, 0..percent(30))?;
    }
    // SAFETY: the processor has AVX2, BMI1 and BMI2.
    unsafe {
        if many {
            turns_abreast::<S, 1>(board, turns, 0..percent(30))?;
            turns_abreast::<S, 3>(board, turns, percent(30)..percent(60))?;
        } else {
            turns_ahead::<S, 1>(board, turns, percent(30)..percent(60))?;
        }
        turns_ahead::<S, 1>(board, turns, percent(60)..percent(85))?;
        turns_ahead::<S, 3>(board, turns, percent(85)..percent(95))?;
        turns_ahead::<S, 4>(board, turns, percent(95)..walked)
    }
}

/// The search of the last turns, in vectors of eight.
pub(super) struct Search;

impl tail::Search for Search {
    fn nearest<R: Reach>(free: &[u32], walks: &[R; tail::BATCH]) -> [u32; tail::BATCH] {
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn vectors<R: Reach>(free: &[u32], walks: &[R; tail::BATCH]) -> [u32; tail::BATCH] {
            tail::nearest(free, walks)
        }
        assert!(is_available(), "the caller chooses this kernel only where it can run");
        // SAFETY: the processor has AVX2, BMI1 and BMI2.
        unsafe { vectors(free, walks) }
    }
}

/// Turns that look at eight slots of their walk `GATHERS` times before they decide.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn turns_ahead<S: Owner, const GATHERS: usize>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: Range<u32>,
) -> Result<(), Unknown> {
    let size = board.size;
    let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let sizes = _mm256_set1_epi32(size as i32);
    let double = _mm256_set1_epi32((2 * size) as i32);
    let fourfold = _mm256_set1_epi32((4 * size) as i32);
    walk(board, turns, span, |taken, Walker { at, skip }| {
        // Below 8 M before, below M after: a difference that wraps round is the larger one.
        let steps = _mm256_mullo_epi32(_mm256_set1_epi32(skip as i32), places);
        let mut slots = _mm256_add_epi32(_mm256_set1_epi32(at as i32), steps);
        slots = _mm256_min_epu32(slots, _mm256_sub_epi32(slots, fourfold));
        slots = _mm256_min_epu32(slots, _mm256_sub_epi32(slots, double));
        slots = _mm256_min_epu32(slots, _mm256_sub_epi32(slots, sizes));
        loop {
            let mut looked = [slots; GATHERS];
            let mut refused = 0;
            for round in 0..GATHERS {
                if round > 0 {
                    looked[round] = eight_on(looked[round - 1], skip, size);
                }
                // SAFETY: every slot is below `size`, the number of bits in `taken`.
                refused |= u64::from(bits(unsafe { gather(taken, looked[round]) })) << (8 * round);
            }
            let first_free = refused.trailing_ones() as usize;
            if first_free < 8 * GATHERS {
                return lanes(looked[first_free / 8])[first_free % 8];
            }
            slots = eight_on(looked[GATHERS - 1], skip, size);
        }
    })
}

/// Each slot, eight steps on.
#[inline]
#[target_feature(enable = "avx2")]
fn eight_on(slots: __m256i, skip: u32, size: u32) -> __m256i {
    let mut stride = skip;
    for _ in 0..3 {
        stride = step(stride, stride, size);
    }
    let slots = _mm256_add_epi32(slots, _mm256_set1_epi32(stride as i32));
    _mm256_min_epu32(slots, _mm256_sub_epi32(slots, _mm256_set1_epi32(size as i32)))
}

/// Turns that [`turns_abreast`] takes at a time.
const ABREAST: usize = 32;

/// Thirty-two turns side by side, each backend stepping on `STEPS` times where it finds its slot taken. The claim looks
/// again, so it is the last step's look.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn turns_abreast<S: Owner, const STEPS: usize>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: Range<u32>,
) -> Result<(), Unknown> {
    let size = board.size;
    let sizes = _mm256_set1_epi32(size as i32);
    let mut field = board.field();
    let mut turn = span.start;
    while (span.end - turn) as usize >= ABREAST {
        let mut batch = [[0; 8]; ABREAST / 8];
        for eight in &mut batch {
            let (mut at, mut skip) = ([0; 8], [0; 8]);
            for (lane, backend) in eight.iter_mut().enumerate() {
                *backend = turns.next();
                let Some(walker) = field.walkers.get(*backend as usize) else {
                    return Err(Unknown { turn, backend: *backend });
                };
                (at[lane], skip[lane]) = (walker.at, walker.skip);
                turn += 1;
            }
            let (mut at, skip) = (vector(at), vector(skip));
            for _ in 0..STEPS {
                // SAFETY: every slot is below `size`, the number of bits in `taken`.
                let refused = _mm256_srai_epi32::<31>(unsafe { gather(field.taken, at) });
                at = _mm256_add_epi32(at, _mm256_and_si256(refused, skip));
                at = _mm256_min_epu32(at, _mm256_sub_epi32(at, sizes));
            }
            for (&backend, at) in eight.iter().zip(lanes(at)) {
                field.walkers[backend as usize].at = at;
            }
        }
        for &backend in batch.as_flattened() {
            field.claim(backend);
        }
    }
    step_by_step(board, turns, turn..span.end)
}

/// The word of each of eight slots, shifted so that the slot's bit is the top one: set where the slot is taken.
///
/// # Safety
/// `taken` has a bit for every one of the slots.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather(taken: &[u32], slots: __m256i) -> __m256i {
    // SAFETY: word `slot / 32` of `taken` exists for every slot, as the caller promises.
    let words = unsafe { _mm256_i32gather_epi32::<4>(taken.as_ptr().cast(), _mm256_srli_epi32::<5>(slots)) };
    // By 31 - slot mod 32.
    _mm256_sllv_epi32(words, _mm256_andnot_si256(slots, _mm256_set1_epi32(31)))
}

/// The top bit of each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn bits(words: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(words)) as u32
}

#[inline(always)]
fn lanes(vector: __m256i) -> [u32; 8] {
    // SAFETY: both are 32 bytes of plain data.
    unsafe { core::mem::transmute(vector) }
}

#[inline(always)]
fn vector(lanes: [u32; 8]) -> __m256i {
    // SAFETY: both are 32 bytes of plain data.
    unsafe { core::mem::transmute(lanes) }
}
