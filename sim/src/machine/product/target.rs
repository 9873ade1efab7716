// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The GPUs that can be simulated. The properties of a product are those in `rocminfo`'s output in public reports to
//! AMD's projects: names (from libdrm's `amdgpu.ids`), chip, revision, clocks, caches, memory less the kernel driver's
//! reserve, and presence of a unique id. Unreported revisions are 0. Unreported caches, clocks and memory are those of
//! AMD's specifications, as are shader engines and dies, with AMDGPUUsage "Processors"; machine numbers are
//! `EF_AMDGPU_MACH_*` of AMDGPUUsage "ELF header e_flags". AMD has not published the properties of gfx1250 yet: its row
//! has round numbers in their place.
//!
//! The first row of a name is the product that the name alone stands for. Rows with the same instruction set are
//! written as the difference to one of them.

use hsa_abi::{
    HSA_GLOBAL_FLAG_COARSE_GRAINED as COARSE, HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED as EXTENDED,
    HSA_GLOBAL_FLAG_FINE_GRAINED as FINE,
};
use sim_isa::Target;

use crate::machine::product::rocr::Release;

/// A GPU target and the product that represents it.
#[derive(Debug)]
pub struct TargetInfo {
    /// Target name, also the HSA agent name.
    pub name: &'static str,
    /// Marketing name.
    pub product: &'static str,
    /// PCI device id.
    pub chip_id: u32,
    /// Revision of the chip.
    pub asic_revision: u32,
    /// True if the hardware has a unique id. ROCR gives others the UUID `GPU-XX`.
    pub has_unique_id: bool,
    /// Compute units.
    pub compute_units: u32,
    /// Lanes of a wave as HSA reports it.
    pub wave_size: u32,
    /// SIMD units of a compute unit.
    pub simds: u32,
    /// Maximum number of waves of a SIMD unit.
    pub waves_per_simd: u32,
    /// Sizes of the data caches in bytes, level 1 first.
    pub caches: &'static [u32],
    /// Size of a line of the level 2 cache in bytes.
    pub cacheline: u32,
    /// Size of device memory in bytes; of an APU, memory that the firmware sets aside, of which `memory=own` makes use.
    pub memory: u64,
    /// True if it is part of a processor, and its memory is the host's.
    pub is_apu: bool,
    /// Flags of the global memory pools, in ROCR's order: `HSA_GLOBAL_FLAG_*`. ROCR gives every GPU a coarse-grained
    /// pool, all but gfx12.0 one that is fine-grained in extended scope, and GPUs of an XGMI hive a fine-grained one
    /// (`GpuAgent::InitRegionList`).
    pub pools: &'static [u32],
    /// Shader engines over all dies.
    pub shader_engines: u32,
    /// Shader arrays in a shader engine.
    pub shader_arrays: u32,
    /// Accelerator dies.
    pub xcc: u32,
    /// Peak clock in MHz.
    pub clock_mhz: u32,
    /// Width of the memory interface in bits, and its clock in MHz.
    pub memory_interface: (u32, u32),
    /// Supported instruction sets, most specific first: target id, with features in the defaults of the product's
    /// driver, and ELF machine number.
    pub isas: &'static [(&'static str, u32)],
}

const KIB: u32 = 1 << 10;
const GIB: u64 = 1 << 30;
/// Memory that the kernel driver reserves on most GPUs, in bytes.
const KEPT: u64 = 16 << 20;

const GFX906: TargetInfo = TargetInfo {
    name: "gfx906",
    product: "AMD Instinct MI60 / MI50",
    chip_id: 0x66a1,
    asic_revision: 1,
    has_unique_id: true,
    compute_units: 60,
    wave_size: 64,
    simds: 4,
    waves_per_simd: 10,
    caches: &[16 * KIB, 8192 * KIB],
    cacheline: 64,
    memory: 16 * GIB - KEPT,
    is_apu: false,
    pools: &[COARSE, EXTENDED],
    shader_engines: 4,
    shader_arrays: 1,
    xcc: 1,
    clock_mhz: 1725,
    memory_interface: (4096, 1000),
    isas: &[("gfx906:sramecc+:xnack-", 0x2f), ("gfx9-generic:xnack-", 0x51)],
};

