//! Why a table could not be built.

/// Why a table could not be built. Nothing has been changed when one of these is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The table size is not a prime that a table can have.
    #[error(transparent)]
    NotPrime(#[from] crate::prime::SizeError),
    /// A table has at least one slot.
    #[error("a table of 0 slots holds no flow; give it a prime number of slots")]
    NoSlots,
    /// More backends may take flows than there are slots, so some would get none.
    #[error(
        "{eligible} backends with a positive weight don't fit into {slots} slots; take a larger table (100 slots a backend keeps shares even) or fewer backends"
    )]
    TooManyBackends {
        /// Backends with a positive weight.
        eligible: usize,
        /// Slots of the table.
        slots: u32,
    },
    /// Two backends have the same identity, so their permutations would be the same.
    #[error("backends {first} and {second} have the same identity; give each backend its own")]
    DuplicateIdentity {
        /// Index of the first of them.
        first: usize,
        /// Index of the second.
        second: usize,
    },
    /// There is no backend with a positive weight.
    #[error("no backend has a positive weight, so no slot would have an owner")]
    NoEligibleBackend,
    /// A preference cannot walk the whole table.
    #[error(
        "backend {backend} starts at slot {offset} and steps by {skip}, which does not visit every one of {slots} slots: the offset must be below the size, and the skip positive, below the size and coprime with it"
    )]
    BadPreference {
        /// Index of the backend.
        backend: usize,
        /// Its offset.
        offset: u32,
        /// Its skip.
        skip: u32,
        /// Slots of the table.
        slots: u32,
    },
    /// A turn was given to a backend that does not exist.
    #[error(
        "turn {turn} was given to backend {backend}, but there are {backends}; fix the rule that gives turns"
    )]
    UnknownBackend {
        /// The turn, from 0.
        turn: u32,
        /// The index it was given to.
        backend: u32,
        /// How many backends there are.
        backends: usize,
    },
    /// There was no memory for the table.
    #[error("no memory for a table of {slots} slots and {backends} backends; the table in use is unchanged")]
    Allocation {
        /// Slots of the table.
        slots: u32,
        /// Backends of the table.
        backends: usize,
    },
}
