// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executables: a code object loaded on every GPU of a logical device, and the formats a device takes.

use std::sync::{Arc, OnceLock};

use amdgpu_code_object as code_object;
use code_object::{Function, HSA_ISA_PREFIX, TargetId};

use crate::core::gpu::Gpu;
use crate::core::operations::launch::{Arguments, Launch, check_workgroup};
use crate::core::profile::FunctionRef;
use crate::core::profile::metadata::ExecutableInfo;
use crate::ffi::{Annotate, Result, Status, status};
use crate::hsa;

/// A loaded executable.
#[derive(Debug)]
pub struct Executable {
    info: Arc<ExecutableInfo>,
    /// By the GPU's index in its logical device, then by function ordinal.
    kernels: Vec<Vec<Kernel>>,
    /// Where it is loaded.
    gpus: Vec<Arc<Gpu>>,
    loaded: hsa::Executable,
}

impl Drop for Executable {
    fn drop(&mut self) {
        for (gpu, kernels) in self.gpus.iter().zip(&self.kernels) {
            if let Some(streams) = gpu.streams() {
                kernels.iter().for_each(|kernel| streams.remove(kernel.loaded.object));
            }
        }
    }
}

/// A function on one GPU.
#[derive(Debug)]
struct Kernel {
    loaded: hsa::Kernel,
    /// What a dispatch with bindings and constants in the HAL's order begins with; none for functions that cannot be
    /// launched so.
    launch: Option<(Arguments, Launch)>,
    /// The same in the first other shape that was asked for, by workgroup size and dynamic LDS: mostly there is no
    /// third.
    usual: OnceLock<([u32; 3], u32, Launch)>,
}

/// The target that a format string names: `gfx1100`, or with the prefix `amdgcn-amd-amdhsa--`. None for other formats.
pub fn target_of_format(format: &str) -> Option<TargetId> {
    format.strip_prefix(HSA_ISA_PREFIX).unwrap_or(format).parse().ok()
}

/// The targets that `gpu` runs, as the runtime names them.
pub fn isas(gpu: &Gpu) -> Vec<TargetId> {
    gpu.agent().info().isas.iter().filter_map(|isa| isa.name.parse().ok()).collect()
}

/// Whether `gpu` runs executables of `format`.
pub fn supports_format(gpu: &Gpu, format: &str) -> bool {
    target_of_format(format).is_some_and(|target| target.find_runs_on(&isas(gpu)).is_ok())
}

/// Checks that code for `target` runs on `gpu`.
///
/// # Errors
/// INCOMPATIBLE with both targets and why they do not match.
fn check_target(gpu: &Gpu, target: TargetId) -> Result<()> {
    let isas = isas(gpu);
    let Err(mismatches) = target.find_runs_on(&isas) else { return Ok(()) };
    let reasons: String = mismatches.iter().map(|mismatch| format!("\n  {mismatch}")).collect();
    let names: Vec<_> = isas.iter().map(ToString::to_string).collect();
    let (gpu_name, runs) = (&gpu.agent().info().name, names.join(", "));
    Err(status!(
        INCOMPATIBLE,
        "the executable was compiled for {target} and GPU {} is a {gpu_name}, which runs {runs}; compile it with \
         --iree-rocm-target={gpu_name}{reasons}",
        gpu.info().ordinal
    ))
}

impl Executable {
    /// Loads `data`, an AMD1 flatbuffer or a bare code object, on all `gpus`. `format` is what the caller says it is.
    ///
    /// # Errors
    /// INCOMPATIBLE for other formats and targets; INVALID_ARGUMENT for malformed files and for functions whose
    /// workgroups are larger than the GPUs'; what HSA said.
    pub fn load(gpus: &[Arc<Gpu>], format: &str, data: &[u8]) -> Result<Self> {
        let parsed = code_object::Executable::parse(data)
            .map_err(|error| status!(INVALID_ARGUMENT, "reading an executable of format '{format}': {error}"))?;
        for gpu in gpus {
            check_target(gpu, parsed.code_object.target)?;
            for function in parsed.functions.iter().filter(|function| !function.dynamic_workgroup_size) {
                check_workgroup(&function.name, gpu.limits(), function.workgroup_size)?;
            }
        }
        let agents: Vec<_> = gpus.iter().map(|gpu| gpu.agent()).collect();
        // The GPUs of a logical device have the same instruction sets.
        let loaded = hsa::Executable::load(&agents, gpus[0].info().loadable(parsed.code_object.bytes)?)?;
        let mut kernels = Vec::with_capacity(gpus.len());
        for agent in agents {
            let kernel = |function: &Function| loaded.kernel(&function.symbol, agent.handle());
            kernels.push(parsed.functions.iter().map(kernel).collect::<hsa::Result<Vec<_>>>()?);
        }
        let info = Arc::new(ExecutableInfo::new(parsed.functions, loaded.code().clone(), loaded.load_ranges()?));
        let prepared = |gpu: &Gpu, ordinal: usize, loaded: hsa::Kernel| {
            let function = &info.functions[ordinal];
            let arguments = Arguments::of(function);
            let name = FunctionRef { executable: info.id, ordinal: ordinal as u32 };
            let launch = Launch::new(function, name, &loaded, gpu.limits(), ([0; 3], 0), arguments).ok();
            Kernel { launch: launch.map(|launch| (arguments, launch)), usual: OnceLock::new(), loaded }
        };
        let kernels = gpus.iter().zip(kernels).map(|(gpu, kernels)| {
            kernels.into_iter().enumerate().map(|(ordinal, loaded)| prepared(gpu, ordinal, loaded)).collect()
        });
        let executable = Self { kernels: kernels.collect(), gpus: gpus.to_vec(), info, loaded };
        for (gpu, kernels) in gpus.iter().zip(&executable.kernels) {
            if let Some(streams) = gpu.streams() {
                let symbols = executable.functions().iter().map(|function| function.symbol.as_str());
                let objects = kernels.iter().map(|kernel| kernel.loaded.object);
                streams.add(parsed.code_object.bytes, symbols.zip(objects))?;
            }
        }
        Ok(executable)
    }

