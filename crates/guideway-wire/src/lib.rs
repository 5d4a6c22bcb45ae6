//! Packet headers, flow keys, tunnels and checksums.
#![no_std]
