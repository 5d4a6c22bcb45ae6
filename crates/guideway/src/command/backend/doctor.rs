//! `guideway backend doctor`.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

use guideway_control::counted;
use guideway_forward::tunnel_end::{EndOutcome, Role};
use guideway_xdp::end::{self, Decapsulator, Hook, InFront, Which};
use guideway_xdp::occupant::{Occupant, occupant};
use guideway_xdp::ownership::exposed;
use serde::Serialize;

use super::host::Host;
use super::netlink::Netlink;
use super::place::Places;
use super::record::Record;
use super::sysctl;
use super::up::list;
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};

/// Say what is wrong with this host as a backend, and what to do about it
///
/// Looks at the interface, the virtual addresses, the kernel's settings, the decapsulator with its counters, and the
/// clamp; nothing is changed. Each finding is a line, ok, warn or fail, and has its remedy below it, as a command where
/// there is one. It examines hosts that `guideway backend up` has set up, and, with --vip and --listen-on, any other.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  nothing failed
  1  something failed, or this host can't be examined
  2  the command line is wrong

Examples:
  guideway backend doctor
  guideway backend doctor --vip 192.0.2.10 --listen-on eth0
  guideway backend doctor --json")]
pub(crate) struct Args {
    /// A virtual address that this backend should serve; unless given, those that `up` was told
    #[arg(long = "vip", value_name = "ADDRESS", value_delimiter = ',')]
    vips: Vec<IpAddr>,
    /// The interface that the balancer's packets come by; unless given, the one that `up` was told
    #[arg(long, value_name = "INTERFACE")]
    listen_on: Option<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Places,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
struct Finding {
    grade: Grade,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(what: impl Into<String>) -> Finding {
        Finding { grade: Grade::Ok, what: what.into(), remedy: None }
    }

    fn warn(what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { grade: Grade::Warn, what: what.into(), remedy: Some(remedy.into()) }
    }

