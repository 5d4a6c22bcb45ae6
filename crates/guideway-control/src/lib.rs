//! What the forwarder should hold.
