//! The texts below the options in a command's help: prose is broken where the terminal ends, lists and examples are broken here,
//! so that what goes on hangs below what it belongs to.

/// Lines of lists and examples are this wide at most: the terminal that help texts are written for.
pub(crate) const WIDTH: usize = 80;

/// A description beside its term has at least this much room; with less it goes below.
const ROOM: usize = 24;

/// Where a description hangs that goes below its term, and a command that goes on.
const BELOW: usize = 6;

/// A whole text, paragraph by paragraph.
pub(crate) fn laid_out(text: &str) -> String {
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n")
}

fn paragraph(text: &str) -> String {
    let indents = text.lines().map(indent).filter(|&indent| indent > 0);
    let Some(first) = indents.min() else { return text.lines().collect::<Vec<_>>().join(" ") };
    let mut items: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match items.last_mut() {
            Some(item) if indent(line) > first => item.push(line),
            _ => items.push(vec![line]),
        }
    }
    items.iter().map(|lines| item(lines)).collect::<Vec<_>>().join("\n")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// One line of a list with those that continue it.
fn item(lines: &[&str]) -> String {
    if lines.iter().all(|line| width(line) <= WIDTH) {
        return lines.join("\n");
    }
    let (first, more) = (lines[0], &lines[1..]);
    let start = &first[..indent(first)];
    let (term, description) = first.trim_start().split_once("  ").unwrap_or((first.trim_start(), ""));
    let command = broken(term, start, " \\", |word| word.starts_with(['-', '|']));
    if description.is_empty() {
        let more = more.first().map(|line| broken(&more.join(" "), &" ".repeat(indent(line)), "", |_| true));
        return [Some(command), more].into_iter().flatten().collect::<Vec<_>>().join("\n");
    }
    let text = [&[description], more].concat().join(" ");
    let column = width(first) - width(description.trim_start());
    let below = " ".repeat(if column + ROOM > WIDTH { BELOW } else { column });
    let text = broken(&text, &below, "", |_| true);
    if column + ROOM > WIDTH {
        format!("{command}\n{text}")
    } else {
        first[..first.len() - description.trim_start().len()].to_owned() + text.trim_start()
    }
}

/// Words in lines that begin with `start`, the later ones a bit deeper where a mark tells that they go on.
fn broken(text: &str, start: &str, mark: &str, may_begin: impl Fn(&str) -> bool) -> String {
    let deeper = if mark.is_empty() { start.to_owned() } else { " ".repeat(BELOW) };
    let mut parts: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match parts.last_mut() {
            Some(part) if !may_begin(word) => *part += &format!(" {word}"),
            _ => parts.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&part) + mark.len() <= WIDTH => {
                *line += &format!(" {part}");
            }
            Some(line) => {
                *line += mark;
                lines.push(format!("{deeper}{part}"));
            }
            None => lines.push(format!("{start}{part}")),
        }
    }
    lines.join("\n")
}

fn width(line: &str) -> usize {
    line.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_flows_and_lists_stay() {
        assert_eq!(laid_out("One sentence goes\non here."), "One sentence goes on here.");
        assert_eq!(laid_out("Examples:\n  guideway demo"), "Examples:\n  guideway demo");
    }

    #[test]
    fn what_goes_on_hangs_below_what_it_belongs_to() {
        let list = format!(
            "Signals:\n  SIGHUP   {}\n           and more\n  SIGTERM  ends",
            "word ".repeat(16).trim_end()
        );
        let expected = format!(
            "Signals:\n  SIGHUP   {}\n           word word and more\n  SIGTERM  ends",
            "word ".repeat(14).trim_end()
        );
        assert_eq!(laid_out(&list), expected);
    }

    #[test]
    fn a_long_command_goes_on_after_a_backslash_and_before_an_option() {
        let command = format!("guideway run -c {} --interface eth0 --state /var/lib", "x".repeat(40));
        let expected =
            format!("  guideway run -c {} --interface eth0 \\\n      --state /var/lib", "x".repeat(40));
        assert_eq!(laid_out(&format!("  {command}")), expected);
        let told = format!("  {command}   what it does");
        assert_eq!(laid_out(&told), format!("{expected}\n      what it does"));
    }
}
