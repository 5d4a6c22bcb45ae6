//! The calls that have no safe wrapper, each in one small function.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};

nix::ioctl_readwrite_bad!(ethtool, libc::SIOCETHTOOL, libc::ifreq);

/// What the kernel leaves to an interface, or to the last moment: commands of `linux/ethtool.h` that set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Offload {
    /// `ETHTOOL_STXCSUM`: it sums what is sent.
    Checksum = 0x17,
    /// `ETHTOOL_STSO`: it takes TCP's data in pieces of many segments.
    Tso = 0x1f,
    /// `ETHTOOL_SGSO`: the kernel cuts such pieces only just before it.
    Gso = 0x24,
    /// `ETHTOOL_SGRO`: it joins packets that it receives.
    Gro = 0x2c,
}

/// `struct ethtool_value` of `linux/ethtool.h`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Switches an offload of interface `name` on or off. `socket` is any socket of the interface's network namespace.
pub(crate) fn set_offload(socket: BorrowedFd<'_>, name: &str, offload: Offload, on: bool) -> io::Result<()> {
    let mut value = EthtoolValue { command: offload as u32, data: u32::from(on) };
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: SIOCETHTOOL with either command reads the `ethtool_value` that the request points to; both live until the
    // call returns.
    unsafe { ethtool(socket.as_raw_fd(), &raw mut request) }?;
    Ok(())
}

/// Has the kernel kill the child when the thread that starts it ends, and the child heed every signal, whichever of them
/// that thread has blocked.
pub(crate) fn die_with_parent(command: &mut Command) {
    let ask = || {
        SigSet::empty().thread_set_mask()?;
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec the closure makes two system calls; it neither allocates nor locks.
    unsafe { command.pre_exec(ask) };
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
    };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interface's name has at most 15 bytes"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}
