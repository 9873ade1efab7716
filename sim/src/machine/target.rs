// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The GPUs that can be simulated. Product facts are those of one real product per target, from
//! AMD's public specifications and AMDGPUUsage "Processors"; machine numbers are `EF_AMDGPU_MACH_*`
//! of AMDGPUUsage "ELF header e_flags". AMD has not published those of gfx1250 yet: its row has round numbers
//! in their place.

use sim_isa::Target;

/// A GPU target and the product that stands for it.
#[derive(Debug)]
pub struct TargetInfo {
    /// Target name, also the HSA agent name.
    pub name: &'static str,
    /// Marketing name.
    pub product: &'static str,
    /// PCI device id.
    pub chip_id: u32,
    /// Compute units.
    pub compute_units: u32,
    /// Lanes of a wave as HSA reports it.
    pub wave_size: u32,
    /// Bytes of device memory.
    pub memory: u64,
    /// Shader engines over all dies.
    pub shader_engines: u32,
    /// Shader arrays in a shader engine.
    pub shader_arrays: u32,
    /// Accelerator dies.
    pub xcc: u32,
    /// Peak clock in MHz.
    pub clock_mhz: u32,
    /// Instruction sets it runs, most specific first: HSA name suffix and ELF machine number.
    pub isas: &'static [(&'static str, u32)],
}

const GIB: u64 = 1 << 30;

static TARGETS: &[TargetInfo] = &[
    TargetInfo {
        name: "gfx906",
        product: "AMD Instinct MI50",
        chip_id: 0x66a1,
        compute_units: 60,
        wave_size: 64,
        memory: 16 * GIB,
        shader_engines: 4,
        shader_arrays: 1,
        xcc: 1,
        clock_mhz: 1725,
        isas: &[("gfx906", 0x2f), ("gfx9-generic", 0x51)],
    },
    TargetInfo {
        name: "gfx908",
        product: "AMD Instinct MI100",
        chip_id: 0x738c,
        compute_units: 120,
        wave_size: 64,
        memory: 32 * GIB,
        shader_engines: 8,
        shader_arrays: 1,
        xcc: 1,
        clock_mhz: 1502,
        isas: &[("gfx908", 0x30)],
    },
    TargetInfo {
        name: "gfx90a",
        product: "AMD Instinct MI250X",
        chip_id: 0x7408,
        compute_units: 110,
        wave_size: 64,
        memory: 64 * GIB,
        shader_engines: 8,
        shader_arrays: 1,
        xcc: 1,
        clock_mhz: 1700,
        isas: &[("gfx90a", 0x3f)],
    },
    TargetInfo {
        name: "gfx942",
        product: "AMD Instinct MI300X",
        chip_id: 0x74a1,
        compute_units: 304,
        wave_size: 64,
        memory: 192 * GIB,
        shader_engines: 32,
        shader_arrays: 1,
        xcc: 8,
        clock_mhz: 2100,
        isas: &[("gfx942", 0x4c), ("gfx9-4-generic", 0x5f)],
    },
    TargetInfo {
        name: "gfx1010",
        product: "AMD Radeon RX 5700 XT",
        chip_id: 0x731f,
        compute_units: 40,
        wave_size: 32,
        memory: 8 * GIB,
        shader_engines: 2,
        shader_arrays: 2,
        xcc: 1,
        clock_mhz: 1905,
        isas: &[("gfx1010", 0x33), ("gfx10-1-generic", 0x52)],
    },
    TargetInfo {
        name: "gfx1030",
        product: "AMD Radeon RX 6900 XT",
        chip_id: 0x73bf,
        compute_units: 80,
        wave_size: 32,
        memory: 16 * GIB,
        shader_engines: 4,
        shader_arrays: 2,
        xcc: 1,
        clock_mhz: 2250,
        isas: &[("gfx1030", 0x36), ("gfx10-3-generic", 0x53)],
    },
    TargetInfo {
        name: "gfx1100",
        product: "AMD Radeon RX 7900 XTX",
        chip_id: 0x744c,
        compute_units: 96,
        wave_size: 32,
        memory: 24 * GIB,
        shader_engines: 6,
        shader_arrays: 2,
        xcc: 1,
        clock_mhz: 2500,
        isas: &[("gfx1100", 0x41), ("gfx11-generic", 0x54)],
    },
    TargetInfo {
        name: "gfx1201",
        product: "AMD Radeon RX 9070 XT",
        chip_id: 0x7550,
        compute_units: 64,
        wave_size: 32,
        memory: 16 * GIB,
        shader_engines: 4,
        shader_arrays: 2,
        xcc: 1,
        clock_mhz: 2970,
        isas: &[("gfx1201", 0x4e), ("gfx12-generic", 0x59)],
    },
    TargetInfo {
        name: "gfx1250",
        product: "AMD gfx1250",
        chip_id: 0,
        compute_units: 256,
        wave_size: 32,
        memory: 256 * GIB,
        shader_engines: 32,
        shader_arrays: 1,
        xcc: 8,
        clock_mhz: 2000,
        isas: &[("gfx1250", 0x49), ("gfx12-5-generic", 0x5b)],
    },
];

impl TargetInfo {
    /// Work-items of a workgroup.
    pub const MAX_WORKGROUP: u32 = 1024;

    /// Bytes of LDS of a workgroup.
    pub fn lds_bytes(&self) -> u32 {
        Target::from_processor(self.name).map_or(0, sim_wave::lds_bytes)
    }

    /// PCI bus, device and function of the `index`-th GPU.
    pub fn bdfid(index: usize) -> u32 {
        ((index as u32 + 1) & 0xff) << 8
    }

    /// A UUID that depends on the target and the index only: `GPU-` and 16 hexadecimal digits.
    pub fn uuid(&self, index: usize) -> String {
        format!("GPU-{:08x}{:08x}", 0x5349_4d00 | index as u32, self.chip_id)
    }
}

/// The target of this name.
pub fn find(name: &str) -> Option<&'static TargetInfo> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The names of all targets, comma-separated.
pub fn names() -> String {
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.join(", ")
}

/// The name of the instruction set with this ELF machine number, if a target here runs it.
pub fn isa_name(machine: u32) -> Option<&'static str> {
    let mut isas = TARGETS.iter().flat_map(|target| target.isas);
    isas.find(|&&(_, number)| number == machine).map(|&(name, _)| name)
}
