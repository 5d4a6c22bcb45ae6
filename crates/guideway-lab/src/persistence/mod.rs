//! Which connections survive changes of the backends: a model on the real code.
//!
//! A run drives the real controller over the real flow table, slots and records, and puts real frames through the real
//! forwarding core ([`guideway_control::Controller`] over [`guideway_soft::Memory`]), by a virtual clock and from a seed.
//! Clients open TCP, UDP and QUIC flows, pause, move and use their ports again; servers join, leave, drain, die and
//! return; weights, table sizes and the seed change; with several balancers routers re-steer flows between them, and
//! balancers lose their memory. A judge that no balancer informs says of every packet whether its flow is still where
//! it began.
//!
//! ```
//! use guideway_lab::persistence::{self, Settings};
//!
//! let settings = Settings { flows: 50, minutes: 2, changes: 4, backends: 5, slots: 251, ..Settings::default() };
//! let report = persistence::run(&settings, |_, _| {})?;
//! assert!(report.holds());
//! # Ok::<(), persistence::PersistenceError>(())
//! ```

mod balancer;
mod fleet;
mod frame;
mod history;
mod lru;
mod oracle;
mod report;
mod rivals;
#[cfg(test)]
mod scenarios;
mod settings;
mod simulation;
mod strategy;
mod tally;
mod traffic;

pub use history::{Change, Server};
pub use oracle::Reason;
pub use report::{Break, MAX_BREAKS, Report, Row};
pub use settings::{Settings, SettingsError};
pub use simulation::PersistenceError;
pub use strategy::PlainError;
pub use traffic::Kind;

/// Runs the model. `progress` is told how many milliseconds of the virtual clock, of how many, are over.
///
/// # Errors
/// [`PersistenceError`]: the settings make no sense, or the controller refused what the history asks of it.
pub fn run(settings: &Settings, progress: impl FnMut(u64, u64)) -> Result<Report, PersistenceError> {
    simulation::Simulation::new(settings)?.run(progress)
}
