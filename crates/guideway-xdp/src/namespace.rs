//! Other network namespaces, by the numbers that this one has for them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread;

use guideway_netlink::RouteSocket;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use nix::sched::{CloneFlags, setns};

/// Does a task in the namespace with this number; `None` where it has neither a name nor a process, or may not be entered.
pub(crate) fn within<T: Send>(number: i32, task: impl FnOnce() -> T + Send) -> Option<T> {
    let namespace = find(number)?;
    // A thread of its own, which ends there: this one stays where it is.
    let entered = || setns(&namespace, CloneFlags::CLONE_NEWNET).ok().map(|()| task());
    thread::scope(|scope| scope.spawn(entered).join().ok().flatten())
}

fn find(number: i32) -> Option<File> {
    let mut seen = HashSet::new();
    let opened = candidates().into_iter().filter_map(|path| File::open(path).ok());
    opened
        .filter(|file| file.metadata().is_ok_and(|metadata| seen.insert(metadata.ino())))
        .find(|file| number_of(file) == Some(number))
}

/// Those with a name (ip-netns(8)) and those of processes.
fn candidates() -> Vec<PathBuf> {
    let entries = |directory| fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries("/run/netns").map(|entry| entry.path());
    let processes = entries("/proc").map(|entry| entry.path().join("ns/net"));
    named.chain(processes).collect()
}

fn number_of(namespace: &File) -> Option<i32> {
    let mut question = NsidMessage::default();
    question.attributes = vec![NsidAttribute::Fd(u32::try_from(namespace.as_raw_fd()).ok()?)];
    let answers = RouteSocket::open().ok()?.ask(RouteNetlinkMessage::GetNsId(question), 0).ok()?;
    answers.into_iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewNsId(told) => told.attributes.iter().find_map(|attribute| match attribute {
            NsidAttribute::Id(number) => Some(*number),
            _ => None,
        }),
        _ => None,
    })
}
