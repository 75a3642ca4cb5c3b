use serde_json::json;

use super::*;

fn read(body: &Value) -> Result<Option<Constrained>, ApiError> {
    let mut fields = Fields::parse(body.to_string().as_bytes())?;
    let found = take(&mut fields)?;
    fields.finish_known()?;
    Ok(found)
}

#[test]
fn every_form_of_a_constraint_is_read() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let of_schema = || Grammar::JsonSchema(schema.clone());
    let choice = Grammar::Choice(vec!["a".to_owned(), "b".to_owned()]);
    for (body, grammar, field) in [
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": {
                "name": "x", "description": "y", "strict": true, "schema": schema } } }),
            of_schema(),
            "response_format.json_schema.schema",
        ),
        (
            json!({ "response_format": { "type": "json_schema", "schema": schema } }),
            of_schema(),
            "response_format.schema",
        ),
        (
            json!({ "response_format": { "type": "json_object", "schema": schema } }),
            of_schema(),
            "response_format.schema",
        ),
        (
            json!({ "response_format": { "type": "json_object" } }),
            Grammar::JsonObject,
            "response_format",
        ),
        (
            json!({ "structured_outputs": { "json": schema } }),
            of_schema(),
            "structured_outputs.json",
        ),
        (
            json!({ "structured_outputs": { "json": schema.to_string() } }),
            of_schema(),
            "structured_outputs.json",
        ),
        (
            json!({ "structured_outputs": { "json_object": true } }),
            Grammar::JsonObject,
            "structured_outputs.json_object",
        ),
        (
            json!({ "structured_outputs": { "regex": "a+" } }),
            Grammar::Regex("a+".to_owned()),
            "structured_outputs.regex",
        ),
        (
            json!({ "structured_outputs": { "choice": ["a", "b"] } }),
            choice.clone(),
            "structured_outputs.choice",
        ),
        (
            json!({ "structured_outputs": { "grammar": "start: \"a\"" } }),
            Grammar::Lark("start: \"a\"".to_owned()),
            "structured_outputs.grammar",
        ),
        (json!({ "guided_json": schema }), of_schema(), "guided_json"),
        (
            json!({ "guided_choice": ["a", "b"] }),
            choice,
            "guided_choice",
        ),
        (json!({ "json_schema": schema }), of_schema(), "json_schema"),
    ] {
        let field = field.to_owned();
        let expected = Constrained { grammar, field };
        assert_eq!(read(&body), Ok(Some(expected)), "{body}");
    }
    for body in [
        json!({}),
        json!({ "response_format": null, "structured_outputs": {} }),
        json!({ "response_format": { "type": "text" }, "grammar": "" }),
    ] {
        assert_eq!(read(&body), Ok(None), "{body}");
    }
}

#[test]
fn what_is_wrong_or_not_supported_is_named() {
    for (body, param) in [
        (json!({ "response_format": "json" }), "response_format"),
        (json!({ "response_format": {} }), "response_format.type"),
        (
            json!({ "response_format": { "type": "structural_tag" } }),
            "response_format.type",
        ),
        (
            json!({ "response_format": { "type": "json_schema" } }),
            "response_format.json_schema",
        ),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "a" } } }),
            "response_format.json_schema.schema",
        ),
        (
            json!({ "response_format": { "type": "json_schema",
                    "json_schema": { "schema": [] } } }),
            "response_format.json_schema.schema",
        ),
        (
            json!({ "response_format": { "type": "text", "more": 1 } }),
            "response_format.more",
        ),
        (
            json!({ "structured_outputs": { "choice": [] } }),
            "structured_outputs.choice",
        ),
        (
            json!({ "structured_outputs": { "structural_tag": "{}" } }),
            "structured_outputs.structural_tag",
        ),
        (
            json!({ "structured_outputs": { "regex": "a", "choice": ["b"] } }),
            "structured_outputs.choice",
        ),
        (
            json!({ "response_format": { "type": "json_object" }, "guided_regex": "a" }),
            "guided_regex",
        ),
        (json!({ "guided_regex": 1 }), "guided_regex"),
        (json!({ "guided_json": "not JSON" }), "guided_json"),
        (json!({ "grammar": "root ::= \"a\"" }), "grammar"),
    ] {
        let error = read(&body).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{body}");
        assert_eq!(error.status.as_u16(), 400);
    }
}

#[test]
fn the_formats_of_other_protocols_are_read() {
    let located = |value: Value| {
        let body = json!({ "format": value }).to_string();
        let mut fields = Fields::parse(body.as_bytes()).unwrap();
        fields.required("format").unwrap()
    };
    let grammar = |value| ollama(located(value)).map(|found| found.map(|found| found.grammar));
    assert_eq!(grammar(json!("json")), Ok(Some(Grammar::JsonObject)));
    assert_eq!(grammar(json!("")), Ok(None));
    let schema = json!({ "type": "integer" });
    let expected = Grammar::JsonSchema(schema.clone());
    assert_eq!(grammar(schema.clone()), Ok(Some(expected.clone())));
    assert!(grammar(json!("xml")).is_err());
    let fields = |value| located(value).object().unwrap();
    let given = json!({ "type": "json_schema", "name": "a", "strict": true, "schema": schema });
    let found = format(fields(given)).unwrap().unwrap();
    assert_eq!((found.grammar, &*found.field), (expected, "format.schema"));
    let error = format(fields(json!({ "type": "json_schema" }))).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("format.schema"));
}
