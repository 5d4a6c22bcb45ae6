//! Why a question has no answer.

use guideway_hash::churn::ChurnError;
use guideway_hash::maglev::BuildError;
use guideway_hash::policy::ReconcileError;
use guideway_hash::prime::SizeError;
use guideway_hash::profile::{FlowError, ParamError, ProfileError, UnknownProfile, UnknownState};

/// Why a question has no answer. The page shows the text as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request ends too early.
    #[error(
        "the request ends at word {0}, in the middle of a value; page and module may be of different versions"
    )]
    Short(usize),
    /// The request goes on after its end.
    #[error("the request has {0} words too many; page and module may be of different versions")]
    Long(usize),
    /// A text is not UTF-8.
    #[error("the text at word {0} is not UTF-8")]
    Text(usize),
    /// A value that none of the choices has.
    #[error("{value} is no {what}")]
    Choice {
        /// What it should be.
        what: &'static str,
        /// What it is.
        value: u32,
    },
    /// A question that there is not.
    #[error("question {0} is not known; page and module may be of different versions")]
    Question(u32),
    /// The question is about a policy that has no such thing.
    #[error("{policy} has no {what}")]
    NoSuchThing {
        /// The policy.
        policy: &'static str,
        /// What was asked about.
        what: &'static str,
    },
    /// An address that can't be read.
    #[error("{0:?} is no IP address")]
    Address(String),
    /// No such table size.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The library refuses the table.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The library refuses the backends.
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    /// The library can't compare.
    #[error(transparent)]
    Churn(#[from] ChurnError),
    /// No such profile.
    #[error(transparent)]
    UnknownProfile(#[from] UnknownProfile),
    /// No such state.
    #[error(transparent)]
    UnknownState(#[from] UnknownState),
    /// A parameter that the profile refuses.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A table that the profile refuses.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A flow that the profile can't place.
    #[error(transparent)]
    Flow(#[from] FlowError),
}
