//! `Transom.app` and its DMG: assembled, checked, signed, and notarized if the keys are there.
//!
//! Variables with the names that Tauri uses decide: without an identity the signature is ad hoc, which
//! is enough to start the app on the Mac that built it. `docs/releasing.md` explains them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bundle::layout::{self, RUN_PATH, Sources, VERSION};
use crate::bundle::{check, programs};
use crate::cache;
use crate::problem::Problem;
use crate::process;
use crate::progress;
use crate::setup::Workspace;

/// The code in the app, in the order of signing: a signature covers what is signed before it.
const CODE: [&str; 4] = [
    "Contents/Frameworks/libmlx.dylib",
    "Contents/MacOS/transom-document-reader",
    "Contents/MacOS/transom",
    "",
];

/// Makes the app and the DMG in `folder` and returns their paths.
pub(super) fn bundle(workspace: &Workspace, folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let checkout = process::workspace();
    let keys = Keys::from_variables(|name| env::var_os(name).filter(|value| !value.is_empty()))?;
    let programs = programs::build(workspace, folder, RUN_PATH)?;
    // The DMG shows this folder.
    let volume = folder.join("Transom");
    cache::make_empty_folder(&volume)?;
    let app = volume.join("Transom.app");
    progress::step("Assembling Transom.app", || {
        let sources = Sources {
            programs: &programs,
            mlx: &workspace.mlx,
            checkout: &checkout,
        };
        layout::assemble_app(&sources, &app)?;
        check::check_app(&app, &programs::private_folders(workspace))
    })?;
    progress::step("Signing Transom.app", || {
        let entitlements = checkout.join("src-tauri/entitlements.plist");
        for code in CODE {
            let file = match code {
                "" => app.clone(),
                code => app.join(code),
            };
            let arguments = signing_arguments(keys.identity.as_deref(), &entitlements);
            run(
                Command::new("codesign").args(arguments).arg(file),
                "sign Transom.app",
            )?;
        }
        let mut verify = Command::new("codesign");
        verify.args(["--verify", "--deep", "--strict"]).arg(&app);
        run(&mut verify, "verify the signature of Transom.app")
    })?;
    if let Some(notary) = &keys.notary {
        progress::step("Notarizing Transom.app", || {
            let archive = folder.join("Transom.zip");
            let mut ditto = Command::new("ditto");
            ditto.args(["-c", "-k", "--keepParent"]);
            run(ditto.arg(&app).arg(&archive), "pack Transom.app")?;
            notary.notarize(&archive)?;
            staple(&app)
        })?;
    }
    let applications = volume.join("Applications");
    symlink("/Applications", &applications).map_err(Problem::io("link", &applications))?;
    let image = folder.join(format!("Transom_{VERSION}_arm64.dmg"));
    progress::step("Packing the DMG", || {
        let mut hdiutil = Command::new("hdiutil");
        hdiutil.args(["create", "-ov", "-volname", "Transom", "-fs", "HFS+"]);
        // The kernels of MLX get half as large with LZMA as with zlib.
        hdiutil.args(["-format", "ULMO", "-srcfolder"]).arg(&volume);
        run(hdiutil.arg(&image), "make the DMG")
    })?;
    if let Some(identity) = &keys.identity {
        let mut codesign = Command::new("codesign");
        codesign.args(["--force", "--timestamp", "--sign"]);
        run(codesign.arg(identity).arg(&image), "sign the DMG")?;
    }
    if let Some(notary) = &keys.notary {
        progress::step("Notarizing the DMG", || {
            notary.notarize(&image)?;
            staple(&image)
        })?;
    }
    Ok(vec![app, image])
}

/// What signs and notarizes.
struct Keys {
    /// The name of a certificate in the keychain; `None` for an ad-hoc signature.
    identity: Option<OsString>,
    notary: Option<Notary>,
}

