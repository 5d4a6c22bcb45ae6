//! Samples of real packets, each with what such a packet meets.
//!
//! A thread of its own reads packets and the loop explains those that fit, one by one, so that neither waits for the other
//! longer than for a packet.

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::State;
use axum::routing::{MethodRouter, post};
use guideway_wire::{IpProtocol, Parsed, parse};
use guideway_xdp::sampler::Arrival;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::desk::Loop;
use super::explain::explain_frame;
use super::model::{Trace, Traced};
use super::problem::{Kind, Refusal, within};
use super::route::{Asked, Nothing};
use super::view::stamp;
use crate::tap::Place;

/// Packets in an answer unless the request says otherwise, and at most.
const COUNT: usize = 10;
const MAX_COUNT: usize = 1_000;

/// How long packets are waited for unless the request says otherwise, and at most, seconds.
const TIMEOUT: u64 = 5;
const MAX_TIMEOUT: u64 = 25;

/// How often whoever reads looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Packets that may wait to be explained; those that come then are passed over.
const WAITING: usize = 256;

/// Which packets.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhichPackets {
    /// How many; 10 unless it is said, 1 to 1,000.
    #[schemars(range(min = 1, max = MAX_COUNT))]
    count: Option<usize>,
    /// How long they are waited for; 5 unless it is said, 1 to 25.
    #[schemars(range(min = 1, max = MAX_TIMEOUT))]
    timeout_seconds: Option<u64>,
    /// Only those from this address.
    #[schemars(with = "Option<String>")]
    client: Option<IpAddr>,
    /// Only those to this address.
    #[schemars(with = "Option<String>")]
    vip: Option<IpAddr>,
    /// Only those of this protocol: `tcp`, `udp`, `icmp` or `icmpv6`.
    protocol: Option<String>,
    /// The kernel copies one packet in 2^rarity out; 0 unless it is said, 30 at most.
    #[schemars(range(max = 30))]
    rarity: Option<u32>,
    /// Whether packets that go on to the host are of interest as well, as those to no service.
    passed: Option<bool>,
}

impl WhichPackets {
    fn check(&self) -> Result<(), Refusal> {
        within("count", self.count.unwrap_or(COUNT), &(1..=MAX_COUNT))?;
        within("timeout_seconds", self.timeout_seconds.unwrap_or(TIMEOUT), &(1..=MAX_TIMEOUT))?;
        within("rarity", self.rarity.unwrap_or(0), &(0..=30))?;
        match self.protocol.as_deref() {
            None | Some("tcp" | "udp" | "icmp" | "icmpv6") => Ok(()),
            Some(other) => Err(Refusal::bad(format!(
                "there is no protocol {other:?} here; there are tcp, udp, icmp and icmpv6"
            ))),
        }
    }

    fn fits(&self, parsed: &Parsed) -> bool {
        let is =
            |wanted: Option<IpAddr>, address| wanted.is_none_or(|wanted| wanted.to_canonical() == address);
        is(self.client, IpAddr::from(parsed.key.src).to_canonical())
            && is(self.vip, IpAddr::from(parsed.key.dst).to_canonical())
            && self.protocol.as_ref().is_none_or(|wanted| *wanted == protocol(parsed.key.protocol))
    }
}

/// The route's handler.
pub(super) fn handler() -> MethodRouter<Loop> {
    post(|State(to_loop): State<Loop>, asked: Asked<Nothing, WhichPackets>| async move {
        trace(&to_loop, asked.query).await.map(axum::Json)
    })
}

async fn trace(to_loop: &Loop, which: WhichPackets) -> Result<Trace, Refusal> {
    which.check()?;
    let alone = to_loop.trace_alone().ok_or_else(|| {
        Refusal::new(Kind::Refused, "packets are being sampled for somebody else; try again")
    })?;
    let place = to_loop.on(|desk| Place::of(desk.core)).await?;
    let (sender, mut packets) = mpsc::channel(WAITING);
    let count = which.count.unwrap_or(COUNT);
    let passed = which.passed.unwrap_or(false);
    let reader = tokio::task::spawn_blocking(move || {
        let read = read(&place, &which, &sender);
        drop(alone);
        read
    });
    let mut traced = Vec::new();
    while traced.len() < count {
        let Some((at, arrival, parsed)) = packets.recv().await else { break };
        let verdict =
            to_loop.on(move |desk| explain_frame(desk.core, &arrival.frame).map(|tried| (tried, arrival)));
        let Some((verdict, arrival)) = verdict.await? else { continue };
        if passed || !verdict.outcome.starts_with("passed") {
            traced.push(Traced {
                at: stamp(at),
                interface: arrival.interface,
                bytes: arrival.length,
                source: place_of(&parsed, true),
                destination: place_of(&parsed, false),
                protocol: protocol(parsed.key.protocol),
                verdict,
            });
        }
    }
    // Whoever reads ends with that.
    drop(packets);
    let read = reader.await.map_err(|error| Refusal::new(Kind::Fault, error.to_string()))?;
    let (looked_at, lost) = read.map_err(|why| Refusal::new(Kind::Refused, why))?;
    Ok(Trace { packets: traced, looked_at, lost })
}

type Found = (SystemTime, Arrival, Parsed);

/// Reads packets until nobody wants more or the time is over: how many were looked at, and how many were lost.
fn read(place: &Place, which: &WhichPackets, found: &mpsc::Sender<Found>) -> Result<(u64, u64), String> {
    let mut tap = place.open(which.rarity.unwrap_or(0))?;
    let end = Instant::now() + Duration::from_secs(which.timeout_seconds.unwrap_or(TIMEOUT));
    let (mut looked_at, mut passed_over) = (0, 0);
    while !found.is_closed() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let arrivals =
            tap.wait(left.min(LOOK_EVERY)).map_err(|error| format!("packets cannot be read: {error}"))?;
        let now = SystemTime::now();
        for arrival in arrivals {
            looked_at += 1;
            if let Ok(parsed) = parse(&arrival.frame[..])
                && which.fits(&parsed)
                && let Err(mpsc::error::TrySendError::Full(_)) = found.try_send((now, arrival, parsed))
            {
                passed_over += 1;
            }
        }
    }
    Ok((looked_at, tap.lost() + passed_over))
}

/// A protocol's name, or its number.
pub(super) fn protocol(protocol: IpProtocol) -> String {
    match protocol {
        IpProtocol::TCP => "tcp".to_owned(),
        IpProtocol::UDP => "udp".to_owned(),
        IpProtocol::ICMP => "icmp".to_owned(),
        IpProtocol::ICMPV6 => "icmpv6".to_owned(),
        IpProtocol(number) => number.to_string(),
    }
}

/// Where a packet comes from or goes to.
fn place_of(parsed: &Parsed, source: bool) -> String {
    let key = &parsed.key;
    let (address, port) = if source { (key.src, key.src_port) } else { (key.dst, key.dst_port) };
    let address = IpAddr::from(address).to_canonical();
    match key.protocol {
        IpProtocol::TCP | IpProtocol::UDP => std::net::SocketAddr::from((address, port)).to_string(),
        _ => address.to_string(),
    }
}
