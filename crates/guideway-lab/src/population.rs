//! The backends of an experiment: made-up addresses, weights by a pattern.

use guideway_hash::policy::Candidate;
use serde::Serialize;

/// Weights by a pattern that repeats: `[1]` makes all equal, `[1, 2]` every second twice as heavy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Weights(Vec<u32>);

impl Weights {
    /// All equal.
    pub fn equal() -> Self {
        Self(vec![1])
    }

    /// This pattern; `None` when it is empty or has a 0.
    pub fn pattern(weights: Vec<u32>) -> Option<Self> {
        (!weights.is_empty() && !weights.contains(&0)).then_some(Self(weights))
    }

    /// The weight of backend number `index`.
    pub fn of(&self, index: usize) -> u32 {
        self.0[index % self.0.len()]
    }

    /// Whether all backends weigh the same.
    pub fn are_equal(&self) -> bool {
        self.0.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// The pattern.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }
}

/// The names of `count` backends: `10.0.0.1:443` and on.
pub(crate) fn names(count: u32) -> Vec<String> {
    (1..=count).map(|i| format!("10.{}.{}.{}:443", i >> 16, i >> 8 & 255, i & 255)).collect()
}

/// The backends with their weights.
pub(crate) fn candidates<'a>(names: &'a [String], weights: &Weights) -> Vec<Candidate<'a>> {
    let weighted = |(index, name): (usize, &'a String)| Candidate::new(name).with_weight(weights.of(index));
    names.iter().enumerate().map(weighted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_repeats_and_an_empty_one_or_a_zero_is_none() {
        let weights = Weights::pattern(vec![1, 3]).unwrap();
        assert_eq!([0, 1, 2, 3].map(|index| weights.of(index)), [1, 3, 1, 3]);
        assert!(!weights.are_equal() && Weights::equal().are_equal());
        assert!(Weights::pattern(vec![]).is_none() && Weights::pattern(vec![1, 0]).is_none());
    }

    #[test]
    fn names_differ() {
        let names = names(70_000);
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 70_000);
        assert_eq!((names[0].as_str(), names[65_535].as_str()), ("10.0.0.1:443", "10.1.0.0:443"));
    }
}
