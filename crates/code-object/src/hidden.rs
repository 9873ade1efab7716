// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Hidden kernel arguments: values that a dispatch supplies behind the caller's. The kernel's metadata gives their
//! places.
//!
//! Code objects of version 5 and later have another layout than those of versions 3 and 4. In both, a kernel lists only
//! the arguments that it may read (LLVM's AMDGPUUsage, "Code Object V3 Metadata" and "V5"). Kinds and offsets of the
//! metadata decide, never positions.

use crate::metadata::{Kernel, ValueKind};

/// A hidden argument that a dispatch writes. All others that it provides are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenValue {
    /// Workgroups in X: `u32`.
    BlockCountX,
    /// Workgroups in Y: `u32`.
    BlockCountY,
    /// Workgroups in Z: `u32`.
    BlockCountZ,
    /// Work-items of a workgroup in X: `u16`.
    GroupSizeX,
    /// Work-items of a workgroup in Y: `u16`.
    GroupSizeY,
    /// Work-items of a workgroup in Z: `u16`.
    GroupSizeZ,
    /// Dimensions of the grid: `u16`.
    GridDims,
    /// Bytes of dynamic LDS: `u32`.
    DynamicLdsSize,
}

impl HiddenValue {
    /// All hidden values, in the order of their discriminants.
    pub const ALL: [Self; 8] = [
        Self::BlockCountX,
        Self::BlockCountY,
        Self::BlockCountZ,
        Self::GroupSizeX,
        Self::GroupSizeY,
        Self::GroupSizeZ,
        Self::GridDims,
        Self::DynamicLdsSize,
    ];

    /// The `.value_kind`, and the size in bytes.
    const fn kind(self) -> (&'static str, u32) {
        match self {
            Self::BlockCountX => ("hidden_block_count_x", 4),
            Self::BlockCountY => ("hidden_block_count_y", 4),
            Self::BlockCountZ => ("hidden_block_count_z", 4),
            Self::GroupSizeX => ("hidden_group_size_x", 2),
            Self::GroupSizeY => ("hidden_group_size_y", 2),
            Self::GroupSizeZ => ("hidden_group_size_z", 2),
            Self::GridDims => ("hidden_grid_dims", 2),
            Self::DynamicLdsSize => ("hidden_dynamic_lds_size", 4),
        }
    }

    /// The size in bytes.
    pub const fn size(self) -> usize {
        self.kind().1 as usize
    }
}

/// Arguments that are zero in every dispatch, with their sizes in bytes.
///
/// Offsets and remainders are zero, because grids begin at 0 and have whole workgroups only. There is no default queue
/// and no completion action, with which a kernel launches others, and no grid over several GPUs: AMD's HIP runtime
/// passes zeros for these, too (`VirtualGPU::submitKernelInternal` of CLR's `rocvirtual.cpp`).
const ZEROS: [(&str, u32); 9] = [
    ("hidden_remainder_x", 2),
    ("hidden_remainder_y", 2),
    ("hidden_remainder_z", 2),
    ("hidden_global_offset_x", 8),
    ("hidden_global_offset_y", 8),
    ("hidden_global_offset_z", 8),
    ("hidden_default_queue", 8),
    ("hidden_completion_action", 8),
    ("hidden_multigrid_sync_arg", 8),
];

/// Arguments that compilers list, without optimization for example, if they do not know which arguments a kernel reads.
/// They cannot be provided. They are zero then, and the kernel is refused if it surely reads them.
///
/// A kernel that lists a default queue, which only OpenCL has, and a grid over several GPUs, which only HIP has, was
/// compiled without that knowledge: LLVM omits arguments that a function cannot read (`AMDGPUAttributor`).
const GUESSED: [(&str, u32); 3] = [("hidden_hostcall_buffer", 8), ("hidden_heap_v1", 8), ("hidden_queue_ptr", 8)];

/// The offset of an argument that a kernel does not have.
const ABSENT: u32 = u32::MAX;

/// The offsets at which a kernel reads the hidden arguments that dispatches write, in bytes from the start of its
/// kernargs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenPlaces([u32; HiddenValue::ALL.len()]);

impl HiddenPlaces {
    /// The places of a kernel that reads no hidden arguments.
    pub const NONE: Self = Self([ABSENT; _]);

    /// The offset of `value`; none if the kernel does not read it.
    #[inline]
    pub fn get(&self, value: HiddenValue) -> Option<u32> {
        let offset = self.0[value as usize];
        (offset != ABSENT).then_some(offset)
    }

    /// Returns true if the kernel reads no hidden arguments.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == Self::NONE.0
    }

    /// The place of the workgroup counts, three consecutive `u32`; [`CountPlaces::Apart`] if they are elsewhere.
    pub fn counts(&self) -> CountPlaces {
        match [self.0[0], self.0[1], self.0[2]] {
            [ABSENT, ABSENT, ABSENT] => CountPlaces::Absent,
            [x, y, z] if x < ABSENT - 8 && y == x + 4 && z == x + 8 => CountPlaces::InARow(x),
            _ => CountPlaces::Apart,
        }
    }
}

/// The place at which a kernel reads its workgroup counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountPlaces {
    /// The kernel reads no workgroup counts.
    Absent,
    /// Three `u32` from this byte of the kernargs on.
    InARow(u32),
    /// Not all three, or not consecutive. No compiler does that.
    Apart,
}

/// A kernel's hidden arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenArguments {
    /// The offsets of the arguments that dispatches write.
    pub places: HiddenPlaces,
    /// The kind of the first argument that the kernel surely reads and that no dispatch provides.
    pub unprovided: Option<String>,
}

impl HiddenArguments {
    /// The hidden arguments that `kernel` lists.
    pub(crate) fn new(kernel: &Kernel) -> Self {
        let mut hidden = Self { places: HiddenPlaces::NONE, unprovided: None };
        let lists = |kind: &str| kernel.arguments.iter().any(|argument| argument.value_kind.is_hidden(kind));
        let is_guess = lists("hidden_default_queue") && lists("hidden_multigrid_sync_arg");
        for argument in &kernel.arguments {
            let ValueKind::Hidden(name) = &argument.value_kind else { continue };
            let kind = (name.as_str(), argument.size);
            let is_zero = || name == "hidden_none" || ZEROS.contains(&kind) || is_guess && GUESSED.contains(&kind);
            if let Some(value) = HiddenValue::ALL.into_iter().find(|value| value.kind() == kind) {
                hidden.places.0[value as usize] = argument.offset;
            } else if hidden.unprovided.is_none() && !is_zero() {
                hidden.unprovided = Some(name.clone());
            }
        }
        hidden
    }
}
