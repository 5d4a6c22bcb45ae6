//! The API's own description, made from the types that it answers with.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::model::Problem;
use super::routes;

/// The OpenAPI document.
pub(super) fn document() -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let problem = generator.subschema_for::<Problem>().to_value();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes::all() {
        let mut parameters: Vec<Value> = path_parameters(route.path)
            .map(|name| {
                let what = json!({ "description": "its name", "type": "string" });
                parameter(name, "path", &what, true)
            })
            .collect();
        parameters.extend(query_parameters(&(route.query)(&mut generator)));
        if route.conditional {
            let what = "the ETag of what the change is based on, or `*`";
            let what = json!({ "description": what, "type": "string" });
            parameters.push(parameter("If-Match", "header", &what, true));
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
        if let Some((media_type, schema)) = (route.body)(&mut generator) {
            let mut content = Map::new();
            content.insert(media_type.to_owned(), json!({ "schema": schema }));
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        let path = paths.entry(route.path.to_owned()).or_insert_with(|| json!({}));
        path[route.verb.as_str()] = operation;
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

/// The fields of a query.
fn query_parameters(schema: &Value) -> Vec<Value> {
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
    };
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields.map(|(name, what)| parameter(name, "query", what, required(name))).collect()
}

fn parameter(name: &str, place: &str, schema: &Value, required: bool) -> Value {
    json!({
        "name": name,
        "in": place,
        "description": schema["description"],
        "required": required,
        "schema": schema,
    })
}

#[cfg(test)]
mod tests {
    use super::super::problem::Kind;
    use super::*;

    #[test]
    fn the_page_of_the_api_names_every_route_and_every_problem() {
        let page = include_str!("../../../../docs/api.md");
        for (path, verbs) in document()["paths"].as_object().unwrap() {
            for verb in verbs.as_object().unwrap().keys() {
                let named = format!("`{} {path}`", verb.to_uppercase());
                assert!(page.contains(&named), "docs/api.md does not tell of {named}");
            }
        }
        for (status, name) in Kind::ALL.map(Kind::status_and_name) {
            let row =
                page.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{name}`")));
            let row = row.unwrap_or_else(|| panic!("docs/api.md does not tell of {name}"));
            assert!(row.contains(&format!("| {} |", status.as_u16())), "{row}");
        }
    }

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
        let explain = &document["paths"]["/v1/explain"]["get"]["parameters"][0];
        assert_eq!((&explain["name"], &explain["required"]), (&json!("destination"), &json!(true)));
        assert!(
            document["paths"]["/v1/apply"]["post"]["requestBody"]["content"]["application/toml"].is_object()
        );
        assert!(document["components"]["schemas"]["Status"]["properties"]["digest"].is_object());
    }
}
