//! `guideway backend down`.

use std::io::{ErrorKind, Write};

use guideway_xdp::end;

use super::netlink::Netlink;
use super::place::Places;
use super::record::Record;
use crate::failure::{Failure, Outcome};
use crate::screen::{Screen, report};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    places: Places,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let path = args.places.record();
    let Some(record) = Record::read(&path)? else {
        writeln!(screen, "nothing to take away: there is no record {}", path.display())?;
        return Ok(Outcome::Ok);
    };
    // The other way round: the addresses first, so that nobody finds a server without a tunnel.
    let mut all = true;
    let netlink = Netlink::open().map_err(Failure::failed)?;
    let lo = netlink.interface("lo").map_err(Failure::failed)?;
    for address in &record.added {
        match netlink.remove(lo.index, *address) {
            Ok(()) => writeln!(screen, "removed {address} from lo")?,
            Err(error) if error.raw_os_error() == Some(nix::libc::EADDRNOTAVAIL) => {}
            Err(error) => {
                report("error", format_args!("removing {address} from lo: {error}"));
                all = false;
            }
        }
    }
    for changed in record.sysctls.iter().rev() {
        match changed.undo() {
            Ok(true) => writeln!(screen, "set net/{} back to {}", changed.key, changed.before)?,
            Ok(false) => writeln!(
                screen,
                "left net/{} alone: it is no longer {}, which `up` had set",
                changed.key, changed.now
            )?,
            // The interface is gone, and its settings with it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                report("error", format_args!("setting net/{} back: {error}", changed.key));
                all = false;
            }
        }
    }
    end::detach(&args.places.pins(), &record.listen_on, &record.egress).map_err(Failure::failed)?;
    writeln!(screen, "took the decapsulator off {}", record.listen_on)?;
    if !all {
        return Err(Failure::failed("not everything could be taken away; the record stays, for another try"));
    }
    std::fs::remove_file(&path)
        .map_err(|error| Failure::failed(format_args!("can't remove {}: {error}", path.display())))?;
    Ok(Outcome::Ok)
}
