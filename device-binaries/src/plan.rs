// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Plans of fills, copies and patches as kernel launches: pure functions from the operation to the kernel, its
//! arguments and its grid.
//!
//! A transfer is cut into tiles, [`BLOCKS_PER_ITEM`] blocks of 16 bytes for each work-item of a wave, which end at a
//! multiple of
//! 16. Only the first may begin before the transfer. One wave transfers one tile. At least one wave runs, and at most
//!     [`WAVES_PER_COMPUTE_UNIT`] for each compute unit; with fewer waves than tiles, each of n waves transfers every
//!     n-th tile. A workgroup is one wave.

use crate::kernargs::{BindArgs, CopyArgs, FillArgs, PatchDispatchArgs};

/// Length in bytes of the blocks that one work-item reads and writes at once.
const BLOCK_LENGTH: u64 = 16;

/// Blocks that a work-item transfers in one tile; `BLOCKS_PER_ITEM` of the kernels.
const BLOCKS_PER_ITEM: u64 = 4;

/// Most waves for each compute unit. Sixteen waves with two blocks in flight for each work-item are 16 KiB (wave32) or
/// 32 KiB (wave64), which covers the product of a compute unit's bandwidth and its memory latency (about 10 GB/s and 1
/// us) on all supported GPUs; more would only cost launches. It was not tuned by measurement.
const WAVES_PER_COMPUTE_UNIT: u32 = 16;

/// Work-items that complete a dispatch; `PACKET_BODY_WORDS` of the kernel.
const PATCH_WORK_ITEMS: u32 = 13;

/// Work-items of a workgroup that writes addresses, one each.
const BIND_WORK_ITEMS: u32 = 64;

/// Longest fill or copy in bytes (4 TiB): tiles are counted in 32 bits.
pub const MAX_TRANSFER_LENGTH: u64 = 1 << 42;

/// Offset of the payload of an update in its kernarg block, in bytes: behind the copy's arguments.
pub const UPDATE_PAYLOAD_OFFSET: usize = 48;

/// Alignment of an update's kernarg block in bytes, so that its payload is read in aligned blocks.
pub const UPDATE_PAYLOAD_ALIGNMENT: usize = 16;

const _: () = assert!(
    UPDATE_PAYLOAD_OFFSET >= size_of::<CopyArgs>() && UPDATE_PAYLOAD_OFFSET.is_multiple_of(UPDATE_PAYLOAD_ALIGNMENT)
);

/// A kernel of the device library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Writes a pattern over a range.
    Fill,
    /// Copies a range. An update is a copy from the kernarg block that also holds the copy's arguments.
    Copy,
    /// Completes and publishes a dispatch packet whose workgroup counts come from memory.
    PatchDispatch,
    /// Writes addresses of a binding table into the kernel arguments of a recording.
    Bind,
}

impl Kernel {
    /// All kernels.
    pub const ALL: [Self; 4] = [Self::Fill, Self::Copy, Self::PatchDispatch, Self::Bind];

    /// The symbol of the kernel's descriptor in each code object.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Fill => "amdgpu_rs_fill.kd",
            Self::Copy => "amdgpu_rs_copy.kd",
            Self::PatchDispatch => "amdgpu_rs_patch_dispatch.kd",
            Self::Bind => "amdgpu_rs_bind.kd",
        }
    }

    /// Bytes of kernel arguments, which are aligned to 16; the kernel has no hidden arguments.
    pub fn kernarg_size(self) -> usize {
        match self {
            Self::Fill => size_of::<FillArgs>(),
            Self::Copy => size_of::<CopyArgs>(),
            Self::PatchDispatch => size_of::<PatchDispatchArgs>(),
            Self::Bind => size_of::<BindArgs>(),
        }
    }
}

/// Properties of a GPU that plans depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceShape {
    /// Work-items in a wavefront of the device library's kernels: 64 before gfx10, 32 from there on.
    pub wavefront_size: u32,
    /// Compute units, at least 1.
    pub compute_units: u32,
}

