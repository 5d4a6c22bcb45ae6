//! The questions that there are, and what belongs to each.
//!
//! A *setup* is: policy (0 Maglev, 1 rendezvous table, 2 rendezvous, 3 ring, 4 jump, 5 modulo), size M, seed (64 bits),
//! preferences (0 hashed from identities, 1 as given; Maglev only), then a list of backends: identity (text), weight,
//! state (0 takes new flows, 1 does not), offset, skip (both below M; looked at only where preferences are as given).
//!
//! A *cell* is a slot where the policy has a table. Where it has none, cell i stands for the i-th flow of the library's
//! fixed sample. Owners are places in the list of backends; [`NONE`] stands for nobody.

/// Number → size, then the nearest primes below and above (0 for none). Refused when it is no size.
pub const SIZE: u32 = 0;
/// Setup → whether cells are slots, list of M owners, list of counts, digest (text, empty where there is no table).
pub const CELLS: u32 = 1;
/// Setup of a Maglev table → list of (backend, offset, skip) in the order of turns; then for the M turns a list each of
/// backends, slots and rounds, a list of M + 1 places in the last list, and the slots asked for in vain.
pub const DRAFT: u32 = 2;
/// Setup and key (text) → hash (64 bits), slot or [`NONE`], owner.
pub const LOOKUP: u32 = 3;
/// Setup of a rendezvous policy and key (64 bits; for a table, the slot) → winner, then a list of bids in canonical order:
/// backend, hash (64 bits), cost `-log2 u` (float), cost over weight (float; the lowest wins).
pub const BIDS: u32 = 4;
/// Two setups that differ in backends → whether cells are slots; lists of old owners, new owners and fates (0 stayed,
/// 1 departed, 2 attracted, 3 needless); then compared, departed, attracted, needless, and the fewest that could move.
pub const CHANGE: u32 = 5;
/// Two setups and a number of flows → compared, departed, attracted, needless, fewest; then of the first
/// setup, over the same flows: highest load, lowest load, variation, over-provisioning (floats).
pub const FLOWS: u32 = 6;
/// Profile (text), size, list of parameters (name, value: texts), list of members (key text, weight + 1 or 0 for the
/// profile's own, locality + 1 or 0, state text, hostname, hash key (texts, empty for none), last weight + 1 or 0)
/// → list of owners.
pub const PROFILE: u32 = 7;
/// Profile (text), size, list of parameters, source and destination address (texts), ports, protocol → slot.
pub const PROFILE_FLOW: u32 = 8;

/// Nobody, or nothing.
pub const NONE: u32 = u32::MAX;
