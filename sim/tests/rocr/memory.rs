// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Pools, allocations, access, locks, pointers, copies.

use std::ffi::c_void;
use std::ptr;

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use crate::common::*;
use crate::{every_release, in_environment, release};

fn group_pool(hsa: &Hsa) -> HsaMemoryPool {
    let group =
        |&pool: &HsaMemoryPool| pool_info::<HsaAmdSegment>(pool, HsaMemoryPoolInfo::SEGMENT) == HsaAmdSegment::GROUP;
    pools(hsa.gpu()).into_iter().find(group).expect("every GPU has LDS")
}

#[test]
fn pool_attributes_need_a_place_a_pool_and_a_known_name() {
    every_release(|hsa| {
        let pool = hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_KERNARG);
        let mut value = [0_u64; 4];
        let data = as_data(&mut value);
        // SAFETY: the place is large enough.
        unsafe {
            let status = hsa_amd_memory_pool_get_info(pool, HsaMemoryPoolInfo::SIZE, ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_amd_memory_pool_get_info(HsaMemoryPool::NULL, HsaMemoryPoolInfo::SIZE, data);
            assert_eq!(status, HsaStatus::ERROR_INVALID_MEMORY_POOL);
            let status = hsa_amd_memory_pool_get_info(pool, HsaMemoryPoolInfo(99), data);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let attribute = HsaAgentMemoryPoolInfo::ACCESS;
            let status = hsa_amd_agent_memory_pool_get_info(HsaAgent::NULL, pool, attribute, data);
            assert_eq!(status, HsaStatus::ERROR_INVALID_AGENT);
            let status = hsa_amd_agent_memory_pool_get_info(hsa.cpu, HsaMemoryPool::NULL, attribute, data);
            assert_eq!(status, HsaStatus::ERROR_INVALID_MEMORY_POOL);
            let status = hsa_amd_agent_memory_pool_get_info(hsa.cpu, pool, attribute, ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_amd_agent_memory_pool_get_info(hsa.cpu, pool, HsaAgentMemoryPoolInfo(99), data);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_amd_agent_iterate_memory_pools(hsa.cpu, None, data);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_amd_agent_iterate_memory_pools(HsaAgent::NULL, Some(push::<HsaMemoryPool>), data);
            assert_eq!(status, HsaStatus::ERROR_INVALID_AGENT);
        }
    });
}

#[test]
fn a_group_pool_has_no_flags_and_no_place_and_no_memory() {
    every_release(|hsa| {
        let group = group_pool(hsa);
        assert_eq!(pool_info::<u32>(group, HsaMemoryPoolInfo::GLOBAL_FLAGS), 0);
        assert!(!pool_info::<bool>(group, HsaMemoryPoolInfo::RUNTIME_ALLOC_ALLOWED));
        for attribute in [HsaMemoryPoolInfo::RUNTIME_ALLOC_GRANULE, HsaMemoryPoolInfo::RUNTIME_ALLOC_REC_GRANULE] {
            assert_eq!(pool_info::<usize>(group, attribute), 0);
        }
        let mut place = 0_u32;
        // SAFETY: the place has the attribute's type.
        let status = unsafe { hsa_amd_memory_pool_get_info(group, HsaMemoryPoolInfo::LOCATION, as_data(&mut place)) };
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        assert_eq!(allocate(group, 64), Err(HsaStatus::ERROR_INVALID_ALLOCATION));
    });
}

#[test]
fn a_host_has_its_pools_in_order() {
    let flags = |hsa: &Hsa| -> Vec<u32> {
        pools(hsa.cpu).into_iter().map(|pool| pool_info(pool, HsaMemoryPoolInfo::GLOBAL_FLAGS)).collect()
    };
    let (fine, coarse) = (HSA_GLOBAL_FLAG_FINE_GRAINED, HSA_GLOBAL_FLAG_COARSE_GRAINED);
    let (extended, kernarg) = (HSA_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED, HSA_GLOBAL_FLAG_KERNARG | fine);
    release("6.2", |hsa| assert_eq!(flags(hsa), [fine, kernarg, coarse]));
    release("7.0", |hsa| assert_eq!(flags(hsa), [fine, extended, kernarg, coarse]));
    let apu = ("HSA_SIM_AGENTS", "gfx1151");
    in_environment(&[apu], |hsa| assert_eq!(flags(hsa), [fine, extended, kernarg, coarse]));
}

#[test]
fn small_allocations_of_device_memory_hold_what_was_there() {
    every_release(|hsa| {
        let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
        for (size, cleared) in [(4096, false), (2 << 20, true)] {
            let memory = allocate(pool, size).unwrap();
            allow_access(memory, &[hsa.cpu]);
            // SAFETY: the host was given access to it.
            assert_eq!(unsafe { memory.cast::<u8>().read_volatile() } == 0, cleared);
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
    });
}

#[test]
fn only_gpus_with_a_link_can_be_given_access() {
    in_environment(&[("HSA_SIM_AGENTS", "gfx1100:peers=no,gfx1100:peers=no")], |hsa| {
        let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 4096).unwrap();
        assert_eq!(allow(memory, &[hsa.gpus[1]]), HsaStatus::ERROR_OUT_OF_RESOURCES);
        assert_eq!(pointer_info(memory).1, [hsa.gpu()]);
        assert_eq!(allow(memory, &[hsa.cpu]), HsaStatus::SUCCESS);
        assert_eq!(free(memory), HsaStatus::SUCCESS);
    });
}

#[test]
fn host_pools_are_accessible_by_all_and_give_pages() {
    every_release(|hsa| {
        for flags in [HSA_GLOBAL_FLAG_FINE_GRAINED, HSA_GLOBAL_FLAG_KERNARG, HSA_GLOBAL_FLAG_COARSE_GRAINED] {
            let pool = hsa.pool(hsa.cpu, flags);
            assert!(pool_info::<bool>(pool, HsaMemoryPoolInfo::ACCESSIBLE_BY_ALL));
            for attribute in [
                HsaMemoryPoolInfo::RUNTIME_ALLOC_GRANULE,
                HsaMemoryPoolInfo::RUNTIME_ALLOC_ALIGNMENT,
                HsaMemoryPoolInfo::RUNTIME_ALLOC_REC_GRANULE,
            ] {
                assert_eq!(pool_info::<usize>(pool, attribute), 4096);
            }
        }
        let device = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
        assert!(!pool_info::<bool>(device, HsaMemoryPoolInfo::ACCESSIBLE_BY_ALL));
        assert_eq!(pool_info::<usize>(device, HsaMemoryPoolInfo::RUNTIME_ALLOC_REC_GRANULE), 2 << 20);
    });
}

#[test]
fn allocations_need_a_size_a_place_and_a_pool_that_has_as_much() {
    every_release(|hsa| {
        let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
        assert_eq!(allocate(pool, 0), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
        assert_eq!(allocate(HsaMemoryPool::NULL, 0), Err(HsaStatus::ERROR_INVALID_ARGUMENT));
        assert_eq!(allocate(HsaMemoryPool::NULL, 1), Err(HsaStatus::ERROR_INVALID_MEMORY_POOL));
        let most: usize = pool_info(pool, HsaMemoryPoolInfo::ALLOC_MAX_SIZE);
        assert_eq!(allocate(pool, most + 1), Err(HsaStatus::ERROR_INVALID_ALLOCATION));
        let mut memory = ptr::null_mut();
        // SAFETY: null is refused; the other place is valid.
        unsafe {
            assert_eq!(hsa_amd_memory_pool_allocate(pool, 1, 0, ptr::null_mut()), HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_amd_memory_pool_allocate(pool, 1, 1 << 30, &mut memory);
            assert_eq!(status, HsaStatus::SUCCESS, "flags that nobody knows choose nothing");
        }
        assert!(memory.addr().is_multiple_of(4096));
        assert_eq!(free(memory), HsaStatus::SUCCESS);
    });
}

#[test]
fn only_the_start_of_an_allocation_is_freed_and_only_once() {
    every_release(|hsa| {
        let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 100).unwrap();
        assert_eq!(free(memory.wrapping_byte_add(64)), HsaStatus::ERROR_INVALID_ALLOCATION);
        assert_eq!(free(memory), HsaStatus::SUCCESS);
        assert_eq!(free(memory), HsaStatus::ERROR_INVALID_ALLOCATION);
        assert_eq!(free(ptr::null_mut()), HsaStatus::SUCCESS);
    });
}

fn allow(memory: *const c_void, agents: &[HsaAgent]) -> HsaStatus {
    // SAFETY: the list is as long as said.
    unsafe { hsa_amd_agents_allow_access(agents.len() as u32, agents.as_ptr(), ptr::null(), memory) }
}

#[test]
fn allowing_access_replaces_the_list_but_never_takes_a_gpus_own_memory_away() {
    in_environment(&[("HSA_SIM_AGENTS", "gfx942,gfx942")], |hsa| {
        let [first, second] = hsa.gpus[..] else { panic!("two GPUs") };
        let device = allocate(hsa.pool(first, HSA_GLOBAL_FLAG_COARSE_GRAINED), 4096).unwrap();
        assert_eq!(pointer_info(device).1, [first]);
        assert_eq!(allow(device, &[second]), HsaStatus::SUCCESS);
        assert_eq!(pointer_info(device).1, [first, second]);
        assert_eq!(allow(device, &[hsa.cpu]), HsaStatus::SUCCESS);
        assert_eq!(pointer_info(device).1, [first]);
        let host = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), 4096).unwrap();
        assert_eq!(pointer_info(host).1, [], "host memory is no GPU's at first");
        assert_eq!(allow(host, &[first, second]), HsaStatus::SUCCESS);
        assert_eq!(pointer_info(host).1, [first, second]);
        assert_eq!(allow(host, &[second]), HsaStatus::SUCCESS);
        assert_eq!(pointer_info(host).1, [second]);
        assert_eq!(allow(host, &[hsa.cpu]), HsaStatus::SUCCESS);
        assert_eq!(pointer_info(host).1, []);
        for memory in [device, host] {
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
    });
}

#[test]
fn access_is_allowed_to_agents_in_a_list_without_flags() {
    every_release(|hsa| {
        let memory = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), 4096).unwrap();
        let gpu = hsa.gpu();
        assert_eq!(allow(memory, &[]), HsaStatus::ERROR_INVALID_ARGUMENT);
        assert_eq!(allow(ptr::null(), &[gpu]), HsaStatus::ERROR_INVALID_ARGUMENT);
        assert_eq!(allow(memory, &[HsaAgent::NULL]), HsaStatus::ERROR_INVALID_AGENT);
        // SAFETY: null lists and flags are refused.
        unsafe {
            let status = hsa_amd_agents_allow_access(1, ptr::null(), ptr::null(), memory);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_amd_agents_allow_access(1, &gpu, &0, memory);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        assert_eq!(free(memory), HsaStatus::SUCCESS);
    });
}

