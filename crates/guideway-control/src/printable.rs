//! Text from outside, fit for a terminal.

use std::borrow::Cow;

/// `text` with control characters written as escapes: a name from a file or a command line must neither break a row nor
/// talk to the terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

/// The same for a text of several lines, whose ends stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| c.is_control() && c != '\n') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(printable).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(printable("web-1 \u{e4}\u{1f980}"), "web-1 \u{e4}\u{1f980}");
        assert_eq!(printable("a\nb\u{1b}[31m\u{9b}c"), "a\\nb\\u{1b}[31m\\u{9b}c");
        assert_eq!(printable_lines("a\nb\u{1b}[31m\r\n"), "a\nb\\u{1b}[31m\\r\n");
        assert_eq!(printable_lines("a\nb"), "a\nb");
    }
}
