//! Names of Objective-C in Rust source: `class!(…)` and `msg_send![…]` look them up at run time, so a
//! misspelled one compiles and fails on a Mac.

use std::collections::BTreeSet;

/// Classes and selectors.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Names {
    classes: BTreeSet<String>,
    selectors: BTreeSet<String>,
}

impl Names {
    /// Adds what the source of an objc2 package declares.
    pub(super) fn add_declared(&mut self, source: &str) {
        let mut is_class = false;
        for line in source.lines().map(str::trim) {
            is_class = is_class || line.starts_with("extern_class!");
            if let Some(name) = line.strip_prefix("pub struct ").filter(|_| is_class) {
                self.classes.insert(identifier(name).to_owned());
                is_class = false;
            }
            if let Some((selector, _)) = between(line, "#[unsafe(method(", ")") {
                self.selectors.insert(selector.to_owned());
            }
        }
        // Every object has these, by a trait that no framework declares.
        self.selectors
            .extend(["new", "alloc", "init"].map(str::to_owned));
    }

    /// Returns the names of the classes.
    pub(super) fn into_classes(self) -> BTreeSet<String> {
        self.classes
    }

    /// Returns the names that a source file of ours looks up.
    pub(super) fn used_in(source: &str) -> Self {
        let mut names = Self::default();
        let mut rest = source;
        while let Some((name, after)) = between(rest, "class!(", ")") {
            let is_name = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_name && !name.is_empty() {
                names.classes.insert(name.to_owned());
            }
            rest = after;
        }
        rest = source;
        while let Some((_, after)) = rest.split_once("msg_send![") {
            let (parts, after) = parts(after);
            names.selectors.extend(selector(&parts));
            rest = after;
        }
        names
    }

    /// Returns a line for each name that is not declared.
    pub(super) fn not_in(&self, declared: &Self) -> Vec<String> {
        let classes = self.classes.difference(&declared.classes);
        let selectors = self.selectors.difference(&declared.selectors);
        let classes = classes.map(|name| format!("the class {name}"));
        classes
            .chain(selectors.map(|name| format!("the method {name}")))
            .collect()
    }
}

/// Returns the text between two markers, and the rest after it.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(start)?.1.split_once(end)
}

/// Returns the identifier at the start of a text.
pub(super) fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Returns the parts of a text between commas, up to the bracket that closes it, and the rest.
fn parts(text: &str) -> (Vec<&str>, &str) {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (1, 0);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'(' | b'{' => depth += 1,
            b']' | b')' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && byte == b',') {
            parts.push(&text[start..index]);
            start = index + 1;
        }
        if depth == 0 {
            return (parts, &text[index..]);
        }
    }
    parts.push(&text[start..]);
    (parts, "")
}

/// Returns the selector of a message: `receiver, first: 1, second: 2` sends `first:second:`.
fn selector(parts: &[&str]) -> Option<String> {
    let words = parts.iter().skip(1).map(|part| part.trim());
    let words = words.filter(|part| !part.is_empty());
    let selector: String = words
        .map(|word| match word.split_once(':') {
            Some((name, _)) => format!("{}:", name.trim()),
            None => word.to_owned(),
        })
        .collect();
    Some(selector).filter(|selector| !selector.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = "
extern_class!(
    #[unsafe(super(NSObject))]
    pub struct NSWorkspace;
);
pub struct NotAClass;
        #[unsafe(method(sharedWorkspace))]
        pub fn sharedWorkspace() -> Retained<NSWorkspace>;
        #[unsafe(method(setString:forType:))]
        #[unsafe(method(new))]
";

    fn unknown(source: &str) -> Vec<String> {
        let mut declared = Names::default();
        declared.add_declared(DECLARED);
        Names::used_in(source).not_in(&declared)
    }

    #[test]
    fn declared_classes_and_methods_are_known() {
        let source = "let a = msg_send![class!(NSWorkspace), sharedWorkspace];
            let b: bool = msg_send![&*paste(x, y), setString: empty(1, 2), forType: &*kind];
            let c = msg_send![
                &*workspace?,
                sharedWorkspace,
            ];
            msg_send![class!(NSWorkspace), new]";
        assert_eq!(unknown(source), [""; 0]);
        assert_eq!(Names::used_in(source).selectors.len(), 3);
    }

    #[test]
    fn misspelled_classes_and_methods_are_found() {
        assert_eq!(unknown("class!(NSWorkspcae)"), ["the class NSWorkspcae"]);
        assert_eq!(unknown("class!(NotAClass)"), ["the class NotAClass"]);
        assert_eq!(
            unknown("msg_send![a, setString: b, forTyp: c]"),
            ["the method setString:forTyp:"]
        );
        assert_eq!(unknown("msg_send![a, sharedWorkspaces]").len(), 1);
    }
}
