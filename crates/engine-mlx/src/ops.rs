//! MLX operations that mlx-rs does not offer, or offers only in a slower form.
//!
//! mlx-rs implements slices by general indexing, which reshapes the update and adds several graph
//! nodes per call. A decode step makes two slice updates and several slices per layer, and on a CPU
//! each node takes about two microseconds.

#![expect(unsafe_code, reason = "calls into mlx-c")]

mod gpu_kernel;
mod quantized;

pub(crate) use gpu_kernel::{GpuKernel, KernelLanguage, KernelLaunch, KernelSource};
pub(crate) use quantized::QuantizedMatrix;

use std::ffi::c_void;
use std::sync::Arc;

use memmap2::Mmap;
use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, Stream};

use crate::error::MlxResult;

fn stream() -> Stream {
    Stream::thread_local_or_default().as_ref().clone()
}

/// Runs an MLX operation, for which `call` gets the handle of the result. mlx-rs does not return MLX's
/// own message, so an error contains the shapes of `inputs`, which are the usual reason.
fn operation(
    inputs: &[&Array],
    name: impl FnOnce() -> String,
    call: impl FnOnce(*mut mlx_sys::mlx_array, mlx_sys::mlx_stream) -> i32,
) -> MlxResult<Array> {
    let stream = stream();
    // SAFETY: the call returns an empty handle.
    let mut handle = unsafe { mlx_sys::mlx_array_new() };
    let status = call(&mut handle, stream.as_ptr());
    // SAFETY: nothing else owns the handle; `Array` frees it, whatever the status.
    let array = unsafe { Array::from_ptr(handle) };
    if status == 0 {
        return Ok(array);
    }
    let shapes: Vec<String> = inputs
        .iter()
        .map(|input| format!("{:?} {:?}", input.dtype(), input.shape()))
        .collect();
    let reason = format!("{} of {} failed", name(), shapes.join(" and "));
    Err(Exception::custom(reason))
}

/// Returns the part of `array` from `start` up to `stop` along every axis. It shares memory with
/// `array`.
pub(crate) fn slice(array: &Array, start: &[i32], stop: &[i32]) -> MlxResult<Array> {
    debug_assert_eq!(array.ndim(), start.len());
    let strides = [1; 8];
    let name = || format!("slice {start:?} to {stop:?}");
    // SAFETY: every pointer comes with its length and is valid during the call, which copies the
    // data.
    operation(&[array], name, |result, stream| unsafe {
        mlx_sys::mlx_slice(
            result,
            array.as_ptr(),
            start.as_ptr(),
            start.len(),
            stop.as_ptr(),
            stop.len(),
            strides.as_ptr(),
            start.len(),
            stream,
        )
    })
}

/// Returns the part of `array` from `start` up to `stop` along one axis.
pub(crate) fn slice_axis(array: &Array, axis: usize, start: i32, stop: i32) -> MlxResult<Array> {
    let mut starts = [0; 8];
    let mut stops = [0; 8];
    let ndim = array.ndim();
    stops[..ndim].copy_from_slice(array.shape());
    starts[axis] = start;
    stops[axis] = stop;
    slice(array, &starts[..ndim], &stops[..ndim])
}

/// Returns `n` equal parts of `array` along its first axis.
pub(crate) fn parts(array: &Array, n: i32) -> impl Iterator<Item = MlxResult<Array>> {
    let size = array.dim(0) / n.max(1);
    (0..n).map(move |part| slice_axis(array, 0, part * size, (part + 1) * size))
}

unsafe extern "C" {
    /// See `xtask/native/in_place.cpp`, which is compiled together with mlx-c.
    fn transom_slice_update_in_place(
        result: *mut mlx_sys::mlx_array,
        array: mlx_sys::mlx_array,
        update: mlx_sys::mlx_array,
        start: *const i32,
        stop: *const i32,
        n_axes: usize,
        stream: mlx_sys::mlx_stream,
    ) -> i32;
}

