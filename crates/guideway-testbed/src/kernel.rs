//! The packet path in the kernel: the XDP program on the links of a balancer.

use std::sync::{Arc, OnceLock};

use guideway_soft::{Limits, Totals};
use guideway_xdp::Balancer;
use guideway_xdp::attach::{Attachment, Mode, Wish};

use crate::error::{Error, Result};
use crate::forwarder::Forwarder;
use crate::soft::SoftDecapsulator;
use crate::topology::Host;

/// The key of flow table and fragment cache; a test bed has no strangers.
const FLOW_KEY: [u64; 2] = [0x6775_6964_6577_6179, 0x7465_7374_6265_6432];

/// The packet path in the kernel, in generic mode, which any link has. It ends with the last handle to its state.
#[derive(Debug)]
pub struct KernelForwarder {
    // Taken from the links first.
    _attachments: Vec<Attachment>,
    balancer: Arc<Balancer>,
}

impl Forwarder for KernelForwarder {
    type Engine = Arc<Balancer>;
    type Decapsulator = SoftDecapsulator;

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

    fn attach(machine: &Host, limits: Limits) -> Result<Self> {
        let mut balancer = Balancer::load(&limits, FLOW_KEY)?;
        let attachments = attach(&mut balancer, machine, Mode::Generic)?;
        Ok(Self { _attachments: attachments, balancer: Arc::new(balancer) })
    }

    fn engine(&self) -> Arc<Balancer> {
        Arc::clone(&self.balancer)
    }

    fn totals(&self) -> Totals {
        self.balancer.totals()
    }
}

/// Puts the program on all links of a machine.
fn attach(balancer: &mut Balancer, machine: &Host, mode: Mode) -> Result<Vec<Attachment>> {
    let attach = |(link, port): (&crate::Link, &crate::Link)| {
        if mode == Mode::Native {
            // Else the other end of the pair drops what the program sends.
            port.set_gro(true)?;
        }
        // An interface is looked up in the namespace of the thread that asks.
        let attached = link.namespace().run(|| balancer.attach(link.name(), Wish::Exactly(mode)))?;
        attached.map_err(Error::from)
    };
    machine.links().iter().zip(&machine.ports()).map(attach).collect()
}
