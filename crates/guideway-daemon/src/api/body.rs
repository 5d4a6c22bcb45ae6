//! Bodies of requests.

use std::fmt::Display;

use guideway_control::config::{Config, Source};
use guideway_control::printable::printable;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::problem::{Kind, Refusal, beyond};

/// What a body can be. It is read before the loop hears of it.
pub(super) trait Body: Sized + Send + 'static {
    /// Whether the body is read at all.
    const WANTED: bool = true;

    fn read(bytes: &[u8]) -> Result<Self, Refusal>;

    /// What the audit log says of it.
    fn tell(bytes: &[u8]) -> Option<String>;

    /// Its media type and schema.
    fn schema(generator: &mut SchemaGenerator) -> Option<(&'static str, Value)>;
}

/// None; what is there is not read.
pub(super) struct NoBody;

impl Body for NoBody {
    const WANTED: bool = false;

    fn read(_: &[u8]) -> Result<Self, Refusal> {
        Ok(Self)
    }

    fn tell(_: &[u8]) -> Option<String> {
        None
    }

    fn schema(_: &mut SchemaGenerator) -> Option<(&'static str, Value)> {
        None
    }
}

/// A value as JSON.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Body for Json<T> {
    fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let wrong =
            |error: &dyn Display| Refusal::new(Kind::BadBody, format!("the body is not understood: {error}"));
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        // With the field that it is about.
        let value = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| out_of_range::<T>(bytes).unwrap_or_else(|| wrong(&error)))?;
        reader.end().map_err(|error| wrong(&error))?;
        Ok(Self(value))
    }

    fn tell(bytes: &[u8]) -> Option<String> {
        Some(printable(&String::from_utf8_lossy(bytes)).into_owned())
    }

    fn schema(generator: &mut SchemaGenerator) -> Option<(&'static str, Value)> {
        Some(("application/json", generator.subschema_for::<T>().to_value()))
    }
}

/// The refusal of the first number of a body that its field has no room for, if there is one.
fn out_of_range<T: JsonSchema>(bytes: &[u8]) -> Option<Refusal> {
    let body: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    let schema = T::json_schema(&mut SchemaSettings::openapi3().into_generator()).to_value();
    body.iter().find_map(|(field, value)| {
        let number = value.as_number()?;
        // JSON has whole numbers that no integer holds.
        let huge = number.as_f64().filter(|huge| number.is_f64() && huge.fract() == 0.0);
        let written = huge.map_or_else(|| number.to_string(), |huge| format!("{huge:.0}"));
        beyond(field, &written, &schema["properties"][field])
    })
}

/// A configuration, good or bad: what is wrong with a bad one is for the loop to tell, and the audit log.
pub(super) struct AnyConfig {
    pub(super) text: String,
    pub(super) config: Result<Box<Config>, Refusal>,
}

impl Body for AnyConfig {
    fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|error| Refusal::bad(format!("the configuration is not UTF-8: {error}")))?;
        if text.trim().is_empty() {
            let detail = "the body is empty: a configuration (TOML) is wanted; one without services has a comment at least";
            return Err(Refusal::new(Kind::BadBody, detail));
        }
        let source = Source::new("<request>", text);
        let config = guideway_control::config::parse(&source);
        let config = config.map(Box::new).map_err(|problems| Refusal::bad_config(&problems));
        Ok(Self { text: source.into_text(), config })
    }

    fn tell(bytes: &[u8]) -> Option<String> {
        Some(format!("{} bytes of TOML", bytes.len()))
    }

    fn schema(_: &mut SchemaGenerator) -> Option<(&'static str, Value)> {
        Some(("application/toml", json!({ "type": "string" })))
    }
}

/// A good configuration.
pub(super) struct GoodConfig(pub(super) Box<Config>);

impl Body for GoodConfig {
    fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let AnyConfig { config, .. } = AnyConfig::read(bytes)?;
        config.map(Self)
    }

    fn tell(bytes: &[u8]) -> Option<String> {
        AnyConfig::tell(bytes)
    }

    fn schema(generator: &mut SchemaGenerator) -> Option<(&'static str, Value)> {
        AnyConfig::schema(generator)
    }
}
