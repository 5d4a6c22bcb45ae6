//! What a commit did, in words.

use guideway_control::controller::ServiceChange;
use guideway_control::counted;

use crate::journal::Grade;

/// A change in words, and how grave it is.
pub(super) fn of(change: &ServiceChange) -> (Grade, String) {
    let eligible = change.eligible;
    let takers = counted(eligible, "backend takes new flows", "backends take new flows");
    let mut text = format!("generation {}: {takers}", change.generation);
    if change.last_resort {
        text += " although their checks fail (last resort)";
    }
    text += &format!("; {} of {} slots moved", change.moved, change.slots);
    if change.needless > 0 {
        text += &format!(", {} needlessly", change.needless);
    }
    if change.last_resort_over {
        text += "; the last resort is over";
    }
    if change.cut_backends > 0 {
        let backends = counted(change.cut_backends, "backend", "backends");
        let which = if change.last_resort_over { " whose checks still fail" } else { "" };
        text += &format!("; flows on {backends}{which} end");
    }
    if change.voided_flows > 0 {
        text += &format!(" ({} remembered)", change.voided_flows);
    }
    if change.resize_waits {
        text += "; the new table size waits until the service has settled";
    }
    // Of other backends that end flows a verdict or an operator has told.
    let cuts_untold = change.last_resort_over && change.cut_backends > 0;
    let grade = if change.last_resort || eligible == 0 || cuts_untold { Grade::Warning } else { Grade::Info };
    (grade, text)
}

/// The removal of a service with so many remembered flows, and how grave it is.
pub(super) fn removed(flows_ended: u32) -> (Grade, String) {
    if flows_ended == 0 {
        return (Grade::Info, "removed".to_owned());
    }
    let flows = counted(flows_ended, "remembered flow ends", "remembered flows end");
    (Grade::Warning, format!("removed: {flows}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> ServiceChange {
        ServiceChange {
            service: "web".into(),
            generation: 7,
            slots: 1_009,
            moved: 500,
            needless: 0,
            voided_flows: 0,
            cut_backends: 0,
            eligible: 2,
            last_resort: false,
            last_resort_over: false,
            resize_waits: false,
        }
    }

    #[test]
    fn the_end_of_a_last_resort_tells_whose_flows_it_ends() {
        let quiet = change();
        assert_eq!(
            of(&quiet),
            (Grade::Info, "generation 7: 2 backends take new flows; 500 of 1009 slots moved".into())
        );
        let over = ServiceChange { last_resort_over: true, cut_backends: 3, voided_flows: 4, ..change() };
        let (grade, text) = of(&over);
        let end = "; the last resort is over; flows on 3 backends whose checks still fail end (4 remembered)";
        assert!(text.ends_with(end), "{text}");
        assert_eq!(grade, Grade::Warning);
    }

    #[test]
    fn a_removal_that_ends_flows_is_a_warning_that_counts_them() {
        assert_eq!(removed(0), (Grade::Info, "removed".into()));
        assert_eq!(removed(1), (Grade::Warning, "removed: 1 remembered flow ends".into()));
    }

    #[test]
    fn a_backend_that_goes_down_ends_its_flows_whether_or_not_they_are_remembered() {
        let (grade, text) = of(&ServiceChange { cut_backends: 1, ..change() });
        assert!(text.ends_with("slots moved; flows on 1 backend end"), "{text}");
        assert_eq!(grade, Grade::Info);
    }
}
