//! Metrics, by the rules of OpenMetrics 1.0, and what dashboards and alerts make of them.

use std::collections::{BTreeMap, BTreeSet};

use guideway_testbed::privilege;
use serde_json::Value;

use crate::bed::{Bed, Engine, backends, config, end};

/// What each family is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Counter,
    Gauge,
    Histogram,
    Info,
}

impl Type {
    /// The endings of its samples' names.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["_total"],
            Self::Gauge => &[""],
            Self::Histogram => &["_bucket", "_sum", "_count"],
            Self::Info => &["_info"],
        }
    }
}

/// The families of a text, if it is one by the grammar and the rules of OpenMetrics, as far as it uses them.
fn families(text: &str) -> Result<BTreeMap<String, Type>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
    let mut families: BTreeMap<String, Type> = BTreeMap::new();
    let mut current: Option<(String, Type)> = None;
    let mut series = BTreeSet::new();
    // What the last bucket holds.
    let mut bucket = 0.0;
    for line in body.lines() {
        let wrong = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else { return wrong("no type") };
            let kind = match kind {
                "counter" => Type::Counter,
                "gauge" => Type::Gauge,
                "histogram" => Type::Histogram,
                "info" => Type::Info,
                _ => return wrong("an unknown type"),
            };
            if !is_name(name) || name.ends_with("_total") || name.ends_with("_info") {
                return wrong("no name for a family");
            }
            if families.insert(name.to_owned(), kind).is_some() {
                return wrong("a family that comes twice");
            }
            current = Some((name.to_owned(), kind));
            bucket = 0.0;
            continue;
        }
        let Some((family, kind)) = &current else { return wrong("a line before the first family") };
        if let Some(rest) = line.strip_prefix("# HELP ") {
            if rest.split_once(' ').is_none_or(|(name, help)| name != family || help.is_empty()) {
                return wrong("help of something else");
            }
            continue;
        }
        let Some((of, value)) = line.rsplit_once(' ') else { return wrong("no value") };
        let (name, labels) = of.split_once('{').map_or((of, ""), |(name, labels)| (name, labels));
        if !kind.endings().iter().any(|ending| name == format!("{family}{ending}")) {
            return wrong("a sample of another family");
        }
        if of.contains('{') && !labels.strip_suffix('}').is_some_and(are_labels) {
            return wrong("labels that are none");
        }
        let Ok(value) = value.parse::<f64>() else { return wrong("a value that is no number") };
        if *kind == Type::Counter && (value.is_nan() || value < 0.0) {
            return wrong("a counter below zero");
        }
        if *kind == Type::Histogram {
            if name.ends_with("_bucket") && value < std::mem::replace(&mut bucket, value) {
                return wrong("a bucket that holds less than a smaller one");
            }
            if name.ends_with("_count") && !value.eq(&bucket) {
                return wrong("a count that is not that of the largest bucket");
            }
        }
        if *kind == Type::Info && value != 1.0 {
            return wrong("an info that is not 1");
        }
        if !series.insert(of.to_owned()) {
            return wrong("a series that comes twice");
        }
    }
    Ok(families)
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `a="x",b="y"`, with each name once, and quotes, backslashes and line ends escaped.
fn are_labels(mut text: &str) -> bool {
    let mut names = BTreeSet::new();
    loop {
        let Some((name, rest)) = text.split_once("=\"") else { return false };
        if !is_name(name) || !names.insert(name) {
            return false;
        }
        let mut escaped = false;
        let end = rest.char_indices().find(|&(_, c)| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some((end, _)) = end else { return false };
        match rest[end + 1..].strip_prefix(',') {
            Some(more) => text = more,
            None => return rest[end + 1..].is_empty(),
        }
    }
}

/// Every name of a metric of ours in a text.
fn named(text: &str) -> BTreeSet<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !part(c)).filter(|word| word.starts_with("guideway_"));
    words.map(str::to_owned).collect()
}

#[test]
fn the_rules_of_the_text_are_checked() {
    let good = "# TYPE a counter\n# HELP a Some.\na_total{x=\"1\",y=\"a\\\"b\"} 3\n# TYPE b gauge\n# HELP b B.\nb -1.5\n\
                # TYPE c histogram\n# HELP c C.\nc_bucket{le=\"1.0\"} 2\nc_bucket{le=\"+Inf\"} 4\nc_sum 9\nc_count 4\n# EOF\n";
    assert_eq!(families(good).unwrap().len(), 3);
    for (from, to) in [
        ("# EOF\n", ""),
        ("a_total{", "a{"),
        ("} 3", "} three"),
        ("} 3", "} -3"),
        (",y=", ",x="),
        ("\\\"", "\""),
        ("# TYPE b gauge", "# TYPE a gauge"),
        ("b -1.5", "b -1.5\nb -1.5"),
        ("# HELP b", "# HELP a"),
        ("counter", "kounter"),
        ("+Inf\"} 4", "+Inf\"} 1"),
        ("c_count 4", "c_count 5"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(families(&bad).is_err(), "{bad}");
    }
}

#[test]
fn dashboards_and_alerts_name_metrics_that_there_are_and_the_text_is_open_metrics() {
    let dashboard = include_str!("../../../../packaging/grafana/guideway.json");
    let alerts = include_str!("../../../../packaging/prometheus/guideway.rules.yml");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels have id {}", panel["id"]);
        let asks = panel["targets"].as_array().is_some_and(|targets| !targets.is_empty());
        assert!(asks || panel["type"] == "row", "{} asks nothing", panel["title"]);
    }
    if !privilege::granted() {
        return;
    }
    let bed = Bed::new("metrics", Engine::Soft);
    bed.configure(&config("200ms", &backends(3, |n| if n == 3 { ", state = \"draining\"" } else { "" })));
    let daemon = bed.run();
    bed.serves();
    let text = bed.command("metrics --openmetrics").stdout;
    let families = families(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let all =
        families.iter().flat_map(|(name, kind)| kind.endings().iter().map(move |end| format!("{name}{end}")));
    let exported: BTreeSet<String> = all.collect();
    for (file, names) in [("the dashboard", named(&dashboard.to_string())), ("the alerts", named(alerts))] {
        assert!(names.len() > 5, "{file} names {names:?}");
        let unknown: Vec<_> = names.difference(&exported).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}, which the daemon does not export");
    }
    let shown = named(&dashboard.to_string());
    let first = families.iter().map(|(name, kind)| format!("{name}{}", kind.endings()[0]));
    let forgotten: Vec<_> = first.filter(|name| !shown.contains(name)).collect();
    assert!(forgotten.len() < 4, "the dashboard shows nothing of {forgotten:?}");
    assert!(end(daemon).status.success());
}

#[test]
fn alerts_tell_of_what_they_are_about_and_of_nothing_else() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus");
    let mut promtool = std::process::Command::new("promtool");
    let tested = promtool.args(["test", "rules", "guideway.test.yml"]).current_dir(folder).output();
    match tested {
        Ok(tested) => assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr)),
        Err(_) => eprintln!("passed over: promtool is not installed"),
    }
}
