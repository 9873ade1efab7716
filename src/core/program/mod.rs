// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Recorded command buffers.
//!
//! Recording ([`recorder`]) turns each command into a [`Step`] with everything computed that is known then: packets of static commands are
//! complete but for their header, their kernargs written once into memory of the program. What depends on the binding table, or on memory
//! that is not allocated yet, is a [`Place`] that each execution ([`execute`]) resolves. Execution barriers become the barrier bit and the
//! fences of neighbouring packets; there are no packets of their own.

pub mod execute;
pub mod recorder;

use std::ops::Range as IndexRange;

use hsa_abi::{HsaFenceScope, KernelDispatchPacket};
use smallvec::SmallVec;

use super::dispatch::{IndirectArguments, Launch};
use super::submit::operation::Order;
use super::transfer::Range;
use crate::ffi::Resource;
use crate::hsa::Allocation;

/// An address that a command uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Known since recording.
    Known(u64),
    /// `offset` bytes into entry `index` of an execution's table: first the binding table's slots, then the program's late buffers.
    Table {
        /// Entry.
        index: u32,
        /// Bytes from the entry's start.
        offset: u64,
    },
}

/// Where a dispatch's kernargs come from.
#[derive(Debug, Clone)]
pub enum KernargSource {
    /// Written once, at this address.
    Static(u64),
    /// Bytes of [`Program::templates`], copied for each execution, with addresses of [`Program::patches`] stored into the copy.
    Template {
        /// The bytes.
        bytes: IndexRange<u32>,
        /// The patches.
        patches: IndexRange<u32>,
    },
    /// A buffer of the caller's (indirect arguments).
    Buffer {
        /// Where they are.
        place: Place,
        /// What the place must offer.
        needs: IndirectArguments,
    },
}

/// An address in a template.
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    /// Byte of the template that the 64-bit address goes to.
    pub at: u32,
    /// The address.
    pub place: Place,
}

/// What a step does.
#[derive(Debug)]
pub enum Action {
    /// A packet with known grid. Its kernarg address is set when they are static.
    Dispatch {
        /// All but header and dynamic kernargs.
        packet: Box<KernelDispatchPacket>,
        /// Its arguments.
        kernargs: KernargSource,
    },
    /// A dispatch whose workgroup counts the device reads just before.
    IndirectDispatch {
        /// The launch, whose grid is open.
        launch: Box<Launch>,
        /// Its arguments, never static: the device writes into a template, and not at all into the caller's buffer.
        kernargs: KernargSource,
        /// Three u32.
        count: Place,
    },
    /// A fill of a place that is resolved late: kernel and grid depend on the address.
    Fill {
        /// First byte.
        target: Place,
        /// Bytes, or none for all the entry has.
        length: Option<u64>,
        /// 1, 2 or 4 bytes.
        pattern: SmallVec<[u8; 4]>,
    },
    /// A copy between places of which one is resolved late.
    Copy {
        /// First byte read.
        source: Place,
        /// First byte written.
        target: Place,
        /// Bytes, or none for all the source's entry has.
        length: Option<u64>,
    },
    /// An update of a place that is resolved late.
    Update {
        /// The bytes, in [`Program::templates`].
        bytes: IndexRange<u32>,
        /// First byte written.
        target: Place,
    },
}

/// One command, in order.
#[derive(Debug)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// How its packet relates to its neighbours.
    pub order: Order,
    /// Bytes of the kernarg ring that an execution takes for it, a multiple of [`crate::ring::KERNARG_ALIGNMENT`].
    pub kernarg_bytes: u32,
}

impl Step {
    /// Packets of the step.
    pub fn packets(&self) -> u32 {
        match self.action {
            Action::IndirectDispatch { .. } => 2,
            _ => 1,
        }
    }

    /// True when everything recorded before it is complete before it starts.
    pub fn is_serial(&self) -> bool {
        self.order.barrier && !matches!(self.action, Action::IndirectDispatch { .. })
    }
}

/// A finished recording. Immutable: any number of executions may use it at the same time.
#[derive(Debug)]
pub struct Program {
    /// Index of the GPU it was recorded for.
    pub gpu: usize,
    /// The commands.
    pub steps: Vec<Step>,
    /// Kernargs of dynamic dispatches and bytes of updates.
    pub templates: Vec<u8>,
    /// Addresses in the templates.
    pub patches: Vec<Patch>,
    /// Slots of the binding table that commands use, by slot; the rest of the table is ignored.
    pub slots: Vec<bool>,
    /// Buffers recorded before their memory existed; entries of the table after the slots.
    pub late: Vec<Range>,
    /// Packets of all steps.
    pub packets: u32,
    /// Kernarg bytes of all steps.
    pub kernarg_bytes: u64,
    // Kept for as long as the program.
    _static_kernargs: Option<Allocation>,
    _resources: Vec<Resource>,
}

/// Neighbours that no execution barrier separates: they may overlap.
pub const UNORDERED: Order = Order { barrier: false, acquire: HsaFenceScope::AGENT, release: HsaFenceScope::NONE };
