// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Descriptors of device memory: DMA-BUFs.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use crate::common::*;
use crate::{every_release, in_environment};

const OK: HsaStatus = HsaStatus::SUCCESS;
const INVALID: HsaStatus = HsaStatus::ERROR_INVALID_ARGUMENT;

const PAGE: usize = 4096;

/// Bytes of the blocks that ROCR allocates device memory in.
const BLOCK: usize = 2 << 20;

/// Exports `size` bytes from `pointer` on. Descriptor and offset stay as they were on failure.
fn export(pointer: *const c_void, size: usize) -> Result<(c_int, usize), HsaStatus> {
    let (mut fd, mut offset) = (-7, 77);
    // SAFETY: the outputs are valid places; the runtime looks the pointer up.
    match unsafe { hsa_amd_portable_export_dmabuf(pointer, size, &mut fd, &mut offset) } {
        OK => Ok((fd, offset as usize)),
        status => {
            assert_eq!((fd, offset), (-7, 77));
            Err(status)
        }
    }
}

/// Maps a descriptor for some agents, and returns the address, the size, and the size of the metadata.
fn map(fd: c_int, agents: &[HsaAgent]) -> Result<(*mut c_void, usize, usize), HsaStatus> {
    let (mut size, mut mapped, mut metadata_size, mut metadata) = (0, ptr::null_mut(), 7, ptr::null());
    let (agents, count) = (agents.as_ptr().cast_mut(), agents.len() as u32);
    // SAFETY: the outputs are valid places; the runtime checks the descriptor.
    match unsafe {
        hsa_amd_interop_map_buffer(count, agents, fd, 0, &mut size, &mut mapped, &mut metadata_size, &mut metadata)
    } {
        OK => {
            assert!(!metadata.is_null());
            Ok((mapped, size, metadata_size))
        }
        status => Err(status),
    }
}

fn unmap(mapped: *mut c_void) {
    // SAFETY: the runtime looks the pointer up; nothing uses the memory any more.
    assert_eq!(unsafe { hsa_amd_interop_unmap_buffer(mapped) }, OK);
}

fn close(fd: c_int) -> HsaStatus {
    // SAFETY: the tests own their descriptors.
    unsafe { hsa_amd_portable_close_dmabuf(fd) }
}

fn pointer_type(pointer: *const c_void) -> HsaPointerType {
    // SAFETY: every field may be zero, and the output is a valid place.
    unsafe {
        let mut info: HsaPointerInfo = std::mem::zeroed();
        info.size = size_of::<HsaPointerInfo>() as u32;
        assert_eq!(hsa_amd_pointer_info(pointer, &mut info, None, ptr::null_mut(), ptr::null_mut()), OK);
        info.pointer_type
    }
}

