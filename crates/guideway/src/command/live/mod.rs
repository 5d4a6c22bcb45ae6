//! Commands that ask the daemon.

pub(crate) mod again;
pub(crate) mod audit;
pub(crate) mod change;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod flows;
pub(crate) mod legend;
pub(crate) mod operate;
pub(crate) mod rates;
pub(crate) mod service;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod trace;

use std::time::Duration;

/// A time for people: `3s`, `2m 5s`, `4h 7m`.
pub(crate) fn age(seconds: f64) -> String {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let (hours, minutes, rest) = (time.as_secs() / 3600, time.as_secs() / 60 % 60, time.as_secs() % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m {rest}s"),
        (1..48, _) => format!("{hours}h {minutes}m"),
        _ => format!("{}d {}h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let ages = [0.4, 59.9, 61.0, 3_600.0, 200_000.0, f64::NAN].map(age);
        assert_eq!(ages, ["0s", "59s", "1m 1s", "1h 0m", "2d 7h", "0s"]);
    }
}
