//! The configuration: a TOML file, read whole or not at all.
//!
//! A file goes three steps: text → TOML tree (`reader`) → what was written (`raw`) → [`Config`]. Each step gathers every
//! problem it finds with its place, and what could be read is checked on, so that one run names all mistakes. Keys that
//! are not known are mistakes, and so are settings that could not be honoured where they stand.
//!
//! ```
//! use guideway_control::config::{self, Source};
//!
//! let good = Source::new("guideway.toml", r#"
//!     [underlay]
//!     source_v4 = "10.0.0.254"
//!
//!     [[service]]
//!     name = "web"
//!     vip = "192.0.2.10"
//!     port = 443
//!     protocol = "tcp"
//!     backend = [{ name = "be1", address = "10.0.0.1" }]
//! "#);
//! assert_eq!(config::parse(&good)?.services[0].table_size.get(), 251);
//!
//! let bad = Source::new("guideway.toml", "[underlay]\nmtuu = 1500\n");
//! let problems = config::parse(&bad).unwrap_err();
//! assert_eq!(problems.list()[0].help.as_deref(), Some("did you mean `mtu`?"));
//! # Ok::<(), config::Problems>(())
//! ```

mod build;
mod build_daemon;
mod build_health;
mod build_service;
mod build_tunnel;
pub mod events;
mod model;
mod problem;
mod raw;
mod raw_daemon;
mod raw_health;
mod reader;
mod renamed;
mod server_id;
mod size_border;
mod source;
mod value;
mod words;

use std::io::Read;
use std::path::Path;

use toml::de::DeTable;

pub use build::DEFAULT_FLOW_TABLE_ENTRIES;
pub use model::{
    Backend, Config, Daemon, Health, MAX_BACKENDS, MAX_SERVICES, Ports, Probe, Quic, Service, Underlay,
};
pub use problem::{Problem, ProblemRecord, Problems};
pub use raw::{MAX_SERVER_ID, MAX_WEIGHT};
pub use renamed::{Renames, renamed};
pub use size_border::SizeBorder;
pub use source::{NotUtf8, Source, Span};
pub use value::{MacAddr, MacAddrError};
pub use words::{
    AllDown, BackendState, Encapsulation, EventKind, Fragments, HashKey, HealthKind, HealthVia, NoBackend,
    OnExit, Orphans, OuterSource, Policy, Protocol, Track, UdpFlows, UnknownWord,
};

/// Files larger than this are not configurations: ten thousand services with ten backends each are a tenth of it.
const MAX_BYTES: u64 = 128 << 20;

/// Reads a configuration.
///
/// # Errors
/// Every problem of the text.
pub fn parse(source: &Source) -> Result<Config, Problems> {
    if source.text().trim().is_empty() {
        return Err(Problems::new(source.clone(), vec![empty()]));
    }
    let mut problems = Vec::new();
    let raw = document(source, &mut problems)?;
    let config = build::build(raw, &mut problems);
    finish(source, problems, config)
}

/// Reads a file, or standard input where the path is `-`, for [`parse`] or [`events::parse`].
///
/// # Errors
/// [`LoadError`] when it cannot be read or is no text.
pub fn load(path: &Path) -> Result<Source, LoadError> {
    let failed = |error| LoadError::Read { name: path.display().to_string(), error };
    let (name, reader): (String, Box<dyn Read>) = if path.as_os_str() == "-" {
        ("<stdin>".to_owned(), Box::new(std::io::stdin().lock()))
    } else {
        (path.display().to_string(), Box::new(std::fs::File::open(path).map_err(failed)?))
    };
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(LoadError::TooLarge { name });
    }
    Ok(Source::from_bytes(name, bytes)?)
}

/// The JSON schema (draft 2020-12) of the configuration.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(raw::RawConfig).to_value()
}

/// Why a file could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system refused.
    #[error("cannot read {name}: {error}")]
    Read {
        /// The file.
        name: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// Too large to be meant.
    #[error("{name} is larger than {} MiB; is it the right file?", MAX_BYTES >> 20)]
    TooLarge {
        /// The file.
        name: String,
    },
    /// Not text.
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
}

/// A file is empty while an editor writes it, or by a slip; that is no reason to take every service away.
fn empty() -> Problem {
    Problem::new(0..0, "the file is empty")
        .label("nothing is said here")
        .help("to run without any service, write a comment into it, such as `# no services yet`")
}

/// The document as written. Where its syntax or its outline is broken nothing else is said: what it meant is a guess.
fn document<T: reader::FromSection>(source: &Source, problems: &mut Vec<Problem>) -> Result<T, Problems> {
    let (tree, errors) = DeTable::parse_recoverable(source.text());
    if !errors.is_empty() {
        let end = source.text().len();
        let wrong_headings = reader::read_document::<T>(&tree, &mut Vec::new()).wrong_headings;
        // What stands below a wrong heading is a second time in the table before it, for TOML.
        let is_consequence = |error: &&toml::de::Error| {
            !wrong_headings.is_empty() && error.message().starts_with("duplicate key")
        };
        let broken = errors.iter().filter(|error| !is_consequence(error)).map(|error| {
            let span = error.span().unwrap_or(end..end);
            Problem::new(span, format!("not TOML: {}", error.message())).label("here")
        });
        let broken = broken.collect::<Vec<_>>();
        return Err(Problems::new(source.clone(), [broken, wrong_headings].concat()));
    }
    let read = reader::read_document(&tree, problems);
    if read.is_muddled {
        return Err(Problems::new(source.clone(), std::mem::take(problems)));
    }
    Ok(read.value)
}

fn finish<T>(source: &Source, problems: Vec<Problem>, result: T) -> Result<T, Problems> {
    if problems.is_empty() { Ok(result) } else { Err(Problems::new(source.clone(), problems)) }
}
