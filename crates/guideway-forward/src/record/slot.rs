//! One slot of a service's table: who takes new flows, and to whom older flows belong.

/// The backend index that means "nobody": the service has no backend for this slot.
pub const NO_BACKEND: u16 = 0x7fff;

const INDEX: u32 = 0x7fff;
const SETTLED_SHIFT: u32 = 15;
const GRACE: u32 = 1 << 30;
const UNSETTLED: u32 = 1 << 31;

/// A slot word: bits 0–14 [`current`](Slot::current), bits 15–29 [`settled`](Slot::settled), bit 30 grace, bit 31
/// unsettled.
///
/// Both indices are local to the service ([`super::Service::backends`] gives the base) and below [`NO_BACKEND`], or
/// that value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Slot(pub u32);

impl Slot {
    /// A slot that nobody owns: the state of a new table before its first fill.
    pub const EMPTY: Slot = Slot::settled_on(NO_BACKEND);

    /// A settled slot of `owner`: both indices equal, both flags off.
    #[inline(always)]
    pub const fn settled_on(owner: u16) -> Slot {
        let owner = owner as u32 & INDEX;
        Slot(owner | (owner << SETTLED_SHIFT))
    }

    /// The backend that takes new flows.
    #[inline(always)]
    pub const fn current(self) -> u16 {
        (self.0 & INDEX) as u16
    }

    /// The backend to which flows older than the last change belong.
    #[inline(always)]
    pub const fn settled(self) -> u16 {
        ((self.0 >> SETTLED_SHIFT) & INDEX) as u16
    }

    /// Whether no flow can be on any backend but the owner.
    #[inline(always)]
    pub const fn is_settled(self) -> bool {
        self.0 & UNSETTLED == 0
    }

    /// Whether an unknown flow of a protocol without an opening packet (UDP) still counts as older than the change.
    #[inline(always)]
    pub const fn in_grace(self) -> bool {
        self.0 & GRACE != 0
    }

    /// Where a flow goes that the flow table does not know, were it opened before the last change (`true`) or after.
    #[inline(always)]
    pub const fn owner(self, older: bool) -> u16 {
        if older && !self.is_settled() { self.settled() } else { self.current() }
    }

    /// Hands new flows to `owner`; older flows stay where they belong, and the slot is unsettled and in grace.
    ///
    /// Naming the owner that takes new flows already changes nothing. The flag is explicit, because a slot that
    /// returns to its first owner still has live flows of the owner between.
    #[must_use]
    pub const fn change_owner(self, owner: u16) -> Slot {
        let owner = owner as u32 & INDEX;
        if self.0 & INDEX == owner {
            return self;
        }
        Slot((self.0 & (INDEX << SETTLED_SHIFT)) | owner | GRACE | UNSETTLED)
    }

    /// Ends the transition: `settled := current`, both flags off.
    #[must_use]
    pub const fn settle(self) -> Slot {
        Slot::settled_on(self.current())
    }

    /// Ends the grace of UDP flows: from now on an unknown one is a new flow.
    #[must_use]
    pub const fn end_grace(self) -> Slot {
        Slot(self.0 & !GRACE)
    }
}

impl core::fmt::Debug for Slot {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Slot")
            .field("current", &self.current())
            .field("settled", &self.settled())
            .field("unsettled", &!self.is_settled())
            .field("grace", &self.in_grace())
            .finish()
    }
}

const _: () = assert!(size_of::<Slot>() == 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_owner_keeps_the_settled_owner() {
        let slot = Slot::settled_on(3).change_owner(5);
        assert_eq!((slot.current(), slot.settled()), (5, 3));
        assert!(!slot.is_settled() && slot.in_grace());
        let again = slot.end_grace().change_owner(9);
        assert_eq!((again.current(), again.settled()), (9, 3));
        assert!(again.in_grace());
    }

    #[test]
    fn returning_to_the_first_owner_leaves_the_slot_unsettled() {
        let slot = Slot::settled_on(3).change_owner(5).change_owner(3);
        assert_eq!((slot.current(), slot.settled()), (3, 3));
        assert!(!slot.is_settled());
        assert!(slot.settle().is_settled());
    }

    #[test]
    fn naming_the_present_owner_changes_nothing() {
        for slot in [Slot::settled_on(3), Slot::settled_on(1).change_owner(3), Slot::EMPTY] {
            assert_eq!(slot.change_owner(slot.current()), slot);
        }
    }

    #[test]
    fn an_empty_slot_has_no_backend() {
        assert_eq!(Slot::EMPTY.current(), NO_BACKEND);
        assert_eq!(Slot::EMPTY.settled(), NO_BACKEND);
        assert!(Slot::EMPTY.is_settled());
    }
}
