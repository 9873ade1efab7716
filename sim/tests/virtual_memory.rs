// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Virtual memory, shared virtual memory, user data, and failures of sharing with other processes.

mod common;

use std::ffi::c_void;
use std::ptr;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

const PAGE: usize = 4096;
const OK: HsaStatus = HsaStatus::SUCCESS;

fn reserve(size: usize, alignment: u64) -> *mut c_void {
    let mut va = ptr::null_mut();
    // SAFETY: the output is a valid place.
    assert_eq!(unsafe { hsa_amd_vmem_address_reserve_align(&mut va, size, 0, alignment, 0) }, OK);
    va
}

fn create(pool: HsaMemoryPool, size: usize) -> Result<HsaVmemAllocHandle, HsaStatus> {
    let mut handle = HsaVmemAllocHandle::NULL;
    // SAFETY: the output is a valid place.
    match unsafe { hsa_amd_vmem_handle_create(pool, size, HsaVmemMemoryType::NONE, 0, &mut handle) } {
        OK => Ok(handle),
        status => Err(status),
    }
}

fn map(va: *mut c_void, size: usize, handle: HsaVmemAllocHandle) -> HsaStatus {
    // SAFETY: the runtime checks its arguments.
    unsafe { hsa_amd_vmem_map(va, size, 0, handle, 0) }
}

fn set_access(va: *mut c_void, size: usize, rights: &[(HsaAgent, HsaAccessPermission)]) -> HsaStatus {
    let list: Vec<_> =
        rights.iter().map(|&(agent_handle, permissions)| HsaMemoryAccessDesc { permissions, agent_handle }).collect();
    // SAFETY: the list is valid; the runtime checks the rest.
    unsafe { hsa_amd_vmem_set_access(va, size, list.as_ptr(), list.len()) }
}

fn pointer_info(pointer: *const c_void) -> HsaPointerInfo {
    // SAFETY: every field may be zero.
    let mut info: HsaPointerInfo = unsafe { std::mem::zeroed() };
    info.size = size_of::<HsaPointerInfo>() as u32;
    // SAFETY: the output is a valid place.
    let status = unsafe { hsa_amd_pointer_info(pointer, &mut info, None, ptr::null_mut(), ptr::null_mut()) };
    assert_eq!(status, OK);
    info
}

/// Fills 64 words with `value`, `value + 1` and so on by a kernel on `gpu`. Returns the text of its fault, which
/// disables the GPU.
fn fill(hsa: &Hsa, gpu: HsaAgent, out: *mut c_void, value: u32) -> Result<(), String> {
    let executable = load_code(gpu, GFX11).unwrap();
    let queue = Queue::new(gpu, 64);
    let done = signal(1);
    let arguments = kernargs(hsa, FillArgs { out: out.cast(), value, count: 64 });
    queue.submit(&executable.packet("fill", 1, arguments, done));
    let start = std::time::Instant::now();
    while load(done) != 0 && queue.fault().is_empty() {
        assert!(start.elapsed() < TIMEOUT);
        std::thread::yield_now();
    }
    let fault = queue.fault();
    assert_eq!(free(arguments), OK);
    // SAFETY: destroyed once.
    assert_eq!(unsafe { hsa_signal_destroy(done) }, OK);
    if fault.is_empty() { Ok(()) } else { Err(fault) }
}

