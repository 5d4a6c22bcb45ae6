//! Clients: what each flow sends and when, drawn from the seed and the same for every strategy.

use super::settings::Settings;
use crate::random::Random;

/// Milliseconds of the virtual clock.
pub(crate) type Millis = u64;

/// What a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// TCP: a SYN, then data with pauses shorter than the idle time, then FIN, RST or silence.
    Tcp,
    /// UDP: datagrams with pauses shorter than the idle time.
    Udp,
    /// QUIC: Initial and Handshake, then packets with the server's id in their connection id; the client's address may
    /// change.
    Quic,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Tcp, Kind::Udp, Kind::Quic];

    /// The port of the service that takes such flows.
    pub(crate) const fn port(self) -> u16 {
        match self {
            Kind::Tcp => 80,
            Kind::Udp => 53,
            Kind::Quic => 443,
        }
    }

    /// The name of that service.
    pub(crate) const fn service(self) -> &'static str {
        match self {
            Kind::Tcp => "web",
            Kind::Udp => "game",
            Kind::Quic => "quic",
        }
    }
}

/// What a packet is for its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Send {
    /// TCP SYN, QUIC Initial, the first UDP datagram.
    Open,
    /// The end of the handshake: TCP ACK, QUIC Handshake.
    Handshake,
    /// In the middle.
    Data,
    /// TCP FIN.
    Fin,
    /// TCP RST.
    Reset,
}

/// One packet of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// How long after the packet before.
    pub(crate) after: Millis,
    pub(crate) send: Send,
    /// The client has another port from this packet on.
    pub(crate) moves: bool,
}

/// A flow, as its client knows it.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) client: [u8; 4],
    pub(crate) port: u16,
    pub(crate) steps: Vec<Step>,
    /// What the routers choose a balancer by.
    pub(crate) salt: u64,
}

/// Draws flows.
#[derive(Debug)]
pub(crate) struct Traffic {
    random: Random,
    tcp_idle: Millis,
    udp_idle: Millis,
    drawn: u32,
    /// Addresses and ports of flows that are over, to be used again.
    used: Vec<Used>,
}

#[derive(Debug, Clone, Copy)]
struct Used {
    kind: Kind,
    client: [u8; 4],
    port: u16,
    /// From when on.
    at: Millis,
}

/// How many tuples wait to be used again.
const USED: usize = 64;

impl Traffic {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            random: Random::stream(settings.seed, 1),
            tcp_idle: u64::from(settings.tcp_idle_seconds) * 1000,
            udp_idle: u64::from(settings.udp_idle_seconds) * 1000,
            drawn: 0,
            used: Vec::new(),
        }
    }

    /// The next flow, to begin at `now`. The first packet comes `after` its step says.
    pub(crate) fn flow(&mut self, now: Millis) -> Flow {
        let number = self.drawn;
        self.drawn += 1;
        let kind = match self.random.between(0, 10) {
            0..=5 => Kind::Tcp,
            6..=7 => Kind::Udp,
            _ => Kind::Quic,
        };
        let (client, port) = self.tuple(kind, now);
        let steps = match kind {
            Kind::Tcp => self.tcp(),
            Kind::Udp => self.udp(),
            Kind::Quic => self.quic(),
        };
        Flow { number, kind, client, port, steps, salt: self.random.word() }
    }

    /// A flow has sent its last packet at `now`; its ports may be used again.
    pub(crate) fn ended(&mut self, flow: &Flow, now: Millis) {
        let wait = if flow.kind == Kind::Tcp { 0 } else { self.udp_idle };
        if self.used.len() < USED {
            let Flow { kind, client, port, .. } = *flow;
            self.used.push(Used { kind, client, port, at: now + wait });
        }
    }

    fn tuple(&mut self, kind: Kind, now: Millis) -> ([u8; 4], u16) {
        let again = self.used.iter().position(|used| used.kind == kind && used.at <= now);
        if let Some(again) = again
            && self.random.chance(30)
        {
            let used = self.used.swap_remove(again);
            return (used.client, used.port);
        }
        // One address a flow, in 100.64.0.0/10, so that no two live flows share a tuple.
        let [_, b, c, d] = (self.drawn & 0x3f_ffff).to_be_bytes();
        ([100, 64 | b, c, d], self.random.between(1_024, 65_536) as u16)
    }

    fn tcp(&mut self) -> Vec<Step> {
        let mut steps = vec![step(0, Send::Open)];
        // A SYN that nobody answered in time (RFC 6298: after one second).
        if self.random.chance(3) {
            steps.push(step(1_000, Send::Open));
        }
        steps.push(step(self.random.between(5, 200), Send::Handshake));
        self.data(&mut steps, self.tcp_idle);
        match self.random.between(0, 10) {
            0..=6 => {
                steps.push(step(self.random.between(1, 2_000), Send::Fin));
                steps.push(step(self.random.between(5, 3_000), Send::Data));
            }
            7..=8 => steps.push(step(self.random.between(1, 2_000), Send::Reset)),
            // The client vanishes.
            _ => {}
        }
        steps
    }

    fn udp(&mut self) -> Vec<Step> {
        let mut steps = vec![step(0, Send::Open)];
        if !self.random.chance(20) {
            self.data(&mut steps, self.udp_idle);
        }
        steps
    }

    fn quic(&mut self) -> Vec<Step> {
        let mut steps = vec![step(0, Send::Open)];
        if self.random.chance(20) {
            steps.push(step(self.random.between(10, 1_000), Send::Open));
        }
        steps.push(step(self.random.between(5, 200), Send::Handshake));
        let from = steps.len();
        self.data(&mut steps, self.udp_idle);
        for step in &mut steps[from..] {
            step.moves = self.random.chance(1);
        }
        steps
    }

    /// Packets with pauses up to the idle time, over a short, a middling or a long life.
    fn data(&mut self, steps: &mut Vec<Step>, idle: Millis) {
        let life = match self.random.between(0, 10) {
            0..=2 => self.random.between(500, 10_000),
            3..=6 => self.random.between(30_000, 300_000),
            _ => self.random.between(300_000, 1_500_000),
        };
        let mut lived = 0;
        while lived < life {
            let pause = match self.random.between(0, 20) {
                0..=12 => self.random.between(20, 5_000),
                13..=18 => self.random.between(2_000, idle / 4),
                // Up to the last moment at which the flow is not yet over.
                _ => self.random.between(idle / 4, idle),
            };
            lived += pause;
            steps.push(step(pause, Send::Data));
        }
    }
}

const fn step(after: Millis, send: Send) -> Step {
    Step { after, send, moves: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pause_reaches_the_idle_time_and_a_flow_begins_by_opening() {
        let settings = Settings::default();
        let mut traffic = Traffic::new(&settings);
        for _ in 0..500 {
            let flow = traffic.flow(0);
            let idle =
                if flow.kind == Kind::Tcp { settings.tcp_idle_seconds } else { settings.udp_idle_seconds };
            assert_eq!(flow.steps[0].send, Send::Open);
            assert!(flow.steps.iter().all(|step| step.after < u64::from(idle) * 1000));
        }
    }

    #[test]
    fn ports_are_used_again_only_by_the_same_kind_and_after_their_flow() {
        let mut traffic = Traffic::new(&Settings::default());
        let first = traffic.flow(0);
        traffic.ended(&first, 5_000);
        let mut again = 0;
        for _ in 0..200 {
            let flow = traffic.flow(100_000);
            if (flow.client, flow.port) == (first.client, first.port) {
                assert_eq!(flow.kind, first.kind);
                again += 1;
            }
        }
        assert_eq!(again, 1);
    }
}
