//! What several runs say of a number: its mean, and how sure that is.

use serde::Serialize;

/// A number that differs from seed to seed, as its runs have it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean of the runs.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean: Student's t with one degree of freedom less than there are
    /// runs. `None` with one run, which says nothing of its error.
    pub margin: Option<f64>,
    /// The least of the runs.
    pub least: f64,
    /// The most of the runs.
    pub most: f64,
    /// How many runs there were.
    pub runs: u32,
}

impl Estimate {
    /// Of no runs.
    pub(crate) const NOTHING: Self = Self { mean: 0.0, margin: None, least: 0.0, most: 0.0, runs: 0 };

    /// What these runs say; `None` when there are none.
    pub fn of(runs: impl IntoIterator<Item = f64>) -> Option<Self> {
        let runs: Vec<f64> = runs.into_iter().collect();
        let number = u32::try_from(runs.len()).ok().filter(|&number| number > 0)?;
        let count = f64::from(number);
        let mean = runs.iter().sum::<f64>() / count;
        let squares: f64 = runs.iter().map(|run| (run - mean) * (run - mean)).sum();
        let margin = (number > 1).then(|| student_t(number - 1) * (squares / (count - 1.0) / count).sqrt());
        let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { mean, margin, least, most, runs: number })
    }

    /// The estimate of the same numbers, each less `shift`.
    pub(crate) fn less(self, shift: f64) -> Self {
        let (mean, least, most) = (self.mean - shift, self.least - shift, self.most - shift);
        Self { mean, least, most, ..self }
    }

    /// The ends of the confidence interval; the mean twice where there is none.
    pub fn interval(&self) -> (f64, f64) {
        let margin = self.margin.unwrap_or(0.0);
        (self.mean - margin, self.mean + margin)
    }
}

/// The 97.5 % quantile of Student's t distribution, to three digits (two for more than 30 degrees of freedom).
///
/// Up to 30 degrees from the tables; beyond, the first terms of the expansion by Cornish and Fisher from the normal one.
fn student_t(degrees: u32) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    if let Some(&quantile) = TABLE.get(degrees.saturating_sub(1) as usize) {
        return quantile;
    }
    let z = 1.959_964;
    z + (z * z * z + z) / (4.0 * f64::from(degrees))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_textbook_sample_has_its_interval() {
        // Mean 5, standard deviation 2.138, t of 7 degrees 2.365: margin 1.788.
        let estimate = Estimate::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((estimate.mean, estimate.least, estimate.most, estimate.runs), (5.0, 2.0, 9.0, 8));
        assert!((estimate.margin.unwrap() - 1.788).abs() < 0.001, "{estimate:?}");
    }

    #[test]
    fn one_run_has_no_interval_and_none_has_no_estimate() {
        let one = Estimate::of([3.0]).unwrap();
        assert_eq!((one.margin, one.interval()), (None, (3.0, 3.0)));
        assert_eq!(Estimate::of([]), None);
    }

    #[test]
    fn runs_that_agree_have_an_interval_of_no_width() {
        assert_eq!(Estimate::of([0.25; 9]).unwrap().margin, Some(0.0));
    }

    #[test]
    fn quantiles_fall_towards_the_normal_one() {
        // Published: 1.984 at 100 degrees, 1.962 at 1000.
        assert!((student_t(100) - 1.984).abs() < 0.001 && (student_t(1000) - 1.962).abs() < 0.001);
        assert!((1..200).all(|degrees| student_t(degrees) > student_t(degrees + 1)));
    }
}
