// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A function that is ready to be launched: its workgroup shape and argument layout.

use amdgpu_code_object::{CountPlaces, Function, HiddenPlaces, HiddenValue};
use device_binaries::{PatchDispatchArgs, header_setups};
use hsa_abi::{HsaSignal, KernelDispatchPacket, PacketHeader};

use amdgpu_ffi::{Result, Status, status};
use amdgpu_gpu::limits::LaunchLimits;
use amdgpu_hsa as hsa;
use amdgpu_profile::FunctionRef;
use amdgpu_queue::kernargs::KernargSink;
use amdgpu_ring::{HeaderWord, KERNARG_ALIGNMENT};

/// The setup field of a dispatch packet: dimensions of its grid.
const GRID_DIMENSIONS: u16 = 3;

/// Bytes of scratch of a work-item whose kernel has a call stack of a size unknown to its compiler. LLVM's offloading
/// runtime uses the same (`offload/plugins-nextgen/amdgpu`); HIP uses 1 KiB unless the program asks for more.
const DYNAMIC_STACK_SIZE: u32 = 16 << 10;

/// Most bytes of kernel arguments of a dispatch: twice the maximum of bindings and constants. A file may declare any
/// size, and each recorded dispatch has memory for them.
const MAX_KERNARG_SIZE: u32 = 1 << 20;

/// The size of a workgroup, and its needs beyond the kernel's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkgroupShape {
    /// Work-items in each dimension.
    pub size: [u16; 3],
    /// Bytes of LDS in addition to the static ones.
    pub dynamic_lds: u32,
}

/// The layout of a function's kernargs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentLayout {
    /// Bindings and constants in the HAL's order, and hidden arguments where the kernel reads them.
    Hal {
        /// The places of the hidden arguments.
        hidden: HiddenPlaces,
        /// Total bytes.
        total: u32,
    },
    /// The caller's constants are the kernargs.
    Direct,
    /// A buffer of the caller holds the kernargs.
    Indirect(IndirectArguments),
}

/// Requirements for a buffer whose contents are a function's kernargs, implicit arguments and padding included: the
/// packet points to them.
///
/// Waves read the kernargs when the packet runs, after its acquire fence, so that they may be written up to the barrier
/// before the dispatch. These are dynamic indirect arguments (`iree/hal/command_buffer.h`); static ones, which do not
/// change after submission, are treated alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndirectArguments {
    /// Bytes that the function may read.
    pub size: u32,
    /// The alignment of their address in bytes.
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

    /// Checks the device address of the arguments.
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

/// A function ready to be launched: everything except the grid and the argument addresses.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    /// The kernel, and the resources of a workgroup, dynamic LDS included.
    pub kernel: hsa::Kernel,
    /// The workgroup.
    pub shape: WorkgroupShape,
    /// Most workgroups in each dimension.
    most_workgroups: [u32; 3],
    /// The arguments.
    pub layout: ArgumentLayout,
    /// The function's name in profiles.
    pub function: FunctionRef,
    /// The kernargs are bindings and constants in at most [`KERNARG_ALIGNMENT`] bytes.
    pub fits_one_block: bool,
}

impl Launch {
    /// Checks a dispatch of `function`, named `name` in profiles, and fills in its packet. A `workgroup_size` of zeros
    /// selects the function's own; `limits` are those of the GPU that `kernel` is loaded on.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if constants, bindings or sizes do not fit the function or the GPU; UNIMPLEMENTED for a
    /// function that reads arguments that no dispatch provides.
    pub fn new(
        function: &Function,
        name: FunctionRef,
        kernel: &hsa::Kernel,
        limits: &LaunchLimits,
        (workgroup_size, dynamic_lds): ([u32; 3], u32),
        arguments: Arguments,
    ) -> Result<Self> {
        let size = workgroup_shape(function, limits, workgroup_size)?;
        let group_size = check_lds(function, limits, kernel.group_size, dynamic_lds)?;
        let layout = arguments.layout(function)?;
        let private_size = match function.uses_dynamic_stack {
            true => kernel.private_size.max(DYNAMIC_STACK_SIZE),
            false => kernel.private_size,
        };
        let kernel = hsa::Kernel { group_size, private_size, ..*kernel };
        let fits_one_block = match (layout, arguments) {
            (ArgumentLayout::Hal { hidden, total }, Arguments::Hal { constants, bindings }) if hidden.is_empty() => {
                let length = (8 * bindings + constants).max(total as usize) as u64;
                (1..=KERNARG_ALIGNMENT).contains(&length)
            }
            _ => false,
        };
        let most_workgroups =
            std::array::from_fn(|dimension| (u32::MAX / u32::from(size[dimension])).min(limits.workgroups[dimension]));
        let shape = WorkgroupShape { size, dynamic_lds };
        Ok(Self { kernel, shape, most_workgroups, layout, function: name, fits_one_block })
    }

