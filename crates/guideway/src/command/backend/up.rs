//! `guideway backend up`.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::Path;

use clap::ValueEnum;
use guideway_forward::tunnel_end::Role;
use guideway_xdp::end::{self, Decapsulator, Hook, Wish};
use serde_json::json;

use super::change::{Change, Log};
use super::host::Host;
use super::place::{Places, make_pins, missing, pins_below};
use super::record::Record;
use super::setup::Setup;
use super::sysctl;
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Set this host up; doing it again changes what differs and nothing else
///
/// In this order, so that clients find either no server or a whole one: the decapsulator at the interface and the clamp of
/// announced segments where answers leave; the kernel's settings (ipv4/conf/IF/rp_filter 2, ipv4/conf/all/arp_ignore 1,
/// ipv4/conf/all/arp_announce 2); the virtual addresses on lo. Each is told, and kept in a record, by which `guideway
/// backend down` takes it away again.
///
/// Programs are pinned, so nothing has to keep running. A program of somebody else's at the interface is named and left
/// alone, and nothing is changed then. Needs root, or CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  the host is a backend
  1  it is not, or not wholly: standard error says why; run it again, or `guideway backend down`
  2  the command line is wrong

Examples:
  guideway backend up --vip 192.0.2.10,2001:db8::10 --listen-on eth0
  guideway backend up --vip 192.0.2.10 --listen-on eth0 --egress eth1 --encap gue --mtu 1500
  guideway backend up --vip 192.0.2.10 --listen-on eth0 --from 10.0.1.0/24
  guideway backend up --vip 192.0.2.10 --listen-on eth0 --attach tc --json")]
