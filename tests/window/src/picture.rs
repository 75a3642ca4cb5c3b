//! Small PNG files with a palette of at most 256 colors, which is enough for screenshots of
//! windows.

use std::collections::HashMap;

use color_quant::NeuQuant;

use crate::failure::{Failure, Outcome};

/// RGBA pixels, row by row.
#[derive(Debug, Clone)]
pub struct Picture {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Four bytes per pixel.
    pub rgba: Vec<u8>,
}

impl Picture {
    /// Reads an 8-bit PNG, as drivers send it.
    ///
    /// # Errors
    /// If it is not such a PNG.
    pub fn from_png(bytes: &[u8]) -> Outcome<Self> {
        let doing = "read a picture";
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().map_err(Failure::doing(doing))?;
        let size = reader.output_buffer_size();
        let mut pixels = vec![0; size.unwrap_or_default()];
        let info = reader
            .next_frame(&mut pixels)
            .map_err(Failure::doing(doing))?;
        pixels.truncate(info.buffer_size());
        let rgba = match info.color_type {
            png::ColorType::Rgba => pixels,
            png::ColorType::Rgb => {
                let pixels = pixels.chunks_exact(3);
                pixels
                    .flat_map(|one| [one[0], one[1], one[2], 255])
                    .collect()
            }
            other => {
                let cause = format!("its pixels are {other:?}");
                return Err(Failure::setup(doing, cause));
            }
        };
        Ok(Self {
            width: info.width,
            height: info.height,
            rgba,
        })
    }

    /// Returns a part of the image, limited to its size.
    pub fn part(&self, left: u32, top: u32, width: u32, height: u32) -> Self {
        let left = left.min(self.width);
        let top = top.min(self.height);
        let width = width.min(self.width - left);
        let height = height.min(self.height - top);
        let row = |y: u32| {
            let start = ((y * self.width + left) * 4) as usize;
            &self.rgba[start..start + (width * 4) as usize]
        };
        let rgba = (top..top + height).flat_map(row).copied().collect();
        Self {
            width,
            height,
            rgba,
        }
    }
}

/// Encodes the image as a PNG with a palette. Lossless up to 256 colors.
///
/// # Errors
/// If encoding fails.
pub fn small_png(picture: &Picture) -> Outcome<Vec<u8>> {
    let (palette, indices) = with_palette(picture);
    let doing = "write a picture";
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, picture.width, picture.height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette);
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header().map_err(Failure::doing(doing))?;
    writer
        .write_image_data(&indices)
        .map_err(Failure::doing(doing))?;
    writer.finish().map_err(Failure::doing(doing))?;
    Ok(bytes)
}

/// Returns the colors in the order of their first pixel, and the color index of each pixel.
fn with_palette(picture: &Picture) -> (Vec<u8>, Vec<u8>) {
    let mut numbers: HashMap<[u8; 3], u8> = HashMap::new();
    let mut palette = Vec::new();
    let mut indices = Vec::with_capacity(picture.rgba.len() / 4);
    for pixel in picture.rgba.chunks_exact(4) {
        let color = [pixel[0], pixel[1], pixel[2]];
        let next = u8::try_from(numbers.len()).ok();
        let number = match (numbers.get(&color), next) {
            (Some(number), _) => *number,
            (None, Some(number)) => {
                numbers.insert(color, number);
                palette.extend(color);
                number
            }
            (None, None) => return quantized(picture),
        };
        indices.push(number);
    }
    (palette, indices)
}

fn quantized(picture: &Picture) -> (Vec<u8>, Vec<u8>) {
    let network = NeuQuant::new(3, 256, &picture.rgba);
    let mut known: HashMap<[u8; 4], u8> = HashMap::new();
    let pixels = picture.rgba.chunks_exact(4);
    let indices = pixels.map(|pixel| {
        let color = [pixel[0], pixel[1], pixel[2], 255];
        *known.entry(color).or_insert_with(|| {
            u8::try_from(network.index_of(&color)).expect("the palette has 256 colors")
        })
    });
    let indices = indices.collect();
    (network.color_map_rgb(), indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(n_colors: u32) -> Picture {
        let pixels = (0..n_colors).flat_map(|number| {
            let [_, a, b, c] = number.to_be_bytes();
            [c, b, a, 255]
        });
        Picture {
            width: n_colors,
            height: 1,
            rgba: pixels.collect(),
        }
    }

    #[test]
    fn a_picture_of_few_colors_comes_back_exactly() {
        let picture = gradient(256);
        let again = Picture::from_png(&small_png(&picture).unwrap()).unwrap();
        assert_eq!(again.rgba, picture.rgba);
    }

    #[test]
    fn a_picture_of_many_colors_keeps_them_nearly() {
        let picture = gradient(4096);
        let again = Picture::from_png(&small_png(&picture).unwrap()).unwrap();
        assert_eq!(again.width, picture.width);
        let far = picture.rgba.iter().zip(&again.rgba);
        let total: u32 = far.map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
        // Ten of 255 per channel: such different colors are the worst case for a palette.
        assert!(total / 4096 < 30, "{total}");
    }

    #[test]
    fn a_part_is_limited_to_the_image() {
        let picture = gradient(10);
        let part = picture.part(8, 0, 5, 5);
        assert_eq!((part.width, part.height), (2, 1));
        assert_eq!(part.rgba, picture.rgba[32..]);
    }
}