#[test]
fn another_process_maps_memory_by_its_descriptor() {
    const DESCRIPTOR: &str = "SIM_TEST_DMABUF";
    if let Ok(words) = std::env::var(DESCRIPTOR) {
        let words: Vec<usize> = words.split(' ').map(|word| word.parse().unwrap()).collect();
        in_environment(&[], |hsa| {
            let fd = words[0] as c_int;
            let (mapped, size, metadata_size) = map(fd, &[hsa.gpu()]).unwrap();
            assert_eq!((size, metadata_size, mapped.addr() % (256 << 10)), (BLOCK, 0, 0));
            assert_eq!(close(fd), OK);
            let word = mapped.wrapping_byte_add(words[1]).cast::<u32>();
            // SAFETY: the word is mapped, and the other process waits.
            unsafe {
                assert_eq!(word.read_volatile(), 0x1111);
                word.write_volatile(0x2222);
            }
            assert_eq!(pointer_type(word.cast()), HsaPointerType::GRAPHICS);
            // Neither more access nor the end of the memory is for those that only map it.
            allow_access(mapped, &[hsa.gpu()]);
            assert_eq!(free(mapped), INVALID);
            unmap(mapped);
            assert_eq!(pointer_type(mapped), HsaPointerType::UNKNOWN);
            unmap(mapped);
            unmap(ptr::null_mut());
        });
        return;
    }
    every_release(|hsa| {
        let mut is_supported = false;
        // SAFETY: the output has room for the attribute.
        let status =
            unsafe { hsa_system_get_info(HsaSystemInfo::AMD_DMABUF_SUPPORTED, (&raw mut is_supported).cast()) };
        assert_eq!((status, is_supported), (OK, true));
        let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 100).unwrap();
        let word = memory.cast::<u32>().wrapping_add(3);
        // SAFETY: the memory has these bytes.
        unsafe { word.write_volatile(0x1111) };
        let (fd, offset) = export(word.cast(), 88).unwrap();
        assert_ne!(offset, 12, "other memory of the block is in front of it");
        // SAFETY: the descriptor is open; the copy is inherited.
        let inherited = unsafe {
            assert_eq!(libc::fcntl(fd, libc::F_GETFD), libc::FD_CLOEXEC);
            assert_eq!(libc::read(fd, word.cast(), 4), -1, "a DMA-BUF is no file to read");
            libc::dup(fd)
        };
        let name = std::thread::current().name().unwrap().to_owned();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let child = child.args([&name, "--exact"]).env(DESCRIPTOR, format!("{inherited} {offset}"));
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: the memory has these bytes.
        assert_eq!(unsafe { word.read_volatile() }, 0x2222);
        // The memory outlives its allocation, as long as there is a descriptor or a mapping.
        assert_eq!((free(memory), close(inherited)), (OK, OK));
        assert_eq!(export(word.cast(), 88), Err(HsaStatus::ERROR_INVALID_ALLOCATION));
        let (mapped, ..) = map(fd, &[hsa.gpu()]).unwrap();
        assert_eq!((close(fd), close(fd)), (OK, HsaStatus::ERROR_RESOURCE_FREE));
        assert_eq!(map(fd, &[hsa.gpu()]), Err(HsaStatus::ERROR));
        // SAFETY: the word is mapped.
        assert_eq!(unsafe { mapped.wrapping_byte_add(offset).cast::<u32>().read_volatile() }, 0x2222);
        unmap(mapped);
    });
}

#[test]
fn kernel_drivers_before_1_12_make_no_descriptors() {
    for (release, status) in [("6.2", HsaStatus::ERROR), ("7.0", HsaStatus::ERROR_OUT_OF_RESOURCES)] {
        in_environment(&[("HSA_SIM_ROCR", release), ("HSA_SIM_AGENTS", "gfx1100:dmabuf=no")], |hsa| {
            let mut is_supported = true;
            // SAFETY: the output has room for the attribute.
            let told =
                unsafe { hsa_system_get_info(HsaSystemInfo::AMD_DMABUF_SUPPORTED, (&raw mut is_supported).cast()) };
            assert_eq!((told, is_supported), (OK, false));
            let memory = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), BLOCK).unwrap();
            assert_eq!(export(memory, BLOCK), Err(status), "{release}");
            assert_eq!(free(memory), OK);
        });
    }
}

