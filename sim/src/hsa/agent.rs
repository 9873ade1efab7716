// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Agents and instruction sets.

use std::ffi::c_void;
use std::ptr;

use hsa_abi::{
    HSA_AGENT_FEATURE_KERNEL_DISPATCH, HsaAgent, HsaAgentInfo, HsaAmdHdpFlush, HsaCache, HsaCacheInfo, HsaDeviceType,
    HsaExtension, HsaFloatRoundingMode, HsaIsa, HsaIsaInfo, HsaMachineModel, HsaProfile, HsaQueueType, HsaStatus,
};

use super::copy::SDMA_ENGINES;
use super::{Value, check_signatures, guard, proceed};
use crate::machine::agent::Agent;
use crate::machine::agent_id::{self, CPU};
use crate::machine::lifecycle::machine;
use crate::machine::product::gpu::Gpu;
use crate::machine::product::target::TargetInfo;
use crate::machine::{self, Machine, queue};

check_signatures! {
    hsa_iterate_agents hsa_agent_get_info hsa_agent_iterate_isas hsa_isa_get_info_alt
    hsa_agent_iterate_caches hsa_cache_get_info
}

/// The CPU agent comes first, then the GPUs in the order of `HSA_SIM_AGENTS`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_iterate_agents(
    callback: Option<unsafe extern "C" fn(agent: HsaAgent, data: *mut c_void) -> HsaStatus>,
    data: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        for agent in &machine()?.agents {
            // SAFETY: the caller passed this callback for this data.
            proceed(unsafe { callback(agent.handle(), data) })?;
        }
        Ok(())
    })
}

/// See HSA Runtime 2.2 and `hsa_ext_amd.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_agent_get_info(agent: HsaAgent, attribute: HsaAgentInfo, value: *mut c_void) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let agent = machine.agent(agent)?;
        let value = Value::new(value)?;
        // SAFETY: `value` has room for the attribute's type, by the caller's contract.
        unsafe {
            match &agent.gpu {
                Some(gpu) => gpu_info(&machine, agent, gpu, attribute, value),
                None => cpu_info(agent, attribute, value),
            }
        }
    })
}

/// Attributes that all agents have.
///
/// # Safety
/// `value` has room for the attribute's type.
unsafe fn common_info(agent: &Agent, attribute: HsaAgentInfo, value: Value) -> Result<(), HsaStatus> {
    // SAFETY: the caller's promise.
    unsafe {
        match attribute {
            HsaAgentInfo::MACHINE_MODEL => value.put(HsaMachineModel::LARGE),
            HsaAgentInfo::DEFAULT_FLOAT_ROUNDING_MODE => value.put(HsaFloatRoundingMode::NEAR),
            HsaAgentInfo::BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES => {
                value.put(HsaFloatRoundingMode::NEAR);
            }
            HsaAgentInfo::FBARRIER_MAX_SIZE => value.put(0_u32),
            HsaAgentInfo::EXTENSIONS => {
                // ROCR says that GPUs have images even without its image library. HIP wants them for pitched memory.
                let mut extensions = [0_u8; 128];
                extensions[0] = u8::from(agent.gpu.is_some()) << HsaExtension::IMAGES.0;
                value.put(extensions);
            }
            HsaAgentInfo::VERSION_MAJOR => value.put(1_u16),
            HsaAgentInfo::VERSION_MINOR => value.put(2_u16),
            HsaAgentInfo::AMD_UCODE_VERSION
            | HsaAgentInfo::AMD_SDMA_UCODE_VERSION
            | HsaAgentInfo::AMD_NUM_SDMA_XGMI_ENG
            | HsaAgentInfo::AMD_IOMMU_SUPPORT => value.put(0_u32),
            HsaAgentInfo::AMD_MEMORY_PROPERTIES => {
                value.put(u64::from(agent.target().is_some_and(|target| target.is_apu)).to_le_bytes());
            }
            HsaAgentInfo::AMD_AQL_EXTENSIONS => value.put([0_u8; 8]),
            HsaAgentInfo::AMD_DRIVER_NODE_ID => value.put(agent.index.0 as u32),
            HsaAgentInfo::AMD_DOMAIN => value.put(0_u32),
            HsaAgentInfo::AMD_TIMESTAMP_FREQUENCY => value.put(machine::clock::CLOCK_HZ),
            HsaAgentInfo::AMD_NEAREST_CPU => value.put(agent_id::agent_handle(CPU)),
            HsaAgentInfo::AMD_HDP_FLUSH => {
                let register: *mut u32 =
                    agent.hdp.as_ref().map_or(ptr::null_mut(), |hdp| ptr::with_exposed_provenance_mut(hdp.address()));
                let second = if register.is_null() { register } else { register.wrapping_add(1) };
                value.put(HsaAmdHdpFlush { mem_flush_cntl: register, reg_flush_cntl: second });
            }
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        }
    }
    Ok(())
}

