//! The backend's end of the tunnel, in user space.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use guideway_wire::decap::{DecapError, decapsulate};
use guideway_wire::{FlowKey, IpProtocol, SliceFrame, gue, parse};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Context, Result};
use crate::forwarder::Decapsulator;
use crate::namespace::Namespace;
use crate::netlink::{Link, veth_pair};
use crate::packet::{MAX_FRAME, PacketSocket, Way};
use crate::task::{Stop, Task};
use crate::topology::{Host, VIPS};

/// How long the thread waits at most for a frame.
const IDLE: Duration = Duration::from_millis(500);

/// The greatest MTU of such an interface: whatever fitted into a tunnel fits.
const INNER_MTU: u32 = 65_535;

/// Takes the outer headers off what comes to a backend through a tunnel, and has the backend receive the rest by a pair
/// of interfaces of its own, from one to the other: unlike a TUN device, no file has to be open to us for that. Strict: only to the backend's own addresses, only for its virtual addresses.
#[derive(Debug)]
pub struct SoftDecapsulator {
    counts: Arc<Mutex<DecapCounts>>,
    _thread: Task,
    /// They take what the kernel would refuse with an ICMP error since it knows no such tunnel.
    _sinks: Vec<Socket>,
}

/// What a decapsulator has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecapCounts {
    /// Packets decapsulated, by outer source.
    pub accepted: BTreeMap<IpAddr, u64>,
    /// Packets of each inner flow, as `(source, source port, destination, destination port)`.
    pub flows: BTreeMap<(IpAddr, u16, IpAddr, u16), u64>,
    /// Tunnel packets that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
}

impl SoftDecapsulator {
    /// Starts it for what comes by `link` to `own` addresses, with packets for `vips` inside.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn start(link: &Link, own: Vec<IpAddr>, vips: Vec<IpAddr>, gue_port: u16) -> Result<Self> {
        let namespace = link.namespace();
        let counts = Arc::new(Mutex::new(DecapCounts::default()));
        let (inner, feed) = veth_pair((namespace, "decap0"), (namespace, "decap1"), INNER_MTU)?;
        let path = Path {
            socket: PacketSocket::open(link)?,
            feed: PacketSocket::open(&feed)?,
            inner: inner.mac(),
            own,
            vips,
            gue_port,
            counts: Arc::clone(&counts),
        };
        let sinks = sinks(namespace, gue_port)?;
        let thread = Task::start("decapsulator", namespace, move |stop| path.run(stop))?;
        Ok(Self { counts, _thread: thread, _sinks: sinks })
    }

    /// What it has seen so far.
    pub fn counts(&self) -> DecapCounts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Decapsulator for SoftDecapsulator {
    fn attach(backend: &Host) -> Result<Self> {
        Self::start(&backend.link, vec![backend.v4, backend.v6], VIPS.to_vec(), gue::PORT)
    }

    fn accepted(&self) -> u64 {
        self.counts().accepted.values().sum()
    }

    fn refused(&self) -> u64 {
        self.counts().refused.values().sum()
    }
}

struct Path {
    socket: PacketSocket,
    /// What is sent here, to the address below, the backend receives.
    feed: PacketSocket,
    inner: [u8; 6],
    own: Vec<IpAddr>,
    vips: Vec<IpAddr>,
    gue_port: u16,
    counts: Arc<Mutex<DecapCounts>>,
}

impl Path {
    fn run(&self, stop: &Stop) {
        let mut buffer = vec![0; MAX_FRAME];
        while stop.wait(&[self.socket.as_fd()], IDLE).is_ok() {
            while let Ok(Some((length, way))) = self.socket.receive(&mut buffer) {
                if way == Way::ToUs {
                    self.frame(&mut buffer, length);
                }
                if stop.is_asked() {
                    return;
                }
            }
        }
    }

    fn frame(&self, buffer: &mut [u8], length: usize) {
        let Some(mut packet) = SliceFrame::new(buffer, 0, length) else { return };
        let Ok(parsed) = parse(&packet) else { return };
        let outcome = match decapsulate(&mut packet, &parsed, self.gue_port) {
            Err(DecapError::NotTunnelled) => return,
            Err(error) => Err(error.to_string()),
            Ok(done) if !self.own.contains(&IpAddr::from(done.destination)) => {
                Err("the tunnel does not end here".to_owned())
            }
            Ok(done) => {
                let (start, end) = packet.range();
                self.deliver(&mut buffer[start..end]).map(|flow| (IpAddr::from(done.source), flow))
            }
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok((source, flow)) => {
                *counts.accepted.entry(source).or_default() += 1;
                let flow = (flow.src.into(), flow.src_port, flow.dst.into(), flow.dst_port);
                *counts.flows.entry(flow).or_default() += 1;
            }
            Err(reason) => *counts.refused.entry(reason).or_default() += 1,
        }
    }

    /// Has the backend receive the packet of this frame.
    fn deliver(&self, frame: &mut [u8]) -> Result<FlowKey, String> {
        let parsed = parse(&*frame).map_err(|error| format!("the inner packet: {error}"))?;
        if !self.vips.contains(&IpAddr::from(parsed.key.dst)) {
            return Err("the inner packet is for none of the virtual addresses".to_owned());
        }
        frame[..self.inner.len()].copy_from_slice(&self.inner);
        self.feed.send(frame).map_err(|error| format!("handing it to the backend: {error}"))?;
        Ok(parsed.key)
    }
}

/// Sockets of every tunnel's protocol that nobody reads.
fn sinks(namespace: &Namespace, gue_port: u16) -> Result<Vec<Socket>> {
    let open = || -> io::Result<Vec<Socket>> {
        let mut sinks = Vec::new();
        for domain in [Domain::IPV4, Domain::IPV6] {
            for protocol in [IpProtocol::IPV4, IpProtocol::IPV6, IpProtocol::GRE] {
                let protocol = Protocol::from(i32::from(protocol.0));
                sinks.push(Socket::new(domain, Type::RAW, Some(protocol))?);
            }
        }
        // Of both families, since nothing says that it is of IPv6 alone.
        let gue = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
        gue.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, gue_port)).into())?;
        sinks.push(gue);
        sinks.iter().try_for_each(|sink| sink.set_recv_buffer_size(0))?;
        Ok(sinks)
    };
    namespace.run(open)?.context(|| format!("taking tunnel packets from the kernel in {}", namespace.label()))
}
