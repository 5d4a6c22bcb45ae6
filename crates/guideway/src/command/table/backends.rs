//! Backends from flags, from a file, or from standard input.

use std::fmt;
use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use guideway_hash::profile::{Member, Profile, State};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::failure::Failure;

/// Where the backends come from: one of the two, or standard input.
#[derive(Debug, clap::Args)]
pub(crate) struct BackendArgs {
    /// Backends, separated by commas: NAME, or NAME=WEIGHT
    ///
    /// A name is what is hashed: an address and port, or any text that stays the same. Weight 0 owns nothing. Commas
    /// inside brackets belong to the name. May be given several times.
    #[arg(short, long, value_name = "LIST", value_parser = parse_list, action = clap::ArgAction::Append)]
    pub(crate) backends: Vec<List>,

    /// Read the backends from FILE (`-` for standard input): JSON, one backend a line or one array
    ///
    /// A backend is a name in quotes, or an object with `name` (or `key`) and, as needed, `weight`, `state` (active, draining,
    /// down, maintenance), `locality`, `hostname`, `hash_key`, `last_weight`. Without --backends and --file, standard
    /// input is read.
    #[arg(short, long, value_name = "FILE", conflicts_with = "backends")]
    pub(crate) file: Option<PathBuf>,
}

impl BackendArgs {
    /// Reads them.
    pub(crate) fn read(&self) -> Result<Vec<Backend>, Failure> {
        if !self.backends.is_empty() {
            return Ok(self.backends.iter().flat_map(|list| list.0.iter().cloned()).collect());
        }
        match &self.file {
            Some(path) => read_file(path),
            None if io::stdin().is_terminal() => Err(Failure::usage(
                "no backends are given; say --backends a,b,c, or --file backends.json, or pipe JSON lines such as \
                 {\"name\":\"a\",\"weight\":2} into standard input",
            )),
            None => read_file(Path::new("-")),
        }
    }
}

/// A backend as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) name: String,
    weight: Option<u32>,
    state: State,
    locality: Option<u32>,
    hostname: Option<String>,
    hash_key: Option<String>,
    last_weight: Option<u32>,
}

impl Backend {
    pub(crate) fn new(name: &str, weight: Option<u32>) -> Self {
        let (state, name) = (State::Active, name.to_owned());
        Self { name, weight, state, locality: None, hostname: None, hash_key: None, last_weight: None }
    }

    /// The same backend with another weight.
    pub(crate) fn with_weight(self, weight: u32) -> Self {
        Self { weight: Some(weight), ..self }
    }

    /// The weight that was given, if any was.
    pub(crate) fn given_weight(&self) -> Option<u32> {
        self.weight
    }

    /// Its weight; the profile's own default where none was given.
    pub(crate) fn weight(&self, profile: Profile) -> u32 {
        self.weight.unwrap_or(profile.default_weight())
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Whether it may own slots, as far as its state and weight say.
    pub(crate) fn is_eligible(&self, profile: Profile) -> bool {
        self.state == State::Active && self.weight(profile) > 0
    }

    /// As a profile sees it.
    pub(crate) fn member(&self, profile: Profile) -> Member<'_> {
        Member {
            state: self.state,
            locality: self.locality,
            hostname: self.hostname.as_deref(),
            hash_key: self.hash_key.as_deref(),
            last_weight: self.last_weight,
            ..Member::new(&self.name, self.weight(profile))
        }
    }
}

/// The failure of a list in which the backends at places `first` and `second`, counted from 0, are the same.
pub(crate) fn same_identity(backends: &[Backend], first: usize, second: usize) -> Failure {
    let who = |place: usize| {
        let name = backends.get(place).map_or("", |backend| backend.name.as_str());
        format!("backend {place} ({name:?})")
    };
    Failure::failed(format!(
        "{} and {} have the same identity; give each backend its own",
        who(first),
        who(second)
    ))
}

/// The backends of one flag.
#[derive(Clone, Debug)]
pub(crate) struct List(pub(crate) Vec<Backend>);

/// Reads `a,b=2,[2001:db8::1]:443`.
pub(crate) fn parse_list(text: &str) -> Result<List, String> {
    let mut depth = 0usize;
    let items = text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    items.map(parse_one).collect::<Result<_, _>>().map(List)
}

/// Reads `a` or `a=2`.
pub(crate) fn parse_one(text: &str) -> Result<Backend, String> {
    let text = text.trim();
    let (name, weight) = match text.rsplit_once('=') {
        None => (text, None),
        Some((name, weight)) => {
            let wrong = || {
                format!(
                    "the weight of {name:?} is {weight:?}; write a whole number from 0 to 4294967295 after the ="
                )
            };
            (name, Some(weight.trim().parse().map_err(|_| wrong())?))
        }
    };
    if name.is_empty() {
        return Err("a backend has no name; write names separated by single commas, such as a,b,c=2".into());
    }
    Ok(Backend::new(name, weight))
}

