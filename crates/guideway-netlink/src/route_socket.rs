//! Questions to the kernel, and the socket on which it tells of changes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

use crate::datagram::{DATAGRAM_BYTES, messages};

/// A socket for questions.
#[derive(Debug)]
pub struct RouteSocket {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl RouteSocket {
    /// In the network namespace of this thread.
    ///
    /// # Errors
    /// What the system says.
    pub fn open() -> io::Result<RouteSocket> {
        Ok(RouteSocket { socket: open(SockFlag::empty(), 0)?, sequence: 0, buffer: vec![0; DATAGRAM_BYTES] })
    }

    /// Sends a question with these flags (`NLM_F_…`), and returns the answers to it: all of them after `NLM_F_DUMP`,
    /// those before the acknowledgement after `NLM_F_ACK`, and else the first.
    ///
    /// Of a dump, messages that the codec does not know are left out.
    ///
    /// # Errors
    /// What the system or the kernel's answer says; [`io::ErrorKind::InvalidData`] for an answer that is not understood.
    pub fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        self.answers(flags)
    }

    fn answers(&mut self, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let dump = flags & NLM_F_DUMP == NLM_F_DUMP;
        let acknowledged = flags & NLM_F_ACK != 0;
        let mut answers = Vec::new();
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
            for message in messages(self.buffer.get(..length).unwrap_or_default()) {
                let message = match message {
                    Ok(message) => message,
                    Err(unknown) if dump || unknown.sequence != self.sequence => continue,
                    Err(unknown) => {
                        let text = format!("the kernel answers with a message of type {}", unknown.kind);
                        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                    }
                };
                // Answers to a question that was given up are skipped.
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(answer) => {
                        answers.push(answer);
                        if !dump && !acknowledged {
                            return Ok(answers);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A socket on which the kernel tells of changes in these multicast groups (a bit each, `RTNLGRP_…` less one), in the
/// network namespace of this thread. Receiving from it does not wait.
///
/// # Errors
/// What the system says.
pub fn listener(groups: u32) -> io::Result<OwnedFd> {
    open(SockFlag::SOCK_NONBLOCK, groups)
}

fn open(flags: SockFlag, groups: u32) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | flags;
    let socket = socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkRoute)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};

    use super::*;

    fn named(name: &str) -> RouteNetlinkMessage {
        let mut link = LinkMessage::default();
        link.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        RouteNetlinkMessage::GetLink(link)
    }

    fn index(answer: &RouteNetlinkMessage) -> Option<u32> {
        match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link.header.index),
            _ => None,
        }
    }

    #[test]
    fn the_loopback_interface_is_found_alone_acknowledged_and_in_the_list() -> io::Result<()> {
        let mut socket = RouteSocket::open()?;
        for (question, flags) in [
            (named("lo"), 0),
            (named("lo"), NLM_F_ACK),
            (RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP),
        ] {
            let answers = socket.ask(question, flags)?;
            assert!(answers.iter().any(|answer| index(answer) == Some(1)), "flags {flags:#x}: {answers:?}");
        }
        Ok(())
    }

    #[test]
    fn a_refusal_is_an_error_and_the_next_question_gets_its_own_answer() -> io::Result<()> {
        let mut socket = RouteSocket::open()?;
        let refusal = socket.ask(named("no-such-link"), NLM_F_ACK);
        assert_eq!(
            refusal.map_err(|error| error.raw_os_error()),
            Err(Some(nix::errno::Errno::ENODEV as i32))
        );
        let answers = socket.ask(named("lo"), 0)?;
        assert_eq!(answers.iter().filter_map(index).collect::<Vec<_>>(), [1]);
        // The acknowledgement that nobody waited for does not answer what follows.
        assert_eq!(socket.ask(named("lo"), NLM_F_ACK)?.len(), 1);
        Ok(())
    }
}
