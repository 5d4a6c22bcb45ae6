//! `guideway lab page`.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Serve the laboratory page: watch tables being drafted, look flows up, see what a change moves
///
/// The page and its module are in the command; nothing is read from disk or the network, and nothing leaves the browser. Stop it with
/// Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  guideway lab page
  guideway lab page --listen 127.0.0.1:8080
  guideway lab page --listen '[::1]:0'        any free port; the address is printed")]
pub(super) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8470")]
    listen: SocketAddr,
}

pub(super) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let listening = |error: io::Error| {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "something listens there already; take another port, or --listen 127.0.0.1:0"
            }
            io::ErrorKind::PermissionDenied => "ports below 1024 are for root; take a higher one",
            io::ErrorKind::AddrNotAvailable => "this machine has no such address; take one of its own",
            _ => "take another address",
        };
        Failure::failed(format!("can't listen on {}: {error}; {remedy}", args.listen))
    };
    let listener = TcpListener::bind(args.listen).map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    writeln!(screen, "The laboratory is at http://{address}/ (Ctrl-C stops it)")?;
    screen.flush()?;
    if !address.ip().is_loopback() {
        crate::screen::report(
            "warning",
            "other machines can reach this address; the page is public, and read-only",
        );
    }
    guideway_page::serve::serve(&listener)
        .map_err(|error| Failure::failed(format!("can't take connections on {address}: {error}")))?;
    Ok(Outcome::Ok)
}