impl DeviceShape {
    /// Bytes in a tile.
    fn tile_length(self) -> u64 {
        u64::from(self.wavefront_size) * BLOCKS_PER_ITEM * BLOCK_LENGTH
    }
}

/// A kernel launch with one-dimensional geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch<Args> {
    /// Kernel to launch.
    pub kernel: Kernel,
    /// Arguments of the launch.
    pub args: Args,
    /// Work-items in the grid, a multiple of `workgroup_size`.
    pub grid_size: u32,
    /// Work-items in a workgroup.
    pub workgroup_size: u16,
}

/// The error for an operation that no kernel performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A pattern length other than a power of two up to 16.
    #[error("fill pattern of {0} bytes; the lengths supported are 1, 2, 4, 8 and 16")]
    PatternLength(usize),
    /// More bytes than [`MAX_TRANSFER_LENGTH`].
    #[error("transfer of {0} bytes; at most {MAX_TRANSFER_LENGTH} can be transferred at once")]
    Length(u64),
    /// A range that does not end within the address space.
    #[error("range of {length} bytes at {address:#x} exceeds the address space")]
    Range {
        /// First byte of the range.
        address: u64,
        /// Bytes in the range.
        length: u64,
    },
}

/// Plans writing `pattern` repeatedly over `length` bytes from address `target` on; the first byte of the pattern goes
/// to `target`.
///
/// Neither `target` nor `length` needs to be a multiple of anything. A length of zero plans a launch that writes
/// nothing.
///
/// # Errors
/// [`PlanError`] for a pattern of a length other than 1, 2, 4, 8 or 16, and for ranges that are too long.
#[inline]
pub fn plan_fill(device: DeviceShape, target: u64, length: u64, pattern: &[u8]) -> Result<Launch<FillArgs>, PlanError> {
    // The kernel takes the bytes of a whole aligned block; its length is a multiple of the pattern's.
    let phase = target % BLOCK_LENGTH;
    let pattern = repeat(pattern, phase).ok_or(PlanError::PatternLength(pattern.len()))?;
    check_range(target, length)?;
    let end = target + length;
    let body_begin = target.next_multiple_of(BLOCK_LENGTH);
    let body_end = end / BLOCK_LENGTH * BLOCK_LENGTH;
    let tiles = Tiles::new(device, body_begin, body_end.max(body_begin));

    // Bits of the bytes in front of the body and behind it. A range inside of one block has only a head.
    let bits = |from: u64, to: u64| (1_u32 << to) - (1_u32 << from);
    let head = if phase == 0 { 0 } else { bits(phase, (phase + length).min(BLOCK_LENGTH)) };
    let tail = if body_end < body_begin { 0 } else { bits(0, end - body_end) };

    let args = FillArgs {
        target: tiles.base,
        tile_count: tiles.count,
        wave_count: tiles.wave_count,
        first: tiles.first,
        edges: head | tail << BLOCK_LENGTH,
        pattern,
        head: target - phase,
        tail: body_end,
    };
    Ok(launch(Kernel::Fill, args, tiles.wave_count, device.wavefront_size))
}

/// The two halves of a block that repeats `pattern`, which begins `phase` bytes into the block; none for a pattern of
/// other than 1, 2, 4, 8 or 16 bytes.
#[inline]
fn repeat(pattern: &[u8], phase: u64) -> Option<[u64; 2]> {
    let half = match *pattern {
        [byte] => u64::from(byte) * (u64::MAX / u64::from(u8::MAX)),
        [a, b] => u64::from(u16::from_le_bytes([a, b])) * (u64::MAX / u64::from(u16::MAX)),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])) * (u64::MAX / u64::from(u32::MAX)),
        _ if pattern.len() == 8 => u64::from_le_bytes(pattern.try_into().ok()?),
        _ => {
            let block = u128::from_le_bytes(pattern.try_into().ok()?).rotate_left(8 * phase as u32);
            return Some([block as u64, (block >> 64) as u64]);
        }
    };
    Some([half.rotate_left(8 * phase as u32); 2])
}

