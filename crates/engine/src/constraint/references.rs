//! Keywords beside a `$ref`, which drafts of JSON Schema up to 7 ignore.
//!
//! llguidance holds them in every draft, and the validator that checks answers does not. So they are
//! removed before a schema is compiled, by the draft that `$schema` declares. Later drafts hold them, as
//! does a schema that declares none.

use serde_json::Value;

/// Declarations of drafts in which a `$ref` replaces its schema, without the `#` at their end.
const REPLACING_DRAFTS: [&str; 3] = [
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
];

/// Keywords that say which values are valid. Others beside a `$ref` stay: definitions are the targets of
/// references, wherever they are.
const ASSERTIONS: [&str; 36] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Removes the keywords that the draft of `schema` ignores because they are beside a `$ref`.
pub(crate) fn remove_ignored(schema: &mut Value) {
    remove_from(schema, false);
}

/// `replaces` says that the draft of the schema around `schema` ignores them.
fn remove_from(schema: &mut Value, mut replaces: bool) {
    let map = match schema {
        Value::Array(schemas) => {
            schemas
                .iter_mut()
                .for_each(|schema| remove_from(schema, replaces));
            return;
        }
        Value::Object(map) => map,
        _ => return,
    };
    if let Some(Value::String(draft)) = map.get("$schema") {
        replaces = REPLACING_DRAFTS.contains(&draft.trim_end_matches('#'));
    }
    if replaces && map.get("$ref").is_some_and(Value::is_string) {
        map.retain(|key, _| !ASSERTIONS.contains(&key.as_str()));
    }
    for (key, value) in map {
        match (key.as_str(), value) {
            // Values, which may look like schemas.
            ("const" | "enum" | "default" | "examples", _) => {}
            // A property may be named like a keyword.
            (
                "properties" | "patternProperties" | "definitions" | "$defs" | "dependencies"
                | "dependentSchemas",
                Value::Object(schemas),
            ) => {
                let schemas = schemas.values_mut();
                schemas.for_each(|schema| remove_from(schema, replaces));
            }
            (_, value) => remove_from(value, replaces),
        }
    }
}
