//! `guideway backend script`: a backend's set-up with stock commands.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;

use super::host::Host;
use super::setup::{Clamp, Encapsulation, Setup};
use super::sysctl;
use super::up::list;
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Print a script that does the same with stock commands: ip, sysctl, nft
///
/// The script needs no Guideway on the backend: the kernel's own tunnel devices (ipip, sit, ip6tnl, gre, ip6gre, fou) take
/// packets out, so its kernel must have those that are asked for. It can be run again and again. With --address and --mtu
/// it can be written on any machine; else it is written for this one. Nothing is changed here.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  the script was printed
  1  this host does not tell what it would need: see standard error
  2  the command line is wrong

Examples:
  guideway backend script --vip 192.0.2.10 --listen-on eth0 > backend.sh
  guideway backend script --vip 192.0.2.10 --listen-on eth0 --address 10.0.0.1 --mtu 1500 --encap gue | ssh be1 sh
  guideway backend script --vip 192.0.2.10 --listen-on eth0 --address 10.0.0.1 --mtu 1500 --remove")]
pub(crate) struct Args {
    #[command(flatten)]
    setup: Setup,
    /// Print the script that takes everything away again
    #[arg(long)]
    remove: bool,
    /// Print the script, and what it is made for, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let setup = &args.setup.checked()?;
    let (ends, mtu) = match (setup.mtu, setup.addresses.is_empty()) {
        (Some(mtu), false) => (setup.addresses.clone(), mtu),
        _ => {
            let host = Host::look(&setup.listen_on)?;
            (host.ends(setup)?, host.mtu(setup))
        }
    };
    if !setup.listen_on.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte)) {
        return Err(Failure::usage(format_args!("`{}` can't be the name of an interface", setup.listen_on)));
    }
    let clamp = setup.clamp(mtu, &ends)?;
    let script = if args.remove { take_away(setup, &ends) } else { set_up(setup, &ends, clamp) };
    if args.json {
        screen.json(&serde_json::json!({
            "listen_on": setup.listen_on,
            "vips": setup.vips,
            "ends": ends,
            "tunnels": setup.tunnel_words(),
            "gue_port": setup.gue_port,
            "sources": setup.sources,
            "segment_bytes": clamp,
            "script": script,
        }))?;
    } else {
        screen.write_all(script.as_bytes())?;
    }
    Ok(Outcome::Ok)
}

/// Makes a device where it is not there, and goes on where the kernel has none of its kind, so that each is named
/// once.
const DEVICE: &str = r#"# The kernel's tunnels.
lacking=
lack() {
    case "$lacking " in
        *" $1 "*) ;;
        *) lacking="$lacking $1" ;;
    esac
}
device() {
    name=$1 kind=$2
    shift 2
    ip link show dev "$name" >/dev/null 2>&1 || ip link add name "$name" type "$kind" "$@" || {
        lack "$kind"
        return 0
    }
    ip link set dev "$name" up
}"#;

/// Ends before the virtual addresses are there: clients find no server or a whole one.
const LACKING: &str = r#"if [ -n "$lacking" ]; then
    echo "this kernel makes no such tunnels:$lacking" >&2
    echo "load their modules, choose other tunnels by --encap, or use guideway backend up, which needs none" >&2
    exit 1
fi"#;

/// A device of the kernel's that takes packets out of tunnels.
struct Device {
    name: String,
    kind: &'static str,
    end: IpAddr,
    /// What is said beyond both addresses.
    rest: &'static str,
}

fn devices(setup: &Setup, ends: &[IpAddr]) -> Vec<Device> {
    let tunnels = setup.tunnels();
    // GUE is taken off by a socket, and what it carries is IP in IP.
    let ipip = tunnels.iter().any(|tunnel| *tunnel != Encapsulation::Gre);
    let gre = tunnels.contains(&Encapsulation::Gre);
    // Over IPv4 there is a device for each family that is inside; the others carry both.
    let serves = |family: fn(&IpAddr) -> bool| ipip && setup.vips.iter().any(family);
    let mut devices = Vec::new();
    for (number, &end) in ends.iter().enumerate() {
        let mut device = |wanted: bool, name: &str, kind, rest| {
            if wanted {
                devices.push(Device { name: format!("gw{name}{number}"), kind, end, rest });
            }
        };
        if end.is_ipv4() {
            device(serves(IpAddr::is_ipv4), "ipip", "ipip", "");
            device(serves(IpAddr::is_ipv6), "sit", "sit", "");
            device(gre, "gre", "gre", "");
        } else {
            device(ipip, "tnl", "ip6tnl", " mode any");
            device(gre, "gre", "ip6gre", "");
        }
    }
    devices
}

fn gue_families(setup: &Setup, ends: &[IpAddr]) -> Vec<&'static str> {
    let gue = [Encapsulation::Gue, Encapsulation::GueHeader];
    if !setup.tunnels().iter().any(|tunnel| gue.contains(tunnel)) {
        return Vec::new();
    }
    let mut families = Vec::new();
    if ends.iter().any(IpAddr::is_ipv4) {
        families.push("ip -4");
    }
    if ends.iter().any(IpAddr::is_ipv6) {
        families.push("ip -6");
    }
    families
}

