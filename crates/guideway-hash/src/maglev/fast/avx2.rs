//! The walk with AVX2 gathers: four, eight or sixteen slots of one walk a look.
//!
//! The only module of this crate with `unsafe` code. It is needed for gathered loads, which take a pointer, and
//! for asking the processor what it can do.

use core::arch::x86_64::{
    __cpuid, __cpuid_count, __m128i, __m256i, _mm_add_epi32, _mm_andnot_si128, _mm_castsi128_ps,
    _mm_i32gather_epi32, _mm_min_epu32, _mm_movemask_ps, _mm_mullo_epi32, _mm_set1_epi32, _mm_setr_epi32,
    _mm_sllv_epi32, _mm_srli_epi32, _mm_sub_epi32, _mm256_add_epi32, _mm256_andnot_si256,
    _mm256_castsi256_ps, _mm256_i32gather_epi32, _mm256_min_epu32, _mm256_movemask_ps, _mm256_mullo_epi32,
    _mm256_set1_epi32, _mm256_setr_epi32, _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_sub_epi32, _xgetbv,
};
use core::sync::atomic::{AtomicU8, Ordering};

use super::board::{Board, Owner, Walker, step};
use super::tail::Walk;
use super::walk::walk;
use super::{Stretches, Unknown, tail};
use crate::maglev::Turns;

/// The largest table: seven steps and an offset must add up in 31 bits.
pub(super) const MAX_SIZE: u32 = 1 << 28;

/// Whether processor and operating system provide AVX2 (and BMI1, which every such processor has).
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
    /// The operating system saves the SSE and AVX registers.
    const YMM_STATE: u64 = 0b110;
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
    saved & YMM_STATE == YMM_STATE && extended & (AVX2 | BMI1) == AVX2 | BMI1
}

/// Gives the turns of `stretches` between the first and the last. The caller has checked [`is_available`] and [`MAX_SIZE`].
pub(super) fn turns<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    stretches: &Stretches,
) -> Result<(), Unknown> {
    assert!(is_available() && board.size <= MAX_SIZE, "the caller chooses this kernel only where it can run");
    let &Stretches { early, middle, late, .. } = stretches;
    let shift = |before: u32| move |Unknown { after, backend }| Unknown { after: before + after, backend };
    // SAFETY: the processor has AVX2 and BMI1.
    unsafe {
        turns_narrow(board, turns, early)?;
        turns_wide::<S, 1>(board, turns, middle).map_err(shift(early))?;
        turns_wide::<S, 2>(board, turns, late).map_err(shift(early + middle))
    }
}

/// [`tail::nearest`], compiled for vectors of eight.
pub(super) fn nearest(free: &[u32], walk: &Walk) -> u32 {
    #[target_feature(enable = "avx2,bmi1")]
    fn vectors(free: &[u32], walk: &Walk) -> u32 {
        tail::nearest(free, walk)
    }
    assert!(is_available(), "the caller chooses this kernel only where it can run");
    // SAFETY: the processor has AVX2 and BMI1.
    unsafe { vectors(free, walk) }
}

/// Turns that look at four slots at a time.
#[target_feature(enable = "avx2,bmi1")]
fn turns_narrow<S: Owner>(board: &mut Board<S>, turns: &mut impl Turns, count: u32) -> Result<(), Unknown> {
    let size = board.size;
    let places = _mm_setr_epi32(0, 1, 2, 3);
    let sizes = _mm_set1_epi32(size as i32);
    let double = _mm_set1_epi32((2 * size) as i32);
    walk(board, turns, count, |taken, Walker { mut at, skip }| {
        let steps = _mm_mullo_epi32(_mm_set1_epi32(skip as i32), places);
        loop {
            // Below 4 M before, below M after: a difference that wraps round is the larger one.
            let mut slots = _mm_add_epi32(_mm_set1_epi32(at as i32), steps);
            slots = _mm_min_epu32(slots, _mm_sub_epi32(slots, double));
            slots = _mm_min_epu32(slots, _mm_sub_epi32(slots, sizes));
            // SAFETY: the processor has AVX2; every slot is below `size`, the number of bits in `taken`.
            let refused = unsafe { gather_narrow(taken, slots) };
            let first_free = refused.trailing_ones();
            if first_free < 4 {
                return lanes_narrow(slots)[first_free as usize];
            }
            at = step(lanes_narrow(slots)[3], skip, size);
        }
    })
}

