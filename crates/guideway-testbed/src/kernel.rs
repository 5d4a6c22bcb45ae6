//! The packet path in the kernel: the XDP program on the links of a balancer.

use std::sync::{Arc, OnceLock};

use guideway_soft::{Limits, Totals};
use guideway_xdp::Balancer;
use guideway_xdp::attach::{Attachment, Mode, Wish};
use guideway_xdp::peer::Pass;

use crate::end::{TcDecapsulator, XdpDecapsulator};
use crate::error::{Error, Result};
use crate::forwarder::Forwarder;
use crate::netlink::Link;
use crate::topology::Host;

/// The key of flow table and fragment cache; a test bed has no strangers.
const FLOW_KEY: [u64; 2] = [0x6775_6964_6577_6179, 0x7465_7374_6265_6432];

/// The packet path in the kernel, in native mode. It ends with the last handle to its state.
#[derive(Debug)]
pub struct KernelForwarder(Attached);

/// The same in generic mode.
#[derive(Debug)]
pub struct GenericForwarder(Attached);

/// The program on its links.
#[derive(Debug)]
struct Attached {
    // Taken from the links first.
    _attachments: Vec<Attachment>,
    balancer: Arc<Balancer>,
    _passes: Vec<Pass>,
}

impl Attached {
    fn permitted() -> Result<()> {
        // Whoever may load it small may load it large.
        static MISSING: OnceLock<Option<String>> = OnceLock::new();
        let smallest =
            Limits { services: 1, backends: 1, slots: 1, flows: 1, fragments: 1, ..crate::bed::LIMITS };
        let try_it = || Balancer::load(&smallest, FLOW_KEY).err().map(|error| error.to_string());
        match MISSING.get_or_init(try_it) {
            None => Ok(()),
            Some(missing) => Err(Error::NotPermitted { missing: missing.clone() }),
        }
    }

    /// Puts the program on all links of a machine.
    fn attach(machine: &Host, limits: Limits, mode: Mode) -> Result<Self> {
        let balancer = Balancer::load(&limits, FLOW_KEY)?;
        let passes = if mode == Mode::Native { pass_all(machine)? } else { Vec::new() };
        let attach = |link: Link| {
            // An interface is looked up in the namespace of the thread that asks.
            let attached = link.namespace().run(|| balancer.attach(link.name(), Wish::Exactly(mode)))?;
            attached.map_err(Error::from)
        };
        let attachments = machine.links().into_iter().map(attach).collect::<Result<_>>()?;
        Ok(Self { _attachments: attachments, balancer: Arc::new(balancer), _passes: passes })
    }
}

/// Has the far ends of a machine's links take what a program sends there in native mode, until the answer is dropped.
///
/// # Errors
/// [`Error::Kernel`].
pub fn pass_all(machine: &Host) -> Result<Vec<Pass>> {
    let pass = |port: Link| port.namespace().run(|| Pass::attach(port.name()))?.map_err(Error::from);
    machine.ports().into_iter().map(pass).collect()
}

/// Both modes are the same but for the mode.
macro_rules! forwarder {
    ($forwarder:ident, $mode:expr, $decapsulator:ty) => {
        impl Forwarder for $forwarder {
            type Engine = Arc<Balancer>;
            type Decapsulator = $decapsulator;

            fn permitted() -> Result<()> {
                Attached::permitted()
            }

            fn attach(machine: &Host, limits: Limits) -> Result<Self> {
                Attached::attach(machine, limits, $mode).map(Self)
            }

            fn engine(&self) -> Arc<Balancer> {
                Arc::clone(&self.0.balancer)
            }

            fn totals(&self) -> Totals {
                self.0.balancer.totals()
            }

            fn advance(&self, seconds: u32) {
                let balancer = &self.0.balancer;
                balancer.stop_clock(Some(balancer.now_seconds() + seconds));
            }
        }
    };
}

forwarder!(KernelForwarder, Mode::Native, XdpDecapsulator);
forwarder!(GenericForwarder, Mode::Generic, TcDecapsulator);
