// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Extension module `amdgpu_sim._native`: the software GPU for the Python package `amdgpu_sim`, which converts
//! arguments and findings. The environment's variables choose the GPU and the checks when a `Device` is made.

use std::sync::Mutex;

use amdgpu_code_object::{Kernel as Metadata, PrintfFormat, ValueKind};
use check_kernel::arguments::Given;
use check_kernel::command;
use check_kernel::gpu::{Buffer, Gpu, Run};
use check_kernel::kernargs::{self, Shape};
use check_kernel::{code, code::demangled};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

fn wrong(text: String) -> PyErr {
    PyValueError::new_err(text)
}

fn failed(text: String) -> PyErr {
    PyRuntimeError::new_err(text)
}

/// A kernel of a code object.
#[pyclass(frozen)]
struct Kernel {
    /// The ELF file.
    code: Vec<u8>,
    metadata: Metadata,
    printf: Vec<PrintfFormat>,
    agent: String,
}

#[pymethods]
impl Kernel {
    /// The name in C++ where it has one, else the symbol's.
    #[getter]
    fn name(&self) -> String {
        demangled(&self.metadata.name).unwrap_or_else(|| self.metadata.name.clone())
    }

    /// The GPU that runs it.
    #[getter]
    fn target(&self) -> &str {
        &self.agent
    }

    /// Name, bytes, kind and type of each argument that a launch gives. The kind is `value`, `buffer`, `local` or
    /// another name of the metadata.
    #[getter]
    fn arguments(&self) -> Vec<(String, u32, String, String)> {
        let given = self.metadata.arguments.iter().filter_map(|argument| {
            let kind = match &argument.value_kind {
                ValueKind::ByValue => "value",
                ValueKind::GlobalBuffer => "buffer",
                ValueKind::Other(kind) if kind == "dynamic_shared_pointer" => "local",
                ValueKind::Other(kind) => kind,
                ValueKind::Hidden(_) => return None,
            };
            Some((argument.name.clone(), argument.size, kind.to_owned(), argument.type_name.clone()))
        });
        given.collect()
    }

    /// Work-items of a workgroup that the kernel was compiled for, if it was for one size alone.
    #[getter]
    fn required_block(&self) -> Option<[u32; 3]> {
        self.metadata.required_workgroup_size
    }
}

/// Names of the kernels in a file, each with the first GPU that runs it; `None` if none of the simulator does.
#[pyfunction]
fn kernels(file: &[u8]) -> PyResult<Vec<(String, Option<&'static str>)>> {
    let codes = code::objects(file).map_err(wrong)?;
    let named = |name: &String| demangled(name).unwrap_or_else(|| name.clone());
    let names = codes.iter().flat_map(|code| {
        code.metadata.kernels.iter().map(move |kernel| (named(&kernel.name), code.agents.first().copied()))
    });
    Ok(names.collect())
}

/// Finds a kernel in a file by its name, for the GPU `target`.
#[pyfunction]
fn find(file: &[u8], name: &str, target: Option<&str>) -> PyResult<Kernel> {
    let codes = code::objects(file).map_err(wrong)?;
    let found = code::find(&codes, name, target).map_err(wrong)?;
    Ok(Kernel {
        code: found.bytes.to_vec(),
        metadata: found.kernel.clone(),
        printf: found.printf.to_vec(),
        agent: found.agent.to_owned(),
    })
}

/// An argument of a launch.
#[derive(FromPyObject)]
enum Argument {
    /// The bytes of a value.
    Value(Vec<u8>),
    /// The address of a buffer.
    Address(u64),
    /// Bytes of LDS, in a tuple.
    Local((u32,)),
}

/// The GPU, from the first to the last of HSA's functions.
#[pyclass(frozen)]
struct Device(Mutex<Option<Gpu>>);

impl Device {
    /// Calls `with` with the GPU, while other Python threads run.
    fn with<T: Send>(&self, py: Python<'_>, with: impl FnOnce(&Gpu) -> Result<T, String> + Send) -> PyResult<T> {
        py.detach(|| {
            let gpu = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            match &*gpu {
                Some(gpu) => with(gpu),
                None => Err("the device is closed: another one was made since".to_owned()),
            }
        })
        .map_err(failed)
    }
}