const GFX90A: TargetInfo = TargetInfo {
    name: "gfx90a",
    product: "AMD Instinct MI250X",
    chip_id: 0x7408,
    asic_revision: 1,
    has_unique_id: true,
    compute_units: 110,
    wave_size: 64,
    simds: 4,
    waves_per_simd: 8,
    caches: &[16 * KIB, 8192 * KIB],
    cacheline: 128,
    memory: 64 * GIB - KEPT,
    is_apu: false,
    pools: &[COARSE, EXTENDED, FINE],
    shader_engines: 8,
    shader_arrays: 1,
    xcc: 1,
    clock_mhz: 1700,
    memory_interface: (4096, 1600),
    isas: &[("gfx90a:sramecc+:xnack-", 0x3f)],
};

const GFX942: TargetInfo = TargetInfo {
    name: "gfx942",
    product: "AMD Instinct MI300X",
    chip_id: 0x74a1,
    asic_revision: 1,
    has_unique_id: true,
    compute_units: 304,
    wave_size: 64,
    simds: 4,
    waves_per_simd: 8,
    caches: &[32 * KIB, 4096 * KIB, 262144 * KIB],
    cacheline: 128,
    memory: 0xbfb_0000 * KIB as u64,
    is_apu: false,
    pools: &[COARSE, EXTENDED, FINE],
    shader_engines: 32,
    shader_arrays: 1,
    xcc: 8,
    clock_mhz: 2100,
    memory_interface: (8192, 1300),
    isas: &[("gfx942:sramecc+:xnack-", 0x4c), ("gfx9-4-generic:sramecc+:xnack-", 0x5f)],
};

const GFX950: TargetInfo = TargetInfo {
    name: "gfx950",
    product: "AMD Instinct MI355X",
    chip_id: 0x75a3,
    asic_revision: 0,
    has_unique_id: true,
    compute_units: 256,
    wave_size: 64,
    simds: 4,
    waves_per_simd: 8,
    caches: &[32 * KIB, 4096 * KIB, 262144 * KIB],
    cacheline: 128,
    memory: 288 * GIB - KEPT,
    is_apu: false,
    pools: &[COARSE, EXTENDED, FINE],
    shader_engines: 32,
    shader_arrays: 1,
    xcc: 8,
    clock_mhz: 2400,
    memory_interface: (8192, 2000),
    isas: &[("gfx950:sramecc+:xnack-", 0x4f), ("gfx9-4-generic:sramecc+:xnack-", 0x5f)],
};

const GFX1030: TargetInfo = TargetInfo {
    name: "gfx1030",
    product: "AMD Radeon RX 6900 XT",
    chip_id: 0x73bf,
    asic_revision: 0,
    has_unique_id: true,
    compute_units: 80,
    wave_size: 32,
    simds: 2,
    waves_per_simd: 16,
    caches: &[16 * KIB, 4096 * KIB, 131072 * KIB],
    cacheline: 128,
    memory: 16 * GIB - KEPT,
    is_apu: false,
    pools: &[COARSE, EXTENDED],
    shader_engines: 4,
    shader_arrays: 2,
    xcc: 1,
    clock_mhz: 2250,
    memory_interface: (256, 1000),
    isas: &[("gfx1030", 0x36), ("gfx10-3-generic", 0x53)],
};

const GFX1100: TargetInfo = TargetInfo {
    name: "gfx1100",
    product: "AMD Radeon RX 7900 XTX",
    chip_id: 0x744c,
    asic_revision: 0,
    has_unique_id: true,
    compute_units: 96,
    wave_size: 32,
    simds: 2,
    waves_per_simd: 16,
    caches: &[32 * KIB, 6144 * KIB, 98304 * KIB],
    cacheline: 128,
    memory: 24 * GIB - KEPT,
    is_apu: false,
    pools: &[COARSE, EXTENDED],
    shader_engines: 6,
    shader_arrays: 2,
    xcc: 1,
    clock_mhz: 2526,
    memory_interface: (384, 1249),
    isas: &[("gfx1100", 0x41), ("gfx11-generic", 0x54)],
};

const GFX1201: TargetInfo = TargetInfo {
    name: "gfx1201",
    product: "AMD Radeon RX 9070 XT",
    chip_id: 0x7550,
    asic_revision: 1,
    has_unique_id: true,
    compute_units: 64,
    wave_size: 32,
    simds: 2,
    waves_per_simd: 16,
    caches: &[32 * KIB, 8192 * KIB, 65536 * KIB],
    cacheline: 256,
    memory: 0xfe_c000 * KIB as u64,
    is_apu: false,
    pools: &[COARSE],
    shader_engines: 4,
    shader_arrays: 2,
    xcc: 1,
    clock_mhz: 2570,
    memory_interface: (256, 1258),
    isas: &[("gfx1201", 0x4e), ("gfx12-generic", 0x59)],
};

