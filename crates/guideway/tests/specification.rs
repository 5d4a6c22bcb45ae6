//! Every test and every packet case that `docs/SPECIFICATION.md` names exists.

mod binary;

use std::collections::BTreeSet;

use binary::in_repository;

fn specification() -> String {
    std::fs::read_to_string(in_repository("docs/SPECIFICATION.md")).unwrap()
}

/// What stands between `open` and `close`, each time.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(open).skip(1).filter_map(move |rest| Some(rest.split_once(close)?.0))
}

#[test]
fn every_test_that_a_promise_names_exists() {
    let text = specification();
    let mut named = 0;
    // Every second piece is inside backquotes.
    for (file, test) in text.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")) {
        let source =
            std::fs::read_to_string(in_repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        // A scenario is generic over the packet path.
        let is_there = ["(", "<"].iter().any(|open| source.contains(&format!("fn {test}{open}")));
        assert!(is_there, "{file} has no test {test}");
        named += 1;
    }
    assert!(named > 30, "only {named} tests were found in the document");
    let cases = guideway_forward::cases::all().into_iter().map(|case| case.name).collect::<BTreeSet<_>>();
    for case in between(&text, "case: \"", "\"") {
        assert!(cases.contains(case), "there is no case {case:?}");
    }
    for target in between(&text, "fuzz target `", "`") {
        let source = in_repository(&format!("fuzz/fuzz_targets/{target}.rs"));
        assert!(std::path::Path::new(&source).exists(), "there is no fuzz target {target}");
    }
}

#[test]
fn numbers_of_promises_are_not_used_twice() {
    let text = specification();
    let numbers: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .filter(|number| number.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .collect();
    assert_eq!(numbers.len(), numbers.iter().collect::<BTreeSet<_>>().len(), "{numbers:?}");
}
