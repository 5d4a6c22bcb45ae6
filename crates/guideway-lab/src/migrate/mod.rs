//! What a migration moves: from one policy or system to another, on the same backends.
//!
//! Flows of made-up clients are resolved as either side's packet path would resolve them, each by its own flow hash and its own
//! table; see [`System`]. What resolves elsewhere is counted by flow, by client and by backend, and [`Check`] says what a user
//! should look at before the change.

mod check;
#[cfg(test)]
mod slowly;
mod system;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use guideway_hash::churn::{Balance, Churn};
use guideway_hash::policy::{Candidate, Roster};
use guideway_hash::profile::Flow;
use serde::Serialize;

pub use check::Check;
pub use system::{Backend, System, SystemError};

use crate::Estimate;
use crate::random::Random;
use crate::refusal::{Refusal, some, within};
use system::Resolver;

/// What is to be computed. Equal settings give equal reports.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Decides the clients.
    pub seed: u64,
    /// Before.
    pub from: System,
    /// After.
    pub to: System,
    /// Those that take new flows, on either side.
    pub backends: Vec<Backend>,
    /// The service's address and port. Its family is that of the clients.
    pub service: SocketAddr,
    /// The IP protocol number, 6 for TCP.
    pub protocol: u8,
    /// Clients, each with an address of its own.
    pub clients: u32,
    /// Flows of each client, from ports that differ.
    pub flows_per_client: u32,
}

/// What a migration moves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Decided the clients.
    pub seed: u64,
    /// Clients.
    pub clients: u32,
    /// Flows.
    pub flows: u64,
    /// Before.
    pub from: Side,
    /// After.
    pub to: Side,
    /// Flows that resolve elsewhere.
    pub moved: u64,
    /// Their share, 0 to 1, by client: flows of one client are not independent, so a client is what is drawn.
    pub share: Estimate,
    /// The fewest flows that could move for each backend to end with as many as it does.
    pub least: u64,
    /// Clients of whom at least one flow resolves elsewhere.
    pub clients_moved: u64,
    /// One backend a row, in the order given.
    pub backends: Vec<Row>,
    /// What to look at before the change.
    pub checks: Vec<Check>,
}

/// One side of a migration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// What it is.
    pub name: String,
    /// What its packet path hashes, in words.
    pub flow_hash: &'static str,
    /// Slots of its table, if it has one.
    pub slots: Option<u32>,
    /// The highest load of a backend, in flows.
    pub max_over_mean: f64,
    /// The share of clients all of whose flows go to one backend, 0 to 1.
    pub together: f64,
    /// Where it does what its user may not want.
    pub warnings: Vec<String>,
}

/// What one backend gains and loses, in flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// Flows before.
    pub before: u64,
    /// Flows after.
    pub after: u64,
    /// Flows that stay.
    pub kept: u64,
    /// Flows that come from others.
    pub gained: u64,
    /// Flows that go to others.
    pub lost: u64,
}

/// Why a migration can't be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The settings make no sense.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A side does not take these backends.
    #[error("{side}, {name}: {error}")]
    Side {
        /// `before` or `after`.
        side: &'static str,
        /// The system.
        name: String,
        /// Why not.
        error: SystemError,
    },
}

/// The most flows of an experiment. All of them are held in memory, some 50 bytes each.
const MOST_FLOWS: u64 = 20_000_000;

