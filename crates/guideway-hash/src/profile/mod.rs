//! Other systems' tables, bit for bit.
