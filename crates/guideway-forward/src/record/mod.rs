//! The records that controller and forwarder share.
//!
//! Each is `#[repr(C)]`, of fixed width, and made of words that are read and written whole: a field that the
//! controller changes while packets flow is an atomic word, so user space needs no `unsafe` to change it and the
//! kernel program reads it with one plain load. A change of any layout raises [`LAYOUT_VERSION`].

pub mod backend;
pub mod books;
pub mod directory;
pub mod flow;
pub mod fragment;
pub mod key;
pub mod pace;
pub mod service;
pub mod settings;
pub mod slot;

pub use backend::{Backend, BackendSpec, BackendState, NextHop};
pub use books::{Books, Tally};
pub use flow::{Bucket, Class, Entry, Info, Tag};
pub use fragment::{FragmentBucket, FragmentEntry};
pub use key::{MAX_SERVICES, NO_SERVICE, PrefixKey, QuicKey, SEVERAL_SERVICES, ServiceId, ServiceKey, Vip};
pub use pace::Pace;
pub use service::{Active, FragmentRule, NoBackendRule, OrphanRule, Policy, Service, TableRef, UdpRule};
pub use settings::{Network, Settings};
pub use slot::{NO_BACKEND, Slot};

/// Raised whenever a record changes its layout or its meaning; pinned maps of another version are not adopted.
pub const LAYOUT_VERSION: u32 = 4;
