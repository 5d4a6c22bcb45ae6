//! Where the API listens: a Unix socket for operators, one beside it for readers, and TCP where it is asked for.

use std::fs;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::desk::{Loop, Work};
use super::door::{Door, Role};
use super::places::Places;
use super::serve::{Waits, serve};
use super::server::router;
use crate::manager::Pulse;
use crate::options::ApiOptions;
use crate::patience::Patience;

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
    /// Something else lies there.
    #[error("{} is there and is no socket: give another place with --socket, or move it away", path.display())]
    NoSocket {
        /// What lies there.
        path: PathBuf,
    },
    /// TCP without a token.
    #[error("--listen needs a token: name a file that holds one with --token-file or --read-token-file")]
    NoToken,
    /// A token that others than its owner know, or choose.
    #[error("the token in {} is no secret, since others may read or write the file (mode {mode:03o}): chmod 600 {}", path.display(), path.display())]
    OpenToken {
        /// The file.
        path: PathBuf,
        /// Who may do what with it.
        mode: u32,
    },
    /// A token that no request can name.
    #[error("the token in {} is not one word of plain characters; `openssl rand -hex 32` makes one", path.display())]
    UnusableToken {
        /// The file.
        path: PathBuf,
    },
    /// Readers could change everything.
    #[error("the token in {} is that of operators as well: give readers one of their own", path.display())]
    SameToken {
        /// The file.
        path: PathBuf,
    },
    /// A token that can be guessed.
    #[error("the token in {} is shorter than {MIN_TOKEN} characters and can be guessed; `openssl rand -hex 32` makes one", path.display())]
    WeakToken {
        /// The file.
        path: PathBuf,
    },
}

/// The least that a token has, characters.
const MIN_TOKEN: usize = 16;

/// So much of its file is read, bytes.
const MAX_TOKEN: u64 = 1 << 12;

/// What a token's file must not allow: its group to write it, and everybody else anything.
const NOT_ALLOWED: u32 = 0o027;

/// The listening API. Its sockets are taken away when it is dropped.
#[derive(Debug)]
pub(crate) struct Listeners {
    sockets: Vec<PathBuf>,
    address: Option<SocketAddr>,
    places: Vec<Arc<Places>>,
    _servers: JoinSet<()>,
}

impl Listeners {
    /// Begins to listen; what comes is work for the loop.
    pub(crate) fn open(
        options: &ApiOptions,
        pulse: &Pulse,
        patience: &mut Patience,
    ) -> Result<(Self, mpsc::Receiver<Work>), ApiError> {
        let tokens = options.listen.map(|_| tokens(options)).transpose()?;
        let (work, waiting) = mpsc::channel(WAITING);
        let to_loop = Loop::new(work, pulse.clone());
        let mut servers = JoinSet::new();
        let mut sockets = Vec::new();
        let mut places = Vec::new();
        let doors = 2 * u64::from(options.socket.is_some()) + u64::from(options.listen.is_some());
        let mut places_at = |door| {
            places.push(Places::of_one_of(doors, door));
            Arc::clone(&places[places.len() - 1])
        };
        if let Some(path) = &options.socket {
            let readers = readers_socket(path);
            for (door, path, mode, role) in [
                ("operators", path.clone(), 0o660, Role::Operator),
                ("readers", readers, 0o666, Role::Reader),
            ] {
                let listener = unix(&path, mode, patience)?;
                let router = router(to_loop.clone(), Door::Socket(role));
                servers.spawn(serve(listener, router, places_at(door), Waits::USUAL));
                sockets.push(path);
            }
        }
        let mut bound = None;
        if let (Some(address), Some(tokens)) = (options.listen, tokens) {
            let (listener, address) = tcp(address)?;
            bound = Some(address);
            let router = router(to_loop, Door::Tokens(Arc::new(tokens)));
            servers.spawn(serve(listener, router, places_at("tcp"), Waits::USUAL));
        }
        Ok((Self { sockets, address: bound, places, _servers: servers }, waiting))
    }

