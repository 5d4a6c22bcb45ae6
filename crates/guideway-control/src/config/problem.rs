//! What is wrong with a file, shown the way compilers show it.

use std::fmt;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde::Serialize;

use super::source::{Source, Span};
use crate::counted;
use crate::printable::printable_lines;

/// One thing that is wrong, where it is, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where.
    pub span: Span,
    /// A few words beside the place.
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Other places that matter, such as the first of two duplicates.
    pub related: Vec<(Span, String)>,
}

impl Problem {
    /// A problem at a place. What it quotes from the file is made fit for a terminal, here and in the rest of it.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self { message: shown(message), span, label: String::new(), help: None, related: Vec::new() }
    }

    /// Adds a few words beside the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = shown(label);
        self
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(shown(help));
        self
    }

    /// Adds a second place.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, shown(label)));
        self
    }
}

fn shown(text: impl Into<String>) -> String {
    printable_lines(&text.into()).into_owned()
}

/// Every problem of a file, in the order of the file. Never empty.
#[derive(Debug, Clone)]
pub struct Problems {
    source: Source,
    list: Vec<Problem>,
}

/// More than this many problems are not drawn one by one: nobody reads them, and each costs a walk of the file.
const DRAWN_AT_MOST: usize = 50;

impl Problems {
    /// Problems of a source, put in the order of the text.
    pub(crate) fn new(source: Source, mut list: Vec<Problem>) -> Self {
        debug_assert!(!list.is_empty(), "problems of a file without a problem");
        let end = source.text().len();
        let clamp = |span: &mut Span| {
            span.start = floor_char_boundary(source.text(), span.start.min(end));
            span.end = floor_char_boundary(source.text(), span.end.clamp(span.start, end));
        };
        for problem in &mut list {
            clamp(&mut problem.span);
            for (span, _) in &mut problem.related {
                clamp(span);
            }
        }
        list.sort_by_key(|problem| (problem.span.start, problem.span.end));
        list.dedup();
        Self { source, list }
    }

    /// The problems, in the order of the text.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// The text that has them.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// All problems as people read them, with or without terminal colours.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for problem in self.list.iter().take(DRAWN_AT_MOST) {
            out.push_str(&renderer.render(&self.report(problem)));
            out.push_str("\n\n");
        }
        if let Some(rest) = self.list.len().checked_sub(DRAWN_AT_MOST)
            && rest > 0
        {
            out.push_str(&format!("… and {rest} more like these\n\n"));
        }
        let problems = counted(self.list.len(), "problem", "problems");
        out.push_str(&format!("{}: {problems}", self.source.shown_name()));
        out
    }

    /// The problems as data: stable field names for programs.
    pub fn records(&self) -> Vec<ProblemRecord<'_>> {
        let positions = self.source.positions(self.list.iter().map(|problem| problem.span.start));
        let problems = self.list.iter().zip(positions);
        problems
            .map(|(problem, (line, column))| ProblemRecord {
                file: self.source.name(),
                line,
                column,
                message: &problem.message,
                value: &self.source.text()[problem.span.clone()],
                label: &problem.label,
                help: problem.help.as_deref(),
            })
            .collect()
    }

    fn report<'a>(&'a self, problem: &'a Problem) -> Vec<Group<'a>> {
        let mut snippet = Snippet::source(self.source.text())
            .path(self.source.shown_name())
            .annotation(AnnotationKind::Primary.span(problem.span.clone()).label(&problem.label));
        for (span, label) in &problem.related {
            snippet = snippet.annotation(AnnotationKind::Context.span(span.clone()).label(label));
        }
        let mut group = Level::ERROR.primary_title(&problem.message).element(snippet);
        if let Some(help) = &problem.help {
            group = group.element(Level::HELP.message(help));
        }
        vec![group]
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.render(false))
    }
}

impl std::error::Error for Problems {}

/// One problem as data.
#[derive(Debug, Clone, Serialize)]
pub struct ProblemRecord<'a> {
    /// The file, or `<stdin>`.
    pub file: &'a str,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: &'a str,
    /// The text that is wrong, as written.
    pub value: &'a str,
    /// The few words beside it.
    pub label: &'a str,
    /// What to do.
    pub help: Option<&'a str>,
}

fn floor_char_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The nearest of some known words, when one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = |text: &str| text.to_lowercase().replace('-', "_");
    let wanted = folded(word);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &folded(candidate)), candidate))
        .filter(|(distance, candidate)| {
            let longest = wanted.chars().count().max(candidate.chars().count());
            *distance <= longest.div_ceil(3)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "a, b or c", each in backquotes.
pub(crate) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_finds_its_word() {
        let known = ["weight", "name", "address", "all_down"];
        assert_eq!(nearest("wieght", known), Some("weight"));
        assert_eq!(nearest("all-down", known), Some("all_down"));
        assert_eq!(nearest("Adress", known), Some("address"));
        assert_eq!(nearest("zebra", known), None);
    }

    #[test]
    fn lists_read_as_english() {
        assert_eq!(one_of(["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(one_of(["a"]), "`a`");
        assert_eq!(one_of([]), "");
    }

    #[test]
    fn spans_outside_the_text_are_drawn_at_its_end() {
        let problems = Problems::new(Source::new("f", "ä = 1"), vec![Problem::new(1..900, "odd")]);
        assert!(problems.render(false).contains("f:1:1"));
    }
}
