//! The name that somebody probably meant.

/// The one among `names` that is nearest to `given`, if any is near enough to be a slip of the finger.
pub(crate) fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let limit = (given.chars().count() / 3).max(1);
    let distance = |name: &&str| edits(&given, &name.to_lowercase());
    names.into_iter().min_by_key(distance).filter(|name| distance(name) <= limit)
}

/// ` (did you mean "…"?)`, or nothing.
pub(crate) fn hint<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, names).map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
}

/// Insertions, deletions, replacements and swaps of neighbours that make one text of the other.
fn edits(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let names = ["native", "envoy", "cilium", "katran-v1", "katran-v2"];
        assert_eq!(nearest("envyo", names), Some("envoy"));
        assert_eq!(nearest("Celium", names), Some("cilium"));
        assert_eq!(nearest("katran-v3", names), Some("katran-v1"));
        assert_eq!(nearest("haproxy", names), None);
        assert_eq!(nearest("", names), None);
    }
}
