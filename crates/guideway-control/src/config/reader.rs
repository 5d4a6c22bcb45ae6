//! From a parsed TOML tree to typed fields, gathering every problem on the way.
//!
//! serde stops at the first error and forgets where values came from. A configuration is read by people who would
//! rather fix ten slips at once, so its tables are read here field by field: each field keeps its place in the text, and
//! a bad one is reported and left out while the rest is read on. Keys that nobody asked for are problems too. One that is
//! near to a key that is absent is read as that key, so that nobody is told the consequences of a slip beside the slip.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, nearest, one_of};
use super::source::Span;

/// A value and its place in the text.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

impl<T> At<T> {
    pub(crate) fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// A field that may be absent, where it matters whether it is.
#[derive(Debug, Clone, Default)]
pub(crate) enum Field<T> {
    /// It is not there.
    #[default]
    Absent,
    /// It is there, but what it says was reported as a mistake: nothing follows from it.
    Unreadable,
    /// It is there.
    Read(At<T>),
}

impl<T> Field<T> {
    pub(crate) fn as_ref(&self) -> Option<&At<T>> {
        if let Self::Read(at) = self { Some(at) } else { None }
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable)
    }
}

/// The schema of a field is that of its value: places are not part of the format.
impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A type that a TOML value can be read as.
pub(crate) trait FromValue: Sized {
    /// Reads the value, or reports what is wrong with it.
    fn from_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Self>;
}

/// A type that a TOML table can be read as.
pub(crate) trait FromSection: Sized {
    /// Reads all keys of the table that the type knows.
    fn from_section(section: &mut Section<'_, '_>) -> Self;
}

/// A table that is being read.
pub(crate) struct Section<'a, 'i> {
    table: &'a DeTable<'i>,
    /// What messages call it, such as `[[service]]`.
    title: String,
    /// Where messages about what it lacks point.
    head: Span,
    asked: Vec<&'static str>,
    slips: Vec<Slip<'a>>,
    /// Keys that belong below another table, and how they are written there.
    elsewhere: &'static [(&'static str, &'static str)],
    problems: &'a mut Vec<Problem>,
}

/// A key that nobody asks for, and the one that was meant.
struct Slip<'a> {
    written: &'a str,
    meant: &'static str,
}

/// A document as it was read.
pub(crate) struct Document<T> {
    pub(crate) value: T,
    /// Headings of its own that are written wrongly.
    pub(crate) wrong_headings: Vec<Problem>,
    /// One of those stands beside a right one. TOML has what follows it in the table before, so that nothing more can be
    /// said of the whole.
    pub(crate) is_muddled: bool,
}

/// Reads a whole document as `T`.
pub(crate) fn read_document<T: FromSection>(
    document: &Spanned<DeTable<'_>>,
    problems: &mut Vec<Problem>,
) -> Document<T> {
    Section::new(document.get_ref(), "the file".to_owned(), 0..0, problems).read()
}

impl<'a, 'i> Section<'a, 'i> {
    fn new(table: &'a DeTable<'i>, title: String, head: Span, problems: &'a mut Vec<Problem>) -> Self {
        Self { table, title, head, asked: Vec::new(), slips: Vec::new(), elsewhere: &[], problems }
    }