const GFX1150: TargetInfo = TargetInfo {
    name: "gfx1150",
    product: "AMD Radeon 890M",
    chip_id: 0x150e,
    asic_revision: 4,
    has_unique_id: false,
    compute_units: 16,
    caches: &[32 * KIB, 2048 * KIB],
    memory: SET_ASIDE,
    is_apu: true,
    shader_engines: 1,
    clock_mhz: 2900,
    memory_interface: (128, 1000),
    isas: &[("gfx1150", 0x43), ("gfx11-generic", 0x54)],
    ..GFX1100
};

/// Memory that firmware sets aside for most APUs, in bytes.
const SET_ASIDE: u64 = 1 << 30;

static TARGETS: &[TargetInfo] = &[
    GFX906,
    TargetInfo {
        name: "gfx90c",
        product: "AMD Radeon Graphics",
        chip_id: 0x1638,
        has_unique_id: false,
        compute_units: 8,
        caches: &[16 * KIB, 1024 * KIB],
        memory: SET_ASIDE,
        is_apu: true,
        shader_engines: 1,
        clock_mhz: 2000,
        memory_interface: (128, 1600),
        isas: &[("gfx90c:xnack-", 0x32), ("gfx9-generic:xnack-", 0x51)],
        ..GFX906
    },
    TargetInfo {
        name: "gfx908",
        product: "AMD Instinct MI100",
        chip_id: 0x738c,
        asic_revision: 0,
        has_unique_id: true,
        compute_units: 120,
        wave_size: 64,
        simds: 4,
        waves_per_simd: 10,
        caches: &[16 * KIB, 8192 * KIB],
        cacheline: 64,
        memory: 32 * GIB - KEPT,
        is_apu: false,
        pools: &[COARSE, EXTENDED],
        shader_engines: 8,
        shader_arrays: 1,
        xcc: 1,
        clock_mhz: 1502,
        memory_interface: (4096, 1200),
        isas: &[("gfx908:sramecc+:xnack-", 0x30)],
    },
    GFX90A,
    // Of few reports; without a bridge there is no hive.
    TargetInfo {
        product: "AMD Instinct MI210",
        chip_id: 0x740f,
        compute_units: 104,
        pools: &[COARSE, EXTENDED],
        ..GFX90A
    },
    TargetInfo { product: "AMD Instinct MI250", chip_id: 0x740c, compute_units: 104, ..GFX90A },
    GFX942,
    TargetInfo {
        product: "AMD Instinct MI300A",
        chip_id: 0x74a0,
        compute_units: 228,
        memory: 128 * GIB,
        is_apu: true,
        shader_engines: 24,
        xcc: 6,
        ..GFX942
    },
    TargetInfo { product: "AMD Instinct MI325X", chip_id: 0x74a5, memory: 256 * GIB - KEPT, ..GFX942 },
    GFX950,
    TargetInfo { product: "AMD Instinct MI350X", chip_id: 0x75a0, clock_mhz: 2200, ..GFX950 },
    TargetInfo {
        name: "gfx1010",
        product: "AMD Radeon RX 5700 XT",
        chip_id: 0x731f,
        asic_revision: 0,
        has_unique_id: false,
        compute_units: 40,
        wave_size: 32,
        simds: 2,
        waves_per_simd: 20,
        caches: &[16 * KIB, 4096 * KIB],
        cacheline: 128,
        memory: 8 * GIB - KEPT,
        is_apu: false,
        pools: &[COARSE, EXTENDED],
        shader_engines: 2,
        shader_arrays: 2,
        xcc: 1,
        clock_mhz: 2100,
        memory_interface: (256, 875),
        isas: &[("gfx1010:xnack-", 0x33), ("gfx10-1-generic:xnack-", 0x52)],
    },
    GFX1030,
    TargetInfo { product: "AMD Radeon RX 6800", compute_units: 60, shader_engines: 3, clock_mhz: 2105, ..GFX1030 },
    TargetInfo {
        name: "gfx1031",
        product: "AMD Radeon RX 6700 XT",
        chip_id: 0x73df,
        has_unique_id: false,
        compute_units: 40,
        caches: &[16 * KIB, 3072 * KIB, 98304 * KIB],
        memory: 12 * GIB - KEPT,
        shader_engines: 2,
        clock_mhz: 2855,
        memory_interface: (192, 1000),
        isas: &[("gfx1031", 0x37), ("gfx10-3-generic", 0x53)],
        ..GFX1030
    },
    TargetInfo {
        name: "gfx1032",
        product: "AMD Radeon RX 6600 XT",
        chip_id: 0x73ff,
        has_unique_id: false,
        compute_units: 32,
        caches: &[16 * KIB, 2048 * KIB, 32768 * KIB],
        memory: 8 * GIB - KEPT,
        shader_engines: 2,
        clock_mhz: 2900,
        memory_interface: (128, 1000),
        isas: &[("gfx1032", 0x38), ("gfx10-3-generic", 0x53)],
        ..GFX1030
    },
    TargetInfo {
        name: "gfx1035",
        product: "AMD Radeon 680M",
        chip_id: 0x1681,
        has_unique_id: false,
        compute_units: 12,
        caches: &[16 * KIB, 2048 * KIB],
        memory: SET_ASIDE,
        is_apu: true,
        shader_engines: 1,
        clock_mhz: 2200,
        memory_interface: (128, 2400),
        isas: &[("gfx1035", 0x3d), ("gfx10-3-generic", 0x53)],
        ..GFX1030
    },
    TargetInfo {
        name: "gfx1036",
        product: "AMD Radeon Graphics",
        chip_id: 0x164e,
        has_unique_id: false,
        compute_units: 2,
        caches: &[16 * KIB, 256 * KIB],
        memory: SET_ASIDE,
        is_apu: true,
        shader_engines: 1,
        shader_arrays: 1,
        clock_mhz: 2200,
        memory_interface: (128, 2400),
        isas: &[("gfx1036", 0x45), ("gfx10-3-generic", 0x53)],
        ..GFX1030
    },
    GFX1100,
    TargetInfo {
        product: "AMD Radeon RX 7900 XT",
        compute_units: 84,
        caches: &[32 * KIB, 6144 * KIB, 81920 * KIB],
        memory: 20 * GIB - KEPT,
        clock_mhz: 2400,
        memory_interface: (128, 2400),
        ..GFX1100
    },
    TargetInfo {
        product: "AMD Radeon PRO W7900",
        chip_id: 0x7448,
        memory: 48 * GIB - KEPT,
        clock_mhz: 1760,
        memory_interface: (128, 2400),
        ..GFX1100
    },
    TargetInfo {
        name: "gfx1101",
        product: "AMD Radeon RX 7800 XT",
        chip_id: 0x747e,
        compute_units: 60,
        caches: &[32 * KIB, 4096 * KIB, 65536 * KIB],
        memory: 16 * GIB - KEPT,
        shader_engines: 3,
        clock_mhz: 2254,
        memory_interface: (256, 1219),
        isas: &[("gfx1101", 0x46), ("gfx11-generic", 0x54)],
        ..GFX1100
    },
    TargetInfo {
        name: "gfx1102",
        product: "AMD Radeon RX 7600",
        chip_id: 0x7480,
        compute_units: 32,
        caches: &[32 * KIB, 2048 * KIB, 32768 * KIB],
        memory: 8 * GIB - KEPT,
        shader_engines: 2,
        clock_mhz: 2655,
        memory_interface: (128, 1125),
        isas: &[("gfx1102", 0x47), ("gfx11-generic", 0x54)],
        ..GFX1100
    },
    TargetInfo {
        name: "gfx1103",
        product: "AMD Radeon 780M",
        chip_id: 0x15bf,
        asic_revision: 9,
        compute_units: 12,
        clock_mhz: 2700,
        memory_interface: (128, 2800),
        isas: &[("gfx1103", 0x44), ("gfx11-generic", 0x54)],
        ..GFX1150
    },
    GFX1150,
    TargetInfo {
        name: "gfx1151",
        product: "AMD Radeon 8060S",
        chip_id: 0x1586,
        asic_revision: 0,
        compute_units: 40,
        caches: &[32 * KIB, 2048 * KIB, 32768 * KIB],
        memory: 96 * GIB,
        shader_engines: 2,
        isas: &[("gfx1151", 0x4a), ("gfx11-generic", 0x54)],
        ..GFX1150
    },
    TargetInfo {
        name: "gfx1152",
        product: "AMD Radeon 860M",
        chip_id: 0x1114,
        asic_revision: 0,
        compute_units: 8,
        shader_arrays: 1,
        clock_mhz: 3000,
        memory_interface: (128, 1000),
        isas: &[("gfx1152", 0x55), ("gfx11-generic", 0x54)],
        ..GFX1150
    },
    TargetInfo {
        name: "gfx1200",
        product: "AMD Radeon RX 9060 XT",
        chip_id: 0x7590,
        compute_units: 32,
        caches: &[32 * KIB, 4096 * KIB, 32768 * KIB],
        memory: 16 * GIB - KEPT,
        shader_engines: 2,
        clock_mhz: 2740,
        memory_interface: (128, 1258),
        isas: &[("gfx1200", 0x48), ("gfx12-generic", 0x59)],
        ..GFX1201
    },
    GFX1201,
    TargetInfo { product: "AMD Radeon RX 9070", compute_units: 56, clock_mhz: 2520, ..GFX1201 },
    TargetInfo {
        product: "AMD Radeon AI PRO R9700",
        chip_id: 0x7551,
        memory: 32 * GIB - KEPT,
        clock_mhz: 2920,
        memory_interface: (128, 1258),
        ..GFX1201
    },
    TargetInfo {
        name: "gfx1250",
        product: "AMD gfx1250",
        chip_id: 0,
        asic_revision: 0,
        has_unique_id: true,
        compute_units: 256,
        wave_size: 32,
        simds: 4,
        waves_per_simd: 8,
        caches: &[32 * KIB, 4096 * KIB],
        cacheline: 128,
        memory: 256 * GIB,
        is_apu: false,
        pools: &[COARSE, EXTENDED, FINE],
        shader_engines: 32,
        shader_arrays: 1,
        xcc: 8,
        clock_mhz: 2000,
        memory_interface: (8192, 2000),
        isas: &[("gfx1250", 0x49), ("gfx12-5-generic", 0x5b)],
    },
];

