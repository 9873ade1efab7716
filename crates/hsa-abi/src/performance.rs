// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Performance counters: blocks, registers (as dword offsets from the first register of all), their fields, and events.
//!
//! Registers and fields are from the kernel driver's `gc_9_4_2`, `gc_10_3_0`, `gc_11_0_0` and `gc_12_0_0` headers.
//! Events have the names and numbers of rocprofiler-sdk's `counter_defs.yaml`; from gfx908 on, the numbers of gfx9
//! differ from the kernel driver's `vega10_enum.h`. Events missing there (waves of 32 and 64 lanes; busy cycles, vector
//! memory and LDS cycles before gfx908; workgroups except on gfx908 to gfx950) are from the kernel driver's
//! `vega10_enum.h`, `navi10_enum.h`, `soc21_enum.h` and `soc24_enum.h`.

use core::ops::Range;

use crate::aqlprofile::AqlProfileBlock;

/// Registers that `SET_SH_REG` writes, which names them by their offset from the first.
pub const SH_REGISTERS: Range<u32> = 0x2c00..0x3000;

/// Registers that `SET_UCONFIG_REG` writes, which names them by their offset from the first.
pub const UCONFIG_REGISTERS: Range<u32> = 0xc000..0x1_0000;

/// Shader register that enables counting of a queue's kernels.
pub const COMPUTE_PERFCOUNT_ENABLE: u32 = 0x2e0b;
/// Selects the parts of a die to write and read.
pub const GRBM_GFX_INDEX: u32 = 0xc200;
/// Low words of results, each followed by the high word.
pub const TA_PERFCOUNTER0_LO: u32 = 0xd2c0;
/// Low words of results, each followed by the high word.
pub const TCP_PERFCOUNTER0_LO: u32 = 0xd340;
/// High words of results, each followed by the low word.
pub const SPI_PERFCOUNTER0_HI: u32 = 0xd180;
/// Low words of results, each followed by the high word.
pub const SQ_PERFCOUNTER0_LO: u32 = 0xd1c0;
/// Resets, starts, stops and samples all counters.
pub const CP_PERFMON_CNTL: u32 = 0xd808;
/// Event of the first counter.
pub const SPI_PERFCOUNTER0_SELECT: u32 = 0xd980;
/// Event of the first counter; others follow.
pub const SQ_PERFCOUNTER0_SELECT: u32 = 0xd9c0;
/// Kinds of shaders to count.
pub const SQ_PERFCOUNTER_CTRL: u32 = 0xd9e0;
/// Parts to count; up to gfx9.
pub const SQ_PERFCOUNTER_MASK: u32 = 0xd9e1;
/// From gfx11 on: virtual machines to count, and [`FORCE_EN`].
pub const SQ_PERFCOUNTER_CTRL2: u32 = 0xd9e2;
/// Event of the first counter. A register of another kind lies between it and the next.
pub const TA_PERFCOUNTER0_SELECT: u32 = 0xdac0;
/// Event of the first counter. Registers of another kind lie between it, the next and the others.
pub const TCP_PERFCOUNTER0_SELECT: u32 = 0xdb40;
/// Enables the clock of counters; up to gfx9.
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
/// The state in which counters count.
pub const PERFMON_START: u32 = 1;
/// The state in which counters keep their values.
pub const PERFMON_STOP: u32 = 2;
/// Samples the current values for reads.
pub const PERFMON_SAMPLE: u32 = 1 << 10;

/// [`SQ_PERFCOUNTER_CTRL`]: compute shaders count.
pub const CS_EN: u32 = 1 << 6;
/// [`SQ_PERFCOUNTER_CTRL2`]: the counters run even if no graphics queue enables them.
pub const FORCE_EN: u32 = 1;

/// Generations of GPUs with different counters.
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
    /// Generation of a processor, e.g. `gfx942`; `None` if its counters are unknown.
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

