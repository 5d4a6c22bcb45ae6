//! Asking the daemon: HTTP/1.1 over its Unix socket, one request a connection.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use guideway_daemon::model::Problem;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;

/// Where the daemon listens unless something else is asked for.
pub(crate) const DEFAULT_SOCKET: &str = "/run/guideway/guideway.sock";

/// How long the daemon may take to begin an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer that is read.
const MAX_ANSWER: u64 = 1 << 30;

/// The header of a change that is made whatever there is now.
const ANY: Option<(&str, &str)> = Some(("If-Match", "*"));

/// Where the daemon is, for every command that asks it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DaemonArgs {
    /// The daemon's socket; GUIDEWAY_SOCKET names another default
    #[arg(long, value_name = "PATH", default_value_os_t = default_socket())]
    pub(crate) socket: PathBuf,
}

/// Not by clap's own means: what the environment gives would count as given, and stand in every usage line.
fn default_socket() -> PathBuf {
    std::env::var_os("GUIDEWAY_SOCKET")
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| DEFAULT_SOCKET.into())
        .into()
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    body: Vec<u8>,
}

impl DaemonArgs {
    /// Reads something.
    pub(crate) fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.ask("GET", path, &[], None)
    }

    /// Reads something, in this time at most.
    pub(crate) fn get_within(&self, path: &str, patience: Duration) -> Result<Answer, Failure> {
        self.ask_within(patience, "GET", path, &[], None)
    }

    /// Reads something in the form of a media type.
    pub(crate) fn get_as(&self, path: &str, media_type: &str) -> Result<Answer, Failure> {
        self.ask("GET", path, &[], Some(("Accept", media_type)))
    }

    /// Asks with a body, or changes something whatever it is now.
    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Result<Answer, Failure> {
        self.ask("POST", path, body, ANY)
    }

    /// Changes something, whatever it is now.
    pub(crate) fn change(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Failure> {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.ask(method, path, body.as_bytes(), ANY)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        header: Option<(&str, &str)>,
    ) -> Result<Answer, Failure> {
        self.ask_within(PATIENCE, method, path, body, header)
    }

    fn ask_within(
        &self,
        patience: Duration,
        method: &str,
        path: &str,
        body: &[u8],
        header: Option<(&str, &str)>,
    ) -> Result<Answer, Failure> {
        let unreachable = |error: io::Error| unreachable(&self.socket, method, &error);
        let mut stream = UnixStream::connect(&self.socket).map_err(unreachable)?;
        // The system takes no time for none at all.
        let patience = patience.clamp(Duration::from_millis(1), PATIENCE);
        stream.set_read_timeout(Some(patience)).map_err(unreachable)?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: guideway\r\nConnection: close\r\n");
        if let Some((name, value)) = header {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method != "GET" {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        let mut answer = Vec::new();
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        // Who refuses a request may answer before the whole of it was sent, and take no more.
        let read = stream.take(MAX_ANSWER).read_to_end(&mut answer);
        let (status, answer) = parse(&answer).ok_or_else(|| {
            if let Err(error) = sent.and(read) {
                return unreachable(error);
            }
            let socket = self.socket.display();
            if answer.is_empty() {
                return unreachable(io::ErrorKind::ConnectionReset.into());
            }
            if answer.starts_with(b"HTTP/1.") {
                return Failure::Unreachable(format!(
                    "the daemon at {socket} ended in the middle of its answer"
                ));
            }
            Failure::failed(format!("what listens at {socket} is no guideway"))
        })?;
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        Err(match serde_json::from_slice::<Problem>(&answer.body) {
            // Problems of a configuration begin with the word that this one will begin with.
            Ok(problem) if status == 503 => Failure::Unreachable(problem.detail),
            Ok(problem) if status == 404 => Failure::NotThere(problem.detail),
            Ok(_) if status == 403 => Failure::failed(for_operators(&self.socket)),
            Ok(problem) => Failure::failed(problem.detail.strip_prefix("error: ").unwrap_or(&problem.detail)),
            Err(_) => Failure::failed(format!("the daemon answered with status {status}")),
        })
    }
}

impl Answer {
    /// The value that the body is.
    pub(crate) fn value<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::failed(format!(
                "the daemon's answer is not understood ({error}); is it of another version?"
            ))
        })
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Why a socket for readers does not do what was asked, and which one does.
fn for_operators(socket: &Path) -> String {
    let operators = guideway_daemon::operators_socket(socket);
    format!(
        "{} is for reading only: use `--socket {}` for this, {WHO}",
        socket.display(),
        operators.display()
    )
}

/// Who may use the operators' socket.
const WHO: &str = "as root or a member of its group (`ls -l` tells which)";

fn unreachable(socket: &Path, method: &str, error: &io::Error) -> Failure {
    let remedy = match error.kind() {
        // The socket for readers would refuse it.
        io::ErrorKind::PermissionDenied if method != "GET" => format!("run it {WHO}"),
        io::ErrorKind::PermissionDenied => format!(
            "use `--socket {}`, which everybody may read by, or become a member of its group",
            guideway_daemon::readers_socket(socket).display()
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "it is too busy to answer, or has as many files open as it may".to_owned()
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "it is there and hung up: too many connections are open at once, or it ends; try again in a while"
                .to_owned()
        }
        _ => "is `guideway run` at work, with this --socket?".to_owned(),
    };
    Failure::Unreachable(format!("the daemon cannot be reached at {}: {error}; {remedy}", socket.display()))
}

/// The status, and the rest of the answer. The daemon closes at its end and names its length.
fn parse(bytes: &[u8]) -> Option<(u16, Answer)> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(bytes).ok()? else { return None };
    let header = |name: &str| {
        let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let body = bytes.get(length..)?;
    let body = match header("content-length").and_then(|length| length.trim().parse::<usize>().ok()) {
        Some(length) => body.get(..length)?,
        None => body,
    };
    Some((response.code?, Answer { body: body.to_vec() }))
}

/// A name as a part of a path.
pub(crate) fn segment(name: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_console_knows_where_the_commands_ask() {
        let commands = include_str!("../../../web/console/js/commands.js");
        assert!(commands.contains(&format!("'{DEFAULT_SOCKET}'")));
    }

    #[test]
    fn an_answer_is_its_status_and_body() {
        let (status, answer) =
            parse(b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 2\r\n\r\n42 and more").unwrap();
        assert_eq!(status, 200);
        assert_eq!(answer.value::<u8>().unwrap(), 42);
        assert!(parse(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut").is_none());
        assert!(parse(b"SSH-2.0-OpenSSH\r\n").is_none());
    }

    #[test]
    fn who_may_not_ask_is_told_the_socket_for_readers() {
        let denied = |method| {
            unreachable(Path::new(DEFAULT_SOCKET), method, &io::ErrorKind::PermissionDenied.into())
                .to_string()
        };
        assert!(denied("GET").contains("`--socket /run/guideway/guideway-read.sock`"), "{}", denied("GET"));
        let change = denied("PUT");
        assert!(!change.contains("-read") && change.contains("as root or a member of its group"), "{change}");
    }

    #[test]
    fn who_asks_the_socket_for_readers_for_a_change_is_told_the_other_one() {
        let told = for_operators(&guideway_daemon::readers_socket(Path::new(DEFAULT_SOCKET)));
        assert!(told.contains("use `--socket /run/guideway/guideway.sock` for this, as root"), "{told}");
    }

    #[test]
    fn an_answer_that_comes_before_the_whole_request_was_taken_is_heard() {
        let directory = std::env::temp_dir().join(format!("guideway-client-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("api-read.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let refuses = std::thread::spawn(move || {
            let problem =
                json!({ "type": "read-only", "title": "", "status": 403, "detail": "no" }).to_string();
            let answer =
                format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n{problem}", problem.len());
            listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap();
        });
        let refused = DaemonArgs { socket }.post("/v1/plan", &vec![b' '; 1 << 20]).unwrap_err();
        assert!(refused.to_string().contains("api-read.sock is for reading only"), "{refused}");
        refuses.join().unwrap();
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_daemon_that_hangs_up_at_once_is_told_from_one_that_is_not_there() {
        let directory = std::env::temp_dir().join(format!("guideway-hung-up-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let daemon = DaemonArgs { socket: directory.join("api.sock") };
        let listener = std::os::unix::net::UnixListener::bind(&daemon.socket).unwrap();
        // Before or after the request came.
        let hangs_up = std::thread::spawn(move || drop(listener.accept()));
        let told = daemon.get("/v1/status").unwrap_err().to_string();
        assert!(told.contains("too many connections are open at once"), "{told}");
        hangs_up.join().unwrap();
        let told = daemon.get("/v1/status").unwrap_err().to_string();
        assert!(told.contains("is `guideway run` at work"), "{told}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn names_are_escaped_in_paths() {
        assert_eq!(segment("web-1.a_b"), "web-1.a_b");
        assert_eq!(segment("a/b ?"), "a%2Fb%20%3F");
    }
}
