//! The access token, from the environment or the system's keychain.
//!
//! Rule: the token is in no file of Transom, no log and no `Debug` output, and its memory is wiped
//! on drop. It is sent only to the endpoint's own origin (see `Hub`).

use std::fmt;

use transom_keychain::{Keychain, Secrets, SecretsError};
use zeroize::Zeroizing;

use crate::HubError;

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
    Ok(Keychain.set(account(endpoint), token.reveal())?)
}

/// Deletes the token for this endpoint from the keychain, if there is one. Blocks like [`set`].
pub(crate) fn clear(endpoint: &str) -> Result<(), HubError> {
    Ok(Keychain.delete(account(endpoint))?)
}

pub(crate) fn get(endpoint: &str) -> Result<Option<Token>, HubError> {
    let secret = Keychain.get(account(endpoint))?;
    secret.map(|text| Token::new(text.to_string())).transpose()
}

fn account(endpoint: &str) -> &str {
    endpoint.trim_end_matches('/')
}

impl From<SecretsError> for HubError {
    fn from(error: SecretsError) -> Self {
        match error {
            SecretsError::Refused(reason) => Self::KeychainRefused { reason },
            SecretsError::Unavailable(reason) => Self::NoKeychain { reason },
        }
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
