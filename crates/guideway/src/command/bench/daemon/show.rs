//! The figures of `guideway bench daemon`.

use std::io::{self, Write};

use serde::Serialize;

use super::super::rig::{kernel, machine, rounded};
use crate::columns::{Align, Columns};
use crate::sandbox::Ground;
use crate::screen::{Screen, Style};

/// All that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: String,
    kernel: String,
    /// Of the program: `release` or `development`.
    build: &'static str,
    pub(super) engine: String,
    pub(super) mode: String,
    /// Why it is not the kernel that forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not_xdp: Option<String>,
    pub(super) figures: Vec<Figure>,
}

/// One figure beside its goal.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    /// What the daemon was configured with.
    with: String,
    what: String,
    value: f64,
    /// The median, where the value is the worst of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    median: Option<f64>,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
}

impl Figure {
    /// Of one measurement.
    pub(super) fn new(with: &str, what: &str, value: f64, unit: &'static str) -> Self {
        let (with, what) = (with.to_owned(), what.to_owned());
        Self { with, what, value: rounded(value), median: None, unit, goal: None, met: None }
    }

    /// The worst of several.
    pub(super) fn worst(with: &str, what: &str, mut values: Vec<f64>, unit: &'static str) -> Self {
        values.sort_by(f64::total_cmp);
        let worst = values.last().copied().unwrap_or(f64::NAN);
        let median = values.get(values.len() / 2).copied().map(rounded);
        Self { median, ..Self::new(with, what, worst, unit) }
    }

    /// What it may be at most.
    pub(super) fn within(mut self, goal: f64) -> Self {
        self.goal = Some(goal);
        self.met = Some(self.value <= goal);
        self
    }
}

impl Report {
    pub(super) fn new(ground: &Ground) -> Self {
        Self {
            machine: machine(),
            kernel: kernel(),
            build: if cfg!(debug_assertions) { "development" } else { "release" },
            engine: String::new(),
            mode: String::new(),
            why_not_xdp: ground.why_not.clone(),
            figures: Vec::new(),
        }
    }
}

pub(super) fn table(report: &Report, screen: &mut Screen) -> io::Result<()> {
    let Report { machine, kernel, build, engine, mode, .. } = report;
    writeln!(screen, "{machine}, Linux {kernel}, {build} build; engine {engine}, {mode} mode")?;
    if let Some(why) = &report.why_not_xdp {
        let why = screen.paint(Style::Faint, format!("not in the kernel: {why}"));
        writeln!(screen, "{why}")?;
    }
    let mut with = "";
    let mut columns = columns();
    for figure in &report.figures {
        if figure.with != with {
            if !with.is_empty() {
                columns.write(screen)?;
                columns = self::columns();
            }
            with = &figure.with;
            let title = screen.paint(Style::Heading, format!("\n{with}"));
            writeln!(screen, "{title}")?;
        }
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        columns.row([
            figure.what.clone(),
            format!("{:.2}", figure.value),
            number(figure.median),
            figure.unit.to_owned(),
            figure.goal.map_or(String::new(), |goal| format!("{goal}")),
            figure.met.map_or("", |met| if met { "met" } else { "missed" }).to_owned(),
        ]);
    }
    columns.write(screen)
}

fn columns() -> Columns {
    Columns::new([
        ("", Align::Left),
        ("worst", Align::Right),
        ("median", Align::Right),
        ("", Align::Left),
        ("goal", Align::Right),
        ("", Align::Left),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_is_what_has_to_meet_the_goal() {
        let figure = Figure::worst("x", "y", vec![3.0, 9.0, 1.0], "ms").within(5.0);
        assert_eq!((figure.value, figure.median, figure.met), (9.0, Some(3.0), Some(false)));
        assert_eq!(Figure::worst("x", "y", Vec::new(), "ms").within(5.0).met, Some(false));
    }
}