pub(crate) struct Args {
    #[command(flatten)]
    setup: Setup,
    /// Where to take packets out of their tunnel
    #[arg(long, value_name = "HOOK", value_enum, default_value_t = At::Auto)]
    attach: At,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Places,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum At {
    /// Where it is already; else XDP in the driver if it can, else TC. What it came to, and why, is shown
    Auto,
    /// XDP in the driver, or fail
    Native,
    /// XDP in the network stack: any driver, but copies packets that were put together from several
    Generic,
    /// TC ingress: any driver
    Tc,
}

impl At {
    const fn wish(self) -> Wish {
        match self {
            At::Auto => Wish::Auto,
            At::Native => Wish::Exactly(Hook::Native),
            At::Generic => Wish::Exactly(Hook::Generic),
            At::Tc => Wish::Exactly(Hook::Tc),
        }
    }
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let setup = &args.setup.checked()?;
    let _alone = args.places.lock()?;
    let mut host = Host::look(&setup.listen_on)?;
    host.can_serve(setup)?;
    let ends = host.ends(setup)?;
    let clamp = setup.clamp(host.mtu(setup), &ends)?;
    let path = args.places.record();
    let before = Record::of_here(&path)?;
    if let Some(before) = before.as_ref().filter(|before| before.listen_on != setup.listen_on) {
        return Err(Failure::failed(format_args!(
            "this host is a backend that listens on {} already: `guideway backend down` first",
            before.listen_on
        )));
    }
    let bpffs = args.places.bpffs(before.as_ref())?;
    let held = before.as_ref().and_then(|before| before.bpffs.as_ref());
    if let Some(held) = held.filter(|held| **held != bpffs && pins_below(held).exists()) {
        return Err(Failure::failed(format_args!(
            "this host is a backend with programs pinned below {} already: leave --bpffs away, or `guideway backend down` \
             first",
            held.display()
        )));
    }
    let mut log = Log::new(screen, args.json);
    let mut record = Record {
        bpffs: Some(bpffs.clone()),
        listen_on: setup.listen_on.clone(),
        listen_on_index: Some(host.interface.index),
        egress: setup.egress().to_owned(),
        egress_index: host.index(setup.egress()),
        vips: setup.vips.clone(),
        clamp,
        ..before.clone().unwrap_or_else(Record::new)
    };
    record.made.extend(missing(&bpffs));
    let hook = programs(args, setup, &ends, &make_pins(&bpffs)?, &mut record, before, &mut log)?;
    if setup.vips.iter().any(IpAddr::is_ipv4) {
        settings(&mut record, &mut log, &path)?;
    }
    // The addresses last: until now, nobody could be told that they are here.
    addresses(&mut host, &mut record, &mut log, &path)?;
    if log.is_for_people() {
        writeln!(log.screen, "tunnels end at {}", list(&ends))?;
        if !setup.sources.is_empty() {
            writeln!(log.screen, "and come from {} alone", list(&setup.sources))?;
        }
        writeln!(log.screen, "segments announced at {} are at most {clamp}", setup.egress())?;
    }
    log.end(json!({
        "listen_on": setup.listen_on,
        "egress": setup.egress(),
        "hook": hook.as_str(),
        "vips": setup.vips,
        "ends": ends,
        "tunnels": setup.tunnel_words(),
        "gue_port": setup.gue_port,
        "sources": setup.sources,
        "segment_bytes": clamp,
    }))?;
    Ok(Outcome::Ok)
}

/// Attaches the programs, first of all: where they cannot be had, nothing else is changed.
fn programs(
    args: &Args,
    setup: &Setup,
    ends: &[IpAddr],
    pins: &Path,
    record: &mut Record,
    before: Option<Record>,
    log: &mut Log<'_>,
) -> Result<Hook, Failure> {
    let path = args.places.record();
    let attach = |record: &mut Record| {
        // Before anything is made, and then at each step, so that `down` knows even of half a set-up.
        record.write(&path)?;
        let mut programs = Decapsulator::load(Some(pins)).map_err(Failure::failed)?;
        let sources = setup.sources.iter().map(|source| (source.addr(), source.prefix_len()));
        programs.set_sources(&sources.collect()).map_err(Failure::failed)?;
        programs.set(&setup.settings(record.clamp)).map_err(Failure::failed)?;
        programs.set_addresses(&roles(&setup.vips, ends)).map_err(Failure::failed)?;
        programs.attach(&setup.listen_on, setup.egress(), args.attach.wish()).map_err(Failure::failed)
    };
    let attached = attach(record).inspect_err(|_| match before {
        // The first failure is the one to tell.
        Some(before) => drop(before.write(&path)),
        // Nothing runs that would need what was pinned just now.
        None => {
            drop(end::detach(pins, &setup.listen_on, setup.egress()));
            record.unmake_directories();
            drop(std::fs::remove_file(&path));
        }
    })?;
    record.hook = attached.hook.as_str().to_owned();
    record.write(&path)?;
    log.tell(Change::Attached {
        interface: setup.listen_on.clone(),
        hook: attached.hook.as_str(),
        replaced: attached.replaced,
        fell_back: attached.fell_back,
    });
    Ok(attached.hook)
}

fn settings(record: &mut Record, log: &mut Log<'_>, path: &Path) -> Result<(), Failure> {
    for setting in sysctl::needed(&record.listen_on) {
        let Some(changed) = setting.apply()? else { continue };
        log.tell(Change::SettingChanged {
            setting: setting.dotted(),
            before: changed.before.clone(),
            now: changed.now.clone(),
        });
        // What was there before the first `up` counts.
        match record.sysctls.iter_mut().find(|known| known.key == changed.key) {
            Some(known) => known.now = changed.now,
            None => record.sysctls.push(changed),
        }
        record.write(path)?;
    }
    Ok(())
}

fn addresses(host: &mut Host, record: &mut Record, log: &mut Log<'_>, path: &Path) -> Result<(), Failure> {
    let failed = |doing: &str, address: IpAddr, error: std::io::Error| {
        Failure::failed(format_args!("{doing} {address} at lo: {error}"))
    };
    for address in record.vips.clone() {
        if host.on_lo.contains(&address) {
            continue;
        }
        match host.netlink.add(host.lo.index, address) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(failed("adding", address, error)),
        }
        log.tell(Change::AddressAdded { address });
        if !record.added.contains(&address) {
            record.added.push(address);
        }
        record.write(path)?;
    }
    let gone: Vec<IpAddr> =
        record.added.iter().copied().filter(|address| !record.vips.contains(address)).collect();
    for address in gone {
        match host.netlink.remove(host.lo.index, address) {
            Err(error) if error.raw_os_error() != Some(nix::libc::EADDRNOTAVAIL) => {
                return Err(failed("removing", address, error));
            }
            _ => log.tell(Change::AddressRemoved { address }),
        }
        record.added.retain(|known| *known != address);
        record.write(path)?;
    }
    Ok(())
}

fn roles(vips: &[IpAddr], ends: &[IpAddr]) -> BTreeMap<IpAddr, Role> {
    let own = ends.iter().map(|address| (*address, Role::OWN));
    own.chain(vips.iter().map(|address| (*address, Role::VIRTUAL))).collect()
}

pub(crate) fn list(things: &[impl ToString]) -> String {
    things.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
