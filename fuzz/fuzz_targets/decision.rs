//! The whole decision over any state and any frames: no panic, the books balance, what leaves is well-formed.
#![no_main]

use guideway_forward::cases::audit::audit_input;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Err(broken) = audit_input(input) {
        panic!("{broken}");
    }
});
