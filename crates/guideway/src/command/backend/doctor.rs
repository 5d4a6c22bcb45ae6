//! `guideway backend doctor`.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;

use guideway_forward::tunnel_end::EndOutcome;
use guideway_xdp::end::{self, Decapsulator};
use serde::Serialize;

use super::host::Host;
use super::place::Places;
use super::record::Record;
use super::sysctl;
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, Style};

#[derive(Debug, clap::Args)]
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

    fn bad(grade: Grade, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { grade, what: what.into(), remedy: Some(remedy.into()) }
    }
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let record = Record::read(&args.places.record())?;
    let told = record.unwrap_or_default();
    let vips = if args.vips.is_empty() { told.vips } else { args.vips.clone() };
    let listen_on = args.listen_on.clone().unwrap_or(told.listen_on);
    if vips.is_empty() || listen_on.is_empty() {
        return Err(Failure::usage(
            "`guideway backend up` was not run on this host; say what to examine: --vip ADDRESS --listen-on INTERFACE",
        ));
    }
    let host = Host::look(&listen_on)?;
    let mut findings = addresses(&host, &vips, &listen_on);
    if vips.iter().any(IpAddr::is_ipv4) {
        findings.extend(settings(&listen_on)?);
    }
    findings.extend(programs(&args.places, &listen_on));
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

fn addresses(host: &Host, vips: &[IpAddr], listen_on: &str) -> Vec<Finding> {
    let one = |vip: &IpAddr| {
        let length = if vip.is_ipv4() { 32 } else { 128 };
        if host.addresses.contains(vip) {
            Finding::bad(
                Grade::Fail,
                format!(
                    "{vip} is on {listen_on}: this host claims it on the network, and takes its traffic from the balancer"
                ),
                format!("ip address del {vip} dev {listen_on}; ip address add {vip}/{length} dev lo"),
            )
        } else if host.on_lo.contains(vip) {
            Finding::ok(format!("{vip} is on lo"))
        } else {
            Finding::bad(
                Grade::Fail,
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
            Finding::bad(
                Grade::Fail,
                format!("{name} of {listen_on} is {value}: {}", setting.why),
                format!("sysctl -w {}={}", setting.dotted(), setting.value),
            )
        });
    }
    Ok(findings)
}

fn programs(places: &Places, listen_on: &str) -> Vec<Finding> {
    let pins = places.pins();
    let Some(hook) = end::attached(&pins, listen_on).filter(|_| pins.is_dir()) else {
        return vec![Finding::bad(
            Grade::Warn,
            format!("no decapsulator of ours is on {listen_on}"),
            "`guideway backend up`, unless tunnel devices take its place: see `guideway backend script`",
        )];
    };
    let mut findings = vec![Finding::ok(format!("the decapsulator is on {listen_on}, {}", hook.as_str()))];
    match Decapsulator::load(Some(&pins)).and_then(|programs| programs.counts()) {
        Ok(counts) => {
            let packets: BTreeMap<&str, u64> =
                counts.into_iter().map(|(name, tally)| (name, tally.packets)).collect();
            let came = packets.get(EndOutcome::Decapsulated.as_str()).copied().unwrap_or_default();
            findings.push(Finding::ok(format!("{came} packets came out of a tunnel")));
            for (name, packets) in packets {
                let harmless = [EndOutcome::Decapsulated.as_str(), EndOutcome::NotTunnelled.as_str()];
                if packets > 0 && !harmless.contains(&name) {
                    findings.push(Finding::bad(
                        Grade::Warn,
                        format!("{packets} packets were not taken out of a tunnel: {name}"),
                        meaning(name),
                    ));
                }
            }
        }
        Err(error) => findings.push(Finding::bad(
            Grade::Warn,
            "the decapsulator's counters can't be read",
            error.to_string(),
        )),
    }
    findings
}

fn meaning(name: &str) -> &'static str {
    let outcome = EndOutcome::ALL.iter().find(|outcome| outcome.as_str() == name);
    outcome.map_or("", |outcome| outcome.meaning())
}
