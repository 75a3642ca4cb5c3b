//! Where updates come from: the server and the public key that a build was made with.

use tauri::Url;

/// Where updates come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// The address of the description of the newest release.
    pub(super) url: Url,
    /// The public key, in the encoding of `tauri signer generate`.
    pub(super) key: String,
}

impl Source {
    /// Returns the source that this program was built with. `docs/releasing.md` explains the variables.
    pub(super) fn of_this_build() -> Option<Self> {
        Self::new(
            option_env!("TRANSOM_UPDATE_URL"),
            option_env!("TRANSOM_UPDATE_KEY"),
        )
    }

    /// Returns the source if there are both an encrypted address and a key. An empty variable of a
    /// workflow is none.
    fn new(url: Option<&str>, key: Option<&str>) -> Option<Self> {
        let url = Url::parse(url?.trim()).ok()?;
        let key = key?.trim();
        let is_usable = url.scheme() == "https" && url.has_host() && !key.is_empty();
        is_usable.then(|| Self {
            url,
            key: key.to_owned(),
        })
    }

    /// Returns the server's name.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn a_build_without_an_encrypted_address_or_a_key_has_no_source() {
        let url = Some("https://example.org/latest.json");
        let source = Source::new(url, Some(" abc\n")).unwrap();
        assert_eq!((source.host(), &*source.key), ("example.org", "abc"));
        for (url, key) in [
            (None, Some("abc")),
            (url, None),
            (url, Some("")),
            (Some(""), Some("abc")),
            (Some("http://example.org/latest.json"), Some("abc")),
            (Some("file:///latest.json"), Some("abc")),
        ] {
            assert_eq!(Source::new(url, key), None, "{url:?} {key:?}");
        }
    }
}
