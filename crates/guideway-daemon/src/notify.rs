//! Messages to the service manager (`sd_notify(3)`), which nobody waits for: a manager that hangs must not have the balancer hang.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use sd_notify::NotifyState;

/// Where the manager listens, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notify {
    manager: Option<SocketAddr>,
}

impl Notify {
    /// As the manager says it to those that it starts.
    pub(crate) fn from_environment() -> Self {
        let told = env::var_os("NOTIFY_SOCKET");
        let address = told.map(|path| address(&path)).transpose().unwrap_or_else(|error| {
            tracing::warn!("NOTIFY_SOCKET is no address, so the service manager cannot be told: {error}");
            None
        });
        Self { manager: address }
    }

    /// Tells it; whether that is done, or need not be. What it cannot take now it has to be told again.
    pub(crate) fn tell(&self, states: &[NotifyState<'_>]) -> bool {
        let Some(manager) = &self.manager else { return true };
        let lines: String = states.iter().map(|state| format!("{state}\n")).collect();
        let told = send(manager, lines.as_bytes());
        if let Err(error) = &told {
            tracing::warn!("the service manager cannot be told: {error}");
        }
        told.is_ok()
    }
}

/// A path, or a name that is in no file system (unix(7)).
fn address(path: &OsStr) -> io::Result<SocketAddr> {
    match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(path),
    }
}

fn send(manager: &SocketAddr, message: &[u8]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message, manager).map(drop)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A manager that takes nothing until somebody receives, and how it is told.
    pub(crate) fn hanging() -> (UnixDatagram, Notify) {
        let name = format!("guideway-{:?}", std::thread::current().id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let notify = Notify { manager: Some(address(OsStr::new(&format!("@{name}"))).unwrap()) };
        // Its queue is full some time.
        while notify.tell(&[NotifyState::Watchdog]) {}
        (manager, notify)
    }

    pub(crate) fn hear(manager: &UnixDatagram) -> String {
        let mut message = [0; 256];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    }

    #[test]
    fn a_manager_that_hangs_keeps_nobody_waiting_and_hears_what_it_can_take() {
        let (manager, notify) = hanging();
        assert_eq!(hear(&manager), "WATCHDOG=1\n");
        assert!(notify.tell(&[NotifyState::Ready, NotifyState::Status("well")]));
        assert!(std::iter::repeat_with(|| hear(&manager)).any(|heard| heard == "READY=1\nSTATUS=well\n"));
    }
}
