//! `guideway backend down`.

use std::io::{ErrorKind, Write};
use std::path::Path;

use guideway_xdp::end::{self, Pinned};
use guideway_xdp::{Error, ownership};
use serde_json::json;

use super::change::{Change, Log};
use super::netlink::Netlink;
use super::place::Places;
use super::record::Record;
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, report};

/// Take away what `up` made, and nothing else
///
/// What it made is in its record: an address that was on lo before stays, a setting that somebody has changed since is
/// left alone and named. The virtual addresses go first, the decapsulator last, so that clients find either a whole
/// server or none. With nothing to take away it says so and succeeds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  nothing of `up` is left
  1  something could not be taken away: standard error says what and why; the record stays, for another try
  2  the command line is wrong

Examples:
  guideway backend down
  guideway backend down --json")]
pub(crate) struct Args {
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Places,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let path = args.places.record();
    let _alone = path.parent().filter(|run_dir| run_dir.exists()).map(|_| args.places.lock()).transpose()?;
    let mut log = Log::new(screen, args.json);
    let record = Record::of_here(&path)?;
    let pins = args.places.pins(record.as_ref())?;
    // What others could have exchanged is not opened, as when it is loaded.
    ownership::check(&pins).map_err(Failure::failed)?;
    let Some(record) = record else {
        let cleared = maps_alone(&pins, &path)?;
        if cleared {
            log.tell(Change::MapsRemoved { pins });
        } else if log.is_for_people() {
            writeln!(log.screen, "nothing to take away: there is no record {}", path.display())?;
        }
        log.end(json!({}))?;
        return Ok(Outcome::Ok);
    };
    let pinned = pins.exists();
    if !pinned {
        // Before anything is changed: what runs is pinned elsewhere.
        has_no_programs(&record, &pins)?;
    }
    let addresses = addresses(&record, &mut log)?;
    let settings = settings(&record, &mut log)?;
    end::detach(&pins, &record.listen_on, &record.egress).map_err(Failure::failed)?;
    has_no_programs(&record, &pins)?;
    if pinned {
        log.tell(Change::Detached { interface: record.listen_on.clone() });
    }
    if !(addresses && settings) {
        return Err(Failure::failed("not everything could be taken away; the record stays, for another try"));
    }
    std::fs::remove_file(&path)
        .map_err(|error| Failure::failed(format_args!("can't remove {}: {error}", path.display())))?;
    record.unmake_directories();
    log.end(json!({}))?;
    Ok(Outcome::Ok)
}

/// Takes away maps that no program belongs to, of an `up` that was killed before it had done anything else; whether there
/// were any.
fn maps_alone(pins: &Path, record: &Path) -> Result<bool, Failure> {
    end::are_of_here(pins).map_err(|error| match error {
        Error::Elsewhere { .. } => {
            Failure::failed(format_args!("{error}; `backend down` belongs where `backend up` was run"))
        }
        error => Failure::failed(error),
    })?;
    match end::pinned(pins).map_err(Failure::failed)? {
        Pinned::Programs => Err(Failure::failed(format_args!(
            "programs are pinned in {}, and no record {} tells what else was set up: run `guideway backend up` as before, \
             which writes one, and then `down`",
            pins.display(),
            record.display()
        ))),
        kind => {
            end::detach(pins, "", "").map_err(Failure::failed)?;
            Ok(kind == Pinned::Maps)
        }
    }
}

/// Asks the kernel whether the programs are gone.
fn has_no_programs(record: &Record, pins: &Path) -> Result<(), Failure> {
    let left = end::leftovers(&record.listen_on, &record.egress).map_err(Failure::failed)?;
    left.first().map_or(Ok(()), |(program, interface)| {
        Err(Failure::failed(format_args!(
            "the program `{program}` is still at {interface}, and is not pinned in {}: name the directory that `up` was \
             given (--bpffs); the record stays, for another try",
            pins.display()
        )))
    })
}

/// Whether all of them are gone.
fn addresses(record: &Record, log: &mut Log<'_>) -> Result<bool, Failure> {
    let mut netlink = Netlink::open().map_err(Failure::failed)?;
    let lo = netlink.interface("lo").map_err(Failure::failed)?;
    let mut all = true;
    for &address in &record.added {
        match netlink.remove(lo.index, address) {
            Ok(()) => log.tell(Change::AddressRemoved { address }),
            // Somebody else has removed it.
            Err(error) if error.raw_os_error() == Some(nix::libc::EADDRNOTAVAIL) => {}
            Err(error) => {
                report("error", format_args!("removing {address} from lo: {error}"));
                all = false;
            }
        }
    }
    Ok(all)
}

/// Whether all of them are as before, or somebody else's by now.
fn settings(record: &Record, log: &mut Log<'_>) -> Result<bool, Failure> {
    let mut all = true;
    for changed in record.sysctls.iter().rev() {
        let setting = format!("net/{}", changed.key);
        match changed.undo() {
            Ok(true) => log.tell(Change::SettingRestored { setting, now: changed.before.clone() }),
            Ok(false) => log.tell(Change::SettingLeft { setting, expected: changed.now.clone() }),
            // The interface is gone, and its settings with it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                report("error", format_args!("setting {setting} back: {error}"));
                all = false;
            }
        }
    }
    Ok(all)
}