    fn read<T: FromSection>(mut self) -> Document<T> {
        let before = self.problems.len();
        let mut value = T::from_section(&mut self);
        self.slips = self.find_slips();
        if !self.slips.is_empty() {
            // Once more, now that it is known which keys there are and so which were meant.
            self.problems.truncate(before);
            self.asked.clear();
            value = T::from_section(&mut self);
        }
        let mut read = Document { value, wrong_headings: Vec::new(), is_muddled: false };
        for key in self.unknown().collect::<Vec<_>>() {
            let word: &str = key.get_ref();
            let near = nearest(word, self.asked.iter().copied());
            let elsewhere = self.elsewhere.iter().find(|(key, _)| *key == word);
            let help = match (elsewhere, near) {
                (Some((_, right)), _) => format!("write `{right}`"),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) => format!("{} takes {}", self.title, one_of(self.asked.iter().copied())),
            };
            let problem = Problem::new(key.span(), format!("unknown key `{word}` in {}", self.title))
                .label("not known")
                .help(help);
            if near.is_some() && is_table(&self.table[word]) {
                read.wrong_headings.push(problem.clone());
                read.is_muddled |= self.slips.iter().all(|slip| slip.written != word);
            }
            self.problems.push(problem);
        }
        read
    }

    /// Keys that nobody asked for and that are near to one that is absent.
    fn find_slips(&self) -> Vec<Slip<'a>> {
        let mut slips: Vec<Slip<'a>> = Vec::new();
        for written in self.unknown() {
            let word: &str = written.get_ref();
            let Some(meant) = nearest(word, self.asked.iter().copied()) else { continue };
            if self.written(meant).is_none() && slips.iter().all(|slip| slip.meant != meant) {
                slips.push(Slip { written: word, meant });
            }
        }
        slips
    }

    fn unknown(&self) -> impl Iterator<Item = &'a Spanned<Cow<'i, str>>> {
        self.table.keys().filter(|key| !self.asked.contains(&key.get_ref().as_ref()))
    }

    /// What stands under the key itself. A table that has no heading of its own is not written: `[[service.backend]]`
    /// below a wrong `[[servic]]` makes one.
    fn written(&self, key: &str) -> Option<(&'a Spanned<Cow<'i, str>>, &'a Spanned<DeValue<'i>>)> {
        self.table.get_key_value(key).filter(|(_, value)| !is_implied(value))
    }

    /// What stands under the key or under the word that was written for it.
    fn entry(&self, key: &str) -> Option<(&'a Spanned<Cow<'i, str>>, &'a Spanned<DeValue<'i>>)> {
        match self.slips.iter().find(|slip| slip.meant == key) {
            Some(slip) => self.table.get_key_value(slip.written),
            None => self.table.get_key_value(key),
        }
    }

    /// What messages call a table below this one.
    fn below(&self, key: &str) -> String {
        let path = self.title.trim_matches(['[', ']']);
        if self.title.starts_with('[') { format!("{path}.{key}") } else { key.to_owned() }
    }

    /// The place that stands for the table as a whole.
    pub(crate) fn head(&self) -> Span {
        self.head.clone()
    }

    /// Keys that people write here and that belong elsewhere, each with how it is written there.
    pub(crate) fn elsewhere(&mut self, keys: &'static [(&'static str, &'static str)]) {
        self.elsewhere = keys;
    }

    /// A field that may be absent.
    pub(crate) fn field<T: FromValue>(&mut self, key: &'static str) -> Option<At<T>> {
        match self.told(key) {
            Field::Read(at) => Some(at),
            Field::Absent | Field::Unreadable => None,
        }
    }

    /// A field that may be absent, which is told from one that cannot be read.
    pub(crate) fn told<T: FromValue>(&mut self, key: &'static str) -> Field<T> {
        self.asked.push(key);
        let Some((_, value)) = self.entry(key) else { return Field::Absent };
        match T::from_value(value, self.problems) {
            Some(read) => Field::Read(At::new(read, value.span())),
            None => Field::Unreadable,
        }
    }

    /// A field that must be there; `None` has been reported already.
    pub(crate) fn required<T: FromValue>(&mut self, key: &'static str, example: &str) -> Option<At<T>> {
        if self.entry(key).is_none() {
            self.problems.push(
                Problem::new(self.head(), format!("{} has no `{key}`", self.title))
                    .label("needed here")
                    .help(format!("add a line like `{key} = {example}`")),
            );
        }
        self.field(key)
    }

    /// A table below this one.
    pub(crate) fn table<T: FromSection>(&mut self, key: &'static str) -> Option<At<T>> {
        self.asked.push(key);
        let (name, value) = self.entry(key)?;
        let title = format!("[{}]", self.below(key));
        match value.get_ref() {
            DeValue::Table(table) => Some(read_table(table, title, place(name, value), self.problems)),
            DeValue::Array(array)
                if matches!(array.first().map(Spanned::get_ref), Some(DeValue::Table(_))) =>
            {
                let again = array.get(1).unwrap_or(&array[0]);
                self.problems.push(
                    Problem::new(again.span(), format!("`{key}` can occur only once"))
                        .label("written as if there could be many")
                        .help(format!("write one `{title}`, with one pair of brackets")),
                );
                let DeValue::Table(table) = array[0].get_ref() else { return None };
                Some(read_table(table, title, place(name, &array[0]), self.problems))
            }
            other => {
                self.problems.push(
                    Problem::new(value.span(), format!("`{key}` must be a table, not {}", kind(other)))
                        .label("expected a table")
                        .help(format!("write `{title}` on a line of its own and its keys below")),
                );
                None
            }
        }
    }

    /// An array of tables below this one; absent is empty.
    pub(crate) fn tables<T: FromSection>(&mut self, key: &'static str) -> Vec<At<T>> {
        self.asked.push(key);
        let Some((name, value)) = self.entry(key) else {
            return Vec::new();
        };
        let title = format!("[[{}]]", self.below(key));
        match value.get_ref() {
            DeValue::Array(array) => array
                .iter()
                .filter_map(|element| match element.get_ref() {
                    DeValue::Table(table) => {
                        Some(read_table(table, title.clone(), place(name, element), self.problems))
                    }
                    other => {
                        self.problems.push(
                            Problem::new(
                                element.span(),
                                format!("each `{key}` must be a table, not {}", kind(other)),
                            )
                            .label("expected a table"),
                        );
                        None
                    }
                })
                .collect(),
            DeValue::Table(table) => {
                self.problems.push(
                    Problem::new(place(name, value), format!("`{key}` may occur many times"))
                        .label("written as if there were only one")
                        .help(format!("write `{title}`, with two brackets")),
                );
                vec![read_table(table, title, place(name, value), self.problems)]
            }
            other => {
                self.problems.push(
                    Problem::new(
                        value.span(),
                        format!("`{key}` must be a list of tables, not {}", kind(other)),
                    )
                    .label("expected tables")
                    .help(format!("write `{title}` on a line of its own and its keys below")),
                );
                Vec::new()
            }
        }
    }
}

fn read_table<T: FromSection>(
    table: &DeTable<'_>,
    title: String,
    head: Span,
    problems: &mut Vec<Problem>,
) -> At<T> {
    At::new(Section::new(table, title, head.clone(), problems).read().value, head)
}

/// A table, or a list of those.
fn is_table(value: &Spanned<DeValue<'_>>) -> bool {
    match value.get_ref() {
        DeValue::Table(_) => true,
        DeValue::Array(array) => matches!(array.first().map(Spanned::get_ref), Some(DeValue::Table(_))),
        _ => false,
    }
}

/// Whether a table is there only because one below it has a heading.
fn is_implied(value: &Spanned<DeValue<'_>>) -> bool {
    matches!(value.get_ref(), DeValue::Table(_)) && value.span().is_empty()
}

/// The header of a table where it has one of its own, else the key that names it.
fn place(name: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Span {
    if is_implied(value) { name.span() } else { value.span() }
}

/// "a string", "an integer": the kind of a value, for messages.
pub(crate) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
