//! A TCP server: a thread that accepts, and one for each connection.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::{Context, Result};
use crate::namespace::Namespace;
use crate::task::{Stop, Task};

/// How long the thread waits at most for a connection.
const IDLE: Duration = Duration::from_millis(500);

/// A TCP server in a namespace. Its connections are cut when it is dropped.
#[derive(Debug)]
pub struct TcpServer {
    // Nothing is accepted any more when the connections are cut.
    accepting: Option<Task>,
    shared: Arc<Shared>,
}

/// Answers one connection; the server closes it afterwards.
type Handler = dyn Fn(&TcpStream, SocketAddr) -> io::Result<()> + Send + Sync;

struct Shared {
    open: Mutex<HashMap<u64, TcpStream>>,
    accepted: AtomicU64,
    handler: Box<Handler>,
}

impl TcpServer {
    /// Listens on `port` of each address, and has `handler` answer each connection on a thread of its own. It is given
    /// the client's address; an error that it returns means that the client went away.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn start(
        namespace: &Namespace,
        addresses: &[IpAddr],
        port: u16,
        handler: impl Fn(&TcpStream, SocketAddr) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let listen = |&address: &IpAddr| {
            let listener = TcpListener::bind((address, port))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listeners = namespace
            .run(|| addresses.iter().map(listen).collect::<io::Result<Vec<_>>>())?
            .context(|| format!("listening on port {port} in {}", namespace.label()))?;
        let shared = Arc::new(Shared {
            open: Mutex::new(HashMap::new()),
            accepted: AtomicU64::new(0),
            handler: Box::new(handler),
        });
        let theirs = Arc::clone(&shared);
        let accepting =
            Task::start("tcp-server", namespace, move |stop| accept_all(&listeners, &theirs, stop))?;
        Ok(Self { accepting: Some(accepting), shared })
    }

    /// Connections that were accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Relaxed)
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.shared.lock().len()
    }
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        self.accepting = None;
        for stream in self.shared.lock().values() {
            // One that the client has closed already needs none.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").field("open", &self.lock().len()).finish_non_exhaustive()
    }
}

/// Sends a line with the server's name, then everything back that comes.
pub fn echo(name: &str) -> impl Fn(&TcpStream, SocketAddr) -> io::Result<()> + Send + Sync + 'static {
    let greeting = format!("{name}\n");
    move |mut stream, _| {
        stream.write_all(greeting.as_bytes())?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                length => stream.write_all(&buffer[..length])?,
            }
        }
    }
}

fn accept_all(listeners: &[TcpListener], shared: &Arc<Shared>, stop: &Stop) {
    let sources: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    while let Ok(ready) = stop.wait(&sources, IDLE) {
        for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            while let Ok((stream, client)) = listener.accept() {
                serve(stream, client, shared);
            }
        }
    }
}

fn serve(stream: TcpStream, client: SocketAddr, shared: &Arc<Shared>) {
    let number = shared.accepted.fetch_add(1, Relaxed);
    let ready = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
    let Ok(kept) = ready.and_then(|()| stream.try_clone()) else { return };
    shared.lock().insert(number, kept);
    let theirs = Arc::clone(shared);
    let started = thread::Builder::new().name("tcp-connection".to_owned()).spawn(move || {
        // The client went away, which is its right.
        let _ = (theirs.handler)(&stream, client);
        theirs.lock().remove(&number);
    });
    if started.is_err() {
        shared.lock().remove(&number);
    }
}