    /// The functions in ordinal order.
    pub fn functions(&self) -> &[Function] {
        &self.info.functions
    }

    /// What profiles say of it.
    pub fn info(&self) -> &Arc<ExecutableInfo> {
        &self.info
    }

    /// The function `ordinal`.
    ///
    /// # Errors
    /// OUT_OF_RANGE for ordinals that it does not have.
    pub fn function(&self, ordinal: u64) -> Result<&Function> {
        let index = usize::try_from(ordinal).unwrap_or(usize::MAX);
        self.functions().get(index).ok_or_else(|| self.no_function(ordinal))
    }

    #[cold]
    fn no_function(&self, ordinal: u64) -> Status {
        status!(OUT_OF_RANGE, "function {ordinal} of an executable that has {} functions", self.functions().len())
    }

    /// The launch of the function `ordinal` on the GPU of index `gpu`, in `other` if it is none of those at hand. A
    /// `workgroup_size` of zeros takes the function's own.
    ///
    /// # Errors
    /// OUT_OF_RANGE for ordinals that it does not have; those of [`Launch::new`].
    #[inline(always)]
    pub fn launch<'a>(
        &'a self,
        ordinal: u64,
        gpu: usize,
        workgroup_size: [u32; 3],
        dynamic_lds: u32,
        arguments: Arguments,
        other: &'a mut Option<Launch>,
    ) -> Result<&'a Launch> {
        let index = usize::try_from(ordinal).unwrap_or(usize::MAX);
        let kernel = self.kernels[gpu].get(index).ok_or_else(|| self.no_function(ordinal))?;
        if let Some((takes, launch)) = &kernel.launch
            && *takes == arguments
        {
            if let Some((size, lds, launch)) = kernel.usual.get()
                && *size == workgroup_size
                && *lds == dynamic_lds
            {
                return Ok(launch);
            }
            if launch.has_shape(workgroup_size, dynamic_lds) {
                return Ok(launch);
            }
        }
        Ok(other.insert(self.other_launch(index, gpu, workgroup_size, dynamic_lds, arguments)?))
    }

    /// A launch that is none of those at hand.
    #[cold]
    fn other_launch(
        &self,
        index: usize,
        gpu: usize,
        workgroup_size: [u32; 3],
        dynamic_lds: u32,
        arguments: Arguments,
    ) -> Result<Launch> {
        let kernel = &self.kernels[gpu][index];
        let name = FunctionRef { executable: self.info.id, ordinal: index as u32 };
        let (function, limits) = (&self.functions()[index], self.gpus[gpu].limits());
        let shape = (workgroup_size, dynamic_lds);
        let launch = Launch::new(function, name, &kernel.loaded, limits, shape, arguments)?;
        if arguments == Arguments::of(function) {
            // Whoever is first.
            let _ = kernel.usual.set((workgroup_size, dynamic_lds, launch));
        }
        Ok(launch)
    }

    /// The ordinal of the function `name`.
    ///
    /// # Errors
    /// NOT_FOUND with the names there are.
    pub fn lookup(&self, name: &str) -> Result<u64> {
        let found = self.functions().iter().position(|function| function.name == name);
        found.map(|index| index as u64).ok_or_else(|| {
            let names: Vec<_> = self.functions().iter().map(|function| function.name.as_str()).collect();
            status!(NOT_FOUND, "the executable has no function '{name}'; it has: {}", names.join(", "))
        })
    }

    /// The variable `name` on `gpu`.
    ///
    /// # Errors
    /// NOT_FOUND.
    pub fn variable(&self, name: &str, gpu: &Gpu) -> Result<hsa::Variable> {
        let found = self.loaded.variable(name, gpu.agent().handle());
        found.map_err(Status::from).annotate(|| format!("looking up the global '{name}'"))
    }
}
