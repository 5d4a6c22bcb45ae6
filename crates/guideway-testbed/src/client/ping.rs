//! Echo requests, as `ping` sends them.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use guideway_wire::checksum::Sum;
use guideway_wire::icmp::IcmpHeader;
use guideway_wire::icmpv6::Icmpv6Header;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Context, Result};
use crate::namespace::Namespace;

/// Sends an echo request with this content and waits for its reply, which has to come from `host` with the same content.
///
/// # Errors
/// [`crate::Error::System`], also when no reply came within `at_most`.
pub fn ping(namespace: &Namespace, host: IpAddr, content: &[u8], at_most: Duration) -> Result<()> {
    let what = || format!("pinging {host}");
    let (domain, protocol, request, reply) = match host {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, IcmpHeader::ECHO_REQUEST, IcmpHeader::ECHO_REPLY),
        IpAddr::V6(_) => {
            (Domain::IPV6, Protocol::ICMPV6, Icmpv6Header::ECHO_REQUEST, Icmpv6Header::ECHO_REPLY)
        }
    };
    let mut message = [&[request, 0, 0, 0, 0x67, 0x77, 0, 1], content].concat();
    if host.is_ipv4() {
        // Over IPv6 the kernel sums it.
        let sum = Sum::ZERO.add_bytes(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let mut socket = namespace.run(|| Socket::new(domain, Type::RAW, Some(protocol)))?.context(what)?;
    let mut exchange = || -> io::Result<()> {
        socket.set_read_timeout(Some(at_most))?;
        // Takes nothing from elsewhere.
        socket.connect(&SocketAddr::new(host, 0).into())?;
        socket.write_all(&message)?;
        let end = Instant::now() + at_most;
        let mut buffer = vec![0; 65_536];
        while Instant::now() < end {
            let length = socket.read(&mut buffer)?;
            // Of IPv4 the header comes too, without options.
            let answer = buffer.get(if host.is_ipv4() { 20 } else { 0 }..length).unwrap_or_default();
            if answer.first() == Some(&reply) && answer.get(4..) == Some(&message[4..]) {
                return Ok(());
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    };
    exchange().context(what)
}