/// # Safety
/// `value` has room for the attribute's type.
unsafe fn cpu_info(agent: &Agent, attribute: HsaAgentInfo, value: Value) -> Result<(), HsaStatus> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    // SAFETY: the caller's promise.
    unsafe {
        match attribute {
            HsaAgentInfo::NAME | HsaAgentInfo::AMD_PRODUCT_NAME => {
                value.put_text::<64>("Simulated CPU");
            }
            HsaAgentInfo::VENDOR_NAME => value.put_text::<64>("CPU"),
            HsaAgentInfo::AMD_UUID => value.put_text::<21>("CPU-XX"),
            HsaAgentInfo::DEVICE => value.put(HsaDeviceType::CPU),
            HsaAgentInfo::PROFILE => value.put(HsaProfile::FULL),
            HsaAgentInfo::QUEUE_TYPE => value.put(HsaQueueType::MULTI),
            HsaAgentInfo::CACHE_SIZE => value.put([0_u32; 4]),
            HsaAgentInfo::WORKGROUP_MAX_DIM => value.put([0_u16; 3]),
            HsaAgentInfo::GRID_MAX_DIM => value.put([0_u32; 3]),
            HsaAgentInfo::AMD_COMPUTE_UNIT_COUNT => value.put(processors),
            HsaAgentInfo::AMD_MAX_ADDRESS_WATCH_POINTS => value.put(1_u32),
            HsaAgentInfo::AMD_SVM_DIRECT_HOST_ACCESS => value.put(true),
            HsaAgentInfo::AMD_CACHELINE_SIZE => value.put(64_u32),
            HsaAgentInfo::FEATURE
            | HsaAgentInfo::NODE
            | HsaAgentInfo::WAVEFRONT_SIZE
            | HsaAgentInfo::WORKGROUP_MAX_SIZE
            | HsaAgentInfo::GRID_MAX_SIZE
            | HsaAgentInfo::QUEUES_MAX
            | HsaAgentInfo::QUEUE_MIN_SIZE
            | HsaAgentInfo::QUEUE_MAX_SIZE
            | HsaAgentInfo::AMD_CHIP_ID
            | HsaAgentInfo::AMD_ASIC_REVISION
            | HsaAgentInfo::AMD_MAX_CLOCK_FREQUENCY
            | HsaAgentInfo::AMD_NUM_SIMDS_PER_CU
            | HsaAgentInfo::AMD_MAX_WAVES_PER_CU
            | HsaAgentInfo::AMD_NUM_SHADER_ENGINES
            | HsaAgentInfo::AMD_NUM_SHADER_ARRAYS_PER_SE
            | HsaAgentInfo::AMD_NUM_SDMA_ENG
            | HsaAgentInfo::AMD_NUM_XCC
            | HsaAgentInfo::AMD_BDFID => value.put(0_u32),
            _ => return common_info(agent, attribute, value),
        }
    }
    Ok(())
}