    /// The packet, without a header, for a grid of `grid_size` work-items.
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

    /// True if this launch has these sizes. Zeros stand for the function's own.
    #[inline(always)]
    pub fn has_shape(&self, workgroup_size: [u32; 3], dynamic_lds: u32) -> bool {
        let [x, y, z] = workgroup_size;
        let size = self.shape.size.map(u32::from);
        let is_own = x | y | z == 0 || x == size[0] && y == size[1] && z == size[2];
        is_own && dynamic_lds == self.shape.dynamic_lds
    }

    /// The grid as of [`Self::grid`]; none if that fails or a dimension has no workgroups.
    #[inline(always)]
    pub fn grid_if_nonzero(&self, count: &[u32; 3]) -> Option<[u32; 3]> {
        let most = &self.most_workgroups;
        // 0 wraps around and exceeds every maximum.
        let fits = count.iter().zip(most).fold(true, |fits, (count, most)| fits & (count.wrapping_sub(1) < *most));
        fits.then(|| self.items(count))
    }

    /// Work-items in each dimension of `count` workgroups.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when there are more in a dimension than the GPU can count.
    #[inline(always)]
    pub fn grid(&self, count: [u32; 3]) -> Result<[u32; 3]> {
        let most = &self.most_workgroups;
        match count.iter().zip(most).fold(true, |fits, (count, most)| fits & (count <= most)) {
            true => Ok(self.items(&count)),
            false => Err(self.grid_exceeded(&count)),
        }
    }

    /// The work-items of `count` workgroups, which are within the limits.
    #[inline(always)]
    fn items(&self, count: &[u32; 3]) -> [u32; 3] {
        std::array::from_fn(|i| count[i].wrapping_mul(self.shape.size[i].into()))
    }

    #[cold]
    fn grid_exceeded(&self, count: &[u32; 3]) -> Status {
        let dimension = count.iter().zip(&self.most_workgroups).position(|(count, most)| count > most).unwrap_or(0);
        let (count, size, most) = (count[dimension], self.shape.size[dimension], self.most_workgroups[dimension]);
        if most < u32::MAX / u32::from(size) {
            return status!(
                INVALID_ARGUMENT,
                "{count} workgroups in dimension {dimension} are more than the {most} that the GPU numbers there"
            );
        }
        status!(
            INVALID_ARGUMENT,
            "{count} workgroups of {size} work-items in dimension {dimension} exceed the grid's 2^32 - 1 work-items"
        )
    }

    /// Checks that the device can fill in workgroup counts that it reads from memory.
    ///
    /// # Errors
    /// UNIMPLEMENTED for a kernel that reads the counts from unusual places.
    #[inline]
    pub fn check_indirect_counts(&self) -> Result<()> {
        match self.layout {
            ArgumentLayout::Hal { hidden, .. } if hidden.counts() == CountPlaces::Apart => Err(status!(
                UNIMPLEMENTED,
                "indirect workgroup counts for a kernel whose arguments hidden_block_count_x, _y and _z are not in a row"
            )),
            _ => Ok(()),
        }
    }

    /// Bytes of the kernargs with these numbers of bindings and constant bytes.
    #[inline(always)]
    pub fn kernarg_length(&self, bindings: usize, constants: usize) -> usize {
        match self.layout {
            ArgumentLayout::Hal { total, .. } => (total as usize).max(8 * bindings + constants),
            _ => constants,
        }
    }

    /// Writes `length` bytes of kernargs from byte `at` on, behind the bindings, to `sink`, which need not be zeroed.
    /// Writes nothing if a buffer of the caller holds the kernargs. `count` is 0 if the device fills it in.
    ///
    /// # Panics
    /// When `sink` is shorter or `length` less than [`Self::kernarg_length`].
    #[inline(always)]
    pub fn write_constants(
        &self,
        sink: &mut impl KernargSink,
        at: usize,
        length: usize,
        constants: &[u8],
        count: impl FnOnce() -> [u32; 3],
    ) {
        let ArgumentLayout::Hal { hidden, .. } = &self.layout else { return sink.write_bytes(0, constants) };
        let mut end = at;
        if !constants.is_empty() {
            sink.write_bytes(end, constants);
            end += constants.len();
        }
        // Seldom there is anything behind.
        while end < length {
            let zeros = &[0; 64][..(length - end).min(64)];
            sink.write_bytes(end, zeros);
            end += zeros.len();
        }
        // One that fits a block has none, which is fewer bytes to look at.
        if !self.fits_one_block && !hidden.is_empty() {
            self.write_hidden(sink, hidden, count());
        }
    }

