//! What a profile knows of a backend, and which backends it takes.

use core::{fmt, net::IpAddr, str::FromStr};

use super::ProfileError;

/// One backend as a profile sees it.
///
/// A table's owners are places in the slice of members that it was built from, whatever order the profile itself uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// What identifies the backend; [`Profile::key_form`](super::Profile::key_form) says how each profile reads it.
    pub key: &'a str,
    /// Relative weight. Each profile has its own range and its own meaning of 0.
    pub weight: u32,
    /// Place of the backend's locality in `locality_weights` (`envoy`).
    pub locality: Option<u32>,
    /// Whether the backend takes new flows. Members in any other state than active are left out of the table,
    /// except by `glb`, which has rules for them.
    pub state: State,
    /// The host name, hashed in place of the key under `use_hostname_for_hashing` (`envoy`).
    pub hostname: Option<&'a str>,
    /// The metadata string `filter_metadata["envoy.lb"]["hash_key"]`, hashed in place of all else (`envoy`).
    pub hash_key: Option<&'a str>,
    /// The weight that the backend last had when its weight was not 0 (`ipvs-mh`, which keeps such a backend's slots).
    pub last_weight: Option<u32>,
}

impl<'a> Member<'a> {
    /// An active member with nothing but a key and a weight.
    pub const fn new(key: &'a str, weight: u32) -> Self {
        Self {
            key,
            weight,
            locality: None,
            state: State::Active,
            hostname: None,
            hash_key: None,
            last_weight: None,
        }
    }

    /// The same member in the locality at this place of `locality_weights`.
    #[must_use]
    pub const fn in_locality(self, locality: u32) -> Self {
        Self { locality: Some(locality), ..self }
    }

    /// The same member in another state.
    #[must_use]
    pub const fn in_state(self, state: State) -> Self {
        Self { state, ..self }
    }
}

/// What a backend is fit for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Takes new flows.
    #[default]
    Active,
    /// Keeps the flows that it has.
    Draining,
    /// Fails its health checks.
    Unhealthy,
    /// Takes no part at all.
    Inactive,
}

impl State {
    /// The word for this state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Unhealthy => "unhealthy",
            Self::Inactive => "inactive",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for State {
    type Err = UnknownState;

    /// Reads the names of [`State::name`], and `down` and `maintenance` as this project's configuration has them.
    fn from_str(name: &str) -> Result<Self, UnknownState> {
        match name {
            "active" => Ok(Self::Active),
            "draining" => Ok(Self::Draining),
            "unhealthy" | "down" => Ok(Self::Unhealthy),
            "inactive" | "maintenance" => Ok(Self::Inactive),
            _ => Err(UnknownState),
        }
    }
}

/// A word that names no [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a backend state; the states are active, draining, unhealthy (or down), inactive (or maintenance)"
)]
pub struct UnknownState;

/// A member that takes part in a build, with its place in the caller's slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'a> {
    pub(super) place: u32,
    pub(super) member: Member<'a>,
}

impl Placed<'_> {
    /// The key as an IP address.
    pub(super) fn address(&self) -> Result<IpAddr, ProfileError> {
        self.member.key.parse().map_err(|_| self.unreadable("an IPv4 or IPv6 address without a port"))
    }

    /// The error that says that the key is not `wanted`.
    pub(super) fn unreadable(&self, wanted: &'static str) -> ProfileError {
        ProfileError::Key { place: self.place, key: self.member.key.into(), wanted }
    }

    /// The error that says that the weight breaks `rule`.
    pub(super) fn bad_weight(&self, rule: &'static str) -> ProfileError {
        ProfileError::Weight {
            place: self.place,
            key: self.member.key.into(),
            weight: self.member.weight,
            rule,
        }
    }
}
