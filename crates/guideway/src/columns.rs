//! Text in columns.

use std::io::{self, Write};

use crate::screen::{Screen, Style, printable};

/// Rows of cells under headings, as wide as they need to be.
pub(crate) struct Columns {
    headings: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

impl Columns {
    pub(crate) fn new(headings: impl IntoIterator<Item = (&'static str, Align)>) -> Self {
        Self { headings: headings.into_iter().collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell).into_owned()).collect());
    }

    /// The same rows as a table of Markdown.
    pub(crate) fn write_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        writeln!(out, "{}", line(&mut self.headings.iter().map(|(heading, _)| (*heading).to_owned())))?;
        let rule = |align: &Align| if *align == Align::Left { "---" } else { "--:" };
        writeln!(
            out,
            "|{}|",
            self.headings.iter().map(|(_, align)| rule(align)).collect::<Vec<_>>().join("|")
        )?;
        for row in &self.rows {
            // A bar would end the cell.
            writeln!(out, "{}", line(&mut row.iter().map(|cell| cell.replace('|', "\\|"))))?;
        }
        Ok(())
    }

    pub(crate) fn write(&self, screen: &mut Screen) -> io::Result<()> {
        let width = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = self.headings.iter().map(|(heading, _)| width(heading)).collect();
        for row in &self.rows {
            for (most, cell) in widths.iter_mut().zip(row) {
                *most = (*most).max(width(cell));
            }
        }
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for ((cell, &wide), (_, align)) in cells.zip(&widths).zip(&self.headings) {
                line.push_str(if line.is_empty() { "  " } else { "   " });
                match align {
                    Align::Left => line.push_str(&format!("{cell:<wide$}")),
                    Align::Right => line.push_str(&format!("{cell:>wide$}")),
                }
            }
            line.truncate(line.trim_end().len());
            line
        };
        if screen.has_headings() {
            let heading = line(&mut self.headings.iter().map(|(heading, _)| *heading));
            let heading = screen.paint(Style::Heading, heading);
            writeln!(screen, "{heading}")?;
        }
        for row in &self.rows {
            writeln!(screen, "{}", line(&mut row.iter().map(String::as_str)))?;
        }
        Ok(())
    }
}
