//! Standard output and standard error: colour only for people, and only if they want it.

use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) use guideway_control::printable::{printable, printable_lines};

/// Standard output. A reader that goes away is noticed as [`io::ErrorKind::BrokenPipe`].
pub(crate) struct Screen {
    out: BufWriter<io::StdoutLock<'static>>,
    terminal: bool,
    colour: bool,
    headings: bool,
}

/// What a text is, for the eye. Colours never carry meaning that the text lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Heading,
    Faint,
    Good,
    Bad,
}

impl Screen {
    pub(crate) fn stdout(no_headings: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        Self { out, terminal, colour: wants_colour(terminal), headings: !no_headings }
    }

    /// Whether a person looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether tables of rows have headings.
    pub(crate) fn has_headings(&self) -> bool {
        self.headings
    }

    /// `text` in `style`, or plain where colour is not wanted.
    pub(crate) fn paint<T: Display>(&self, style: Style, text: T) -> Painted<T> {
        Painted { text, style: self.colour.then_some(style) }
    }

    /// A value as JSON, indented.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value).map_err(io::Error::from)?;
        writeln!(self)
    }

    /// Hands the rest to the operating system.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A text with its colour.
pub(crate) struct Painted<T> {
    text: T,
    style: Option<Style>,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = match self.style {
            None => return self.text.fmt(f),
            Some(Style::Heading) => "1",
            Some(Style::Faint) => "2",
            Some(Style::Good) => "32",
            Some(Style::Bad) => "1;31",
        };
        write!(f, "\x1b[{code}m")?;
        self.text.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}

/// Says something on standard error: `error: …` or `warning: …`.
pub(crate) fn report(kind: &str, message: impl Display) {
    let colour = wants_colour(io::stderr().is_terminal());
    let message = message.to_string();
    let message = printable_lines(&message);
    let style = if kind == "error" { "1;31" } else { "1;33" };
    let line = if colour {
        format!("\x1b[{style}m{kind}:\x1b[0m {message}\n")
    } else {
        format!("{kind}: {message}\n")
    };
    to_stderr(&line);
}

/// Writes to standard error, unless whoever reads it stands still: a command that ends does not wait for them for ever.
pub(crate) fn to_stderr(text: &str) {
    let stderr = io::stderr();
    for piece in text.as_bytes().chunks(PIECE) {
        let mut awaited = [PollFd::new(&stderr, PollFlags::OUT)];
        let stands_still = poll(&mut awaited, Some(&STILL_AT_MOST)) == Ok(0);
        // There is nowhere left to say that standard error is gone.
        if stands_still || stderr.lock().write_all(piece).is_err() {
            return;
        }
    }
}

/// How long whoever reads standard error may stand still.
const STILL_AT_MOST: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// What a pipe takes that can be written to (pipe(7)), bytes.
const PIECE: usize = 4_096;

/// Colour for terminals, unless `NO_COLOR` is set (no-color.org) or the terminal is a dumb one.
pub(crate) fn wants_colour(terminal: bool) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    terminal && !refused && !dumb
}
