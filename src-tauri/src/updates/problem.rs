//! What an error of the updater means for the user.

use std::io;

use tauri_plugin_updater::Error;

use crate::wire::UpdateProblem;

/// Returns the problem that an error means. The log has the error itself.
pub(super) fn of_error(error: &Error) -> UpdateProblem {
    match error {
        Error::Reqwest(error) => {
            if error.url().is_some_and(|url| url.scheme() != "https") {
                UpdateProblem::Insecure
            } else if error.is_redirect() {
                UpdateProblem::Refused
            } else if is_syntax(error) {
                UpdateProblem::Malformed
            } else if error.is_body() || error.is_decode() {
                UpdateProblem::Interrupted
            } else {
                UpdateProblem::Unreachable
            }
        }
        Error::InsecureTransportProtocol => UpdateProblem::Insecure,
        Error::ReleaseNotFound | Error::Network(_) => UpdateProblem::Refused,
        Error::Serialization(_) | Error::Semver(_) | Error::UrlParse(_) | Error::FormatDate => {
            UpdateProblem::Malformed
        }
        Error::TargetNotFound(_) | Error::TargetsNotFound(_) => UpdateProblem::NoFile,
        Error::Minisign(_) | Error::Base64(_) | Error::SignatureUtf8(_) => {
            UpdateProblem::BadSignature
        }
        Error::SignedVersionMismatch { .. } | Error::MissingSignedVersion => {
            UpdateProblem::OtherVersion
        }
        Error::AuthenticationFailed => UpdateProblem::NotPermitted,
        Error::PreviousAppNotRestored(path) => UpdateProblem::NotRestored {
            path: path.to_string_lossy().into_owned(),
        },
        Error::Io(error) => of_io(error),
        error => UpdateProblem::Failed {
            detail: error.to_string(),
        },
    }
}

fn of_io(error: &io::Error) -> UpdateProblem {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => UpdateProblem::DiskFull {
            needed_bytes: 0,
            free_bytes: 0,
        },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            UpdateProblem::NotPermitted
        }
        _ => UpdateProblem::Failed {
            detail: error.to_string(),
        },
    }
}

/// Returns true if the whole response came, but is not JSON.
fn is_syntax(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<serde_json::Error>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_disk_have_their_own_problems() {
        let of = |kind: io::ErrorKind| of_error(&Error::Io(kind.into()));
        let full = UpdateProblem::DiskFull {
            needed_bytes: 0,
            free_bytes: 0,
        };
        assert_eq!(of(io::ErrorKind::StorageFull), full);
        assert_eq!(of(io::ErrorKind::QuotaExceeded), full);
        assert_eq!(
            of(io::ErrorKind::PermissionDenied),
            UpdateProblem::NotPermitted
        );
        assert!(matches!(
            of(io::ErrorKind::NotFound),
            UpdateProblem::Failed { .. }
        ));
    }

    #[test]
    fn an_app_that_was_moved_away_is_named() {
        let error =
            Error::PreviousAppNotRestored("/Users/me/Transom (previous version).app".into());
        let path = "/Users/me/Transom (previous version).app".to_owned();
        assert_eq!(of_error(&error), UpdateProblem::NotRestored { path });
    }

    #[test]
    fn a_signature_of_another_version_is_not_a_wrong_signature() {
        assert_eq!(
            of_error(&Error::MissingSignedVersion),
            UpdateProblem::OtherVersion
        );
        let wrong = Error::SignatureUtf8(String::new());
        assert_eq!(of_error(&wrong), UpdateProblem::BadSignature);
    }
}
