//! The judge: where each flow belongs, whether it was broken, and for what reason it may have been.
//!
//! A flow belongs to the server that its first packet reached; a TCP client that repeats its SYN begins again. It is
//! *broken* when a later packet does not reach that server although the server serves its flows, and *lost* when the
//! server is dead or was removed at once. What the server's state is comes from the history, not from a balancer.

use super::balancer::{View, Went};
use super::history::{Server, World};
use super::settings::Settings;
use super::traffic::{Kind, Millis};

/// Why a flow broke. Every reason but the last is a limit that the design states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It had to be remembered, and its place in the flow table was full of live flows.
    NoRoom,
    /// It came to another balancer after its slot was unsettled there when it began: the flow is newer than the change,
    /// and nobody but its first balancer knows.
    NewerThanChange,
    /// It came to a balancer that had seen no flow of this slot for the idle time since the change, and had settled it
    /// (of UDP: the grace of the change was over).
    SettledElsewhere,
    /// It came to a balancer that lost its memory after the flow's slot had changed.
    Restarted,
    /// It came to a balancer that still remembered an earlier flow of the same addresses and ports.
    EarlierFlow,
    /// None of these. The promise is that this never happens.
    Unexplained,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 6] = [
        Reason::NoRoom,
        Reason::NewerThanChange,
        Reason::SettledElsewhere,
        Reason::Restarted,
        Reason::EarlierFlow,
        Reason::Unexplained,
    ];

    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::NoRoom => "the flow table had no room for it",
            Reason::NewerThanChange => {
                "re-steered; it began after the change, on a slot that was not settled"
            }
            Reason::SettledElsewhere => {
                "re-steered more than an idle time after the change, to a balancer that had settled"
            }
            Reason::Restarted => "re-steered to a balancer that had lost its memory after the change",
            Reason::EarlierFlow => {
                "re-steered to a balancer that remembered an earlier flow of the same ports"
            }
            Reason::Unexplained => "unexplained",
        }
    }
}

/// What became of a packet's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Its first packet, or all is well.
    Fine,
    /// Its server is dead; the flow is over.
    Lost,
    /// Its server is dead; the flow, of a kind that does not notice, lives on at another one.
    Moved,
    /// Its server would have served it.
    Broken { home: Server },
}

/// Where one flow belongs, under one strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Fate {
    #[default]
    Unborn,
    At(Server),
    Over,
}

impl Fate {
    /// Judges a packet that reached `server`. `opens` when a TCP client (re)begins.
    pub(crate) fn judge(
        &mut self,
        server: Option<Server>,
        opens: bool,
        kind: Kind,
        world: &World,
    ) -> Judgement {
        match (*self, server) {
            (Fate::Over, _) => Judgement::Fine,
            (Fate::Unborn, None) => {
                *self = Fate::Over;
                Judgement::Lost
            }
            (Fate::Unborn, Some(server)) => {
                *self = Fate::At(server);
                Judgement::Fine
            }
            (Fate::At(_), Some(server)) if opens => {
                *self = Fate::At(server);
                Judgement::Fine
            }
            (Fate::At(home), Some(server)) if home == server => Judgement::Fine,
            (Fate::At(home), server) if !world.life(home).keeps_flows() => match (kind, server) {
                (Kind::Udp, Some(server)) => {
                    *self = Fate::At(server);
                    Judgement::Moved
                }
                _ => {
                    *self = Fate::Over;
                    Judgement::Lost
                }
            },
            (Fate::At(home), _) => {
                *self = Fate::Over;
                Judgement::Broken { home }
            }
        }
    }

    /// Whether it still sends.
    pub(crate) fn is_over(self) -> bool {
        self == Fate::Over
    }
}

/// What bears on the question whether a break of a flow has a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// When it came to its server.
    pub(crate) began: Millis,
    /// Whether its slot was settled then, on every balancer.
    pub(crate) began_settled: bool,
    /// To whom new flows of its slot went then, on every balancer that agreed with the first.
    pub(crate) owner: Option<Server>,
    /// When the slot's owner changed first since.
    pub(crate) changed: Option<Millis>,
    /// The only balancer that it has been on since, if there is only one.
    pub(crate) only: Option<usize>,
}

/// The balancer at which a flow broke.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) balancer: usize,
    /// When that balancer began with an empty memory.
    pub(crate) up_since: Millis,
    /// When the flow's place in the flow table was last short of room.
    pub(crate) crowded: Option<Millis>,
    /// What it held before the packet.
    pub(crate) view: Option<&'a View>,
    pub(crate) now: Millis,
}