/// # Safety
/// `value` has room for the attribute's type.
unsafe fn gpu_info(
    machine: &Machine,
    agent: &Agent,
    gpu: &Gpu,
    attribute: HsaAgentInfo,
    value: Value,
) -> Result<(), HsaStatus> {
    let target = gpu.target;
    let node = agent.ordinal as u32 + 1;
    let mut caches = [0_u32; 4];
    caches[..target.caches.len()].copy_from_slice(target.caches);
    // SAFETY: the caller's promise.
    unsafe {
        match attribute {
            HsaAgentInfo::NAME => value.put_text::<64>(target.name),
            HsaAgentInfo::VENDOR_NAME => value.put_text::<64>("AMD"),
            HsaAgentInfo::AMD_PRODUCT_NAME => value.put_text::<64>(target.product),
            HsaAgentInfo::AMD_UUID => value.put_text::<21>(&target.uuid(gpu.device)),
            HsaAgentInfo::FEATURE => value.put(HSA_AGENT_FEATURE_KERNEL_DISPATCH),
            HsaAgentInfo::DEVICE => value.put(HsaDeviceType::GPU),
            HsaAgentInfo::PROFILE => value.put(HsaProfile::BASE),
            HsaAgentInfo::NODE | HsaAgentInfo::AMD_DRIVER_NODE_ID => value.put(node),
            HsaAgentInfo::ISA => value.put(agent_id::isa_handle(agent.index, 0)),
            HsaAgentInfo::WAVEFRONT_SIZE => value.put(target.wave_size),
            HsaAgentInfo::WORKGROUP_MAX_DIM => value.put([TargetInfo::MAX_WORKGROUP as u16; 3]),
            HsaAgentInfo::WORKGROUP_MAX_SIZE => value.put(TargetInfo::MAX_WORKGROUP),
            HsaAgentInfo::GRID_MAX_DIM => value.put(machine.config.rocr.grid_max_dim()),
            HsaAgentInfo::GRID_MAX_SIZE => value.put(u32::MAX),
            HsaAgentInfo::FAST_F16_OPERATION => value.put(true),
            HsaAgentInfo::QUEUES_MAX => value.put(128_u32),
            HsaAgentInfo::QUEUE_MIN_SIZE => value.put(queue::MIN_SIZE),
            HsaAgentInfo::QUEUE_MAX_SIZE => value.put(queue::MAX_SIZE),
            HsaAgentInfo::QUEUE_TYPE => value.put(HsaQueueType::MULTI),
            HsaAgentInfo::CACHE_SIZE => value.put(caches),
            HsaAgentInfo::AMD_CHIP_ID => value.put(target.chip_id),
            HsaAgentInfo::AMD_MEMORY_AVAIL => value.put(machine.available_memory(agent)),
            HsaAgentInfo::AMD_COMPUTE_UNIT_COUNT | HsaAgentInfo::AMD_COOPERATIVE_COMPUTE_UNIT_COUNT => {
                value.put(gpu.compute_units);
            }
            HsaAgentInfo::AMD_MAX_ADDRESS_WATCH_POINTS => value.put(4_u32),
            HsaAgentInfo::AMD_MEMORY_WIDTH => value.put(target.memory_interface.0),
            HsaAgentInfo::AMD_MEMORY_MAX_FREQUENCY => value.put(target.memory_interface.1),
            HsaAgentInfo::AMD_MAX_CLOCK_FREQUENCY => value.put(target.clock_mhz),
            HsaAgentInfo::AMD_BDFID => value.put(gpu.location_id()),
            HsaAgentInfo::AMD_CACHELINE_SIZE => value.put(target.cacheline),
            HsaAgentInfo::AMD_ASIC_REVISION => value.put(target.asic_revision),
            HsaAgentInfo::AMD_MAX_WAVES_PER_CU => value.put(target.simds * target.waves_per_simd),
            HsaAgentInfo::AMD_NUM_SIMDS_PER_CU => value.put(target.simds),
            HsaAgentInfo::AMD_NUM_SHADER_ENGINES => value.put(target.shader_engines / target.xcc * gpu.xcc),
            HsaAgentInfo::AMD_NUM_SHADER_ARRAYS_PER_SE => value.put(target.shader_arrays),
            HsaAgentInfo::AMD_NUM_XCC => value.put(gpu.xcc),
            HsaAgentInfo::AMD_COOPERATIVE_QUEUES => value.put(agent.has_cooperative_queues(machine.config.rocr)),
            HsaAgentInfo::AMD_SVM_DIRECT_HOST_ACCESS => value.put(false),
            // The kernel driver's own number of the GPU, of which only that it is unique is known.
            HsaAgentInfo::AMD_DRIVER_UID => value.put(0x4000 + node * 0x111),
            HsaAgentInfo::AMD_NUM_SDMA_ENG => value.put(SDMA_ENGINES),
            HsaAgentInfo::AMD_TIMESTAMP_FREQUENCY => value.put(machine::clock::DEVICE_CLOCK_HZ),
            _ if (0x3000..0x3100).contains(&attribute.0) => {
                return image_info(!matches!(target.name, "gfx942" | "gfx950"), attribute, value);
            }
            _ => return common_info(agent, attribute, value),
        }
    }
    Ok(())
}

