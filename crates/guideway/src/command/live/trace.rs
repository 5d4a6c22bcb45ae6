//! `guideway trace`: real packets with their verdicts.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use guideway_control::counted;
use guideway_daemon::model::{Trace, Traced};
use serde_json::Value;

use crate::daemon_client::DaemonArgs;
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style, printable};
use crate::times;

/// The longest that the daemon waits.
const LONGEST: Duration = Duration::from_secs(25);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
For as long as this runs, a small program stands before the balancer's in the kernel and copies packets out; with --engine soft, packet sockets do. \
The verdict is what such a packet meets by the live state a moment later, as `guideway explain` tells it: a flow's own first packet may have been \
remembered by then. Filters choose among what was copied; on a busy machine, --rarity has the kernel copy less.

Exit codes:
  0  packets came
  1  failed
  2  the command line is wrong
  3  the daemon cannot be reached
  4  none came in time

Examples:
  guideway trace --count 20
  guideway trace --client 198.51.100.7 --protocol tcp --timeout 20s
  guideway trace --rarity 10 --json")]
pub(crate) struct Args {
    /// So many packets at most, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    count: u32,
    /// How long packets are waited for, 1s to 25s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = times::between(Duration::from_secs(1), LONGEST))]
    timeout: humantime::Duration,
    /// Only those from this address
    #[arg(long, value_name = "ADDRESS")]
    client: Option<IpAddr>,
    /// Only those to this address
    #[arg(long, value_name = "ADDRESS")]
    vip: Option<IpAddr>,
    /// Only those of this protocol
    #[arg(long, value_parser = ["tcp", "udp", "icmp", "icmpv6"])]
    protocol: Option<String>,
    /// Have the kernel copy one packet in 2^N
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=30))]
    rarity: u32,
    /// Show packets as well that are left to the host
    #[arg(long)]
    passed: bool,
    /// Show each step of a verdict
    #[arg(long)]
    steps: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let timeout = times::seconds(args.timeout);
    let mut path = format!(
        "/v1/trace?count={}&timeout_seconds={}&rarity={}&passed={}",
        args.count, timeout, args.rarity, args.passed
    );
    let address = |address: Option<IpAddr>| address.map(|address| address.to_string());
    for (key, value) in
        [("client", address(args.client)), ("vip", address(args.vip)), ("protocol", args.protocol.clone())]
    {
        if let Some(value) = value {
            path += &format!("&{key}={value}");
        }
    }
    let answer = args.daemon.post(&path, &[])?;
    let trace: Trace = answer.value()?;
    if args.json {
        screen.json(&answer.value::<Value>()?)?;
    } else {
        for packet in &trace.packets {
            show(packet, args.steps, screen)?;
        }
        let lost = if trace.lost > 0 { format!(", {} more had no room", trace.lost) } else { String::new() };
        let looked_at = counted(trace.looked_at, "packet that was", "packets that were");
        let text = format!("{} of {looked_at} looked at{lost}", trace.packets.len());
        let text = screen.paint(Style::Faint, text);
        writeln!(screen, "{text}")?;
    }
    if trace.packets.is_empty() {
        screen.finish()?;
        return Err(Failure::TimedOut(format!("no such packet came within {timeout} s")));
    }
    Ok(Outcome::Ok)
}

fn show(packet: &Traced, steps: bool, screen: &mut Screen) -> Result<(), Failure> {
    let verdict = &packet.verdict;
    let fate = match (&verdict.service, &verdict.backend, &verdict.decided_by) {
        (Some(service), Some(backend), Some(by)) => {
            format!("{} to {service}/{backend} by {by}", verdict.outcome)
        }
        _ => format!("{}: {}", verdict.outcome, verdict.meaning),
    };
    let line = format!(
        "{}  {:<4} {} > {}  {} bytes  {fate}",
        packet.at, packet.protocol, packet.source, packet.destination, packet.bytes
    );
    writeln!(screen, "{}", printable(&line))?;
    if steps {
        for step in &verdict.steps {
            writeln!(screen, "    {}", printable(step))?;
        }
    }
    Ok(())
}
