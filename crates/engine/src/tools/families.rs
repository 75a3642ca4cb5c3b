//! How each family of models writes a tool call: one row per family.
//!
//! A family is recognized by markers in the text of its chat template. The forms are those that the
//! published templates write for earlier calls, which models continue.

/// The calls of a family.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// The template contains all of one of these sets. None: chosen only by name.
    recognized_by: &'static [&'static [&'static str]],
    /// Texts that begin a call. The first one begins the calls of a grammar.
    pub(crate) opens: &'static [Open],
    /// Texts that only surround calls, and are never text of a response.
    pub(crate) wrappers: &'static [&'static str],
    /// Texts after a complete call, which belong to it.
    pub(crate) closers: &'static [&'static str],
    /// How a grammar writes calls.
    pub(crate) grammar: CallGrammar,
    /// What follows a call that follows another one; `None` if a response has at most one.
    pub(crate) separator: Option<&'static str>,
    /// Ids of calls have nine letters and digits.
    pub(crate) has_short_ids: bool,
}

/// A text that begins a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    /// The text. It is part of the call if it is `{`.
    pub(crate) marker: &'static str,
    pub(crate) form: Form,
    /// It begins a call only at the start of the answer.
    pub(crate) only_first: bool,
}

/// What follows the opening text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `{"name": …, "arguments": {…}}` or a list of such objects; else the tagged form, if it begins
    /// with `<`, or [`Form::Header`].
    Any,
    /// The name and layout before an object with the arguments.
    Header,
    /// `NAME>` and parameters in tags: `<parameter=KEY>` VALUE `</parameter>`.
    Function,
    /// `call:NAME{…}` in Gemma's notation.
    Gemma,
}

/// How a grammar writes a call after the opening text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallGrammar {
    /// The text `before`, the name, `between`, the arguments as JSON, and `after`.
    Json {
        before: &'static str,
        between: &'static str,
        after: &'static str,
    },
    /// Parameters in tags.
    Tags(&'static Tags),
    /// Gemma's notation.
    Gemma,
}

/// The tags of a call whose values are plain text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    pub(crate) before_name: &'static str,
    pub(crate) after_name: &'static str,
    pub(crate) before_key: &'static str,
    pub(crate) after_key: &'static str,
    /// Between the tag of the key and the value.
    pub(crate) before_value: &'static str,
    pub(crate) after_value: &'static str,
    pub(crate) end: &'static str,
    /// A line break surrounds each value, for layout only.
    pub(crate) has_line_breaks: bool,
}

/// Qwen3-Coder and later.
pub(crate) const FUNCTION_TAGS: Tags = Tags {
    before_name: "<function=",
    after_name: ">",
    before_key: "<parameter=",
    after_key: ">",
    before_value: "",
    after_value: "</parameter>",
    end: "</function>",
    has_line_breaks: true,
};

/// GLM 4.5 and later.
pub(crate) const ARGUMENT_TAGS: Tags = Tags {
    before_name: "",
    after_name: "\n",
    before_key: "<arg_key>",
    after_key: "</arg_key>",
    before_value: "<arg_value>",
    after_value: "</arg_value>",
    end: "</tool_call>",
    has_line_breaks: false,
};

const fn open(marker: &'static str, form: Form) -> Open {
    Open {
        marker,
        form,
        only_first: false,
    }
}

const TOOL_CALL: Open = open("<tool_call>", Form::Any);

/// `{"name": NAME, "arguments": ARGUMENTS}`.
const NAME_AND_ARGUMENTS: CallGrammar = CallGrammar::Json {
    before: "{\"name\": \"",
    between: "\", \"arguments\": ",
    after: "}",
};

/// The form of Hermes, which the standard prompt describes.
pub(crate) const HERMES: Family = Family {
    name: "hermes",
    recognized_by: &[&["<tool_call>"]],
    opens: &[TOOL_CALL],
    wrappers: &[],
    closers: &["</tool_call>"],
    grammar: CallGrammar::Json {
        before: "\n{\"name\": \"",
        between: "\", \"arguments\": ",
        after: "}\n</tool_call>",
    },
    separator: Some("\n"),
    has_short_ids: false,
};