#[test]
fn access_to_what_is_no_allocation_fails_differently_in_each_release() {
    for (name, status) in [("6.2", HsaStatus::ERROR), ("7.0", HsaStatus::ERROR_INVALID_ALLOCATION)] {
        release(name, |hsa| {
            let memory = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), 4096).unwrap();
            let own = 0_u64;
            assert_eq!(allow(memory.wrapping_byte_add(8), &[hsa.gpu()]), status);
            assert_eq!(allow(ptr::from_ref(&own).cast(), &[hsa.gpu()]), status);
            assert_eq!(free(memory), HsaStatus::SUCCESS);
            assert_eq!(allow(memory, &[hsa.gpu()]), status);
        });
    }
}

#[test]
fn access_to_virtual_memory_can_be_allowed_like_this_from_7_0_on() {
    const SIZE: usize = 2 << 20;
    for (name, status) in [("6.2", HsaStatus::ERROR), ("7.0", HsaStatus::SUCCESS)] {
        release(name, |hsa| {
            let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
            let (mut address, mut handle) = (ptr::null_mut(), HsaVmemAllocHandle::NULL);
            // SAFETY: valid places; the range is reserved, mapped and given back by this test only.
            unsafe {
                assert!(hsa_amd_vmem_address_reserve_align(&mut address, 2 * SIZE, 0, 0, 0).is_ok());
                assert!(hsa_amd_vmem_handle_create(pool, SIZE, HsaVmemMemoryType::NONE, 0, &mut handle).is_ok());
                assert!(hsa_amd_vmem_map(address, SIZE, 0, handle, 0).is_ok());
                assert_eq!(pointer_info(address).1, []);
                assert_eq!(allow(address.byte_add(8), &[hsa.gpu()]), status);
                assert_eq!(pointer_info(address).1.len(), usize::from(status.is_ok()));
                assert_ne!(allow(address.byte_add(SIZE), &[hsa.gpu()]), HsaStatus::SUCCESS, "nothing is mapped there");
                assert!(hsa_amd_vmem_unmap(address, SIZE).is_ok());
                assert!(hsa_amd_vmem_handle_release(handle).is_ok());
                assert!(hsa_amd_vmem_address_free(address, 2 * SIZE).is_ok());
            }
        });
    }
}

