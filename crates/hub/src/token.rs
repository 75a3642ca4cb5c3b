//! The access token, from the environment or the system's keychain.
//!
//! Rule: the token is in no file of Transom, no log and no `Debug` output, and its memory is wiped
//! on drop. It is sent only to the endpoint's own origin (see `Hub`).

use std::fmt;

use zeroize::Zeroizing;

use crate::HubError;

const SERVICE: &str = "Transom";

/// A token that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Zeroizing<String>);

impl Token {
    /// Checks that the text is one printable word, because it becomes a header line.
    pub fn new(text: String) -> Result<Self, HubError> {
        let text = Zeroizing::new(text);
        let word = text.trim();
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HubError::NotAToken);
        }
        Ok(Self(Zeroizing::new(word.to_owned())))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(…)")
    }
}

/// Stores the token for this endpoint in the keychain. Blocks, possibly until the user confirms.
pub(crate) fn set(endpoint: &str, token: &Token) -> Result<(), HubError> {
    entry(endpoint)?
        .set_password(token.reveal())
        .map_err(refusal)
}

/// Deletes the token for this endpoint from the keychain, if there is one. Blocks like [`set`].
pub(crate) fn clear(endpoint: &str) -> Result<(), HubError> {
    match entry(endpoint)?.delete_credential() {
        Ok(()) | Err(keyring::Error::NoEntry) => Ok(()),
        Err(error) => Err(refusal(error)),
    }
}

pub(crate) fn get(endpoint: &str) -> Result<Option<Token>, HubError> {
    match entry(endpoint)?.get_password() {
        Ok(text) => Token::new(text).map(Some),
        Err(keyring::Error::NoEntry) => Ok(None),
        Err(error) => Err(refusal(error)),
    }
}

fn entry(endpoint: &str) -> Result<keyring::Entry, HubError> {
    let account = endpoint.trim_end_matches('/');
    keyring::Entry::new(SERVICE, account).map_err(refusal)
}

fn refusal(error: keyring::Error) -> HubError {
    match error {
        keyring::Error::NoStorageAccess(reason) => HubError::KeychainRefused {
            reason: reason.to_string(),
        },
        other => HubError::NoKeychain {
            reason: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_not_in_debug_output() {
        let token = Token::new(" hf_secret\n".to_owned()).unwrap();
        assert_eq!(token.reveal(), "hf_secret");
        assert_eq!(format!("{token:?}"), "Token(…)");
        for text in ["", "  ", "two words", "line\nbreak", "hf_ü"] {
            assert_eq!(Token::new(text.to_owned()), Err(HubError::NotAToken));
        }
    }
}
