//! `guideway detach`.

use std::io::Write;
use std::path::{Path, PathBuf};

use guideway_daemon::{DEFAULT_CONFIG, DEFAULT_STATE, Detached, Remains};
use guideway_xdp::pins::DEFAULT_ROOT;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Takes away what a daemon left in the kernel when it was killed, handed over,
or run with --on-exit keep: its programs at all interfaces, its maps, and every
flow that they remember. Programs of others are not touched, nor are files: the
configuration and the directory for state.
While a daemon is at work with these pins it is refused: stop that one first.
--dry-run tells at any time what it would take. Both are refused in another
network namespace than the one that it forwards in.
Programs of balancers that are there all the same, with other pins or with none,
are told at the end, each with what takes it off.

Examples:
  guideway detach --dry-run
  guideway detach")]
pub(crate) struct Args {
    /// The directory for pins, in a BPF file system
    #[arg(long, value_name = "DIR", default_value = DEFAULT_ROOT)]
    pins: PathBuf,
    /// Only say what would be taken away
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    let remains = guideway_daemon::remains(&args.pins).map_err(Failure::failed)?;
    let Detached { taken, left } = match args.dry_run {
        true => Detached { taken: false, left: Vec::new() },
        false => guideway_daemon::detach(&args.pins).map_err(Failure::failed)?,
    };
    if args.json {
        let interfaces: Vec<_> =
            remains.interfaces.iter().map(|(name, index)| json!({ "name": name, "index": index })).collect();
        let left: Vec<_> = left
            .iter()
            .map(|(name, there)| json!({ "name": name, "program": there.id, "remedy": there.remedy(name) }))
            .collect();
        screen.json(&json!({
            "taken_away": taken,
            "interfaces": interfaces,
            "pinned": remains.pinned,
            "left": left,
        }))?;
    } else if args.dry_run {
        show(&remains, &args.pins, screen)?;
    } else {
        let text = if taken { "the forwarder is taken away" } else { "there was no forwarder" };
        writeln!(screen, "{text}: {}", args.pins.display())?;
        for (interface, there) in &left {
            writeln!(
                screen,
                "another balancer's program is at {interface} (id {}), with other pins or none: {}",
                there.id,
                there.remedy(interface)
            )?;
        }
    }
    Ok(Outcome::Ok)
}

fn show(remains: &Remains, pins: &Path, screen: &mut Screen) -> Result<(), Failure> {
    if remains.pinned.is_empty() {
        writeln!(screen, "nothing would be taken away: there is no forwarder below {}", pins.display())?;
    } else {
        writeln!(screen, "would be taken away:")?;
        for (name, index) in &remains.interfaces {
            let place = name.clone().unwrap_or_else(|| format!("interface {index}, which is gone"));
            writeln!(screen, "  the program at {place}: nothing forwards there any more then")?;
        }
        let maps = remains.pinned.len() - remains.interfaces.len();
        writeln!(screen, "  {maps} maps, with every flow that they remember; pinned:")?;
        for path in &remains.pinned {
            writeln!(screen, "    {}", path.display())?;
        }
    }
    let files = [DEFAULT_CONFIG, DEFAULT_STATE].into_iter().filter(|path| Path::new(path).exists());
    for path in files {
        writeln!(screen, "stays: {path}")?;
    }
    writeln!(screen, "nothing was changed")?;
    Ok(())
}