/// In the order in which they are tried: special ones first.
pub(crate) static FAMILIES: [Family; 11] = [
    Family {
        name: "gpt-oss",
        recognized_by: &[&["<|channel|>commentary", "functions."]],
        // What `text::reasoning` makes of the header of a call.
        opens: &[open("to=functions.", Form::Header)],
        separator: None,
        grammar: CallGrammar::Json {
            before: "",
            between: " <|constrain|>json<|message|>",
            after: "",
        },
        closers: &["<|call|>"],
        ..HERMES
    },
    Family {
        name: "gemma 4",
        recognized_by: &[&["<|tool_call>"]],
        opens: &[open("<|tool_call>", Form::Gemma)],
        closers: &["<tool_call|>"],
        grammar: CallGrammar::Gemma,
        separator: Some(""),
        ..HERMES
    },
    Family {
        name: "mistral, name and arguments",
        recognized_by: &[&["[TOOL_CALLS]", "[ARGS]"]],
        opens: &[open("[TOOL_CALLS]", Form::Any)],
        closers: &[],
        grammar: CallGrammar::Json {
            before: "",
            between: "[ARGS]",
            after: "",
        },
        separator: Some(""),
        has_short_ids: true,
        ..HERMES
    },
    Family {
        name: "mistral, list",
        recognized_by: &[&["[TOOL_CALLS]"]],
        opens: &[open("[TOOL_CALLS]", Form::Any)],
        closers: &["]", ","],
        grammar: NAME_AND_ARGUMENTS,
        separator: Some(", "),
        has_short_ids: true,
        ..HERMES
    },
    Family {
        name: "phi-4-mini",
        recognized_by: &[&["<|tool_call|>"], &["<|tool|>"]],
        opens: &[open("<|tool_call|>", Form::Any)],
        closers: &["]", ",", "<|/tool_call|>"],
        grammar: NAME_AND_ARGUMENTS,
        separator: Some(", "),
        ..HERMES
    },
    Family {
        name: "deepseek v3.1",
        recognized_by: &[&["<｜tool▁call▁begin｜>'+ tool['function']['name']"]],
        opens: &[open("<｜tool▁call▁begin｜>", Form::Header)],
        wrappers: &["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"],
        closers: &["```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
        grammar: CallGrammar::Json {
            before: "",
            between: "<｜tool▁sep｜>",
            after: "<｜tool▁call▁end｜>",
        },
        separator: Some(""),
        ..HERMES
    },
    Family {
        name: "deepseek v3 and r1",
        recognized_by: &[&["<｜tool▁call▁begin｜>"]],
        opens: &[open("<｜tool▁call▁begin｜>", Form::Header)],
        wrappers: &["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"],
        closers: &["```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
        grammar: CallGrammar::Json {
            before: "function<｜tool▁sep｜>",
            between: "\n```json\n",
            after: "\n```<｜tool▁call▁end｜>",
        },
        separator: Some("\n"),
        ..HERMES
    },
    Family {
        name: "glm",
        recognized_by: &[&["<arg_key>"]],
        grammar: CallGrammar::Tags(&ARGUMENT_TAGS),
        ..HERMES
    },
    Family {
        name: "qwen3-coder",
        recognized_by: &[&["<function=", "<parameter="]],
        // Some models leave out the outer tag.
        opens: &[TOOL_CALL, open("<function=", Form::Function)],
        grammar: CallGrammar::Tags(&FUNCTION_TAGS),
        ..HERMES
    },
    Family {
        name: "llama 3",
        recognized_by: &[
            &["<|python_tag|>"],
            &["<|start_header_id|>", "\"parameters\""],
        ],
        opens: &[
            Open {
                marker: "{",
                form: Form::Any,
                only_first: true,
            },
            open("<|python_tag|>", Form::Any),
        ],
        closers: &[";"],
        grammar: CallGrammar::Json {
            before: "\"name\": \"",
            between: "\", \"parameters\": ",
            after: "}",
        },
        separator: None,
        ..HERMES
    },
    HERMES,
];

impl Family {
    /// Returns the family whose calls a chat template writes; `None` if it writes none that is known.
    pub(crate) fn of_template(source: &str) -> Option<&'static Self> {
        let contains = |texts: &&[&str]| texts.iter().all(|text| source.contains(text));
        FAMILIES
            .iter()
            .find(|family| family.recognized_by.iter().any(contains))
    }

    /// Returns every text of this family that may be a special token.
    pub(crate) fn markers(&self) -> impl Iterator<Item = &'static str> {
        let opens = self.opens.iter().map(|open| open.marker);
        let others = self.wrappers.iter().chain(self.closers).copied();
        opens.chain(others).chain(SPECIAL_INSIDE)
    }
}

/// Texts inside calls that may be special tokens.
const SPECIAL_INSIDE: [&str; 10] = [
    "[ARGS]",
    "[CALL_ID]",
    "<｜tool▁sep｜>",
    "<|\"|>",
    "<|constrain|>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "</tool_call>",
];
