//! What a policy chooses from.

/// A backend as the caller offers it: an identity, a weight, and whether it may take new flows.
///
/// The identity is what hashing sees, so it must be stable: an address and port, or a name that outlives both.
/// A policy's answers are places in the slice of candidates that it was last reconciled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    identity: &'a [u8],
    weight: u32,
    state: State,
}

/// Whether a candidate may take new flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It may.
    #[default]
    Eligible,
    /// It may not: draining, down or in maintenance. It keeps its place in the slice.
    Ineligible,
}

impl<'a> Candidate<'a> {
    /// An eligible candidate of weight 1.
    pub fn new(identity: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { identity: identity.as_ref(), weight: 1, state: State::Eligible }
    }

    /// The same candidate with another weight. Weight 0 owns nothing, under every policy.
    #[must_use]
    pub fn with_weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// The same candidate in another state.
    #[must_use]
    pub fn with_state(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// The bytes that are hashed.
    pub fn identity(&self) -> &'a [u8] {
        self.identity
    }

    /// Its weight: its share relative to the others', under a policy that heeds weights.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Its state, as given.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it may own anything: it is in the eligible state and has a weight above 0.
    pub fn is_eligible(&self) -> bool {
        self.state == State::Eligible && self.weight > 0
    }
}
