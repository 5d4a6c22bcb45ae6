//! What the forwarder should hold.

pub mod config;
pub mod controller;
mod counted;
pub mod desired;
pub mod drain;
pub mod engine;
pub mod health;
pub mod histogram;
#[cfg(feature = "xdp")]
mod kernel;
pub mod neighbour;
pub mod overrides;
pub mod printable;
pub mod state_file;
pub mod trial;

pub mod replay;

pub use controller::Controller;
pub use counted::counted;
pub use engine::Engine;