/// Resolves the clients' flows on both sides.
///
/// # Errors
/// [`MigrateError`].
pub fn run(settings: &Settings) -> Result<Report, MigrateError> {
    settings.check()?;
    let resolver = |system: &System, side| {
        let built = system.resolver(&settings.backends, settings.protocol);
        built.map_err(|error| MigrateError::Side { side, name: system.to_string(), error })
    };
    let (from, to) = (resolver(&settings.from, "before")?, resolver(&settings.to, "after")?);
    let flows = settings.flows();
    let owners = |resolver: &Resolver| flows.iter().map(|flow| resolver.owner(flow)).collect::<Vec<u32>>();
    let (was, is) = (owners(&from), owners(&to));

    let candidates: Vec<Candidate<'_>> =
        settings.backends.iter().map(|backend| Candidate::new(&backend.name)).collect();
    let duplicate = |error| Refusal::Policy { policy: "of either side".into(), error };
    let roster = Roster::new(&candidates).map_err(duplicate)?;
    let churn = Churn::of_owners(&roster, &roster, false, was.iter().copied().zip(is.iter().copied()))
        .map_err(Refusal::from)?;

    let each = settings.flows_per_client as usize;
    let shares: Vec<f64> = was
        .chunks(each)
        .zip(is.chunks(each))
        .map(|(was, is)| was.iter().zip(is).filter(|(old, new)| old != new).count() as f64 / each as f64)
        .collect();
    let mut rows: Vec<Row> = settings.backends.iter().map(Row::new).collect();
    for (&old, &new) in was.iter().zip(&is) {
        rows[old as usize].before += 1;
        rows[new as usize].after += 1;
        if old == new {
            rows[old as usize].kept += 1;
        } else {
            rows[old as usize].lost += 1;
            rows[new as usize].gained += 1;
        }
    }
    let mut report = Report {
        seed: settings.seed,
        clients: settings.clients,
        flows: flows.len() as u64,
        from: side(
            &settings.from,
            from,
            &was,
            each,
            rows.iter().map(|row| (row.before, row.weight)).collect(),
        ),
        to: side(&settings.to, to, &is, each, rows.iter().map(|row| (row.after, row.weight)).collect()),
        moved: churn.moves.moved(),
        clients_moved: shares.iter().filter(|&&share| share > 0.0).count() as u64,
        share: Estimate::of(shares).unwrap_or(Estimate::NOTHING),
        least: churn.least,
        backends: rows,
        checks: Vec::new(),
    };
    report.checks = check::all(&report);
    Ok(report)
}

fn side(system: &System, resolver: Resolver, owners: &[u32], each: usize, loads: Vec<(u64, u32)>) -> Side {
    let alone = |owners: &&[u32]| owners.iter().collect::<BTreeSet<_>>().len() == 1;
    let together = owners.chunks(each).filter(alone).count();
    let weighted = system.is_weighted();
    let load = |(count, weight)| (count, if weighted { weight } else { 1 });
    Side {
        name: system.to_string(),
        flow_hash: system.flow_hash(),
        slots: resolver.slots(),
        max_over_mean: Balance::of(loads.into_iter().map(load).collect::<Vec<_>>())
            .map_or(0.0, |balance| balance.max_over_mean),
        together: together as f64 / owners.len().div_ceil(each).max(1) as f64,
        warnings: resolver.warnings,
    }
}

impl Row {
    fn new(backend: &Backend) -> Self {
        let (name, weight) = (backend.name.clone(), backend.weight);
        Self { name, weight, before: 0, after: 0, kept: 0, gained: 0, lost: 0 }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Refusal> {
        within("the number of clients", self.clients, 1, 10_000_000)?;
        within("the number of flows a client", self.flows_per_client, 1, 1_000)?;
        let flows = u64::from(self.clients) * u64::from(self.flows_per_client);
        if flows > MOST_FLOWS {
            let what = "the number of flows of all clients";
            return Err(Refusal::Range { what, given: flows, least: 1, most: MOST_FLOWS });
        }
        some("backend", &self.backends)
    }

    /// The flows, client after client.
    fn flows(&self) -> Vec<Flow> {
        let mut random = Random::stream(self.seed, 0);
        let mut flows = Vec::new();
        for _ in 0..self.clients {
            let source: IpAddr = match self.service {
                SocketAddr::V4(_) => (random.word() as u32).to_be_bytes().into(),
                // In 2001:db8::/32, which is for documents.
                SocketAddr::V6(_) => {
                    let low = u128::from(random.word()) << 64 | u128::from(random.word());
                    (0x2001_0db8_u128 << 96 | low >> 32).to_be_bytes().into()
                }
            };
            let first = random.between(1024, 65_536 - u64::from(self.flows_per_client));
            flows.extend((0..u64::from(self.flows_per_client)).map(|number| Flow {
                source,
                destination: self.service.ip(),
                source_port: (first + number) as u16,
                destination_port: self.service.port(),
                protocol: self.protocol,
            }));
        }
        flows
    }
}
