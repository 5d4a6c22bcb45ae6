//! The forwarding core over memory.
