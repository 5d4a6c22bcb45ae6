//! A GET, its status, and a text in its body. Redirects are answers like others and not followed.

use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::progress::Progress;
use crate::health::round::{Fault, Stage};

/// The longest status line and headers.
const MAX_HEAD: usize = 16 << 10;

/// How much of a body is searched.
const MAX_BODY: usize = 64 << 10;

/// The most headers.
const MAX_HEADERS: usize = 100;

/// What is asked, and which answer is fine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// Whether it is over TLS.
    pub(super) secure: bool,
    /// The host, where it is not the address.
    pub(super) host: Option<&'a str>,
    /// Who is asked.
    pub(super) target: SocketAddr,
    pub(super) path: &'a str,
    /// Statuses that are fine.
    pub(super) status: &'a [u16],
    /// A text that the body must hold.
    pub(super) body: Option<&'a str>,
}

/// Asks on a connection, and leaves it.
pub(super) async fn ask(
    request: &Request<'_>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    progress: &Progress,
) -> Result<(), Fault> {
    progress.enter(Stage::Request);
    stream.write_all(request.text().as_bytes()).await.map_err(|error| progress.fault(&error))?;
    stream.flush().await.map_err(|error| progress.fault(&error))?;
    progress.enter(Stage::Head);
    let mut read = Vec::new();
    let head = loop {
        match Head::parse(&read)? {
            // Informational: the answer proper follows.
            Some(head) if head.status < 200 && head.status != 101 => {
                read.drain(..head.length);
            }
            Some(head) => break head,
            None if read.len() >= MAX_HEAD => {
                return Err(not_http(format!("more than {MAX_HEAD} bytes of headers")));
            }
            None => {
                if more(&mut stream, &mut read, MAX_HEAD, progress).await? == 0 {
                    return Err(Fault::Closed { stage: Stage::Head });
                }
            }
        }
    };
    if !request.status.contains(&head.status) {
        return Err(Fault::Status { got: head.status, fine: request.status.to_vec() });
    }
    let Some(wanted) = request.body else { return Ok(()) };
    progress.enter(Stage::Body);
    let mut body = Body::new(head.framing);
    let mut raw = read.split_off(head.length);
    loop {
        body.take(&mut raw)?;
        if find(&body.text, wanted.as_bytes()) {
            return Ok(());
        }
        if body.ended || body.text.len() >= MAX_BODY {
            return Err(Fault::Body { read: body.text.len(), wanted: wanted.to_owned() });
        }
        let room = raw.len() + 4_096;
        if more(&mut stream, &mut raw, room, progress).await? == 0 {
            return match body.framing {
                Framing::UntilClose => Err(Fault::Body { read: body.text.len(), wanted: wanted.to_owned() }),
                _ => Err(Fault::Closed { stage: Stage::Body }),
            };
        }
    }
}

