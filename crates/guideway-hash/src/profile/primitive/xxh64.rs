//! XXH64, the 64-bit xxHash (not XXH3).

use super::{le_u32, le_u64};

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// XXH64 of `bytes` under `seed`.
///
/// Source: the xxHash specification, "XXH64 algorithm description".
#[must_use]
pub fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    let stripes = bytes.len() / 32 * 32;
    let mut hash = if stripes == 0 {
        seed.wrapping_add(P5)
    } else {
        let mut lanes =
            [seed.wrapping_add(P1).wrapping_add(P2), seed.wrapping_add(P2), seed, seed.wrapping_sub(P1)];
        for at in (0..stripes).step_by(32) {
            for (lane, accumulator) in lanes.iter_mut().enumerate() {
                *accumulator = round(*accumulator, le_u64(bytes, at + 8 * lane));
            }
        }
        let [a, b, c, d] = lanes;
        let sum = a
            .rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18));
        lanes.iter().fold(sum, |sum, &lane| (sum ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4))
    };
    hash = hash.wrapping_add(bytes.len() as u64);

    let mut at = stripes;
    while at + 8 <= bytes.len() {
        hash = (hash ^ round(0, le_u64(bytes, at))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        at += 8;
    }
    if at + 4 <= bytes.len() {
        hash = (hash ^ u64::from(le_u32(bytes, at)).wrapping_mul(P1))
            .rotate_left(23)
            .wrapping_mul(P2)
            .wrapping_add(P3);
        at += 4;
    }
    for &byte in &bytes[at..] {
        hash = (hash ^ u64::from(byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }

    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
}

fn round(accumulator: u64, lane: u64) -> u64 {
    accumulator.wrapping_add(lane.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

#[cfg(test)]
mod tests {
    use super::xxh64;

    /// The sanity buffer of the xxHash distribution: bytes of a multiplicative generator.
    fn sanity_buffer<const N: usize>() -> [u8; N] {
        let mut generator: u64 = 2_654_435_761;
        core::array::from_fn(|_| {
            let byte = (generator >> 56) as u8;
            generator = generator.wrapping_mul(11_400_714_785_074_694_797);
            byte
        })
    }

    #[test]
    fn published_strings() {
        assert_eq!(xxh64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a", 0), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc", 0), 0x44bc_2cf5_ad77_0999);
        let long = b"Nobody inspects the spammish repetition";
        assert_eq!(xxh64(long, 0), 0xfbce_a83c_8a37_8bf1);
    }

    #[test]
    fn published_sanity_checks() {
        const PRIME32: u64 = 2_654_435_761;
        let buffer = sanity_buffer::<222>();
        for (length, seed, want) in [
            (0, PRIME32, 0xac75_fda2_929b_17ef),
            (1, 0, 0xe934_a84a_db05_2768),
            (1, PRIME32, 0x5014_6076_43a9_b4c3),
            (4, 0, 0x9136_a0dc_a574_57ee),
            (14, 0, 0x8282_dcc4_994e_35c8),
            (14, PRIME32, 0xc3bd_6bf6_3deb_6df0),
            (222, 0, 0xb641_ae8c_b691_c174),
            (222, PRIME32, 0x20cb_8ab7_ae10_c14a),
        ] {
            assert_eq!(xxh64(&buffer[..length], seed), want, "length {length}, seed {seed}");
        }
    }
}
