//! Times on the command line, each within its range.

use std::time::Duration;

use humantime::{Duration as Time, format_duration};

/// Reads a time, as `90s` or `10m`, and refuses one that is out of range with the range.
pub(crate) fn between(
    least: Duration,
    most: Duration,
) -> impl Fn(&str) -> Result<Time, String> + Clone + Send + Sync + 'static {
    move |text| {
        let time: Time = text.parse().map_err(|error| format!("{error}; a time is written as 90s or 10m"))?;
        if (least..=most).contains(&time) {
            return Ok(time);
        }
        Err(format!("it can be {} to {}", format_duration(least), format_duration(most)))
    }
}

/// The time in whole seconds, of which a part counts as one.
pub(crate) fn seconds(time: Time) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_of_its_range_is_told_the_range() {
        let read = between(Duration::from_secs(1), Duration::from_secs(604_800));
        assert_eq!(read("90s").map(seconds), Ok(90));
        assert_eq!(read("1500ms").map(seconds), Ok(2));
        for text in ["0s", "999ms", "8days", "500years"] {
            assert_eq!(read(text), Err("it can be 1s to 7days".to_owned()), "{text}");
        }
        for text in ["", "5", "-1s", "soon", "99999999999999999999years"] {
            assert!(read(text).is_err_and(|error| error.contains("as 90s or 10m")), "{text}");
        }
    }
}
