// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Kernels as a HAL calls them: bindings and constants instead of kernarg bytes.

use crate::amd1::{ExportDef, Location};
use crate::error::{Error, Result};
use crate::hidden::HiddenArguments;
use crate::metadata::{Argument, Kernel, ValueKind};

/// One function of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Name for people and for lookup.
    pub name: String,
    /// Symbol of the kernel descriptor.
    pub symbol: String,
    /// Work-items of a workgroup; if `dynamic_workgroup_size`, divisors of the actual size.
    pub workgroup_size: [u32; 3],
    /// True if the caller chooses the workgroup size at each dispatch.
    pub dynamic_workgroup_size: bool,
    /// Number of 32-bit constants a caller passes.
    pub constant_count: u16,
    /// Number of buffer bindings a caller passes.
    pub binding_count: u16,
    /// Arguments in kernarg order. An export lists all its bindings, even if the compiler has removed some.
    pub parameters: Vec<Parameter>,
    /// Where bindings and constants go in the kernarg segment.
    pub kernarg_layout: KernargLayout,
    /// Hidden arguments, which dispatches supply.
    pub hidden: HiddenArguments,
    /// Most work-items of a workgroup that the kernel was compiled for.
    pub max_workgroup_size: u32,
    /// Kernarg segment size in bytes: the length of a raw argument blob.
    pub kernarg_size: u32,
    /// Kernarg segment alignment in bytes, a power of two.
    pub kernarg_alignment: u32,
    /// Static LDS of a workgroup in bytes.
    pub group_segment_size: u32,
    /// Static scratch of a work-item in bytes.
    pub private_segment_size: u32,
    /// True if the kernel's call stack may need more scratch than that.
    pub uses_dynamic_stack: bool,
    /// Source file and line, where the executable says: the first stage's location if it has
    /// stages, otherwise the function's own.
    pub location: Option<(String, i32)>,
}

/// One visible argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Binding or constant.
    pub kind: ParameterKind,
    /// Name in the source, or empty.
    pub name: String,
    /// Size in bytes, at most 255.
    pub size: u8,
    /// Ordinal of a binding, or the offset of a constant in the constants in bytes.
    pub offset: u16,
    /// Where the kernel reads it in the kernarg segment, in bytes.
    pub kernarg_offset: u32,
}

/// How a parameter is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// In the constants.
    Constant,
    /// As a buffer binding.
    Binding,
}

/// The HAL's kernarg layout: 64-bit binding addresses, 32-bit constants, padding to 8 bytes. The kernel's hidden
/// arguments, if it has any, are where its metadata says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernargLayout {
    /// Bytes of bindings, constants and padding.
    pub explicit_size: u32,
    /// Bytes to reserve for one dispatch.
    pub total_size: u32,
}

impl KernargLayout {
    /// The layout for a kernel whose kernarg segment has `kernarg_size` bytes. A segment smaller
    /// than the explicit arguments is legal: the compiler removed the last ones.
    fn new(binding_count: u16, constant_count: u16, kernarg_size: u32) -> Self {
        let explicit_size = 8 * u32::from(binding_count) + (4 * u32::from(constant_count)).next_multiple_of(8);
        Self { explicit_size, total_size: kernarg_size.max(explicit_size) }
    }
}

impl Function {
    /// A kernel of a bare code object. Without a required workgroup size it is dynamic from 1x1x1.
    pub(crate) fn from_kernel(kernel: &Kernel) -> Result<Self> {
        let (parameters, counts) = parse_parameters(kernel)?;
        let workgroup_size = kernel.required_workgroup_size;
        Ok(Self::new(kernel, kernel.name.clone(), workgroup_size, counts, parameters))
    }

    /// An export of a flatbuffer: the flatbuffer's counts hold, the metadata may not exceed them.
    pub(crate) fn from_export(export: &ExportDef, kernel: &Kernel) -> Result<Self> {
        let (parameters, found) = parse_parameters(kernel)?;
        let what = format!("export `{}`", kernel.symbol);
        let count = |kind: &str, declared: usize, found: u16| match u16::try_from(declared) {
            Ok(declared) if found <= declared => Ok(declared),
            Ok(declared) => {
                let problem = format!("its kernel takes {found} {kind} but the export declares {declared}");
                Err(Error::malformed(&*what, problem))
            }
            Err(_) => {
                let problem = format!("it declares {declared} {kind}; at most {} are supported", u16::MAX);
                Err(Error::unsupported(&*what, problem))
            }
        };
        let counts = Counts {
            constants: count("constants", export.constant_count as usize, found.constants)?,
            bindings: count("bindings", export.binding_flags.len(), found.bindings)?,
        };
        let debug = &export.debug_info;
        let name = match debug.name {
            "" => export.symbol_name.strip_suffix(".kd").unwrap_or(&export.symbol_name),
            name => name,
        };
        let parameters = declared_parameters(parameters, counts);
        let mut function = Self::new(kernel, name.to_owned(), Some(export.workgroup_size), counts, parameters);
        let location = debug.stage_locations.first().map_or(debug.location, |stage| stage.location);
        function.location = location.map(|Location { file, line }| (file.to_owned(), line));
        Ok(function)
    }