#[test]
fn locks_need_memory_a_place_and_a_list_that_is_whole_or_absent() {
    every_release(|hsa| {
        let mut own = [0_u64; 8];
        let (host, mut gpu, mut out) = (own.as_mut_ptr().cast(), hsa.gpu(), ptr::dangling_mut::<c_void>());
        let mut nobody = HsaAgent::NULL;
        let (none, wrong) = (ptr::null_mut(), HsaStatus::ERROR_INVALID_ARGUMENT);
        // SAFETY: the memory is this test's own for as long as it is locked; the rest is refused.
        unsafe {
            assert_eq!(hsa_amd_memory_lock(none, 64, &mut gpu, 1, &mut out), wrong);
            assert_eq!(hsa_amd_memory_lock(host, 0, &mut gpu, 1, &mut out), wrong);
            assert_eq!(hsa_amd_memory_lock(host, 64, &mut gpu, 1, ptr::null_mut()), wrong);
            assert_eq!(hsa_amd_memory_lock(host, 64, &mut gpu, 0, &mut out), wrong);
            assert_eq!(hsa_amd_memory_lock(host, 64, none.cast(), 1, &mut out), wrong);
            assert_eq!(hsa_amd_memory_lock(host, 64, &mut nobody, 1, &mut out), HsaStatus::ERROR_INVALID_AGENT);
            assert_eq!(hsa_amd_memory_lock(host, 64, none.cast(), 0, &mut out), HsaStatus::SUCCESS);
            assert_eq!(out, host, "with shared virtual memory");
            assert_eq!(pointer_info(out).0.pointer_type, HsaPointerType::UNKNOWN);
            assert_eq!(hsa_amd_memory_unlock(host), HsaStatus::SUCCESS);
        }
    });
}

