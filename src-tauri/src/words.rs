//! The texts of the tray icon and its menu, from the same catalogues as the pages'.
//!
//! Rule: no text for people is written in this crate; `ui/src/i18n` has them all.

use std::collections::BTreeMap;

/// Catalogues by language tag, English first: it stands in where another lacks a text.
const CATALOGUES: [(&str, &str); 6] = [
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
pub(crate) struct Words {
    language: &'static str,
    texts: BTreeMap<String, String>,
}

impl Words {
    /// In the language that the user chose, else in the best of the system's.
    pub(crate) fn new(chosen: Option<&str>, system: &[String]) -> Self {
        let wishes = chosen.into_iter().chain(system.iter().map(String::as_str));
        let language = wishes.into_iter().find_map(language).unwrap_or("en");
        let mut texts = catalogue("en");
        texts.extend(catalogue(language));
        Self { language, texts }
    }

    /// The text of a key, with `{name}` filled in. A key that is unknown is shown as it is.
    pub(crate) fn text(&self, key: &str, values: &[(&str, &str)]) -> String {
        let text = self
            .texts
            .get(key)
            .cloned()
            .unwrap_or_else(|| key.to_owned());
        values.iter().fold(text, |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }

    /// Bytes of memory: `1.2 GB`, in powers of two, as memory is sold.
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

/// The languages of the system, first choice first.
pub(crate) fn of_system() -> Vec<String> {
    sys_locale::get_locales().collect()
}

/// The catalogue for a BCP 47 tag. There is none for Chinese in traditional script.
fn language(wish: &str) -> Option<&'static str> {
    let wish = wish.replace('_', "-").to_lowercase();
    let mut parts = wish.split('-');
    let base = parts.next()?;
    if base == "zh" {
        let is_traditional = parts.any(|part| matches!(part, "hant" | "tw" | "hk" | "mo"));
        return (!is_traditional).then_some("zh-Hans");
    }
    let known = CATALOGUES.iter().map(|(tag, _)| *tag);
    known.into_iter().find(|tag| *tag == base)
}

fn catalogue(language: &str) -> BTreeMap<String, String> {
    let found = CATALOGUES.iter().find(|(tag, _)| *tag == language);
    let texts = found.map(|(_, json)| serde_json::from_str(json));
    match texts {
        Some(Ok(texts)) => texts,
        Some(Err(error)) => {
            tracing::error!(language, %error, "a catalogue cannot be read");
            BTreeMap::new()
        }
        None => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tray::menu::KEYS;

    #[test]
    fn every_text_of_the_tray_is_in_every_language() {
        for (language, _) in CATALOGUES {
            let texts = catalogue(language);
            let missing = KEYS.iter().filter(|key| !texts.contains_key(**key));
            let missing: Vec<_> = missing.collect();
            assert!(missing.is_empty(), "{language} lacks {missing:?}");
        }
    }

    #[test]
    fn the_language_is_the_chosen_one_then_the_system_s_then_english() {
        let of = |chosen: Option<&str>, system: &[&str]| {
            let system: Vec<String> = system.iter().map(|&tag| tag.to_owned()).collect();
            Words::new(chosen, &system).language
        };
        assert_eq!(of(Some("fr"), &["de-DE"]), "fr");
        assert_eq!(of(None, &["de_AT", "fr"]), "de");
        assert_eq!(of(None, &["pt-BR", "ja-JP"]), "ja");
        assert_eq!(of(None, &["zh-CN"]), "zh-Hans");
        assert_eq!(of(None, &["zh-Hant-TW"]), "en");
        assert_eq!(of(Some("xx"), &["C"]), "en");
    }

    #[test]
    fn values_are_filled_in_and_memory_is_written_as_people_do() {
        let words = Words::new(Some("de"), &[]);
        let values = [("model", "Qwen3"), ("memory", "2,3 GB")];
        assert_eq!(words.text("eject", &values), "Qwen3 auswerfen (2,3 GB)");
        assert_eq!(words.text("no such key", &[]), "no such key");
        assert_eq!(words.memory(2_500_000_000), "2,3 GB");
        assert_eq!(words.memory(52 << 20), "52 MB");
        assert_eq!(Words::new(None, &[]).memory(1 << 30), "1.0 GB");
    }
}
