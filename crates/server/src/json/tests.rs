use super::*;
use serde_json::json;

fn fields(body: &str) -> Fields {
    Fields::parse(body.as_bytes()).unwrap()
}

#[test]
fn a_body_that_readers_could_understand_differently_is_refused() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for body in [
        "",
        "{",
        "[]",
        "{} {}",
        r#"{"a": 1, "a": 2}"#,
        r#"{"a": {"b": 1, "b": 2}}"#,
        r#"{"a": "\ud800"}"#,
        r#"{"a": 1e999}"#,
        r#"{"a": NaN}"#,
        &format!(r#"{{"a": {deep}}}"#),
    ] {
        let error = Fields::parse(body.as_bytes()).unwrap_err();
        assert_eq!(error.status, StatusCode::BAD_REQUEST, "{body}");
    }
    assert!(Fields::parse(b"{\"a\": \"\xff\"}").is_err());
    assert_eq!(
        fields(r#"{"a": "\ud83d\ude00"}"#)
            .text("a")
            .unwrap()
            .unwrap(),
        "😀"
    );
}

#[test]
fn null_is_not_given() {
    let mut body = fields(r#"{"stop": null, "n": 2}"#);
    assert!(body.take("stop").is_none());
    assert_eq!(body.integer("n", 1..=8).unwrap(), Some(2));
    assert_eq!(body.required("model").unwrap_err().param.unwrap(), "model");
}

#[test]
fn errors_name_the_path() {
    let mut body =
        fields(r#"{"messages": [{"content": 7}], "top_p": 3, "n": 1.5, "stream": "yes"}"#);
    let mut messages = body.list("messages").unwrap().unwrap();
    let mut message = messages.remove(0).object().unwrap();
    let error = message.text("content").unwrap_err();
    assert_eq!(error.param.as_deref(), Some("messages[0].content"));
    assert_eq!(error.message, "`messages[0].content` must be a string");
    let error = body.number("top_p", 0.0..=1.0).unwrap_err();
    assert_eq!(error.message, "`top_p` must be a number from 0 to 1");
    let error = body.integer("n", 1..=8).unwrap_err();
    assert_eq!(error.message, "`n` must be a whole number from 1 to 8");
    assert_eq!(body.flag("stream").unwrap_err().param.unwrap(), "stream");
}

#[test]
fn a_whole_number_may_be_written_with_a_point() {
    let mut body = fields(r#"{"a": 3.0, "b": 9223372036854775807, "c": -1}"#);
    assert_eq!(body.count("a", 1).unwrap(), Some(3));
    let most = body.integer("b", 0..=i64::MAX).unwrap();
    assert_eq!(most, Some(i64::MAX));
    assert!(body.count("c", 0).is_err());
}

#[test]
fn an_unsupported_field_is_refused_unless_it_asks_for_nothing() {
    for body in ["{}", r#"{"x": null}"#, r#"{"x": false}"#, r#"{"x": []}"#] {
        assert_eq!(fields(body).refuse("x", &[]), Ok(()), "{body}");
    }
    let neutral = [json!("none"), json!(true)];
    for body in [r#"{"x": null}"#, r#"{"x": "none"}"#, r#"{"x": true}"#] {
        assert_eq!(fields(body).refuse("x", &neutral), Ok(()), "{body}");
    }
    for (body, neutral) in [
        (r#"{"x": true}"#, &[][..]),
        (r#"{"x": [1]}"#, &[]),
        (r#"{"x": "auto"}"#, &neutral),
        (r#"{"x": false}"#, &neutral),
    ] {
        let error = fields(body).refuse("x", neutral).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("x"), "{body}");
    }
}

#[test]
fn unknown_fields_are_named_in_a_header() {
    let mut body = fields(r#"{"user": "me", "mood": 1, "empty": null, "bad\nname": 1}"#);
    body.tolerate(&["user"]);
    let ignored = body.ignored.clone();
    body.finish();
    assert_eq!(ignored.header().as_deref(), Some("mood"));
    assert_eq!(Ignored::default().header(), None);
}

#[test]
fn texts_and_choices() {
    let mut body = fields(r#"{"a": "x", "b": ["x", "y"], "c": ["x", 1], "d": "high"}"#);
    let mut texts = |name: &str| body.take(name).unwrap().text_or_texts(2);
    assert_eq!(texts("a").unwrap(), ["x"]);
    assert_eq!(texts("b").unwrap(), ["x", "y"]);
    assert_eq!(texts("c").unwrap_err().param.unwrap(), "c[1]");
    let located = body.take("d").unwrap();
    assert_eq!(located.clone().choice(&[("low", 1), ("high", 2)]), Ok(2));
    let error = located.choice(&[("low", 1), ("none", 2)]).unwrap_err();
    assert_eq!(error.message, "`d` must be `low` or `none`");
}

#[test]
fn a_body_with_very_many_values_is_refused() {
    // The body, the list and its elements.
    let body = |n: usize| format!("{{\"a\": [{}0]}}", "0,".repeat(n - 3));
    let most = strict::MAX_VALUES;
    let list = fields(&body(most)).list("a").unwrap().unwrap();
    assert_eq!(list.len(), most - 2);
    let error = Fields::parse(body(most + 1).as_bytes()).unwrap_err();
    assert_eq!(error.status, StatusCode::BAD_REQUEST);
    assert!(
        error.message.contains("more than 524288 values"),
        "{error:?}"
    );
}

#[test]
fn a_list_has_a_limit() {
    let located = fields(r#"{"a": [1, 2]}"#).take("a").unwrap();
    assert_eq!(located.clone().list_up_to(2, "ids").unwrap().len(), 2);
    let error = located.list_up_to(1, "ids").unwrap_err();
    assert_eq!(error.message, "`a` must be an array of at most 1 ids");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let fits = read(Body::from(vec![b' '; MAX_BODY_BYTES])).await.unwrap();
    assert_eq!(fits.len(), MAX_BODY_BYTES);
    let error = read(Body::from(vec![b' '; MAX_BODY_BYTES + 1]))
        .await
        .unwrap_err();
    assert_eq!(error.status, StatusCode::PAYLOAD_TOO_LARGE);
}
