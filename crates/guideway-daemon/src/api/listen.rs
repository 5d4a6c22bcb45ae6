//! Where the API listens: a Unix socket for operators, one beside it for readers, and TCP where it is asked for.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::desk::{Loop, Work};
use super::door::{Door, Peer, Role};
use super::server::router;
use crate::options::ApiOptions;

/// Requests that may wait for the loop; who asks waits then, too.
const WAITING: usize = 256;

/// The API cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// A socket.
    #[error("the API cannot listen at {place}: {error}; give another place with {option}")]
    Listen {
        /// Where.
        place: String,
        /// The option that says where.
        option: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Another daemon listens there.
    #[error("another daemon listens at {}: stop it, or give another place with --socket", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// A file of a token.
    #[error("cannot read a token from {}: {error}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// TCP without a token.
    #[error("--listen needs a token: name a file that holds one with --token-file or --read-token-file")]
    NoToken,
    /// A token that can be guessed.
    #[error("the token in {} is shorter than {MIN_TOKEN} characters and can be guessed; `openssl rand -hex 32` makes one", path.display())]
    WeakToken {
        /// The file.
        path: PathBuf,
    },
}

/// The least that a token has, characters.
const MIN_TOKEN: usize = 16;

/// The listening API. Its sockets are taken away when it is dropped.
#[derive(Debug)]
pub(crate) struct Listeners {
    sockets: Vec<PathBuf>,
    address: Option<SocketAddr>,
    _servers: JoinSet<io::Result<()>>,
}

impl Listeners {
    /// Begins to listen; what comes is work for the loop.
    pub(crate) async fn open(options: &ApiOptions) -> Result<(Self, mpsc::Receiver<Work>), ApiError> {
        let (work, waiting) = mpsc::channel(WAITING);
        let to_loop = Loop::new(work);
        let mut servers = JoinSet::new();
        let mut sockets = Vec::new();
        if let Some(path) = &options.socket {
            let readers = readers_socket(path);
            for (path, mode, role) in [(path.clone(), 0o660, Role::Operator), (readers, 0o666, Role::Reader)]
            {
                let listener = unix(&path, mode).await?;
                let router = router(to_loop.clone(), Door::Socket(role));
                let service = router.into_make_service_with_connect_info::<Peer>();
                servers.spawn(async move { axum::serve(listener, service).await });
                sockets.push(path);
            }
        }
        let mut bound = None;
        if let Some(address) = options.listen {
            let tokens = tokens(options)?;
            let (listener, address) = tcp(address).await?;
            bound = Some(address);
            let router = router(to_loop, Door::Tokens(Arc::new(tokens)));
            servers.spawn(async move { axum::serve(listener, router).await });
        }
        Ok((Self { sockets, address: bound, _servers: servers }, waiting))
    }

    /// The TCP address, with the port that it got.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // Whoever took it away was quicker.
            let _ = fs::remove_file(socket);
        }
    }
}

/// The socket beside this one for those who only read: `guideway-read.sock` beside `guideway.sock`.
fn readers_socket(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-read.{}", extension.to_string_lossy()),
        None => format!("{stem}-read"),
    };
    path.with_file_name(name)
}

async fn unix(path: &Path, mode: u32) -> Result<UnixListener, ApiError> {
    let failed = |error| ApiError::Listen { place: path.display().to_string(), option: "--socket", error };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    if path.exists() {
        if UnixStream::connect(path).await.is_ok() {
            return Err(ApiError::Taken { path: path.to_path_buf() });
        }
        // A daemon that was killed left it.
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

async fn tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ApiError> {
    let failed = |error| ApiError::Listen { place: address.to_string(), option: "--listen", error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn tokens(options: &ApiOptions) -> Result<Vec<(String, Role)>, ApiError> {
    let files = [(&options.token_file, Role::Operator), (&options.read_token_file, Role::Reader)];
    let mut tokens = Vec::new();
    for (path, role) in files.into_iter().filter_map(|(path, role)| Some((path.as_ref()?, role))) {
        let text = fs::read_to_string(path).map_err(|error| ApiError::Token { path: path.clone(), error })?;
        let token = text.trim();
        if token.chars().count() < MIN_TOKEN {
            return Err(ApiError::WeakToken { path: path.clone() });
        }
        tokens.push((token.to_owned(), role));
    }
    if tokens.is_empty() { Err(ApiError::NoToken) } else { Ok(tokens) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readers_socket_lies_beside_the_operators() {
        let beside = |path: &str| readers_socket(Path::new(path)).display().to_string();
        assert_eq!(beside("/run/guideway/guideway.sock"), "/run/guideway/guideway-read.sock");
        assert_eq!(beside("api"), "api-read");
    }
}
