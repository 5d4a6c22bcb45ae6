//! How experiments tell what they found: text, Markdown, JSON, CSV, a picture.

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use guideway_lab::plot::Chart;
use guideway_lab::{Estimate, Execution, Refusal};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::columns::Columns;
use crate::failure::Failure;
use crate::output_file::{OutputFile, unwritable};
use crate::screen::Screen;

/// The form of the answer.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// Print everything as JSON, settings included
    #[arg(long, conflicts_with_all = ["csv", "markdown"])]
    json: bool,
    /// Print the figures as CSV, one case a line, unrounded
    #[arg(long, conflicts_with = "markdown")]
    csv: bool,
    /// Print the tables as Markdown
    #[arg(long)]
    markdown: bool,
    /// Draw the figures into FILE as well: SVG or PNG, by its ending
    #[arg(long, value_name = "FILE.svg|.png", value_parser = Picture::parse)]
    plot: Option<Picture>,
}

/// A picture's file.
#[derive(Debug, Clone)]
struct Picture {
    path: PathBuf,
    png: bool,
}

impl Picture {
    fn parse(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let png = match ending.as_deref() {
            Some("svg") => false,
            Some("png") => true,
            _ => return Err("pictures are written as SVG or PNG; end the name in .svg or .png".into()),
        };
        Ok(Self { path, png })
    }
}

/// Threads, and how far they are.
#[derive(Debug, clap::Args)]
pub(super) struct WorkArgs {
    /// Threads to compute with; the figures are the same with any number [default: one a core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
}

impl WorkArgs {
    /// Carries out `work`, with a bar on a terminal.
    pub(super) fn carry_out<T>(
        &self,
        work: impl FnOnce(&Execution<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Failure> {
        let bar = bar("{percent:>3} % {bar:40} {pos} of {len} runs, {eta} left");
        let progress = |done: usize, of: usize| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        };
        let found = work(&Execution { threads: self.threads, progress: &progress });
        bar.finish_and_clear();
        found.map_err(refused)
    }
}

/// What makes no sense is the command line's fault, the rest is not.
pub(super) fn refused(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Policy { .. } | Refusal::Churn(_) => Failure::failed(refusal),
        other => Failure::usage(other),
    }
}

/// A bar on a terminal, else nothing.
pub(super) fn bar(template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    // The templates are fixed; were one wrong, the library's own would do.
    ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What an experiment has to tell, in all of its forms.
pub(super) struct Findings<'a, R> {
    /// For JSON.
    pub(super) report: &'a R,
    /// What was done, a sentence or two.
    pub(super) about: String,
    /// What was found, rounded for people.
    pub(super) tables: Vec<Columns>,
    /// What to know in order to read that.
    pub(super) notes: Vec<String>,
    /// What was found, for programs.
    pub(super) csv: Csv,
    /// What was found, as a picture.
    pub(super) chart: Chart,
}

impl OutputArgs {
    /// Refuses, before the work, a picture that could not be written after it.
    pub(super) fn ready(&self) -> Result<(), Failure> {
        self.plot.as_ref().map_or(Ok(()), |picture| OutputFile::probe(&picture.path))
    }

    /// Tells it in the form that was asked for. A picture that fails takes nothing from the rest.
    pub(super) fn tell<R: Serialize>(
        &self,
        findings: &Findings<'_, R>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let drawn = self.draw(&findings.chart);
        self.print(findings, screen)?;
        drawn
    }

    fn draw(&self, chart: &Chart) -> Result<(), Failure> {
        let Some(Picture { path, png }) = &self.plot else { return Ok(()) };
        let bytes = if *png { chart.png().map_err(Failure::failed)? } else { chart.svg().into_bytes() };
        write_file(path, &bytes)
    }

