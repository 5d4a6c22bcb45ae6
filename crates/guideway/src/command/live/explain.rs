//! `guideway explain`: what the forwarder does with a flow now.

use std::io::Write;
use std::net::SocketAddr;

use guideway_daemon::model::Explanation;
use serde_json::Value;

use crate::daemon_client::{DaemonArgs, segment};
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
For TCP both are told: what the first packet of a connection meets, and what a later one does.
With the kernel's forwarder the loaded program is run on the packet as well, as a referee of what is told. It is not asked where the packet \
would be remembered, as on an unsettled slot: this packet is made up, and its flow must not be found in the flow table later. With \
--engine soft there is no other program to ask.

Exit codes:
  0  told; and where the loaded program was asked, it agrees
  1  it disagrees, or failed
  2  the command line is wrong
  3  the daemon cannot be reached

Example:
  guideway explain 198.51.100.7:51514 192.0.2.10:443 tcp")]
pub(crate) struct Args {
    /// Where the flow comes from; an IPv6 address stands in brackets
    #[arg(value_name = "SRC:PORT", value_parser = place)]
    source: SocketAddr,
    /// Where it goes to
    #[arg(value_name = "DST:PORT", value_parser = place)]
    destination: SocketAddr,
    /// Its protocol
    #[arg(value_enum)]
    protocol: Protocol,
    /// Don't run the loaded program, which counts the packet
    #[arg(long)]
    no_referee: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    Tcp,
    Udp,
}

fn place(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "it has to be ADDRESS:PORT, as 192.0.2.10:443 or [2001:db8::10]:443")
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let protocol = match args.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    if args.source.is_ipv4() != args.destination.is_ipv4() {
        return Err(Failure::usage("a flow has one family: SRC and DST have to be both IPv4 or both IPv6"));
    }
    let [source, destination] = [args.source, args.destination].map(|place| segment(&place.to_string()));
    let path = format!("/v1/explain?source={source}&destination={destination}&protocol={protocol}");
    let answer = if args.no_referee { args.daemon.get(&path)? } else { args.daemon.post(&path, &[])? };
    let explanation: Explanation = answer.value()?;
    if args.json {
        screen.json(&answer.value::<Value>()?)?;
    } else {
        for packet in &explanation.packets {
            let what = match packet.packet.as_str() {
                "tcp-syn" => "the first packet of a connection",
                "tcp-ack" => "a later packet of a connection",
                _ => "a packet",
            };
            let heading = screen.paint(Style::Heading, what);
            writeln!(screen, "{heading}")?;
            for step in &packet.steps {
                writeln!(screen, "  {step}")?;
            }
            if let Some(referee) = &packet.referee {
                let word = match referee.agrees {
                    Some(true) => "the loaded program agrees",
                    Some(false) => "THE LOADED PROGRAM DISAGREES",
                    None => "the loaded program",
                };
                writeln!(screen, "  {word}: {}", referee.said)?;
            }
        }
    }
    let disagrees = |packet: &guideway_daemon::model::Tried| {
        packet.referee.as_ref().is_some_and(|referee| referee.agrees == Some(false))
    };
    Ok(if explanation.packets.iter().any(disagrees) { Outcome::Differs } else { Outcome::Ok })
}
