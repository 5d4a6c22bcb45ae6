//! UDP echo.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::{Context, Result};
use crate::namespace::Namespace;
use crate::task::{Stop, Task};

/// How long the thread waits at most for a datagram.
const IDLE: Duration = Duration::from_millis(500);

/// Sends each datagram back, with the server's name and a space before it.
#[derive(Debug)]
pub struct UdpEcho {
    received: Arc<AtomicU64>,
    _thread: Task,
}

impl UdpEcho {
    /// Listens on `port` of each address, from which it answers.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn start(namespace: &Namespace, name: &str, addresses: &[IpAddr], port: u16) -> Result<Self> {
        let open = |&address: &IpAddr| {
            let socket = UdpSocket::bind((address, port))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let sockets = namespace
            .run(|| addresses.iter().map(open).collect::<io::Result<Vec<_>>>())?
            .context(|| format!("listening on UDP port {port} in {}", namespace.label()))?;
        let received = Arc::new(AtomicU64::new(0));
        let (counter, greeting) = (Arc::clone(&received), format!("{name} "));
        let work = move |stop: &Stop| answer_all(&sockets, &greeting, &counter, stop);
        let thread = Task::start("udp-echo", namespace, work)?;
        Ok(Self { received, _thread: thread })
    }

    /// Datagrams received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }
}

fn answer_all(sockets: &[UdpSocket], greeting: &str, counter: &AtomicU64, stop: &Stop) {
    let sources: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut datagram = vec![0; 65_536];
    while let Ok(ready) = stop.wait(&sources, IDLE) {
        for (socket, _) in sockets.iter().zip(ready).filter(|(_, ready)| *ready) {
            while let Ok((length, client)) = socket.recv_from(&mut datagram) {
                counter.fetch_add(1, Relaxed);
                let answer = [greeting.as_bytes(), &datagram[..length]].concat();
                // An answer that the kernel does not take is one that was lost.
                let _ = socket.send_to(&answer, client);
            }
        }
    }
}
