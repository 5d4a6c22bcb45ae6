//! A number with the words for what it counts.

use std::fmt::Display;

/// The number, and behind it the words for one or those for any other number.
///
/// ```
/// use guideway_control::counted;
///
/// assert_eq!(counted(1_u32, "backend takes", "backends take"), "1 backend takes");
/// assert_eq!(counted(0_usize, "live flow", "live flows"), "0 live flows");
/// ```
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let words = if number == N::from(1) { one } else { many };
    format!("{number} {words}")
}
