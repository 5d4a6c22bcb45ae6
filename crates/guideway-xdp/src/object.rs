//! The embedded objects.

/// The balancer's object file.
pub fn balancer() -> &'static [u8] {
    &BALANCER.bytes
}

/// The object parser reads words in place, so the bytes begin at a multiple of eight.
#[repr(C, align(8))]
struct Aligned<B: ?Sized> {
    bytes: B,
}

static BALANCER: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../bpf/balancer.bpf.o") };