/// Plans copying `length` bytes from address `source` to address `target`; the ranges do not overlap.
///
/// Neither address nor the length needs to be a multiple of anything. A length of zero plans a launch that copies
/// nothing.
///
/// # Errors
/// [`PlanError`] for ranges that are too long.
#[inline]
pub fn plan_copy(device: DeviceShape, source: u64, target: u64, length: u64) -> Result<Launch<CopyArgs>, PlanError> {
    check_range(source, length)?;
    check_range(target, length)?;
    let end = target + length;
    let tiles_end = end.next_multiple_of(BLOCK_LENGTH);
    let in_bytes = length < BLOCK_LENGTH;
    let tiles = Tiles::new(device, if in_bytes { tiles_end } else { target }, tiles_end);
    let last = device.tile_length() - BLOCK_LENGTH - (tiles_end - end);
    let args = CopyArgs {
        source: if in_bytes { source } else { source.wrapping_sub(tiles.first.into()) },
        target: if in_bytes { target } else { tiles.base },
        tile_count: tiles.count,
        wave_count: tiles.wave_count,
        first: tiles.first,
        last: last as u32,
        byte_count: if in_bytes { length as u32 } else { 0 },
        reserved: 0,
    };
    Ok(launch(Kernel::Copy, args, tiles.wave_count, device.wavefront_size))
}

/// Plans completing and publishing a dispatch; see [`PatchDispatchArgs`] and the kernel's source for the contract.
pub fn plan_patch_dispatch(args: PatchDispatchArgs) -> Launch<PatchDispatchArgs> {
    launch(Kernel::PatchDispatch, args, 1, PATCH_WORK_ITEMS)
}

/// Plans writing the addresses of an execution's bindings into a recording's kernel arguments; see [`BindArgs`].
pub fn plan_bind(args: BindArgs) -> Launch<BindArgs> {
    launch(Kernel::Bind, args, args.count.div_ceil(BIND_WORK_ITEMS), BIND_WORK_ITEMS)
}

#[inline]
fn launch<Args>(kernel: Kernel, args: Args, workgroup_count: u32, workgroup_size: u32) -> Launch<Args> {
    Launch { kernel, args, grid_size: workgroup_count * workgroup_size, workgroup_size: workgroup_size as u16 }
}

#[inline]
fn check_range(address: u64, length: u64) -> Result<(), PlanError> {
    // Ends are rounded up to the next block, so the last one of the address space is out of reach.
    if length > MAX_TRANSFER_LENGTH {
        return Err(PlanError::Length(length));
    }
    match address.checked_add(length + BLOCK_LENGTH) {
        Some(_) => Ok(()),
        None => Err(PlanError::Range { address, length }),
    }
}

/// The tiles of a range. They end at the range's end.
struct Tiles {
    /// Begin of the first tile. It may lie before the range, and wrap around below address 0.
    base: u64,
    count: u32,
    /// Offset of the range in the first tile.
    first: u32,
    /// The number of waves that transfer them.
    wave_count: u32,
}

impl Tiles {
    /// Tiles of `begin..end`, at most [`MAX_TRANSFER_LENGTH`] bytes and a block's more.
    #[inline]
    fn new(device: DeviceShape, begin: u64, end: u64) -> Self {
        // Tiles and waves are powers of two, by which shifts divide.
        debug_assert!(device.wavefront_size.is_power_of_two() && device.tile_length().is_power_of_two());
        let tile_length = device.tile_length();
        let count = (end - begin + (tile_length - 1)) >> tile_length.trailing_zeros();
        let first = count * tile_length - (end - begin);
        // A grid is at most u32::MAX work-items.
        let most_waves = u32::MAX >> device.wavefront_size.trailing_zeros();
        let most = device.compute_units.saturating_mul(WAVES_PER_COMPUTE_UNIT).clamp(1, most_waves);
        Self {
            base: begin.wrapping_sub(first),
            count: count as u32,
            first: first as u32,
            wave_count: count.clamp(1, most.into()) as u32,
        }
    }
}
