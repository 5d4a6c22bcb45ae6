//! `guideway backend list` and `show`: what the daemon knows of backends.

use std::io::Write;

use guideway_control::counted;
use guideway_daemon::model::{Backend, NextHop};
use serde_json::Value;

use crate::command::live::again::Again;
use crate::command::live::{legend, service};
use crate::daemon_client::{DaemonArgs, segment};
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// All backends of the daemon at work, or those of a service
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Only those of this service
    #[arg(value_name = "SERVICE")]
    service: Option<String>,
    #[command(flatten)]
    again: Again,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A backend of the daemon at work, with all that is known of it
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The service
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The backend
    #[arg(value_name = "BACKEND")]
    backend: String,
    #[command(flatten)]
    again: Again,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn list(args: &ListArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let path = match &args.service {
        Some(service) => format!("/v1/backends?service={}", segment(service)),
        None => "/v1/backends".to_owned(),
    };
    args.again.show(screen, |screen| {
        let answer = args.daemon.get(&path)?;
        if args.json {
            screen.json(&answer.value::<Value>()?)?;
            return Ok(Outcome::Ok);
        }
        service::backends_of_all(&answer.value::<Vec<Backend>>()?, screen)?;
        Ok(Outcome::Ok)
    })
}

pub(super) fn show(args: &ShowArgs, screen: &mut Screen) -> Result<Outcome, Failure> {
    let path = format!("/v1/services/{}/backends/{}", segment(&args.service), segment(&args.backend));
    args.again.show(screen, |screen| {
        let answer = args.daemon.get(&path)?;
        if args.json {
            screen.json(&answer.value::<Value>()?)?;
            return Ok(Outcome::Ok);
        }
        let backend: Backend = answer.value()?;
        service::backends(std::slice::from_ref(&backend), screen)?;
        if let Some(text) = service::health(&backend) {
            writeln!(screen, "  checks: {text}")?;
        }
        if let Some(next_hop) = &backend.next_hop {
            let NextHop { interface, interface_name, mac, mtu, packet_bytes } = next_hop;
            let by = interface_name.clone().unwrap_or_else(|| format!("interface {interface}"));
            writeln!(screen, "  frames go to {mac} by {by}")?;
            // A daemon of an earlier version does not tell.
            if *mtu > 0 {
                writeln!(
                    screen,
                    "  packets of up to {packet_bytes} bytes fit the tunnel, whose MTU is {mtu}"
                )?;
            }
        } else {
            writeln!(screen, "  no way leads there: what is sent to it is dropped")?;
        }
        writeln!(
            screen,
            "  {}, {} since it joined",
            counted(backend.packets_total, "packet", "packets"),
            counted(backend.bytes_total, "byte", "bytes")
        )?;
        legend::of_backends(std::iter::once(&backend), screen)?;
        Ok(Outcome::Ok)
    })
}