/// Reads the backends of a file; `-` is standard input.
pub(crate) fn read_file(path: &Path) -> Result<Vec<Backend>, Failure> {
    let (name, text) = read_text(path)?;
    let backends = parse_json(&text).map_err(|error| {
        let (place, message) = located(&error);
        Failure::failed(format!(
            "{name}:{place}: {message}; a backend is \"name\" or {{\"name\": \"a\", \"weight\": 2}}, one a line or in one array"
        ))
    })?;
    if backends.is_empty() {
        return Err(Failure::failed(format!("{name} names no backend; give at least one")));
    }
    Ok(backends)
}

/// What no list of backends or records reaches.
const MAX_BYTES: u64 = 512 << 20;

/// The text of a file and the name to call it by; `-` is standard input.
pub(crate) fn read_text(path: &Path) -> Result<(String, String), Failure> {
    let (name, bytes) = if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes);
        ("standard input".to_owned(), read.map(|_| bytes))
    } else {
        let mut bytes = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        (path.display().to_string(), read.map(|_| bytes))
    };
    let bytes = bytes.map_err(|error| Failure::failed(format!("can't read {name}: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        let limit = MAX_BYTES >> 20;
        return Err(Failure::failed(format!("{name} is larger than {limit} MiB; is it the right file?")));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
            Err(Failure::failed(format!("{name}:{line}: this is no UTF-8 text; give JSON text")))
        }
    }
}

/// Line and column of an error in JSON, and what it says without them.
pub(crate) fn located(error: &serde_json::Error) -> (String, String) {
    let message = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    let bare = message.strip_suffix(&suffix).unwrap_or(&message).to_owned();
    (format!("{}:{}", error.line(), error.column()), bare)
}

fn parse_json(text: &str) -> Result<Vec<Backend>, serde_json::Error> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text);
    }
    serde_json::Deserializer::from_str(text).into_iter().collect()
}

impl<'de> Deserialize<'de> for Backend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrObject)
    }
}

struct NameOrObject;

impl<'de> Visitor<'de> for NameOrObject {
    type Value = Backend;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a backend's name or an object with its name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Backend, E> {
        if name.is_empty() {
            return Err(E::custom("a backend has an empty name"));
        }
        Ok(Backend::new(name, None))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Backend, A::Error> {
        let object = Object::deserialize(MapAccessDeserializer::new(map))?;
        let backend = self.visit_str(&object.name)?;
        Ok(Backend {
            weight: object.weight,
            state: object.state,
            locality: object.locality,
            hostname: object.hostname,
            hash_key: object.hash_key,
            last_weight: object.last_weight,
            ..backend
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    #[serde(alias = "key")]
    name: String,
    weight: Option<u32>,
    #[serde(default, deserialize_with = "state")]
    state: State,
    locality: Option<u32>,
    hostname: Option<String>,
    hash_key: Option<String>,
    last_weight: Option<u32>,
    /// Golden records number their backends; the place in the list says the same.
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
}

fn state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<State, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(|error| D::Error::custom(format!("state {name:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<(String, Option<u32>)> {
        parse_list(list).unwrap().0.into_iter().map(|backend| (backend.name, backend.weight)).collect()
    }

    #[test]
    fn lists_take_weights_and_leave_brackets_alone() {
        let expected = [("a".into(), None), ("b".into(), Some(2)), ("[2001:db8::1]:443".into(), Some(0))];
        assert_eq!(names("a, b=2,[2001:db8::1]:443=0"), expected);
        assert_eq!(names("[10.0.0.1:80/TCP,State:active]").len(), 1);
        assert!(parse_list("a,,b").unwrap_err().contains("no name"));
        assert!(parse_list("a=-1").unwrap_err().contains("-1"));
        assert!(parse_list("").is_err());
    }

    #[test]
    fn json_may_be_lines_or_an_array() {
        let lines =
            "\"a\"\n{\"key\":\"b\",\"weight\":2}\n\n{\"name\":\"c\",\"state\":\"draining\",\"id\":7}\n";
        let array = r#"["a", {"name": "b", "weight": 2}, {"name": "c", "state": "draining"}]"#;
        let backends = parse_json(lines).unwrap();
        assert_eq!(backends, parse_json(array).unwrap());
        assert_eq!(backends[2].state(), State::Draining);
    }

    #[test]
    fn errors_in_json_have_a_place() {
        let place = |text: &str| located(&parse_json(text).unwrap_err());
        assert!(place("\"a\"\n{\"name\":\"b\",\"wieght\":2}\n").0.starts_with("2:"));
        assert!(place("{\"name\":\"b\",\"wieght\":2}").1.contains("`wieght`"));
        assert!(place("[\n{\"name\":\"b\",\"state\":\"tired\"}]").1.contains("tired"));
        assert!(place("{\"name\":\"b\",\"weight\":-1}").1.contains("-1"));
        assert!(place("{\"weight\":1}").1.contains("missing field"));
        assert!(place("a\nb").0.starts_with("1:"));
    }
}