impl Request<'_> {
    fn text(&self) -> String {
        let port = self.target.port();
        let usual = port == if self.secure { 443 } else { 80 };
        let host = match (self.host, self.target.ip()) {
            (Some(host), _) => host.to_owned(),
            (None, IpAddr::V4(address)) if usual => address.to_string(),
            (None, IpAddr::V6(address)) if usual => format!("[{address}]"),
            (None, _) => self.target.to_string(),
        };
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: guideway-health/{version}\r\nAccept: */*\r\n\
             Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
            self.path
        )
    }
}

/// Reads once, up to `limit` bytes in all; 0 at the end.
async fn more(
    stream: &mut (impl AsyncRead + Unpin),
    into: &mut Vec<u8>,
    limit: usize,
    progress: &Progress,
) -> Result<usize, Fault> {
    let mut part = stream.take((limit - into.len()) as u64);
    match part.read_buf(into).await {
        Ok(length) => Ok(length),
        // A TLS peer that closes without saying so: the end all the same, and framing tells whether it is early.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(0),
        Err(error) => Err(progress.fault(&error)),
    }
}

/// Status line and headers.
struct Head {
    length: usize,
    status: u16,
    framing: Framing,
}

/// How the end of a body is told (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

impl Head {
    /// `None` while it is not complete.
    fn parse(read: &[u8]) -> Result<Option<Self>, Fault> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(read).map_err(|error| not_http(error.to_string()))?;
        let httparse::Status::Complete(length) = parsed else { return Ok(None) };
        let status = response.code.unwrap_or_default();
        let named = |name: &str| {
            let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            std::str::from_utf8(header.value).ok().map(str::trim)
        };
        let framing = if matches!(status, 204 | 304) {
            Framing::Length(0)
        } else if let Some(coding) = named("transfer-encoding") {
            if !coding.eq_ignore_ascii_case("chunked") {
                return Err(not_http(format!("transfer coding {coding:?} was not asked for")));
            }
            Framing::Chunked
        } else if let Some(length) = named("content-length") {
            let length = length.parse().map_err(|_| not_http(format!("content length {length:?}")))?;
            Framing::Length(length)
        } else {
            Framing::UntilClose
        };
        Ok(Some(Self { length, status, framing }))
    }
}

/// The part of a body that is searched.
struct Body {
    framing: Framing,
    text: Vec<u8>,
    /// Bytes of the present chunk, with the line end behind it, that are still to come.
    chunk: Option<u64>,
    ended: bool,
}

impl Body {
    fn new(framing: Framing) -> Self {
        Self { framing, text: Vec::new(), chunk: None, ended: false }
    }

    /// Takes what it can of the bytes on the connection.
    fn take(&mut self, raw: &mut Vec<u8>) -> Result<(), Fault> {
        match self.framing {
            Framing::UntilClose => self.text.append(raw),
            Framing::Length(length) => {
                self.text.append(raw);
                self.ended = self.text.len() as u64 >= length;
            }
            Framing::Chunked => while !self.ended && self.take_chunk(raw)? {},
        }
        self.text.truncate(MAX_BODY);
        Ok(())
    }

    /// Takes a chunk's size line, or some of its bytes; `false` when it needs more.
    fn take_chunk(&mut self, raw: &mut Vec<u8>) -> Result<bool, Fault> {
        let Some(left) = self.chunk else {
            let parsed = httparse::parse_chunk_size(raw)
                .map_err(|_| not_http("a chunk's size is no number".to_owned()))?;
            let httparse::Status::Complete((line, size)) = parsed else {
                // A size with its extensions has to fit into a line that is not endless.
                if raw.len() > MAX_HEAD {
                    return Err(not_http("a chunk's size has no end".to_owned()));
                }
                return Ok(false);
            };
            raw.drain(..line);
            self.ended = size == 0;
            self.chunk = Some(size.saturating_add(2)).filter(|_| size > 0);
            return Ok(true);
        };
        if raw.is_empty() {
            return Ok(false);
        }
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(raw.len());
        // The last two bytes of what is left are the line end.
        let text = usize::try_from(left.saturating_sub(2)).unwrap_or(usize::MAX).min(here);
        if self.text.len() < MAX_BODY {
            self.text.extend_from_slice(&raw[..text]);
        }
        raw.drain(..here);
        self.chunk = Some(left - here as u64).filter(|&left| left > 0);
        Ok(true)
    }
}

fn find(text: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || text.windows(wanted.len()).any(|window| window == wanted)
}

fn not_http(said: String) -> Fault {
    Fault::NotHttp { said }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request<'a>(body: Option<&'a str>, status: &'a [u16]) -> Request<'a> {
        let target = SocketAddr::from(([192, 0, 2, 10], 80));
        Request { secure: false, host: None, target, path: "/ready", status, body }
    }

    /// What comes of an answer that arrives in pieces of some size, and then ends.
    fn answer(request: &Request<'_>, answer: &[u8], piece: usize) -> Result<(), Fault> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(piece.max(1));
            let answer = answer.to_vec();
            let writing = tokio::spawn(async move {
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    asked.push(far.read_u8().await.unwrap());
                }
                // Whoever has read enough closes.
                let _ = far.write_all(&answer).await;
                String::from_utf8(asked).unwrap()
            });
            let result = ask(request, near, &Progress::default()).await;
            writing.await.unwrap();
            result
        })
    }

    #[test]
    fn a_request_names_its_host_as_a_client_would() {
        let to = |target: &str, secure, host| Request {
            secure,
            host,
            target: target.parse().unwrap(),
            path: "/",
            status: &[200],
            body: None,
        };
        let host = |request: Request<'_>| {
            let text = request.text();
            text.lines().find_map(|line| line.strip_prefix("Host: ").map(str::to_owned)).unwrap()
        };
        assert_eq!(host(to("192.0.2.10:80", false, None)), "192.0.2.10");
        assert_eq!(host(to("192.0.2.10:80", true, None)), "192.0.2.10:80");
        assert_eq!(host(to("[2001:db8::10]:443", true, None)), "[2001:db8::10]");
        assert_eq!(host(to("[2001:db8::10]:8080", false, None)), "[2001:db8::10]:8080");
        assert_eq!(host(to("192.0.2.10:80", false, Some("web.example"))), "web.example");
        let text = to("192.0.2.10:80", false, None).text();
        assert!(text.starts_with("GET / HTTP/1.1\r\n") && text.ends_with("Connection: close\r\n\r\n"));
    }

    #[test]
    fn statuses_that_are_fine_pass_and_others_are_named() {
        let fine = request(None, &[200, 204]);
        assert_eq!(answer(&fine, b"HTTP/1.1 204 No Content\r\n\r\n", 7), Ok(()));
        assert_eq!(answer(&fine, b"HTTP/1.0 200 OK\r\n\r\n", 7), Ok(()));
        let wrong = answer(&fine, b"HTTP/1.1 301 Moved\r\nLocation: /else\r\n\r\n", 7).unwrap_err();
        assert_eq!(wrong.to_string(), "status 301, not 200 or 204");
        let informed = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
        assert_eq!(answer(&fine, informed, 7), Ok(()));
    }

    #[test]
    fn what_is_not_http_says_so() {
        let fine = request(None, &[200]);
        let not_http = answer(&fine, b"SSH-2.0-OpenSSH_9.2\r\n", 64).unwrap_err();
        assert!(matches!(not_http, Fault::NotHttp { .. }), "{not_http}");
        assert_eq!(answer(&fine, b"HTTP/1.1 200", 64), Err(Fault::Closed { stage: Stage::Head }));
        let mut endless = b"HTTP/1.1 200 OK\r\n".to_vec();
        endless.extend(std::iter::repeat_n(b'a', 1 << 20));
        assert!(matches!(answer(&fine, &endless, 4_096), Err(Fault::NotHttp { .. })));
    }

    #[test]
    fn a_body_ends_as_its_framing_says() {
        let wants = request(Some("ready"), &[200]);
        let cases: [(&str, Result<(), Fault>); 8] = [
            ("Content-Length: 9\r\n\r\nI'm ready", Ok(())),
            ("\r\nnot yet, but ready", Ok(())),
            ("Transfer-Encoding: chunked\r\n\r\n3\r\nrea\r\n2;x=y\r\ndy\r\n0\r\n\r\n", Ok(())),
            ("Content-Length: 4\r\n\r\nread", Err(Fault::Body { read: 4, wanted: "ready".into() })),
            ("\r\nread", Err(Fault::Body { read: 4, wanted: "ready".into() })),
            (
                "Transfer-Encoding: chunked\r\n\r\n4\r\nread\r\n0\r\n\r\n",
                Err(Fault::Body { read: 4, wanted: "ready".into() }),
            ),
            ("Content-Length: 9\r\n\r\nI'm rea", Err(Fault::Closed { stage: Stage::Body })),
            ("Transfer-Encoding: chunked\r\n\r\n9\r\nI'm rea", Err(Fault::Closed { stage: Stage::Body })),
        ];
        for (rest, expected) in cases {
            for piece in [1, 3, 4_096] {
                let text = format!("HTTP/1.1 200 OK\r\n{rest}");
                assert_eq!(answer(&wants, text.as_bytes(), piece), expected, "{rest}");
            }
        }
    }

    #[test]
    fn an_endless_body_is_read_to_the_limit_only() {
        let wants = request(Some("ready"), &[200]);
        let mut text = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', 10 * MAX_BODY));
        let expected = Err(Fault::Body { read: MAX_BODY, wanted: "ready".into() });
        assert_eq!(answer(&wants, &text, 4_096), expected);
        let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n".to_vec();
        chunked.extend(std::iter::repeat_n(b'x', 10 * MAX_BODY));
        assert_eq!(answer(&wants, &chunked, 4_096), expected);
    }

    proptest! {
        #[test]
        fn a_chunked_body_is_found_however_it_is_cut(
            text in "[a-z]{0,60}", sizes in prop::collection::vec(1_usize..9, 1..20), piece in 1_usize..40,
        ) {
            let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n".to_vec();
            let (mut rest, mut sizes) = (text.as_bytes(), sizes.into_iter().cycle());
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                chunked.extend(format!("{:x}\r\n", chunk.len()).bytes());
                chunked.extend(chunk);
                chunked.extend(b"\r\n");
                rest = after;
            }
            chunked.extend(b"0\r\n\r\n");
            prop_assert_eq!(answer(&request(Some(&text), &[200]), &chunked, piece), Ok(()));
            let more = format!("{text}0");
            let expected = Err(Fault::Body { read: text.len(), wanted: more.clone() });
            prop_assert_eq!(answer(&request(Some(&more), &[200]), &chunked, piece), expected);
        }

        #[test]
        fn no_answer_makes_it_panic_or_hold_more_than_the_limits(
            bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..40, chunked: bool,
        ) {
            let head = if chunked { "Transfer-Encoding: chunked\r\n\r\n" } else { "\r\n" };
            let mut text = format!("HTTP/1.1 200 OK\r\n{head}").into_bytes();
            text.extend(&bytes);
            let wants = request(Some("\u{0}never\u{1}"), &[200]);
            let result = answer(&wants, &text, piece);
            prop_assert!(result.is_err() || find(&bytes, b"\0never\x01"));
            let _ = answer(&wants, &bytes, piece);
        }
    }
}
