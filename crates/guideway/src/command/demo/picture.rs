//! The live picture: on a terminal some lines that are drawn anew, elsewhere a line a second.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use guideway_control::counted;

use crate::failure::Failure;
use crate::screen::{Screen, Style};

/// How often a terminal is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// How often a line is written elsewhere.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The longest bar, in characters.
const BAR: usize = 24;

/// Where it is shown.
pub(crate) struct Picture<'a> {
    screen: &'a mut Screen,
    /// Nothing but the report is wanted.
    quiet: bool,
    began: Instant,
    drawn_at: Option<Instant>,
    /// Lines that the next picture takes the place of.
    lines: usize,
}

/// What it shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scenery {
    pub(crate) backends: Vec<Row>,
    /// The daemon, where it does not answer.
    pub(crate) daemon: Option<&'static str>,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    /// Those that were on a backend that was killed.
    pub(crate) failed_on_killed: u64,
}

/// A backend.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) slots: Option<u32>,
    /// Requests a second.
    pub(crate) rate: f64,
    /// How many downloads run, and how much of them is done, in percent.
    pub(crate) downloads: Option<(usize, u64)>,
}

impl<'a> Picture<'a> {
    pub(crate) fn on(screen: &'a mut Screen, quiet: bool) -> Self {
        Self { screen, quiet, began: Instant::now(), drawn_at: None, lines: 0 }
    }

    /// Writes a line that stays.
    pub(crate) fn say(&mut self, style: Option<Style>, text: &str) -> Result<(), Failure> {
        if self.quiet {
            return Ok(());
        }
        self.clear()?;
        match style {
            Some(style) => writeln!(self.screen, "{}", self.screen.paint(style, text))?,
            None => writeln!(self.screen, "{text}")?,
        }
        Ok(self.screen.finish()?)
    }

    /// Whether a new picture is due.
    pub(crate) fn is_due(&self) -> bool {
        let every = if self.screen.is_terminal() { DRAW_EVERY } else { LINE_EVERY };
        !self.quiet && self.drawn_at.is_none_or(|at| at.elapsed() >= every)
    }

    /// Draws it.
    pub(crate) fn draw(&mut self, scenery: &Scenery) -> Result<(), Failure> {
        self.drawn_at = Some(Instant::now());
        if self.quiet {
            return Ok(());
        }
        if self.screen.is_terminal() {
            let lines = self.lines(scenery);
            self.clear()?;
            for line in &lines {
                writeln!(self.screen, "{line}")?;
            }
            self.lines = lines.len();
        } else {
            writeln!(self.screen, "{:5.1} s  {}", self.began.elapsed().as_secs_f64(), plain(scenery))?;
        }
        Ok(self.screen.finish()?)
    }

    /// Leaves the last picture where it is.
    pub(crate) fn keep(&mut self) {
        self.lines = 0;
    }

    /// What the report is written to.
    pub(crate) fn screen(&mut self) -> &mut Screen {
        self.screen
    }

    fn clear(&mut self) -> io::Result<()> {
        if self.lines > 0 {
            // Up to the first of them, and everything from there on away.
            write!(self.screen, "\x1b[{}A\x1b[J", self.lines)?;
            self.lines = 0;
        }
        Ok(())
    }

    fn lines(&self, scenery: &Scenery) -> Vec<String> {
        let most = scenery.backends.iter().map(|row| row.rate).fold(1.0, f64::max);
        let mut lines: Vec<_> = scenery
            .backends
            .iter()
            .map(|row| {
                let slots = row.slots.map_or_else(String::new, |slots| format!("{slots} slots"));
                let filled = (row.rate / most * BAR as f64).round() as usize;
                let bar = format!("{:<BAR$}", "█".repeat(filled.min(BAR)));
                let style = if row.state == "up" { Style::Good } else { Style::Bad };
                let state = self.screen.paint(style, format!("{:<9}", row.state));
                let downloads = row.downloads.map(|(number, done)| downloads(number, done));
                let downloads = downloads.unwrap_or_default();
                format!("  {:<4} {state} {slots:>9}  {bar} {:>5.0}/s  {downloads}", row.name, row.rate)
            })
            .collect();
        let daemon = scenery.daemon.map_or_else(String::new, |said| format!("   the daemon {said}"));
        lines.push(format!("  {}{daemon}", totals(scenery)));
        lines
    }
}

fn downloads(number: usize, done: u64) -> String {
    format!("{}, {done} % done", counted(number, "download", "downloads"))
}

fn totals(scenery: &Scenery) -> String {
    let requests = counted(scenery.requests, "request", "requests");
    let mut text = format!("{requests}, {} failed", scenery.failed);
    if scenery.failed_on_killed > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, ", {} on the backend that was killed", scenery.failed_on_killed);
    }
    text
}

fn plain(scenery: &Scenery) -> String {
    let mut text = String::new();
    for row in &scenery.backends {
        let state = if row.state == "up" { String::new() } else { format!(" {}", row.state) };
        let downloads = row.downloads.map(|(number, done)| format!(" ({})", downloads(number, done)));
        let _ = write!(text, "{}{state} {:.0}/s{}  ", row.name, row.rate, downloads.unwrap_or_default());
    }
    if let Some(said) = scenery.daemon {
        let _ = write!(text, "the daemon {said}  ");
    }
    text + &totals(scenery)
}