/// A key of App Store Connect, with which Apple's notary service takes uploads.
struct Notary {
    key_file: OsString,
    key_id: OsString,
    issuer: OsString,
}

impl Keys {
    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Problem> {
        let identity = variable("APPLE_SIGNING_IDENTITY");
        let names = ["APPLE_API_KEY_PATH", "APPLE_API_KEY", "APPLE_API_ISSUER"];
        let notary = match names.map(&variable) {
            [Some(key_file), Some(key_id), Some(issuer)] => Some(Notary {
                key_file,
                key_id,
                issuer,
            }),
            [None, None, None] => None,
            _ => {
                let names = names.join(", ");
                return Err(Problem::new(format!("set all of {names}, or none of them")));
            }
        };
        if notary.is_some() && identity.is_none() {
            return Err(Problem::new(
                "Apple notarizes only signed apps; set APPLE_SIGNING_IDENTITY too",
            ));
        }
        Ok(Self { identity, notary })
    }
}

impl Notary {
    /// Uploads a file and waits for the result, which takes minutes.
    fn notarize(&self, file: &Path) -> Result<(), Problem> {
        let mut submit = Command::new("xcrun");
        submit.args(["notarytool", "submit", "--wait"]).arg(file);
        submit.arg("--key").arg(&self.key_file);
        submit.arg("--key-id").arg(&self.key_id);
        submit.arg("--issuer").arg(&self.issuer);
        run(&mut submit, &format!("notarize {}", file.display()))
    }
}

/// Adds the ticket of the notary service, so that a Mac without network accepts the file. Fails if
/// the file was not accepted.
fn staple(file: &Path) -> Result<(), Problem> {
    let mut stapler = Command::new("xcrun");
    stapler.args(["stapler", "staple"]).arg(file);
    run(&mut stapler, &format!("staple {}", file.display()))
}

/// Returns the arguments of codesign. The hardened runtime, which notarization requires, refuses
/// libraries of other signers, and an ad-hoc signature has none. So that signature goes without.
fn signing_arguments(identity: Option<&OsStr>, entitlements: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["--force", "--prefix", "app.transom.", "--sign"]
        .map(OsString::from)
        .into();
    match identity {
        None => arguments.push("-".into()),
        Some(identity) => {
            arguments.push(identity.into());
            let hardened = ["--timestamp", "--options", "runtime", "--entitlements"];
            arguments.extend(hardened.map(OsString::from));
            arguments.push(entitlements.into());
        }
    }
    arguments
}

fn run(command: &mut Command, action: &str) -> Result<(), Problem> {
    process::output_of(command, action).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Result<Keys, Problem> {
        Keys::from_variables(|name| names.contains(&name).then(|| name.into()))
    }

    #[test]
    fn without_an_identity_the_signature_is_ad_hoc_and_not_hardened() {
        let keys = keys(&[]).unwrap();
        assert!(keys.identity.is_none() && keys.notary.is_none());
        let arguments = signing_arguments(None, Path::new("empty.plist"));
        assert_eq!(arguments.last().unwrap(), "-");
        let hardened = signing_arguments(Some(OsStr::new("me")), Path::new("empty.plist"));
        assert!(hardened.contains(&"runtime".into()) && hardened.contains(&"me".into()));
    }

    #[test]
    fn keys_that_cannot_notarize_are_an_error() {
        let all = ["APPLE_API_KEY_PATH", "APPLE_API_KEY", "APPLE_API_ISSUER"];
        let partly = keys(&all[..2]).err().unwrap().to_string();
        assert!(partly.contains("set all of APPLE_API_KEY_PATH"), "{partly}");
        let unsigned = keys(&all).err().unwrap().to_string();
        assert!(unsigned.contains("APPLE_SIGNING_IDENTITY"), "{unsigned}");
        let signed = [&all[..], &["APPLE_SIGNING_IDENTITY"]].concat();
        assert!(keys(&signed).unwrap().notary.is_some());
    }
}
