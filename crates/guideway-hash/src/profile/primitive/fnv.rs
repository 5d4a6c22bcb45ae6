//! The Fowler–Noll–Vo family: FNV-1a on 64 bits, and the 32-bit form that folly ships.

/// The 64-bit offset basis.
pub const BASIS_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;
const BASIS_32: u32 = 2_166_136_261;
const PRIME_32: u32 = 16_777_619;

/// FNV-1a on 64 bits, started from `state` ([`BASIS_64`] for the standard hash).
#[must_use]
pub fn fnv1a_64(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME_64))
}

/// folly's `fnv32_buf`: FNV-1 on 32 bits that widens each byte as signed, so bytes of 0x80 and above also flip the
/// upper 24 bits. Not the standard hash: kept because Katran's tables depend on it.
#[must_use]
pub fn folly_fnv32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(BASIS_32, |hash, &byte| hash.wrapping_mul(PRIME_32) ^ i32::from(byte as i8) as u32)
}

#[cfg(test)]
mod tests {
    use super::{BASIS_64, fnv1a_64, folly_fnv32};

    #[test]
    fn published_fnv1a_vectors() {
        assert_eq!(fnv1a_64(BASIS_64, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(BASIS_64, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(BASIS_64, b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn folly_form_is_fnv_1_on_ascii_and_differs_above() {
        // FNV-1 32 of "foobar" from the authors' list.
        assert_eq!(folly_fnv32(b"foobar"), 0x31f0_b262);
        assert_eq!(folly_fnv32(&[0x80]), BASIS_TIMES_PRIME ^ 0xffff_ff80);
    }

    const BASIS_TIMES_PRIME: u32 = 2_166_136_261_u32.wrapping_mul(16_777_619);
}
