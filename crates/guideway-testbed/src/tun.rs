//! A TUN device: an interface whose other end is this program.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{read, write};

use crate::error::{Context, Result};
use crate::namespace::Namespace;
use crate::netlink::Link;
use crate::sys;

/// A TUN device of a namespace: what is written to it, IP packets without a link header, the namespace receives.
#[derive(Debug)]
pub struct Tun {
    device: OwnedFd,
    link: Link,
}

impl Tun {
    /// Makes the device and switches it on. It goes when this is dropped.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn new(namespace: &Namespace, name: &str) -> Result<Self> {
        let what = || format!("making the TUN device {name} in {}", namespace.label());
        let device = namespace.run(|| -> Result<OwnedFd> {
            let open = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open("/dev/net/tun");
            let device = OwnedFd::from(open.context(what)?);
            sys::make_tun(&device, name).context(what)?;
            Ok(device)
        })??;
        let link = namespace.link(name)?;
        link.set_up(true)?;
        Ok(Self { device, link })
    }

    /// The interface.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Has the namespace receive an IP packet.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn inject(&self, packet: &[u8]) -> io::Result<()> {
        write(self.device.as_fd(), packet)?;
        Ok(())
    }

    /// Reads a packet that the namespace sent by the device, without waiting.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match read(self.device.as_fd(), buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
