//! Which of several ways a backend's frames take.
//!
//! A backend has one next hop, so ways are shared out by backend, not by flow: to each the way of the highest score,
//! drawn as often as the way's weight says. When a way is lost, only those move that took it, and they come back.

use std::net::IpAddr;

use guideway_hash::hash::{NativeHasher, StableHasher};

use super::Path;

/// The hash's domain, apart from all others.
const DOMAIN: u64 = 0x6e65_7874_2d68_6f70;

/// The way of a backend among those that are open; `None` when none is.
pub(super) fn choose<'a>(backend: IpAddr, open: impl IntoIterator<Item = &'a Path>) -> Option<&'a Path> {
    // Ties, which are next to impossible, go by the order of paths.
    open.into_iter().max_by_key(|path| (score(backend, path), **path))
}

fn score(backend: IpAddr, path: &Path) -> u64 {
    let mut bytes = Vec::with_capacity(40);
    append(&mut bytes, backend);
    bytes.extend(path.interface.to_le_bytes());
    append(&mut bytes, path.gateway.unwrap_or(backend));
    let draws = u64::from(path.weight.max(1));
    (0..draws).map(|draw| NativeHasher::new(DOMAIN ^ draw).hash(DOMAIN, &bytes)).max().unwrap_or(0)
}

fn append(bytes: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => bytes.extend(v4.octets()),
        IpAddr::V6(v6) => bytes.extend(v6.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(weights: &[u16]) -> Vec<Path> {
        (1..)
            .zip(weights)
            .map(|(n, &weight)| Path {
                interface: n,
                gateway: Some(IpAddr::from([10, 1, 0, n as u8])),
                weight,
                mtu: None,
            })
            .collect()
    }

    fn backends() -> impl Iterator<Item = IpAddr> {
        (0..4_000_u32).map(|n| IpAddr::from((0x0a00_0000 + n).to_be_bytes()))
    }

    #[test]
    fn ways_are_taken_as_their_weights_say() {
        let paths = paths(&[1, 3]);
        let second = backends().filter(|&backend| choose(backend, &paths).unwrap().interface == 2).count();
        assert!((2_850..3_150).contains(&second), "{second}");
    }

    #[test]
    fn a_way_that_is_lost_moves_nobody_else() {
        let paths = paths(&[1, 1, 1]);
        for backend in backends() {
            let before = choose(backend, &paths).unwrap();
            let after = choose(backend, &paths[..2]).unwrap();
            assert!(before.interface == 3 || before == after);
        }
        assert_eq!(choose(IpAddr::from([10, 0, 0, 1]), []), None);
    }
}
