// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executables: a code object loaded on GPUs of a logical device, and the formats a device takes.

use std::fmt;
use std::sync::{Arc, OnceLock};

use amdgpu_code_object as code_object;
use code_object::{Container, Function, HSA_ISA_PREFIX, TargetId};

use amdgpu_ffi::{Result, Status, status};
use amdgpu_gpu::Gpu;
use amdgpu_gpu::code::LoadedCode;
use amdgpu_hsa as hsa;
use amdgpu_operations::launch::{Arguments, Launch, check_workgroup};
use amdgpu_profile::FunctionRef;
use amdgpu_profile::metadata::ExecutableInfo;

/// A loaded executable.
#[derive(Debug)]
pub struct Executable {
    info: Arc<ExecutableInfo>,
    /// By the GPU's index in its logical device, then by function ordinal; empty where it is not loaded.
    kernels: Vec<Vec<Kernel>>,
    /// By the GPU's index; none where it is not loaded.
    code: Vec<Option<Arc<LoadedCode>>>,
    /// The GPUs of the logical device.
    gpus: Vec<Arc<Gpu>>,
}

/// A function on one GPU.
#[derive(Debug)]
struct Kernel {
    loaded: hsa::Kernel,
    /// The arguments and the launch of a dispatch with bindings and constants in the HAL's order; none for functions
    /// that cannot be launched so.
    launch: Option<(Arguments, Launch)>,
    /// The launch of the first other workgroup size and dynamic LDS that was asked for: usually there is no third.
    usual: OnceLock<([u32; 3], u32, Launch)>,
}

/// An executable format, by its HAL name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// AMD1 flatbuffers and bare code objects for this target: `gfx1100`, which may have the prefix
    /// `amdgcn-amd-amdhsa--`.
    Target(TargetId),
    /// HIP1 flatbuffers for any target, of IREE's target `hip`.
    Hip,
}

/// The format of HIP1 flatbuffers (`iree/hal/drivers/hip`).
const HIP_FORMAT: &str = "rocm-hsaco-fb";

impl Format {
    /// The format that `text` names; none of other drivers'.
    pub fn parse(text: &str) -> Option<Self> {
        if text == HIP_FORMAT {
            return Some(Self::Hip);
        }
        text.strip_prefix(HSA_ISA_PREFIX).unwrap_or(text).parse().ok().map(Self::Target)
    }

    /// The format of an executable in a container.
    pub fn of(container: Option<Container>, target: TargetId) -> Self {
        match container {
            Some(Container::Hip1) => Self::Hip,
            Some(Container::Amd1) | None => Self::Target(target),
        }
    }

    /// Returns true if `gpu` runs executables of this format.
    pub fn runs_on(self, gpu: &Gpu) -> bool {
        match self {
            Self::Target(target) => target.find_runs_on(&gpu.info().targets).is_ok(),
            Self::Hip => true,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(target) => target.fmt(f),
            Self::Hip => HIP_FORMAT.fmt(f),
        }
    }
}

