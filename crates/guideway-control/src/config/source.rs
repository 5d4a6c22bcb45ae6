//! The text of a file and the places in it.

use std::ops::Range;

use crate::printable::printable;

/// A range of bytes in a source text.
pub type Span = Range<usize>;

/// A named text: what was read, and what to call it in messages.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    /// The name as a terminal may show it.
    shown: String,
    text: String,
}

impl Source {
    /// A text under the name that messages will give it: a path, or `<stdin>`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let name = name.into();
        Self { shown: printable(&name).into_owned(), name, text: text.into() }
    }

    /// A text from bytes that should be UTF-8.
    ///
    /// # Errors
    /// The line of the first byte that is not UTF-8, since no snippet of it can be shown.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, NotUtf8> {
        let name = name.into();
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(name, text)),
            Err(error) => {
                let offset = error.utf8_error().valid_up_to();
                let good = error.as_bytes().get(..offset).unwrap_or_default();
                let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
                Err(NotUtf8 { name, line, offset })
            }
        }
    }

    /// What messages call this text.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shown_name(&self) -> &str {
        &self.shown
    }

    /// The text itself.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, out of its source.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Line and column of byte offsets that ascend, both counted from 1, columns in characters: in one walk of the text,
    /// however many there are.
    pub fn positions(
        &self,
        offsets: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = (usize, usize)> {
        let (mut at, mut line, mut line_start) = (0, 1, 0);
        offsets.into_iter().map(move |offset| {
            let mut offset = offset.clamp(at, self.text.len());
            while !self.text.is_char_boundary(offset) {
                offset -= 1;
            }
            let between = &self.text[at..offset];
            line += between.bytes().filter(|&byte| byte == b'\n').count();
            line_start = between.rfind('\n').map_or(line_start, |newline| at + newline + 1);
            at = offset;
            (line, 1 + self.text[line_start..at].chars().count())
        })
    }
}

/// A file that should be text and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}:{line}: byte {offset} is not UTF-8; a configuration is a UTF-8 text file")]
pub struct NotUtf8 {
    /// The file.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// The offset of the first bad byte.
    pub offset: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let source = Source::new("f", "a\näöb\n");
        let positions: Vec<_> = source.positions([0, 2, 3, 6, 900]).collect();
        // The third is inside a character: its start.
        assert_eq!(positions, [(1, 1), (2, 1), (2, 1), (2, 3), (3, 1)]);
    }

    #[test]
    fn bytes_that_are_not_text_name_their_line() {
        let error = Source::from_bytes("f", b"ok\n\xff".to_vec()).unwrap_err();
        assert_eq!((error.line, error.offset), (2, 3));
    }
}