    /// The TCP address, with the port that it got.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Who has how many connections, for each way in.
    pub(crate) fn places(&self) -> &[Arc<Places>] {
        &self.places
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
pub fn readers_socket(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-read.{}", extension.to_string_lossy()),
        None => format!("{stem}-read"),
    };
    path.with_file_name(name)
}

/// The socket for operators, to one for readers beside it.
pub fn operators_socket(readers: &Path) -> PathBuf {
    let stem = readers.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_suffix("-read").unwrap_or(&stem);
    let name = match readers.extension() {
        Some(extension) => format!("{stem}.{}", extension.to_string_lossy()),
        None => stem.to_owned(),
    };
    readers.with_file_name(name)
}

fn unix(path: &Path, mode: u32, patience: &mut Patience) -> Result<UnixListener, ApiError> {
    let failed = |error| ApiError::Listen { place: path.display().to_string(), option: "--socket", error };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(ApiError::NoSocket { path: path.to_path_buf() });
        }
        let is_free = || match UnixStream::connect(path) {
            Ok(_) => Err(ApiError::Taken { path: path.to_path_buf() }),
            Err(_) => Ok(()),
        };
        patience.take(|_| true, is_free)?;
        // A daemon that was killed left it.
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

fn tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ApiError> {
    let failed = |error| ApiError::Listen { place: address.to_string(), option: "--listen", error };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((TcpListener::from_std(listener).map_err(failed)?, address))
}

/// Whether the API may listen as it is asked to, as far as tokens go: before anything is touched.
pub(crate) fn check(options: &ApiOptions) -> Result<(), ApiError> {
    options.listen.map_or(Ok(()), |_| tokens(options).map(drop))
}

fn tokens(options: &ApiOptions) -> Result<Vec<(String, Role)>, ApiError> {
    let files = [(&options.token_file, Role::Operator), (&options.read_token_file, Role::Reader)];
    let mut tokens: Vec<(String, Role)> = Vec::new();
    for (path, role) in files.into_iter().filter_map(|(path, role)| Some((path.as_ref()?, role))) {
        let token = token(path)?;
        if tokens.iter().any(|(other, _)| *other == token) {
            return Err(ApiError::SameToken { path: path.clone() });
        }
        tokens.push((token, role));
    }
    if tokens.is_empty() { Err(ApiError::NoToken) } else { Ok(tokens) }
}

/// The token that a file holds.
fn token(path: &Path) -> Result<String, ApiError> {
    let unreadable = |error| ApiError::Token { path: path.to_path_buf(), error };
    let file = fs::File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && mode & NOT_ALLOWED != 0 {
        return Err(ApiError::OpenToken { path: path.to_path_buf(), mode });
    }
    let mut text = String::new();
    file.take(MAX_TOKEN).read_to_string(&mut text).map_err(unreadable)?;
    let token = text.trim();
    if token.chars().count() < MIN_TOKEN {
        return Err(ApiError::WeakToken { path: path.to_path_buf() });
    }
    if token.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(ApiError::UnusableToken { path: path.to_path_buf() });
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readers_socket_lies_beside_the_operators() {
        let beside = |path: &str| readers_socket(Path::new(path)).display().to_string();
        assert_eq!(beside("/run/guideway/guideway.sock"), "/run/guideway/guideway-read.sock");
        assert_eq!(beside("api"), "api-read");
        for path in ["/run/guideway/guideway.sock", "api"] {
            assert_eq!(operators_socket(&readers_socket(Path::new(path))), Path::new(path));
        }
    }

    #[tokio::test]
    async fn only_a_socket_that_nobody_listens_at_is_replaced() {
        let directory = std::env::temp_dir().join(format!("guideway-listen-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (file, link, socket) = (directory.join("file"), directory.join("link"), directory.join("sock"));
        fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link, &directory] {
            let refused = unix(path, 0o600, &mut Patience::new()).unwrap_err();
            assert!(matches!(refused, ApiError::NoSocket { .. }), "{refused}");
        }
        assert_eq!(fs::read_to_string(&link).unwrap(), "precious");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let listener = unix(&socket, 0o600, &mut Patience::new()).unwrap();
        drop(listener);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_token_is_secret_one_word_and_of_one_role() {
        let directory = std::env::temp_dir().join(format!("guideway-token-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str, mode| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let good = write("good", "0123456789abcdef\n", 0o640);
        assert_eq!(token(&good).unwrap(), "0123456789abcdef");
        for mode in [0o644, 0o660, 0o602] {
            let refused = token(&write("open", "0123456789abcdef", mode)).unwrap_err().to_string();
            assert!(refused.contains("chmod 600 /"), "{refused}");
        }
        assert!(matches!(token(&write("weak", "secret", 0o600)), Err(ApiError::WeakToken { .. })));
        let words = write("words", "0123456789 abcdef", 0o600);
        assert!(matches!(token(&words), Err(ApiError::UnusableToken { .. })));
        assert!(matches!(token(&directory.join("none")), Err(ApiError::Token { .. })));
        let options = ApiOptions {
            token_file: Some(good.clone()),
            read_token_file: Some(good),
            ..ApiOptions::default()
        };
        assert!(matches!(tokens(&options), Err(ApiError::SameToken { .. })));
        let without =
            ApiOptions { listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))), ..ApiOptions::default() };
        assert!(matches!(check(&without), Err(ApiError::NoToken)));
        assert!(check(&ApiOptions::default()).is_ok());
        fs::remove_dir_all(directory).unwrap();
    }
}
