//! Real packets, as they come in at the forwarder's interfaces.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guideway_soft::live::{MAX_FRAME, PacketSocket, Way};
use guideway_xdp::Balancer;
use guideway_xdp::attach::Mode;
use guideway_xdp::sampler::{Arrival, Sampler};

use crate::core::Core;
use crate::engine::Plane;

/// The pause between two looks at packet sockets.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Frames that are read from a socket at a look.
const BATCH: usize = 256;

/// Where packets can be sampled.
#[derive(Debug)]
pub(crate) enum Place {
    Soft(Vec<u32>),
    Kernel(Arc<Balancer>, Vec<(u32, Mode)>),
}

/// Samples being taken. The forwarder is as before when this is dropped.
#[derive(Debug)]
pub(crate) enum Tap {
    Soft { sockets: Vec<(u32, PacketSocket)>, buffer: Vec<u8> },
    Kernel(Sampler),
}

impl Place {
    /// Where this daemon's packets come in.
    pub(crate) fn of(core: &Core) -> Self {
        let interfaces = &core.about.interfaces;
        match core.controller.engine() {
            Plane::Soft(_) => Self::Soft(interfaces.iter().map(|port| port.index).collect()),
            Plane::Kernel(balancer) => {
                let mode =
                    |mode: &str| if mode == Mode::Native.as_str() { Mode::Native } else { Mode::Generic };
                let ports = interfaces.iter().map(|port| (port.index, mode(&port.mode)));
                Self::Kernel(Arc::clone(balancer), ports.collect())
            }
        }
    }

    /// Begins to sample one packet in 2^`rarity`; from packet sockets, all of them.
    pub(crate) fn open(&self, rarity: u32) -> Result<Tap, String> {
        match self {
            Self::Soft(interfaces) => {
                let open = |&index| PacketSocket::open(index).map(|socket| (index, socket));
                let sockets = interfaces.iter().map(open).collect::<io::Result<Vec<_>>>();
                let sockets =
                    sockets.map_err(|error| format!("a packet socket cannot be opened: {error}"))?;
                Ok(Tap::Soft { sockets, buffer: vec![0; MAX_FRAME] })
            }
            Self::Kernel(balancer, interfaces) => {
                balancer.sample(interfaces, rarity).map(Tap::Kernel).map_err(|error| error.to_string())
            }
        }
    }
}

impl Tap {
    /// Packets that came since the last call; waits a while for one.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<Vec<Arrival>> {
        match self {
            Self::Kernel(sampler) => sampler.wait(patience),
            Self::Soft { sockets, buffer } => {
                let mut arrivals = Vec::new();
                for (interface, socket) in sockets {
                    for _ in 0..BATCH {
                        let Some((length, way)) = socket.receive(buffer)? else { break };
                        if way != Way::Sent {
                            let frame = buffer.get(..length).unwrap_or_default().to_vec();
                            arrivals.push(Arrival { interface: *interface, length: length as u32, frame });
                        }
                    }
                }
                if arrivals.is_empty() {
                    thread::sleep(LOOK_EVERY.min(patience));
                }
                Ok(arrivals)
            }
        }
    }

    /// Packets for which there was no room.
    pub(crate) fn lost(&self) -> u64 {
        match self {
            Self::Soft { .. } => 0,
            Self::Kernel(sampler) => sampler.lost(),
        }
    }
}
