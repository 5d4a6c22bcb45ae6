//! What the daemon is told when it is started.

use std::net::SocketAddr;
use std::path::PathBuf;

use guideway_control::config;
use guideway_xdp::attach::Wish;

use crate::log::Log;

/// Where the configuration lies unless something else is asked for.
pub const DEFAULT_CONFIG: &str = "/etc/guideway/guideway.toml";

/// Where state that outlives the process lies unless something else is asked for.
pub const DEFAULT_STATE: &str = "/var/lib/guideway";

/// What the daemon is told when it is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The configuration file.
    pub config: PathBuf,
    /// Which forwarder.
    pub engine: EngineOptions,
    /// The interfaces that packets of clients come by, by name; without any, those of the configuration.
    pub interfaces: Vec<String>,
    /// Where state that outlives the process lies. The directory is made if it is not there.
    pub state: PathBuf,
    /// Where the API listens.
    pub api: ApiOptions,
    /// Where what is logged goes, for who asks what was lost of it.
    pub log: Option<Log>,
}

/// Where the API listens, and who may come in.
#[derive(Debug, Clone, Default)]
pub struct ApiOptions {
    /// The Unix socket for operators; one for readers lies beside it. `None`: none.
    pub socket: Option<PathBuf>,
    /// A TCP address, for who knows a token.
    pub listen: Option<SocketAddr>,
    /// A file with the token for operators.
    pub token_file: Option<PathBuf>,
    /// A file with the token for readers.
    pub read_token_file: Option<PathBuf>,
}

/// Which forwarder, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineOptions {
    /// The kernel's, by XDP.
    Xdp {
        /// The mode at the interfaces.
        mode: Wish,
        /// The directory for pins, in a BPF file system.
        pins: PathBuf,
        /// What becomes of it when the daemon is asked to end, whatever the configuration says.
        on_exit: Option<OnExit>,
    },
    /// In this process, on packet sockets.
    Soft,
}

/// What becomes of the kernel's forwarder when the daemon is asked to end. A daemon that is killed always leaves it at
/// work, for the next to take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnExit {
    /// It is taken away, with all it remembers.
    #[default]
    Detach,
    /// It goes on forwarding as it is.
    Keep,
}

impl From<config::OnExit> for OnExit {
    fn from(word: config::OnExit) -> Self {
        match word {
            config::OnExit::Detach => Self::Detach,
            config::OnExit::Keep => Self::Keep,
        }
    }
}
