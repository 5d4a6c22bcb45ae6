//! What the forwarder should hold.

pub mod config;
pub mod controller;
pub mod engine;
pub mod health;

pub mod replay;

pub use controller::Controller;
pub use engine::Engine;