#[test]
fn memory_can_be_mapped_at_several_addresses() {
    let hsa = Hsa::new();
    let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
    let size: usize = pool_info(pool, HsaMemoryPoolInfo::RUNTIME_ALLOC_REC_GRANULE);
    let va = reserve(3 * size, size as u64);
    assert!(va.addr().is_multiple_of(size));
    assert_eq!(pointer_info(va).pointer_type, HsaPointerType::RESERVED_ADDR);
    assert_eq!(pointer_info(va.wrapping_byte_add(5)).size_in_bytes, 3 * size);

    let handle = create(pool, size).unwrap();
    let parts = [0, 1, 2].map(|part| va.wrapping_byte_add(part * size));
    for part in parts {
        assert_eq!(map(part, size, handle), OK);
        assert_eq!(set_access(part, size, &[(hsa.gpu(), HsaAccessPermission::RW)]), OK);
    }
    let info = pointer_info(parts[1].wrapping_byte_add(8));
    assert_eq!((info.pointer_type, info.agent_owner), (HsaPointerType::HSA_VMEM, hsa.gpu()));
    assert_eq!((info.agent_base_address, info.size_in_bytes), (parts[1], size));
    assert_eq!((info.host_base_address, info.global_flags), (ptr::null_mut(), HSA_GLOBAL_FLAG_COARSE_GRAINED));

    fill(&hsa, hsa.gpu(), parts[0], 7).unwrap();
    assert_eq!(read(parts[2].cast(), 2), [7, 8]);
    // A ring is copied over its end as if it went on.
    let text = *b"around the corner";
    // SAFETY: the mappings follow each other.
    unsafe {
        let target = parts[1].wrapping_byte_sub(8);
        assert_eq!(hsa_memory_copy(target, text.as_ptr().cast(), text.len()), OK);
        assert_eq!(std::slice::from_raw_parts(parts[2].cast::<u8>(), 9), &text[8..]);
        let past = parts[2].wrapping_byte_add(size - 8);
        assert_eq!(hsa_memory_copy(past, text.as_ptr().cast(), text.len()), HsaStatus::ERROR_INVALID_ARGUMENT);
    }

    // SAFETY: the runtime checks its arguments; nothing uses the memory any more.
    unsafe {
        assert_eq!(hsa_amd_vmem_handle_release(handle), OK);
        assert_eq!(hsa_amd_vmem_handle_release(handle), HsaStatus::ERROR_INVALID_ALLOCATION);
        assert_eq!(map(va, size, handle), HsaStatus::ERROR_INVALID_ARGUMENT);
        assert_eq!(read(parts[1].cast(), 1), [u32::from_le_bytes(*b"he c")], "mapped memory outlives its handle");
        assert_eq!(hsa_amd_vmem_address_free(va, 3 * size), HsaStatus::ERROR_RESOURCE_FREE);
        for part in parts {
            assert_eq!(hsa_amd_vmem_unmap(part, size), OK);
        }
        assert_eq!(hsa_amd_vmem_unmap(va, size), HsaStatus::ERROR_INVALID_ALLOCATION);
        assert_eq!(hsa_amd_vmem_address_free(va, size), HsaStatus::ERROR_INVALID_ARGUMENT);
        assert_eq!(hsa_amd_vmem_address_free(va, 3 * size), OK);
        assert_eq!(hsa_amd_vmem_address_free(va, 3 * size), HsaStatus::ERROR_INVALID_ALLOCATION);
    }
    assert_eq!(pointer_info(va).pointer_type, HsaPointerType::UNKNOWN);
}

