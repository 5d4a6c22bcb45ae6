//! Where everything on the page goes.

use super::axis::Ruler;
use super::{Chart, Scale, Series, Style};

/// The page, in its own units.
pub(super) const WIDTH: f64 = 840.0;
pub(super) const HEIGHT: f64 = 440.0;

/// Where the axes are.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 372.0;
/// Labels nearer than this to the one before are left out.
const LABEL_ROOM: f64 = 54.0;
/// What a label beside the page takes of its height.
const LINE_ROOM: f64 = 16.0;

/// Something on the page.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// Straight lines from point to point.
    Path { points: Vec<(f64, f64)>, ink: Ink, width: f64, dashed: bool },
    /// A mark round a point.
    Mark { at: (f64, f64), kind: MarkKind, ink: Ink },
    /// A line of text; `at` is on its base line.
    Text { at: (f64, f64), text: String, ink: Ink, anchor: Anchor, strong: bool },
}

/// What a shape is drawn in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Text,
    Faint,
    Grid,
    /// The colour of a series, one of [`COLOURS`].
    Series(usize),
}

/// How many colours there are for series; then they repeat, with other marks.
pub(super) const COLOURS: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkKind {
    Disc,
    Square,
    Diamond,
    Triangle,
    Cross,
    Ring,
    Plus,
}

const MARKS: [MarkKind; 7] = [
    MarkKind::Disc,
    MarkKind::Square,
    MarkKind::Diamond,
    MarkKind::Triangle,
    MarkKind::Cross,
    MarkKind::Ring,
    MarkKind::Plus,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

pub(super) fn lay_out(chart: &Chart) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let text =
        |at, text: &str, ink, anchor, strong| Shape::Text { at, text: text.to_owned(), ink, anchor, strong };
    shapes.push(text((16.0, 28.0), &chart.title, Ink::Text, Anchor::Start, true));
    shapes.push(text((16.0, 48.0), &chart.subtitle, Ink::Faint, Anchor::Start, false));
    shapes.push(text((16.0, 76.0), &chart.y.label, Ink::Text, Anchor::Start, false));
    let middle = (LEFT + RIGHT) / 2.0;
    shapes.push(text((middle, HEIGHT - 20.0), &chart.x.label, Ink::Text, Anchor::Middle, false));

    let points = || chart.series.iter().flat_map(|series| &series.points);
    let mut across: Vec<f64> = points().map(|point| point.x).collect();
    across.sort_by(f64::total_cmp);
    across.dedup();
    // Things stand apart from the axis' ends, and from 0, which is none of them.
    let margin = if chart.x.names.is_empty() { 14.0 } else { 60.0 };
    let x = Ruler::new(chart.x.scale, &across, (LEFT + margin, RIGHT - margin), false);
    // An interval that reaches below zero does not ask for a line of zeros of its own.
    let ends = points().filter_map(|point| point.interval).flat_map(|(low, high)| [low, high]);
    let ends = ends.filter(|&end| end > 0.0 || chart.y.scale == Scale::Linear);
    let up: Vec<f64> = points().map(|point| point.y).chain(ends).collect();
    let lowest = points().map(|point| point.y).filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min);
    // Nor does the end of a long bar stretch the axis without bound.
    let up: Vec<f64> = match chart.y.scale {
        Scale::Log => up.into_iter().filter(|&y| y <= 0.0 || y >= lowest / 3.0).collect(),
        Scale::Linear => up,
    };
    let y = Ruler::new(chart.y.scale, &up, (BOTTOM, TOP), true);

    for tick in y.ticks(LINE_ROOM) {
        let at = y.place(tick);
        shapes.push(line((LEFT, at), (RIGHT, at), Ink::Grid));
        shapes.push(text((LEFT - 8.0, at + 4.0), &chart.y.write(tick), Ink::Faint, Anchor::End, false));
    }
    if let Some(at) = y.zero() {
        shapes.push(line((LEFT, at), (RIGHT, at), Ink::Grid));
        shapes.push(text((LEFT - 8.0, at + 4.0), "exactly 0", Ink::Faint, Anchor::End, false));
    }
    // The values themselves are the best labels where there are few.
    let ticks = if across.len() <= 10 { across } else { x.ticks(LABEL_ROOM) };
    let mut last = f64::NEG_INFINITY;
    for tick in ticks {
        let at = x.place(tick);
        shapes.push(line((at, BOTTOM), (at, BOTTOM + 5.0), Ink::Faint));
        if at - last >= LABEL_ROOM {
            last = at;
            shapes.push(text((at, BOTTOM + 20.0), &chart.x.write(tick), Ink::Faint, Anchor::Middle, false));
        }
    }
    shapes.push(line((LEFT, BOTTOM), (RIGHT, BOTTOM), Ink::Faint));

    let mut legend = TOP + 8.0;
    for (number, series) in chart.series.iter().enumerate() {
        draw_series(number, series, &x, &y, &mut shapes);
        legend = draw_legend(number, series, legend, &mut shapes);
    }
    shapes
}

