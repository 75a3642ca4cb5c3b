//! Kernels that MLX compiles from source on the GPU of this machine, in Metal's or CUDA's language.
//! mlx-rs offers only the first, and only where MLX is built together with it.
//!
//! MLX compiles a kernel when it first runs it with new types or numbers. If that fails, the evaluation
//! of its outputs returns the error.

use std::ffi::{CStr, CString};

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype};

use super::stream;
use crate::error::MlxResult;

/// The language of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelLanguage {
    Metal,
    Cuda,
}

/// The source of a kernel. MLX writes the signature: inputs and outputs are pointers with these
/// names, and `NAME_shape` is there for each input whose shape the body mentions.
#[derive(Debug)]
pub(crate) struct KernelSource<'a> {
    pub(crate) name: &'a str,
    pub(crate) inputs: &'a [&'a str],
    pub(crate) outputs: &'a [&'a str],
    /// Text before the function.
    pub(crate) header: &'a str,
    pub(crate) body: &'a str,
}

/// How a kernel is run.
#[derive(Debug)]
pub(crate) struct KernelLaunch<'a> {
    /// Constants of the source, for each combination of which MLX compiles the kernel.
    pub(crate) numbers: &'a [(&'a CStr, i32)],
    /// The shapes of the outputs, which are in f32.
    pub(crate) outputs: &'a [&'a [i32]],
    /// Threads in total, a multiple of `group` along each axis.
    pub(crate) grid: [i32; 3],
    /// Threads per group.
    pub(crate) group: [i32; 3],
}

/// A kernel. It gets copies of inputs that are not contiguous.
#[derive(Debug)]
pub(crate) enum GpuKernel {
    Metal(metal::Kernel),
    Cuda(cuda::Kernel),
}

impl GpuKernel {
    /// Returns the kernel, which is not compiled yet.
    pub(crate) fn new(language: KernelLanguage, source: &KernelSource<'_>) -> MlxResult<Self> {
        // Makes sure that mlx-rs handles errors: by itself, mlx-c would end the process.
        drop(mlx_rs::Device::try_default()?);
        match language {
            KernelLanguage::Metal => metal::Kernel::new(source).map(Self::Metal),
            KernelLanguage::Cuda => cuda::Kernel::new(source).map(Self::Cuda),
        }
    }

    /// Returns the outputs, which are computed when they are evaluated.
    ///
    /// # Safety
    ///
    /// With these inputs and this launch, the kernel must write each element of its outputs, read and
    /// write nothing else but its inputs and outputs, and no two threads may write to one place.
    pub(crate) unsafe fn run(
        &self,
        inputs: &[&Array],
        launch: &KernelLaunch<'_>,
    ) -> MlxResult<Vec<Array>> {
        // SAFETY: the caller promises the same.
        unsafe {
            match self {
                Self::Metal(kernel) => kernel.run(inputs, launch),
                Self::Cuda(kernel) => kernel.run(inputs, launch),
            }
        }
    }
}

