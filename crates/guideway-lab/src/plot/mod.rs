//! Pictures of figures: one chart of lines and marks over two axes, as SVG or PNG.
//!
//! A [`Chart`] is laid out once, as shapes on a page of fixed size, and drawn from those. The same chart gives the same bytes.
//! Series differ by colour, by mark and by dash, so that colour is never the only sign. On a logarithmic axis zeros have a line of their
//! own at the foot: "exactly 0" is something that a picture should be able to say.

mod axis;
mod layout;
mod png;
mod svg;

pub use axis::{Axis, Scale, Unit};
pub use png::PngError;

/// What a chart shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it is about, one line.
    pub title: String,
    /// Under what conditions, one line.
    pub subtitle: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn, in the order of the legend.
    pub series: Vec<Series>,
}

/// Points of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Its points, in order.
    pub points: Vec<Point>,
}

impl Series {
    /// Lines through points that come with the names of their lines, in any order.
    pub fn lines(points: impl IntoIterator<Item = (String, Point)>) -> Vec<Self> {
        let mut lines: Vec<Self> = Vec::new();
        for (name, point) in points {
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Self { name, style: Style::Line, points: vec![point] }),
            }
        }
        for line in &mut lines {
            line.points.sort_by(|one, other| one.x.total_cmp(&other.x));
        }
        lines
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Marks joined by a line.
    Line,
    /// Marks alone.
    Marks,
    /// A dashed line: a limit.
    Limit,
}

/// A point, with the interval in which it probably lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// From, to; drawn as a bar.
    pub interval: Option<(f64, f64)>,
}

impl Point {
    /// A point without an interval.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, interval: None }
    }

    /// What several runs say, at `x`.
    pub fn estimate(x: f64, estimate: &crate::Estimate) -> Self {
        Self { x, y: estimate.mean, interval: estimate.margin.map(|_| estimate.interval()) }
    }
}

impl Chart {
    /// The picture as SVG. It follows the reader's choice of light or dark.
    pub fn svg(&self) -> String {
        svg::draw(&layout::lay_out(self))
    }

    /// The picture as PNG, light, one and a half times as large.
    ///
    /// # Errors
    /// [`PngError`] when there is no memory for it.
    pub fn png(&self) -> Result<Vec<u8>, PngError> {
        png::draw(&layout::lay_out(self))
    }
}
