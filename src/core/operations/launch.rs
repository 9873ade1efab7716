// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A function that is ready to be launched: its workgroup, and how its arguments reach its kernargs.

use amdgpu_code_object::Function;
use device_binaries::{PatchDispatchArgs, header_setups};
use hsa_abi::{HsaSignal, KernelDispatchPacket, PacketHeader, implicit_args};

use crate::core::profile::FunctionRef;
use crate::core::queue::operation::Image;
use crate::ffi::{Result, Status, status};
use crate::hsa;
use crate::ring::{HeaderWord, KERNARG_ALIGNMENT};

/// The setup of a dispatch's packet: dimensions of its grid.
const GRID_DIMENSIONS: u16 = 3;

/// The size of a workgroup and what it needs beyond the kernel's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkgroupShape {
    /// Work-items in each dimension.
    pub size: [u16; 3],
    /// Bytes of LDS on top of the static ones.
    pub dynamic_lds: u32,
}

/// How a function's arguments reach its kernargs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentLayout {
    /// Bindings, constants, implicit arguments: the HAL's order.
    Hal {
        /// Offset of the implicit arguments, when the kernel has them.
        implicit: Option<u32>,
        /// Bytes in all.
        total: u32,
    },
    /// The caller's constants are the kernargs.
    Direct,
    /// A buffer of the caller's holds the kernargs.
    Indirect(IndirectArguments),
}

/// What a buffer must offer whose contents are a function's kernargs, implicit arguments and padding included: the
/// packet points at them.
///
/// The waves read them when the packet runs, after its acquire fence, so they may be written up to the barrier before
/// the dispatch. That is what dynamic indirect arguments are (`iree/hal/command_buffer.h`); static ones, which do not
/// change after submission, get the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndirectArguments {
    /// Bytes that the function may read.
    pub size: u32,
    /// What their address must be a multiple of.
    pub alignment: u32,
}

impl IndirectArguments {
    /// The least alignment of kernargs (HSA Platform System Architecture, "Kernel dispatch packet").
    const LEAST_ALIGNMENT: u32 = 16;

    /// Checks the length of the arguments that a caller passes.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when they are too short.
    pub fn check_length(self, length: u64) -> Result<()> {
        if length < u64::from(self.size) {
            return Err(status!(
                INVALID_ARGUMENT,
                "indirect arguments of {length} bytes for a function whose kernargs have {}",
                self.size
            ));
        }
        Ok(())
    }

    /// Checks where they are on the device.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it is not aligned.
    pub fn check_address(self, address: u64) -> Result<()> {
        if !address.is_multiple_of(self.alignment.into()) {
            return Err(status!(
                INVALID_ARGUMENT,
                "indirect arguments at {address:#x} are not aligned to {}, as kernargs must be",
                self.alignment
            ));
        }
        Ok(())
    }
}

/// A function ready to be launched: all but its grid and the addresses of its arguments.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    /// The kernel, and what a workgroup of it needs, dynamic LDS included.
    pub kernel: hsa::Kernel,
    /// The workgroup.
    pub shape: WorkgroupShape,
    /// The arguments.
    pub layout: ArgumentLayout,
    /// The function's name in profiles.
    pub function: FunctionRef,
    /// Its kernargs are bindings and constants, and at most [`KERNARG_ALIGNMENT`] bytes.
    pub fits_line: bool,
}

impl Launch {
    /// Checks a dispatch of `function`, which profiles call `name`, and fills in its packet. `workgroup_size` of zeros
    /// takes the function's own.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when constants, bindings or sizes do not fit the function.
    pub fn new(
        function: &Function,
        name: FunctionRef,
        kernel: &hsa::Kernel,
        workgroup_size: [u32; 3],
        dynamic_lds: u32,
        arguments: Arguments,
    ) -> Result<Self> {
        let shape = WorkgroupShape { size: workgroup_shape(function, workgroup_size)?, dynamic_lds };
        let layout = arguments.layout(function)?;
        let group_size = kernel.group_size.checked_add(dynamic_lds).ok_or_else(|| {
            status!(INVALID_ARGUMENT, "'{}' with {dynamic_lds} bytes of dynamic LDS exceeds 4 GiB", function.name)
        })?;
        let kernel = hsa::Kernel { group_size, ..*kernel };
        let fits_line = match (layout, arguments) {
            (ArgumentLayout::Hal { implicit: None, total }, Arguments::Hal { constants, bindings }) => {
                let length = (8 * bindings + constants).max(total as usize) as u64;
                (1..=KERNARG_ALIGNMENT).contains(&length)
            }
            _ => false,
        };
        Ok(Self { kernel, shape, layout, function: name, fits_line })
    }

