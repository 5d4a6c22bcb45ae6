//! What an interface's driver says of itself, by the `SIOCETHTOOL` call (linux/ethtool.h).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

nix::ioctl_readwrite_bad!(ethtool, libc::SIOCETHTOOL, libc::ifreq);

/// One interface.
pub(crate) struct Driver<'a> {
    socket: OwnedFd,
    interface: &'a str,
}

/// A question with four bytes for an answer.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Flag {
    /// `ETHTOOL_GTXCSUM`: whether the device is left to finish the checksums of what is sent.
    Checksums = 0x16,
    /// `ETHTOOL_GTSO`: whether TCP hands over many packets as one, for the device to cut.
    Tso = 0x1e,
    /// `ETHTOOL_GGSO`: the same of all protocols, cut before the device unless it can.
    Gso = 0x23,
    /// `ETHTOOL_GGRO`: whether received packets are joined in software.
    Gro = 0x2b,
    /// `ETHTOOL_GFLAGS`: more of them, as bits.
    More = 0x25,
}

/// Bits of [`Flag::More`]: tags of VLANs are taken off by the card; packets are joined by the card.
pub(crate) const VLAN_TAGS: u32 = 1 << 8;
pub(crate) const LARGE_RECEIVE: u32 = 1 << 15;

/// Queues that receive: how many there are, how many there can be, and the word that sets their number.
#[derive(Clone, Copy)]
pub(crate) struct Queues {
    pub(crate) now: u32,
    pub(crate) most: u32,
    pub(crate) kind: &'static str,
}

impl<'a> Driver<'a> {
    pub(crate) fn of(interface: &'a str) -> io::Result<Driver<'a>> {
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        Ok(Driver { socket, interface })
    }

    /// The driver's name.
    pub(crate) fn name(&self) -> Option<String> {
        let mut answer = DriverInfo { command: GET_DRIVER, name: [0; 32], rest: [0; 160] };
        self.ask(&mut answer).ok()?;
        let end = answer.name.iter().position(|byte| *byte == 0).unwrap_or(answer.name.len());
        Some(String::from_utf8_lossy(answer.name.get(..end)?).into_owned())
    }

    /// A setting, if the driver has it.
    pub(crate) fn flag(&self, flag: Flag) -> Option<u32> {
        let mut answer = Value { command: flag as u32, data: 0 };
        self.ask(&mut answer).ok()?;
        Some(answer.data)
    }

    /// Queues that receive.
    pub(crate) fn receive_queues(&self) -> Option<Queues> {
        let mut answer = Channels { command: GET_CHANNELS, words: [0; 8] };
        self.ask(&mut answer).ok()?;
        let [most_rx, _, _, most_combined, rx, _, _, combined] = answer.words;
        // Some drivers have queues that only receive; `ethtool -L` takes each by its own word.
        let (most, kind) = if most_combined > 0 { (most_combined, "combined") } else { (most_rx, "rx") };
        Some(Queues { now: rx + combined, most, kind })
    }

    fn ask<T: Question>(&self, question: &mut T) -> io::Result<()> {
        let mut request = libc::ifreq {
            ifr_name: [0; libc::IFNAMSIZ],
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: std::ptr::from_mut(question).cast() },
        };
        if self.interface.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(self.interface.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: each question is laid out as its command's structure, which the kernel reads and fills; it and the
        // request live until the call returns.
        unsafe { ethtool(self.socket.as_raw_fd(), &raw mut request) }?;
        Ok(())
    }
}

/// A structure of linux/ethtool.h, whose first word is the command.
trait Question {}

const GET_DRIVER: u32 = 0x03;
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_drvinfo`: the command, the driver's name, and what nobody asks here.
#[repr(C)]
struct DriverInfo {
    command: u32,
    name: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_channels`: largest numbers of receive, transmit, other and combined channels, then the present ones.
#[repr(C)]
struct Channels {
    command: u32,
    words: [u32; 8],
}

impl Question for DriverInfo {}
impl Question for Value {}
impl Question for Channels {}

const _: () = assert!(size_of::<DriverInfo>() == 196 && size_of::<Channels>() == 36);
