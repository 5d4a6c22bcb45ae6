//! The unsettled slots of a table, and when each changed its owner last.
//!
//! After a change of ten thousand services there are millions of them, and all for an idle time. So they take two bytes
//! a slot of the table, none while all are settled, and what time brings is looked for only when it can be due.

/// Those slots.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unsettled {
    /// One more than the place of the change's second among `seconds`, by slot; 0 for the settled. Empty while all are.
    changed: Vec<u16>,
    /// The seconds of changes, each once, in the order in which they came.
    seconds: Vec<u32>,
    many: u32,
    /// No change is older than this.
    oldest: u32,
    /// No change is newer than this.
    newest: u32,
    /// The seconds of changes whose grace has not been ended, oldest first.
    in_grace: Vec<u32>,
}

impl Unsettled {
    /// A slot of a table of so many changed its owner.
    pub(crate) fn insert(&mut self, slot: u32, of: u32, now: u32) {
        if self.many == 0 {
            self.changed = vec![0; of as usize];
            self.oldest = now;
            self.newest = now;
        }
        let second = self.second(now);
        let Some(changed) = self.changed.get_mut(slot as usize) else { return };
        self.many += u32::from(*changed == 0);
        *changed = second;
        // Of a clock that goes back the older second counts.
        self.oldest = self.oldest.min(now);
        self.newest = self.newest.max(now);
        if self.in_grace.last() != Some(&now) {
            self.in_grace.push(now);
        }
    }

    /// One more than the place of this second.
    fn second(&mut self, now: u32) -> u16 {
        if self.seconds.last() != Some(&now) {
            if self.seconds.len() == usize::from(u16::MAX) {
                self.forget_seconds();
            }
            let is_full = self.seconds.len() == usize::from(u16::MAX);
            match self.seconds.last_mut() {
                // As late as it can be told: those slots settle later than they might.
                Some(last) if is_full => *last = now.max(*last),
                _ => self.seconds.push(now),
            }
        }
        self.seconds.len() as u16
    }

    /// Keeps the seconds alone that a slot still has.
    fn forget_seconds(&mut self) {
        let seconds = std::mem::take(&mut self.seconds);
        let mut places = vec![0; seconds.len() + 1];
        for changed in self.changed.iter().filter(|changed| **changed != 0) {
            places[usize::from(*changed)] = 1;
        }
        for (second, place) in seconds.into_iter().zip(&mut places[1..]).filter(|(_, place)| **place != 0) {
            self.seconds.push(second);
            *place = self.seconds.len() as u16;
        }
        for changed in &mut self.changed {
            *changed = places[usize::from(*changed)];
        }
    }

    /// A slot has settled.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(changed) = self.changed.get_mut(slot as usize).filter(|changed| **changed != 0) else {
            return;
        };
        *changed = 0;
        self.many -= 1;
        if self.many == 0 {
            self.clear();
        }
    }

    /// All have settled, or their table is another's business now.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn len(&self) -> u32 {
        self.many
    }

    /// Each with the second of its last change.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let changed = self.changed.iter().enumerate().filter(|(_, changed)| **changed != 0);
        changed.map(|(slot, changed)| (slot as u32, self.seconds[usize::from(*changed) - 1]))
    }

    /// The second from which on [`may_be_older`](Self::may_be_older); `None` where all have settled.
    pub(crate) fn may_be_older_at(&self, than: u32) -> Option<u32> {
        (self.many > 0).then(|| older_at(self.oldest, than))
    }

    /// The second in which [`end_grace`](Self::end_grace) has something to tell, if it ever has.
    pub(crate) fn grace_ends_at(&self, longer_than: u32) -> Option<u32> {
        self.in_grace.iter().min().map(|oldest| older_at(*oldest, longer_than))
    }

    /// Whether any change can have been longer ago than so many seconds.
    pub(crate) fn may_be_older(&self, than: u32, now: u32) -> bool {
        self.many > 0 && now.saturating_sub(self.oldest) > than
    }

    /// Seconds until the last change is longer ago than so many; `None` where all have settled.
    pub(crate) fn all_older_in(&self, than: u32, now: u32) -> Option<u32> {
        (self.many > 0).then(|| older_at(self.newest, than).saturating_sub(now))
    }

    /// Finds anew which change is the oldest.
    pub(crate) fn note_oldest(&mut self) {
        self.oldest = self.iter().map(|(_, changed)| changed).min().unwrap_or(0);
    }

    /// The slots whose last change is longer ago than so many seconds, if there are any that were not told before.
    pub(crate) fn end_grace(&mut self, longer_than: u32, now: u32) -> Vec<u32> {
        let is_over = |changed: u32| now.saturating_sub(changed) > longer_than;
        let before = self.in_grace.len();
        self.in_grace.retain(|&changed| !is_over(changed));
        if self.in_grace.len() == before {
            return Vec::new();
        }
        self.iter().filter(|&(_, changed)| is_over(changed)).map(|(slot, _)| slot).collect()
    }
}

