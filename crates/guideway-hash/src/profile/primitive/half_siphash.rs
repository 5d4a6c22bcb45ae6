//! HalfSipHash-1-3: SipHash on 32-bit words, with a 64-bit key.

use super::{le_tail, le_u32};

/// HalfSipHash-1-3 with a 32-bit result, the `hsiphash` of 32-bit Linux kernels.
///
/// `k0` and `k1` are the key's halves. Source: the reference code of SipHash's authors (`halfsiphash.c`), with one
/// compression and three finalisation rounds.
#[must_use]
pub fn half_siphash13(k0: u32, k1: u32, bytes: &[u8]) -> u32 {
    let mut state = [k0, k1, k0 ^ 0x6c79_6765, k1 ^ 0x7465_6462];
    let whole = bytes.len() / 4 * 4;
    for at in (0..whole).step_by(4) {
        compress(&mut state, le_u32(bytes, at));
    }
    // The tail has at most three bytes, and the length fills the fourth.
    compress(&mut state, le_tail(&bytes[whole..]) as u32 | (bytes.len() as u32) << 24);
    state[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut state);
    }
    state[1] ^ state[3]
}

fn compress(state: &mut [u32; 4], word: u32) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

fn round(v: &mut [u32; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(5) ^ v[0];
    v[0] = v[0].rotate_left(16);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(8) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(7) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[2];
    v[2] = v[2].rotate_left(16);
}

#[cfg(test)]
mod tests {
    use super::half_siphash13;

    #[test]
    fn vectors_of_the_linux_kernel() {
        // lib/tests/siphash_kunit.c, the 32-bit table: key 0x03020100, 0x07060504, messages 00 01 02 …
        let message: [u8; 8] = core::array::from_fn(|i| i as u8);
        let want = [
            0x5814_c896,
            0xe7e8_64ca,
            0xbc4b_0e30,
            0x0153_9939,
            0x7e05_9ea6,
            0x88e3_d89b,
            0xa008_0b65,
            0x9d38_d9d6,
        ];
        for (length, want) in want.into_iter().enumerate() {
            assert_eq!(half_siphash13(0x0302_0100, 0x0706_0504, &message[..length]), want, "length {length}");
        }
    }
}