#[test]
fn what_is_not_mapped_cannot_be_locked() {
    every_release(|hsa| {
        // SAFETY: no other code knows of the pages.
        unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let pages = libc::mmap(ptr::null_mut(), 8192, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::munmap(pages.byte_add(4096), 4096), 0);
            let (mut gpu, mut out) = (hsa.gpu(), ptr::null_mut());
            assert_eq!(hsa_amd_memory_lock(pages, 4097, &mut gpu, 1, &mut out), HsaStatus::ERROR);
            assert_eq!(hsa_amd_memory_lock(pages, 4096, &mut gpu, 1, &mut out), HsaStatus::SUCCESS);
            assert_eq!(hsa_amd_memory_unlock(pages), HsaStatus::SUCCESS);
            assert_eq!(libc::munmap(pages, 4096), 0);
        }
    });
}

#[test]
fn without_shared_virtual_memory_locking_moves_memory_and_is_counted() {
    in_environment(&[("HSA_SIM_AGENTS", "gfx1100:svm=no")], |hsa| {
        let mut own = [0_u64; 8];
        let (host, mut gpu, mut out) = (own.as_mut_ptr().cast(), hsa.gpu(), ptr::null_mut());
        // SAFETY: the memory is this test's own for as long as it is locked.
        unsafe {
            for _ in 0..2 {
                assert_eq!(hsa_amd_memory_lock(host, 64, &mut gpu, 1, &mut out), HsaStatus::SUCCESS);
            }
            let (info, agents) = pointer_info(out);
            assert_eq!((info.pointer_type, info.agent_owner), (HsaPointerType::LOCKED, hsa.cpu));
            assert_ne!(out, host);
            assert_eq!(out.addr() % 4096, host.addr() % 4096);
            assert_eq!((info.agent_base_address, info.host_base_address, info.size_in_bytes), (out, host, 64));
            assert_eq!(pointer_info(host).0.agent_base_address, out, "it is found by either address");
            assert_eq!(agents, [gpu]);
            assert_eq!(hsa_amd_pointer_info_set_userdata(out, host), HsaStatus::SUCCESS);
            assert_eq!(hsa_amd_memory_unlock(host), HsaStatus::SUCCESS);
            assert_eq!(pointer_info(out).0.user_data, host);
            assert_eq!(hsa_amd_memory_unlock(host), HsaStatus::SUCCESS);
        }
        assert_eq!(pointer_info(host).0.pointer_type, HsaPointerType::UNKNOWN);
    });
}

#[test]
fn pointers_have_the_size_asked_for_and_a_host_address_even_without_host_access() {
    every_release(|hsa| {
        let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 100).unwrap();
        let (info, agents) = pointer_info(memory.wrapping_byte_add(99));
        assert_eq!((info.pointer_type, info.size_in_bytes), (HsaPointerType::HSA, 100));
        assert_eq!((info.agent_base_address, info.host_base_address), (memory, memory));
        assert_eq!((info.agent_owner, agents), (hsa.gpu(), vec![hsa.gpu()]));
        assert_eq!(info.global_flags, HSA_GLOBAL_FLAG_COARSE_GRAINED);
        assert_eq!(pointer_info(memory.wrapping_byte_add(100)).0.pointer_type, HsaPointerType::UNKNOWN);
        assert_eq!(free(memory), HsaStatus::SUCCESS);
        assert_eq!(pointer_info(memory).0.pointer_type, HsaPointerType::UNKNOWN);
    });
}