#[test]
fn only_ranges_of_device_memory_have_descriptors() {
    every_release(|hsa| {
        let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
        let (device, block) = (allocate(pool, 100).unwrap(), allocate(pool, BLOCK + 1).unwrap());
        let host = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), 100).unwrap();
        let outside = HsaStatus::ERROR_INVALID_ALLOCATION;
        // The runtime counts pages.
        for (pointer, size, status) in [
            (ptr::null_mut(), 1, INVALID),
            (device, 0, INVALID),
            (device, PAGE + 1, outside),
            (device.wrapping_byte_add(PAGE), 1, outside),
            (device.wrapping_byte_add(1), usize::MAX, outside),
            (ptr::from_ref(&pool).cast_mut().cast(), 1, outside),
            (host, PAGE + 1, outside),
            (host, 100, HsaStatus::ERROR_INVALID_AGENT),
        ] {
            assert_eq!(export(pointer, size), Err(status), "{size} bytes at {pointer:p}");
        }
        let (fd, first) = export(device, PAGE).unwrap();
        assert_eq!(first % PAGE, 0);
        let (again, last) = export(device.wrapping_byte_add(PAGE - 1), 1).unwrap();
        assert_eq!(last, first + PAGE - 1);
        let (large, offset) = export(block, BLOCK + 1).unwrap();
        assert_eq!(offset, 0, "a block of its own");
        let (mapped, size, _) = map(large, &[hsa.gpu()]).unwrap();
        assert_eq!(size, 2 * BLOCK);
        assert_eq!(export(mapped, 1), Err(outside));
        unmap(mapped);
        let (mut executable, mut locked, mut mine) = (ptr::null_mut(), ptr::null_mut(), 5_u32);
        // SAFETY: the outputs are valid places, and the locked memory stays.
        unsafe {
            let flags = HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG;
            assert_eq!(hsa_amd_memory_pool_allocate(pool, PAGE, flags, &mut executable), OK);
            let mine = ptr::from_mut(&mut mine).cast();
            assert_eq!(hsa_amd_memory_lock(mine, 4, ptr::null_mut(), 0, &mut locked), OK);
            assert_eq!(export(locked, 4), Err(outside));
            assert_eq!(hsa_amd_memory_unlock(mine), OK);
        }
        let (own, offset) = export(executable, PAGE).unwrap();
        assert_eq!(offset, 0, "executable memory shares no block");
        let (mapped, size, _) = map(own, &[hsa.gpu()]).unwrap();
        assert_eq!(size, PAGE);
        unmap(mapped);
        assert_eq!([fd, again, large, own].map(close), [OK; 4]);
        assert_eq!([device, block, host, executable].map(free), [OK; 4]);
    });
}

#[test]
fn only_descriptors_of_device_memory_are_mapped() {
    let agents = [("HSA_SIM_AGENTS", "gfx1100:peers=no,gfx1100:peers=no")];
    in_environment(&agents, |hsa| {
        let memory = allocate(hsa.pool(hsa.gpus[0], HSA_GLOBAL_FLAG_COARSE_GRAINED), 100).unwrap();
        let (fd, _) = export(memory, 100).unwrap();
        let null = File::open("/dev/null").unwrap();
        for foreign in [-1, null.as_raw_fd()] {
            assert_eq!(map(foreign, &hsa.gpus[..1]), Err(HsaStatus::ERROR));
        }
        assert_eq!(map(fd, &[HsaAgent::NULL]), Err(HsaStatus::ERROR_INVALID_AGENT));
        for unable in [hsa.cpu, hsa.gpus[1]] {
            assert_eq!(map(fd, &[hsa.gpus[0], unable]), Err(HsaStatus::ERROR_OUT_OF_RESOURCES));
        }
        let (mut size, mut mapped, none) = (0, ptr::null_mut(), ptr::null_mut());
        let gpu: *mut HsaAgent = &mut hsa.gpu();
        // SAFETY: null, or valid places.
        unsafe {
            for (count, agents, flags, size, mapped) in [
                (0, gpu, 0, &raw mut size, &raw mut mapped),
                (1, none, 0, &raw mut size, &raw mut mapped),
                (1, gpu, 1, &raw mut size, &raw mut mapped),
                (1, gpu, 0, ptr::null_mut(), &raw mut mapped),
                (1, gpu, 0, &raw mut size, ptr::null_mut()),
            ] {
                let (metadata_size, metadata) = (ptr::null_mut(), ptr::null_mut());
                let status =
                    hsa_amd_interop_map_buffer(count, agents, fd, flags, size, mapped, metadata_size, metadata);
                assert_eq!(status, INVALID);
            }
            assert_eq!((size, mapped), (0, ptr::null_mut()));
        }
        assert_eq!((close(fd), free(memory)), (OK, OK));
    });
    // SAFETY: the descriptor is this test's; the runtime is shut down.
    let fd = unsafe { libc::dup(2) };
    assert_eq!((close(fd), close(fd)), (OK, HsaStatus::ERROR_RESOURCE_FREE), "any descriptor, at any time");
}
