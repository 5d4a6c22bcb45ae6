//! Looks by AVX2 gathers, eight slots each.
//!
//! The only module of this crate with `unsafe` code. It is needed for gathered loads, which take a pointer, and
//! for asking the processor what it can do.

use core::arch::x86_64::{
    __cpuid, __cpuid_count, __m256i, _mm256_andnot_si256, _mm256_castsi256_ps, _mm256_i32gather_epi32,
    _mm256_movemask_ps, _mm256_set1_epi32, _mm256_sllv_epi32, _mm256_srli_epi32, _xgetbv,
};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

use super::board::{Board, Owner};
use super::reach::Reach;
use super::seek::{self, ABREAST};
use super::tail;
use crate::maglev::{BuildError, Turns};

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

/// Gives the turns of `span`. The caller has checked [`is_available`].
pub(super) fn turns<S: Owner>(
    board: &mut Board<S>,
    turns: &mut impl Turns,
    span: Range<u32>,
) -> Result<(), BuildError> {
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn gathered<S: Owner>(
        board: &mut Board<S>,
        turns: &mut impl Turns,
        span: Range<u32>,
    ) -> Result<(), BuildError> {
        // SAFETY: a walk's slots are slots of the board, whose bitmap has a bit for each.
        seek::turns(board, turns, span, |taken, slots| unsafe { gather(taken, slots) })
    }
    assert!(is_available(), "the caller chooses this kernel only where it can run");
    // SAFETY: the processor has AVX2, BMI1 and BMI2.
    unsafe { gathered(board, turns, span) }
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

/// A bit for each of eight slots, set where the slot is taken.
///
/// # Safety
/// `taken` has a bit for every one of the slots.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn gather(taken: &[u32], slots: [u32; ABREAST]) -> u32 {
    // SAFETY: both are 32 bytes of plain data.
    let slots: __m256i = unsafe { core::mem::transmute(slots) };
    // SAFETY: word `slot / 32` of `taken` exists for every slot, as the caller promises.
    let words = unsafe { _mm256_i32gather_epi32::<4>(taken.as_ptr().cast(), _mm256_srli_epi32::<5>(slots)) };
    // By 31 - slot mod 32, so that each slot's bit is the top one of its lane.
    let refused = _mm256_sllv_epi32(words, _mm256_andnot_si256(slots, _mm256_set1_epi32(31)));
    _mm256_movemask_ps(_mm256_castsi256_ps(refused)) as u32
}