/// Defines a module with the kernels of a language. mlx-c has the same functions for both, on all
/// systems, with other names and types.
macro_rules! language {
    ($module:ident {
        new: $new:ident(.., $option:expr),
        free: $free:ident,
        apply: $apply:ident,
        config: $config_new:ident, $config_free:ident,
        add_number: $add_number:ident,
        add_output: $add_output:ident,
        set_grid: $set_grid:ident,
        set_group: $set_group:ident,
        types: $kernel:ident, $config:ident,
    }) => {
        pub(crate) mod $module {
            use super::*;

            #[derive(Debug)]
            pub(crate) struct Kernel(mlx_sys::$kernel);

            impl Kernel {
                pub(super) fn new(source: &KernelSource<'_>) -> MlxResult<Self> {
                    let texts = [source.name, source.header, source.body].map(c_string);
                    let [name, header, body] = texts;
                    let (name, header, body) = (name?, header?, body?);
                    let (inputs, outputs) =
                        (Names::new(source.inputs)?, Names::new(source.outputs)?);
                    // SAFETY: the strings and lists are valid during the call, which copies them.
                    let kernel = Self(unsafe {
                        mlx_sys::$new(
                            name.as_ptr(),
                            inputs.0,
                            outputs.0,
                            body.as_ptr(),
                            header.as_ptr(),
                            true,
                            $option,
                        )
                    });
                    match kernel.0.ctx.is_null() {
                        true => Err(Exception::custom("MLX cannot make a kernel on this device")),
                        false => Ok(kernel),
                    }
                }

                /// # Safety
                ///
                /// As for [`GpuKernel::run`].
                pub(super) unsafe fn run(
                    &self,
                    inputs: &[&Array],
                    launch: &KernelLaunch<'_>,
                ) -> MlxResult<Vec<Array>> {
                    let config = Config::new(launch)?;
                    let inputs = Arrays::of(inputs);
                    let mut outputs = Arrays::of(&[]);
                    let stream = stream();
                    // SAFETY: the handles are valid during the call, which counts its own
                    // references. The caller promises what the kernel does.
                    succeeded(unsafe {
                        let outputs = &mut outputs.0;
                        mlx_sys::$apply(outputs, self.0, inputs.0, config.0, stream.as_ptr())
                    })?;
                    outputs.get()
                }
            }

            impl Drop for Kernel {
                fn drop(&mut self) {
                    // SAFETY: nothing else frees the handle, which may be null.
                    unsafe { mlx_sys::$free(self.0) };
                }
            }

            /// A launch in the form of mlx-c.
            struct Config(mlx_sys::$config);

            impl Config {
                fn new(launch: &KernelLaunch<'_>) -> MlxResult<Self> {
                    // SAFETY: the call returns a handle, which `Drop` frees.
                    let config = Self(unsafe { mlx_sys::$config_new() });
                    let ([x, y, z], [group_x, group_y, group_z]) = (launch.grid, launch.group);
                    let dtype = Dtype::Float32.into();
                    // SAFETY: every pointer is valid during its call, which copies the data. A null
                    // handle makes the calls fail.
                    unsafe {
                        for shape in launch.outputs {
                            let (shape, size) = (shape.as_ptr(), shape.len());
                            succeeded(mlx_sys::$add_output(config.0, shape, size, dtype))?;
                        }
                        for (name, number) in launch.numbers {
                            succeeded(mlx_sys::$add_number(config.0, name.as_ptr(), *number))?;
                        }
                        succeeded(mlx_sys::$set_grid(config.0, x, y, z))?;
                        succeeded(mlx_sys::$set_group(config.0, group_x, group_y, group_z))?;
                    }
                    Ok(config)
                }
            }

            impl Drop for Config {
                fn drop(&mut self) {
                    // SAFETY: nothing else frees the handle, which may be null.
                    unsafe { mlx_sys::$config_free(self.0) };
                }
            }
        }
    };
}

language!(metal {
    // Outputs are not atomic.
    new: mlx_fast_metal_kernel_new(.., false),
    free: mlx_fast_metal_kernel_free,
    apply: mlx_fast_metal_kernel_apply,
    config: mlx_fast_metal_kernel_config_new,
    mlx_fast_metal_kernel_config_free,
    add_number: mlx_fast_metal_kernel_config_add_template_arg_int,
    add_output: mlx_fast_metal_kernel_config_add_output_arg,
    set_grid: mlx_fast_metal_kernel_config_set_grid,
    set_group: mlx_fast_metal_kernel_config_set_thread_group,
    types: mlx_fast_metal_kernel,
    mlx_fast_metal_kernel_config,
});

