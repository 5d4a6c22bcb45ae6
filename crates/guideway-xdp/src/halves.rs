//! Single addresses, where services listen and which are virtual, in the mapped directory: one half is in use, the
//! other is filled for the next change, and one store makes it the one in use.

use std::collections::BTreeMap;

use guideway_forward::record::directory::{At, Held, LEAST_LINES, Line, MOST_LINES, PLACES, find, may_know};
use guideway_forward::record::{ServiceKey, Settings};
use zerocopy::transmute;

/// What a directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Singles {
    /// Service ids by [`ServiceKey`].
    pub(crate) exact: BTreeMap<[u8; 20], u16>,
    /// A [`Vip`](guideway_forward::record::Vip) by address.
    pub(crate) vips: BTreeMap<[u8; 16], u32>,
}

/// The map's memory, and the settings that say which half is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves<'a> {
    pub(crate) lines: &'a [Line],
    pub(crate) settings: &'a Settings,
}

/// Lines that a map must have for so many keys in each half: half of the places stay free, and most of the time more.
pub(crate) fn lines(keys: u32) -> u32 {
    let table = keys.next_power_of_two().clamp(LEAST_LINES, MOST_LINES);
    2 * (table + table / LEAST_LINES)
}

impl Halves<'_> {
    /// What the half in use says.
    pub(crate) fn read(&self) -> Singles {
        let at = self.settings.directory();
        let mut singles = Singles::default();
        let table = self.lines.iter().skip(at.first() as usize).take(at.mask() as usize + 1);
        for held in table.flat_map(|line| (0..PLACES).filter_map(|place| line.place(place))) {
            let key = held.key();
            if key == ServiceKey::of_address(key.address) {
                singles.vips.insert(key.address, held.value());
            } else {
                singles.exact.insert(transmute!(key), held.value() as u16);
            }
        }
        singles
    }

    /// In how many keys a packet would find something else than these: keys that are not there, that are wrong or
    /// foreign, and addresses that the filter does not let through.
    pub(crate) fn differences(&self, wanted: &Singles) -> u32 {
        let (at, found) = (self.settings.directory(), self.read());
        let line = |number: u32| self.lines.get(number as usize);
        let reached = |key: &ServiceKey, value: u32| find(at, key, line) == Some(value);
        let vips = wanted.vips.iter().filter(|(address, vip)| {
            !may_know(at, address, line) || !reached(&ServiceKey::of_address(**address), **vip)
        });
        let exact =
            wanted.exact.iter().filter(|(key, service)| !reached(&transmute!(**key), u32::from(**service)));
        let foreign = found.exact.keys().filter(|key| !wanted.exact.contains_key(*key)).count()
            + found.vips.keys().filter(|address| !wanted.vips.contains_key(*address)).count();
        u32::try_from(vips.count() + exact.count() + foreign).unwrap_or(u32::MAX)
    }

    /// Fills the half that is not in use, which no program may be reading, and says where it is. `None` if it has no
    /// room for all.
    pub(crate) fn fill_other(&self, singles: &Singles) -> Option<At> {
        let half = (self.lines.len() / 2) as u32;
        let first = if self.settings.directory().first() == 0 { half } else { 0 };
        let most = half / (LEAST_LINES + 1) * LEAST_LINES;
        let keys = singles.exact.len() + singles.vips.len();
        let mut size = (u32::try_from(keys).ok()?).next_power_of_two().max(LEAST_LINES);
        // A table that is half full nearly always takes all; where it does not, a larger one will.
        while size <= most {
            let at = At::new(first, size);
            if self.fill(at, singles) {
                return Some(at);
            }
            size *= 2;
        }
        None
    }

    fn fill(&self, at: At, singles: &Singles) -> bool {
        let lines = (at.mask() + 1 + at.filter_lines()) as usize;
        self.lines.iter().skip(at.first() as usize).take(lines).for_each(Line::clear);
        let vips = singles.vips.iter().all(|(address, vip)| {
            let (number, bit) = at.filter(address);
            if let Some(line) = self.lines.get(number as usize) {
                line.set_bit(bit);
            }
            self.put(at, Held::new(&ServiceKey::of_address(*address), *vip))
        });
        vips && singles.exact.iter().all(|(key, service)| {
            let key: ServiceKey = transmute!(*key);
            self.put(at, Held::new(&key, u32::from(*service)))
        })
    }

    /// Puts a key where it is found. Where both of its lines are full, another key makes room and moves to the other of
    /// its own two lines (Pagh and Rodler 2001).
    fn put(&self, at: At, held: Held) -> bool {
        let mut held = held;
        let mut came_from = None;
        for turn in 0..MOST_MOVES {
            let lines = at.lines(&held.key());
            for number in lines {
                let Some(line) = self.lines.get(number as usize) else { return false };
                if let Some(free) = (0..PLACES).find(|place| line.place(*place).is_none()) {
                    line.set_place(free, held);
                    return true;
                }
            }
            // Not back to where it was put out of.
            let [first, second] = lines;
            let number = if came_from == Some(first) { second } else { first };
            let place = turn % PLACES;
            let Some((line, out)) =
                self.lines.get(number as usize).and_then(|line| Some((line, line.place(place)?)))
            else {
                return false;
            };
            line.set_place(place, held);
            (held, came_from) = (out, Some(number));
        }
        false
    }
}

