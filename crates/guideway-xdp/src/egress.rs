//! Whether what a program in native mode sends by an interface arrives there.
//!
//! The kernel takes such a frame from the program, and only then finds that the interface cannot send it: neither program nor
//! sender hears of that. So it has to be asked beforehand.

use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo};

use crate::occupant::link;
use crate::peer::peer;
use crate::preflight::features::Features;

/// Why frames are lost that native mode sends by the interface with this index, and what to do; `None` where nothing is known
/// against it. `redirected`: the program runs at another interface, which asks more of this one.
pub fn objection(index: u32, redirected: bool) -> Option<String> {
    const GENERIC: &str = "use generic mode (`--xdp-mode generic`)";
    let link = link(index).ok()?;
    match kind(&link.attributes) {
        Some(InfoKind::Veth) => {
            let objection = peer("", index).ok()?.objection()?;
            Some(format!("{objection}: attach a program that passes everything there, or {GENERIC}"))
        }
        kind => {
            let refuses = match Features::of(index) {
                Some(features) => !features.takes_frames(),
                // Older kernels don't tell; these never could.
                None => matches!(
                    kind,
                    Some(InfoKind::Bridge | InfoKind::MacVlan | InfoKind::Vlan | InfoKind::IpVlan)
                ),
            };
            (redirected && refuses).then(|| {
                let kind = kind.map_or_else(
                    || "its driver".to_owned(),
                    |kind| format!("an interface of its kind ({kind})"),
                );
                format!("{kind} takes no frames from native mode at another interface: {GENERIC}")
            })
        }
    }
}

fn kind(attributes: &[LinkAttribute]) -> Option<InfoKind> {
    attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.iter().find_map(|info| match info {
            LinkInfo::Kind(kind) => Some(kind.clone()),
            _ => None,
        }),
        _ => None,
    })
}
