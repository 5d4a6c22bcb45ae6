//! CRC-32C (Castagnoli) by 64-bit words, without the inversions of the standard form.

/// Reflected Castagnoli polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// One step of the SSE 4.2 / Armv8 instruction: `crc` carried on over the eight little-endian bytes of `word`.
///
/// Neither start nor result is inverted. Source: RFC 3720 appendix B.4 for the polynomial, Intel's `crc32` instruction
/// for the form.
#[must_use]
pub const fn crc32c_u64(crc: u32, word: u64) -> u32 {
    let mut state = word ^ crc as u64;
    let mut byte = 0;
    while byte < 8 {
        state = state >> 8 ^ TABLE[(state & 0xff) as usize] as u64;
        byte += 1;
    }
    // Eight bytes have been shifted out, so what is left is the 32-bit remainder.
    state as u32
}

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = remainder >> 1 ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::crc32c_u64;

    fn standard_form(words: [u64; 4]) -> u32 {
        !words.into_iter().fold(!0, crc32c_u64)
    }

    #[test]
    fn vectors_of_rfc_3720() {
        // B.4: 32 bytes of zeros, of ones, and 00 01 .. 1f; the RFC prints the bytes in wire order.
        assert_eq!(standard_form([0; 4]), 0x8a91_36aa);
        assert_eq!(standard_form([!0; 4]), 0x62a8_ab43);
        let rising: [u8; 32] = core::array::from_fn(|i| i as u8);
        assert_eq!(
            standard_form(core::array::from_fn(|i| super::super::le_u64(&rising, 8 * i))),
            0x46dd_794e
        );
    }
}