    /// Its packet, without a header, for a grid of so many work-items.
    #[inline(always)]
    pub fn packet(&self, grid_size: [u32; 3], kernarg_address: u64) -> KernelDispatchPacket {
        KernelDispatchPacket {
            header: PacketHeader::INVALID,
            setup: GRID_DIMENSIONS,
            workgroup_size: self.shape.size,
            reserved0: 0,
            grid_size,
            private_segment_size: self.kernel.private_size,
            group_segment_size: self.kernel.group_size,
            kernel_object: self.kernel.object,
            kernarg_address,
            reserved2: 0,
            completion_signal: HsaSignal::NULL,
        }
    }

    /// Whether a dispatch with these sizes, of which zeros are the function's own, is this one.
    #[inline(always)]
    pub fn has_shape(&self, workgroup_size: [u32; 3], dynamic_lds: u32) -> bool {
        let [x, y, z] = workgroup_size;
        let size = self.shape.size.map(u32::from);
        let is_own = x | y | z == 0 || x == size[0] && y == size[1] && z == size[2];
        is_own && dynamic_lds == self.shape.dynamic_lds
    }

    /// The same launch in another shape; none when that is not one.
    pub fn reshaped(&self, workgroup_size: [u32; 3], dynamic_lds: u32) -> Option<Self> {
        let mut launch = *self;
        launch.shape.dynamic_lds = dynamic_lds;
        launch.kernel.group_size = launch.kernel.group_size.checked_add(dynamic_lds)?;
        if workgroup_size != [0; 3] {
            for (to, from) in launch.shape.size.iter_mut().zip(workgroup_size) {
                *to = u16::try_from(from).ok().filter(|size| *size > 0)?;
            }
        }
        Some(launch)
    }

    /// What [`Self::grid`] says; none, too, where a dimension has no workgroups.
    #[inline(always)]
    pub fn usual_grid(&self, count: &[u32; 3]) -> Option<[u32; 3]> {
        let sizes: [u64; 3] = std::array::from_fn(|i| u64::from(count[i]) * u64::from(self.shape.size[i]));
        // Of none, one less has all bits.
        let fits = sizes.iter().fold(0, |bits, size| bits | size | size.wrapping_sub(1)) <= u64::from(u32::MAX);
        fits.then_some(sizes.map(|size| size as u32))
    }

    /// Work-items in each dimension of `count` workgroups.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when they exceed 2^32 - 1 in a dimension.
    #[inline(always)]
    pub fn grid(&self, count: [u32; 3]) -> Result<[u32; 3]> {
        let mut grid = [0; 3];
        for dimension in 0..3 {
            let size = u64::from(count[dimension]) * u64::from(self.shape.size[dimension]);
            grid[dimension] = size as u32;
            if size > u64::from(u32::MAX) {
                return Err(self.grid_exceeded(count[dimension], dimension));
            }
        }
        Ok(grid)
    }

    #[cold]
    fn grid_exceeded(&self, count: u32, dimension: usize) -> Status {
        let size = self.shape.size[dimension];
        status!(
            INVALID_ARGUMENT,
            "{count} workgroups of {size} work-items in dimension {dimension} exceed the grid's 2^32 - 1 work-items"
        )
    }

    /// Bytes of the kernargs with so many bindings and bytes of constants.
    #[inline(always)]
    pub fn kernarg_length(&self, bindings: usize, constants: usize) -> usize {
        match self.layout {
            ArgumentLayout::Hal { total, .. } => (total as usize).max(8 * bindings + constants),
            _ => constants,
        }
    }

    /// Writes the kernargs behind the bindings, from byte `at` on, to `image`, `length` bytes that need not be zero
    /// before, unless a buffer of the caller's holds them; `count` is 0 where the device fills it in.
    ///
    /// # Panics
    /// When `image` is shorter or `length` less than [`Self::kernarg_length`].
    #[inline(always)]
    pub fn write_constants(
        &self,
        image: &mut impl Image,
        at: usize,
        length: usize,
        constants: &[u8],
        count: impl FnOnce() -> [u32; 3],
    ) {
        let ArgumentLayout::Hal { implicit, .. } = self.layout else { return image.put(0, constants) };
        let mut end = at;
        if !constants.is_empty() {
            image.put(end, constants);
            end += constants.len();
        }
        // Seldom there is anything behind.
        while end < length {
            let zeros = &[0; 64][..(length - end).min(64)];
            image.put(end, zeros);
            end += zeros.len();
        }
        if let Some(base) = implicit {
            self.write_implicit(image, base as usize, count());
        }
    }

