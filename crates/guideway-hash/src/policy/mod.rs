//! Ways to choose a backend for a key, behind one trait.
