//! Arguments that several experiments share: policies, numbers of backends, table sizes, weights, seeds.

use guideway_hash::TableSize;
use guideway_lab::{Contender, Weights};

use crate::nearest::hint;

/// Reads a policy's name.
pub(super) fn contender(name: &str) -> Result<Contender, String> {
    let names = Contender::ALL.map(|contender| contender.to_string());
    name.parse().map_err(|error| format!("{error}{}", hint(name, names.iter().map(String::as_str))))
}

/// Reads a table size: a prime, with or without marks between thousands.
pub(super) fn table_size(text: &str) -> Result<TableSize, String> {
    let slots = number(text)?;
    TableSize::new(slots).map_err(|error| error.to_string())
}

/// The table sizes of a sweep: those that were given, else those of the usual ones that have room for `most` backends.
pub(super) fn sizes(given: &[TableSize], usual: Vec<TableSize>, most: u32) -> Vec<TableSize> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let roomy: Vec<TableSize> = usual.iter().copied().filter(|size| size.get() >= most).collect();
    // Where none has, the experiment refuses, and says what would have.
    if roomy.is_empty() { usual } else { roomy }
}

/// Reads a number, with or without marks between thousands.
pub(super) fn number(text: &str) -> Result<u32, String> {
    let digits: String = text.chars().filter(|&mark| mark != '_').collect();
    digits.parse().map_err(|_| format!("{text:?} is no whole number; write one such as 1000"))
}

/// Reads weights by a pattern: `1` or `1:2:4`.
pub(super) fn weights(text: &str) -> Result<Weights, String> {
    let pattern: Option<Vec<u32>> = text.split(':').map(|weight| weight.trim().parse().ok()).collect();
    let wrong = "write weights above 0 with colons between, such as 1 or 1:1:4; the pattern repeats over the backends";
    pattern.and_then(Weights::pattern).ok_or_else(|| wrong.to_owned())
}

/// Reads a percentage, `0.5%`, as a share.
pub(super) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.filter(|percent| *percent > 0.0 && percent.is_finite()).map(|percent| percent / 100.0);
    share.ok_or_else(|| format!("{text:?} is no percentage above 0; write one such as 0.5%"))
}

/// Reads a number of bytes, `65536`, `512KiB` or `4MiB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)];
    let read = units
        .iter()
        .find_map(|&(unit, size)| text.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(size));
    read.filter(|&bytes| bytes > 0).ok_or_else(|| {
        format!("{text:?} is no number of bytes above 0; write one such as 65536, 512KiB or 4MiB")
    })
}

/// The pattern as it is written.
pub(super) fn show_weights(weights: &Weights) -> String {
    weights.as_slice().iter().map(ToString::to_string).collect::<Vec<_>>().join(":")
}

/// `, weights 1:2`, or nothing when all are equal.
pub(super) fn and_weights(weights: &Weights) -> String {
    if weights.are_equal() { String::new() } else { format!(", weights {} in turn", show_weights(weights)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_usual_sizes_those_with_room_are_taken_and_given_ones_as_they_are() {
        let [small, large] = [251, 1021].map(|slots| TableSize::new(slots).unwrap());
        let sizes = |given: &[TableSize], most| sizes(given, vec![small, large], most);
        assert_eq!(sizes(&[], 251), [small, large]);
        assert_eq!(sizes(&[], 252), [large]);
        assert_eq!(sizes(&[], 2_000), [small, large]);
        assert_eq!(sizes(&[small], 300), [small]);
    }

    #[test]
    fn what_is_wrong_is_told_with_a_remedy() {
        assert!(contender("maglve").unwrap_err().contains("did you mean \"maglev\"?"));
        assert!(table_size("65_536").unwrap_err().contains("65537"));
        assert!(weights("1:0").unwrap_err().contains("above 0"));
        assert_eq!(weights("1:2").unwrap().as_slice(), [1, 2]);
        assert_eq!(number("1_000"), Ok(1_000));
        assert_eq!((percentage("0.5%"), percentage("2 %")), (Ok(0.005), Ok(0.02)));
        assert!(["1", "0%", "-1%", "nan%"].iter().all(|text| percentage(text).is_err()));
        assert_eq!((bytes("4MiB"), bytes("700")), (Ok(4 << 20), Ok(700)));
        assert!(["", "0", "4MB", "99999999999GiB"].iter().all(|text| bytes(text).is_err()));
    }
}