impl Evidence {
    /// Why a flow of `kind` that belongs to `home` broke.
    pub(crate) fn explain(&self, scene: &Scene<'_>, home: Server, kind: Kind, settings: &Settings) -> Reason {
        let crowded = scene.crowded.is_some_and(|at| at >= self.began);
        if self.only == Some(scene.balancer) && scene.up_since <= self.began {
            return if crowded { Reason::NoRoom } else { Reason::Unexplained };
        }
        let remembered = scene.view.and_then(|view| view.remembered);
        let age_seconds = (scene.now - self.began) / 1000;
        if remembered.is_some_and(|entry| {
            entry.server != Some(home) && u64::from(entry.silence_seconds) >= age_seconds
        }) {
            return Reason::EarlierFlow;
        }
        if crowded {
            return Reason::NoRoom;
        }
        let forgot = scene.up_since > self.began;
        if forgot && (!self.began_settled || self.changed.is_some_and(|at| at <= scene.up_since)) {
            return Reason::Restarted;
        }
        if !self.began_settled {
            return Reason::NewerThanChange;
        }
        let idle = if kind == Kind::Tcp { settings.tcp_idle_seconds } else { settings.udp_idle_seconds };
        if self.changed.is_some_and(|at| scene.now - at > u64::from(idle) * 1000) {
            return Reason::SettledElsewhere;
        }
        Reason::Unexplained
    }
}

/// The server that a packet reached.
pub(crate) fn reached(went: Went) -> Option<Server> {
    match went {
        Went::To(server) => Some(server),
        Went::Not(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Change;
    use super::*;

    fn world() -> World {
        World::new(&Settings { backends: 3, ..Settings::default() })
    }

    #[test]
    fn a_flow_belongs_to_the_server_of_its_first_packet() {
        let world = world();
        let mut fate = Fate::default();
        assert_eq!(fate.judge(Some(Server(1)), true, Kind::Tcp, &world), Judgement::Fine);
        assert_eq!(fate.judge(Some(Server(1)), false, Kind::Tcp, &world), Judgement::Fine);
        let broken = Judgement::Broken { home: Server(1) };
        assert_eq!(fate.judge(Some(Server(2)), false, Kind::Tcp, &world), broken);
        assert!(fate.is_over());
    }

    #[test]
    fn a_draining_server_keeps_its_flows_and_a_reset_breaks_them() {
        let mut world = world();
        world.apply(Change::Remove(Server(1)));
        let mut fate = Fate::At(Server(1));
        assert_eq!(fate.judge(None, false, Kind::Tcp, &world), Judgement::Broken { home: Server(1) });
    }

    #[test]
    fn a_dead_server_loses_its_flows_and_udp_goes_on_elsewhere() {
        let mut world = world();
        world.apply(Change::Down(Server(1)));
        let (mut tcp, mut udp) = (Fate::At(Server(1)), Fate::At(Server(1)));
        assert_eq!(tcp.judge(Some(Server(2)), false, Kind::Tcp, &world), Judgement::Lost);
        assert_eq!(udp.judge(Some(Server(2)), false, Kind::Udp, &world), Judgement::Moved);
        assert_eq!(udp, Fate::At(Server(2)));
    }

    #[test]
    fn a_flow_that_stayed_has_no_excuse_but_a_full_table() {
        let settings = Settings::default();
        let evidence =
            Evidence { began: 5_000, began_settled: false, owner: None, changed: Some(6_000), only: Some(0) };
        let scene = Scene { balancer: 0, up_since: 0, crowded: None, view: None, now: 900_000 };
        let explain =
            |evidence: Evidence, scene: Scene<'_>| evidence.explain(&scene, Server(1), Kind::Tcp, &settings);
        assert_eq!(explain(evidence, scene), Reason::Unexplained);
        assert_eq!(explain(evidence, Scene { crowded: Some(7_000), ..scene }), Reason::NoRoom);
        assert_eq!(explain(evidence, Scene { crowded: Some(4_000), ..scene }), Reason::Unexplained);
        assert_eq!(explain(evidence, Scene { balancer: 1, ..scene }), Reason::NewerThanChange);
        assert_eq!(explain(evidence, Scene { up_since: 7_000, ..scene }), Reason::Restarted);
    }

    #[test]
    fn a_flow_from_a_settled_slot_has_no_excuse_within_the_idle_time() {
        let settings = Settings::default();
        let evidence =
            Evidence { began: 5_000, began_settled: true, owner: None, changed: Some(10_000), only: None };
        let scene = Scene { balancer: 1, up_since: 0, crowded: None, view: None, now: 309_000 };
        let explain =
            |evidence: Evidence, scene: Scene<'_>| evidence.explain(&scene, Server(1), Kind::Tcp, &settings);
        assert_eq!(explain(evidence, scene), Reason::Unexplained);
        assert_eq!(explain(evidence, Scene { now: 311_000, ..scene }), Reason::SettledElsewhere);
        assert_eq!(explain(Evidence { changed: None, ..evidence }, scene), Reason::Unexplained);
        assert_eq!(explain(evidence, Scene { up_since: 9_000, ..scene }), Reason::Unexplained);
        assert_eq!(explain(evidence, Scene { up_since: 11_000, ..scene }), Reason::Restarted);
    }
}
