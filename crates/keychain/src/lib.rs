//! Secrets in the keychain of the user: the access token of the hub, and the key of saved KV caches.
//!
//! Calls block, possibly until the user confirms. Where the system has no keychain, as on a Linux
//! server, every call is an error.
//!
//! Rule: a secret is in no `Debug` output, and its memory is wiped on drop.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;

use parking_lot::Mutex;
use zeroize::Zeroizing;

/// The name of the app in the keychain.
const SERVICE: &str = "Transom";

/// A secret that was read. `Debug` does not show it, and its memory is wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl Deref for Secret {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// A place for secrets. Each has a name, its account.
pub trait Secrets: fmt::Debug + Send + Sync {
    /// Returns a secret; `None` if there is none.
    ///
    /// # Errors
    /// [`SecretsError`].
    fn get(&self, account: &str) -> Result<Option<Secret>, SecretsError>;

    /// Adds or replaces a secret.
    ///
    /// # Errors
    /// [`SecretsError`]; a former secret stays then.
    fn set(&self, account: &str, secret: &str) -> Result<(), SecretsError>;

    /// Deletes a secret, if there is one.
    ///
    /// # Errors
    /// [`SecretsError`].
    fn delete(&self, account: &str) -> Result<(), SecretsError>;
}

/// Why a secret can't be read or changed. The text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// The user or the system refuses access.
    #[error("the keychain refuses access: {0}")]
    Refused(String),
    /// There is no keychain, or it does not work.
    #[error("there is no keychain: {0}")]
    Unavailable(String),
}

impl From<keyring::Error> for SecretsError {
    fn from(error: keyring::Error) -> Self {
        match error {
            keyring::Error::NoStorageAccess(reason) => Self::Refused(reason.to_string()),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// The keychain of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keychain;

fn entry(account: &str) -> Result<keyring::Entry, SecretsError> {
    Ok(keyring::Entry::new(SERVICE, account)?)
}

impl Secrets for Keychain {
    fn get(&self, account: &str) -> Result<Option<Secret>, SecretsError> {
        match entry(account)?.get_password() {
            Ok(secret) => Ok(Some(secret.into())),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn set(&self, account: &str, secret: &str) -> Result<(), SecretsError> {
        Ok(entry(account)?.set_password(secret)?)
    }

    fn delete(&self, account: &str) -> Result<(), SecretsError> {
        match entry(account)?.delete_credential() {
            Ok(()) | Err(keyring::Error::NoEntry) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Secrets in memory, for tests and measurements, which must not touch the keychain.
#[derive(Default)]
pub struct MemorySecrets(Mutex<HashMap<String, Secret>>);

impl fmt::Debug for MemorySecrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("MemorySecrets(…)")
    }
}

impl Secrets for MemorySecrets {
    fn get(&self, account: &str) -> Result<Option<Secret>, SecretsError> {
        Ok(self.0.lock().get(account).cloned())
    }

    fn set(&self, account: &str, secret: &str) -> Result<(), SecretsError> {
        let secret = Secret::from(secret.to_owned());
        self.0.lock().insert(account.to_owned(), secret);
        Ok(())
    }

    fn delete(&self, account: &str) -> Result<(), SecretsError> {
        self.0.lock().remove(account);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_memory_can_be_replaced_and_deleted() {
        let secrets = MemorySecrets::default();
        let get = |account| secrets.get(account).unwrap();
        assert_eq!(get("a"), None);
        secrets.set("a", "first").unwrap();
        secrets.set("a", "second").unwrap();
        assert_eq!(get("a").as_deref(), Some("second"));
        assert_eq!(format!("{:?}", get("a")), "Some(Secret(…))");
        assert_eq!(get("b"), None);
        assert_eq!(format!("{secrets:?}"), "MemorySecrets(…)");
        secrets.delete("a").unwrap();
        secrets.delete("a").unwrap();
        assert_eq!(get("a"), None);
    }

    #[test]
    fn a_refusal_differs_from_a_missing_keychain() {
        let refused = keyring::Error::NoStorageAccess("locked".into());
        assert_eq!(
            SecretsError::from(refused),
            SecretsError::Refused("locked".to_owned())
        );
        let missing = keyring::Error::NoDefaultStore;
        assert!(matches!(
            SecretsError::from(missing),
            SecretsError::Unavailable(_)
        ));
    }
}