#[test]
fn kernels_are_held_to_the_access_that_was_set() {
    // One GPU for each fault, and one for the allowed accesses.
    let agents = "gfx1100,gfx1100,gfx1100,gfx1100,gfx1100";
    passes_alone("kernels_are_held_to_the_access_that_was_set", agents, || {
        let hsa = Hsa::new();
        hsa.handle_faults();
        let &[gpu, without, reader, barred, late] = hsa.gpus.as_slice() else { panic!("five GPUs") };
        let handle = create(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), PAGE).unwrap();
        let va = reserve(PAGE, 0);
        assert_eq!(map(va, PAGE, handle), OK);
        // SAFETY: nothing is copied, and no agent has access.
        unsafe {
            assert_eq!(hsa_memory_copy(va, [1].as_ptr().cast(), 4), HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let refused = fill(&hsa, without, va, 1).unwrap_err();
        assert!(refused.contains("given no access"), "{refused}");
        for (gpu, permissions) in [(reader, HsaAccessPermission::RO), (barred, HsaAccessPermission::NONE)] {
            assert_eq!(set_access(va, PAGE, &[(gpu, permissions)]), OK);
            assert!(fill(&hsa, gpu, va, 1).is_err(), "{permissions:?}");
        }
        for (value, permissions) in [(2, HsaAccessPermission::WO), (3, HsaAccessPermission::RW)] {
            assert_eq!(set_access(va, PAGE, &[(gpu, permissions)]), OK);
            fill(&hsa, gpu, va, value).unwrap();
            assert_eq!(read(va.cast(), 2), [value, value + 1]);
        }
        let unknown = set_access(va, PAGE, &[(gpu, HsaAccessPermission(4))]);
        assert_eq!(unknown, HsaStatus::ERROR_INVALID_ARGUMENT);
        let nobody = set_access(va, PAGE, &[(HsaAgent::NULL, HsaAccessPermission::RW)]);
        assert_eq!(nobody, HsaStatus::ERROR_INVALID_AGENT);
        // SAFETY: nothing uses the memory any more.
        unsafe {
            assert_eq!(hsa_amd_vmem_unmap(va, PAGE), OK);
            assert!(fill(&hsa, late, va, 1).unwrap_err().contains("nothing is mapped there"));
            assert_eq!(hsa_amd_vmem_handle_release(handle), OK);
            assert_eq!(hsa_amd_vmem_address_free(va, PAGE), OK);
        }
    });
}

#[test]
fn impossible_virtual_memory_is_refused() {
    let hsa = Hsa::new();
    let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
    let invalid = HsaStatus::ERROR_INVALID_ARGUMENT;
    assert_eq!(create(pool, 0), Err(invalid));
    assert_eq!(create(pool, PAGE + 1), Err(invalid));
    assert_eq!(create(pool, usize::MAX & !(PAGE - 1)), Err(HsaStatus::ERROR_INVALID_ALLOCATION));
    assert_eq!(create(HsaMemoryPool::NULL, PAGE), Err(HsaStatus::ERROR_INVALID_MEMORY_POOL));
    let mut va = ptr::null_mut();
    for (size, alignment) in [(0, 0), (100, 0), (PAGE, 3), (PAGE, 64)] {
        // SAFETY: the output is a valid place.
        let status = unsafe { hsa_amd_vmem_address_reserve_align(&mut va, size, 0, alignment, 0) };
        assert_eq!(status, invalid, "{size} {alignment}");
    }
    let handle = create(pool, PAGE).unwrap();
    let va = reserve(2 * PAGE, 0);
    assert_eq!(map(va.wrapping_byte_add(8), PAGE, handle), invalid);
    assert_eq!(map(va.wrapping_byte_add(2 * PAGE), PAGE, handle), invalid);
    assert_eq!(map(va, 2 * PAGE, handle), invalid);
    assert_eq!(map(va, PAGE, HsaVmemAllocHandle::NULL), invalid);
    assert_eq!(map(va, PAGE, handle), OK);
    assert_eq!(map(va, PAGE, handle), invalid, "something is mapped there");
    let rights = [(hsa.gpu(), HsaAccessPermission::RW)];
    assert_eq!(set_access(va, 2 * PAGE, &rights), invalid);
    assert_eq!(set_access(va.wrapping_byte_add(PAGE), PAGE, &rights), HsaStatus::ERROR_INVALID_ALLOCATION);
    // SAFETY: the runtime checks its arguments.
    unsafe {
        assert_eq!(hsa_amd_memory_pool_free(va), HsaStatus::ERROR_INVALID_ALLOCATION);
        assert_eq!(hsa_amd_vmem_unmap(va, 2 * PAGE), invalid);
        assert_eq!(hsa_amd_vmem_unmap(va, PAGE), OK);
        assert_eq!(hsa_amd_vmem_handle_release(handle), OK);
        assert_eq!(hsa_amd_vmem_address_free(va, 2 * PAGE), OK);
    }
}

#[test]
fn a_mapped_descriptor_is_for_the_listed_gpus_alone() {
    // The second GPU's fault disables it.
    passes_alone("a_mapped_descriptor_is_for_the_listed_gpus_alone", "gfx1100,gfx1100", || {
        let hsa = Hsa::new();
        hsa.handle_faults();
        let &[gpu, owner] = hsa.gpus.as_slice() else { panic!("two GPUs") };
        let memory = allocate(hsa.pool(owner, HSA_GLOBAL_FLAG_COARSE_GRAINED), 256).unwrap();
        let (mut file, mut offset, mut size, mut mapped, none) = (-1, 0, 0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: the outputs are valid places.
        let there = unsafe {
            assert_eq!(hsa_amd_portable_export_dmabuf(memory, 256, &mut file, &mut offset), OK);
            let (agents, data) = (&mut { gpu }, ptr::null_mut());
            assert_eq!(hsa_amd_interop_map_buffer(1, agents, file, 0, &mut size, &mut mapped, none, data), OK);
            mapped.byte_add(offset as usize)
        };
        fill(&hsa, gpu, there, 7).unwrap();
        assert_eq!(read(memory.cast(), 2), [7, 8]);
        assert!(fill(&hsa, owner, there, 9).unwrap_err().contains("given no access"));
        assert_eq!(read(memory.cast(), 2), [7, 8]);
        // SAFETY: nothing uses the memory any more.
        unsafe {
            assert_eq!(hsa_amd_interop_unmap_buffer(mapped), OK);
            assert_eq!(hsa_amd_portable_close_dmabuf(file), OK);
        }
        assert!(fill(&hsa, gpu, there, 9).is_err());
        assert_eq!(free(memory), OK);
    });
}

#[test]
fn shared_virtual_memory_needs_no_pool() {
    passes_alone("shared_virtual_memory_needs_no_pool", "gfx1100,gfx1100,gfx1100", share_without_a_pool);
}

/// A fault disables each GPU at the end.
fn share_without_a_pool() {
    let hsa = Hsa::new();
    hsa.handle_faults();
    let &[gpu, stranger, reader] = hsa.gpus.as_slice() else { panic!("three GPUs") };
    let mut memory = vec![0_u32; 4 * PAGE / 4];
    let own = ptr::from_mut(&mut *memory).cast::<c_void>();
    let own = own.wrapping_byte_add(own.align_offset(PAGE));
    let pair = |attribute, value| HsaSvmAttributePair { attribute, value };
    // SAFETY: the list is valid.
    let set = |mut list: Vec<_>| unsafe { hsa_amd_svm_attributes_set(own, 256, list.as_mut_ptr(), list.len()) };
    let accessible = pair(HsaSvmAttribute::AGENT_ACCESSIBLE, gpu.handle);
    assert!(fill(&hsa, stranger, own, 1).is_err());
    assert_eq!(set(vec![accessible]), OK);
    fill(&hsa, gpu, own, 2).unwrap();
    assert_eq!(read(own.cast(), 2), [2, 3]);
    let readable = pair(HsaSvmAttribute::AGENT_ACCESSIBLE, reader.handle);
    assert_eq!(set(vec![readable, pair(HsaSvmAttribute::READ_ONLY, 1)]), OK);
    assert!(fill(&hsa, reader, own, 3).is_err());
    assert_eq!(set(vec![pair(HsaSvmAttribute(0x77), 1)]), HsaStatus::ERROR_INVALID_ARGUMENT);
    assert_eq!(pointer_info(own).pointer_type, HsaPointerType::UNKNOWN);

    let (gate, done) = (signal(1), signal(1));
    let mut list = [pair(HsaSvmAttribute::PREFETCH_LOCATION, 1), pair(HsaSvmAttribute::ACCESS_QUERY, gpu.handle)];
    // SAFETY: the range, the signals and the lists are valid.
    unsafe {
        assert_eq!(hsa_amd_svm_prefetch_async(own, 8, gpu, 1, &gate, done), OK);
        store(gate, 0);
        wait_for(done, 0);
        assert_eq!(hsa_amd_svm_attributes_get(own, PAGE, list.as_mut_ptr(), 2), OK);
        assert_eq!(list, [pair(HsaSvmAttribute::PREFETCH_LOCATION, gpu.handle), accessible]);
        let null = ptr::null_mut();
        assert_eq!(hsa_amd_svm_attributes_get(null, 8, list.as_mut_ptr(), 2), HsaStatus::ERROR_INVALID_ARGUMENT);
        assert_eq!(set(vec![pair(HsaSvmAttribute::AGENT_NO_ACCESS, gpu.handle)]), OK);
        for signal in [gate, done] {
            assert_eq!(hsa_signal_destroy(signal), OK);
        }
    }
    assert!(fill(&hsa, gpu, own, 4).is_err());
}

#[test]
fn programs_attach_their_data_to_memory() {
    let hsa = Hsa::new();
    let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 100).unwrap();
    let mut mine = 5;
    let data = as_data(&mut mine);
    // SAFETY: the runtime checks its arguments.
    unsafe {
        assert_eq!(pointer_info(memory).user_data, ptr::null_mut());
        assert_eq!(hsa_amd_pointer_info_set_userdata(memory, data), OK);
        assert_eq!(pointer_info(memory.wrapping_byte_add(99)).user_data, data);
        let inside = memory.wrapping_byte_add(1);
        assert_eq!(hsa_amd_pointer_info_set_userdata(inside, data), HsaStatus::ERROR_INVALID_ARGUMENT);

        let pool = hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_COARSE_GRAINED);
        let mut locked = ptr::null_mut();
        let lock =
            |agents, count, pool, flags, out| hsa_amd_memory_lock_to_pool(data, 4, agents, count, pool, flags, out);
        assert_eq!(lock(&mut hsa.gpu(), 1, pool, 0, &mut locked), OK);
        assert_eq!(hsa_amd_pointer_info_set_userdata(locked, memory), HsaStatus::ERROR_INVALID_ARGUMENT);
        assert_eq!(hsa_amd_memory_unlock(data), OK);
        let device = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
        let none = ptr::null_mut();
        assert_eq!(lock(none, 0, device, 0, &mut locked), HsaStatus::ERROR_INVALID_MEMORY_POOL);
        assert_eq!(lock(none, 0, pool, 1, &mut locked), HsaStatus::ERROR_INVALID_ARGUMENT);
        assert_eq!(lock(none, 1, pool, 0, &mut locked), HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    assert_eq!(free(memory), OK);
}

#[test]
fn what_cannot_be_shared_says_so() {
    let hsa = Hsa::new();
    let device = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 100).unwrap();
    let host = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), 100).unwrap();
    let invalid = HsaStatus::ERROR_INVALID_ARGUMENT;
    let (mut file, mut offset, handle) = (-1, 0, HsaIpcHandle::default());
    let (mut size, mut mapped) = (0, ptr::null_mut());
    let mut memory = HsaVmemAllocHandle::NULL;
    // SAFETY: the outputs are valid places; the runtime checks the rest.
    unsafe {
        let status = hsa_amd_portable_export_dmabuf(host, 100, &mut file, &mut offset);
        assert_eq!(status, HsaStatus::ERROR_INVALID_AGENT);
        assert_eq!(file, -1);
        assert_eq!(hsa_amd_portable_close_dmabuf(-1), HsaStatus::ERROR_RESOURCE_FREE);
        assert_eq!(hsa_amd_ipc_memory_attach(&handle, 100, 0, ptr::null(), &mut mapped), invalid);
        assert_eq!(hsa_amd_ipc_memory_detach(device), invalid);
        // A descriptor is for one of the two ways.
        let (agents, none) = (&mut hsa.gpu(), ptr::null_mut());
        assert_eq!(hsa_amd_portable_export_dmabuf(device, 100, &mut file, &mut offset), OK);
        let status = hsa_amd_vmem_import_shareable_handle(file, &mut memory);
        assert_eq!(status, HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS);
        assert_eq!(hsa_amd_portable_close_dmabuf(file), OK);
        memory = create(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), PAGE).unwrap();
        assert_eq!(hsa_amd_vmem_export_shareable_handle(&mut file, memory, 0), OK);
        let status = hsa_amd_interop_map_buffer(1, agents, file, 0, &mut size, &mut mapped, none, ptr::null_mut());
        assert_eq!(status, HsaStatus::ERROR);
        assert_eq!(hsa_amd_portable_close_dmabuf(file), OK);
        assert_eq!(hsa_amd_vmem_handle_release(memory), OK);
    }
    assert_eq!((free(device), free(host)), (OK, OK));
}
