//! `guideway backend up`.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;

use clap::ValueEnum;
use guideway_forward::tunnel_end::Role;
use guideway_xdp::end::{self, Decapsulator, Hook, Wish};

use super::host::Host;
use super::place::Places;
use super::record::Record;
use super::setup::Setup;
use super::sysctl;
use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    setup: Setup,
    /// Where to take packets out of their tunnel
    #[arg(long, value_name = "HOOK", value_enum, default_value_t = At::Auto)]
    attach: At,
    #[command(flatten)]
    places: Places,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum At {
    /// XDP in the driver if it can, else TC; what it is to be is shown
    Auto,
    /// XDP in the driver
    Native,
    /// XDP in the network stack
    Generic,
    /// TC ingress
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
    let setup = &args.setup;
    let host = Host::look(&setup.listen_on)?;
    let ends = host.ends(setup)?;
    let clamp = setup.clamp(host.mtu(setup), &ends)?;
    let path = args.places.record();
    let before = Record::read(&path)?.unwrap_or_default();
    if !before.listen_on.is_empty() && before.listen_on != setup.listen_on {
        return Err(Failure::failed(format_args!(
            "this host is a backend that listens on {} already: `guideway backend down` first",
            before.listen_on
        )));
    }
    // The programs first: where they cannot be had, nothing else is changed.
    let pins = args.places.make_pins()?;
    let mut programs = Decapsulator::load(Some(&pins)).map_err(Failure::failed)?;
    programs.set(&setup.settings(clamp)).map_err(Failure::failed)?;
    programs.set_addresses(&roles(&setup.vips, &ends)).map_err(Failure::failed)?;
    let attached =
        programs.attach(&setup.listen_on, setup.egress(), args.attach.wish()).map_err(|error| {
            if before == Record::default() {
                // Nothing runs that would need what was pinned just now.
                drop(end::detach(&pins, &setup.listen_on, setup.egress()));
            }
            Failure::failed(error)
        })?;
    let mut record = Record {
        listen_on: setup.listen_on.clone(),
        egress: setup.egress().to_owned(),
        vips: setup.vips.clone(),
        hook: attached.hook.as_str().to_owned(),
        clamp,
        ..before.clone()
    };
    // Written at each step, so that `down` knows even of half a set-up.
    record.write(&path)?;
    settings(&mut record, screen, &path)?;
    // The addresses last: until now, nobody could be told that they are here.
    addresses(&host, &mut record, screen, &path)?;
    let verb = if attached.replaced { "replaced" } else { "attached" };
    writeln!(screen, "decapsulator: {verb} to {} at {}", setup.listen_on, hook_name(attached.hook))?;
    if let Some(reason) = attached.fell_back {
        writeln!(screen, "  not in the driver: {reason}")?;
    }
    writeln!(screen, "tunnels end at: {}", list(&ends))?;
    writeln!(screen, "segment size announced at most: {clamp}, at {}", setup.egress())?;
    Ok(Outcome::Ok)
}

fn settings(record: &mut Record, screen: &mut Screen, path: &std::path::Path) -> Result<(), Failure> {
    for setting in sysctl::needed(&record.listen_on) {
        let Some(changed) = setting.apply()? else { continue };
        writeln!(screen, "set {} = {} (was {})", setting.dotted(), changed.now, changed.before)?;
        // What was there before the first `up` counts.
        match record.sysctls.iter_mut().find(|known| known.key == changed.key) {
            Some(known) => known.now = changed.now,
            None => record.sysctls.push(changed),
        }
        record.write(path)?;
    }
    Ok(())
}

fn addresses(
    host: &Host,
    record: &mut Record,
    screen: &mut Screen,
    path: &std::path::Path,
) -> Result<(), Failure> {
    let failed = |doing: &str, address: IpAddr, error: io::Error| {
        Failure::failed(format_args!("{doing} {address} at lo: {error}"))
    };
    for vip in record.vips.clone() {
        if host.on_lo.contains(&vip) {
            continue;
        }
        match host.netlink.add(host.lo.index, vip) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(failed("adding", vip, error)),
        }
        writeln!(screen, "added {vip} to lo")?;
        record.added.push(vip);
        record.write(path)?;
    }
    let gone: Vec<IpAddr> =
        record.added.iter().copied().filter(|address| !record.vips.contains(address)).collect();
    for address in gone {
        match host.netlink.remove(host.lo.index, address) {
            Err(error) if error.raw_os_error() != Some(nix::libc::EADDRNOTAVAIL) => {
                return Err(failed("removing", address, error));
            }
            _ => writeln!(screen, "removed {address} from lo")?,
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

const fn hook_name(hook: Hook) -> &'static str {
    match hook {
        Hook::Native => "XDP in the driver (native)",
        Hook::Generic => "XDP in the network stack (generic)",
        Hook::Tc => "TC ingress (tc)",
    }
}

pub(crate) fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}
