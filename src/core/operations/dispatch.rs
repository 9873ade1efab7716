// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Dispatches: geometry, kernel arguments and the operation that launches one function.

use amdgpu_code_object::Function;
use device_binaries::{PatchDispatchArgs, header_setups, plan_patch_dispatch};
use hsa_abi::{HsaSignal, KernelDispatchPacket, PacketHeader};
use smallvec::SmallVec;

use crate::core::operations::transfer::Range;
use crate::core::profile::session::Session;
use crate::core::profile::{FunctionRef, LaunchNote, Subject};
use crate::core::queue::Queue;
use crate::core::queue::complete::CompletionAction;
use crate::core::queue::operation::{Demand, Emitter, Operation, Order, Prepared, Progress, Resources};
use crate::core::queue::waits::EpochWait;
use crate::ffi::{HalRef, Resource, Result, raw, status};
use crate::hsa;
use crate::ring::{HeaderWord, KERNARG_ALIGNMENT};

/// Bytes of one dispatch's kernargs, built before they go to the ring.
pub type KernargImage = SmallVec<[u8; 256]>;

/// Offsets in the implicit arguments (LLVM AMDGPUUsage, "Code Object V5 Kernel Argument Metadata").
mod implicit {
    /// `hidden_block_count_x/y/z`, u32 each.
    pub const BLOCK_COUNT: usize = 0;
    /// `hidden_group_size_x/y/z`, u16 each; `hidden_remainder_x/y/z` follow and stay 0.
    pub const GROUP_SIZE: usize = 12;
    /// `hidden_grid_dims`, u16.
    pub const GRID_DIMS: usize = 64;
    /// `hidden_dynamic_lds_size`, u32.
    pub const DYNAMIC_LDS_SIZE: usize = 120;
}

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
        implicit: Option<usize>,
        /// Bytes in all.
        total: usize,
    },
    /// The caller's constants are the kernargs.
    Direct,
    /// A buffer of the caller's holds the kernargs.
    Indirect(IndirectArguments),
}

/// What a buffer must offer whose contents are a function's kernargs, implicit arguments and padding included: the packet points at them.
///
/// The waves read them when the packet runs, after its acquire fence, so they may be written up to the barrier before the dispatch. That
/// is what dynamic indirect arguments are (`iree/hal/command_buffer.h`); static ones, which do not change after submission, get the same.
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

/// A function ready to be launched: all but the addresses of its arguments and, for indirect counts, the grid.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    /// The packet; grid and kernarg address are filled in by the users of this type.
    pub packet: KernelDispatchPacket,
    /// The workgroup.
    pub shape: WorkgroupShape,
    /// The arguments.
    pub layout: ArgumentLayout,
    /// The function's name in profiles.
    pub function: FunctionRef,
}

impl Launch {
    /// Checks a dispatch of `function` and fills in its packet, for which profiles have no name yet. `workgroup_size` of zeros takes the function's own.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when constants, bindings or sizes do not fit the function.
    pub fn new(
        function: &Function,
        kernel: &hsa::Kernel,
        workgroup_size: [u32; 3],
        dynamic_lds: u32,
        arguments: Arguments,
    ) -> Result<Self> {
        let shape = WorkgroupShape { size: workgroup_shape(function, workgroup_size)?, dynamic_lds };
        let layout = arguments.layout(function)?;
        let group_segment_size = kernel.group_size.checked_add(dynamic_lds).ok_or_else(|| {
            status!(INVALID_ARGUMENT, "'{}' with {dynamic_lds} bytes of dynamic LDS exceeds 4 GiB", function.name)
        })?;
        let packet = KernelDispatchPacket {
            header: PacketHeader::INVALID,
            setup: 3,
            workgroup_size: shape.size,
            reserved0: 0,
            grid_size: [0; 3],
            private_segment_size: kernel.private_size,
            group_segment_size,
            kernel_object: kernel.object,
            kernarg_address: 0,
            reserved2: 0,
            completion_signal: HsaSignal::NULL,
        };
        Ok(Self { packet, shape, layout, function: FunctionRef::default() })
    }

    /// Sets the grid for `count` workgroups in each dimension.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the grid exceeds 2^32 - 1 work-items in a dimension.
    pub fn set_workgroup_count(&mut self, count: [u32; 3]) -> Result<()> {
        for (dimension, grid) in self.packet.grid_size.iter_mut().enumerate() {
            let size = u32::from(self.shape.size[dimension]);
            *grid = count[dimension].checked_mul(size).ok_or_else(|| {
                status!(
                    INVALID_ARGUMENT,
                    "{} workgroups of {size} work-items in dimension {dimension} exceed the grid's 2^32 - 1 work-items",
                    count[dimension]
                )
            })?;
        }
        Ok(())
    }

