//! Shapes as PNG: smooth lines, and text in a bitmap font, so that no font file is needed and every machine gives the same.

use std::convert::Infallible;

use embedded_graphics::Drawable;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_1::{FONT_9X18, FONT_9X18_BOLD};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::RgbColor;
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};
use tiny_skia::{
    Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, StrokeDash,
    Transform,
};

use super::layout::{Anchor, HEIGHT, Ink, MarkKind, Shape, WIDTH};

/// Pixels a unit of the page.
const SCALE: f32 = 1.5;

/// A picture could not be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no memory for the picture; write SVG instead")]
pub struct PngError;

pub(super) fn draw(shapes: &[Shape]) -> Result<Vec<u8>, PngError> {
    let (width, height) = ((WIDTH as f32 * SCALE) as u32, (HEIGHT as f32 * SCALE) as u32);
    let mut picture = Pixmap::new(width, height).ok_or(PngError)?;
    picture.fill(Color::WHITE);
    for shape in shapes {
        match shape {
            Shape::Path { points, ink, width, dashed } => {
                let mut path = PathBuilder::new();
                for (number, &(x, y)) in points.iter().enumerate() {
                    let (x, y) = (x as f32, y as f32);
                    if number == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
                }
                if let Some(path) = path.finish() {
                    stroke(&mut picture, &path, *ink, *width as f32, *dashed);
                }
            }
            Shape::Mark { at, kind, ink } => mark(&mut picture, *at, *kind, *ink),
            Shape::Text { at, text, ink, anchor, strong } => {
                write(&mut picture, *at, text, *ink, *anchor, *strong);
            }
        }
    }
    picture.encode_png().map_err(|_| PngError)
}

fn paint<'a>(ink: Ink) -> Paint<'a> {
    let (red, green, blue) = colour(ink);
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

fn stroke(picture: &mut Pixmap, path: &Path, ink: Ink, width: f32, dashed: bool) {
    let dash = if dashed { StrokeDash::new(vec![6.0, 5.0], 0.0) } else { None };
    let stroke = Stroke { width, dash, line_join: LineJoin::Round, ..Stroke::default() };
    picture.stroke_path(path, &paint(ink), &stroke, Transform::from_scale(SCALE, SCALE), None);
}

fn mark(picture: &mut Pixmap, (x, y): (f64, f64), kind: MarkKind, ink: Ink) {
    let (x, y) = (x as f32, y as f32);
    let mut path = PathBuilder::new();
    let mut polygon = |corners: &[(f32, f32)]| {
        for (number, (right, down)) in corners.iter().enumerate() {
            if number == 0 { path.move_to(x + right, y + down) } else { path.line_to(x + right, y + down) }
        }
    };
    let filled = match kind {
        MarkKind::Disc | MarkKind::Ring => {
            path.push_circle(x, y, 3.5);
            kind == MarkKind::Disc
        }
        MarkKind::Square => {
            polygon(&[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)]);
            path.close();
            true
        }
        MarkKind::Diamond => {
            polygon(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]);
            path.close();
            true
        }
        MarkKind::Triangle => {
            polygon(&[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)]);
            path.close();
            true
        }
        MarkKind::Cross => {
            polygon(&[(-3.8, -3.8), (3.8, 3.8)]);
            polygon(&[(-3.8, 3.8), (3.8, -3.8)]);
            false
        }
        MarkKind::Plus => {
            polygon(&[(-4.5, 0.0), (4.5, 0.0)]);
            polygon(&[(0.0, -4.5), (0.0, 4.5)]);
            false
        }
    };
    let Some(path) = path.finish() else { return };
    let transform = Transform::from_scale(SCALE, SCALE);
    if filled {
        picture.fill_path(&path, &paint(ink), FillRule::Winding, transform, None);
    } else if kind == MarkKind::Ring {
        let mut white = Paint::default();
        white.set_color(Color::WHITE);
        picture.fill_path(&path, &white, FillRule::Winding, transform, None);
    }
    stroke(picture, &path, ink, 1.75, false);
}

fn write(picture: &mut Pixmap, (x, y): (f64, f64), text: &str, ink: Ink, anchor: Anchor, strong: bool) {
    let (red, green, blue) = colour(ink);
    let font = if strong { &FONT_9X18_BOLD } else { &FONT_9X18 };
    let style = MonoTextStyle::new(font, Rgb888::new(red, green, blue));
    let alignment = match anchor {
        Anchor::Start => Alignment::Left,
        Anchor::Middle => Alignment::Center,
        Anchor::End => Alignment::Right,
    };
    let place = TextStyleBuilder::new().alignment(alignment).baseline(Baseline::Alphabetic).build();
    let at = Point::new((x as f32 * SCALE).round() as i32, (y as f32 * SCALE).round() as i32);
    match Text::with_text_style(text, at, style, place).draw(&mut Canvas(picture)) {
        Ok(_) => {}
        Err(never) => match never {},
    }
}

/// The page for the writer of text.
struct Canvas<'a>(&'a mut Pixmap);

impl OriginDimensions for Canvas<'_> {
    fn size(&self) -> Size {
        Size::new(self.0.width(), self.0.height())
    }
}

impl DrawTarget for Canvas<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = embedded_graphics::Pixel<Rgb888>>,
    {
        let (width, height) = (self.0.width(), self.0.height());
        for embedded_graphics::Pixel(at, colour) in pixels {
            let (Ok(x), Ok(y)) = (u32::try_from(at.x), u32::try_from(at.y)) else { continue };
            let opaque = PremultipliedColorU8::from_rgba(colour.r(), colour.g(), colour.b(), 255);
            if let (true, Some(opaque)) = (x < width && y < height, opaque) {
                self.0.pixels_mut()[(y * width + x) as usize] = opaque;
            }
        }
        Ok(())
    }
}

/// As the light half of the style of the SVG.
fn colour(ink: Ink) -> (u8, u8, u8) {
    const SERIES: [(u8, u8, u8); super::layout::COLOURS] = [
        (0x0b, 0x62, 0xa8),
        (0xc2, 0x41, 0x0c),
        (0x0f, 0x7b, 0x52),
        (0x8b, 0x3f, 0xa8),
        (0x8a, 0x61, 0x00),
        (0xb0, 0x24, 0x6b),
    ];
    match ink {
        Ink::Text => (0x1b, 0x1f, 0x24),
        Ink::Faint => (0x59, 0x63, 0x6e),
        Ink::Grid => (0xe3, 0xe6, 0xea),
        Ink::Series(number) => SERIES[number % SERIES.len()],
    }
}