    fn fail(what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { grade: Grade::Fail, what: what.into(), remedy: Some(remedy.into()) }
    }
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let told = Record::of_here(&args.places.record())?;
    let pins = args.places.pins(told.as_ref())?;
    let told = told.unwrap_or_default();
    let vips = if args.vips.is_empty() { told.vips.clone() } else { args.vips.clone() };
    let listen_on = args.listen_on.clone().unwrap_or_else(|| told.listen_on.clone());
    if vips.is_empty() || listen_on.is_empty() {
        return Err(Failure::usage(
            "`guideway backend up` was not run on this host; say what to examine: --vip ADDRESS --listen-on INTERFACE",
        ));
    }
    let host = Host::look(&listen_on)?;
    let mut findings = links(&host, &listen_on);
    findings.extend(addresses(&host, &vips, &listen_on));
    if vips.iter().any(IpAddr::is_ipv4) {
        findings.extend(settings(&listen_on)?);
    }
    findings.extend(programs(&pins, &host, &listen_on, told.listen_on == listen_on));
    if !told.listen_on.is_empty() {
        findings.push(clamp(&pins, &host, &told));
        findings.extend(in_front(&pins, Which::Clamp, &told.egress));
    }
    let failed = findings.iter().any(|finding| finding.grade == Grade::Fail);
    if args.json {
        screen.json(&serde_json::json!({ "ok": !failed, "findings": findings }))?;
    } else {
        show(&findings, screen)?;
    }
    Ok(if failed { Outcome::Differs } else { Outcome::Ok })
}

fn show(findings: &[Finding], screen: &mut Screen) -> Result<(), Failure> {
    for finding in findings {
        let (word, style) = match finding.grade {
            Grade::Ok => ("ok", Style::Good),
            Grade::Warn => ("warn", Style::Heading),
            Grade::Fail => ("fail", Style::Bad),
        };
        let word = screen.paint(style, format!("{word:<4}"));
        writeln!(screen, "{word}  {}", finding.what)?;
        if let Some(remedy) = &finding.remedy {
            writeln!(screen, "      {remedy}")?;
        }
    }
    Ok(())
}

fn links(host: &Host, listen_on: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !host.lo.up {
        findings.push(Finding::fail("lo is down: no address on it serves", "ip link set dev lo up"));
    }
    findings.push(if !host.interface.up {
        Finding::fail(format!("{listen_on} is down"), format!("ip link set dev {listen_on} up"))
    } else if !host.interface.carrier {
        Finding::fail(
            format!("{listen_on} has no carrier: nobody is at the other end of the link"),
            "look at the cable, and at the switch's port",
        )
    } else {
        Finding::ok(format!("{listen_on} is up, MTU {}", host.interface.mtu))
    });
    findings
}

fn addresses(host: &Host, vips: &[IpAddr], listen_on: &str) -> Vec<Finding> {
    let one = |vip: &IpAddr| {
        let length = if vip.is_ipv4() { 32 } else { 128 };
        if host.addresses.contains(vip) {
            Finding::fail(
                format!(
                    "{vip} is on {listen_on}: this host claims it on the network, and takes its traffic from the balancer"
                ),
                format!("ip address del {vip} dev {listen_on}; ip address add {vip}/{length} dev lo"),
            )
        } else if host.on_lo.contains(vip) {
            Finding::ok(format!("{vip} is on lo"))
        } else {
            Finding::fail(
                format!("{vip} is not on lo: what is for it is not taken for this host's"),
                format!("ip address add {vip}/{length} dev lo, or `guideway backend up`"),
            )
        }
    };
    vips.iter().map(one).collect()
}

fn settings(listen_on: &str) -> Result<Vec<Finding>, Failure> {
    let effective = |name: &str| {
        sysctl::effective(listen_on, name)
            .map_err(|error| Failure::failed(format_args!("can't read {name} of {listen_on}: {error}")))
    };
    let mut findings = Vec::new();
    for setting in sysctl::needed(listen_on) {
        let name = setting.key.rsplit('/').next().unwrap_or_default();
        let value = effective(name)?;
        let serves = match name {
            // Off or loose; 1 is strict.
            "rp_filter" => value != 1,
            _ => value >= setting.value,
        };
        findings.push(if serves {
            Finding::ok(format!("{name} of {listen_on} is {value}"))
        } else {
            Finding::fail(
                format!("{name} of {listen_on} is {value}: {}", setting.why),
                format!("sysctl -w {}={}", setting.dotted(), setting.value),
            )
        });
    }
    Ok(findings)
}

/// `expected`: `up` has put a decapsulator there.
fn programs(pins: &Path, host: &Host, listen_on: &str, expected: bool) -> Vec<Finding> {
    if let Ok(Some(exposed)) = exposed(pins) {
        return vec![Finding::fail(exposed.cause(), exposed.remedy())];
    }
    let hook = match end::attached(pins, listen_on) {
        Ok(hook) => hook,
        // The cause names the remedy.
        Err(error) => {
            let what = format!("no decapsulator on {listen_on} is the one of {}", pins.display());
            return vec![Finding::fail(what, error.to_string())];
        }
    };
    let Some(hook) = hook else {
        let mut findings = vec![if expected {
            Finding::fail(
                format!("the decapsulator is no longer on {listen_on}: was the interface made anew?"),
                "`guideway backend up`",
            )
        } else {
            Finding::warn(
                format!("no decapsulator of ours is on {listen_on}"),
                "`guideway backend up`, unless tunnel devices take its place: see `guideway backend script`",
            )
        }];
        if let Ok(Some(there)) = occupant(listen_on, host.interface.index) {
            let Occupant { id, name } = &there;
            findings.push(Finding::warn(
                format!("an XDP program of somebody else's is on {listen_on}: id {id}, name `{name}`"),
                format!(
                    "`guideway backend up --attach tc` leaves it alone; to be rid of it, {}",
                    there.remedy(listen_on)
                ),
            ));
        }
        return findings;
    };
    let mut findings = vec![Finding::ok(format!("the decapsulator is on {listen_on}, {}", hook.as_str()))];
    if hook == Hook::Tc {
        findings.extend(in_front(pins, Which::Tc, listen_on));
    }
    match Decapsulator::load(Some(pins)) {
        Ok(programs) => {
            findings.extend(ends(&programs));
            findings.extend(counts(&programs));
        }
        Err(error) => {
            findings.push(Finding::warn("the decapsulator's maps can't be read", error.to_string()));
        }
    }
    findings
}

/// Whether tunnels end where this host is.
fn ends(programs: &Decapsulator) -> Option<Finding> {
    let here = Netlink::open().and_then(|mut netlink| netlink.addresses(None)).ok()?;
    let ends = programs.addresses().into_iter().filter(|(_, role)| role.has(Role::OWN));
    let (ends, elsewhere): (Vec<IpAddr>, Vec<IpAddr>) =
        ends.map(|(address, _)| address).partition(|address| here.contains(address));
    Some(if elsewhere.is_empty() {
        Finding::ok(format!("tunnels end at {}", list(&ends)))
    } else {
        Finding::warn(
            format!("tunnels are to end at {}, which this host has not", list(&elsewhere)),
            "`guideway backend up` takes the addresses that the interface has now",
        )
    })
}

fn counts(programs: &Decapsulator) -> Vec<Finding> {
    let counts = match programs.counts() {
        Ok(counts) => counts,
        Err(error) => {
            return vec![Finding::warn("the decapsulator's counters can't be read", error.to_string())];
        }
    };
    let packets: BTreeMap<&str, u64> =
        counts.into_iter().map(|(name, tally)| (name, tally.packets)).collect();
    let came = packets.get(EndOutcome::Decapsulated.as_str()).copied().unwrap_or_default();
    let came = counted(came, "packet", "packets");
    let mut findings = vec![Finding::ok(format!("{came} came out of a tunnel"))];
    for (name, packets) in packets {
        let harmless = [EndOutcome::Decapsulated.as_str(), EndOutcome::NotTunnelled.as_str()];
        if packets > 0 && !harmless.contains(&name) {
            findings.push(Finding::warn(
                format!("not taken out of a tunnel: {}: {name}", counted(packets, "packet", "packets")),
                meaning(name),
            ));
        }
    }
    findings
}

fn meaning(name: &str) -> &'static str {
    let outcome = EndOutcome::ALL.iter().find(|outcome| outcome.as_str() == name);
    outcome.map_or("", |outcome| outcome.meaning())
}