/// Moves after which a table counts as full. In one that is half full, a handful is rare.
const MOST_MOVES: usize = 500;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn memory(keys: u32) -> (Vec<Line>, Settings) {
        ((0..lines(keys)).map(|_| Line::default()).collect(), Settings::new([1, 2]))
    }

    fn address(number: u32) -> [u8; 16] {
        let [a, b, c, d] = number.to_be_bytes();
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
    }

    fn singles(keys: impl IntoIterator<Item = (u32, u16, u16)>) -> Singles {
        let mut singles = Singles::default();
        for (number, port, service) in keys {
            singles.exact.insert(transmute!(ServiceKey::new(address(number), port, 6)), service);
            singles.vips.insert(address(number), number ^ u32::from(service));
        }
        singles
    }

    fn check(halves: Halves<'_>, singles: &Singles) {
        let at = halves.settings.directory();
        let line = |number: u32| halves.lines.get(number as usize);
        for (key, service) in &singles.exact {
            assert_eq!(find(at, &transmute!(*key), line), Some(u32::from(*service)));
        }
        for (address, vip) in &singles.vips {
            assert!(may_know(at, address, line));
            assert_eq!(find(at, &ServiceKey::of_address(*address), line), Some(*vip));
        }
        assert_eq!(&halves.read(), singles);
    }

    proptest! {
        #[test]
        fn each_change_is_found_and_what_was_before_stays_until_it_is_in_use(
            changes in prop::collection::vec(
                prop::collection::vec((0u32..400, 0u16..4, any::<u16>()), 0..200), 1..6),
        ) {
            let (lines, settings) = memory(512);
            let halves = Halves { lines: &lines, settings: &settings };
            let mut before = Singles::default();
            for change in changes {
                let after = singles(change);
                let at = halves.fill_other(&after).unwrap();
                check(halves, &before);
                settings.set_directory(at);
                check(halves, &after);
                before = after;
            }
        }
    }

    #[test]
    fn a_map_takes_as_many_keys_as_it_was_made_for() {
        for keys in [1u32, 31, 64, 1_000, 16_384] {
            let (lines, settings) = memory(keys);
            let halves = Halves { lines: &lines, settings: &settings };
            // Each listen is two keys here, so half as many.
            let full = singles((0..keys / 2).map(|number| (number * 7, 80, 1)));
            settings.set_directory(halves.fill_other(&full).unwrap());
            check(halves, &full);
            let too_many = singles((0..2 * keys + 64).map(|number| (number * 7, 80, 1)));
            assert_eq!(halves.fill_other(&too_many), None);
            check(halves, &full);
        }
    }

    #[test]
    fn what_somebody_else_changes_is_seen() {
        let (lines, settings) = memory(64);
        let halves = Halves { lines: &lines, settings: &settings };
        let wanted = singles((0..10).map(|number| (number, 80, 3)));
        let at = halves.fill_other(&wanted).unwrap();
        settings.set_directory(at);
        assert_eq!(halves.differences(&wanted), 0);
        // Another directory is in use.
        settings.set_directory(At(0));
        assert_eq!(halves.differences(&wanted), 20);
        settings.set_directory(at);
        // A foreign key.
        let key = ServiceKey::new(address(99), 80, 6);
        assert!(halves.put(at, Held::new(&key, 3)));
        assert_eq!(halves.differences(&wanted), 1);
        // The filter is empty.
        lines.iter().skip((at.first() + at.mask() + 1) as usize).for_each(Line::clear);
        assert_eq!(halves.differences(&wanted), 11);
        settings.set_directory(halves.fill_other(&wanted).unwrap());
        assert_eq!(halves.differences(&wanted), 0);
    }

    #[test]
    fn few_strangers_pass_the_filter() {
        let (lines, settings) = memory(4_096);
        let halves = Halves { lines: &lines, settings: &settings };
        for number in [1, 16, 100, 2_000] {
            let known = singles((0..number).map(|number| (0xc612_0000 + number, 80, 1)));
            settings.set_directory(halves.fill_other(&known).unwrap());
            let line = |number: u32| lines.get(number as usize);
            let strangers = (0..100_000).map(|number| address(0x0a00_0000 + number));
            let passed = strangers.filter(|address| may_know(settings.directory(), address, line)).count();
            assert!(passed < 5_000, "{passed} of 100,000 with {number} known");
        }
    }
}
