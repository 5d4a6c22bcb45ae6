//! The program in the kernel does with every frame what the core does in memory, byte for byte and count for count.
//!
//! Needs the privilege to load BPF programs; elsewhere each test prints that it is skipped, and fails if
//! `GUIDEWAY_REQUIRE_PRIVILEGES` is set.

mod twin;

use guideway_forward::cases::{Case, Output, Step, all};
use guideway_forward::record::{BackendState, Slot};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use twin::Twin;

/// What a test run takes: an Ethernet header at least, and what fits a page beside its head room.
const FRAMES: std::ops::Range<usize> = 14..3_400;

#[test]
fn every_case_comes_out_in_the_kernel_as_in_memory() {
    let Some(mut twin) = Twin::new() else { return };
    let (mut frames, mut skipped) = (0, 0);
    let mut failures = Vec::new();
    for case in all() {
        if let Err(what) = check(&mut twin, &case, &mut frames, &mut skipped) {
            failures.push(format!("{}: {what}", case.name));
        }
    }
    eprintln!("{frames} frames of {} cases equal, {skipped} that no interface delivers", all().len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(frames > 150 && skipped < 10);
}

fn check(twin: &mut Twin, case: &Case, frames: &mut usize, skipped: &mut usize) -> Result<(), String> {
    twin.install(&case.world);
    for (number, step) in case.steps.iter().enumerate() {
        match step {
            Step::Slots(slot) => twin.rewrite_slots(*slot),
            Step::State(index, state) => twin.set_state(*index, *state),
            Step::Pass(seconds) => twin.pass(*seconds),
            Step::Frame { input, .. } if !FRAMES.contains(&input.len()) => *skipped += 1,
            Step::Frame { input, expect } => {
                let seen = twin.run(input).map_err(|what| format!("step {number}: {what}"))?;
                *frames += 1;
                if seen.outcome != expect.outcome {
                    return Err(format!("step {number}: {:?}, not {:?}", seen.outcome, expect.outcome));
                }
                if let Some(event) = expect.event
                    && !seen.events.iter().any(|(seen, _)| *seen == event)
                {
                    return Err(format!("step {number}: {event:?} was not counted"));
                }
                if let Output::Frame(wanted, follows_hash) = &expect.output {
                    let mut output = seen.output;
                    for &at in follows_hash {
                        output[at] = if at == 15 { output[at] & 0xf0 } else { 0 };
                    }
                    if output != *wanted {
                        return Err(format!("step {number}:\n got {output:02x?}\nwant {wanted:02x?}"));
                    }
                }
            }
        }
    }
    twin.compare_memories()
}

/// One thing that happens to a world.
#[derive(Clone, Debug)]
enum Happening {
    /// A frame of the list comes in, with some bytes changed and perhaps cut.
    Frame {
        frame: usize,
        changes: Vec<(usize, u8)>,
        cut: Option<usize>,
    },
    Slots(u32),
    State(usize, u8),
    Pass(u32),
}

fn happening() -> impl Strategy<Value = Happening> {
    let changes = prop::collection::vec((0usize..120, any::<u8>()), 0..4);
    prop_oneof![
        12 => (any::<usize>(), changes, prop::option::weighted(0.1, 14usize..200))
            .prop_map(|(frame, changes, cut)| Happening::Frame { frame, changes, cut }),
        1 => any::<u32>().prop_map(Happening::Slots),
        1 => (0usize..4, 0u8..4).prop_map(|(backend, state)| Happening::State(backend, state)),
        1 => (0u32..70).prop_map(Happening::Pass),
    ]
}

#[test]
fn whatever_happens_happens_alike_in_the_kernel_and_in_memory() {
    let Some(twin) = Twin::new() else { return };
    let cases = all();
    let frames: Vec<Vec<u8>> = cases
        .iter()
        .flat_map(|case| &case.steps)
        .filter_map(|step| match step {
            Step::Frame { input, .. } if FRAMES.contains(&input.len()) => Some(input.clone()),
            _ => None,
        })
        .collect();
    let twin = std::cell::RefCell::new(twin);
    let scenario = (any::<usize>(), prop::collection::vec(happening(), 1..60));
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&scenario, |(world, happenings)| {
        let mut twin = twin.borrow_mut();
        twin.install(&cases[world % cases.len()].world);
        for happening in happenings {
            match happening {
                Happening::Slots(word) => twin.rewrite_slots(Slot(word & !0x7ff8_7ff8 | word & 0xc000_0000)),
                Happening::State(index, state) => twin.set_state(index, STATES[usize::from(state)]),
                Happening::Pass(seconds) => twin.pass(seconds),
                Happening::Frame { frame, changes, cut } => {
                    let mut input = frames[frame % frames.len()].clone();
                    for (at, byte) in changes {
                        let at = at % input.len();
                        input[at] = byte;
                    }
                    input.truncate(cut.unwrap_or(input.len()));
                    if let Err(what) = twin.run(&input) {
                        return Err(TestCaseError::fail(what));
                    }
                }
            }
        }
        twin.compare_memories().map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

const STATES: [BackendState; 4] =
    [BackendState::Active, BackendState::Draining, BackendState::Down, BackendState::Free];