language!(cuda {
    // Bytes of shared memory.
    new: mlx_fast_cuda_kernel_new(.., 0),
    free: mlx_fast_cuda_kernel_free,
    apply: mlx_fast_cuda_kernel_apply,
    config: mlx_fast_cuda_kernel_config_new,
    mlx_fast_cuda_kernel_config_free,
    add_number: mlx_fast_cuda_kernel_config_add_template_arg_int,
    add_output: mlx_fast_cuda_kernel_config_add_output_arg,
    set_grid: mlx_fast_cuda_kernel_config_set_grid,
    set_group: mlx_fast_cuda_kernel_config_set_thread_group,
    types: mlx_fast_cuda_kernel,
    mlx_fast_cuda_kernel_config,
});

/// A list of arrays in the form of mlx-c.
struct Arrays(mlx_sys::mlx_vector_array);

impl Arrays {
    fn of(arrays: &[&Array]) -> Self {
        let handles: Vec<_> = arrays.iter().map(|array| array.as_ptr()).collect();
        // SAFETY: the handles are valid during the call, which counts its own references.
        Self(unsafe { mlx_sys::mlx_vector_array_new_data(handles.as_ptr(), handles.len()) })
    }

    fn get(&self) -> MlxResult<Vec<Array>> {
        // SAFETY: the list is valid, and each handle is owned by the `Array` that is made of it.
        unsafe {
            let n_arrays = mlx_sys::mlx_vector_array_size(self.0);
            let get = |index| {
                let mut handle = mlx_sys::mlx_array_new();
                let status = mlx_sys::mlx_vector_array_get(&mut handle, self.0, index);
                let array = Array::from_ptr(handle);
                succeeded(status).map(|()| array)
            };
            (0..n_arrays).map(get).collect()
        }
    }
}

impl Drop for Arrays {
    fn drop(&mut self) {
        // SAFETY: nothing else frees the handle.
        unsafe { mlx_sys::mlx_vector_array_free(self.0) };
    }
}

/// A list of names in the form of mlx-c.
struct Names(mlx_sys::mlx_vector_string);

impl Names {
    fn new(names: &[&str]) -> MlxResult<Self> {
        let names = names.iter().map(|name| c_string(name));
        let names = names.collect::<MlxResult<Vec<_>>>()?;
        let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: the pointers are valid during the call, which copies the strings.
        let list =
            unsafe { mlx_sys::mlx_vector_string_new_data(pointers.as_mut_ptr(), pointers.len()) };
        Ok(Self(list))
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // SAFETY: nothing else frees the handle.
        unsafe { mlx_sys::mlx_vector_string_free(self.0) };
    }
}

fn succeeded(status: i32) -> MlxResult<()> {
    match status {
        0 => Ok(()),
        _ => Err(Exception::custom("MLX cannot run a kernel on this device")),
    }
}

fn c_string(text: &str) -> MlxResult<CString> {
    CString::new(text).map_err(|error| Exception::custom(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(body: &str) -> KernelSource<'_> {
        KernelSource {
            name: "twice",
            inputs: &["x"],
            outputs: &["y"],
            header: "",
            body,
        }
    }

    #[test]
    fn a_kernel_of_another_device_is_an_error() {
        let (mut has_cuda, mut has_metal) = (false, false);
        // SAFETY: each call writes one bool.
        unsafe {
            mlx_sys::mlx_cuda_is_available(&mut has_cuda);
            mlx_sys::mlx_metal_is_available(&mut has_metal);
        }
        let x = Array::from_f32(1.0);
        let launch = KernelLaunch {
            numbers: &[(c"SIZE", 1)],
            outputs: &[&[1]],
            grid: [1; 3],
            group: [1; 3],
        };
        for (language, exists) in [
            (KernelLanguage::Cuda, has_cuda),
            (KernelLanguage::Metal, has_metal),
        ] {
            let kernel = GpuKernel::new(language, &source("y[0] = 2 * x[0];"));
            // SAFETY: the kernel is not evaluated.
            let run = kernel.and_then(|kernel| unsafe { kernel.run(&[&x], &launch) });
            assert!(exists || run.is_err(), "{language:?}: {run:?}");
            assert!(GpuKernel::new(language, &source("\0")).is_err());
        }
    }
}
