//! Bob Jenkins's lookup3 hash as the Linux kernel words it (`include/linux/jhash.h`).

use super::le_u32;

/// The kernel's `JHASH_INITVAL`.
const INITIAL: u32 = 0xdead_beef;

/// `jhash_3words`: the hash of three words under `initval`.
#[must_use]
pub fn jhash_3words(a: u32, b: u32, c: u32, initval: u32) -> u32 {
    words(a, b, c, initval.wrapping_add(INITIAL).wrapping_add(3 << 2))
}

/// `jhash_2words`: the hash of two words under `initval`.
#[must_use]
pub fn jhash_2words(a: u32, b: u32, initval: u32) -> u32 {
    words(a, b, 0, initval.wrapping_add(INITIAL).wrapping_add(2 << 2))
}

/// `jhash`: the hash of any number of bytes under `initval`, read as little-endian words.
#[must_use]
pub fn jhash(bytes: &[u8], initval: u32) -> u32 {
    let start = INITIAL.wrapping_add(bytes.len() as u32).wrapping_add(initval);
    let mut state = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        for (lane, word) in state.iter_mut().enumerate() {
            *word = word.wrapping_add(le_u32(rest, 4 * lane));
        }
        mix(&mut state);
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return state[2];
    }
    let mut block = [0u8; 12];
    block[..rest.len()].copy_from_slice(rest);
    for (lane, word) in state.iter_mut().enumerate() {
        *word = word.wrapping_add(le_u32(&block, 4 * lane));
    }
    finish(&mut state);
    state[2]
}

/// The kernel's `__jhash_mix` on the words `[a, b, c]`.
pub fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    *state = [a, b, c];
}

/// The kernel's `__jhash_final` on the words `[a, b, c]`; the hash is `c`.
pub fn finish(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    *state = [a, b, c];
}

fn words(a: u32, b: u32, c: u32, initval: u32) -> u32 {
    let mut state = [a, b, c].map(|word| word.wrapping_add(initval));
    finish(&mut state);
    state[2]
}

#[cfg(test)]
mod tests {
    use super::{jhash, jhash_2words, jhash_3words};

    #[test]
    fn published_lookup3_vectors() {
        // driver5 of lookup3.c: hashlittle("", 0, 0), and the speech with initial values 0 and 1.
        assert_eq!(jhash(b"", 0), 0xdead_beef);
        assert_eq!(jhash(b"", 0xdead_beef), 0xbd5b_7dde);
        assert_eq!(jhash(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(jhash(b"Four score and seven years ago", 1), 0xcd62_8161);
    }

    #[test]
    fn words_are_the_bytes_they_are_made_of() {
        let bytes: [u8; 12] = core::array::from_fn(|i| (7 * i + 1) as u8);
        let word = |at| super::le_u32(&bytes, at);
        assert_eq!(jhash_3words(word(0), word(4), word(8), 99), jhash(&bytes, 99));
        assert_eq!(jhash_2words(word(0), word(4), 99), jhash(&bytes[..8], 99));
    }
}