    fn write_hidden(&self, sink: &mut impl KernargSink, places: &HiddenPlaces, count: [u32; 3]) {
        let ([x, y, z], [width, height, depth]) = (count, self.shape.size.map(u32::from));
        let values = [x, y, z, width, height, depth, GRID_DIMENSIONS.into(), self.shape.dynamic_lds];
        for (kind, value) in HiddenValue::ALL.into_iter().zip(values) {
            if let Some(offset) = places.get(kind) {
                sink.write_bytes(offset as usize, &value.to_le_bytes()[..kind.size()]);
            }
        }
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
        let counts = match self.layout {
            ArgumentLayout::Hal { hidden, .. } => hidden.counts(),
            // Direct and indirect arguments are laid out by the caller.
            _ => CountPlaces::Absent,
        };
        let implicit_args = match counts {
            CountPlaces::InARow(offset) => kernargs + u64::from(offset),
            CountPlaces::Absent | CountPlaces::Apart => 0,
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

/// The form of the arguments that the caller passes to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// Bindings and constants in the HAL's order.
    Hal {
        /// Bytes of constants.
        constants: usize,
        /// Bindings.
        bindings: usize,
    },
    /// The kernargs themselves, of this many bytes.
    Direct(usize),
    /// The buffer that holds the kernargs.
    Indirect,
}

impl Arguments {
    /// The arguments of `function` in the HAL's order.
    pub fn of(function: &Function) -> Self {
        Self::Hal { constants: 4 * usize::from(function.constant_count), bindings: usize::from(function.binding_count) }
    }

    fn layout(self, function: &Function) -> Result<ArgumentLayout> {
        let name = &function.name;
        let (constants, bindings) = match self {
            Self::Hal { constants, bindings } => (constants, bindings),
            Self::Direct(length) if length == function.kernarg_size as usize => {
                check_kernarg_size(function, function.kernarg_size)?;
                return Ok(ArgumentLayout::Direct);
            }
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
        if let Some(kind) = &function.hidden.unprovided {
            return Err(status!(
                UNIMPLEMENTED,
                "'{name}' reads the argument {kind}, which amdgpu_rs does not provide; compile it without printf, \
                 malloc and the like, or pass all its kernargs as direct arguments"
            ));
        }
        let total = function.kernarg_layout.total_size;
        check_kernarg_size(function, total)?;
        Ok(ArgumentLayout::Hal { hidden: function.hidden.places, total })
    }
}

/// Refuses a function whose kernel arguments are too large to write.
fn check_kernarg_size(function: &Function, size: u32) -> Result<()> {
    if size > MAX_KERNARG_SIZE {
        let name = &function.name;
        return Err(status!(
            RESOURCE_EXHAUSTED,
            "'{name}' has {size} bytes of kernel arguments, and a dispatch writes at most {MAX_KERNARG_SIZE}"
        ));
    }
    Ok(())
}

/// The workgroup size for `requested`; zeros select the function's own.
fn workgroup_shape(function: &Function, limits: &LaunchLimits, requested: [u32; 3]) -> Result<[u16; 3]> {
    let size = if requested == [0; 3] { function.workgroup_size } else { requested };
    let name = &function.name;
    check_workgroup(name, limits, size)?;
    let items = size.iter().product::<u32>();
    if items > function.max_workgroup_size {
        let most = function.max_workgroup_size;
        return Err(status!(
            INVALID_ARGUMENT,
            "a workgroup of {size:?} is {items} work-items, and '{name}' was compiled for at most {most} \
             (.max_flat_workgroup_size of its metadata)"
        ));
    }
    let mut shape = [0; 3];
    for (to, from) in shape.iter_mut().zip(size) {
        *to = u16::try_from(from)
            .ok()
            .filter(|size| *size > 0)
            .ok_or_else(|| status!(INVALID_ARGUMENT, "workgroup size {size:?} of '{name}' is out of range"))?;
    }
    Ok(shape)
}

/// Checks that the GPU of `limits` runs workgroups of `size` work-items of the function `name`.
///
/// # Errors
/// INVALID_ARGUMENT.
pub fn check_workgroup(name: &str, limits: &LaunchLimits, size: [u32; 3]) -> Result<()> {
    let LaunchLimits { gpu, workgroup_size, workgroup_dims, .. } = limits;
    let fits = size.iter().zip(workgroup_dims).all(|(size, most)| *size <= u32::from(*most));
    if !fits {
        return Err(status!(
            INVALID_ARGUMENT,
            "a workgroup of {size:?} of '{name}' exceeds the {workgroup_dims:?} work-items that {gpu} has in a dimension"
        ));
    }
    // No overflow: each has 16 bits.
    let items = size.iter().map(|size| u64::from(*size)).product::<u64>();
    if items > u64::from(*workgroup_size) {
        return Err(status!(
            INVALID_ARGUMENT,
            "a workgroup of {size:?} of '{name}' is {items} work-items, and {gpu} has at most {workgroup_size} in one"
        ));
    }
    Ok(())
}

/// Bytes of LDS of a workgroup.
fn check_lds(function: &Function, limits: &LaunchLimits, own: u32, dynamic: u32) -> Result<u32> {
    own.checked_add(dynamic).filter(|size| *size <= limits.lds).ok_or_else(|| {
        let (size, LaunchLimits { gpu, lds, .. }) = (u64::from(own) + u64::from(dynamic), limits);
        status!(
            INVALID_ARGUMENT,
            "a workgroup of '{}' takes {size} bytes of LDS ({own} of the kernel's own, {dynamic} dynamic), and {gpu} has \
             {lds} for one",
            function.name
        )
    })
}

#[cfg(test)]
mod tests {
    use amdgpu_code_object::{HiddenArguments, KernargLayout};

    use super::*;

    /// A launch of a function without arguments, in workgroups of this size.
    fn launch(workgroup_size: [u32; 3], limits: &LaunchLimits) -> Launch {
        let function = Function {
            name: "f".to_owned(),
            symbol: "f.kd".to_owned(),
            workgroup_size,
            dynamic_workgroup_size: false,
            constant_count: 0,
            binding_count: 0,
            parameters: Vec::new(),
            kernarg_layout: KernargLayout { explicit_size: 0, total_size: 0 },
            hidden: HiddenArguments { places: HiddenPlaces::NONE, unprovided: None },
            max_workgroup_size: 1024,
            kernarg_size: 0,
            kernarg_alignment: 8,
            group_segment_size: 0,
            private_segment_size: 0,
            uses_dynamic_stack: false,
            location: None,
        };
        let kernel = hsa::Kernel { object: 64, kernarg_size: 0, kernarg_alignment: 8, group_size: 0, private_size: 0 };
        Launch::new(&function, FunctionRef::default(), &kernel, limits, ([0; 3], 0), Arguments::of(&function)).unwrap()
    }

    #[test]
    fn grids_are_as_large_as_gpus_count() {
        let launch_of = |ids_in_16_bits| launch([32, 2, 1], &LaunchLimits::for_tests(ids_in_16_bits));
        let most = u32::MAX / 32;
        let (wide, narrow) = (launch_of(false), launch_of(true));
        for (count, grid, fits_narrow) in [
            ([1, 1, 1], Some([32, 2, 1]), true),
            ([most, 3, 65_536], Some([32 * most, 6, 65_536]), true),
            ([1, 65_537, 1], Some([32, 131_074, 1]), false),
            ([1, 1, u32::MAX], Some([32, 2, u32::MAX]), false),
            ([most + 1, 1, 1], None, false),
            ([1, u32::MAX / 2 + 1, 1], None, false),
        ] {
            assert_eq!(wide.grid_if_nonzero(&count), grid, "{count:?}");
            assert_eq!(wide.grid(count).ok(), grid, "{count:?}");
            assert_eq!(narrow.grid_if_nonzero(&count), grid.filter(|_| fits_narrow), "{count:?}");
            assert_eq!(narrow.grid(count).is_ok(), fits_narrow, "{count:?}");
        }
        // Nothing to launch is no usual grid, and no error.
        assert_eq!((wide.grid_if_nonzero(&[1, 0, 1]), wide.grid([1, 0, 1]).unwrap()), (None, [32, 0, 1]));
        let text = narrow.grid([1, 1, 65_537]).unwrap_err().to_string();
        assert!(text.contains("65537 workgroups in dimension 2 are more than the 65536"), "{text}");
        let text = wide.grid([most + 1, 1, 1]).unwrap_err().to_string();
        assert!(text.contains("of 32 work-items in dimension 0 exceed the grid's 2^32 - 1"), "{text}");
    }
}