    /// Bytes of the kernargs with so many bindings and bytes of constants.
    pub fn kernarg_length(&self, bindings: usize, constants: usize) -> usize {
        match self.layout {
            ArgumentLayout::Hal { total, .. } => total.max(8 * bindings + constants),
            _ => constants,
        }
    }

    /// Writes the kernargs for `bindings` (device addresses) and `constants` to `image`, which is as long as they are and zeroed, unless a
    /// buffer of the caller's holds them; `count` is 0 where the device fills it in.
    ///
    /// # Panics
    /// When `image` is too short.
    pub fn write_kernargs(
        &self,
        image: &mut [u8],
        bindings: impl Iterator<Item = u64>,
        constants: &[u8],
        count: [u32; 3],
    ) {
        let ArgumentLayout::Hal { implicit, .. } = self.layout else { return image.copy_from_slice(constants) };
        let mut rest = &mut *image;
        for address in bindings {
            let (place, after) = rest.split_at_mut(8);
            place.copy_from_slice(&address.to_le_bytes());
            rest = after;
        }
        rest[..constants.len()].copy_from_slice(constants);
        if let Some(base) = implicit {
            self.write_implicit(&mut image[base..], count);
        }
    }

    fn write_implicit(&self, arguments: &mut [u8], count: [u32; 3]) {
        for (dimension, (count, size)) in count.iter().zip(self.shape.size).enumerate() {
            let at = implicit::BLOCK_COUNT + 4 * dimension;
            arguments[at..at + 4].copy_from_slice(&count.to_le_bytes());
            let at = implicit::GROUP_SIZE + 2 * dimension;
            arguments[at..at + 2].copy_from_slice(&size.to_le_bytes());
        }
        arguments[implicit::GRID_DIMS..implicit::GRID_DIMS + 2].copy_from_slice(&3_u16.to_le_bytes());
        let lds = &mut arguments[implicit::DYNAMIC_LDS_SIZE..implicit::DYNAMIC_LDS_SIZE + 4];
        lds.copy_from_slice(&self.shape.dynamic_lds.to_le_bytes());
    }

    /// The arguments of the kernel that completes this launch with counts read from `workgroup_count` and publishes it, with `header`, at
    /// `packet`. The kernargs are in place.
    pub fn patch_args(&self, workgroup_count: u64, packet: u64, header: PacketHeader) -> PatchDispatchArgs {
        let implicit_args = match self.layout {
            ArgumentLayout::Hal { implicit: Some(offset), .. } => self.packet.kernarg_address + offset as u64,
            // What the caller laid out is the caller's.
            _ => 0,
        };
        PatchDispatchArgs {
            workgroup_count,
            packet,
            implicit_args,
            header_setup: header_setups(HeaderWord::new(header, self.packet.setup).0),
            workgroup_size: self.shape.size.map(u32::from),
            reserved: 0,
        }
    }
}

