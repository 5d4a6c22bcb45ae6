//! What was measured on.

/// The processor, and how much of it this process may have.
pub(super) fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{}, {cores} core(s) for this process", name.unwrap_or("an unknown processor").trim())
}

/// The kernel's release.
pub(super) fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Two digits after the point: what is behind them is noise.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