/// Replaces the part of `array` from `start` up to `stop` by `update`, which has the same shape, in the
/// memory of `array`: other arrays that share it contain the update too.
///
/// No operation that is queued or comes later may read that part of another array, or take the last other
/// array for its result. `array` must own its memory: neither the bytes of a file nor the beginning of a
/// larger array. Another part of a larger array is copied.
pub(crate) fn slice_update_in_place(
    array: &Array,
    update: &Array,
    start: &[i32],
    stop: &[i32],
) -> MlxResult<Array> {
    assert_eq!([start.len(), stop.len()], [array.ndim(); 2]);
    let name = || format!("slice_update {start:?} to {stop:?}");
    // SAFETY: as for `slice`; both slices have an index for each axis (asserted above).
    operation(&[array, update], name, |result, stream| unsafe {
        transom_slice_update_in_place(
            result,
            array.as_ptr(),
            update.as_ptr(),
            start.as_ptr(),
            stop.as_ptr(),
            start.len(),
            stream,
        )
    })
}

/// Returns the bits that are set in both arrays of integers, which are broadcast.
pub(crate) fn bitwise_and(a: &Array, b: &Array) -> MlxResult<Array> {
    let name = || "bitwise_and".to_owned();
    // SAFETY: both handles are valid during the call.
    operation(&[a, b], name, |result, stream| unsafe {
        mlx_sys::mlx_bitwise_and(result, a.as_ptr(), b.as_ptr(), stream)
    })
}

/// Returns an array of `n_elements` of `dtype` that begin at byte `offset` of a mapped file.
///
/// Metal uses the pages of the file: nothing is copied, the array owns a reference to the mapping,
/// and pages are read from disk on first use. Other devices copy at once.
///
/// The bytes must be inside the mapping, and `offset` must be a multiple of the element size.
pub(crate) fn array_over_mapping(
    mapping: &Arc<Mmap>,
    offset: usize,
    n_elements: usize,
    dtype: Dtype,
) -> MlxResult<Array> {
    /// Largest page size of the supported systems; Metal accepts only whole pages. The last page of
    /// a file ends with the file.
    const PAGE: usize = 16384;
    let size = element_size(dtype)
        .ok_or_else(|| Exception::custom(format!("weights of type {dtype:?} are not supported")))?;
    let page_start = offset / PAGE * PAGE;
    let skipped = (offset - page_start) / size;
    let stop = skipped + n_elements;
    assert!(offset.is_multiple_of(size) && offset + n_elements * size <= mapping.len());
    let window = (stop * size).next_multiple_of(PAGE);
    let window = window.min(mapping.len() - page_start) / size;
    let (Ok(stop), Ok(window)) = (i32::try_from(stop), i32::try_from(window)) else {
        return Err(Exception::custom("a tensor has more than 2^31 elements"));
    };

    unsafe extern "C" fn release(payload: *mut c_void) {
        // SAFETY: `payload` is the box created below, and MLX calls this once.
        drop(unsafe { Box::from_raw(payload.cast::<Arc<Mmap>>()) });
    }
    let payload = Box::into_raw(Box::new(Arc::clone(mapping)));
    // SAFETY: the window is inside the mapping (asserted above), which `payload` keeps alive until
    // MLX releases it. MLX writes only to arrays that it may donate, and this one is never donated,
    // because the model keeps a reference to it. Only KV caches are written in place.
    let whole = unsafe {
        let shape = [window];
        Array::from_ptr(mlx_sys::mlx_array_new_data_managed_payload(
            mapping.as_ptr().add(page_start).cast_mut().cast(),
            shape.as_ptr(),
            1,
            dtype.into(),
            payload.cast(),
            Some(release),
        ))
    };
    if skipped == 0 && stop == window {
        return Ok(whole);
    }
    slice(&whole, &[skipped as i32], &[stop])
}

/// Copies `bytes` to an array of this shape and type. MLX allocates its memory, so it is aligned
/// for the fastest loads, unlike tensors in the middle of a file (on CUDA, a quantized product with
/// one row was 6 % slower with those).
pub(crate) fn copied_array(bytes: &[u8], shape: &[i32], dtype: Dtype) -> MlxResult<Array> {
    let n_elements: usize = shape.iter().map(|&size| size as usize).product();
    if element_size(dtype).is_none_or(|size| size * n_elements != bytes.len()) {
        return Err(Exception::custom(format!(
            "{} bytes do not make {shape:?} of {dtype:?}",
            bytes.len()
        )));
    }
    // SAFETY: the number of bytes is the number that MLX copies (checked above) before this
    // returns. It copies byte by byte, so alignment does not matter.
    Ok(unsafe { Array::from_raw_data(bytes.as_ptr().cast(), shape, dtype) })
}

