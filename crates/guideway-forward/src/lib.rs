//! The forwarding decision.
#![no_std]