#[pymethods]
impl Device {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Mutex::new(Some(Gpu::new().map_err(failed)?))))
    }

    /// Ends the GPU, with all of its memory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let gpu = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            gpu.map_or(Ok(()), Gpu::shut_down)
        })
        .map_err(failed)
    }

    /// Allocates memory, uninitialized or with these bytes. Returns its address.
    fn allocate(&self, py: Python<'_>, size: usize, bytes: Option<Vec<u8>>) -> PyResult<u64> {
        self.with(py, |gpu| Ok(gpu.buffer(size, || Ok(bytes))?.address))
    }

    fn free(&self, py: Python<'_>, address: u64, size: usize) -> PyResult<()> {
        self.with(py, |gpu| gpu.free(Buffer { address, size }))
    }

    fn read<'py>(&self, py: Python<'py>, address: u64, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.with(py, |gpu| gpu.read(&Buffer { address, size }))?))
    }

    fn write(&self, py: Python<'_>, address: u64, bytes: Vec<u8>) -> PyResult<()> {
        self.with(py, |gpu| gpu.write(&Buffer { address, size: bytes.len() }, &bytes))
    }

    /// Uninitialized parts of a buffer, as offsets of their beginnings and ends. Empty without the check `init`.
    fn unwritten(&self, py: Python<'_>, address: u64, size: usize) -> PyResult<Vec<(usize, usize)>> {
        let parts = self.with(py, |gpu| Ok(gpu.unwritten(&Buffer { address, size })))?;
        Ok(parts.into_iter().map(|part| (part.start, part.end)).collect())
    }

    /// Loads a kernel for the life of the device. Returns its handle.
    fn load(&self, py: Python<'_>, kernel: &Kernel) -> PyResult<u64> {
        self.with(py, |gpu| gpu.load(&kernel.code, &kernel.metadata.symbol))
    }

    /// Runs a kernel. Returns the text of its fault, if it faults.
    #[allow(clippy::too_many_arguments, reason = "a launch has as many")]
    fn launch(
        &self,
        py: Python<'_>,
        kernel: &Bound<'_, Kernel>,
        object: u64,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_lds: u32,
        stack: Option<u32>,
        arguments: Vec<Argument>,
    ) -> PyResult<Option<String>> {
        let Kernel { metadata: kernel, printf, .. } = kernel.get();
        command::check_geometry(kernel, grid, block).map_err(wrong)?;
        let scratch = command::scratch(kernel, stack).map_err(wrong)?;
        let (given, mut addresses): (Vec<_>, Vec<_>) = arguments
            .into_iter()
            .map(|argument| match argument {
                Argument::Value(bytes) => (Given::Value { of: "bytes", bytes }, None),
                Argument::Address(address) => (Given::Alias { name: String::new(), offset: 0 }, Some(address)),
                Argument::Local((size,)) => (Given::Local { size }, None),
            })
            .unzip();
        kernargs::check(kernel, &given).map_err(wrong)?;
        let (local, dynamic_lds) = kernargs::place_local(kernel, &given, dynamic_lds);
        for (address, at) in addresses.iter_mut().zip(local) {
            *address = address.or(at.map(u64::from));
        }
        let shape = Shape { grid, block, dynamic_lds };
        let fault = self.with(py, |gpu| {
            let image = |host| kernargs::image(kernel, &given, &addresses, &shape, host);
            gpu.run(&Run { object, kernel, scratch, shape: &shape, printf, kernargs: image })
        })?;
        let null = kernargs::null_arguments(kernel);
        Ok(fault.map(|text| match null.is_empty() {
            true => text,
            false => format!(
                "{text}\nthe kernel's code uses hidden arguments that are null in this launch: {}",
                null.join(", ")
            ),
        }))
    }
}

/// Runs the program `check-kernel` with these words. Returns its exit code.
#[pyfunction]
fn check_kernel_main(py: Python<'_>, words: Vec<String>) -> u8 {
    py.detach(|| command::main(words.into_iter().map(Into::into)))
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{Device, Kernel, check_kernel_main, find, kernels};
}
