//! How long each scene is shown.

use std::time::{Duration, Instant};

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// Each scene for a while.
    Ordinary,
    /// Each only as long as it takes.
    Quick,
    /// All of them until then.
    Until(Instant),
}

/// How long each scene is shown unless something else is asked for.
const SHOW: Duration = Duration::from_secs(5);

/// The least, for which each is shown when it has to be quick.
const SHOW_QUICK: Duration = Duration::from_millis(700);

/// Of each scene, how many times as long as it is shown it takes, and how many seconds longer: for checks, for downloads to end,
/// for the daemon to start.
const SCENES: [(f64, f64); 5] = [(1.0, 0.2), (1.5, 1.4), (1.0, 0.8), (1.0, 1.2), (1.0, 1.8)];

impl Pace {
    /// How long a scene is shown that begins now. What earlier ones took too long is made up for by it and the later ones.
    pub(crate) fn show(&self, scene: usize, now: Instant) -> Duration {
        match self {
            Self::Ordinary => SHOW,
            Self::Quick => SHOW_QUICK,
            Self::Until(end) => {
                let (times, longer) = SCENES[scene..]
                    .iter()
                    .fold((0.0, 0.0), |(times, longer), scene| (times + scene.0, longer + scene.1));
                let left = end.saturating_duration_since(now).as_secs_f64() - longer;
                Duration::from_secs_f64(left.max(0.0) / times).max(SHOW_QUICK)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_together_take_the_time_that_was_asked_for() {
        let mut now = Instant::now();
        let end = now + Duration::from_secs(60);
        for (number, (times, longer)) in SCENES.into_iter().enumerate() {
            // The third takes far too long.
            let late = if number == 2 { 9.0 } else { 0.0 };
            let show = Pace::Until(end).show(number, now);
            now += show.mul_f64(times) + Duration::from_secs_f64(longer + late);
        }
        let off = if now > end { now - end } else { end - now };
        assert!(off < Duration::from_millis(1), "{off:?}");
    }

    #[test]
    fn a_scene_without_time_is_shown_all_the_same() {
        let now = Instant::now();
        assert_eq!(Pace::Until(now).show(4, now), SHOW_QUICK);
    }
}