/// What TC asks before a program of ours. One that ends the matter, as most do with a verdict, leaves ours nothing.
fn in_front(pins: &Path, which: Which, interface: &str) -> Vec<Finding> {
    let (ours, misses) = match which {
        Which::Clamp => ("the clamp", "announced segments stay as they are"),
        _ => ("the decapsulator", "packets stay in their tunnels"),
    };
    let one = |InFront { id, name, link }: InFront| {
        let name = if name.is_empty() { String::new() } else { format!(" `{name}`") };
        let own_tool = match link {
            Some(link) => format!("its own tool or `bpftool link detach id {link}`"),
            None => format!("its own tool (`bpftool net show dev {interface}` lists it)"),
        };
        Finding::warn(
            format!(
                "the TC program{name} (id {id}) comes before {ours} on {interface}: unless it hands packets on to the next \
                 program (TC_ACT_UNSPEC), {misses}"
            ),
            format!(
                "`guideway backend down` and then `up` as before puts ours first; or take that one away with {own_tool}"
            ),
        )
    };
    match end::in_front(pins, which, interface) {
        Ok(programs) => programs.into_iter().map(one).collect(),
        Err(error) => {
            vec![Finding::warn(format!("what comes before {ours} is not known"), error.to_string())]
        }
    }
}

/// Whether clients are told of segments that fit.
fn clamp(pins: &Path, host: &Host, told: &Record) -> Finding {
    let (egress, mtu) = (&told.egress, host.interface.mtu);
    if !matches!(end::is_clamped(pins, egress), Ok(true)) {
        return Finding::warn(
            format!("segments announced at {egress} are not lowered: full ones will not fit the tunnel"),
            "`guideway backend up`",
        );
    }
    // Headers of IP and TCP, and the least that a tunnel takes.
    if u32::from(told.clamp.v4) + 20 + 20 + 20 > mtu {
        return Finding::warn(
            format!(
                "segments announced at {egress} are at most {}: too large for an MTU of {mtu}",
                told.clamp
            ),
            "`guideway backend up` reckons with the MTU that the interface has now",
        );
    }
    Finding::ok(format!("segments announced at {egress} are at most {}", told.clamp))
}
