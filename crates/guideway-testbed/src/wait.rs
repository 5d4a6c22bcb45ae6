//! Waiting for something to become true, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Tries `attempt` again and again until it succeeds, and returns what it found.
///
/// # Errors
/// [`Error::Deadline`] after `at_most`, with `what` was waited for and what the last try said.
pub fn until<T, E: std::fmt::Display>(
    at_most: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Ok(found) => return Ok(found),
            Err(error) if begin.elapsed() >= at_most => {
                return Err(Error::Deadline {
                    what: what.to_owned(),
                    waited: at_most,
                    last: Some(error.to_string()),
                });
            }
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Looks again and again until `holds`.
///
/// # Errors
/// [`Error::Deadline`] after `at_most`.
pub fn until_true(at_most: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    until(at_most, what, || if holds() { Ok(()) } else { Err("it does not hold") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_is_told() {
        let mut tries = 0;
        let error = until(Duration::from_millis(20), "the third try", || -> Result<(), _> {
            tries += 1;
            Err(format!("try {tries}"))
        });
        assert!(tries > 1);
        let told = error.unwrap_err().to_string();
        assert_eq!(told, format!("the third try did not happen within 20ms; last: try {tries}"));
    }

    #[test]
    fn what_is_found_comes_back() {
        let mut left = 3;
        let found = until(Duration::from_secs(60), "zero", || {
            left -= 1;
            if left == 0 { Ok("found") } else { Err(left) }
        });
        assert_eq!(found.unwrap(), "found");
    }
}
