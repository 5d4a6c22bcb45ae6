//! TCP checks: a connection that opens passes. One thread makes them all, with sockets that it uses again and again, since
//! there may be thousands a second.
//!
//! ```text
//!            connect                it opens                 connect to nothing
//!   idle ─────────────▶ under way ───────────▶ reported ───────────────────────▶ idle
//!                           │
//!                           └─▶ it fails, ends after it opened, or the time is over: reported, and the socket is closed
//! ```
//! A connection is open here once the backend's SYN-ACK is there. Its acknowledgement is held back, and to connect an open socket
//! to nothing (`AF_UNSPEC`, connect(2)) ends the connection by a reset: the backend's program, which would be told of it by the
//! acknowledgement, hears nothing of checks, and none is left that waits for its last packets, here or there, and neither is
//! its port. Connections to neighbours have opened by the time that some more are begun, and one look finds them; the others are
//! told of by an epoll of the thread's own, each once.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::connect_unspec;
use smallvec::{SmallVec, smallvec};
use socket2::Socket;
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time;

use super::answers::Teller;
use super::driver::Shared;
use super::progress::Progress;
use super::transport::{Kind, Transport};
use crate::health::check::Check;
use crate::health::round::{Answer, Fault, LegResult, Legs, Passed, Round, RoundId, Stage};
use crate::health::slab::Slab;

/// So many rounds are begun before it is looked which have ended, so that these do not seem slow.
const BEGUN_AT_ONCE: usize = 16;

/// So many connections are heard of at once.
const HEARD_AT_ONCE: usize = 256;

/// How long a look waits.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Idle sockets that are kept of each kind.
const MOST_IDLE: usize = 256;

/// Those of a kind are at most this part of the connections that may be under way, which they are kept beside.
const PART_IDLE: usize = 8;

/// What the thread that makes TCP checks has.
pub(super) struct Connections {
    shared: Arc<Shared>,
    answers: Teller,
    /// An epoll. The type is that of a pipe's end, of which nothing is read here: to wait for it is the same for everything
    /// that becomes readable.
    epoll: pipe::Receiver,
    asked: Slab<Asked>,
    under_way: Slab<Connection>,
    idle: HashMap<Kind, Vec<Line>>,
    /// When the first of those under way may have to be given up.
    looks_at: Option<time::Instant>,
}

/// A round under way.
struct Asked {
    id: RoundId,
    check: Arc<Check>,
    legs: Legs,
    results: SmallVec<[Option<LegResult>; 1]>,
}

/// A socket, and whether the epoll knows it.
struct Line {
    socket: Socket,
    is_known: bool,
}

/// A leg under way.
struct Connection {
    line: Line,
    kind: Kind,
    round: u32,
    leg: usize,
    began: Instant,
    until: time::Instant,
    permit: OwnedSemaphorePermit,
}

impl Connections {
    /// To be called inside a tokio runtime.
    pub(super) fn new(shared: Arc<Shared>, answers: Teller) -> io::Result<Self> {
        let epoll = pipe::Receiver::from_owned_fd_unchecked(epoll::create(epoll::CreateFlags::CLOEXEC)?)?;
        Ok(Self {
            shared,
            answers,
            epoll,
            asked: Slab::default(),
            under_way: Slab::default(),
            idle: HashMap::new(),
            looks_at: None,
        })
    }

