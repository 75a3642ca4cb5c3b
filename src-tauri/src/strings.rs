//! The texts of the menu-bar icon and its menu, from the same catalogs as those of the pages.
//!
//! Rule: this crate contains no user-visible text; `ui/src/i18n` has all of it.

use std::collections::BTreeMap;

/// Catalogs by language tag. English is first and replaces missing texts of other languages.
const CATALOGS: [(&str, &str); 6] = [
    ("en", include_str!("../../ui/src/i18n/en/tray.json")),
    ("de", include_str!("../../ui/src/i18n/de/tray.json")),
    ("es", include_str!("../../ui/src/i18n/es/tray.json")),
    ("fr", include_str!("../../ui/src/i18n/fr/tray.json")),
    ("ja", include_str!("../../ui/src/i18n/ja/tray.json")),
    (
        "zh-Hans",
        include_str!("../../ui/src/i18n/zh-Hans/tray.json"),
    ),
];

const GIB: f64 = (1u64 << 30) as f64;
const MIB: f64 = (1u64 << 20) as f64;

/// The texts of one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strings {
    language: &'static str,
    texts: BTreeMap<String, String>,
}

impl Strings {
    /// Returns the texts of the language that the user chose, or of the best match for the system.
    pub(crate) fn new(chosen: Option<&str>, system: &[String]) -> Self {
        let candidates = chosen.into_iter().chain(system.iter().map(String::as_str));
        let language = candidates.into_iter().find_map(language).unwrap_or("en");
        let mut texts = catalog("en");
        texts.extend(catalog(language));
        Self { language, texts }
    }

    /// Returns the text of a key, with `{name}` placeholders filled. An unknown key is returned
    /// itself.
    pub(crate) fn text(&self, key: &str, values: &[(&str, &str)]) -> String {
        let text = self.texts.get(key).map_or(key, String::as_str).to_owned();
        values.iter().fold(text, |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }

    /// Formats bytes of memory as `1.2 GB`, in powers of two.
    pub(crate) fn memory(&self, bytes: u64) -> String {
        let bytes = bytes as f64;
        if (bytes / MIB).round() < 1024.0 {
            return format!("{:.0} MB", bytes / MIB);
        }
        let gb = format!("{:.1}", bytes / GIB);
        let gb = match self.language {
            "de" | "fr" | "es" => gb.replace('.', ","),
            _ => gb,
        };
        format!("{gb} {}", if self.language == "fr" { "Go" } else { "GB" })
    }
}

/// Returns the catalog for a BCP 47 tag. There is none for Traditional Chinese.
fn language(tag: &str) -> Option<&'static str> {
    let tag = tag.replace('_', "-").to_lowercase();
    let mut parts = tag.split('-');
    let base = parts.next()?;
    if base == "zh" {
        let is_traditional = parts.any(|part| matches!(part, "hant" | "tw" | "hk" | "mo"));
        return (!is_traditional).then_some("zh-Hans");
    }
    let mut known = CATALOGS.iter().map(|(tag, _)| *tag);
    known.find(|tag| *tag == base)
}

fn catalog(language: &str) -> BTreeMap<String, String> {
    let found = CATALOGS.iter().find(|(tag, _)| *tag == language);
    let texts = found.and_then(|(_, json)| serde_json::from_str(json).ok());
    texts.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tray::menu::KEYS;

    #[test]
    fn every_tray_text_exists_in_every_language() {
        for (language, _) in CATALOGS {
            let texts = catalog(language);
            let missing = KEYS.iter().filter(|key| !texts.contains_key(**key));
            let missing: Vec<_> = missing.collect();
            assert!(missing.is_empty(), "{language} lacks {missing:?}");
        }
    }

    #[test]
    fn the_chosen_language_comes_before_the_systems_and_english() {
        let of = |chosen: Option<&str>, system: &[&str]| {
            let system: Vec<String> = system.iter().map(|&tag| tag.to_owned()).collect();
            Strings::new(chosen, &system).language
        };
        assert_eq!(of(Some("fr"), &["de-DE"]), "fr");
        assert_eq!(of(None, &["de_AT", "fr"]), "de");
        assert_eq!(of(None, &["pt-BR", "ja-JP"]), "ja");
        assert_eq!(of(None, &["zh-CN"]), "zh-Hans");
        assert_eq!(of(None, &["zh-Hant-TW"]), "en");
        assert_eq!(of(Some("xx"), &["C"]), "en");
    }

    #[test]
    fn values_are_filled_in_and_memory_is_formatted() {
        let strings = Strings::new(Some("de"), &[]);
        let values = [("model", "Qwen3"), ("memory", "2,3 GB")];
        assert_eq!(strings.text("eject", &values), "Qwen3 auswerfen (2,3 GB)");
        assert_eq!(strings.text("no such key", &[]), "no such key");
        assert_eq!(strings.memory(2_500_000_000), "2,3 GB");
        assert_eq!(strings.memory(52 << 20), "52 MB");
        assert_eq!(Strings::new(None, &[]).memory(1 << 30), "1.0 GB");
    }
}
