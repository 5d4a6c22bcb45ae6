//! Consistent hashing for load balancers.
#![no_std]
extern crate alloc;
