//! Shapes as SVG.

use std::fmt::{self, Display, Write};

use super::layout::{Anchor, HEIGHT, Ink, MarkKind, Shape, WIDTH};

/// Colours by name, so that the reader's choice of light or dark decides. Six that people with any colour vision tell apart.
const STYLE: &str = "\
svg{--paper:#fff;--text:#1b1f24;--faint:#59636e;--grid:#e3e6ea;\
--s0:#0b62a8;--s1:#c2410c;--s2:#0f7b52;--s3:#8b3fa8;--s4:#8a6100;--s5:#b0246b}\
@media(prefers-color-scheme:dark){svg{--paper:#14181d;--text:#e6eaee;--faint:#9aa5b1;--grid:#2b333c;\
--s0:#6cb4f5;--s1:#ff9a62;--s2:#54d0a0;--s3:#d29cf0;--s4:#e2b84c;--s5:#ff8fc0}}\
text{font:13px system-ui,sans-serif}.b{font-weight:600;font-size:15px}\
path{fill:none;stroke-linejoin:round}.m{stroke-width:1.75}";

pub(super) fn draw(shapes: &[Shape]) -> String {
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\">"
    );
    if let Some(Shape::Text { text, .. }) = shapes.first() {
        let _ = writeln!(svg, "<title>{}</title>", Escaped(text));
    }
    let _ = writeln!(svg, "<style>{STYLE}</style>");
    let _ = writeln!(svg, "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"var(--paper)\"/>");
    for shape in shapes {
        let _ = one(shape, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

fn one(shape: &Shape, svg: &mut String) -> fmt::Result {
    match shape {
        Shape::Path { points, ink, width, dashed } => {
            let dash = if *dashed { " stroke-dasharray=\"6 5\"" } else { "" };
            write!(svg, "<path d=\"")?;
            for (number, (x, y)) in points.iter().enumerate() {
                let verb = if number == 0 { 'M' } else { 'L' };
                write!(svg, "{verb}{} {}", Coordinate(*x), Coordinate(*y))?;
            }
            writeln!(svg, "\" stroke=\"{}\" stroke-width=\"{width}\"{dash}/>", Colour(*ink))
        }
        Shape::Mark { at: (x, y), kind, ink } => {
            let (outline, filled) = outline(*kind);
            let (x, y, colour) = (Coordinate(*x), Coordinate(*y), Colour(*ink));
            let fill = match (kind, filled) {
                (_, true) => format!(" style=\"fill:{colour}\""),
                (MarkKind::Ring, false) => " style=\"fill:var(--paper)\"".to_owned(),
                (_, false) => String::new(),
            };
            writeln!(
                svg,
                "<path class=\"m\" transform=\"translate({x} {y})\" d=\"{outline}\" stroke=\"{colour}\"{fill}/>"
            )
        }
        Shape::Text { at: (x, y), text, ink, anchor, strong } => {
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let strong = if *strong { " class=\"b\"" } else { "" };
            let (x, y, colour) = (Coordinate(*x), Coordinate(*y), Colour(*ink));
            writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\"{anchor}{strong}>{}</text>",
                Escaped(text)
            )
        }
    }
}

/// A mark round the origin, and whether it is filled.
fn outline(kind: MarkKind) -> (&'static str, bool) {
    match kind {
        MarkKind::Disc => ("M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", true),
        MarkKind::Square => ("M-3.2-3.2h6.4v6.4h-6.4z", true),
        MarkKind::Diamond => ("M0-4.6L4.6 0L0 4.6L-4.6 0z", true),
        MarkKind::Triangle => ("M0-4.4L4.2 3.2H-4.2z", true),
        MarkKind::Cross => ("M-3.8-3.8L3.8 3.8M-3.8 3.8L3.8-3.8", false),
        MarkKind::Ring => ("M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", false),
        MarkKind::Plus => ("M-4.5 0H4.5M0-4.5V4.5", false),
    }
}

struct Colour(Ink);

impl Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ink::Text => f.write_str("var(--text)"),
            Ink::Faint => f.write_str("var(--faint)"),
            Ink::Grid => f.write_str("var(--grid)"),
            Ink::Series(number) => write!(f, "var(--s{number})"),
        }
    }
}

/// A place to a tenth of a unit.
struct Coordinate(f64);

impl Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        // No -0.
        write!(f, "{}", if tenths == 0.0 { 0.0 } else { tenths })
    }
}

struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            // XML has no place for the others.
            control if control.is_control() => f.write_char('\u{fffd}'),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::plot::{Axis, Chart, Point, Scale, Series, Style, Unit};

    fn chart(name: &str) -> Chart {
        let points = vec![Point::new(7.0, 0.0), Point { x: 31.0, y: 0.2, interval: Some((0.1, 0.3)) }];
        let series = [Style::Line, Style::Marks, Style::Limit];
        Chart {
            title: name.into(),
            subtitle: "as <it> is".into(),
            x: Axis::new("slots", Scale::Log, Unit::Number),
            y: Axis::new("moved", Scale::Log, Unit::Share),
            series: series
                .map(|style| Series { name: format!("{style:?}"), style, points: points.clone() })
                .to_vec(),
        }
    }

    #[test]
    fn a_chart_names_its_series_and_escapes_its_texts() {
        let svg = chart("a \"b\" & c\u{1b}").svg();
        for part in [
            "<title>a &quot;b&quot; &amp; c\u{fffd}</title>",
            "as &lt;it&gt; is",
            ">Line<",
            ">Marks<",
            ">Limit<",
            ">exactly 0<",
        ] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg, chart("a \"b\" & c\u{1b}").svg());
    }

    #[test]
    fn a_chart_of_nothing_is_a_picture_all_the_same() {
        let svg = Chart { series: vec![], ..chart("empty") }.svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn a_png_is_a_png_and_the_same_each_time() {
        let png = chart("a").png().unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
        assert_eq!(png, chart("a").png().unwrap());
        assert_ne!(png, chart("b").png().unwrap());
    }
}