/// Returns the size of an element in bytes, for the types of weights.
pub(crate) fn element_size(dtype: Dtype) -> Option<usize> {
    match dtype {
        Dtype::Float32 | Dtype::Uint32 | Dtype::Int32 => Some(4),
        Dtype::Float16 | Dtype::Bfloat16 => Some(2),
        Dtype::Uint8 => Some(1),
        _ => None,
    }
}

/// Waits until all work queued on this thread's stream is done.
pub(crate) fn synchronize() -> MlxResult<()> {
    let stream = stream();
    // SAFETY: the stream handle is valid for the call.
    match unsafe { mlx_sys::mlx_synchronize(stream.as_ptr()) } {
        0 => Ok(()),
        _ => Err(Exception::custom("waiting for the device failed")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use mlx_rs::ops;

    use super::*;

    #[test]
    fn an_array_over_a_mapping_contains_the_bytes_at_its_offset() {
        let values: Vec<u32> = (0..20_000).collect();
        let mut file = tempfile::tempfile().expect("a temporary file");
        for value in &values {
            file.write_all(&value.to_ne_bytes()).expect("written");
        }
        // SAFETY: nothing else writes to the file.
        let mapping = Arc::new(unsafe { Mmap::map(&file) }.expect("mapped"));
        for (first, n) in [
            (0, 1),
            (0, 20_000),
            (3, 5),
            (4096, 100),
            (4097, 10_000),
            (19_999, 1),
        ] {
            let array = array_over_mapping(&mapping, first * 4, n, Dtype::Uint32).expect("MLX");
            let array = array.contiguous().expect("contiguous");
            assert_eq!(array.as_slice::<u32>(), &values[first..first + n]);
        }
        let weak = Arc::downgrade(&mapping);
        drop(mapping);
        assert!(weak.upgrade().is_none(), "MLX still holds the mapping");
    }

    #[test]
    fn bytes_that_do_not_fill_the_shape_are_refused() {
        assert!(copied_array(&[0; 8], &[2], Dtype::Float32).is_ok());
        assert!(copied_array(&[0; 7], &[2], Dtype::Float32).is_err());
        assert!(copied_array(&[0; 8], &[2, 2], Dtype::Float32).is_err());
    }

    #[test]
    fn an_error_names_the_operation_and_the_shapes() {
        let array = Array::from_slice(&[1.0_f32; 6], &[2, 3]);
        let update = Array::from_slice(&[1.0_f32; 4], &[4]);
        let error =
            slice_update_in_place(&array, &update, &[0, 0], &[1, 2]).expect_err("shapes differ");
        let expected = "slice_update [0, 0] to [1, 2] of Float32 [2, 3] and Float32 [4] failed";
        assert_eq!(error.what(), expected);
    }

    #[test]
    fn an_update_in_place_is_in_all_arrays_with_the_same_memory() {
        let array = ops::zeros::<f32>(&[4, 2]).expect("zeros");
        array.eval().expect("MLX");
        let mut newest = array.clone();
        for row in 0..4 {
            let update = Array::from_slice(&[row as f32; 2], &[1, 2]);
            newest =
                slice_update_in_place(&newest, &update, &[row, 0], &[row + 1, 2]).expect("updated");
        }
        let rows = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
        assert_eq!(newest.as_slice::<f32>(), rows);
        assert_eq!(array.as_slice::<f32>(), rows);
        drop(array);
        assert_eq!(newest.as_slice::<f32>(), rows);
    }

    #[test]
    fn an_update_of_a_view_leaves_its_array_unchanged() {
        let array = Array::from_slice(&[0.0_f32; 6], &[3, 2]);
        let row = slice_axis(&array, 0, 1, 2).expect("a view");
        let update = Array::from_slice(&[7.0_f32], &[1, 1]);
        let updated = slice_update_in_place(&row, &update, &[0, 0], &[1, 1]).expect("updated");
        assert_eq!(updated.as_slice::<f32>(), [7.0, 0.0]);
        assert_eq!(array.as_slice::<f32>(), [0.0; 6]);
    }
}
