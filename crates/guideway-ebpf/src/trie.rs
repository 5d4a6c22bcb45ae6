//! Keys of longest-prefix tries.

use aya_ebpf::btf_maps::lpm_trie::Key;

/// The key of one whole address. The address lies at a multiple of eight: it is copied by whole words, and the verifier
/// wants those aligned on the stack.
#[repr(C, align(8))]
pub struct AddressKey {
    _gap: u32,
    /// What the trie is asked.
    pub key: Key<[u8; 16]>,
}

impl AddressKey {
    /// The key of this address.
    #[inline(always)]
    pub fn new(address: &[u8; 16]) -> AddressKey {
        AddressKey { _gap: 0, key: Key::new(128, *address) }
    }
}
