//! What a tool's schema says about values that are written as plain text.

use serde_json::Value;

/// The types that a schema allows for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ValueTypes {
    string: bool,
    number: bool,
    boolean: bool,
    null: bool,
    structure: bool,
}

impl ValueTypes {
    /// Returns the types of the property `key` of an object with this schema. A property that the
    /// schema says nothing about is a string.
    pub(crate) fn of_property(schema: &Value, key: &str) -> Self {
        let mut types = Self::default();
        if let Some(property) = schema.get("properties").and_then(|all| all.get(key)) {
            types.add(property, schema, 0);
        }
        match types == Self::default() {
            true => Self {
                string: true,
                ..types
            },
            false => types,
        }
    }

    /// Returns true if the value can only be a string.
    pub(crate) fn is_only_string(&self) -> bool {
        *self
            == Self {
                string: true,
                ..Self::default()
            }
    }

    fn add(&mut self, schema: &Value, root: &Value, depth: usize) {
        // A schema may refer to itself.
        if depth > 8 {
            return;
        }
        if let Some(pointer) = schema.get("$ref").and_then(Value::as_str)
            && let Some(target) = pointer.strip_prefix('#').and_then(|at| root.pointer(at))
        {
            self.add(target, root, depth + 1);
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.add_type(name),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str);
                names.for_each(|name| self.add_type(name));
            }
            _ => {}
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let options = schema.get(keyword).and_then(Value::as_array);
            for option in options.into_iter().flatten() {
                self.add(option, root, depth + 1);
            }
        }
        let listed = schema.get("enum").and_then(Value::as_array);
        for value in listed.into_iter().flatten().chain(schema.get("const")) {
            self.add_type(match value {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "boolean",
                Value::Null => "null",
                Value::Array(_) | Value::Object(_) => "object",
            });
        }
    }

    fn add_type(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "number" | "integer" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "object" | "array" => self.structure = true,
            _ => {}
        }
    }

    fn allow(&self, value: &Value) -> bool {
        match value {
            Value::Null => self.null,
            Value::Bool(_) => self.boolean,
            Value::Number(_) => self.number,
            Value::String(_) => false,
            Value::Array(_) | Value::Object(_) => self.structure,
        }
    }
}

/// Returns the JSON of a value that was written as plain text: of the types that the schema allows, the
/// one that fits, else a string. `True`, `False` and `None` are Python's spelling.
pub(crate) fn coerce(text: &str, types: &ValueTypes) -> String {
    let trimmed = text.trim();
    let spelled = match trimmed {
        "True" if types.boolean => "true",
        "False" if types.boolean => "false",
        "None" if types.null => "null",
        _ => trimmed,
    };
    let value = serde_json::from_str::<Value>(spelled);
    match value {
        Ok(value) if types.allow(&value) => spelled.to_owned(),
        // Models quote strings of values that may be something else, too.
        Ok(Value::String(inner)) if types.string && !types.is_only_string() => {
            Value::String(inner).to_string()
        }
        Ok(_) | Err(_) => Value::from(text).to_string(),
    }
}
