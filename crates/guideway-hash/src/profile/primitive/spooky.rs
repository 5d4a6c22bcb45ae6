//! SpookyHash V2 for messages of exactly 16 bytes, the length of an IPv6 address.

use super::le_u64;

const FILLER: u64 = 0xdead_beef_dead_beef;

/// SpookyHash V2's short 128-bit form of 16 bytes, both seeds zero: the two result words.
///
/// Source: Bob Jenkins's `SpookyHash::Short`, `ShortMix` and `ShortEnd`.
#[must_use]
pub fn spooky_v2_128_of_16_bytes(message: &[u8; 16]) -> (u64, u64) {
    let mut state = [0, 0, FILLER, FILLER];
    state[2] = state[2].wrapping_add(le_u64(message, 0));
    state[3] = state[3].wrapping_add(le_u64(message, 8));
    short_mix(&mut state);
    // The length goes into the top byte; what is left of the message is nothing, marked by the filler.
    state[3] = state[3].wrapping_add(16 << 56);
    state[2] = state[2].wrapping_add(FILLER);
    state[3] = state[3].wrapping_add(FILLER);
    short_end(&mut state);
    (state[0], state[1])
}

fn short_mix(h: &mut [u64; 4]) {
    for (n, rotation) in [50, 52, 30, 41, 54, 48, 38, 37, 62, 34, 5, 36].into_iter().enumerate() {
        let i = (2 + n) % 4;
        h[i] = h[i].rotate_left(rotation).wrapping_add(h[(i + 1) % 4]);
        h[(i + 2) % 4] ^= h[i];
    }
}

fn short_end(h: &mut [u64; 4]) {
    for (n, rotation) in [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63].into_iter().enumerate() {
        let (x, y) = ((3 + n) % 4, (2 + n) % 4);
        h[x] ^= h[y];
        h[y] = h[y].rotate_left(rotation);
        h[x] = h[x].wrapping_add(h[y]);
    }
}

#[cfg(test)]
mod tests {
    use super::spooky_v2_128_of_16_bytes;

    #[test]
    fn published_vector_of_length_16() {
        // SpookyHash's own test hashes the first n bytes of 128, 129, 130 … with seed 0 and prints Hash32.
        let message: [u8; 16] = core::array::from_fn(|i| (i + 128) as u8);
        assert_eq!(spooky_v2_128_of_16_bytes(&message).0 as u32, 0xf274_736c);
    }
}
