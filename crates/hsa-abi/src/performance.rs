// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Performance counters of the SQ block: registers, as dwords from the first of all, their fields, and events.
//!
//! Registers and fields are those of the kernel driver's `gc_9_4_2`, `gc_10_3_0`, `gc_11_0_0` and `gc_12_0_0` headers,
//! events those of its `vega10_enum.h`, `navi10_enum.h`, `soc21_enum.h` and `soc24_enum.h`.

use core::ops::Range;

/// The registers that `SET_SH_REG` writes, which names them by their distance from the first.
pub const SH_REGISTERS: Range<u32> = 0x2c00..0x3000;

/// The same of `SET_UCONFIG_REG`.
pub const UCONFIG_REGISTERS: Range<u32> = 0xc000..0x1_0000;

/// The shader register that has a queue's kernels count.
pub const COMPUTE_PERFCOUNT_ENABLE: u32 = 0x2e0b;
/// Which parts of a die are written and read.
pub const GRBM_GFX_INDEX: u32 = 0xc200;
/// The low words of results; high ones are between them.
pub const SQ_PERFCOUNTER0_LO: u32 = 0xd1c0;
/// Resets, starts, stops and samples all counters.
pub const CP_PERFMON_CNTL: u32 = 0xd808;
/// What the first counter counts; others follow.
pub const SQ_PERFCOUNTER0_SELECT: u32 = 0xd9c0;
/// Of which kinds of shaders.
pub const SQ_PERFCOUNTER_CTRL: u32 = 0xd9e0;
/// On which parts; up to gfx9.
pub const SQ_PERFCOUNTER_MASK: u32 = 0xd9e1;
/// From gfx11 on: of which virtual machines, and [`FORCE_EN`].
pub const SQ_PERFCOUNTER_CTRL2: u32 = 0xd9e2;
/// Has the clock of counters run; up to gfx9.
pub const RLC_PERFMON_CLK_CNTL: u32 = 0xdcbf;

/// [`GRBM_GFX_INDEX`]: all shader arrays.
pub const ARRAY_BROADCAST: u32 = 1 << 29;
/// All instances in an array.
pub const INSTANCE_BROADCAST: u32 = 1 << 30;
/// All shader engines.
pub const ENGINE_BROADCAST: u32 = 1 << 31;
/// Everything.
pub const BROADCAST: u32 = ARRAY_BROADCAST | INSTANCE_BROADCAST | ENGINE_BROADCAST;

/// [`CP_PERFMON_CNTL`]: the state.
pub const PERFMON_STATE: u32 = 0xf;
/// The state in which counters are cleared.
pub const PERFMON_RESET: u32 = 0;
/// The one in which they count.
pub const PERFMON_START: u32 = 1;
/// The one in which they keep what they have counted.
pub const PERFMON_STOP: u32 = 2;
/// Keeps what they have counted by now for reads.
pub const PERFMON_SAMPLE: u32 = 1 << 10;

/// [`SQ_PERFCOUNTER_CTRL`]: compute shaders count.
pub const CS_EN: u32 = 1 << 6;
/// [`SQ_PERFCOUNTER_CTRL2`]: the counters run, even where no graphics queue has them do so.
pub const FORCE_EN: u32 = 1;

/// A select register: the event.
pub const PERF_SEL: u32 = 0x1ff;

/// Generations of GPUs, as their counters differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// gfx9.
    Gfx9,
    /// gfx10.
    Gfx10,
    /// gfx11.
    Gfx11,
    /// gfx12.0.
    Gfx12,
}

impl Generation {
    /// That of a processor, `gfx942` for example; none of those whose counters are not known.
    pub fn of(processor: &str) -> Option<Self> {
        let number = processor.strip_prefix("gfx")?;
        match number.len() {
            3 if number.starts_with('9') => Some(Self::Gfx9),
            4 if number.starts_with("10") => Some(Self::Gfx10),
            4 if number.starts_with("11") => Some(Self::Gfx11),
            4 if number.starts_with("120") => Some(Self::Gfx12),
            _ => None,
        }
    }
}

/// What the SQ block counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqEvent {
    /// Clock cycles with waves.
    BusyCycles,
    /// Waves launched.
    Waves,
    /// Those of 32 lanes.
    Waves32,
    /// Those of 64 lanes.
    Waves64,
    /// Vector instructions that compute.
    InstsValu,
    /// Scalar instructions that compute.
    InstsSalu,
    /// Scalar memory instructions.
    InstsSmem,
    /// Instructions of the local data share.
    InstsLds,
    /// Vector memory instructions.
    InstsVmem,
}

impl SqEvent {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::BusyCycles,
        Self::Waves,
        Self::Waves32,
        Self::Waves64,
        Self::InstsValu,
        Self::InstsSalu,
        Self::InstsSmem,
        Self::InstsLds,
        Self::InstsVmem,
    ];

    /// The number of the event in select registers; none where a generation has it not.
    pub const fn number(self, generation: Generation) -> Option<u32> {
        let [gfx9, gfx10, gfx11, gfx12] = match self {
            Self::BusyCycles => [3, 3, 3, 3],
            Self::Waves => [4, 4, 4, 4],
            Self::Waves32 => [0, 5, 5, 5],
            Self::Waves64 => [0, 6, 6, 6],
            Self::InstsValu => [0x1a, 0x40, 0x3e, 0x32],
            Self::InstsSalu => [0x1e, 0x3c, 0x3a, 0x2e],
            Self::InstsSmem => [0x1f, 0x3d, 0x3b, 0x2f],
            Self::InstsLds => [0x22, 0x3b, 0x39, 0x2d],
            // From gfx10 on there are events for textures and flat instructions in its place.
            Self::InstsVmem => [0x1d, 0, 0, 0],
        };
        let number = match generation {
            Generation::Gfx9 => gfx9,
            Generation::Gfx10 => gfx10,
            Generation::Gfx11 => gfx11,
            Generation::Gfx12 => gfx12,
        };
        if number == 0 { None } else { Some(number) }
    }

    /// The event of that number.
    pub fn of(number: u32, generation: Generation) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.number(generation) == Some(number))
    }
}