/// The numberings of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// gfx900 to gfx906.
    Gfx9,
    /// gfx908.
    Gfx908,
    /// gfx90a.
    Gfx90a,
    /// gfx940 to gfx942.
    Gfx940,
    /// gfx950.
    Gfx950,
    /// gfx10.
    Gfx10,
    /// gfx11.
    Gfx11,
    /// gfx12.0.
    Gfx12,
}

impl Numbering {
    /// Numbering of a processor, e.g. `gfx942`; `None` if its events are unknown.
    pub fn of(processor: &str) -> Option<Self> {
        match processor {
            "gfx900" | "gfx902" | "gfx904" | "gfx906" => Some(Self::Gfx9),
            "gfx908" => Some(Self::Gfx908),
            "gfx90a" => Some(Self::Gfx90a),
            "gfx940" | "gfx941" | "gfx942" => Some(Self::Gfx940),
            "gfx950" => Some(Self::Gfx950),
            _ => match Generation::of(processor)? {
                Generation::Gfx9 => None,
                Generation::Gfx10 => Some(Self::Gfx10),
                Generation::Gfx11 => Some(Self::Gfx11),
                Generation::Gfx12 => Some(Self::Gfx12),
            },
        }
    }
}

/// Blocks of the hardware that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Block {
    /// The sequencers of waves.
    Sq,
    /// Launcher of waves on a shader engine.
    Spi,
    /// Texture addresser of each compute unit, the first stage for vector memory addresses; known for gfx9.
    Ta,
    /// Vector cache of each compute unit; known for gfx9.
    Tcp,
}

impl Block {
    /// All blocks.
    pub const ALL: [Self; 4] = [Self::Sq, Self::Spi, Self::Ta, Self::Tcp];

    /// The block of aqlprofile's events.
    pub const fn of_events(self) -> AqlProfileBlock {
        match self {
            Self::Sq => AqlProfileBlock::SQ,
            Self::Spi => AqlProfileBlock::SPI,
            Self::Ta => AqlProfileBlock::TA,
            Self::Tcp => AqlProfileBlock::TCP,
        }
    }

    /// The block of an aqlprofile event; `None` for other blocks.
    pub fn named(block: AqlProfileBlock) -> Option<Self> {
        Self::ALL.into_iter().find(|of| of.of_events() == block)
    }

    /// Name of the block.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sq => "SQ",
            Self::Spi => "SPI",
            Self::Ta => "TA",
            Self::Tcp => "TCP",
        }
    }

    /// The event in its select registers.
    pub const fn perf_sel(self) -> u32 {
        match self {
            Self::Sq => 0x1ff,
            Self::Spi | Self::Tcp => 0x3ff,
            Self::Ta => 0xff,
        }
    }

    /// Instances in a shader engine, each with registers of its own that `GRBM_GFX_INDEX` selects.
    pub const fn instances(self) -> u32 {
        match self {
            Self::Sq | Self::Spi => 1,
            Self::Ta | Self::Tcp => 16,
        }
    }

    /// Counters of the block, as ROCm's aqlprofile uses them.
    pub const fn counters(self) -> u32 {
        match self {
            Self::Sq => 8,
            Self::Spi => 6,
            Self::Ta => 2,
            Self::Tcp => 4,
        }
    }

    /// The register that selects the event of a counter.
    pub fn select(self, generation: Generation, counter: u32) -> u32 {
        match self {
            // Odd ones are of streams of counters.
            Self::Sq if generation >= Generation::Gfx11 => SQ_PERFCOUNTER0_SELECT + 2 * counter,
            Self::Sq => SQ_PERFCOUNTER0_SELECT + counter,
            // Other registers of the first four are between.
            Self::Spi if generation < Generation::Gfx12 && counter >= 4 => SPI_PERFCOUNTER0_SELECT + 4 + counter,
            Self::Spi => SPI_PERFCOUNTER0_SELECT + counter,
            Self::Ta => TA_PERFCOUNTER0_SELECT + 2 * counter,
            Self::Tcp => TCP_PERFCOUNTER0_SELECT + if counter < 3 { 2 * counter } else { 5 },
        }
    }

    /// The registers of a counter's value: of the lower word, and of the upper one if there is one.
    pub fn result(self, generation: Generation, counter: u32) -> (u32, Option<u32>) {
        match self {
            Self::Sq => {
                let low = SQ_PERFCOUNTER0_LO + 2 * counter;
                (low, (generation < Generation::Gfx11).then_some(low + 1))
            }
            Self::Spi => {
                let high = SPI_PERFCOUNTER0_HI + 2 * counter;
                (high + 1, Some(high))
            }
            Self::Ta => (TA_PERFCOUNTER0_LO + 2 * counter, Some(TA_PERFCOUNTER0_LO + 2 * counter + 1)),
            Self::Tcp => (TCP_PERFCOUNTER0_LO + 2 * counter, Some(TCP_PERFCOUNTER0_LO + 2 * counter + 1)),
        }
    }
}

