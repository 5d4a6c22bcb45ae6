//! From values to places and texts.

/// One axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
    /// How values are written.
    pub unit: Unit,
    /// What stands at 1, 2, 3 and so on, rather than these numbers; empty on an axis of values.
    pub names: Vec<String>,
}

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equally long.
    Linear,
    /// Equal ratios are equally long. 0 and less are drawn at the foot.
    Log,
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// As a number.
    Number,
    /// A share from 0 to 1, as a percentage.
    Share,
    /// Bytes, in KiB and MiB.
    Bytes,
    /// Seconds, in ns, µs and ms.
    Seconds,
}

impl Axis {
    /// An axis.
    pub fn new(label: impl Into<String>, scale: Scale, unit: Unit) -> Self {
        Self { label: label.into(), scale, unit, names: Vec::new() }
    }

    /// An axis of things: the first at 1, the second at 2, and so on.
    pub fn of_names<N: Into<String>>(label: impl Into<String>, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { label: label.into(), scale: Scale::Linear, unit: Unit::Number, names }
    }

    /// What is written at `value`.
    pub(super) fn write(&self, value: f64) -> String {
        let name = self.names.get((value.round() as usize).wrapping_sub(1));
        name.cloned().unwrap_or_else(|| self.unit.write(value))
    }
}

impl Unit {
    /// `value` with at most three digits that count, and its unit.
    pub fn write(self, value: f64) -> String {
        let scaled = |steps: &[(f64, &str)]| {
            let fits = steps.iter().rev().find(|(size, _)| value.abs() >= *size * 0.999);
            let &(size, name) = fits.or(steps.first()).unwrap_or(&(1.0, ""));
            format!("{} {name}", digits(value / size))
        };
        match self {
            Self::Number => digits(value),
            Self::Share => format!("{} %", digits(value * 100.0)),
            Self::Bytes => {
                scaled(&[(1.0, "B"), (1024.0, "KiB"), (1_048_576.0, "MiB"), (1_073_741_824.0, "GiB")])
            }
            Self::Seconds => scaled(&[(1e-9, "ns"), (1e-6, "\u{b5}s"), (1e-3, "ms"), (1.0, "s")]),
        }
    }
}

/// Whole numbers with commas; others with three digits that count.
fn digits(value: f64) -> String {
    if value.abs() >= 100.0 || value.fract().abs() < 1e-9 {
        let whole = value.round();
        let text = format!("{:.0}", whole.abs());
        let mut grouped = String::new();
        for (place, digit) in text.char_indices() {
            if place > 0 && (text.len() - place) % 3 == 0 {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        return if whole < 0.0 { format!("-{grouped}") } else { grouped };
    }
    let decimals = (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An axis over the values that it has to show, on a stretch of the page.
#[derive(Debug, Clone)]
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// Where `low` and `high` are.
    from: f64,
    to: f64,
    /// Where zeros are, if there are any on a logarithmic axis.
    zero: Option<f64>,
}

/// How far the line of zeros is from the rest of a logarithmic axis.
const ZERO_GAP: f64 = 24.0;

impl Ruler {
    /// A ruler for `values`, from `from` to `to` on the page. With `rounded`, it begins and ends at round values.
    pub(super) fn new(scale: Scale, values: &[f64], (from, to): (f64, f64), rounded: bool) -> Self {
        let known = || values.iter().copied().filter(|value| value.is_finite());
        let (mut from, mut zero) = (from, None);
        let (low, high) = match scale {
            Scale::Log => {
                if known().any(|value| value <= 0.0) {
                    zero = Some(from);
                    from += ZERO_GAP * (to - from).signum();
                }
                let positive = || known().filter(|&value| value > 0.0);
                let (low, high) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
                let (low, high) = if high > 0.0 { (low, high) } else { (0.1, 1.0) };
                if rounded { (round_down(low), round_up(high)) } else { (low, high) }
            }
            Scale::Linear => {
                // Amounts are told from 0; places need not be.
                let least = if rounded || known().next().is_none() { 0.0 } else { f64::INFINITY };
                let (low, high) = (known().fold(least, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
                let high = if high > low { high } else { low + 1.0 };
                let step = step(high - low);
                if rounded { ((low / step).floor() * step, (high / step).ceil() * step) } else { (low, high) }
            }
        };
        // One value alone stands in the middle of something.
        let (low, high) = match scale {
            Scale::Log if low >= high => (low / 2.0, high * 2.0),
            _ => (low, high),
        };
        Self { scale, low, high, from, to, zero }
    }

    /// Where `value` is.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value <= 0.0 => return self.zero.unwrap_or(self.from),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + part.clamp(-0.02, 1.02) * (self.to - self.from)
    }

    /// Where zeros are, if they are apart from the rest.
    pub(super) fn zero(&self) -> Option<f64> {
        self.zero
    }

    /// Round values to write at the axis. Of a logarithmic one they are powers of ten alone where those between would stand closer
    /// than `room`.
    pub(super) fn ticks(&self, room: f64) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low);
                let count = ((self.high - self.low) / step + 1e-9).floor() as u32;
                let first = (self.low / step).ceil();
                (0..=count).map(|number| (first + f64::from(number)) * step).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                let closest = (self.to - self.from).abs() / decades * 2f64.log10();
                let between: &[f64] = if decades > 3.5 || closest < room { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let all =
                    (first..=last).flat_map(|power| between.iter().map(move |part| part * 10f64.powi(power)));
                all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect()
            }
        }
    }
}

/// A round step of which a handful fill `span`.
fn step(span: f64) -> f64 {
    let rough = span / 5.0;
    let decade = 10f64.powi(rough.log10().floor() as i32);
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|part| part * decade >= rough * 0.999);
    round.unwrap_or(10.0) * decade
}