/// Turns that look at eight slots `GATHERS` times before they decide.
#[target_feature(enable = "avx2,bmi1")]
fn turns_wide<S: Owner, const GATHERS: usize>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    count: u32,
) -> Result<(), Unknown> {
    let size = board.size;
    let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let sizes = _mm256_set1_epi32(size as i32);
    let double = _mm256_set1_epi32((2 * size) as i32);
    let fourfold = _mm256_set1_epi32((4 * size) as i32);
    walk(board, turns, count, |taken, Walker { at, skip }| {
        // Below 8 M before, below M after: a difference that wraps round is the larger one.
        let steps = _mm256_mullo_epi32(_mm256_set1_epi32(skip as i32), places);
        let mut slots = _mm256_add_epi32(_mm256_set1_epi32(at as i32), steps);
        slots = _mm256_min_epu32(slots, _mm256_sub_epi32(slots, fourfold));
        slots = _mm256_min_epu32(slots, _mm256_sub_epi32(slots, double));
        slots = _mm256_min_epu32(slots, _mm256_sub_epi32(slots, sizes));
        let mut stride = skip;
        for _ in 0..3 {
            stride = step(stride, stride, size);
        }
        let strides = _mm256_set1_epi32(stride as i32);
        loop {
            let mut looked = [slots; GATHERS];
            let mut refused = 0;
            for (round, looked) in looked.iter_mut().enumerate() {
                *looked = slots;
                // SAFETY: the processor has AVX2; every slot is below `size`, the number of bits in `taken`.
                refused |= unsafe { gather_wide(taken, slots) } << (8 * round);
                slots = _mm256_add_epi32(slots, strides);
                slots = _mm256_min_epu32(slots, _mm256_sub_epi32(slots, sizes));
            }
            let first_free = refused.trailing_ones() as usize;
            if first_free < 8 * GATHERS {
                return lanes_wide(looked[first_free / 8])[first_free % 8];
            }
        }
    })
}

/// One bit for each of four slots: set where the slot is taken.
///
/// # Safety
/// `taken` has a bit for every one of the slots.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather_narrow(taken: &[u32], slots: __m128i) -> u32 {
    // SAFETY: word `slot / 32` of `taken` exists for every slot, as the caller promises.
    let words = unsafe { _mm_i32gather_epi32::<4>(taken.as_ptr().cast(), _mm_srli_epi32::<5>(slots)) };
    // Moves the slot's bit to the top, by 31 - slot mod 32.
    let up = _mm_andnot_si128(slots, _mm_set1_epi32(31));
    _mm_movemask_ps(_mm_castsi128_ps(_mm_sllv_epi32(words, up))) as u32
}

/// One bit for each of eight slots: set where the slot is taken.
///
/// # Safety
/// `taken` has a bit for every one of the slots.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather_wide(taken: &[u32], slots: __m256i) -> u32 {
    // SAFETY: word `slot / 32` of `taken` exists for every slot, as the caller promises.
    let words = unsafe { _mm256_i32gather_epi32::<4>(taken.as_ptr().cast(), _mm256_srli_epi32::<5>(slots)) };
    let up = _mm256_andnot_si256(slots, _mm256_set1_epi32(31));
    _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_sllv_epi32(words, up))) as u32
}

#[inline(always)]
fn lanes_narrow(slots: __m128i) -> [u32; 4] {
    // SAFETY: both are 16 bytes of plain data.
    unsafe { core::mem::transmute(slots) }
}

#[inline(always)]
fn lanes_wide(slots: __m256i) -> [u32; 8] {
    // SAFETY: both are 32 bytes of plain data.
    unsafe { core::mem::transmute(slots) }
}
