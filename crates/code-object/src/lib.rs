// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What an AMDGPU executable file says about itself: the ISA it was compiled for ([`TargetId`]), how it loads
//! ([`CodeObject`]), its kernels ([`Metadata`]) and how a HAL calls them ([`Executable`], [`Function`]).
//!
//! Containers are a bare ELF code object (HSACO, code object v3 to v6), and IREE's AMD1 and HIP1 flatbuffers, which
//! wrap one such ELF together with the HAL's view of each kernel.
//!
//! Input is never trusted. Each read is bounds-checked, time and memory are bounded by the input's
//! size, and nothing here panics, so the types can be pointed at whatever bytes a module carries.
//! Borrowed results borrow from those bytes. All types are plain data: `Send` and `Sync`.

#![deny(unsafe_code)]

mod amd1;
mod bytes;
mod elf;
mod error;
mod executable;
mod function;
mod hidden;
mod metadata;
mod processor;
mod relabel;
mod target;

pub use amd1::{Container, DebugInfo, ExecutableDef, ExportDef, Location, SourceFile, StageLocation};
pub use elf::{CodeObject, Patch, Relocation, RelocationKind, Segment, Symbol, SymbolKind, SymbolTable};
pub use error::{Error, Result};
pub use executable::{Executable, InferredFormat, SizeProbe, infer_format, probe_size};
pub use function::{Function, KernargLayout, Parameter, ParameterKind};
pub use hidden::{CountPlaces, HiddenArguments, HiddenPlaces, HiddenValue};
pub use metadata::{Argument, Kernel, Metadata, ValueKind};
pub use processor::{PROCESSORS, Processor, ProcessorInfo};
pub use relabel::for_agent;
pub use target::{Feature, HSA_ISA_PREFIX, Mismatch, MismatchReason, TargetError, TargetId};
