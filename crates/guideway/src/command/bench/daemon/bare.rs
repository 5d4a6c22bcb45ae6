//! The connections of checks without the checks: what the kernel takes for them, whoever makes them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use guideway_testbed::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_quickack;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, connect_unspec, socket_with};
use rustix::time::{ClockId, clock_gettime};

use crate::failure::Failure;

/// From one batch of connections to the next, as the daemon has it with a check every 2 s.
const BATCH_EVERY: Duration = Duration::from_millis(32);

/// How long a batch may take to open.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Connections, and the processor time of the thread that made them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bare {
    pub(super) made: usize,
    pub(super) time: Duration,
}

/// When a connection is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    /// Once the other kernel has answered and before it hears that the answer came, as checks do it.
    Answered,
    /// When it is open on both sides.
    Open,
}

/// Opens connections to all of these in turn, so many a second for so long, and resets each. It is done with as few system calls
/// as can be.
pub(super) fn connections(
    link: &Link,
    to: &[SocketAddr],
    reset: Reset,
    a_second: f64,
    window: Duration,
) -> Result<Bare, Failure> {
    let made = link.namespace().run(|| make(to, reset, a_second, window)).map_err(Failure::failed)?;
    made.map_err(|error| Failure::failed(format!("connecting to the backends: {error}")))
}

fn make(to: &[SocketAddr], reset: Reset, a_second: f64, window: Duration) -> Result<Bare, Errno> {
    let (mut to, mut sockets) = (to.iter().cycle(), Vec::new());
    let (begin, before) = (Instant::now(), thread_time());
    let mut made = 0;
    while begin.elapsed() < window {
        let due = (begin.elapsed().as_secs_f64() * a_second) as usize;
        batch(to.by_ref().take(due - made), reset, &mut sockets)?;
        made = due;
        thread::sleep(BATCH_EVERY);
    }
    Ok(Bare { made, time: thread_time().saturating_sub(before) })
}

/// Makes connections at the same time, by sockets that are connected to nothing before and after; there may come to be more.
fn batch<'a>(
    to: impl Iterator<Item = &'a SocketAddr>,
    reset: Reset,
    sockets: &mut Vec<OwnedFd>,
) -> Result<(), Errno> {
    let mut many = 0;
    for to in to {
        if many == sockets.len() {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            sockets.push(socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?);
        }
        begin(&sockets[many], to, reset)?;
        many += 1;
    }
    let mut waiting: Vec<PollFd<'_>> =
        sockets[..many].iter().map(|one| PollFd::new(one, PollFlags::OUT)).collect();
    while !waiting.is_empty() {
        if poll(&mut waiting, Some(&PATIENCE))? == 0 {
            return Err(Errno::TIMEDOUT);
        }
        waiting.retain(|one| one.revents().is_empty());
    }
    sockets[..many].iter().try_for_each(connect_unspec)
}

fn begin(socket: &OwnedFd, to: &SocketAddr, reset: Reset) -> Result<(), Errno> {
    if reset == Reset::Answered {
        set_tcp_quickack(socket, false)?;
    }
    match connect(socket, to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error),
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_batch_is_made_whether_it_is_taken_or_refused_and_takes_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = [listener.local_addr().unwrap(); 5];
        let (before, mut sockets) = (thread_time(), Vec::new());
        assert_eq!(batch(to.iter(), Reset::Answered, &mut sockets), Ok(()));
        assert!(thread_time() > before);
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody was told");
        assert_eq!(batch(to.iter(), Reset::Open, &mut sockets), Ok(()));
        assert!(listener.accept().is_ok());
        drop(listener);
        assert_eq!(batch(to.iter(), Reset::Answered, &mut sockets), Ok(()));
        assert_eq!(sockets.len(), to.len());
    }
}
