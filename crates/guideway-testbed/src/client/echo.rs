//! TCP flows that go on: each message is checked when it comes back.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{Context, Result};
use crate::namespace::Namespace;

/// How long a flow may stall before it counts as broken.
const STALL: Duration = Duration::from_secs(2);

/// A connection to an [echo server](crate::server::echo).
#[derive(Debug)]
pub struct EchoFlow {
    stream: BufReader<TcpStream>,
    backend: String,
    sent: u64,
}

/// A flow that broke.
#[derive(Debug)]
pub struct Broken {
    /// The backend that it was on.
    pub backend: String,
    /// What the client saw.
    pub error: io::Error,
}

impl EchoFlow {
    /// Connects from inside the namespace, and reads which backend answers.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn open(namespace: &Namespace, server: SocketAddr) -> Result<Self> {
        let open = || -> io::Result<Self> {
            let stream = TcpStream::connect_timeout(&server, STALL)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(STALL))?;
            stream.set_write_timeout(Some(STALL))?;
            let mut stream = BufReader::new(stream);
            let mut backend = String::new();
            if stream.read_line(&mut backend)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(Self { stream, backend: backend.trim_end().to_owned(), sent: 0 })
        };
        namespace.run(open)?.context(|| format!("opening a flow to {server}"))
    }

    /// The backend that it is on.
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

    /// Sends the next message, without waiting for its echo.
    ///
    /// # Errors
    /// What the kernel says: the connection was reset, or nothing was taken for a while.
    pub fn send(&mut self) -> io::Result<()> {
        self.sent += 1;
        let message = self.sent.to_be_bytes();
        self.stream.get_mut().write_all(&message)
    }

    /// Waits for the echo of the message sent last, and checks it.
    ///
    /// # Errors
    /// What the kernel says, and [`io::ErrorKind::InvalidData`] for an echo of something else.
    pub fn receive(&mut self) -> io::Result<()> {
        let mut echo = [0; 8];
        self.stream.read_exact(&mut echo)?;
        let echo = u64::from_be_bytes(echo);
        if echo == self.sent {
            Ok(())
        } else {
            let told = format!("message {} came back as {echo}", self.sent);
            Err(io::Error::new(io::ErrorKind::InvalidData, told))
        }
    }

    /// Sends a message and waits for its echo.
    ///
    /// # Errors
    /// As [`EchoFlow::send`] and [`EchoFlow::receive`].
    pub fn exchange(&mut self) -> io::Result<()> {
        self.send()?;
        self.receive()
    }
}

/// Many flows to one server.
#[derive(Debug)]
pub struct EchoFlows {
    flows: Vec<EchoFlow>,
}

impl EchoFlows {
    /// Opens `number` flows, one after another.
    ///
    /// # Errors
    /// [`crate::Error::System`] at the first that does not open.
    pub fn open(namespace: &Namespace, server: SocketAddr, number: usize) -> Result<Self> {
        let flows = (0..number).map(|_| EchoFlow::open(namespace, server)).collect::<Result<_>>()?;
        Ok(Self { flows })
    }

    /// Has each flow exchange a message, all of them at once: those that broke. They are closed.
    pub fn exchange(&mut self) -> Vec<Broken> {
        let sent: Vec<_> = self.flows.iter_mut().map(EchoFlow::send).collect();
        let mut broken = Vec::new();
        let flows = std::mem::take(&mut self.flows);
        for (mut flow, sent) in flows.into_iter().zip(sent) {
            match sent.and_then(|()| flow.receive()) {
                Ok(()) => self.flows.push(flow),
                Err(error) => broken.push(Broken { backend: flow.backend, error }),
            }
        }
        broken
    }

    /// The flows.
    pub fn flows(&self) -> &[EchoFlow] {
        &self.flows
    }

    /// How many flows each backend has.
    pub fn by_backend(&self) -> BTreeMap<&str, usize> {
        let mut count = BTreeMap::new();
        for flow in &self.flows {
            *count.entry(flow.backend()).or_default() += 1;
        }
        count
    }

    /// Closes the flows to this backend.
    pub fn close_on(&mut self, backend: &str) {
        self.flows.retain(|flow| flow.backend() != backend);
    }
}
