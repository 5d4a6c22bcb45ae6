//! `guideway replay`: a capture through the balancer, by the capture's own clock.

mod show;

use std::io::{self, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use guideway_control::config::{self, Problems, events};
use guideway_control::replay::auto::{MAX_SERVICES, Servers};
use guideway_control::replay::{Books, Replay};
use guideway_forward::Verdict;
use guideway_soft::capture::{Capture, Frame, Writer};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output_file::{OutputFile, one_standard_input, unwritable};
use crate::screen::{self, Screen};

/// Flows that are remembered with `--auto`.
const AUTO_FLOWS: u32 = 1 << 18;

/// Packets between two looks at the progress.
const PROGRESS_EVERY: u64 = 1 << 14;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes the frames that would leave: to backends, and the balancer's own answers. What it passes to the host and what it
drops is counted. Snapped packets and links that are no Ethernet or IP are counted and left.

Examples:
  guideway replay --auto --in capture.pcap
  guideway replay -c guideway.toml --in capture.pcapng --out sent.pcap
  guideway replay -c guideway.toml --in capture.pcap --events events.toml --json")]
pub(crate) struct Args {
    /// The configuration, or - for standard input (without one, say --auto)
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Make every server of the capture a service over made-up backends
    #[arg(long, conflicts_with_all = ["config", "events"])]
    auto: bool,
    /// How many backends to make up
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=250), conflicts_with = "config")]
    backends: u8,
    /// The capture: pcap or pcapng; - is standard input
    #[arg(long = "in", value_name = "FILE")]
    input: PathBuf,
    /// Write what would leave here, as pcap with nanosecond stamps
    #[arg(long = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// What happens to backends, and when
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Print the books as JSON
    #[arg(long)]
    json: bool,
}

/// What the capture was, and what became of it.
#[derive(Debug, Default, Serialize)]
struct Told {
    packets: u64,
    snapped: u64,
    unsupported_link: u64,
    too_short: u64,
    frames_written: u64,
    /// Why the capture could not be read to its end.
    read_error: Option<String>,
    /// Scripted changes for which the capture is too short.
    changes_to_come: usize,
}

#[derive(Serialize)]
struct Report<'a> {
    capture: &'a Told,
    books: &'a Books,
}

pub(crate) fn run(args: &Args, screen: &mut Screen) -> Result<Outcome, Failure> {
    one_standard_input(args.inputs())?;
    let replay = if args.auto {
        Replay::new(servers(&args.input)?.services(args.backends), AUTO_FLOWS, Vec::new())
            .map_err(Failure::failed)?
    } else {
        match configured(args)? {
            Ok(replay) => replay,
            Err(problems) => {
                show_problems(&problems);
                return Ok(Outcome::Differs);
            }
        }
    };
    let (told, books) = feed(args, replay)?;
    if told.changes_to_come > 0 {
        let text = format!("the capture ends before {} of the scripted changes", told.changes_to_come);
        screen::report("warning", text);
    }
    if args.json {
        screen.json(&Report { capture: &told, books: &books })?;
    } else {
        show::books(screen, &told, &books)?;
    }
    if let Some(error) = &told.read_error {
        return Err(Failure::failed(format!("{}: {error}", args.input.display())));
    }
    Ok(Outcome::Ok)
}

/// All problems, on standard error.
pub(super) fn show_problems(problems: &Problems) {
    let colour = screen::wants_colour(io::stderr().is_terminal());
    screen::to_stderr(&format!("{}\n", problems.render(colour)));
}

fn configured(args: &Args) -> Result<Result<Replay, Problems>, Failure> {
    let Some(path) = &args.config else {
        return Err(Failure::usage("say --auto to make services up from the capture, or -c FILE"));
    };
    let source = config::load(path).map_err(Failure::failed)?;
    let config = match config::parse(&source) {
        Ok(config) => config,
        Err(problems) => return Ok(Err(problems)),
    };
    let script = match &args.events {
        None => Vec::new(),
        Some(path) => match events::parse(&config::load(path).map_err(Failure::failed)?, &config) {
            Ok(script) => script,
            Err(problems) => return Ok(Err(problems)),
        },
    };
    Replay::from_config(&config, &script).map(Ok).map_err(Failure::failed)
}