impl TargetInfo {
    /// Maximum number of work-items of a workgroup.
    pub const MAX_WORKGROUP: u32 = sim_wave::MAX_WORKGROUP;

    /// Maximum LDS of a workgroup in bytes.
    pub fn lds_bytes(&self) -> u32 {
        Target::from_processor(self.name).map_or(0, sim_wave::lds_bytes)
    }

    /// The first release whose kernel driver has cooperative queues for it, if any has. The driver gives gfx10.1 none,
    /// and gfx12, whose hardware has no global wave sync, since 2025-02 (`kfd_gws_init`).
    pub fn cooperative_since(&self) -> Option<Release> {
        match Target::from_processor(self.name)? {
            Target::Gfx1010 => None,
            target if target.is_gfx12() => Some(Release::Rocm7_0),
            _ => Some(Release::Rocm6_2),
        }
    }

    /// The unique id of the `device`-th GPU on the PCI bus; 0 if the hardware has none.
    pub fn unique_id(&self, device: usize) -> u64 {
        if self.has_unique_id { (0x5349_4d00 | device as u64) << 32 | u64::from(self.chip_id) } else { 0 }
    }

    /// The UUID of the `device`-th GPU on the PCI bus, in ROCR's form.
    pub fn uuid(&self, device: usize) -> String {
        match self.unique_id(device) {
            0 => "GPU-XX".to_owned(),
            id => format!("GPU-{id:016x}"),
        }
    }

    /// The product's name in settings: without `AMD Radeon`, `AMD Instinct` and spaces, e.g. `rx7900xt`.
    pub fn model(&self) -> String {
        let name = self.product.trim_start_matches("AMD ");
        let name = name.trim_start_matches("Radeon ").trim_start_matches("Instinct ");
        name.replace(' ', "").to_lowercase()
    }

    /// True if XGMI links it with others of its kind.
    pub fn in_hive(&self) -> bool {
        self.pools.contains(&FINE)
    }
}

/// The products of this name; the name alone stands for the first.
pub fn products(name: &str) -> impl Iterator<Item = &'static TargetInfo> {
    TARGETS.iter().filter(move |target| target.name == name)
}

/// The target of this name.
pub fn find(name: &str) -> Option<&'static TargetInfo> {
    products(name).next()
}

/// The names of all targets.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.dedup();
    names
}

/// The name of the instruction set with this ELF machine number, if a target here runs it.
pub fn isa_name(machine: u32) -> Option<&'static str> {
    let mut isas = TARGETS.iter().flat_map(|target| target.isas);
    isas.find(|&&(_, number)| number == machine).map(|&(name, _)| name)
}