/// Limits of images (ROCR's `amd_gpu_agent.cpp` GetInfo and `image_lut_kv.cpp`), although none can be made: HIP up to
/// 5.7 has pitched memory only where there are images. GPUs without image instructions have none.
///
/// # Safety
/// `value` has room for the attribute's type.
unsafe fn image_info(has_images: bool, attribute: HsaAgentInfo, value: Value) -> Result<(), HsaStatus> {
    let limit = |limit: u32| if has_images { limit } else { 0 };
    let side = limit(16384);
    // SAFETY: the caller's promise.
    unsafe {
        match attribute {
            HsaAgentInfo::IMAGE_1D_MAX_ELEMENTS | HsaAgentInfo::IMAGE_1DA_MAX_ELEMENTS => value.put(side),
            HsaAgentInfo::IMAGE_1DB_MAX_ELEMENTS => value.put(limit(u32::MAX)),
            HsaAgentInfo::IMAGE_2D_MAX_ELEMENTS
            | HsaAgentInfo::IMAGE_2DA_MAX_ELEMENTS
            | HsaAgentInfo::IMAGE_2DDEPTH_MAX_ELEMENTS
            | HsaAgentInfo::IMAGE_2DADEPTH_MAX_ELEMENTS => value.put([side; 2]),
            HsaAgentInfo::IMAGE_3D_MAX_ELEMENTS => value.put([side, side, limit(8192)]),
            HsaAgentInfo::IMAGE_ARRAY_MAX_LAYERS => value.put(limit(8192)),
            HsaAgentInfo::MAX_IMAGE_RD_HANDLES => value.put(limit(128)),
            HsaAgentInfo::MAX_IMAGE_RORW_HANDLES => value.put(limit(64)),
            HsaAgentInfo::MAX_SAMPLER_HANDLERS => value.put(limit(16)),
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        }
    }
    Ok(())
}

/// The specific instruction set comes first, then the generic one if the release knows it. The CPU has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_agent_iterate_isas(
    agent: HsaAgent,
    callback: Option<unsafe extern "C" fn(isa: HsaIsa, data: *mut c_void) -> HsaStatus>,
    data: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let machine = machine()?;
        let agent = machine.agent(agent)?;
        let known = if machine.config.rocr.generic_targets() { usize::MAX } else { 1 };
        let count = agent.target().map_or(0, |target| target.isas.len().min(known));
        for slot in 0..count {
            // SAFETY: the caller passed this callback for this data.
            proceed(unsafe { callback(agent_id::isa_handle(agent.index, slot), data) })?;
        }
        Ok(())
    })
}

