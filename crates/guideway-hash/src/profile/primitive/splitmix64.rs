//! The output mix of SplitMix64.

/// The bijection that SplitMix64 finishes with: every input bit moves every output bit.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014 (Stafford's variant 13).
#[must_use]
pub const fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::mix;

    #[test]
    fn first_outputs_of_the_generator_from_seed_zero() {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let outputs: [u64; 3] = core::array::from_fn(|n| mix(GAMMA.wrapping_mul(n as u64 + 1)));
        assert_eq!(outputs, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
