//! The API's own description, made from the types that it answers with.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::model::*;

/// A route, as the document tells it.
struct Route {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// Names of query parameters, with what they are.
    query: &'static [(&'static str, &'static str)],
    answer: fn(&mut SchemaGenerator) -> Value,
    body: Option<fn(&mut SchemaGenerator) -> Value>,
}

fn of<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn anything(_: &mut SchemaGenerator) -> Value {
    json!({ "type": "object" })
}

const fn read(
    path: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answer: fn(&mut SchemaGenerator) -> Value,
) -> Route {
    Route { method: "get", path, summary, query, answer, body: None }
}

const fn change(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    body: Option<fn(&mut SchemaGenerator) -> Value>,
) -> Route {
    Route { method, path, summary, query: &[], answer: of::<Backend>, body }
}

const ROUTES: &[Route] = &[
    read("/v1/status", "The daemon and its forwarder as a whole", &[], of::<Status>),
    read("/v1/services", "All services with their backends", &[], of::<Vec<Service>>),
    read("/v1/services/{service}", "A service with its backends", &[], of::<Service>),
    read(
        "/v1/services/{service}/table",
        "Who owns which slot",
        &[("from", "the first slot"), ("limit", "how many")],
        of::<Table>,
    ),
    read("/v1/services/{service}/backends/{backend}", "A backend", &[], of::<Backend>),
    change(
        "put",
        "/v1/services/{service}/backends/{backend}/admin",
        "Says whether a backend takes flows, over reloads and restarts, until it is taken back",
        Some(of::<SetAdmin>),
    ),
    change(
        "put",
        "/v1/services/{service}/backends/{backend}/weight",
        "Gives a backend another weight, over reloads and restarts, until it is taken back",
        Some(of::<SetWeight>),
    ),
    change(
        "delete",
        "/v1/services/{service}/backends/{backend}/override",
        "Takes back what operators said of a backend: the configuration holds again",
        None,
    ),
    read("/v1/backends", "All backends", &[("service", "only those of this service")], of::<Vec<Backend>>),
    read("/v1/drains", "Drains under way and those that ended lately", &[], of::<Vec<Drain>>),
    read(
        "/v1/flows",
        "Live flows that are remembered",
        &[
            ("service", "only those of this service"),
            ("backend", "only those of this backend"),
            ("limit", "how many"),
        ],
        of::<Flows>,
    ),
    read(
        "/v1/events",
        "What happened lately, oldest first",
        &[("after", "only those after this number"), ("limit", "only so many of the newest")],
        of::<Vec<Event>>,
    ),
    read("/v1/config", "The configuration in force, with every default filled in", &[], anything),
    Route {
        method: "post",
        path: "/v1/reload",
        summary: "Has the configuration file read again; a bad one changes nothing",
        query: &[],
        answer: anything,
        body: None,
    },
    Route {
        method: "post",
        path: "/v1/plan",
        summary: "What the configuration in the body (TOML) would change; changes nothing",
        query: &[],
        answer: of::<Plan>,
        body: None,
    },
    Route {
        method: "post",
        path: "/v1/apply",
        summary: "Takes the configuration in the body (TOML), all of it or nothing; needs If-Match",
        query: &[("confirm_within_seconds", "it goes back after this time unless it is confirmed")],
        answer: of::<Applied>,
        body: None,
    },
    Route {
        method: "post",
        path: "/v1/confirm",
        summary: "Keeps the configuration on trial",
        query: &[],
        answer: anything,
        body: None,
    },
    Route {
        method: "post",
        path: "/v1/rollback",
        summary: "Goes back to the configuration before this one; needs If-Match",
        query: &[],
        answer: of::<Applied>,
        body: None,
    },
    read(
        "/v1/explain",
        "What the forwarder would do with packets of a flow now; by POST the program in the kernel is asked as well",
        &[("source", "address:port"), ("destination", "address:port"), ("protocol", "tcp or udp")],
        of::<Explanation>,
    ),
];

/// The OpenAPI document.
pub(super) fn document() -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let problem = of::<Problem>(&mut generator);
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let mut parameters: Vec<Value> = path_parameters(route.path)
            .map(|name| parameter(name, "path", "its name", true))
            .chain(route.query.iter().map(|(name, what)| parameter(name, "query", what, false)))
            .collect();
        if route.body.is_some() || route.method == "delete" {
            let what = "the ETag of what the change is based on, or `*`";
            parameters.push(parameter("If-Match", "header", what, true));
        }
        let answer = (route.answer)(&mut generator);
        let mut operation = json!({
            "summary": route.summary,
            "parameters": parameters,
            "responses": {
                "200": { "description": "so it is", "content": { "application/json": { "schema": answer } } },
                "default": {
                    "description": "refused",
                    "content": { "application/problem+json": { "schema": problem } }
                }
            }
        });
        if let Some(body) = route.body {
            let schema = body(&mut generator);
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        }
        let path = paths.entry(route.path.to_owned()).or_insert_with(|| json!({}));
        path[route.method] = operation;
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Guideway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "GET never changes anything. Changes need If-Match. Field names stay; fields are added."
        },
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) }
    })
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn parameter(name: &str, place: &str, what: &str, required: bool) -> Value {
    json!({ "name": name, "in": place, "description": what, "required": required, "schema": { "type": "string" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        fn check(document: &Value, value: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(reference)) = map.get("$ref") {
                        let pointer = reference.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{reference}");
                    }
                    map.values().for_each(|value| check(document, value));
                }
                Value::Array(list) => list.iter().for_each(|value| check(document, value)),
                _ => {}
            }
        }
        let document = document();
        check(&document, &document);
        let admin = &document["paths"]["/v1/services/{service}/backends/{backend}/admin"]["put"];
        assert_eq!(admin["parameters"][2]["name"], "If-Match");
        assert!(document["components"]["schemas"]["Status"]["properties"]["digest"].is_object());
    }
}
