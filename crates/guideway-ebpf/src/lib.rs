//! What the kernel programs share: the packet as the verifier lets it be reached, and the forwarder's state over maps.
//!
//! Each program is a file in `src/bin` and an object of its own, so that a machine loads only the maps that it needs:
//! a backend's decapsulator does not come with a balancer's tables. An object carries the maps of every module that its
//! library has, so each program is a feature too. Programs are thin: a rule lives in
//! `guideway-forward` or `guideway-wire`, where user space runs and proves the same source.
//!
//! * [`apart`]: the heavy steps as functions that the verifier checks by themselves.
//! * `ends`: a backend host's maps and state.
//! * [`frame`]: [`guideway_wire::Packet`] over an XDP context.
//! * [`maps`]: the balancer's maps.
//! * `probes`: the probe encapsulator's maps and state.
//! * [`skb`]: [`guideway_wire::Packet`] over a TC context.
//! * [`state`]: [`guideway_forward::State`] over those maps.
//! * `trie`: keys of longest-prefix tries.
//!
//! # Writing for the verifier
//! - A function that is not inlined has five arguments at most, and eight frames share 512 bytes of stack.
//! - What the verifier must see (a bound, a comparison) the optimiser must not move: see [`opaque`].
//! - `cargo xtask bpf` builds the objects; CONTRIBUTING.md tells what it needs.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

#[cfg(feature = "balancer")]
pub mod apart;
#[cfg(feature = "decapsulator")]
pub mod ends;
pub mod frame;
#[cfg(feature = "balancer")]
pub mod maps;
pub mod opaque;
#[cfg(feature = "prober")]
pub mod probes;
pub mod skb;
#[cfg(feature = "balancer")]
pub mod state;
#[cfg(any(feature = "balancer", feature = "decapsulator"))]
pub mod trie;

/// A panic has no meaning in the kernel. Nothing reaches this; the verifier would refuse the loop.
#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
