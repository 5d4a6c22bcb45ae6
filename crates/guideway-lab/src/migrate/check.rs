//! What to look at before a migration.

use serde::Serialize;

use super::Report;

/// Something to look at before a migration, because of what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Nothing moves.
    NothingMoves,
    /// Flows move: what backends hold for their clients is somewhere else.
    ClientState,
    /// Flows move: connections that no balancer remembers by the time they speak again.
    LongIdle,
    /// Flows move: two kinds of balancers behind the same routers.
    MixedFleet,
    /// Clients whose flows went to one backend are spread over several.
    AffinityLost,
    /// Clients whose flows were spread go to one backend.
    AffinityGained,
    /// Some backend gets a share that is larger by a tenth or more.
    Capacity,
    /// The weights differ, and one side takes no notice of them.
    WeightsIgnored,
}

impl Check {
    /// What to look at, and why.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NothingMoves => {
                "No flow of the sample resolves elsewhere: either side can take over from the other."
            }
            Self::ClientState => {
                "State that a backend holds for its clients (sessions in memory, caches, rate limits, uploads in parts): clients that \
                 move meet a backend that knows nothing of them. Share that state, or let clients begin anew."
            }
            Self::LongIdle => {
                "Connections that are open at the time of the change: they stay only where something remembers them. One that is idle for \
                 longer than the balancer's idle time (pools, WebSocket, SSH, database sessions) resolves anew when it speaks again, and is \
                 reset. Raise the idle time, use keep-alives, or drain first."
            }
            Self::MixedFleet => {
                "Balancers of both kinds behind one address: a flow that routers send to the other kind resolves elsewhere, so change \
                 all of a fleet's balancers at one moment, or move services one by one to an address of their own."
            }
            Self::AffinityLost => {
                "Affinity by address: clients all of whose flows went to one backend are spread over several. If the application relies on \
                 that, hash by source address on the new side too."
            }
            Self::AffinityGained => {
                "Large clients (proxies, address translation of an office or a carrier): all of their flows go to one backend now, which \
                 must carry them."
            }
            Self::Capacity => {
                "Capacity: some backends get a share of flows that is larger by a tenth or more (see the rows)."
            }
            Self::WeightsIgnored => {
                "Weights: they differ, and one of the two sides takes no notice of them, so shares change accordingly."
            }
        }
    }
}

/// What there is to look at.
pub(super) fn all(report: &Report) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut add = |check, applies| {
        if applies {
            checks.push(check);
        }
    };
    let moves = report.moved > 0;
    add(Check::NothingMoves, !moves);
    for check in [Check::ClientState, Check::LongIdle, Check::MixedFleet] {
        add(check, moves);
    }
    // By chance alone a few clients' flows stay together.
    add(Check::AffinityLost, report.from.together > report.to.together + 0.25);
    add(Check::AffinityGained, report.to.together > report.from.together + 0.25);
    // Small shares differ by chance.
    add(
        Check::Capacity,
        report.backends.iter().any(|row| row.after >= 100 && row.after * 10 > row.before * 11),
    );
    let differ = report.backends.windows(2).any(|pair| pair[0].weight != pair[1].weight);
    let follows = |owned: fn(&super::Row) -> u64| {
        let heaviest = report.backends.iter().max_by_key(|row| row.weight);
        let lightest = report.backends.iter().min_by_key(|row| row.weight);
        heaviest.zip(lightest).is_some_and(|(heavy, light)| {
            // At least a third of the way from equal shares to exact ones.
            let wanted = f64::from(heavy.weight) / f64::from(light.weight.max(1));
            owned(heavy) as f64 / owned(light).max(1) as f64 > 1.0 + (wanted - 1.0) / 3.0
        })
    };
    add(Check::WeightsIgnored, differ && follows(|row| row.before) != follows(|row| row.after));
    checks
}