/// An event that blocks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfEvent {
    /// Clock cycles with waves.
    BusyCycles,
    /// Waves launched.
    Waves,
    /// Waves of 32 lanes.
    Waves32,
    /// Waves of 64 lanes.
    Waves64,
    /// Vector ALU instructions.
    InstsValu,
    /// Scalar ALU instructions.
    InstsSalu,
    /// Scalar memory instructions.
    InstsSmem,
    /// Instructions of the local data share.
    InstsLds,
    /// Vector memory instructions.
    InstsVmem,
    /// Vector memory instructions that read.
    InstsVmemRd,
    /// Vector memory instructions that write.
    InstsVmemWr,
    /// Flat instructions.
    InstsFlat,
    /// Vector memory instructions that load by the texture unit.
    InstsTexLoad,
    /// Vector memory instructions that store by the texture unit.
    InstsTexStore,
    /// Clock cycles of all waves.
    WaveCycles,
    /// Clock cycles in which LDS is used with addresses of lanes; up to gfx9.
    LdsIdxActive,
    /// Clock cycles in which LDS waits because lanes access different dwords of a bank; up to gfx9.
    LdsBankConflict,
    /// Clock cycles in which LDS is used with addresses of lanes; from gfx10 on.
    SqcLdsIdxActive,
    /// Clock cycles in which LDS waits because lanes access different dwords of a bank; from gfx10 on.
    SqcLdsBankConflict,
    /// Workgroups launched.
    Threadgroups,
    /// Loads of flat, global and scratch addresses, by waves.
    FlatReadWavefronts,
    /// Stores to flat, global and scratch addresses, by waves.
    FlatWriteWavefronts,
    /// Loads of buffers.
    BufferReadWavefronts,
    /// Stores to buffers.
    BufferWriteWavefronts,
    /// Accesses of cache lines.
    TotalCacheAccesses,
}

impl PerfEvent {
    /// All events.
    pub const ALL: [Self; 25] = [
        Self::BusyCycles,
        Self::Waves,
        Self::Waves32,
        Self::Waves64,
        Self::InstsValu,
        Self::InstsSalu,
        Self::InstsSmem,
        Self::InstsLds,
        Self::InstsVmem,
        Self::InstsVmemRd,
        Self::InstsVmemWr,
        Self::InstsFlat,
        Self::InstsTexLoad,
        Self::InstsTexStore,
        Self::WaveCycles,
        Self::LdsIdxActive,
        Self::LdsBankConflict,
        Self::SqcLdsIdxActive,
        Self::SqcLdsBankConflict,
        Self::Threadgroups,
        Self::FlatReadWavefronts,
        Self::FlatWriteWavefronts,
        Self::BufferReadWavefronts,
        Self::BufferWriteWavefronts,
        Self::TotalCacheAccesses,
    ];

    /// The block that counts the event.
    pub fn block(self) -> Block {
        match self {
            Self::Threadgroups => Block::Spi,
            Self::FlatReadWavefronts
            | Self::FlatWriteWavefronts
            | Self::BufferReadWavefronts
            | Self::BufferWriteWavefronts => Block::Ta,
            Self::TotalCacheAccesses => Block::Tcp,
            _ => Block::Sq,
        }
    }

