//! Connections: each has a place, and loses it when its other end keeps it waiting.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use super::places::{Peer, Place, Places};
use super::turned_away::{dismiss, hear_out};

/// How long the other end of a connection is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// For a request's head, after the connection or the answer before it.
    head: Duration,
    /// For some of an answer to be taken.
    answer: Duration,
}

impl Waits {
    /// What people and programs can live with.
    pub(super) const USUAL: Self = Self { head: Duration::from_secs(20), answer: Duration::from_secs(20) };
}

/// So many of those who are turned away are heard out at once: each takes a descriptor for as long.
const HEARD_OUT: usize = 8;

/// After a failure to accept, as without descriptors, it is tried again so much later.
const REST: Duration = Duration::from_millis(200);

/// What connections come from.
pub(super) trait Gate: Send + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, and who is at its other end.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Io, Peer)>> + Send;
}

impl Gate for UnixListener {
    type Io = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        let peer = match stream.peer_cred() {
            Ok(credentials) => Peer::User { uid: credentials.uid(), pid: credentials.pid() },
            Err(_) => Peer::Unknown,
        };
        Ok((stream, peer))
    }
}

impl Gate for TcpListener {
    type Io = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = self.accept().await?;
        Ok((stream, Peer::Address(address.ip().to_canonical())))
    }
}

/// Serves whoever comes, as long as it is polled.
pub(super) async fn serve(gate: impl Gate, router: Router, places: Arc<Places>, waits: Waits) {
    let mut connections = JoinSet::new();
    let mut turned_away = JoinSet::new();
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            accepted = gate.next() => accepted,
            Some(_) = connections.join_next() => continue,
            Some(_) = turned_away.join_next() => continue,
        };
        match accepted {
            Ok((io, peer)) => {
                failing = false;
                match places.take(peer) {
                    Some(place) => {
                        connections.spawn(connection(io, peer, router.clone(), waits, place));
                    }
                    None if turned_away.len() < HEARD_OUT => drop(turned_away.spawn(hear_out(io))),
                    None => dismiss(io).await,
                }
            }
            // The other end was gone already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !failing {
                    tracing::error!(about = "api", door = places.door, "no connection can be taken: {error}");
                }
                failing = true;
                sleep(REST).await;
            }
        }
    }
}

async fn connection(
    io: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    router: Router,
    waits: Waits,
    _place: Place,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(waits.head)
        .serve_connection(TokioIo::new(Patient::new(io, waits.answer)), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(about = "api", "a connection of {peer} ended: {error}");
    }
}

/// A stream whose other end has to take what is written.
#[derive(Debug)]
struct Patient<Io> {
    io: Io,
    patience: Duration,
    /// Runs while nothing is taken.
    until: Option<Pin<Box<Sleep>>>,
}

impl<Io: AsyncWrite + Unpin> Patient<Io> {
    const fn new(io: Io, patience: Duration) -> Self {
        Self { io, patience, until: None }
    }

    fn write<T>(
        &mut self,
        context: &mut Context<'_>,
        step: impl FnOnce(Pin<&mut Io>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = step(Pin::new(&mut self.io), context) {
            self.until = None;
            return Poll::Ready(done);
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Patient<Io> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(context, buffer)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Patient<Io> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().write(context, |io, context| io.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(context, |io, context| io.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(context, |io, context| io.poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(context, |io, context| io.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::{Mutex, mpsc};

    use super::*;

    /// A gate by which a test comes in.
    struct Door(Mutex<mpsc::UnboundedReceiver<DuplexStream>>);

    impl Gate for Door {
        type Io = DuplexStream;

        async fn next(&self) -> io::Result<(DuplexStream, Peer)> {
            let stream = self.0.lock().await.recv().await.ok_or(io::ErrorKind::NotConnected)?;
            Ok((stream, Peer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST))))
        }
    }

    /// A server with four places, three for one peer, and who comes in.
    struct World {
        places: Arc<Places>,
        come: mpsc::UnboundedSender<DuplexStream>,
        _server: JoinSet<()>,
    }

    impl World {
        fn new(waits: Waits) -> Self {
            let (come, coming) = mpsc::unbounded_channel();
            let places = Places::with("tcp", 4);
            let router = Router::new().route("/long", get(|| async { "x".repeat(100_000) }));
            let mut server = JoinSet::new();
            server.spawn(serve(Door(Mutex::new(coming)), router, Arc::clone(&places), waits));
            Self { places, come, _server: server }
        }

        /// Comes in, and says something.
        async fn say(&self, text: &str) -> DuplexStream {
            let (mut ours, theirs) = duplex(512);
            self.come.send(theirs).unwrap();
            ours.write_all(text.as_bytes()).await.unwrap();
            ours
        }
    }

    async fn heard(mut stream: DuplexStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_head_that_does_not_end_loses_its_place_and_so_does_the_next_one_of_a_connection() {
        let world = World::new(Waits { head: SHORT, ..Waits::USUAL });
        let slow = world.say("GET /long HTTP/1.1\r\nHost: x").await;
        assert_eq!(heard(slow).await, "");
        let idle = world.say("GET /none HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(heard(idle).await.starts_with("HTTP/1.1 404"));
        assert_eq!(world.places.open(), 0);
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_loses_its_place() {
        let world = World::new(Waits { answer: SHORT, ..Waits::USUAL });
        let mut deaf = world.say("GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await;
        // More than fits: it ends when nobody reads it any more.
        let gone = deaf.write_all(&[b'x'; 4_096]).await.unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(world.places.open(), 0);
        let taken = heard(deaf).await;
        assert!(taken.starts_with("HTTP/1.1 200") && taken.len() <= 512, "{}", taken.len());
    }

    #[tokio::test]
    async fn who_finds_no_place_is_told_so_however_many_silent_ones_find_none() {
        let world = World::new(Waits::USUAL);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(world.say("GET").await);
        }
        for _ in 0..2 * HEARD_OUT {
            held.push(world.say("").await);
        }
        let told = heard(world.say("").await).await;
        assert!(told.starts_with("HTTP/1.1 503") && told.contains("\"crowded\""), "{told}");
    }

    #[tokio::test]
    async fn who_finds_no_place_is_told_so_and_there_is_one_again_when_somebody_leaves() {
        let world = World::new(Waits::USUAL);
        let question = "GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(world.say("GET").await);
        }
        let told = heard(world.say(question).await).await;
        assert!(told.starts_with("HTTP/1.1 503") && told.contains("\"crowded\""), "{told}");
        assert_eq!((world.places.open(), world.places.turned_away()), (3, 1));
        held.clear();
        while !heard(world.say(question).await).await.starts_with("HTTP/1.1 404") {}
    }
}
