//! Showing something again and again.

use std::io::Write;
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::screen::Screen;

/// Moves to the corner of the terminal and clears it from there: what stands above, in the history, stays.
const REDRAW: &str = "\x1b[H\x1b[J";

/// How often something is shown again.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Again {
    /// Show it again and again, every so often: 2s unless it is said; Ctrl-C ends it
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
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
            write!(screen, "{REDRAW}")?;
        }
        show(screen)?;
        screen.finish()?;
        std::thread::sleep(every.max(Duration::from_millis(100)));
    }
}
