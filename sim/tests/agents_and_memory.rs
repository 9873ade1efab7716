// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Agents and their properties, memory pools and allocation, as a client uses them.

mod common;

use std::ptr;

use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

#[test]
fn agents_describe_themselves() {
    let hsa = Hsa::new();
    assert_eq!(agent_text::<64>(hsa.gpu(), HsaAgentInfo::NAME), "gfx1100");
    assert_eq!(agent_text::<64>(hsa.gpu(), HsaAgentInfo::VENDOR_NAME), "AMD");
    let uuid = agent_text::<21>(hsa.gpu(), HsaAgentInfo::AMD_UUID);
    assert!(uuid.starts_with("GPU-") && uuid.len() == 20, "{uuid}");
    assert!(uuid[4..].chars().all(|c| c.is_ascii_hexdigit()), "{uuid}");
    assert_eq!(agent_info::<u32>(hsa.gpu(), HsaAgentInfo::WAVEFRONT_SIZE), 32);
    assert_eq!(agent_info::<HsaAgent>(hsa.gpu(), HsaAgentInfo::AMD_NEAREST_CPU), hsa.cpu);

    let mut isas: Vec<HsaIsa> = Vec::new();
    // SAFETY: the callback gets the vector it expects; names fit their buffers.
    unsafe {
        let status = hsa_agent_iterate_isas(hsa.gpu(), Some(push::<HsaIsa>), as_data(&mut isas));
        assert_eq!(status, HsaStatus::SUCCESS);
        let names: Vec<_> = isas
            .iter()
            .map(|&isa| {
                let mut length = 0_u32;
                let attribute = HsaIsaInfo::NAME_LENGTH;
                assert!(hsa_isa_get_info_alt(isa, attribute, as_data(&mut length)).is_ok());
                let mut name = vec![0_u8; length as usize];
                let value = name.as_mut_ptr().cast();
                assert!(hsa_isa_get_info_alt(isa, HsaIsaInfo::NAME, value).is_ok());
                assert_eq!(name.pop(), Some(0));
                String::from_utf8(name).unwrap()
            })
            .collect();
        assert_eq!(names, ["amdgcn-amd-amdhsa--gfx1100", "amdgcn-amd-amdhsa--gfx11-generic"]);
    }
}

#[test]
fn gpus_have_caches() {
    let hsa = Hsa::new();
    let mut caches: Vec<HsaCache> = Vec::new();
    let info = |cache, attribute, value| {
        // SAFETY: the test's values have the attributes' types.
        unsafe { hsa_cache_get_info(cache, attribute, value) }
    };
    // SAFETY: the callback gets the vector it expects.
    unsafe {
        let status = hsa_agent_iterate_caches(hsa.cpu, Some(push::<HsaCache>), as_data(&mut caches));
        assert_eq!((status, caches.len()), (HsaStatus::SUCCESS, 0));
        let status = hsa_agent_iterate_caches(hsa.gpu(), Some(push::<HsaCache>), as_data(&mut caches));
        assert_eq!(status, HsaStatus::SUCCESS);
    }
    let sizes: [u32; 4] = agent_info(hsa.gpu(), HsaAgentInfo::CACHE_SIZE);
    for (i, &cache) in caches.iter().enumerate() {
        let (mut level, mut size, mut length, mut name) = (0_u8, 0_u32, 0_u32, [0_u8; 64]);
        assert!(info(cache, HsaCacheInfo::LEVEL, as_data(&mut level)).is_ok());
        assert!(info(cache, HsaCacheInfo::SIZE, as_data(&mut size)).is_ok());
        assert!(info(cache, HsaCacheInfo::NAME_LENGTH, as_data(&mut length)).is_ok());
        assert!(info(cache, HsaCacheInfo::NAME, as_data(&mut name)).is_ok());
        assert_eq!((usize::from(level), size), (i + 1, sizes[i]));
        assert_eq!(&name[..=length as usize], format!("gfx1100 L{level}\0").as_bytes());
    }
    assert_eq!(caches.len(), 3);
    let mut size = 0_u32;
    let unknown = HsaCache { handle: caches[0].handle + 7 };
    assert_eq!(info(unknown, HsaCacheInfo::SIZE, as_data(&mut size)), HsaStatus::ERROR_INVALID_CACHE);
    assert_eq!(info(caches[0], HsaCacheInfo(9), as_data(&mut size)), HsaStatus::ERROR_INVALID_ARGUMENT);
}

#[test]
fn invalid_handles_and_attributes_are_refused() {
    let hsa = Hsa::new();
    let mut value = [0_u64; 16];
    let value = value.as_mut_ptr().cast();
    // SAFETY: `value` is larger than any attribute asked for.
    unsafe {
        let none = HsaAgent::NULL;
        let status = hsa_agent_get_info(none, HsaAgentInfo::NAME, value);
        assert_eq!(status, HsaStatus::ERROR_INVALID_AGENT);
        let status = hsa_agent_get_info(hsa.gpu(), HsaAgentInfo(0x7777), value);
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        let status = hsa_agent_get_info(hsa.gpu(), HsaAgentInfo::NAME, ptr::null_mut());
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        let pool = HsaMemoryPool { handle: hsa.gpu().handle };
        let status = hsa_amd_memory_pool_get_info(pool, HsaMemoryPoolInfo::SIZE, value);
        assert_eq!(status, HsaStatus::ERROR_INVALID_MEMORY_POOL);
        let status = hsa_isa_get_info_alt(HsaIsa { handle: 5 }, HsaIsaInfo::NAME, value);
        assert_eq!(status, HsaStatus::ERROR_INVALID_ISA);
        let status = hsa_iterate_agents(None, value);
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        let status = hsa_signal_destroy(HsaSignal { handle: 64 });
        assert_eq!(status, HsaStatus::ERROR_INVALID_SIGNAL);
        let status = hsa_queue_destroy(value.cast());
        assert_eq!(status, HsaStatus::ERROR_INVALID_QUEUE);
    }
}