#[test]
fn pointers_need_an_address_and_room_for_the_answer() {
    every_release(|hsa| {
        let memory = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), 100).unwrap();
        let mut info = empty_pointer_info();
        let (none, wrong) = (ptr::null_mut::<c_void>(), HsaStatus::ERROR_INVALID_ARGUMENT);
        // SAFETY: the places are valid or refused.
        unsafe {
            assert_eq!(hsa_amd_pointer_info(ptr::null(), &mut info, None, none.cast(), none.cast()), wrong);
            assert_eq!(hsa_amd_pointer_info(memory, ptr::null_mut(), None, none.cast(), none.cast()), wrong);
            info.size = 0;
            assert_eq!(hsa_amd_pointer_info(memory, &mut info, None, none.cast(), none.cast()), wrong);
            info.size = 8;
            assert_eq!(hsa_amd_pointer_info(memory, &mut info, None, none.cast(), none.cast()), HsaStatus::SUCCESS);
        }
        assert_eq!((info.size, info.pointer_type), (8, HsaPointerType::HSA));
        assert!(info.agent_base_address.is_null(), "what has no room is left out");
        assert_eq!(free(memory), HsaStatus::SUCCESS);
    });
}

#[test]
fn copies_from_and_to_null_are_refused_even_if_empty() {
    every_release(|_| {
        let mut own = [1_u64, 2];
        let (a, b) = (own.as_mut_ptr(), own.as_mut_ptr().wrapping_add(1));
        // SAFETY: the words are this test's own; null is refused.
        unsafe {
            assert_eq!(hsa_memory_copy(ptr::null_mut(), a.cast(), 0), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_memory_copy(a.cast(), ptr::null(), 0), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_memory_copy(a.cast(), b.cast(), 0), HsaStatus::SUCCESS);
            assert_eq!(hsa_memory_copy(a.cast(), b.cast(), 8), HsaStatus::SUCCESS);
        }
        assert_eq!(own, [2, 2]);
    });
}

#[test]
fn asynchronous_copies_are_checked_and_empty_ones_never_signal() {
    every_release(|hsa| {
        let memory = hsa.host_memory::<u64>(2);
        let (a, b) = (memory.cast::<c_void>(), memory.wrapping_add(1).cast::<c_void>().cast_const());
        let (done, gate, gpu) = (signal(1), signal(0), hsa.gpu());
        let (null, none) = (ptr::null_mut(), HsaAgent::NULL);
        let copy = |dst, agent, src, size, count, list: *const HsaSignal, done| {
            // SAFETY: the ranges are this test's own, and wrong arguments are refused.
            unsafe { hsa_amd_memory_async_copy(dst, agent, src, gpu, size, count, list, done) }
        };
        let wrong = HsaStatus::ERROR_INVALID_ARGUMENT;
        assert_eq!(copy(null, gpu, b, 8, 0, ptr::null(), done), wrong);
        assert_eq!(copy(a, gpu, ptr::null(), 8, 0, ptr::null(), done), wrong);
        assert_eq!(copy(a, gpu, b, 8, 0, &gate, done), wrong);
        assert_eq!(copy(a, gpu, b, 8, 1, ptr::null(), done), wrong);
        assert_eq!(copy(a, gpu, b, 8, 0, ptr::null(), HsaSignal::NULL), wrong);
        assert_eq!(copy(a, gpu, b, 8, 1, &HsaSignal::NULL, done), wrong);
        assert_eq!(copy(a, none, b, 8, 0, ptr::null(), done), HsaStatus::ERROR_INVALID_AGENT);
        assert_eq!(copy(a, gpu, b, 0, 1, &gate, done), HsaStatus::SUCCESS);
        assert_eq!(copy(a, gpu, b, 8, 1, &gate, done), HsaStatus::SUCCESS);
        wait_for(done, 0);
        for signal in [done, gate] {
            // SAFETY: destroyed once.
            assert_eq!(unsafe { hsa_signal_destroy(signal) }, HsaStatus::SUCCESS);
        }
        assert_eq!(free(a), HsaStatus::SUCCESS);
    });
}
