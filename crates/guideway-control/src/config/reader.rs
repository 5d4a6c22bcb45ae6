//! From a parsed TOML tree to typed fields, gathering every problem on the way.
//!
//! serde stops at the first error and forgets where values came from. A configuration is read by people who would
//! rather fix ten slips at once, so its tables are read here field by field: each field keeps its place in the text, and
//! a bad one is reported and left out while the rest is read on. Keys that nobody asked for are problems too.

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
    problems: &'a mut Vec<Problem>,
}

/// Reads a whole document as `T`.
pub(crate) fn read_document<T: FromSection>(
    document: &Spanned<DeTable<'_>>,
    problems: &mut Vec<Problem>,
) -> T {
    let mut section = Section {
        table: document.get_ref(),
        title: "the file".to_owned(),
        head: 0..0,
        asked: Vec::new(),
        problems,
    };
    let read = T::from_section(&mut section);
    section.finish();
    read
}

impl Section<'_, '_> {
    /// The place that stands for the table as a whole.
    pub(crate) fn head(&self) -> Span {
        self.head.clone()
    }

    /// A field that may be absent.
    pub(crate) fn field<T: FromValue>(&mut self, key: &'static str) -> Option<At<T>> {
        self.asked.push(key);
        let value = self.table.get(key)?;
        let read = T::from_value(value, self.problems)?;
        Some(At::new(read, value.span()))
    }

    /// A field that must be there; `None` has been reported already.
    pub(crate) fn required<T: FromValue>(&mut self, key: &'static str, example: &str) -> Option<At<T>> {
        if !self.table.contains_key(key) {
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
        let (name, value) = self.table.get_key_value(key)?;
        let title = format!("[{key}]");
        match value.get_ref() {
            DeValue::Table(table) => Some(read_table(table, title, place(name, value), self.problems)),
            other => {
                self.problems.push(
                    Problem::new(value.span(), format!("`{key}` must be a table, not {}", kind(other)))
                        .label("expected a table")
                        .help(format!("write `[{key}]` on a line of its own and its keys below")),
                );
                None
            }
        }
    }

    /// An array of tables below this one; absent is empty.
    pub(crate) fn tables<T: FromSection>(&mut self, key: &'static str) -> Vec<At<T>> {
        self.asked.push(key);
        let Some((name, value)) = self.table.get_key_value(key) else {
            return Vec::new();
        };
        let title = format!("[[{key}]]");
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
                        .help(format!("write `[[{key}]]`, with two brackets")),
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
                    .help(format!("write `[[{key}]]` on a line of its own and its keys below")),
                );
                Vec::new()
            }
        }
    }

    /// Reports the keys that were not asked for.
    fn finish(self) {
        for (key, _) in self.table {
            let word = key.get_ref().as_ref();
            if self.asked.contains(&word) {
                continue;
            }
            let mut problem = Problem::new(key.span(), format!("unknown key `{word}` in {}", self.title));
            problem = match nearest(word, self.asked.iter().copied()) {
                Some(near) => problem.label("not known").help(format!("did you mean `{near}`?")),
                None => problem.label("not known").help(format!(
                    "{} takes {}",
                    self.title,
                    one_of(self.asked.iter().copied())
                )),
            };
            self.problems.push(problem);
        }
    }
}

fn read_table<T: FromSection>(
    table: &DeTable<'_>,
    title: String,
    head: Span,
    problems: &mut Vec<Problem>,
) -> At<T> {
    let mut section = Section { table, title, head: head.clone(), asked: Vec::new(), problems };
    let read = T::from_section(&mut section);
    section.finish();
    At::new(read, head)
}

/// The header of a table where it has one of its own, else the key that names it.
fn place(name: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Span {
    if value.span().is_empty() { name.span() } else { value.span() }
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
