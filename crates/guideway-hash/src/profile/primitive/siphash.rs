//! SipHash-c-d with a 128-bit key given as two words.

use super::{le_tail, le_u64};

/// SipHash with `C` compression rounds a word and `D` finalisation rounds: `siphash::<2, 4>` is the usual one.
///
/// `k0` and `k1` are the key's halves as little-endian words.
/// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, section 2.
#[must_use]
pub fn siphash<const C: usize, const D: usize>(k0: u64, k1: u64, bytes: &[u8]) -> u64 {
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let whole = bytes.len() / 8 * 8;
    for at in (0..whole).step_by(8) {
        compress::<C>(&mut state, le_u64(bytes, at));
    }
    compress::<C>(&mut state, le_tail(&bytes[whole..]) | (bytes.len() as u64) << 56);
    state[2] ^= 0xff;
    for _ in 0..D {
        round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

/// SipHash-2-4 under a 16-byte key, as most programs hold it.
#[must_use]
pub fn siphash24_keyed(key: &[u8; 16], bytes: &[u8]) -> u64 {
    siphash::<2, 4>(le_u64(key, 0), le_u64(key, 8), bytes)
}

fn compress<const C: usize>(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    for _ in 0..C {
        round(state);
    }
    state[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::{siphash, siphash24_keyed};

    const K0: u64 = 0x0706_0504_0302_0100;
    const K1: u64 = 0x0f0e_0d0c_0b0a_0908;

    #[test]
    fn sip_2_4_vectors_of_the_paper_and_its_code() {
        let message: [u8; 15] = core::array::from_fn(|i| i as u8);
        assert_eq!(siphash::<2, 4>(K0, K1, &message), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash::<2, 4>(K0, K1, b""), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash::<2, 4>(K0, K1, &message[..1]), 0x74f8_39c5_93dc_67fd);
        assert_eq!(siphash::<2, 4>(K0, K1, &message[..8]), 0x93f5_f579_9a93_2462);
        let key: [u8; 16] = core::array::from_fn(|i| i as u8);
        assert_eq!(siphash24_keyed(&key, &message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn sip_1_3_vectors_of_the_linux_kernel() {
        // lib/tests/siphash_kunit.c tests its 64-bit hsiphash with the low words of these.
        let message: [u8; 15] = core::array::from_fn(|i| i as u8);
        for (length, want) in
            [(0, 0x050f_c4dc_u32), (1, 0x7d57_ca93), (2, 0x4dc7_d44d), (3, 0xe7dd_f7fb), (4, 0x88d3_8328)]
        {
            assert_eq!(siphash::<1, 3>(K0, K1, &message[..length]) as u32, want, "length {length}");
        }
    }
}
