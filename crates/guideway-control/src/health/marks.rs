//! Socket marks of tunnel probes: a mark names the tunnel that the kernel side wraps the probe's packets in.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::config::Encapsulation;

/// The high half of every mark, so that they are told from marks of others; the low half is a number from 1.
pub const MARK_BASE: u32 = 0x6777_0000;

/// The most tunnels that can be marked at a time.
pub const MAX_MARKS: usize = 0xffff;

/// The tunnel that probes with a certain mark go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeTunnel {
    /// The backend's address.
    pub address: IpAddr,
    /// The kind of tunnel, as [`Encapsulation::word`] says it.
    word: &'static str,
}

impl ProbeTunnel {
    /// The tunnel of that kind to that address.
    pub fn new(address: IpAddr, encapsulation: Encapsulation) -> Self {
        Self { address, word: encapsulation.word() }
    }

    /// The kind of tunnel.
    pub fn encapsulation(&self) -> Encapsulation {
        // `word` is one of the words.
        self.word.parse().unwrap_or(Encapsulation::Ipip)
    }
}

/// Which mark names which tunnel. A mark stays with its tunnel while any check needs it.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// By tunnel: the number, and how many checks use it.
    taken: BTreeMap<ProbeTunnel, (u16, usize)>,
    free: Vec<u16>,
}

impl Marks {
    /// The mark of a tunnel that one more check uses; `None` when all are taken.
    pub(crate) fn take(&mut self, tunnel: ProbeTunnel) -> Option<u32> {
        if let Some((number, users)) = self.taken.get_mut(&tunnel) {
            *users += 1;
            return Some(MARK_BASE | u32::from(*number));
        }
        let number = match self.free.pop() {
            Some(number) => number,
            // Numbers are handed out without a hole, so the next is one more than are taken.
            None => u16::try_from(self.taken.len() + 1).ok()?,
        };
        self.taken.insert(tunnel, (number, 1));
        Some(MARK_BASE | u32::from(number))
    }

    /// One check less uses it.
    pub(crate) fn give_back(&mut self, tunnel: ProbeTunnel) {
        let Some((number, users)) = self.taken.get_mut(&tunnel) else { return };
        *users -= 1;
        if *users == 0 {
            self.free.push(*number);
            self.taken.remove(&tunnel);
        }
    }

    /// The mark of a tunnel that a check uses.
    pub(crate) fn of(&self, tunnel: ProbeTunnel) -> Option<u32> {
        self.taken.get(&tunnel).map(|&(number, _)| MARK_BASE | u32::from(number))
    }

    /// Every mark and its tunnel.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, ProbeTunnel)> {
        self.taken.iter().map(|(&tunnel, &(number, _))| (MARK_BASE | u32::from(number), tunnel))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn tunnel(number: u8, encapsulation: Encapsulation) -> ProbeTunnel {
        ProbeTunnel::new(IpAddr::from([10, 0, 0, number]), encapsulation)
    }

    #[test]
    fn tunnels_of_two_kinds_to_one_backend_have_two_marks() {
        let mut marks = Marks::default();
        let (ipip, gue) = (tunnel(1, Encapsulation::Ipip), tunnel(1, Encapsulation::Gue));
        assert_ne!(marks.take(ipip), marks.take(gue));
        assert_eq!(marks.take(ipip), marks.of(ipip));
        assert_eq!(gue.encapsulation(), Encapsulation::Gue);
    }

    #[test]
    fn there_are_as_many_marks_as_the_limit_says() {
        let mut marks = Marks::default();
        let at = |number: usize| {
            ProbeTunnel::new(IpAddr::from((number as u32).to_be_bytes()), Encapsulation::Ipip)
        };
        assert!((0..MAX_MARKS).all(|number| marks.take(at(number)).is_some()));
        assert_eq!(marks.take(at(MAX_MARKS)), None);
        marks.give_back(at(7));
        assert!(marks.take(at(MAX_MARKS)).is_some());
    }

    proptest! {
        #[test]
        fn no_two_tunnels_share_a_mark_and_none_changes_while_in_use(
            steps in prop::collection::vec((0_u8..12, any::<bool>()), 0..200),
        ) {
            let mut marks = Marks::default();
            let mut users: BTreeMap<u8, (u32, usize)> = BTreeMap::new();
            for (number, take) in steps {
                let tunnel = tunnel(number, Encapsulation::Gre);
                if take {
                    let mark = marks.take(tunnel).unwrap();
                    let held = users.entry(number).or_insert((mark, 0));
                    prop_assert_eq!(held.0, mark);
                    held.1 += 1;
                } else if let Some(held) = users.get_mut(&number) {
                    marks.give_back(tunnel);
                    held.1 -= 1;
                    if held.1 == 0 {
                        users.remove(&number);
                    }
                }
                let all: HashSet<u32> = marks.iter().map(|(mark, _)| mark).collect();
                prop_assert_eq!(all, users.values().map(|&(mark, _)| mark).collect());
            }
        }
    }
}