#[test]
fn impossible_allocations_are_refused() {
    let hsa = Hsa::new();
    let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
    assert_eq!(allocate(pool, 0), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
    assert_eq!(allocate(pool, usize::MAX), Err(HsaStatus::ERROR_INVALID_ALLOCATION));
    let group = pools(hsa.gpu())
        .into_iter()
        .find(|&pool| pool_info::<HsaAmdSegment>(pool, HsaMemoryPoolInfo::SEGMENT) == HsaAmdSegment::GROUP);
    assert_eq!(allocate(group.unwrap(), 64), Err(HsaStatus::ERROR_INVALID_ALLOCATION));
    let memory = allocate(pool, 100).unwrap();
    assert_eq!(free(memory.wrapping_byte_add(8)), HsaStatus::ERROR_INVALID_ALLOCATION);
    assert_eq!(free(memory), HsaStatus::SUCCESS);
    assert_eq!(free(memory), HsaStatus::ERROR_INVALID_ALLOCATION);
    assert_eq!(free(ptr::null_mut()), HsaStatus::SUCCESS);
}

#[test]
fn pointers_tell_their_allocation_and_its_agents() {
    let hsa = Hsa::new();
    let memory = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), 100).unwrap();
    let (info, agents) = pointer_info(memory.wrapping_byte_add(99));
    assert_eq!(info.pointer_type, HsaPointerType::HSA);
    assert_eq!((info.host_base_address, info.size_in_bytes), (memory, 100));
    assert_eq!((info.agent_owner, agents), (hsa.cpu, vec![]));
    allow_access(memory, &[hsa.gpu()]);
    assert_eq!(pointer_info(memory).1, [hsa.gpu()]);
    assert_eq!(free(memory), HsaStatus::SUCCESS);

    let mut own = vec![0_u8; 64];
    let own = own.as_mut_ptr().cast();
    assert_eq!(pointer_info(own).0.pointer_type, HsaPointerType::UNKNOWN);
    let mut locked = ptr::null_mut();
    // SAFETY: the range is this test's own for as long as it is locked.
    unsafe {
        let status = hsa_amd_memory_lock(own, 64, &mut hsa.gpu(), 1, &mut locked);
        assert_eq!(status, HsaStatus::SUCCESS);
        assert_eq!(locked, own);
        assert_eq!(pointer_info(locked).0.pointer_type, HsaPointerType::UNKNOWN, "the kernel driver alone knows of it");
        assert_eq!(hsa_amd_memory_unlock(own), HsaStatus::SUCCESS);
        assert_eq!(hsa_amd_memory_unlock(own), HsaStatus::ERROR_INVALID_ARGUMENT);
    }
}

/// ROCR does not check in advance which agent could access the memory.
#[test]
fn an_engine_that_has_no_access_faults_and_never_signals() {
    passes_alone("an_engine_that_has_no_access_faults_and_never_signals", "gfx1100,gfx1100", || {
        let hsa = Hsa::new();
        hsa.handle_faults();
        let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 8).unwrap();
        let mut never_locked = 0_u64;
        let (out, done) = (as_data(&mut never_locked), signal(1));
        // SAFETY: nothing is copied where the engine has no access.
        let status = unsafe { hsa_amd_memory_async_copy(out, hsa.cpu, memory, hsa.gpu(), 8, 0, ptr::null(), done) };
        assert_eq!(status, HsaStatus::SUCCESS);
        let page = ptr::from_ref(&never_locked).addr() as u64 & !4095;
        wait_for_fault(|&(agent, address, _)| (agent, address) == (hsa.gpu().handle, page));
        assert_eq!((load(done), never_locked), (1, 0));
        assert_eq!(free(memory), HsaStatus::SUCCESS);
    });
}

#[test]
fn copies_stay_inside_allocations() {
    let hsa = Hsa::new();
    let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 8).unwrap();
    let source = 0x0123_4567_89ab_cdef_u64;
    let target = hsa.host_memory::<u64>(1);
    // SAFETY: the ranges are 8 bytes each; longer ones are refused before anything is copied.
    unsafe {
        let status = hsa_memory_copy(memory, ptr::from_ref(&source).cast(), 8);
        assert_eq!(status, HsaStatus::SUCCESS);
        let status = hsa_memory_copy(memory, ptr::from_ref(&source).cast(), 9);
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);

        let (gate, done) = (signal(1), signal(1));
        let status = hsa_amd_memory_async_copy(target.cast(), hsa.cpu, memory, hsa.gpu(), 8, 1, &gate, done);
        assert_eq!(status, HsaStatus::SUCCESS);
        assert_eq!(load(done), 1);
        store(gate, 0);
        wait_for(done, 0);
        for signal in [gate, done] {
            assert_eq!(hsa_signal_destroy(signal), HsaStatus::SUCCESS);
        }
    }
    // SAFETY: the copy is over.
    assert_eq!(unsafe { target.read() }, source);
    assert_eq!(free(memory), HsaStatus::SUCCESS);
    assert_eq!(free(target.cast()), HsaStatus::SUCCESS);
}
