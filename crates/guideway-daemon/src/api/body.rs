//! Bodies of requests.

use guideway_control::config::{Config, Source};
use guideway_control::printable::printable;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::problem::{Kind, Refusal};

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
        serde_json::from_slice(bytes).map(Self).map_err(|error| {
            let detail = format!("the body is not understood: {error}");
            Refusal::new(Kind::BadBody, detail)
        })
    }

    fn tell(bytes: &[u8]) -> Option<String> {
        Some(printable(&String::from_utf8_lossy(bytes)).into_owned())
    }

    fn schema(generator: &mut SchemaGenerator) -> Option<(&'static str, Value)> {
        Some(("application/json", generator.subschema_for::<T>().to_value()))
    }
}

/// The text of a configuration; whether it is a good one is for the loop to say.
pub(super) struct ConfigText(pub(super) String);

impl Body for ConfigText {
    fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|error| Refusal::bad(format!("the configuration is not UTF-8: {error}")))?;
        if text.trim().is_empty() {
            let detail = "the body is empty: a configuration (TOML) is wanted; one without services has a comment at least";
            return Err(Refusal::new(Kind::BadBody, detail));
        }
        Ok(Self(text))
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
        let ConfigText(text) = ConfigText::read(bytes)?;
        let config = guideway_control::config::parse(&Source::new("<request>", text));
        config
            .map(|config| Self(Box::new(config)))
            .map_err(|problems| Refusal::new(Kind::BadConfig, problems.to_string()))
    }

    fn tell(bytes: &[u8]) -> Option<String> {
        ConfigText::tell(bytes)
    }

    fn schema(generator: &mut SchemaGenerator) -> Option<(&'static str, Value)> {
        ConfigText::schema(generator)
    }
}