/// Checks that code for `target` runs on `gpu`.
///
/// # Errors
/// INCOMPATIBLE with both targets and why they do not match.
fn check_target(gpu: &Gpu, target: TargetId) -> Result<()> {
    let isas = &gpu.info().targets;
    let Err(mismatches) = target.find_runs_on(isas) else { return Ok(()) };
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

/// Checks that an executable in `container`, which the caller calls `text`, has that format and that `gpu` runs it.
///
/// # Errors
/// INCOMPATIBLE.
fn check_format(gpu: &Gpu, text: &str, container: Option<Container>) -> Result<()> {
    let format = Format::parse(text).ok_or_else(|| {
        status!(
            INCOMPATIBLE,
            "executables of format '{text}' are for other drivers; those for AMD GPUs are called by their target, such \
             as '{}', or '{HIP_FORMAT}'",
            gpu.agent().info().name
        )
    })?;
    if let Format::Target(target) = format {
        check_target(gpu, target)?;
    }
    if (format == Format::Hip) != (container == Some(Container::Hip1)) {
        let is = match container {
            Some(Container::Hip1) => "a HIP1 flatbuffer",
            Some(Container::Amd1) => "an AMD1 flatbuffer",
            None => "a bare code object",
        };
        return Err(status!(INCOMPATIBLE, "the executable is {is}, which is none of format '{text}'"));
    }
    Ok(())
}

impl Executable {
    /// Loads `data` (an AMD1 or HIP1 flatbuffer or a bare code object) on those `gpus` of a logical device whose
    /// indices are bits of `mask`. `format` is the caller's name of its format.
    ///
    /// # Errors
    /// INCOMPATIBLE for other formats and targets; INVALID_ARGUMENT for malformed files and for functions whose
    /// workgroups are larger than the GPUs'; errors of HSA.
    pub fn load(gpus: &[Arc<Gpu>], mask: u64, format: &str, data: &[u8]) -> Result<Self> {
        let parsed = code_object::Executable::parse(data)
            .map_err(|error| status!(INVALID_ARGUMENT, "reading an executable of format '{format}': {error}"))?;
        let is_chosen = |gpu: &&Arc<Gpu>| mask >> gpu.index() & 1 == 1;
        for gpu in gpus.iter().filter(is_chosen) {
            check_format(gpu, format, parsed.container)?;
            check_target(gpu, parsed.code_object.target)?;
            for function in parsed.functions.iter().filter(|function| !function.dynamic_workgroup_size) {
                check_workgroup(&function.name, gpu.limits(), function.workgroup_size)?;
            }
        }
        let mut code = Vec::with_capacity(gpus.len());
        for gpu in gpus {
            let loaded = is_chosen(&gpu).then(|| LoadedCode::load(gpu, &parsed.code_object)).transpose()?;
            code.push(loaded);
        }
        let on = |(gpu, code): (usize, &Option<Arc<LoadedCode>>)| Some((gpu, code.clone()?));
        let loaded: Vec<_> = code.iter().enumerate().filter_map(on).collect();
        let (_, first) = loaded.first().ok_or_else(|| status!(INVALID_ARGUMENT, "no GPU to load an executable on"))?;
        let ranges = loaded.iter().map(|(gpu, code)| Some((*gpu, code.range()?))).collect();
        let info = Arc::new(ExecutableInfo::new(parsed.functions, first.bytes().clone(), ranges));
        let kernel = |code: &LoadedCode, (ordinal, function): (usize, &Function)| {
            let (loaded, arguments) = (code.kernel(&function.symbol)?, Arguments::of(function));
            let name = FunctionRef { executable: info.id, ordinal: ordinal as u32 };
            let launch = Launch::new(function, name, &loaded, code.gpu().limits(), ([0; 3], 0), arguments).ok();
            Ok(Kernel { launch: launch.map(|launch| (arguments, launch)), usual: OnceLock::new(), loaded })
        };
        let kernels = |code: &Option<Arc<LoadedCode>>| {
            let Some(code) = code else { return Ok(Vec::new()) };
            info.functions.iter().enumerate().map(|function| kernel(code, function)).collect::<Result<Vec<_>>>()
        };
        let kernels = code.iter().map(kernels).collect::<Result<_>>()?;
        Ok(Self { kernels, code, gpus: gpus.to_vec(), info })
    }

    /// The functions in ordinal order.
    pub fn functions(&self) -> &[Function] {
        &self.info.functions
    }

    /// The description for profiles.
    pub fn info(&self) -> &Arc<ExecutableInfo> {
        &self.info
    }

    /// The function `ordinal`.
    ///
    /// # Errors
    /// OUT_OF_RANGE for an unknown ordinal.
    pub fn function(&self, ordinal: u64) -> Result<&Function> {
        let index = usize::try_from(ordinal).unwrap_or(usize::MAX);
        self.functions().get(index).ok_or_else(|| self.no_function(ordinal))
    }

    /// The error for a launch of function `ordinal` on the GPU with index `gpu`.
    #[cold]
    fn no_kernel(&self, ordinal: u64, gpu: usize) -> Status {
        if self.code[gpu].is_some() {
            return self.no_function(ordinal);
        }
        let on = self.code.iter().flatten().map(|code| code.gpu().limits().gpu.as_str());
        status!(
            FAILED_PRECONDITION,
            "a dispatch on GPU {gpu} of the logical device, where its executable is not loaded: it was prepared with a queue \
             affinity for {}",
            on.collect::<Vec<_>>().join(", ")
        )
    }

    #[cold]
    fn no_function(&self, ordinal: u64) -> Status {
        status!(OUT_OF_RANGE, "function {ordinal} of an executable that has {} functions", self.functions().len())
    }

    /// The launch of function `ordinal` on `gpu`; made in `other` if its shape is not cached. A `workgroup_size` of
    /// zeros selects the function's own.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a GPU that is not of the device; OUT_OF_RANGE for an unknown ordinal; FAILED_PRECONDITION
    /// if the executable is not loaded there; as for [`Launch::new`].
    #[inline(always)]
    pub fn launch<'a>(
        &'a self,
        ordinal: u64,
        gpu: &Arc<Gpu>,
        workgroup_size: [u32; 3],
        dynamic_lds: u32,
        arguments: Arguments,
        other: &'a mut Option<Launch>,
    ) -> Result<&'a Launch> {
        let gpu = match self.gpus.get(gpu.index()) {
            Some(own) if Arc::ptr_eq(own, gpu) => gpu.index(),
            _ => self.find_gpu(gpu)?,
        };
        let index = usize::try_from(ordinal).unwrap_or(usize::MAX);
        let kernel = self.kernels[gpu].get(index).ok_or_else(|| self.no_kernel(ordinal, gpu))?;
        if let Some((takes, launch)) = &kernel.launch
            && *takes == arguments
        {
            if launch.has_shape(workgroup_size, dynamic_lds) {
                return Ok(launch);
            }
            if let Some((size, lds, launch)) = kernel.usual.get()
                && *size == workgroup_size
                && *lds == dynamic_lds
            {
                return Ok(launch);
            }
        }
        Ok(other.insert(self.other_launch(index, gpu, workgroup_size, dynamic_lds, arguments)?))
    }

    /// The index in this device of `gpu`, an object of another logical device for the same GPU.
    #[cold]
    fn find_gpu(&self, gpu: &Gpu) -> Result<usize> {
        let found = self.gpus.iter().position(|own| own.agent().handle() == gpu.agent().handle());
        found.ok_or_else(|| {
            let place = gpu.place();
            status!(
                INVALID_ARGUMENT,
                "the executable was prepared by another device, which does not have {place}; prepare it with an executable \
                 cache of this device"
            )
        })
    }

    /// Makes a launch that is not cached.
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
        let (function, shape) = (&self.functions()[index], (workgroup_size, dynamic_lds));
        let code = self.code[gpu].as_ref().ok_or_else(|| self.no_kernel(index as u64, gpu))?;
        let launch = Launch::new(function, name, &kernel.loaded, code.gpu().limits(), shape, arguments)?;
        if arguments == Arguments::of(function) {
            // The first thread wins.
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

    /// The variable `name` on the GPU of index `gpu`.
    ///
    /// # Errors
    /// NOT_FOUND; FAILED_PRECONDITION where it is not loaded.
    pub fn variable(&self, name: &str, gpu: usize) -> Result<hsa::Variable> {
        let code = self.code[gpu].as_ref().ok_or_else(|| self.no_kernel(0, gpu))?;
        code.variable(name)
    }
}
