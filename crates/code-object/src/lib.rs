// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Parsers of AMDGPU executable files: target ISA ([`TargetId`]), segments and symbols to load ([`CodeObject`]),
//! kernels ([`Metadata`]) and the HAL's view of them ([`Executable`], [`Function`]).
//!
//! Containers are a bare ELF code object (HSACO, code object v3 to v6), and IREE's AMD1 and HIP1 flatbuffers, which
//! wrap one such ELF together with the HAL's view of each kernel.
//!
//! Input is never trusted. Each read is bounds-checked, time and memory are bounded by the input's size, and nothing
//! here panics, so that any bytes may be parsed. Borrowed results borrow from those bytes. All types are plain data:
//! `Send` and `Sync`.

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
pub use metadata::{Argument, Kernel, Metadata, PrintfFormat, ValueKind};
pub use processor::{PROCESSORS, Processor, ProcessorInfo};
pub use relabel::for_agent;
pub use target::{Feature, HSA_ISA_PREFIX, Mismatch, MismatchReason, TargetError, TargetId};
