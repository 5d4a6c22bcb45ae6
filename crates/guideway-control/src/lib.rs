//! What the forwarder should hold.

pub mod config;
