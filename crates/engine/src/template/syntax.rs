//! The little of Jinja2's syntax that minijinja does not read, written so that it does.

/// Tags by which `transformers` finds what the model said. They only mark, so blocks that do
/// nothing stand in for them; `with` opens a scope, as the original tag does.
const BLOCKS: [(&str, &str); 2] = [("generation", "with"), ("endgeneration", "endwith")];

/// Rewrites a template's source. Every line stays the line it was, for the sake of messages.
pub(crate) fn for_minijinja(source: &str) -> String {
    // Jinja2 reads every kind of line break as a plain one.
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut output = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        output.push_str(before);
        match replacement(tag) {
            Some((text, len)) => {
                output.push_str(&text);
                rest = &tag[len..];
            }
            None => {
                output.push_str("{%");
                rest = &tag[2..];
            }
        }
    }
    output.push_str(rest);
    output
}

/// What replaces the tag at the start of `source`, and the tag's length.
fn replacement(source: &str) -> Option<(String, usize)> {
    let end = source.find("%}")?;
    let inside = &source[2..end];
    let name = inside
        .trim_start_matches(['-', '+'])
        .trim_end_matches(['-', '+'])
        .trim();
    let (name, block) = BLOCKS.into_iter().find(|(block, _)| *block == name)?;
    Some((
        format!("{{%{}%}}", inside.replacen(name, block, 1)),
        end + 2,
    ))
}
