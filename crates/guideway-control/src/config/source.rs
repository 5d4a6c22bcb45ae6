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

    /// Line and column of a byte offset, both counted from 1, columns in characters.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = 1 + before.bytes().filter(|&byte| byte == b'\n').count();
        (line, 1 + before[line_start..].chars().count())
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
        assert_eq!(source.position(0), (1, 1));
        assert_eq!(source.position(2), (2, 1));
        assert_eq!(source.position(6), (2, 3));
        assert_eq!(source.position(3), (2, 1), "inside a character: its start");
        assert_eq!(source.position(900), (3, 1));
    }

    #[test]
    fn bytes_that_are_not_text_name_their_line() {
        let error = Source::from_bytes("f", b"ok\n\xff".to_vec()).unwrap_err();
        assert_eq!((error.line, error.offset), (2, 3));
    }
}
