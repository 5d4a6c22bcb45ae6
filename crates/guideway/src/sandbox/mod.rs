//! The real daemon in namespaces of its own: what the demo is played on, and what the daemon is measured in.

mod daemon;
mod ground;
mod interrupt;

pub(crate) use daemon::{Daemon, LONG};
pub(crate) use ground::{Ground, forget_state, take};
pub(crate) use interrupt::Interrupt;

/// What may be asked to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineWish {
    Auto,
    /// The kernel, by XDP: needs root
    Xdp,
    /// User space
    Soft,
}