fn round_down(value: f64) -> f64 {
    let decade = 10f64.powi(value.log10().floor() as i32);
    [5.0, 2.0, 1.0]
        .into_iter()
        .map(|part| part * decade)
        .find(|&round| round <= value * 1.000_1)
        .unwrap_or(decade)
}

fn round_up(value: f64) -> f64 {
    let decade = 10f64.powi(value.log10().floor() as i32);
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|part| part * decade)
        .find(|&round| round >= value * 0.999_9)
        .unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_for_people() {
        let share = [0.0, 0.000_213, 0.25, 1.0].map(|value| Unit::Share.write(value));
        assert_eq!(share, ["0 %", "0.0213 %", "25 %", "100 %"]);
        assert_eq!([7.0, 65_537.0, 1.25].map(|value| Unit::Number.write(value)), ["7", "65,537", "1.25"]);
        assert_eq!([131_074.0, 700.0].map(|value| Unit::Bytes.write(value)), ["128 KiB", "700 B"]);
        assert_eq!([1.5e-9, 2e-3].map(|value| Unit::Seconds.write(value)), ["1.5 ns", "2 ms"]);
    }

    #[test]
    fn a_logarithmic_axis_has_equal_ratios_and_zeros_apart() {
        let ruler = Ruler::new(Scale::Log, &[0.0, 0.01, 1.0], (324.0, 100.0), true);
        assert_eq!(ruler.zero(), Some(324.0));
        assert_eq!(
            [0.0, 0.01, 0.1, 1.0].map(|value| ruler.place(value).round()),
            [324.0, 300.0, 200.0, 100.0]
        );
        assert_eq!(ruler.ticks(10.0).len(), 7);
        assert_eq!(ruler.ticks(40.0), [0.01, 0.1, 1.0]);
        assert_eq!(Ruler::new(Scale::Log, &[0.01, 1.0], (324.0, 100.0), true).zero(), None);
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_at_a_round_value() {
        let ruler = Ruler::new(Scale::Linear, &[3.0, 47.0], (0.0, 100.0), true);
        assert_eq!(ruler.ticks(10.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(ruler.place(25.0), 50.0);
        let places = Ruler::new(Scale::Linear, &[1.0, 5.0], (0.0, 100.0), false);
        assert_eq!([1.0, 2.0, 5.0].map(|value| places.place(value)), [0.0, 25.0, 100.0]);
    }

    #[test]
    fn an_axis_of_things_tells_their_names() {
        let axis = Axis::of_names("flows", ["all", "TCP"]);
        assert_eq!([1.0, 2.0, 3.0].map(|value| axis.write(value)), ["all", "TCP", "3"]);
    }

    #[test]
    fn one_value_or_none_makes_no_trouble() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [&[][..], &[0.0], &[5.0], &[f64::NAN]] {
                let ruler = Ruler::new(scale, values, (0.0, 100.0), true);
                assert!(ruler.place(5.0).is_finite() && ruler.ticks(10.0).len() < 20, "{scale:?} {values:?}");
            }
        }
    }
}
