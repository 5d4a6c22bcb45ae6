//! Queries of requests: what is not understood is refused with its name, and with the names that there are.

use axum::extract::Query;
use axum::http::Uri;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::{Refusal, beyond};

/// The query of an address.
pub(super) fn read<Q: DeserializeOwned + JsonSchema>(uri: &Uri) -> Result<Q, Refusal> {
    match Query::<Q>::try_from_uri(uri) {
        Ok(Query(query)) => Ok(query),
        Err(error) => Err(refusal::<Q>(uri, &error.body_text())),
    }
}

/// The parameters of a query: its names, with what each is.
pub(super) fn parameters<Q: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    Q::json_schema(generator).to_value()
}

fn refusal<Q: JsonSchema>(uri: &Uri, said: &str) -> Refusal {
    let schema = parameters::<Q>(&mut SchemaSettings::openapi3().into_generator());
    let known: Vec<&str> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let there_are = match known.as_slice() {
        [] => "it has none".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    let given =
        Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(given)| given).unwrap_or_default();
    let path = uri.path();
    if let Some((name, _)) = given.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Refusal::bad(format!("{path} has no parameter {name:?}; {there_are}"));
    }
    if let Some(refusal) =
        given.iter().find_map(|(name, value)| beyond(name, value, &schema["properties"][name]))
    {
        return refusal;
    }
    // With the name that it is about: that goes before what is said of a value.
    let said = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(said);
    Refusal::bad(format!("the query of {path} is not understood: {said}; {there_are}"))
}

#[cfg(test)]
mod tests {
    use super::super::model::Problem;
    use super::super::openapi::document;
    use crate::in_process::Api;
    use axum::body::Body;
    use axum::http::Request;

    #[test]
    fn parameters_that_a_route_does_not_know_or_understand_are_refused_with_those_that_the_document_has() {
        let mut api = Api::new().unwrap();
        let mut numbers = 0;
        let mut refused = |verb: &str, path: &str, query: &str| {
            let path = path.replace("{service}", "web").replace("{backend}", "be1");
            let request =
                Request::builder().method(verb.to_uppercase().as_str()).uri(format!("{path}?{query}"));
            let answer = api.ask(request.header("If-Match", "*").body(Body::from("{}")).unwrap());
            let problem: Problem = serde_json::from_slice(answer.body()).unwrap();
            assert_eq!(
                (answer.status().as_u16(), &*problem.kind),
                (400, "bad-request"),
                "{verb} {path} {problem:?}"
            );
            problem.detail
        };
        for (path, verbs) in document()["paths"].as_object().unwrap() {
            for (verb, operation) in verbs.as_object().unwrap() {
                let parameters = operation["parameters"].as_array().unwrap();
                let of_query: Vec<_> = parameters.iter().filter(|one| one["in"] == "query").collect();
                let named =
                    |detail: &str| of_query.iter().all(|one| detail.contains(one["name"].as_str().unwrap()));
                let detail = refused(verb, path, "limt=5");
                assert!(detail.contains("\"limt\"") && named(&detail), "{detail}");
                for one in of_query.iter().filter(|one| one["schema"]["type"].to_string().contains("integer"))
                {
                    let name = one["name"].as_str().unwrap();
                    let detail = refused(verb, path, &format!("{name}=abc"));
                    assert!(detail.contains(&format!("{name}: ")) && named(&detail), "{detail}");
                    assert!(refused(verb, path, &format!("{name}=1&{name}=2")).contains(name));
                    numbers += 1;
                }
            }
        }
        assert!(numbers > 5, "{numbers}");
    }

    #[test]
    fn whole_numbers_that_no_type_holds_are_out_of_range_as_others_are() {
        let mut api = Api::new().unwrap();
        let mut refused = |request: axum::http::request::Builder, body: &'static str| {
            let answer = api.ask(request.header("If-Match", "*").body(Body::from(body)).unwrap());
            let problem: Problem = serde_json::from_slice(answer.body()).unwrap();
            (problem.kind, problem.detail)
        };
        for (query, detail) in [
            ("flows?limit=-1", "limit is -1, and can be 0 to 10000"),
            ("flows?limit=99999999999999999999", "limit is 99999999999999999999, and can be 0 to 10000"),
            ("events?after=-1", "after is -1, and can be 0 to 18446744073709551615"),
        ] {
            let refused = refused(Request::get(format!("/v1/{query}")), "");
            assert_eq!(refused, ("out-of-range".to_owned(), detail.to_owned()));
        }
        for (body, detail) in [
            (r#"{"weight": -1}"#, "weight is -1, and can be 0 to 65535"),
            (
                r#"{"weight": 100000000000000000000}"#,
                "weight is 100000000000000000000, and can be 0 to 65535",
            ),
        ] {
            let refused = refused(Request::put("/v1/services/web/backends/be1/weight"), body);
            assert_eq!(refused, ("out-of-range".to_owned(), detail.to_owned()));
        }
    }

    #[test]
    fn what_lacks_is_named() {
        let query = "/v1/explain?source=198.51.100.7:51514&protocol=tcp";
        let answer = Api::new().unwrap().ask(Request::get(query).body(Body::empty()).unwrap());
        let problem: Problem = serde_json::from_slice(answer.body()).unwrap();
        assert!(problem.status == 400 && problem.detail.contains("`destination`"), "{problem:?}");
    }
}
