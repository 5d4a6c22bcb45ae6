//! `guideway run`.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use guideway_daemon::{
    ApiError, ApiOptions, DEFAULT_CONFIG, DEFAULT_STATE, EngineOptions, Log, OnExit, Options, RunError,
};
use guideway_xdp::attach::{Mode, Wish};
use guideway_xdp::pins::DEFAULT_ROOT;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::prelude::*;

use crate::daemon_client::DEFAULT_SOCKET;
use crate::failure::{Failure, Outcome};
use crate::screen::wants_colour;

/// What is still to be logged when the daemon has ended may take so long.
const LAST_LINES: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Signals:
  SIGHUP            read the configuration again; a bad one changes nothing
  SIGTERM, SIGINT   end as --on-exit says
  SIGUSR2           end, and leave the kernel's forwarder at work for the next daemon

A daemon that is killed leaves the kernel's forwarder at work as well. The next one takes it over with every flow.
If the configuration file is bad at the start, the one that was taken last is used, and the log says so.

Exit codes:
  0  it ended as it was asked to
  1  it could not start, or failed
  2  the command line is wrong

Examples:
  guideway run --interface eth0
  guideway run -c guideway.toml --engine soft --interface eth0 --state /tmp/guideway")]
pub(crate) struct Args {
    /// The configuration file; it is also read again when it is written
    #[arg(long, short, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    config: PathBuf,
    /// What forwards the packets
    #[arg(long, value_enum, default_value_t = Engine::Xdp)]
    engine: Engine,
    /// An interface that packets of clients come by, in place of those in the configuration; may be given more than once
    #[arg(long = "interface", short, value_name = "IF")]
    interfaces: Vec<String>,
    /// xdp: where at the interface the program runs; auto is native where the driver can, and the interfaces towards backends
    /// send what it has for them; it says so where they can't
    #[arg(long, value_enum, default_value_t = XdpMode::Auto)]
    xdp_mode: XdpMode,
    /// xdp: the directory for pins, in a BPF file system
    #[arg(long, value_name = "DIR", default_value = DEFAULT_ROOT)]
    pins: PathBuf,
    /// xdp: what becomes of the kernel's forwarder at the end, whatever the configuration says
    #[arg(long, value_enum)]
    on_exit: Option<AtExit>,
    /// The directory for what survives a restart: verdicts, what operators said, the last good configuration
    #[arg(long, value_name = "DIR", default_value = DEFAULT_STATE)]
    state: PathBuf,
    /// Where the API listens, for operators; a socket for readers lies beside it, `-read` in its name
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Have the API and the live console (/console/) listen at a TCP address as well, for who knows a token
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// A file with the token for operators
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,
    /// A file with the token for readers
    #[arg(long, value_name = "FILE", requires = "listen")]
    read_token_file: Option<PathBuf>,
    /// The form of the log, on standard error
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    log: LogForm,
    /// What is logged: off, error, warn, info, debug, trace, or a filter such as guideway_daemon=debug
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log_level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// The kernel, by XDP
    Xdp,
    /// This process, on packet sockets: for trying things out. Packets must come one by one: over a veth pair
    /// `ethtool -K PEER tso off gso off` at its other end, else `ethtool -K INTERFACE gro off`
    Soft,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum XdpMode {
    Auto,
    Native,
    Generic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AtExit {
    /// It is taken away, with all it remembers
    Detach,
    /// It goes on forwarding as it is
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogForm {
    Text,
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Failure> {
    if args.engine == Engine::Soft && args.on_exit == Some(AtExit::Keep) {
        return Err(Failure::usage(
            "--on-exit keep: the software engine forwards in this process and ends with it; leave it out, or run with \
             --engine xdp",
        ));
    }
    let log = log(args.log, &args.log_level)?;
    let options = Options {
        config: args.config.clone(),
        engine: match args.engine {
            Engine::Soft => EngineOptions::Soft,
            Engine::Xdp => EngineOptions::Xdp {
                mode: match args.xdp_mode {
                    XdpMode::Auto => Wish::Auto,
                    XdpMode::Native => Wish::Exactly(Mode::Native),
                    XdpMode::Generic => Wish::Exactly(Mode::Generic),
                },
                pins: args.pins.clone(),
                on_exit: args.on_exit.map(|asked| match asked {
                    AtExit::Detach => OnExit::Detach,
                    AtExit::Keep => OnExit::Keep,
                }),
            },
        },
        interfaces: args.interfaces.clone(),
        state: args.state.clone(),
        api: ApiOptions {
            socket: Some(args.socket.clone()),
            listen: args.listen,
            token_file: args.token_file.clone(),
            read_token_file: args.read_token_file.clone(),
        },
        log: Some(log.clone()),
    };
    let ended = guideway_daemon::run(&options);
    // Before what is printed of the end; nobody waits for a reader that stands still.
    log.flush(LAST_LINES);
    match ended {
        Ok(()) => Ok(Outcome::Ok),
        Err(RunError::Config(problems)) => {
            super::replay::show_problems(&problems);
            Ok(Outcome::Differs)
        }
        Err(RunError::Api(error @ ApiError::NoToken)) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::failed(error)),
    }
}

/// What is logged. A word alone is a level: as the name of a module, which it could be, it would silence all others.
fn filter(text: &str) -> Result<Targets, Failure> {
    let alone = text.split(',').map(str::trim).filter(|part| !part.contains('='));
    let wrong = alone.into_iter().find(|word| word.parse::<LevelFilter>().is_err());
    let wrong = wrong.map(|word| format!("{word:?} is no level"));
    let parsed = wrong.map_or_else(|| text.parse().map_err(|error: ParseError| error.to_string()), Err);
    parsed.map_err(|error| {
        Failure::usage(format!(
            "--log-level {text}: {error}; levels are off, error, warn, info, debug and trace, of a module as \
             guideway_daemon=debug"
        ))
    })
}

fn log(form: LogForm, level: &str) -> Result<Log, Failure> {
    let filter = filter(level)?;
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed(format!("the log cannot be started: {error}"));
    let stderr = io::stderr().as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
    let log = Log::to(File::from(stderr)).map_err(|error| failed(&error))?;
    let lines = log.clone();
    let layer = tracing_subscriber::fmt::layer().with_writer(move || lines.clone()).with_target(false);
    let layer = match form {
        LogForm::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
        LogForm::Text => layer.with_ansi(wants_colour(io::stderr().is_terminal())).boxed(),
    };
    let set = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
    set.map_err(|error| failed(&error))?;
    tell_panics_after(&log);
    Ok(log)
}

/// Has what was logged before a panic written before the panic is told. Where nobody takes that, nobody is told, and the process
/// ends at once all the same.
fn tell_panics_after(log: &Log) {
    let (log, tell) = (log.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        if log.flush(LAST_LINES) {
            tell(panic);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for right in ["info", "WARN", "off", "guideway_daemon=debug", "warn,guideway_daemon=trace"] {
            assert!(filter(right).is_ok(), "{right}");
        }
        for wrong in ["inf", "guideway_daemon", "info,debgu", "guideway_daemon=loud"] {
            let refused = filter(wrong).unwrap_err();
            assert!(
                matches!(&refused, Failure::Usage(text) if text.contains("warn, info")),
                "{wrong}: {refused}"
            );
        }
    }
}
