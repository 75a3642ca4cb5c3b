//! Disk space that the system can clear for the user.

use std::path::Path;

use objc2::rc::autoreleasepool;
use objc2_foundation::{
    NSNumber, NSString, NSURL, NSURLVolumeAvailableCapacityForImportantUsageKey,
};

/// Returns the bytes that can be written into `folder` after the system has cleared what it can;
/// `None` if the volume does not report it or reports 0, as volumes of other vendors do.
pub(crate) fn clearable_disk_bytes(folder: &Path) -> Option<u64> {
    autoreleasepool(|_| {
        let url = NSURL::fileURLWithPath_isDirectory(&NSString::from_str(folder.to_str()?), true);
        let mut value = None;
        // SAFETY: the key is a constant of the framework, whose value is a number.
        #[expect(unsafe_code, reason = "the value's type follows from the key")]
        unsafe {
            let key = NSURLVolumeAvailableCapacityForImportantUsageKey;
            url.getResourceValue_forKey_error(&mut value, key).ok()?;
        }
        let bytes = value?.downcast::<NSNumber>().ok()?.as_u64();
        (bytes > 0).then_some(bytes)
    })
}