    fn new(
        kernel: &Kernel,
        name: String,
        workgroup_size: Option<[u32; 3]>,
        counts: Counts,
        parameters: Vec<Parameter>,
    ) -> Self {
        Self {
            name,
            symbol: kernel.symbol.clone(),
            workgroup_size: workgroup_size.unwrap_or([1, 1, 1]),
            dynamic_workgroup_size: workgroup_size.is_none(),
            constant_count: counts.constants,
            binding_count: counts.bindings,
            parameters,
            kernarg_layout: KernargLayout::new(counts.bindings, counts.constants, kernel.kernarg_size),
            hidden: HiddenArguments::new(kernel),
            max_workgroup_size: kernel.max_flat_workgroup_size,
            kernarg_size: kernel.kernarg_size,
            kernarg_alignment: kernel.kernarg_alignment,
            group_segment_size: kernel.group_segment_size,
            private_segment_size: kernel.private_segment_size,
            uses_dynamic_stack: kernel.uses_dynamic_stack,
            location: None,
        }
    }

    /// The first parameter that the kernel reads from elsewhere than [`KernargLayout`] puts it, for
    /// instance because a constant precedes a binding or needs padding. Such a kernel of a bare
    /// code object can only be called with a raw argument blob.
    pub fn misplaced_parameter(&self) -> Option<&Parameter> {
        let constants = 8 * u32::from(self.binding_count);
        self.parameters.iter().find(|parameter| {
            let offset = u32::from(parameter.offset);
            parameter.kernarg_offset
                != match parameter.kind {
                    ParameterKind::Binding => 8 * offset,
                    ParameterKind::Constant => constants + offset,
                }
        })
    }
}

/// The parameters of an export in kernarg order: every declared binding, without a name where the compiler removed it,
/// and the constants that the kernel still has. An export's kernargs follow [`KernargLayout`], so the place tells which
/// parameter an argument is. Removed constants are not listed: the file declares any number of them in a few bytes.
fn declared_parameters(found: Vec<Parameter>, counts: Counts) -> Vec<Parameter> {
    let constants = 8 * u32::from(counts.bindings);
    let mut parameters: Vec<_> = (0..counts.bindings)
        .map(|ordinal| Parameter {
            kind: ParameterKind::Binding,
            name: String::new(),
            size: 8,
            offset: ordinal,
            kernarg_offset: 8 * u32::from(ordinal),
        })
        .collect();
    for parameter in found {
        let place = parameter.kernarg_offset;
        match parameter.kind {
            ParameterKind::Binding if place < constants && place.is_multiple_of(8) => {
                parameters[place as usize / 8].name = parameter.name;
            }
            ParameterKind::Constant if place >= constants => {
                if let Ok(offset) = u16::try_from(place - constants) {
                    parameters.push(Parameter { offset, ..parameter });
                }
            }
            _ => {}
        }
    }
    parameters
}

#[derive(Clone, Copy)]
struct Counts {
    constants: u16,
    bindings: u16,
}

/// Maps kernel arguments to parameters: global buffers are bindings, plain values of whole 32-bit
/// words are constants, hidden arguments are the dispatch's business, all else is an error.
fn parse_parameters(kernel: &Kernel) -> Result<(Vec<Parameter>, Counts)> {
    let mut parameters = Vec::new();
    let (mut bindings, mut constant_bytes) = (0_u32, 0_u32);
    for (index, argument) in kernel.arguments.iter().enumerate() {
        let (kind, offset) = match argument.value_kind {
            ValueKind::Hidden(_) => continue,
            ValueKind::GlobalBuffer if argument.size == 8 => {
                bindings += 1;
                (ParameterKind::Binding, bindings - 1)
            }
            ValueKind::ByValue if argument.size % 4 == 0 && argument.size <= 255 => {
                constant_bytes += argument.size;
                (ParameterKind::Constant, constant_bytes - argument.size)
            }
            _ => return Err(bad_argument(kernel, index, argument)),
        };
        let offset = u16::try_from(offset).ok().filter(|_| bindings <= u16::MAX.into());
        let offset = offset.ok_or_else(|| bad_argument(kernel, index, argument))?;
        let Argument { ref name, offset: kernarg_offset, size, .. } = *argument;
        parameters.push(Parameter { kind, name: name.clone(), size: size as u8, offset, kernarg_offset });
    }
    // Both fit: the last constant begins in the first 65,535 bytes and has at most 252.
    Ok((parameters, Counts { constants: (constant_bytes / 4) as u16, bindings: bindings as u16 }))
}

fn bad_argument(kernel: &Kernel, index: usize, argument: &Argument) -> Error {
    let kind = match &argument.value_kind {
        ValueKind::ByValue => "by_value",
        ValueKind::GlobalBuffer => "global_buffer",
        ValueKind::Hidden(name) | ValueKind::Other(name) => name,
    };
    Error::unsupported(
        format!("argument {index} of kernel `{}`", kernel.symbol),
        format!(
            "kind `{kind}`, {} bytes; supported are global_buffer of 8 bytes and by_value of a multiple of 4 bytes, \
             at most 252, 65,535 bytes of constants and as many bindings in all",
            argument.size
        ),
    )
}