impl Args {
    /// All files that are read.
    fn inputs(&self) -> impl Iterator<Item = &Path> {
        let files = [Some(&self.input), self.config.as_ref(), self.events.as_ref()];
        files.into_iter().flatten().map(PathBuf::as_path)
    }
}

/// A first pass over the capture. What can't be read is told in the second.
fn servers(path: &Path) -> Result<Servers, Failure> {
    if path == Path::new("-") || path.metadata().is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return Err(Failure::usage(format!(
            "--auto reads the capture twice, and {} can be read only once: save it to a file, or give -c FILE",
            path.display()
        )));
    }
    let mut capture = open(path)?;
    let mut servers = Servers::default();
    while let Some(Ok(record)) = capture.next() {
        if let Frame::Ethernet(frame) = record.frame {
            servers.observe(frame);
        }
    }
    if servers.is_full() {
        screen::report(
            "warning",
            format!("services are made up for {MAX_SERVICES} servers only; packets to any others are passed"),
        );
    }
    Ok(servers)
}

fn open(path: &Path) -> Result<Capture, Failure> {
    let source = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    Capture::open(source).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

fn feed(args: &Args, mut replay: Replay) -> Result<(Told, Books), Failure> {
    let mut capture = open(&args.input)?;
    let unwritable = |error: io::Error| match &args.output {
        Some(path) => unwritable(path, &error),
        None => Failure::failed(error),
    };
    let inputs: Vec<&Path> = args.inputs().collect();
    let mut output = match &args.output {
        None => None,
        Some(path) => {
            let file = OutputFile::create(path, &inputs)?;
            let handle = BufWriter::with_capacity(1 << 18, file.handle().map_err(unwritable)?);
            Some((file, Writer::new(handle).map_err(unwritable)?))
        }
    };
    let progress = progress(capture.size());
    let mut told = Told::default();
    loop {
        if told.packets.is_multiple_of(PROGRESS_EVERY) {
            progress.set_position(capture.position());
        }
        let record = match capture.next() {
            None => break,
            Some(Ok(record)) => record,
            Some(Err(error)) => {
                told.read_error = Some(error.to_string());
                break;
            }
        };
        told.packets += 1;
        let frame = match record.frame {
            _ if record.is_snapped() => {
                told.snapped += 1;
                continue;
            }
            Frame::UnsupportedLink(_) => {
                told.unsupported_link += 1;
                continue;
            }
            Frame::TooShort => {
                told.too_short += 1;
                continue;
            }
            Frame::Ethernet(frame) => frame,
        };
        let sent = replay.frame(Duration::from_nanos(record.timestamp_ns), frame).map_err(Failure::failed)?;
        if let (Verdict::Forward(_) | Verdict::Answer(_), Some(frame)) = (sent.verdict, sent.frame) {
            told.frames_written += 1;
            if let Some((_, output)) = &mut output {
                output.write(record.timestamp_ns, frame).map_err(unwritable)?;
            }
        }
    }
    progress.finish_and_clear();
    if let Some((file, output)) = output {
        output.finish().and_then(|_| file.keep()).map_err(unwritable)?;
    }
    told.changes_to_come = replay.changes_to_come();
    Ok((told, replay.books().map_err(Failure::failed)?))
}

/// How far the capture is read: a bar on a terminal, else nothing.
fn progress(size: Option<u64>) -> ProgressBar {
    let Some(size) = size else { return ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{percent:>3} % {bar:40} {bytes} of {total_bytes}, {eta} left");
    // The template is fixed; were it wrong, the library's own would do.
    ProgressBar::new(size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