    fn print<R: Serialize>(&self, findings: &Findings<'_, R>, screen: &mut Screen) -> Result<(), Failure> {
        if self.json {
            return Ok(screen.json(findings.report)?);
        }
        if self.csv {
            return Ok(screen.write_all(findings.csv.0.as_bytes())?);
        }
        writeln!(screen, "{}", findings.about)?;
        for table in &findings.tables {
            writeln!(screen)?;
            if self.markdown {
                table.write_markdown(screen)?;
            } else {
                table.write(screen)?;
            }
        }
        if !findings.notes.is_empty() {
            writeln!(screen)?;
        }
        for note in &findings.notes {
            writeln!(screen, "{note}")?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let file = OutputFile::create(path, &[])?;
    let written = file.handle().and_then(|mut handle| handle.write_all(bytes)).and_then(|()| file.keep());
    written.map_err(|error| unwritable(path, &error))
}

/// Comma-separated values, as RFC 4180 has them but for bare line feeds.
pub(super) struct Csv(String);

impl Csv {
    pub(super) fn new<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        let mut csv = Self(String::new());
        csv.row(headings.into_iter().map(str::to_owned));
        csv
    }

    /// Headings of what each estimate gives three columns, between others; see [`estimate_cells`].
    pub(super) fn of_estimates(before: &[&str], estimates: &[&str], after: &[&str]) -> Self {
        let three = |name: &&str| ["", "_low", "_high"].map(|end| format!("{name}{end}"));
        let estimates: Vec<String> = estimates.iter().flat_map(three).collect();
        let estimates = estimates.iter().map(String::as_str);
        Self::new(before.iter().copied().chain(estimates).chain(after.iter().copied()))
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        for (number, cell) in cells.into_iter().enumerate() {
            if number > 0 {
                self.0.push(',');
            }
            if cell.contains([',', '"', '\n', '\r']) {
                self.0.push_str(&format!("\"{}\"", cell.replace('"', "\"\"")));
            } else {
                self.0.push_str(&cell);
            }
        }
        self.0.push('\n');
    }
}

/// The columns of an estimate in CSV: its mean, and the ends of its interval.
pub(super) fn estimate_cells(estimate: &Estimate) -> [String; 3] {
    let (low, high) = estimate.interval();
    [estimate.mean.to_string(), low.to_string(), high.to_string()]
}

/// A share as a percentage with its margin: `25.01 ± 0.12 %`.
pub(super) fn percent(estimate: &Estimate) -> String {
    format!("{} %", with_margin(estimate, 100.0))
}

/// A number with its margin: `1.31 ± 0.02`.
pub(super) fn with_margin(estimate: &Estimate, scale: f64) -> String {
    let (mean, margin) = (estimate.mean * scale, estimate.margin.unwrap_or(0.0) * scale);
    // Two digits of the margin count; where it has none, three of the mean.
    let digits =
        |value: f64, count: f64| (count - 1.0 - value.abs().log10().floor()).clamp(0.0, 6.0) as usize;
    // Rounding errors of a mean of equal runs are no margin.
    if margin > mean.abs() * 1e-9 {
        let decimals = digits(margin, 2.0);
        return format!("{mean:.decimals$} ± {margin:.decimals$}");
    }
    if mean == 0.0 {
        return "0".into();
    }
    let decimals = digits(mean, 3.0);
    format!("{mean:.decimals$}")
}

/// `one run` or `1,000 runs`, and the like.
pub(super) fn counted(number: u32, thing: &str) -> String {
    if number == 1 { format!("one {thing}") } else { format!("{} {thing}s", grouped(number)) }
}

/// A whole number with commas.
pub(super) fn grouped(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_decide_how_many_digits_count() {
        let with = |mean, margin| percent(&Estimate { mean, margin, least: 0.0, most: 1.0, runs: 9 });
        assert_eq!(with(0.250_123, Some(0.001_2)), "25.01 ± 0.12 %");
        assert_eq!(with(0.000_213_4, Some(0.000_034)), "0.0213 ± 0.0034 %");
        assert_eq!(with(0.25, None), "25.0 %");
        assert_eq!(with(0.0, Some(0.0)), "0 %");
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let mut csv = Csv::new(["a", "b"]);
        csv.row(["1,5".into(), "say \"x\"".into()]);
        assert_eq!(csv.0, "a,b\n\"1,5\",\"say \"\"x\"\"\"\n");
    }

    #[test]
    fn pictures_are_known_by_their_ending() {
        assert!(Picture::parse("a/b.PNG").unwrap().png && !Picture::parse("b.svg").unwrap().png);
        assert!(Picture::parse("b.pdf").unwrap_err().contains(".svg or .png"));
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([1, 1_000].map(|number| counted(number, "run")), ["one run", "1,000 runs"]);
        assert_eq!([0u32, 999, 65_537, 1_000_000].map(grouped), ["0", "999", "65,537", "1,000,000"]);
    }
}
