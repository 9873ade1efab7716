// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The nodes: 0 is the CPU with the system's memory. GPUs follow, each connected to all others by PCI Express.

use hsa_runtime64::machine::agent::Agent;
use hsa_runtime64::machine::memory::allocation::PAGE;
use hsa_runtime64::machine::product::gpu::Gpu;
use sim_wave::{PRIVATE_APERTURE, SHARED_APERTURE};

use super::abi::*;
use super::{Kfd, guard, kfd, put};

const VENDOR_AMD: u16 = 0x1002;
/// Doorbell type of a GPU: 64 bits with the packet's id.
const DOORBELL_AQL: u32 = 2;
/// First minor number of Linux's render nodes.
const FIRST_RENDER_MINOR: i32 = 128;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtAcquireSystemProperties(properties: *mut SystemProperties) -> Status {
    guard(|| {
        let nodes = kfd()?.machine.agents.len() as u32;
        // SAFETY: `properties` is null or the caller's place for the result.
        unsafe { put(properties, SystemProperties { nodes, platform: [0; 3] }) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtReleaseSystemProperties() -> Status {
    Status::SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtGetNodeProperties(node: u32, properties: *mut NodeProperties) -> Status {
    guard(|| {
        let kfd = kfd()?;
        let agent = kfd.node(node)?;
        let mut found = match &agent.gpu {
            None => cpu_properties(),
            Some(gpu) => gpu_properties(gpu, agent.index.0 - 1, agent.memory),
        };
        found.memory_banks = banks(agent, 0).len() as u32;
        found.caches = caches(agent).len() as u32;
        found.io_links = links(&kfd, agent).len() as u32;
        // SAFETY: `properties` is null or the caller's place for the result.
        unsafe { put(properties, found) }
    })
}

fn cpu_properties() -> NodeProperties {
    // SAFETY: the structure is made of integers.
    let zero: NodeProperties = unsafe { std::mem::zeroed() };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    NodeProperties { cpu_cores: cores, marketing_name: wide("CPU"), ..zero }
}

fn gpu_properties(gpu: &Gpu, index: usize, memory: u64) -> NodeProperties {
    let target = gpu.target;
    let arrays = target.shader_engines * target.shader_arrays;
    // ECC of the on-chip memories is always on where the product has no switch.
    let edc = if matches!(target.name, "gfx908" | "gfx90a" | "gfx942" | "gfx950") { CAP_SRAM_EDC } else { 0 };
    let mut amd_name = [0; 64];
    amd_name[..target.name.len()].copy_from_slice(target.name.as_bytes());
    NodeProperties {
        simds: gpu.compute_units * target.simds,
        simd_id_low: 0x8000_0000 | (index as u32) << 16,
        capability: CAP_QUEUE_SIZE_POWER_OF_TWO | CAP_QUEUE_SIZE_32BIT | DOORBELL_AQL << CAP_DOORBELL_TYPE | edc,
        waves_per_simd: target.waves_per_simd,
        lds_kib: target.lds_bytes() / 1024,
        wave_size: target.wave_size,
        shader_banks: arrays,
        arrays: target.shader_arrays,
        cu_per_array: gpu.compute_units.div_ceil(arrays),
        simd_per_cu: target.simds,
        scratch_slots_per_cu: 32,
        engine_id: engine_id(target.name),
        vendor_id: VENDOR_AMD,
        device_id: target.chip_id as u16,
        location_id: gpu.location_id(),
        local_memory: memory,
        clock_mhz: target.clock_mhz,
        drm_render_minor: FIRST_RENDER_MINOR + index as i32,
        marketing_name: wide(target.product),
        amd_name,
        compute_queues: 24,
        gws: if target.cooperative_since().is_some() { 64 } else { 0 },
        unique_id: target.unique_id(gpu.device),
        ..cpu_less()
    }
}

fn cpu_less() -> NodeProperties {
    NodeProperties { cpu_cores: 0, ..cpu_properties() }
}

/// Major, minor and stepping of `gfx90a` (9.0.10) or `gfx1030` (10.3.0): the last two digits are
/// hexadecimal, those before them decimal.
fn engine_id(name: &str) -> u32 {
    let digits = name.trim_start_matches("gfx");
    let (major, rest) = digits.split_at(digits.len() - 2);
    let number = u32::from_str_radix(rest, 16).unwrap_or(0);
    major.parse::<u32>().unwrap_or(0) << 10 | (number >> 4) << 16 | (number & 15) << 24
}

fn wide(name: &str) -> [u16; 64] {
    let mut wide = [0; 64];
    wide.iter_mut().zip(name.encode_utf16().take(63)).for_each(|(to, from)| *to = from);
    wide
}

/// Heap type of a GPU's memory, which depends on host access.
fn frame_buffer(gpu: &Gpu) -> u32 {
    if gpu.is_host_visible() { HEAP_FRAME_BUFFER_PUBLIC } else { HEAP_FRAME_BUFFER_PRIVATE }
}

/// Memory banks of an agent. The registers that flush host writes are at `mmio`.
fn banks(agent: &Agent, mmio: u64) -> Vec<MemoryProperties> {
    let bank = |heap, size, virtual_base| MemoryProperties { heap, size, virtual_base, ..Default::default() };
    match &agent.gpu {
        None => vec![bank(HEAP_SYSTEM, agent.memory, 0)],
        Some(gpu) => vec![
            MemoryProperties { width: 256, clock_mhz: 1000, ..bank(frame_buffer(gpu), agent.memory, 0) },
            bank(HEAP_LDS, u64::from(gpu.target.lds_bytes()), u64::from(SHARED_APERTURE) << 32),
            bank(HEAP_SCRATCH, 1 << 32, u64::from(PRIVATE_APERTURE) << 32),
            bank(HEAP_MMIO_REMAP, PAGE as u64, mmio),
        ],
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtGetNodeMemoryProperties(
    node: u32,
    count: u32,
    properties: *mut MemoryProperties,
) -> Status {
    guard(|| {
        let kfd = kfd()?;
        let agent = kfd.node(node)?;
        let mmio = if agent.gpu.is_some() { kfd.buffers.mmio(agent.index)? } else { 0 };
        // SAFETY: `properties` of the caller's has room for `count`.
        unsafe { put_all(properties, count, &banks(agent, mmio)) }
    })
}

/// Caches of an agent that HSA reports; two typical ones for a CPU core.
fn caches(agent: &Agent) -> Vec<CacheProperties> {
    let (processor_id_low, of) = if agent.gpu.is_some() { (0x8000_0000, CACHE_GPU) } else { (0, CACHE_CPU) };
    let cache = |level, kib| CacheProperties {
        processor_id_low,
        level,
        kib,
        line: agent.target().map_or(64, |target| target.cacheline),
        lines_per_tag: 1,
        associativity: 16,
        latency: 0,
        kind: CACHE_DATA | of,
        siblings: [0; 256],
    };
    let sizes = agent.target().map_or(&[32 << 10, 4 << 20][..], |target| target.caches);
    (1..).zip(sizes).map(|(level, bytes)| cache(level, bytes >> 10)).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtGetNodeCacheProperties(
    node: u32,
    _processor: u32,
    count: u32,
    properties: *mut CacheProperties,
) -> Status {
    guard(|| {
        let kfd = kfd()?;
        // SAFETY: `properties` of the caller's has room for `count`.
        unsafe { put_all(properties, count, &caches(kfd.node(node)?)) }
    })
}

/// One link to each other node whose memory the agent can access. The weight is 20 through one PCIe root and 40 through
/// two, as in the Linux driver.
fn links(kfd: &Kfd, agent: &Agent) -> Vec<IoLinkProperties> {
    let others = kfd.machine.agents.iter().filter(|other| other.index != agent.index && agent.is_linked_to(other));
    let link = |other: &Agent| IoLinkProperties {
        kind: LINK_PCIE,
        from: agent.index.0 as u32,
        to: other.index.0 as u32,
        weight: if agent.gpu.is_some() && other.gpu.is_some() { 40 } else { 20 },
        bandwidth_mb: [32_000; 2],
        ..Default::default()
    };
    others.map(link).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtGetNodeIoLinkProperties(
    node: u32,
    count: u32,
    properties: *mut IoLinkProperties,
) -> Status {
    guard(|| {
        let kfd = kfd()?;
        // SAFETY: `properties` of the caller's has room for `count`.
        unsafe { put_all(properties, count, &links(&kfd, kfd.node(node)?)) }
    })
}

/// Stores the first `count` of `values`.
///
/// # Safety
/// `out` has room for `count`.
unsafe fn put_all<T: Copy>(out: *mut T, count: u32, values: &[T]) -> Result<(), Status> {
    for (index, &value) in values.iter().take(count as usize).enumerate() {
        // SAFETY: within `count`.
        unsafe { put(out.add(index), value)? };
    }
    Ok(())
}

/// GB_ADDR_CONFIG of gfx906, which ROCR's image library accepts for all GPUs (Linux, `gfx_v9_0.c`,
/// `golden_settings_gc_9_0_vg20`).
const GB_ADDR_CONFIG: u32 = 0x2a11_4042;

/// Gives no tables of tilings, which GPUs before gfx9 have. ROCR's image library asks even if the program makes no
/// image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtGetTileConfig(node: u32, config: *mut TileConfig) -> Status {
    guard(|| {
        kfd()?.gpu(node)?;
        if config.is_null() {
            return Err(Status::INVALID_PARAMETER);
        }
        // SAFETY: not null, and the caller's structure. Its pointers stay.
        unsafe {
            (&raw mut (*config).tile_count).write_unaligned(0);
            (&raw mut (*config).macro_tile_count).write_unaligned(0);
            (&raw mut (*config).address_config).write_unaligned(GB_ADDR_CONFIG);
            (&raw mut (*config).banks).write_unaligned(0);
            (&raw mut (*config).ranks).write_unaligned(0);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtGetXNACKMode(enable: *mut i32) -> Status {
    guard(|| {
        kfd()?;
        // SAFETY: `enable` is null or the caller's place for the result.
        unsafe { put(enable, 0) }
    })
}

/// Accepts no XNACK: a page fault always ends the kernel.
#[unsafe(no_mangle)]
pub extern "C" fn hsaKmtSetXNACKMode(enable: i32) -> Status {
    if enable == 0 { Status::SUCCESS } else { Status::NOT_SUPPORTED }
}

#[cfg(test)]
mod tests {
    use super::engine_id;

    #[test]
    fn engine_ids_are_the_targets_versions() {
        let versions = |name| {
            let id = engine_id(name);
            (id >> 10 & 0x3f, id >> 16 & 0xff, id >> 24)
        };
        assert_eq!(versions("gfx90a"), (9, 0, 10));
        assert_eq!(versions("gfx942"), (9, 4, 2));
        assert_eq!(versions("gfx950"), (9, 5, 0));
        assert_eq!(versions("gfx1030"), (10, 3, 0));
        assert_eq!(versions("gfx1201"), (12, 0, 1));
    }
}