    /// Makes the rounds that come, until nobody can send any more.
    pub(super) async fn work(mut self, mut rounds: mpsc::UnboundedReceiver<Round>) {
        let mut due = Vec::with_capacity(BEGUN_AT_ONCE);
        loop {
            let wakes_at = [self.looks_at, self.answers.tells_at()].into_iter().flatten().min();
            let time = async {
                match wakes_at {
                    Some(at) => time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                many = rounds.recv_many(&mut due, BEGUN_AT_ONCE) => {
                    if many == 0 {
                        return;
                    }
                    let mut begun = Vec::with_capacity(many);
                    for round in due.drain(..) {
                        self.begin(round, &mut begun).await;
                    }
                    self.settle(begun).await;
                }
                ready = self.epoll.readable(), if !self.under_way.is_empty() => {
                    // The runtime ends.
                    if ready.is_err() {
                        return;
                    }
                    let heard = self.epoll.try_io(|| self.look());
                    self.hear(heard).await;
                }
                () = time => {
                    let now = time::Instant::now();
                    if self.looks_at.is_some_and(|at| at <= now) {
                        self.give_up(now).await;
                    }
                    self.answers.tell(now);
                }
            }
        }
    }

    /// Begins a round, and adds the connections that are under way then to `begun`.
    async fn begin(&mut self, round: Round, begun: &mut Vec<u32>) {
        let Round { id, check, legs } = round;
        let many = legs.len();
        let number = self.asked.insert(Asked { id, check, legs, results: smallvec![None; many] });
        for leg in 0..many {
            match self.connect(number, leg) {
                Ok(connection) => begun.push(connection),
                Err(fault) => self.end(number, leg, Err(fault)).await,
            }
        }
    }

    fn connect(&mut self, round: u32, leg: usize) -> Result<u32, Fault> {
        let local = || Fault::Local { said: "the round is not under way any more".to_owned() };
        let Asked { check, legs, .. } = self.asked.get(round).ok_or_else(local)?;
        let permit = self.shared.permit()?;
        let transport = super::transport(check, &legs[leg], self.shared.tunnel_device())?;
        let kind = transport.kind();
        let idle = self.idle.get_mut(&kind).and_then(Vec::pop);
        let is_known = idle.as_ref().is_some_and(|line| line.is_known);
        let (began, until) = (Instant::now(), time::Instant::now() + check.times.timeout);
        let socket = transport.connecting(idle.map(|line| line.socket))?;
        let line = Line { socket, is_known };
        self.looks_at = Some(self.looks_at.map_or(until, |at| at.min(until)));
        Ok(self.under_way.insert(Connection { line, kind, round, leg, began, until, permit }))
    }

    /// Takes those that have opened or failed by now, and has the epoll tell of the others.
    async fn settle(&mut self, begun: Vec<u32>) {
        let lines =
            begun.iter().filter_map(|&number| Some((number, &self.under_way.get(number)?.line.socket)));
        let (numbers, mut polled): (Vec<u32>, Vec<PollFd<'_>>) =
            lines.map(|(number, socket)| (number, PollFd::new(socket, PollFlags::OUT))).unzip();
        // Where that fails, the epoll tells of all.
        let _ = poll(&mut polled, Some(&AT_ONCE));
        let flags: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        for (number, flags) in numbers.into_iter().zip(flags) {
            if flags.is_empty() {
                self.listen(number).await;
            } else if let Some(connection) = self.under_way.remove(number) {
                self.conclude(connection, flags.intersects(PollFlags::ERR | PollFlags::HUP)).await;
            }
        }
    }

    /// Has the epoll tell, once, that a connection has opened or failed.
    async fn listen(&mut self, number: u32) {
        let Some(Connection { line, round, leg, .. }) = self.under_way.get_mut(number) else { return };
        let (round, leg) = (*round, *leg);
        let data = epoll::EventData::new_u64(u64::from(number));
        let flags = epoll::EventFlags::OUT | epoll::EventFlags::ONESHOT;
        let heeded = match line.is_known {
            true => epoll::modify(&self.epoll, &line.socket, data, flags),
            false => epoll::add(&self.epoll, &line.socket, data, flags),
        };
        line.is_known = true;
        if let Err(error) = heeded {
            self.under_way.remove(number);
            self.end(round, leg, Err(Progress::default().fault(&error.into()))).await;
        }
    }

    /// Which connections have opened or failed, many of them; as a socket does where there are none.
    fn look(&self) -> io::Result<Vec<(u32, bool)>> {
        let mut events = [const { MaybeUninit::uninit() }; HEARD_AT_ONCE];
        let (events, _) = epoll::wait(&self.epoll, &mut events, Some(&AT_ONCE))?;
        if events.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let heard = |&epoll::Event { flags, data }: &_| {
            let failed = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
            (data.u64() as u32, flags.intersects(failed))
        };
        Ok(events.iter().map(heard).collect())
    }

    /// Takes what has become of connections, if anything was heard: nothing interrupts a look, which does not wait.
    async fn hear(&mut self, heard: io::Result<Vec<(u32, bool)>>) {
        for (number, failed) in heard.unwrap_or_default() {
            if let Some(connection) = self.under_way.remove(number) {
                self.conclude(connection, failed).await;
            }
        }
    }

    async fn conclude(&mut self, connection: Connection, failed: bool) {
        let Connection { line, kind, round, leg, began, permit, .. } = connection;
        drop(permit);
        let error = if failed { line.socket.take_error().unwrap_or_else(Some) } else { None };
        let passed = Passed { took: began.elapsed() };
        let result = match error {
            Some(error) if ended_after_it_opened(&error) => Ok(passed),
            Some(error) => Err(Progress::default().fault(&error)),
            None => {
                self.reset(line, kind);
                Ok(passed)
            }
        };
        self.end(round, leg, result).await;
    }

    /// Ends a connection by a reset, and keeps its socket for another.
    fn reset(&mut self, line: Line, kind: Kind) {
        let most = MOST_IDLE.min(self.shared.options.most_at_once / PART_IDLE);
        let idle = self.idle.entry(kind).or_default();
        if idle.len() < most && connect_unspec(&line.socket).is_ok() {
            idle.push(line);
        } else {
            Transport::abandon(&line.socket);
        }
    }

    /// Gives up those whose time is over.
    async fn give_up(&mut self, now: time::Instant) {
        let over = self.under_way.iter().filter(|(_, connection)| connection.until <= now);
        for number in over.map(|(number, _)| number).collect::<Vec<_>>() {
            let Some(Connection { round, leg, .. }) = self.under_way.remove(number) else { continue };
            let limit = self.asked.get(round).map_or(Duration::ZERO, |asked| asked.check.times.timeout);
            self.end(round, leg, Err(Fault::TimedOut { limit, stage: Stage::Connect })).await;
        }
        self.looks_at = self.under_way.iter().map(|(_, connection)| connection.until).min();
    }

    /// Takes what came of a leg, and answers when it was the last.
    async fn end(&mut self, round: u32, leg: usize, result: LegResult) {
        let Some(asked) = self.asked.get_mut(round) else { return };
        asked.results[leg] = Some(super::explained(&asked.check, &asked.legs[leg], result));
        if asked.results.iter().any(Option::is_none) {
            return;
        }
        if let Some(Asked { id, results, .. }) = self.asked.remove(round) {
            self.answers.answer(Answer { id, results: results.into_iter().flatten().collect() }).await;
        }
    }
}

/// Whether a connection had opened before it came to this end: to a reset of one that has not the kernel says `ECONNREFUSED`
/// (`tcp_reset` in net/ipv4/tcp_input.c). What a backend does with a connection that says nothing is its own affair.
fn ended_after_it_opened(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}
