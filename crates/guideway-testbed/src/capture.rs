//! Recording the frames of a link.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use guideway_soft::capture::Writer;

use crate::error::{Context, Error, Result};
use crate::netlink::Link;
use crate::packet::{MAX_FRAME, PacketSocket, Way};
use crate::task::{Stop, Task};

/// How long the thread waits at most for a frame.
const IDLE: Duration = Duration::from_millis(500);

/// Records, from its start until it is dropped, those frames of a link that its filter wants.
#[derive(Debug)]
pub struct Capture {
    record: Arc<Record>,
    _thread: Task,
}

/// A frame that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When, after 1970.
    pub at: Duration,
    /// Which way it went.
    pub way: Way,
    /// The whole frame.
    pub frame: Vec<u8>,
}

#[derive(Debug, Default)]
struct Record {
    frames: Mutex<Vec<Seen>>,
    grown: Condvar,
}

impl Capture {
    /// Begins to record.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn start(link: &Link, wants: impl Fn(&[u8]) -> bool + Send + 'static) -> Result<Self> {
        let socket = PacketSocket::open(link)?;
        let record = Arc::new(Record::default());
        let theirs = Arc::clone(&record);
        let work = move |stop: &Stop| theirs.fill(&socket, wants, stop);
        Ok(Self { record, _thread: Task::start("capture", link.namespace(), work)? })
    }

    /// What was recorded so far.
    pub fn frames(&self) -> Vec<Seen> {
        self.record.frames.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a frame for which `is_it` holds, one that was recorded before included.
    ///
    /// # Errors
    /// [`Error::Deadline`], with `what` was waited for.
    pub fn wait_for(&self, at_most: Duration, what: &str, is_it: impl Fn(&[u8]) -> bool) -> Result<Seen> {
        let end = Instant::now() + at_most;
        let mut frames = self.record.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let mut looked_at = 0;
        loop {
            if let Some(found) = frames[looked_at..].iter().find(|seen| is_it(&seen.frame)) {
                return Ok(found.clone());
            }
            looked_at = frames.len();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let last = Some(format!("{looked_at} other frames were seen"));
                return Err(Error::Deadline { what: what.to_owned(), waited: at_most, last });
            }
            let woken = self.record.grown.wait_timeout(frames, left);
            frames = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Writes what was recorded so far as a pcap file.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn write_pcap(&self, path: &Path) -> Result<()> {
        let write = || -> io::Result<()> {
            let mut writer = Writer::new(BufWriter::new(File::create(path)?))?;
            self.frames().iter().try_for_each(|seen| {
                let stamp = u64::try_from(seen.at.as_nanos()).map_err(io::Error::other)?;
                writer.write(stamp, &seen.frame)
            })
        };
        write().context(|| format!("writing {}", path.display()))
    }
}

impl Record {
    fn fill(&self, socket: &PacketSocket, wants: impl Fn(&[u8]) -> bool, stop: &Stop) {
        let mut buffer = vec![0; MAX_FRAME];
        while stop.wait(&[socket.as_fd()], IDLE).is_ok() {
            while let Ok(Some((length, way))) = socket.receive(&mut buffer) {
                let frame = &buffer[..length];
                if wants(frame) {
                    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                    let seen = Seen { at, way, frame: frame.to_vec() };
                    self.frames.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
                    self.grown.notify_all();
                }
                if stop.is_asked() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Namespace, privilege, veth_pair};

    #[test]
    fn only_wanted_frames_are_recorded_and_a_file_of_them_reads_back() {
        if !privilege::granted() {
            return;
        }
        let (left, right) = (Namespace::new("left").unwrap(), Namespace::new("right").unwrap());
        let (one, other) = veth_pair((&left, "one"), (&right, "other"), 1500).unwrap();
        let capture = Capture::start(&other, |frame| frame.get(12..14) == Some(&[0x88, 0xb5])).unwrap();
        let sender = PacketSocket::open(&one).unwrap();
        let frame =
            |kind: u8, last: u8| [&other.mac()[..], &one.mac(), &[0x88, kind], &[0; 45], &[last]].concat();
        sender.send_all(&[frame(0xb5, 1), frame(0xb6, 2), frame(0xb5, 3)]).unwrap();
        let is_last = |frame: &[u8]| frame.last() == Some(&3);
        let last = capture.wait_for(Duration::from_secs(5), "the last frame", is_last).unwrap();
        assert_eq!((last.frame.as_slice(), last.way), (&frame(0xb5, 3)[..], Way::ToUs));
        assert_eq!(capture.frames().len(), 2);
        let missing = capture.wait_for(Duration::from_millis(10), "another", |frame| frame.is_empty());
        let told = missing.unwrap_err().to_string();
        assert_eq!(told, "another did not happen within 10ms; last: 2 other frames were seen");

        let path = std::env::temp_dir().join(format!("guideway-testbed-{}.pcap", std::process::id()));
        capture.write_pcap(&path).unwrap();
        let mut file = guideway_soft::capture::Capture::open(&path).unwrap();
        let mut number = 0;
        while let Some(record) = file.next() {
            record.unwrap();
            number += 1;
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(number, 2);
    }
}