/// The second from which on a change is longer ago than so many seconds. Both may be whatever a forwarder that was taken
/// over says.
pub(super) fn older_at(changed: u32, than: u32) -> u32 {
    changed.saturating_add(than).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_there_with_its_last_change_until_it_settles() {
        let mut unsettled = Unsettled::default();
        for (slot, now) in [(3, 0), (5, 7), (3, 9)] {
            unsettled.insert(slot, 11, now);
        }
        assert_eq!(unsettled.iter().collect::<Vec<_>>(), [(3, 9), (5, 7)]);
        assert_eq!(unsettled.len(), 2);
        unsettled.remove(5);
        unsettled.remove(5);
        assert_eq!(unsettled.len(), 1);
        unsettled.remove(3);
        assert!(unsettled.len() == 0 && unsettled.changed.is_empty(), "no memory is left");
    }

    #[test]
    fn however_many_seconds_there_are_each_slot_has_its_last_or_a_later_one() {
        let mut unsettled = Unsettled::default();
        unsettled.insert(0, 11, 5);
        for now in 10..200_000 {
            unsettled.insert(1 + now % 7, 11, now);
        }
        let changed: Vec<_> = unsettled.iter().collect();
        assert_eq!(changed[0], (0, 5));
        assert!(changed[1..].iter().all(|&(slot, second)| second >= 199_993 && 1 + second % 7 == slot));
        assert!(unsettled.seconds.len() <= usize::from(u16::MAX));
    }

    #[test]
    fn nothing_is_looked_for_before_it_can_be_due() {
        let mut unsettled = Unsettled::default();
        unsettled.insert(1, 11, 100);
        unsettled.insert(2, 11, 105);
        assert!(!unsettled.may_be_older(10, 110) && unsettled.may_be_older(10, 111));
        let all = [105, 115, 116, 200].map(|now| unsettled.all_older_in(10, now));
        assert_eq!(all, [Some(11), Some(1), Some(0), Some(0)]);
        unsettled.remove(1);
        unsettled.note_oldest();
        assert!(!unsettled.may_be_older(10, 115) && unsettled.may_be_older(10, 116));
    }

    #[test]
    fn no_second_is_too_late_to_be_told() {
        let mut unsettled = Unsettled::default();
        unsettled.insert(1, 11, u32::MAX);
        assert_eq!(unsettled.all_older_in(902, 5), Some(u32::MAX - 5));
        assert_eq!(unsettled.may_be_older_at(u32::MAX), Some(u32::MAX));
        assert_eq!(unsettled.grace_ends_at(30), Some(u32::MAX));
    }

    #[test]
    fn a_grace_ends_once() {
        let mut unsettled = Unsettled::default();
        unsettled.insert(1, 11, 100);
        unsettled.insert(2, 11, 105);
        assert_eq!(unsettled.end_grace(30, 130).len(), 0);
        assert_eq!(unsettled.end_grace(30, 131), [1]);
        assert_eq!(unsettled.end_grace(30, 132).len(), 0);
        assert_eq!(unsettled.end_grace(30, 140), [1, 2]);
        assert_eq!(unsettled.end_grace(30, 999).len(), 0);
    }
}
