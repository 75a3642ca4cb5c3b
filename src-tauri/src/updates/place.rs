//! Whether the running copy of the app may be replaced by an update.
//!
//! Rule: only a copy that the user installed as a whole is replaced: an app in a folder Applications, or
//! an AppImage. What a package manager installed belongs to it.

use std::path::{Path, PathBuf};

use crate::wire::UpdateRefusal;

/// The running copy of the app.
#[derive(Debug, Clone)]
pub(super) struct RunningCopy {
    pub(super) is_mac: bool,
    /// The program, without symbolic links.
    pub(super) executable: PathBuf,
    /// The file of the AppImage that the program runs from.
    pub(super) appimage: Option<PathBuf>,
    pub(super) home: Option<PathBuf>,
}

/// What an update replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The program in the app, or the AppImage.
    pub(super) program: PathBuf,
    /// The folder that contains the app or the AppImage.
    pub(super) folder: PathBuf,
}

/// Folders of package managers on Linux.
const PACKAGE_FOLDERS: [&str; 4] = ["/usr", "/opt", "/snap", "/app"];

/// Returns what an update replaces, or why nothing may be replaced. `is_writable` tells whether the
/// user may write to a folder; on a Mac the system asks for a password if not.
pub(super) fn place(
    copy: &RunningCopy,
    is_writable: impl Fn(&Path) -> bool,
) -> Result<Place, UpdateRefusal> {
    match (copy.is_mac, &copy.appimage) {
        (true, _) => place_on_mac(copy),
        (false, Some(file)) => {
            let folder = file.parent().ok_or(UpdateRefusal::NotInstalled)?;
            if !is_writable(folder) {
                return Err(UpdateRefusal::NotWritable);
            }
            Ok(Place {
                program: file.clone(),
                folder: folder.to_owned(),
            })
        }
        (false, None) => {
            let mut folders = PACKAGE_FOLDERS.iter();
            let is_packaged = folders.any(|folder| copy.executable.starts_with(folder));
            Err(match is_packaged {
                true => UpdateRefusal::Package,
                false => UpdateRefusal::NotInstalled,
            })
        }
    }
}

/// As [`place`], for `Applications/Transom.app/Contents/MacOS/transom-app`. An app that was opened from
/// a disk image or in the folder of downloads is somewhere else: the system may run a copy of it.
fn place_on_mac(copy: &RunningCopy) -> Result<Place, UpdateRefusal> {
    let programs = copy.executable.parent();
    let is_in_app = programs.is_some_and(|folder| folder.ends_with("Contents/MacOS"));
    let app = copy.executable.ancestors().nth(3).filter(|_| is_in_app);
    let app = app.filter(|app| app.extension().is_some_and(|end| end == "app"));
    let folder = app.and_then(Path::parent);
    let folder = folder.ok_or(UpdateRefusal::NotInstalled)?;
    let own = copy.home.as_ref().map(|home| home.join("Applications"));
    let is_installed =
        folder.starts_with("/Applications") || own.is_some_and(|own| folder.starts_with(own));
    match is_installed {
        true => Ok(Place {
            program: copy.executable.clone(),
            folder: folder.to_owned(),
        }),
        false => Err(UpdateRefusal::NotInApplications),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_mac(executable: &str) -> Result<Place, UpdateRefusal> {
        let copy = RunningCopy {
            is_mac: true,
            executable: executable.into(),
            appimage: None,
            home: Some("/Users/me".into()),
        };
        // The system asks for a password.
        place(&copy, |_| false)
    }

    fn on_linux(executable: &str, appimage: Option<&str>) -> Result<Place, UpdateRefusal> {
        let copy = RunningCopy {
            is_mac: false,
            executable: executable.into(),
            appimage: appimage.map(PathBuf::from),
            home: Some("/home/me".into()),
        };
        place(&copy, |folder| folder.starts_with("/home/me"))
    }

    #[test]
    fn an_app_in_a_folder_applications_is_replaced() {
        for folder in [
            "/Applications",
            "/Applications/Tools",
            "/Users/me/Applications",
        ] {
            let program = format!("{folder}/Transom.app/Contents/MacOS/transom-app");
            let place = on_mac(&program).unwrap();
            assert_eq!(place.folder, Path::new(folder));
            assert_eq!(place.program, Path::new(&program));
        }
    }

    #[test]
    fn an_app_elsewhere_on_a_mac_is_not_replaced() {
        for folder in [
            "/Volumes/Transom",
            "/Users/me/Downloads",
            "/Users/you/Applications",
            "/Applications2",
            "/private/var/folders/x/T/AppTranslocation/1/d",
        ] {
            let program = format!("{folder}/Transom.app/Contents/MacOS/transom-app");
            assert_eq!(on_mac(&program), Err(UpdateRefusal::NotInApplications));
        }
    }

    #[test]
    fn a_program_that_is_in_no_app_is_not_installed() {
        for program in [
            "/Users/me/transom/target/debug/transom-app",
            "/Applications/transom-app",
            "/Applications/Transom/Contents/MacOS/transom-app",
            "transom-app",
        ] {
            assert_eq!(
                on_mac(program),
                Err(UpdateRefusal::NotInstalled),
                "{program}"
            );
        }
    }

    #[test]
    fn on_linux_only_an_appimage_in_a_folder_of_the_user_is_replaced() {
        let mounted = "/tmp/.mount_Trans/usr/bin/transom-app";
        let own = on_linux(mounted, Some("/home/me/Apps/Transom.AppImage")).unwrap();
        assert_eq!(own.program, Path::new("/home/me/Apps/Transom.AppImage"));
        assert_eq!(own.folder, Path::new("/home/me/Apps"));
        let shared = on_linux(mounted, Some("/srv/Transom.AppImage"));
        assert_eq!(shared, Err(UpdateRefusal::NotWritable));
    }

    #[test]
    fn the_files_of_a_package_manager_are_not_replaced() {
        for program in ["/usr/bin/transom-app", "/opt/transom/transom-app"] {
            assert_eq!(on_linux(program, None), Err(UpdateRefusal::Package));
        }
        let built = on_linux("/home/me/transom/target/debug/transom-app", None);
        assert_eq!(built, Err(UpdateRefusal::NotInstalled));
    }
}