    fn write_implicit(&self, image: &mut impl Image, base: usize, count: [u32; 3]) {
        for (dimension, (count, size)) in count.iter().zip(self.shape.size).enumerate() {
            image.put(base + implicit_args::BLOCK_COUNT + 4 * dimension, &count.to_le_bytes());
            image.put(base + implicit_args::GROUP_SIZE + 2 * dimension, &size.to_le_bytes());
        }
        image.put(base + implicit_args::GRID_DIMS, &3_u16.to_le_bytes());
        image.put(base + implicit_args::DYNAMIC_LDS_SIZE, &self.shape.dynamic_lds.to_le_bytes());
    }

    /// The arguments of the kernel that completes this launch with counts read from `workgroup_count` and publishes it,
    /// with `header`, at `packet`. The kernargs are in place at `kernargs`.
    pub fn patch_args(
        &self,
        workgroup_count: u64,
        packet: u64,
        header: PacketHeader,
        kernargs: u64,
    ) -> PatchDispatchArgs {
        let implicit_args = match self.layout {
            ArgumentLayout::Hal { implicit: Some(offset), .. } => kernargs + u64::from(offset),
            // What the caller laid out is the caller's.
            _ => 0,
        };
        PatchDispatchArgs {
            workgroup_count,
            packet,
            implicit_args,
            header_setup: header_setups(HeaderWord::new(header, GRID_DIMENSIONS).0),
            workgroup_size: self.shape.size.map(u32::from),
            reserved: 0,
        }
    }
}

/// What the caller passes to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// Bindings and constants in the HAL's order.
    Hal {
        /// Bytes of constants.
        constants: usize,
        /// Bindings.
        bindings: usize,
    },
    /// The kernargs themselves, so many bytes.
    Direct(usize),
    /// The buffer that holds the kernargs.
    Indirect,
}

impl Arguments {
    /// What `function` takes in the HAL's order.
    pub fn of(function: &Function) -> Self {
        Self::Hal { constants: 4 * usize::from(function.constant_count), bindings: usize::from(function.binding_count) }
    }

    fn layout(self, function: &Function) -> Result<ArgumentLayout> {
        let name = &function.name;
        let (constants, bindings) = match self {
            Self::Hal { constants, bindings } => (constants, bindings),
            Self::Direct(length) if length == function.kernarg_size as usize => return Ok(ArgumentLayout::Direct),
            Self::Direct(length) => {
                let size = function.kernarg_size;
                return Err(status!(
                    INVALID_ARGUMENT,
                    "direct arguments of '{name}' are its {size} bytes of kernargs, not {length} bytes"
                ));
            }
            Self::Indirect => {
                return Ok(ArgumentLayout::Indirect(IndirectArguments {
                    size: function.kernarg_size,
                    alignment: function.kernarg_alignment.max(IndirectArguments::LEAST_ALIGNMENT),
                }));
            }
        };
        if self != Self::of(function) {
            return Err(status!(
                INVALID_ARGUMENT,
                "'{name}' takes {} bytes of constants and {} bindings, not {constants} and {bindings}",
                4 * function.constant_count,
                function.binding_count
            ));
        }
        if let Some(parameter) = function.misplaced_parameter() {
            return Err(status!(
                INVALID_ARGUMENT,
                "'{name}' reads its parameter '{}' at byte {}, which bindings followed by constants do not give it; pass its \
                 kernargs as direct arguments",
                parameter.name,
                parameter.kernarg_offset
            ));
        }
        let layout = function.kernarg_layout;
        Ok(ArgumentLayout::Hal {
            implicit: layout.has_implicit_args.then_some(layout.explicit_size),
            total: layout.total_size,
        })
    }
}

/// The workgroup size that `requested` (zeros: the function's own) comes to.
fn workgroup_shape(function: &Function, requested: [u32; 3]) -> Result<[u16; 3]> {
    let size = if requested == [0; 3] { function.workgroup_size } else { requested };
    let mut shape = [0; 3];
    for (to, from) in shape.iter_mut().zip(size) {
        *to = u16::try_from(from).ok().filter(|size| *size > 0).ok_or_else(|| {
            status!(INVALID_ARGUMENT, "workgroup size {size:?} of '{}' is out of range", function.name)
        })?;
    }
    Ok(shape)
}