fn set_up(setup: &Setup, ends: &[IpAddr], clamp: Clamp) -> String {
    let mut script = String::new();
    let mut line = |text: String| {
        // A string takes everything.
        let _ = writeln!(script, "{text}");
    };
    line("#!/bin/sh".into());
    line(format!(
        "# Written by guideway backend script: {} served behind tunnels to {}.",
        list(&setup.vips),
        list(ends)
    ));
    line("# It can be run again and again.".into());
    line("set -eu".into());
    line(String::new());
    line(DEVICE.into());
    let devices = devices(setup, ends);
    for device in &devices {
        let Device { name, kind, end, rest } = device;
        line(format!("device {name} {kind} local {end} remote any{rest}"));
    }
    for family in gue_families(setup, ends) {
        let port = setup.gue_port;
        line(format!("{family} fou show 2>/dev/null | grep -qw 'port {port}' || \\"));
        line(format!("    {family} fou add port {port} gue || lack fou"));
    }
    line(LACKING.into());
    line(String::new());
    line("# What comes out of a tunnel has a client's address, and answers leave elsewhere.".into());
    for setting in sysctl::needed(&setup.listen_on) {
        line(format!("sysctl -qw {}={}", setting.dotted(), setting.value));
    }
    for device in &devices {
        line(format!("sysctl -qw net/ipv4/conf/{}/rp_filter=2", device.name));
    }
    line(String::new());
    let and = if setup.sources.is_empty() { "" } else { " Tunnels come from known sources alone." };
    line(format!("# Servers announce segments that fit the tunnel.{and}"));
    line("nft -f - <<'RULES'".into());
    for rule in rules(setup, ends, clamp) {
        line(rule);
    }
    line("RULES".into());
    line(String::new());
    line("# The virtual addresses, last.".into());
    for vip in &setup.vips {
        line(format!("ip address replace {vip}/{} dev lo{}", length(vip), nodad(vip)));
    }
    script
}

fn take_away(setup: &Setup, ends: &[IpAddr]) -> String {
    let mut script = String::from(
        "#!/bin/sh\n# Written by guideway backend script --remove. Settings of sysctl stay.\nset -u\n",
    );
    for vip in &setup.vips {
        let _ = writeln!(script, "ip address del {vip}/{} dev lo 2>/dev/null", length(vip));
    }
    let _ = writeln!(script, "nft delete table inet guideway_backend 2>/dev/null");
    for family in gue_families(setup, ends) {
        let _ = writeln!(script, "{family} fou del port {} 2>/dev/null", setup.gue_port);
    }
    for device in devices(setup, ends) {
        let _ = writeln!(script, "ip link del dev {} 2>/dev/null", device.name);
    }
    script + "exit 0\n"
}

/// The table that lowers announcements, and drops tunnels of unknown sources. Named, deleted and made again in one
/// transaction.
fn rules(setup: &Setup, ends: &[IpAddr], clamp: Clamp) -> Vec<String> {
    let mut rules = vec![
        "table inet guideway_backend".to_owned(),
        "delete table inet guideway_backend".to_owned(),
        "table inet guideway_backend {".to_owned(),
        "    chain output {".to_owned(),
        "        type filter hook output priority mangle; policy accept;".to_owned(),
    ];
    for vip in &setup.vips {
        let (family, most) = if vip.is_ipv4() { ("ip", clamp.v4) } else { ("ip6", clamp.v6) };
        rules.push(format!(
            "        {family} saddr {vip} tcp flags & syn == syn tcp option maxseg size > {most} tcp option maxseg size set {most}"
        ));
    }
    rules.push("    }".to_owned());
    if !setup.sources.is_empty() {
        rules.push("    chain input {".to_owned());
        rules.push("        type filter hook input priority raw; policy accept;".to_owned());
        rules.extend(ends.iter().flat_map(|end| only_known(setup, end)));
        rules.push("    }".to_owned());
    }
    rules.push("}".to_owned());
    rules
}

/// The rules that drop what comes to `end` through a tunnel of an unknown source. 4, 41 and 47 are the protocols of
/// IP in IP, of both families, and of GRE.
fn only_known(setup: &Setup, end: &IpAddr) -> [String; 2] {
    let family = if end.is_ipv4() { "ip" } else { "ip6" };
    let known = setup.sources.iter().filter(|source| source.addr().is_ipv4() == end.is_ipv4());
    let known: Vec<_> = known.map(ToString::to_string).collect();
    // None of this family: whatever comes is unknown.
    let unknown = if known.is_empty() {
        String::new()
    } else {
        format!(" {family} saddr != {{ {} }}", known.join(", "))
    };
    let rule = |what: &str| format!("        {family} daddr {end} {what}{unknown} drop");
    [rule("meta l4proto { 4, 41, 47 }"), rule(&format!("udp dport {}", setup.gue_port))]
}

const fn length(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

const fn nodad(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "" } else { " nodad" }
}
