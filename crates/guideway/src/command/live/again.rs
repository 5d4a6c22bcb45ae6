//! Showing something again and again.

use std::io::Write;
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;
use crate::times;

/// Moves to the corner of the terminal and clears it from there: what stands above, in the history, stays.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Whether lines that are longer than the terminal is wide go on in the next one; where not, they are cut.
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// The least and the most from one look to the next.
pub(crate) const SHORTEST: Duration = Duration::from_millis(100);
pub(crate) const LONGEST: Duration = Duration::from_secs(3_600);

/// How often something is shown again.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Again {
    /// Show it again and again, every so often: 2s unless it is said, 100ms to an hour; Ctrl-C ends it
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = times::between(SHORTEST, LONGEST)
    )]
    pub(crate) watch: Option<humantime::Duration>,
}

impl Again {
    /// Shows it once, or again and again: on a terminal in place of what was shown before.
    pub(crate) fn show(
        self,
        screen: &mut Screen,
        mut show: impl FnMut(&mut Screen) -> Result<Outcome, Failure>,
    ) -> Result<Outcome, Failure> {
        match self.watch {
            None => show(screen),
            Some(every) => forever(*every, screen, show),
        }
    }
}

/// Shows it until nobody reads or it fails.
pub(crate) fn forever(
    every: Duration,
    screen: &mut Screen,
    mut show: impl FnMut(&mut Screen) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    if screen.is_terminal() {
        // What stands there scrolls away instead of being wiped.
        write!(screen, "\x1b[2J")?;
    }
    loop {
        if screen.is_terminal() {
            write!(screen, "{REDRAW}{CUT}")?;
        }
        let shown = show(screen);
        if screen.is_terminal() {
            write!(screen, "{WRAP}")?;
        }
        shown?;
        screen.finish()?;
        std::thread::sleep(every);
    }
}
