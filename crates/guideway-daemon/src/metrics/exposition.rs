//! The text of metrics, in both formats.

use std::fmt::{Display, Write};

use guideway_control::histogram::Histogram;

/// How the text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' text format, version 0.0.4: counters and gauges.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What a request with these `Accept` headers gets: OpenMetrics if one of them names it and does not refuse it.
    pub(crate) fn accepted<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let takes_open_metrics = accept.into_iter().flat_map(|list| list.split(',')).any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let named = parts.next().is_some_and(|t| t.eq_ignore_ascii_case("application/openmetrics-text"));
            let quality = |part: &str| match part.split_once('=') {
                Some((key, value)) if key.trim().eq_ignore_ascii_case("q") => {
                    value.trim().parse::<f32>().ok()
                }
                _ => None,
            };
            named && parts.find_map(quality) != Some(0.0)
        });
        if takes_open_metrics { Self::OpenMetrics } else { Self::Classic }
    }

    /// The media type of the text.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page of metrics.
#[derive(Debug)]
pub(super) struct Page {
    format: Format,
    text: String,
}

impl Page {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::new() }
    }

    /// Begins a family; its samples follow.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // The classic format has no infos, and its families bear the names of their samples.
        let (ending, kind) = match (self.format, kind) {
            (Format::Classic, "counter") => ("_total", "counter"),
            (Format::Classic, "info") => ("_info", "gauge"),
            _ => ("", kind),
        };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# TYPE {name}{ending} {kind}\n# HELP {name}{ending} {help}\n");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text += name;
        for (place, (label, value)) in labels.iter().enumerate() {
            self.text.push(if place == 0 { '{' } else { ',' });
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// A family of durations, in seconds. Its bounds are written as OpenMetrics wants them: `1.0`.
    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.within() {
            self.sample(&bucket, &[("le", &format!("{:?}", bound.as_secs_f64()))], count);
        }
        self.sample(&bucket, &[("le", "+Inf")], histogram.count());
        self.sample(&format!("{name}_sum"), &[], histogram.sum().as_secs_f64());
        self.sample(&format!("{name}_count"), &[], histogram.count());
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text += "# EOF\n";
        }
        self.text
    }
}

/// What the samples of a family are called.
pub(super) fn sample_name(family: &str, kind: &str) -> String {
    if kind == "counter" { format!("{family}_total") } else { family.to_owned() }
}
