//! Requests to the API.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

/// What a request came to: its status, its head in lower case, its body as it is and as JSON.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) body: Value,
}

/// Asks at a Unix socket.
pub(crate) fn ask(socket: &Path, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    ask_by(UnixStream::connect(socket).unwrap(), method, path, headers, body)
}

/// Asks on an open connection.
pub(crate) fn ask_by(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let bytes = answer.split_off(end + 4);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Reply { status, head, bytes, body }
}
