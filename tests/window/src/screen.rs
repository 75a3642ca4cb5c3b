//! Captures the whole screen: windows with frames, panel, open menus.
//!
//! Xvfb stores the screen in a file in xwd format: a header of big-endian words, a color table,
//! then rows of pixels.

use std::fs;

use crate::desktop::Desktop;
use crate::failure::{Failure, Outcome};
use crate::picture::Picture;

/// Captures the screen.
///
/// # Errors
/// If its file has an unexpected format.
pub fn capture(desktop: &Desktop) -> Outcome<Picture> {
    let doing = "read the screen";
    let bytes = fs::read(desktop.framebuffer()).map_err(Failure::doing(doing))?;
    from_xwd(&bytes).ok_or_else(|| Failure::setup(doing, "its file is not as expected"))
}

fn from_xwd(bytes: &[u8]) -> Option<Picture> {
    let word = |index: usize| {
        let word = bytes.get(index * 4..index * 4 + 4)?;
        Some(u32::from_be_bytes(word.try_into().ok()?))
    };
    let (header, width, height) = (word(0)?, word(4)?, word(5)?);
    let (bits, row_bytes, n_colors) = (word(11)?, word(12)?, word(19)?);
    if bits != 32 {
        return None;
    }
    let start = (header + n_colors * 12) as usize;
    let mut rgba = Vec::with_capacity((width * height * 4) as usize);
    for row in 0..height {
        let from = start + (row * row_bytes) as usize;
        let pixels = bytes.get(from..from + (width * 4) as usize)?;
        for pixel in pixels.chunks_exact(4) {
            rgba.extend([pixel[2], pixel[1], pixel[0], 255]);
        }
    }
    Some(Picture {
        width,
        height,
        rgba,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_follow_header_and_color_table() {
        let mut words = [0_u32; 25];
        (words[0], words[4], words[5]) = (100, 2, 1);
        (words[11], words[12], words[19]) = (32, 8, 1);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend([0; 12]);
        bytes.extend([3, 2, 1, 0, 30, 20, 10, 0]);
        let picture = from_xwd(&bytes).unwrap();
        assert_eq!((picture.width, picture.height), (2, 1));
        assert_eq!(picture.rgba, [1, 2, 3, 255, 10, 20, 30, 255]);
        assert!(from_xwd(&bytes[..110]).is_none());
    }
}
