//! The connections of checks without the checks: what the kernel takes for them, whoever makes them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use guideway_testbed::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
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

/// Opens connections to all of these in turn, so many a second for so long, and resets each. It is done with as few system
/// calls as can be where each connection has a socket of its own.
pub(super) fn connections(
    link: &Link,
    to: &[SocketAddr],
    a_second: f64,
    window: Duration,
) -> Result<Bare, Failure> {
    let made = link.namespace().run(|| make(to, a_second, window)).map_err(Failure::failed)?;
    made.map_err(|error| Failure::failed(format!("connecting to the backends: {error}")))
}

fn make(to: &[SocketAddr], a_second: f64, window: Duration) -> Result<Bare, Errno> {
    let mut to = to.iter().cycle();
    let (begin, before) = (Instant::now(), thread_time());
    let mut made = 0;
    while begin.elapsed() < window {
        let due = (begin.elapsed().as_secs_f64() * a_second) as usize;
        batch(to.by_ref().take(due - made))?;
        made = due;
        thread::sleep(BATCH_EVERY);
    }
    Ok(Bare { made, time: thread_time().saturating_sub(before) })
}

fn batch<'a>(to: impl Iterator<Item = &'a SocketAddr>) -> Result<(), Errno> {
    let sockets = to.map(begin).collect::<Result<Vec<OwnedFd>, Errno>>()?;
    let mut waiting: Vec<PollFd<'_>> = sockets.iter().map(|one| PollFd::new(one, PollFlags::OUT)).collect();
    while !waiting.is_empty() {
        if poll(&mut waiting, Some(&PATIENCE))? == 0 {
            return Err(Errno::TIMEDOUT);
        }
        waiting.retain(|one| one.revents().is_empty());
    }
    // They are closed by a reset.
    sockets.iter().try_for_each(|socket| set_socket_linger(socket, Some(Duration::ZERO)))
}

fn begin(to: &SocketAddr) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    match connect(&socket, to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
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
        let before = thread_time();
        assert_eq!(batch(to.iter()), Ok(()));
        assert!(thread_time() > before);
        drop(listener);
        assert_eq!(batch(to.iter()), Ok(()));
    }
}