    /// The number of the event in select registers; none if the processor does not have it.
    pub fn number(self, numbering: Numbering) -> Option<u32> {
        // By processors in their order; 0 is none.
        let numbers: [u32; 8] = match self {
            Self::BusyCycles => [3; 8],
            Self::Waves => [4; 8],
            Self::Waves32 => [0, 0, 0, 0, 0, 5, 5, 5],
            Self::Waves64 => [0, 0, 0, 0, 0, 6, 6, 6],
            Self::InstsValu => [26, 26, 26, 26, 26, 64, 62, 50],
            Self::InstsSalu => [30, 31, 56, 60, 62, 60, 58, 46],
            Self::InstsSmem => [31, 32, 57, 61, 63, 61, 59, 47],
            Self::InstsLds => [34, 35, 60, 65, 67, 59, 57, 45],
            // From gfx10 on there are events for textures and flat instructions in its place. That of gfx906 is not
            // among ROCm's counters; the kernel driver has it.
            Self::InstsVmem => [29, 30, 55, 59, 61, 0, 0, 0],
            Self::InstsVmemRd => [28, 29, 54, 58, 60, 0, 0, 0],
            Self::InstsVmemWr => [27, 28, 53, 57, 59, 0, 0, 0],
            Self::InstsFlat => [32, 33, 58, 62, 64, 57, 56, 44],
            Self::InstsTexLoad => [0, 0, 0, 0, 0, 0, 66, 54],
            Self::InstsTexStore => [0, 0, 0, 0, 0, 0, 67, 55],
            Self::WaveCycles => [0, 47, 74, 79, 95, 26, 24, 24],
            Self::LdsIdxActive => [98, 99, 126, 131, 147, 0, 0, 0],
            Self::LdsBankConflict => [93, 94, 121, 126, 142, 0, 0, 0],
            Self::SqcLdsIdxActive => [0, 0, 0, 0, 0, 290, 261, 293],
            Self::SqcLdsBankConflict => [0, 0, 0, 0, 0, 285, 256, 288],
            Self::Threadgroups => [65, 49, 49, 49, 49, 49, 46, 47],
            Self::FlatReadWavefronts => [101, 101, 101, 52, 52, 0, 0, 0],
            Self::FlatWriteWavefronts => [102, 102, 102, 53, 53, 0, 0, 0],
            Self::BufferReadWavefronts => [0, 45, 45, 33, 33, 0, 0, 0],
            Self::BufferWriteWavefronts => [0, 46, 46, 34, 34, 0, 0, 0],
            Self::TotalCacheAccesses => [0, 60, 60, 60, 58, 0, 0, 0],
        };
        Some(numbers[numbering as usize]).filter(|number| *number != 0)
    }

    /// The event with this number in a block.
    pub fn of(block: Block, number: u32, numbering: Numbering) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.block() == block && event.number(numbering) == Some(number))
    }

    /// True if public documents define the event, as the software GPU requires. They do not define if atomics read or
    /// write, nor which instructions the texture unit executes.
    pub fn is_documented(self) -> bool {
        use PerfEvent::*;
        !matches!(self, InstsVmemRd | InstsVmemWr | InstsFlat | InstsTexLoad | InstsTexStore | WaveCycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_event_that_select_registers_have_bits_for() {
        use Numbering::*;
        for numbering in [Gfx9, Gfx908, Gfx90a, Gfx940, Gfx950, Gfx10, Gfx11, Gfx12] {
            for event in PerfEvent::ALL {
                let Some(number) = event.number(numbering) else { continue };
                assert_eq!(PerfEvent::of(event.block(), number, numbering), Some(event), "{numbering:?}");
                assert_eq!(number & !event.block().perf_sel(), 0, "{event:?}");
            }
        }
    }
}