/// What the caller passes to a function.
#[derive(Debug, Clone, Copy)]
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
        if constants != 4 * usize::from(function.constant_count) || bindings != usize::from(function.binding_count) {
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
            implicit: layout.has_implicit_args.then_some(layout.explicit_size as usize),
            total: layout.total_size as usize,
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

/// Bytes of indirect workgroup counts: three u32.
pub const WORKGROUP_COUNT_LENGTH: usize = 12;

/// Where workgroup counts come from.
#[derive(Debug)]
pub enum WorkgroupCount {
    /// Known to the host.
    Static([u32; 3]),
    /// Three u32 in a buffer, read by the device.
    Indirect(Range),
}

/// One dispatch.
pub struct Dispatch {
    executable: Option<Resource>,
    launch: Launch,
    count: WorkgroupCount,
    bindings: SmallVec<[Range; 8]>,
    constants: SmallVec<[u8; 64]>,
    // Resolved by `prepare`.
    kernargs: KernargImage,
    count_address: u64,
}

impl Dispatch {
    /// A dispatch of `launch`, whose function belongs to `executable`. Of indirect arguments, the one binding is the buffer that holds them.
    /// Inline: it is too large to be moved for nothing.
    #[inline]
    pub fn new(
        executable: HalRef<raw::iree_hal_executable_t>,
        launch: Launch,
        count: WorkgroupCount,
        bindings: SmallVec<[Range; 8]>,
        constants: &[u8],
    ) -> Self {
        Self {
            executable: Some(executable.into_resource()),
            launch,
            count,
            bindings,
            constants: SmallVec::from_slice(constants),
            kernargs: KernargImage::new(),
            count_address: 0,
        }
    }

    /// A dispatch without workgroups is legal and does nothing.
    fn is_empty(&self) -> bool {
        matches!(self.count, WorkgroupCount::Static(count) if count.contains(&0))
    }

    fn note(&self) -> LaunchNote {
        let (workgroup_count, indirect) = match self.count {
            WorkgroupCount::Static(count) => (count, false),
            WorkgroupCount::Indirect(_) => ([0; 3], true),
        };
        LaunchNote {
            function: self.launch.function,
            command_index: u32::MAX,
            workgroup_count,
            workgroup_size: self.launch.shape.size.map(u32::from),
            indirect,
        }
    }
}

impl Operation for Dispatch {
    fn prepare(&mut self, _queue: &Queue, _waits: &[EpochWait]) -> Result<Prepared> {
        if self.is_empty() {
            return Ok(Prepared::Ready(Demand { packets: 0, kernarg_bytes: 0, overlapping: true }));
        }
        let mut addresses = SmallVec::<[u64; 8]>::new();
        for binding in &self.bindings {
            addresses.push(binding.address()?);
        }
        let count = match &self.count {
            WorkgroupCount::Static(count) => {
                self.launch.set_workgroup_count(*count)?;
                *count
            }
            WorkgroupCount::Indirect(range) => {
                self.count_address = range.address()?;
                if !self.count_address.is_multiple_of(4) {
                    let address = self.count_address;
                    return Err(status!(
                        INVALID_ARGUMENT,
                        "indirect workgroup counts at {address:#x} are not aligned to 4"
                    ));
                }
                [0; 3]
            }
        };
        let own = match (self.launch.layout, addresses.as_slice()) {
            (ArgumentLayout::Indirect(needs), [address]) => {
                needs.check_address(*address)?;
                self.launch.packet.kernarg_address = *address;
                0
            }
            _ => {
                self.kernargs.clear();
                self.kernargs.resize(self.launch.kernarg_length(addresses.len(), self.constants.len()), 0);
                self.launch.write_kernargs(&mut self.kernargs, addresses.into_iter(), &self.constants, count);
                (self.kernargs.len() as u64).next_multiple_of(KERNARG_ALIGNMENT)
            }
        };
        let indirect = matches!(self.count, WorkgroupCount::Indirect(_));
        Ok(Prepared::Ready(Demand {
            packets: 1 + u32::from(indirect),
            kernarg_bytes: own + if indirect { KERNARG_ALIGNMENT } else { 0 },
            overlapping: false,
        }))
    }

    fn emit(&mut self, emitter: &mut Emitter<'_>) -> Progress {
        if self.is_empty() {
            return Progress::Done;
        }
        emitter.launches(u32::from(matches!(self.count, WorkgroupCount::Indirect(_))), || Some(self.note()));
        if !matches!(self.launch.layout, ArgumentLayout::Indirect(_)) {
            let mut kernargs = emitter.kernargs(self.kernargs.len());
            kernargs.write(0, &self.kernargs);
            self.launch.packet.kernarg_address = kernargs.address();
        }
        match self.count {
            WorkgroupCount::Static(_) => emitter.dispatch(&self.launch.packet, Order::ALONE),
            WorkgroupCount::Indirect(_) => {
                let header = emitter.published_header(Order::ALONE);
                let args = self.launch.patch_args(self.count_address, emitter.packet_address(1), header);
                emitter.patch_and_dispatch(&plan_patch_dispatch(args), &self.launch.packet, Order::ALONE);
            }
        }
        Progress::Done
    }

    fn finish(&mut self, keep: &mut Resources) -> CompletionAction {
        keep.extend(self.executable.take());
        for range in self.bindings.drain(..) {
            keep.push(range.buffer.into_resource());
        }
        if let WorkgroupCount::Indirect(range) = std::mem::replace(&mut self.count, WorkgroupCount::Static([0; 3])) {
            keep.push(range.buffer.into_resource());
        }
        CompletionAction::None
    }

    fn subject(&self, _session: &Session) -> Subject {
        let kind = raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_DISPATCH;
        Subject { launch: Some(self.note()), ..Subject::one(kind, 0) }
    }
}
