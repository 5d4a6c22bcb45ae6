//! A server of the laboratory and nothing else: HTTP/1.1, one request a connection.
//!
//! It is for a person's own machine. It holds few connections at a time, reads a short head within a short time, knows GET and HEAD, and
//! never looks at the file system.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::{Asset, LAB};

/// Serves the laboratory on `listener`, until accepting fails.
///
/// # Errors
/// When a connection can't be accepted for a reason other than the client's or a passing want of resources.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let (stream, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_passing(&error) => {
                // Out of descriptors, say: what is open closes in a while.
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            Err(error) => return Err(error),
        };
        if busy.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            busy.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let running = Arc::clone(&busy);
        let work = move || {
            // A client that goes away is no concern of ours.
            let _ = answer(stream);
            running.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("page".into()).spawn(work).is_err() {
            busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Connections at a time; a browser opens six.
const CONNECTIONS: usize = 64;
/// The most bytes of a request's head.
const HEAD: u64 = 16 * 1024;
/// How long a client may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.kind(), K::ConnectionAborted | K::ConnectionReset | K::Interrupted | K::OutOfMemory)
        || matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

fn answer(stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut reader = BufReader::new(&stream).take(HEAD);
    // Up to the empty line; what follows is no concern of a GET.
    while !head.ends_with(b"\r\n\r\n") {
        if reader.read_until(b'\n', &mut head)? == 0 {
            break;
        }
    }
    let response = respond(&String::from_utf8_lossy(&head));
    (&stream).write_all(&response)
}

/// The answer to a request's head.
fn respond(head: &str) -> Vec<u8> {
    let mut lines = head.split("\r\n");
    let mut request = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version)) = (request.next(), request.next(), request.next()) else {
        return refusal("400 Bad Request", "");
    };
    if !version.starts_with("HTTP/1.") || !head.ends_with("\r\n\r\n") {
        return refusal("400 Bad Request", "");
    }
    let with_body = match method {
        "GET" => true,
        "HEAD" => false,
        _ => return refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
    };
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let Some(asset) = path.strip_prefix('/').and_then(|path| LAB.find(path)) else {
        return refusal("404 Not Found", "");
    };
    let known = lines.filter_map(|line| line.split_once(':')).any(|(name, value)| {
        name.eq_ignore_ascii_case("if-none-match") && value.split(',').any(|tag| tag.trim() == asset.etag())
    });
    found(asset, known, with_body)
}

fn found(asset: &Asset, known: bool, with_body: bool) -> Vec<u8> {
    let status = if known { "304 Not Modified" } else { "200 OK" };
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nETag: {}\r\n", asset.etag());
    for (name, value) in LAB.headers() {
        head += &format!("{name}: {value}\r\n");
    }
    if !known {
        head += &format!("Content-Type: {}\r\nContent-Length: {}\r\n", asset.content_type, asset.bytes.len());
    }
    let mut response = (head + "\r\n").into_bytes();
    if with_body && !known {
        response.extend_from_slice(asset.bytes);
    }
    response
}

fn refusal(status: &str, headers: &str) -> Vec<u8> {
    let body = format!("{status}\n");
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> String {
        let response = respond(head);
        String::from_utf8_lossy(&response).split("\r\n").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_page_and_its_files_are_found_and_nothing_else() {
        for (target, expected) in [
            ("/", "200 OK"),
            ("/index.html?x=1", "200 OK"),
            ("/guideway.wasm", "200 OK"),
            ("/guideway.wasm.json", "404 Not Found"),
            ("/../Cargo.toml", "404 Not Found"),
            ("//etc/passwd", "404 Not Found"),
            ("http://elsewhere/", "404 Not Found"),
        ] {
            assert_eq!(
                status(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")),
                format!("HTTP/1.1 {expected}")
            );
        }
    }

    #[test]
    fn what_is_no_request_for_a_file_is_refused() {
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
        for wrong in
            ["", "GET /\r\n\r\n", "GET / HTTP/2\r\n\r\n", "GET / HTTP/1.1\r\nHost: x", "\u{fffd}\r\n\r\n"]
        {
            assert_eq!(status(wrong), "HTTP/1.1 400 Bad Request", "{wrong:?}");
        }
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        let asset = LAB.find("js/main.js").unwrap();
        let again = format!("GET /js/main.js HTTP/1.1\r\nif-none-match: \"x\", {}\r\n\r\n", asset.etag());
        let response = String::from_utf8(respond(&again)).unwrap();
        assert!(response.starts_with("HTTP/1.1 304") && response.ends_with("\r\n\r\n"), "{response}");
        let head = String::from_utf8(respond("HEAD /js/main.js HTTP/1.1\r\n\r\n")).unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", asset.bytes.len()))
                && head.ends_with("\r\n\r\n")
        );
    }

    #[test]
    fn a_browser_gets_the_module_whole_and_with_its_type() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /guideway.wasm HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(response[..end].to_vec()).unwrap();
        assert!(head.contains("Content-Type: application/wasm\r\n"), "{head}");
        assert!(head.contains("'wasm-unsafe-eval'"), "{head}");
        assert_eq!(&response[end..], LAB.find("guideway.wasm").unwrap().bytes);
    }
}
