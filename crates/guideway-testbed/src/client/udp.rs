//! UDP datagrams with numbers, and their echoes.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Context, Result};
use crate::namespace::Namespace;
use crate::task::{Stop, Task};

/// A UDP socket that talks to a [`UdpEcho`](crate::server::UdpEcho).
#[derive(Debug)]
pub struct UdpClient {
    socket: UdpSocket,
    sent: u64,
}

impl UdpClient {
    /// Opens a socket of its own port. Answers from elsewhere are not taken.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn open(namespace: &Namespace, server: SocketAddr) -> Result<Self> {
        let open = || {
            let any: IpAddr =
                if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(server)?;
            Ok::<_, io::Error>(socket)
        };
        let socket = namespace.run(open)?.context(|| format!("opening a UDP socket to {server}"))?;
        Ok(Self { socket, sent: 0 })
    }

    /// The client's address and port.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends a datagram of at least `bytes` bytes and waits for its echo: the name of the backend.
    ///
    /// # Errors
    /// What the kernel says: an ICMP error, or silence for `at_most`.
    pub fn ping(&mut self, bytes: usize, at_most: Duration) -> io::Result<String> {
        self.sent += 1;
        let datagram = format!("{:<bytes$}", self.sent);
        self.socket.set_read_timeout(Some(at_most))?;
        self.socket.send(datagram.as_bytes())?;
        let mut answer = vec![0; 65_536];
        loop {
            let length = self.socket.recv(&mut answer)?;
            if let Some((backend, echo)) = parse(&answer[..length])
                && echo == datagram
            {
                return Ok(backend.to_owned());
            }
        }
    }
}

/// A sender of one socket that never pauses for answers.
#[derive(Debug)]
pub struct UdpStream {
    report: Arc<Mutex<UdpReport>>,
    _thread: Task,
}

/// What a [`UdpStream`] has seen.
#[derive(Debug, Clone, Default)]
pub struct UdpReport {
    /// Datagrams sent.
    pub sent: u64,
    /// Answers, by the number of the datagram: who answered, and how long after the start.
    pub answers: BTreeMap<u64, (String, Duration)>,
    /// Datagrams that could not be sent, and ICMP errors, by what was said.
    pub errors: BTreeMap<String, u64>,
}

impl UdpStream {
    /// Sends a datagram each `interval`.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn start(namespace: &Namespace, server: SocketAddr, interval: Duration) -> Result<Self> {
        let client = UdpClient::open(namespace, server)?;
        client.socket.set_nonblocking(true).context(|| "preparing a UDP socket".to_owned())?;
        let report = Arc::new(Mutex::new(UdpReport::default()));
        let theirs = Arc::clone(&report);
        let work = move |stop: &Stop| stream(&client.socket, interval, &theirs, stop);
        Ok(Self { report, _thread: Task::start("udp-stream", namespace, work)? })
    }

    /// What it has seen so far.
    pub fn report(&self) -> UdpReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn stream(socket: &UdpSocket, interval: Duration, report: &Mutex<UdpReport>, stop: &Stop) {
    let begin = Instant::now();
    let mut answer = vec![0; 65_536];
    let mut due = begin;
    let mut number = 0_u64;
    loop {
        let now = Instant::now();
        if now >= due {
            due += interval;
            number += 1;
            let sent = socket.send(number.to_string().as_bytes());
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.sent = number;
            if let Err(error) = sent {
                *report.errors.entry(error.to_string()).or_default() += 1;
            }
        }
        let pause = due.saturating_duration_since(Instant::now());
        let Ok(_) = stop.wait(&[socket.as_fd()], pause) else { return };
        loop {
            let received = socket.recv(&mut answer);
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            match received {
                Ok(length) => {
                    if let Some((backend, echo)) = parse(&answer[..length])
                        && let Ok(number) = echo.parse()
                    {
                        report.answers.insert(number, (backend.to_owned(), begin.elapsed()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => *report.errors.entry(error.to_string()).or_default() += 1,
            }
        }
    }
}

/// Who answers, and what came back.
fn parse(answer: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(answer).ok()?.split_once(' ')
}
