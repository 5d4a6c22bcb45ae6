//! Asking backends: the I/O of checks.
//!
//! [`Driver`] runs the rounds that the board says are due, one task each (those that only connect have one thread for all of them),
//! and hands their answers to [`Answers`]. All of a leg, from the socket to the last byte, happens within the time-out of its
//! check; then it is dropped, and with it its socket, its memory or its program. Dropping the driver drops every round under
//! way.

mod answers;
mod connections;
mod driver;
mod exec;
mod http;
mod progress;
mod tls;
mod transport;
mod udp;

pub use answers::Answers;
pub use driver::{Driver, Options, SetUpError};

use std::net::SocketAddr;
use std::time::Instant;

use super::check::{Check, Way};
use super::round::{Fault, Leg, LegResult, Passed, Stage};
use crate::config::Probe;
use http::Request;
use progress::Progress;
use tls::TlsConfigs;
use transport::{Lack, Transport};

/// Asks one way, and takes no longer than the check allows.
async fn ask(check: &Check, leg: &Leg, tunnel_device: Option<u32>, tls: &TlsConfigs) -> LegResult {
    let progress = Progress::default();
    let began = Instant::now();
    let asked = ask_patiently(check, leg, tunnel_device, tls, &progress);
    let asked = tokio::time::timeout(check.times.timeout, asked).await;
    let result = asked
        .unwrap_or_else(|_| Err(Fault::TimedOut { limit: check.times.timeout, stage: progress.stage() }));
    explained(check, leg, result.map(|()| Passed { took: began.elapsed() }))
}

/// A leg's result, where it failed by what this host lacks with that as the reason.
fn explained(check: &Check, leg: &Leg, result: LegResult) -> LegResult {
    result.map_err(|fault| lacking_here(check, leg, &fault).unwrap_or(fault))
}

/// What this host lacks, where a leg got nowhere because of that. Packets of one through a tunnel leave by the virtual
/// address's route before they are wrapped; by a socket that is bound to a device the kernel does not tell. Without a route
/// to the backend itself, clients' packets get nowhere either, so that one counts.
fn lacking_here(check: &Check, leg: &Leg, fault: &Fault) -> Option<Fault> {
    let got_nowhere =
        matches!(fault, Fault::TimedOut { stage: Stage::Connect, .. } | Fault::Unreachable { .. });
    let to = match leg.way {
        Way::Tunnel { vip, .. } => vip,
        Way::Direct => check.address,
    };
    let lack = if got_nowhere { transport::lack(to) } else { None };
    let said = match lack? {
        Lack::Route if leg.way == Way::Direct => return None,
        Lack::Route => {
            format!(
                "this host has no route to {to}: probes through the tunnel need one, as by a default gateway"
            )
        }
        Lack::Source => format!("this host has no address of its own to ask {to} from"),
    };
    Some(Fault::Local { said })
}

async fn ask_patiently(
    check: &Check,
    leg: &Leg,
    tunnel_device: Option<u32>,
    tls: &TlsConfigs,
    progress: &Progress,
) -> Result<(), Fault> {
    if let Probe::Exec { command } = &*check.probe {
        return exec::ask(command, check, progress).await;
    }
    let transport = transport(check, leg, tunnel_device)?;
    match &*check.probe {
        Probe::Tcp => transport.connect(progress).await.map(|stream| Transport::abandon(&stream)),
        Probe::Udp { send, expect } => {
            udp::ask(&transport, send.as_bytes(), expect.as_deref(), progress).await
        }
        Probe::Http { tls: secure, host, path, status, body } => {
            let request = Request {
                host: host.as_deref(),
                secure: *secure,
                target: transport.target,
                path,
                status,
                body: body.as_deref(),
            };
            let stream = transport.connect(progress).await?;
            if *secure {
                let stream = tls.handshake(check, &request, stream, progress).await?;
                http::ask(&request, stream, progress).await
            } else {
                http::ask(&request, stream, progress).await
            }
        }
        Probe::Exec { .. } => Ok(()),
    }
}

/// Where a leg's packets go, and how they are marked.
fn transport(check: &Check, leg: &Leg, device: Option<u32>) -> Result<Transport, Fault> {
    let local = |said: &str| Fault::Local { said: said.to_owned() };
    let port = check.port.ok_or_else(|| local("the check has no port"))?;
    Ok(match leg.way {
        Way::Direct => Transport { target: SocketAddr::new(check.address, port), mark: None, device: None },
        Way::Tunnel { vip, .. } => {
            let mark = leg.mark.ok_or_else(|| local("no socket mark is left to name its tunnel"))?;
            Transport { target: SocketAddr::new(vip, port), mark: Some(mark), device }
        }
    })
}
