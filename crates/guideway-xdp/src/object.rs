//! The embedded objects.

/// The balancer's object file.
pub fn balancer() -> &'static [u8] {
    &BALANCER.bytes
}

/// The object file of a backend host's programs.
pub fn decapsulator() -> &'static [u8] {
    &DECAPSULATOR.bytes
}

/// The object file of the program that passes everything.
pub fn pass() -> &'static [u8] {
    &PASS.bytes
}

/// The probe encapsulator's object file.
pub fn prober() -> &'static [u8] {
    &PROBER.bytes
}

/// The object file of what the benchmark puts before a program.
pub fn harness() -> &'static [u8] {
    &HARNESS.bytes
}

/// The object file of the balancer's way cut short after each step, for the benchmark.
pub fn steps() -> &'static [u8] {
    &STEPS.bytes
}

/// The object parser reads words in place, so the bytes begin at a multiple of eight.
#[repr(C, align(8))]
struct Aligned<B: ?Sized> {
    bytes: B,
}

static BALANCER: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../bpf/balancer.bpf.o") };
static DECAPSULATOR: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../bpf/decapsulator.bpf.o") };
static PASS: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../bpf/pass.bpf.o") };
static PROBER: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../bpf/prober.bpf.o") };
static HARNESS: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../bpf/harness.bpf.o") };
static STEPS: &Aligned<[u8]> = &Aligned { bytes: *include_bytes!("../bpf/steps.bpf.o") };
