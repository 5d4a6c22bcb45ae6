//! HTTP/1.1 requests, as much as is needed here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Context, Result};
use crate::namespace::Namespace;

/// How long a transfer may stall.
pub(crate) const STALL: Duration = Duration::from_secs(2);

/// An answer under way: the head is read, the body can be.
#[derive(Debug)]
pub struct Response {
    stream: BufReader<TcpStream>,
    status: u16,
    backend: String,
    left: u64,
}

/// `GET path`, on a connection of its own; the whole body as text.
///
/// # Errors
/// [`crate::Error::System`], also for a status other than 200.
pub fn get(namespace: &Namespace, server: SocketAddr, path: &str) -> Result<String> {
    begin_get(namespace, server, path)?.text().context(|| format!("reading http://{server}{path}"))
}

/// `GET path`, on a connection of its own, with the body left to be read.
///
/// # Errors
/// [`crate::Error::System`].
pub fn begin_get(namespace: &Namespace, server: SocketAddr, path: &str) -> Result<Response> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: testbed\r\n\r\n");
    request_with(namespace, server, &request, 0).context(|| format!("asking http://{server}{path}"))
}

/// `POST /` of so many bytes; the server's answer.
///
/// # Errors
/// [`crate::Error::System`], also for a status other than 200.
pub fn post(namespace: &Namespace, server: SocketAddr, bytes: u64) -> Result<String> {
    let request = format!("POST / HTTP/1.1\r\nHost: testbed\r\nContent-Length: {bytes}\r\n\r\n");
    request_with(namespace, server, &request, bytes)
        .and_then(Response::text)
        .context(|| format!("sending {bytes} bytes to http://{server}/"))
}

impl Response {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The backend that answers; empty for a server that does not say.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// The client's address and port.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().local_addr()
    }

    /// Bytes of the body that were not read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Reads so many bytes of the body, or what is left of it.
    ///
    /// # Errors
    /// What the kernel says; that the server closed before the end.
    pub fn read_some(&mut self, bytes: u64) -> io::Result<()> {
        let wanted = bytes.min(self.left);
        let read = io::copy(&mut self.stream.by_ref().take(wanted), &mut io::sink())?;
        self.left -= read;
        if read < wanted { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn text(mut self) -> io::Result<String> {
        if self.status != 200 {
            return Err(io::Error::other(format!("status {}", self.status)));
        }
        let mut text = String::new();
        let read = self.stream.by_ref().take(self.left).read_to_string(&mut text)?;
        if (read as u64) < self.left { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(text) }
    }
}

/// `GET path` from the namespace of the calling thread, on a connection of its own that may stall for `patience`; the
/// whole body as text. `local` becomes the client's address and port as soon as they are known.
pub(crate) fn get_from_here(
    server: SocketAddr,
    path: &str,
    patience: Duration,
    local: &mut Option<SocketAddr>,
) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: testbed\r\n\r\n");
    let answer = connect(server, patience, local).and_then(|stream| ask(stream, &request, 0)?.text());
    answer.map_err(|error| silence(error, patience))
}

fn request_with(
    namespace: &Namespace,
    server: SocketAddr,
    head: &str,
    body_bytes: u64,
) -> io::Result<Response> {
    let connected = namespace.run(|| connect(server, STALL, &mut None)).map_err(io::Error::other)?;
    connected.and_then(|stream| ask(stream, head, body_bytes)).map_err(|error| silence(error, STALL))
}

/// Says of a step that took longer than `patience` that nobody answered; the kernel calls that a lack of resources, or a
/// step in progress.
fn silence(error: io::Error, patience: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", patience.as_secs_f32()))
        }
        _ => error,
    }
}

/// A connection of which each step may take `patience`.
fn connect(server: SocketAddr, patience: Duration, local: &mut Option<SocketAddr>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::EINPROGRESS as i32) => return Err(error),
        _ => {}
    }
    // The port is chosen with the first packet; a connection that failed has none any more.
    *local = socket.local_addr()?.as_socket();
    let at_most = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    if poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], at_most)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection within {} s", patience.as_secs_f32()),
        ));
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads the head of its answer.
fn ask(mut stream: TcpStream, head: &str, body_bytes: u64) -> io::Result<Response> {
    stream.write_all(head.as_bytes())?;
    io::copy(&mut io::repeat(b'g').take(body_bytes), &mut stream)?;
    let mut stream = BufReader::new(stream);
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.trim().parse().ok());
    let status = status.ok_or_else(|| invalid(format!("no status in {line:?}")))?;
    let (mut left, mut backend) = (0, String::new());
    loop {
        let mut header = String::new();
        stream.read_line(&mut header)?;
        match header.split_once(':') {
            Some((field, value)) if field.eq_ignore_ascii_case("content-length") => {
                left = value.trim().parse().map_err(|_| invalid(format!("not a length: {value:?}")))?;
            }
            Some((field, value)) if field.eq_ignore_ascii_case("server") => {
                value.trim().clone_into(&mut backend);
            }
            Some(_) => {}
            None => return Ok(Response { stream, status, backend, left }),
        }
    }
}
