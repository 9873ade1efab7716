// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Accesses of instructions to memory other than LDS and scratch.

use super::counters::is_async;
use super::lds::width;
use super::shadow::Deed;
use crate::caching;
use crate::exec::Way;
use crate::memory::Path;
use sim_isa::{Flags, Format, Inst, Ty};

/// An access of vector or scalar memory. Conversions, blocks of registers, tensors and scalar atomics are not covered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub format: Format,
    /// True for a scalar access to a buffer.
    pub is_buffer: bool,
    /// Addresses of a vector access.
    pub way: Way,
    pub bytes: u32,
    pub deed: Deed,
    /// True for an atomic that returns the old value.
    pub returns: bool,
    /// Bit offset of the stored data in its first register.
    pub shift: u8,
    /// Scope of a gfx12 atomic: [`Mem::scope`]. Atomics of other generations state none.
    ///
    /// [`Mem::scope`]: sim_isa::Mem::scope
    pub scope: Option<u8>,
}

impl Touch {
    pub fn of(inst: &Inst) -> Option<Touch> {
        Self::with_scratch(inst).filter(|touch| touch.format != Format::Scratch)
    }

    /// Access of an instruction, including scratch instructions.
    pub fn with_scratch(inst: &Inst) -> Option<Touch> {
        let format = inst.format;
        let (loads, stores) = (inst.op.has(Flags::LOAD), inst.op.has(Flags::STORE));
        let is_memory = matches!(format, Format::Mubuf | Format::Global | Format::Flat | Format::Scratch);
        let is_scalar = format == Format::Smem && (loads || stores);
        if !is_memory && !is_scalar || inst.op.has(Flags::NOP) || inst.op.has(Flags::CONVERTS) {
            return None;
        }
        let is_buffer = format == Format::Smem && inst.op.info().src.first() == Some(&Ty::B128);
        let deed = match () {
            () if inst.op.has(Flags::ATOMIC) => Deed::Atomic,
            () if stores => Deed::Store,
            () if is_memory && caching::path(inst, inst.target) != Path::Vector => Deed::ScopedLoad,
            () => Deed::Load,
        };
        Some(Touch {
            format,
            is_buffer,
            way: match inst.op {
                op if op.has(Flags::BY_LANE) => Way::ByLane,
                op if is_async(op) => Way::Async,
                _ => Way::Plain,
            },
            bytes: width(inst.op)?,
            deed,
            returns: !inst.dst.is_none(),
            shift: if inst.op.has(Flags::D16_HI) { 16 } else { 0 },
            scope: (deed == Deed::Atomic && inst.target.is_gfx12()).then_some(inst.mem.scope),
        })
    }
}