fn draw_series(number: usize, series: &Series, x: &Ruler, y: &Ruler, shapes: &mut Vec<Shape>) {
    let ink = Ink::Series(number % COLOURS);
    let place = |value: f64| y.place(value).clamp(TOP, BOTTOM);
    let at: Vec<(f64, f64)> = series.points.iter().map(|point| (x.place(point.x), place(point.y))).collect();
    match (series.style, &at[..]) {
        // What does not depend on x is a line right across.
        (Style::Limit, &[(_, up)]) => {
            shapes.push(Shape::Path { points: vec![(LEFT, up), (RIGHT, up)], ink, width: 1.5, dashed: true });
            return;
        }
        (Style::Limit, _) => {
            shapes.push(Shape::Path { points: at, ink, width: 1.5, dashed: true });
            return;
        }
        (Style::Line, _) if at.len() > 1 => {
            shapes.push(Shape::Path { points: at.clone(), ink, width: 2.0, dashed: false });
        }
        _ => {}
    }
    for (point, &(across, up)) in series.points.iter().zip(&at) {
        if let Some((low, high)) = point.interval {
            let (low, high) = (place(low), place(high));
            if low - high > 3.0 {
                shapes.push(line_of((across, low), (across, high), ink, 1.25));
                shapes.push(line_of((across - 3.0, low), (across + 3.0, low), ink, 1.25));
                shapes.push(line_of((across - 3.0, high), (across + 3.0, high), ink, 1.25));
            }
        }
        shapes.push(Shape::Mark { at: (across, up), kind: MARKS[number % MARKS.len()], ink });
    }
}

/// Writes a series' name beside its sign at the height `top`. Returns where the next one goes.
fn draw_legend(number: usize, series: &Series, top: f64, shapes: &mut Vec<Shape>) -> f64 {
    let ink = Ink::Series(number % COLOURS);
    let at = (RIGHT + 22.0, top);
    let ends = vec![(at.0, at.1), (at.0 + 26.0, at.1)];
    match series.style {
        Style::Limit => shapes.push(Shape::Path { points: ends, ink, width: 1.5, dashed: true }),
        Style::Line => shapes.push(Shape::Path { points: ends, ink, width: 2.0, dashed: false }),
        Style::Marks => {}
    }
    if series.style != Style::Limit {
        shapes.push(Shape::Mark { at: (at.0 + 13.0, at.1), kind: MARKS[number % MARKS.len()], ink });
    }
    let lines = wrapped(&series.name);
    let mut down = at.1;
    for text in lines {
        let (at, ink, anchor) = ((at.0 + 36.0, down + 4.0), Ink::Text, Anchor::Start);
        shapes.push(Shape::Text { at, text, ink, anchor, strong: false });
        down += 16.0;
    }
    down + 6.0
}

/// A name in lines that fit beside the axes, broken between words.
fn wrapped(name: &str) -> Vec<String> {
    const FITS: usize = 22;
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= FITS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn line(from: (f64, f64), to: (f64, f64), ink: Ink) -> Shape {
    line_of(from, to, ink, 1.0)
}

fn line_of(from: (f64, f64), to: (f64, f64), ink: Ink, width: f64) -> Shape {
    Shape::Path { points: vec![from, to], ink, width, dashed: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_broken_between_words() {
        assert_eq!(wrapped("maglev"), ["maglev"]);
        assert_eq!(
            wrapped("Maglev + LRU of 125 on each of 8 CPUs"),
            ["Maglev + LRU of 125 on", "each of 8 CPUs"]
        );
    }
}
