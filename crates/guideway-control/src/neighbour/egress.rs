//! The interfaces that lead to backends, asked once, before anything follows them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::netlink::{Asker, NetlinkError};
use super::{Event, Request};

/// The interfaces by which the routes to these backends lead now, in the network namespace of this thread.
///
/// # Errors
/// [`NetlinkError`].
pub fn egress(backends: impl IntoIterator<Item = IpAddr>) -> Result<BTreeSet<u32>, NetlinkError> {
    let mut asker = Asker::open()?;
    let mut interfaces = BTreeSet::new();
    for backend in backends {
        asker.carry_out(Request::Route(backend), &mut |event| {
            if let Event::Route { paths, .. } = event {
                interfaces.extend(paths.iter().map(|path| path.interface));
            }
        })?;
    }
    Ok(interfaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interface_leads_to_this_host_itself() {
        assert_eq!(egress([IpAddr::from([127, 0, 0, 1])]).unwrap(), BTreeSet::new());
    }
}
