//! Text that is written without sampling.

use super::*;
use crate::test_support::{one_line, starter_tokens};

#[test]
fn forced_text_is_spelled_and_an_excluded_token_ends_the_response_with_an_error() {
    let schema = json!({
        "type": "object", "properties": { "temperature": { "type": "null" } },
        "required": ["temperature"], "additionalProperties": false,
    });
    let mut response = start(Grammar::JsonSchema(schema));
    write(&mut response, "{\"");
    let rest = "temperature\": null}";
    let forced: Vec<u32> = rest.bytes().map(u32::from).collect();
    assert_eq!(response.forced(100), forced);
    assert_eq!(response.forced(3), forced[..3]);
    // A tokenizer that spells other text is not used.
    let mut response = response.spelled_by(|_| Some(vec![b'x'.into(); 13]));
    assert_eq!(response.forced(100), forced);
    assert_eq!(write(&mut response, "temperature\""), 12);
    let failed = response.accept(b'x'.into());
    assert!(matches!(failed, Err(EngineError::ConstraintFailed { .. })));
    assert!(response.mask().is_err());
}

#[test]
fn forced_text_is_spelled_by_the_tokenizer_of_the_model() {
    let choices = ["goodbye 1", "goodbye 2"].map(str::to_owned).to_vec();
    let constraint = Constraint::on_answer(Grammar::Choice(choices));
    let mut table = byte_table(&[]);
    table.tokens.push(TokenText::Text(b"odb".to_vec()));
    let mut response = start_with(&constraint, None, table.clone()).unwrap();
    write(&mut response, "g");
    let longest = [b'o'.into(), 257, b'y'.into(), b'e'.into(), b' '.into()];
    assert_eq!(response.forced(100), longest);
    response = response.spelled_by(|text| Some(text.bytes().map(u32::from).collect()));
    assert_eq!(response.forced(100), b"oodbye ".map(u32::from));
    // Tokens that end behind the forced text and begin in it, the second one within a token.
    for (token, n_forced) in [(" 2", 4), ("bye 1", 1), (" 3", 5), ("ye 2", 2)] {
        let mut table = table.clone();
        table.tokens.push(TokenText::Text(token.into()));
        let mut response = start_with(&constraint, None, table).unwrap();
        write(&mut response, "g");
        assert_eq!(response.forced(100), longest[..n_forced], "{token:?}");
    }
}

/// The values of this object begin with a space in the tokens of the starter.
#[test]
fn a_space_is_not_forced_without_the_value_after_it() {
    let (tokenizer, table) = starter_tokens().unwrap();
    let spell = std::rc::Rc::new(tokenizer);
    let value =
        json!({ "is_open": true, "name": "Ann", "count": 12, "tags": ["a", "b"], "state": "new" });
    let schema = json!({
        "type": "object",
        "properties": {
            "is_open": { "type": "boolean" },
            "name": { "type": "string" },
            "count": { "type": "integer" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "state": { "enum": ["new", "old"] },
        },
        "required": ["is_open", "name", "count", "tags", "state"],
        "additionalProperties": false,
    });
    let constraint = Constraint::on_answer(Grammar::JsonSchema(schema));
    let mut response = start_with(&constraint, None, table.clone()).unwrap();
    let tokens = spell.encode(&one_line(&value), false).unwrap();
    response = response.spelled_by(move |text| spell.encode(text, false).ok());
    let text_of = |token: u32| match &table.tokens[token as usize] {
        TokenText::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        TokenText::Special(name) => name.clone(),
    };
    let (mut index, mut runs) = (0, Vec::new());
    while index < tokens.len() {
        let forced = response.forced(100);
        // Those that the tokenizer writes for the whole text.
        assert!(tokens[index..].starts_with(&forced), "{forced:?}");
        runs.push(
            forced
                .iter()
                .map(|token| text_of(*token))
                .collect::<String>(),
        );
        for token in tokens[index..].iter().take(forced.len().max(1)) {
            response.accept(*token).unwrap();
            index += 1;
        }
    }
    assert!(response.is_complete());
    runs.retain(|run| !run.is_empty());
    let expected = [
        "\"is_open\":",
        ", \"name\":",
        " \"count\":",
        " \"tags\":",
        // No token has the quote and a letter.
        " \"state\": \"",
        "\"}",
    ];
    assert_eq!(runs, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The definition: no token that begins within a forced one may have a byte behind the common text.
    #[test]
    fn no_forced_token_may_be_longer(
        prefix in "[ab\"]{2,8}",
        ends in prop::collection::btree_set("[ab\"]{1,3}", 2..4),
        words in prop::collection::btree_set("[ab\"]{2,4}", 0..8),
    ) {
        let mut table = byte_table(&[]);
        table.tokens.extend(words.iter().map(|word| TokenText::Text(word.clone().into_bytes())));
        let choices: Vec<String> = ends.iter().map(|end| format!("{prefix}{end}")).collect();
        let tokens = table.tokens.clone();
        let constraint = Constraint::on_answer(Grammar::Choice(choices.clone()));
        let mut response = start_with(&constraint, None, table).unwrap();
        write(&mut response, &prefix[..1]);
        let mut forced = String::new();
        for token in response.forced(100) {
            if let TokenText::Text(bytes) = &tokens[token as usize] {
                forced += std::str::from_utf8(bytes).unwrap();
            }
        }
        // What all choices have in common after their first letter.
        let rests: Vec<&str> = choices.iter().map(|choice| &choice[1..]).collect();
        let is_common = |n: &usize| rests.iter().all(|rest| rest.get(..*n) == rests[0].get(..*n));
        let longest = rests.iter().map(|rest| rest.len()).min().unwrap_or_default();
        let n_common = (0..=longest).rev().find(is_common).unwrap_or_default();
        // As far as the first byte that is not common.
        let begins = |word: &str, rest: &str, at: usize| {
            let n_compared = n_common + 1 - at;
            word.len() >= n_compared && rest.get(at..=n_common) == word.get(..n_compared)
        };
        let crosses = |at: usize| {
            words.iter().any(|word| rests.iter().any(|rest| begins(word, rest, at)))
        };
        prop_assert!(rests[0][..n_common].starts_with(&forced));
        prop_assert!(!(0..forced.len()).any(crosses), "{}", &forced);
        // All of it is forced if nothing is in the way.
        if !(0..n_common).any(crosses) {
            prop_assert_eq!(forced.len(), n_common);
        }
    }
}