fn isa_name(machine: &Machine, isa: HsaIsa) -> Result<String, HsaStatus> {
    agent_id::isa_index(isa)
        .and_then(|(index, slot)| machine.agents.get(index.0)?.target()?.isas.get(slot))
        .map(|(name, _)| format!("amdgcn-amd-amdhsa--{name}"))
        .ok_or(HsaStatus::ERROR_INVALID_ISA)
}

/// Names are `amdgcn-amd-amdhsa--<target id>` with the features the agent has; their length counts a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_isa_get_info_alt(isa: HsaIsa, attribute: HsaIsaInfo, value: *mut c_void) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let name = isa_name(&machine, isa)? + "\0";
        let value = Value::new(value)?;
        // SAFETY: `value` has room for the attribute's type, by the caller's contract.
        unsafe {
            match attribute {
                HsaIsaInfo::NAME_LENGTH => value.put(name.len() as u32),
                HsaIsaInfo::NAME => value.put_bytes(&name),
                HsaIsaInfo::MACHINE_MODELS => value.put([false, true]),
                HsaIsaInfo::PROFILES => value.put([true, false]),
                HsaIsaInfo::DEFAULT_FLOAT_ROUNDING_MODES | HsaIsaInfo::BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES => {
                    value.put([false, false, true]);
                }
                HsaIsaInfo::FAST_F16_OPERATION => value.put(true),
                HsaIsaInfo::WORKGROUP_MAX_DIM => value.put([TargetInfo::MAX_WORKGROUP as u16; 3]),
                HsaIsaInfo::WORKGROUP_MAX_SIZE => value.put(TargetInfo::MAX_WORKGROUP),
                HsaIsaInfo::GRID_MAX_DIM => value.put(machine.config.rocr.grid_max_dim()),
                HsaIsaInfo::GRID_MAX_SIZE => value.put(u64::MAX),
                HsaIsaInfo::FBARRIER_MAX_SIZE => value.put(0_u32),
                _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
            }
        }
        Ok(())
    })
}

/// A GPU's data caches. The CPU reports none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_agent_iterate_caches(
    agent: HsaAgent,
    callback: Option<unsafe extern "C" fn(cache: HsaCache, data: *mut c_void) -> HsaStatus>,
    data: *mut c_void,
) -> HsaStatus {
    guard(|| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let machine = machine()?;
        let agent = machine.agent(agent)?;
        let count = agent.target().map_or(0, |target| target.caches.len());
        for slot in 0..count {
            // SAFETY: the caller passed this callback for this data.
            proceed(unsafe { callback(agent_id::cache_handle(agent.index, slot), data) })?;
        }
        Ok(())
    })
}

/// Caches are named after their agent and level. The name's length does not count its NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_cache_get_info(cache: HsaCache, attribute: HsaCacheInfo, value: *mut c_void) -> HsaStatus {
    guard(|| {
        let machine = machine()?;
        let found = agent_id::cache_index(cache)
            .and_then(|(index, slot)| Some((machine.agents.get(index.0)?.target()?, slot)))
            .and_then(|(target, slot)| Some((target, slot, *target.caches.get(slot)?)));
        let (target, slot, bytes) = found.ok_or(HsaStatus::ERROR_INVALID_CACHE)?;
        let value = Value::new(value)?;
        let name = format!("{} L{}\0", target.name, slot + 1);
        // SAFETY: `value` has room for the attribute's type, by the caller's contract.
        unsafe {
            match attribute {
                HsaCacheInfo::NAME_LENGTH => value.put(name.len() as u32 - 1),
                HsaCacheInfo::NAME => value.put_bytes(&name),
                HsaCacheInfo::LEVEL => value.put(slot as u8 + 1),
                HsaCacheInfo::SIZE => value.put(bytes),
                _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
            }
        }
        Ok(())
    })
}
