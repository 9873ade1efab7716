// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Functions that HIP and the programs of ROCm use, and this driver does not.

use std::collections::BTreeSet;
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::time::Instant;

use hsa_abi::*;
use hsa_runtime64::hsa::*;

use crate::code::for_gfx1100;
use crate::common::code::load_code;
use crate::common::*;
use crate::{every_release, in_environment};

const OK: HsaStatus = HsaStatus::SUCCESS;

/// Values that a handler was called with, and how often it is to be called.
struct Calls {
    values: Mutex<Vec<i64>>,
    wanted: usize,
}

impl Calls {
    fn wait(&self) -> Vec<i64> {
        let start = Instant::now();
        while self.values.lock().unwrap().len() < self.wanted {
            assert!(start.elapsed() < TIMEOUT, "the handler is not called");
            std::thread::yield_now();
        }
        self.values.lock().unwrap().clone()
    }
}

unsafe extern "C" fn note(value: i64, calls: *mut c_void) -> bool {
    // SAFETY: the tests register the handler with their `Calls`.
    let calls = unsafe { &*calls.cast::<Calls>() };
    let mut values = calls.values.lock().unwrap();
    values.push(value);
    values.len() < calls.wanted
}

fn handle(signal: HsaSignal, condition: HsaSignalCondition, operand: i64, calls: &Calls) -> HsaStatus {
    let calls = ptr::from_ref(calls).cast_mut().cast();
    // SAFETY: the handler gets the argument that it expects, which outlives the runtime.
    unsafe { hsa_amd_signal_async_handler(signal, condition, operand, Some(note), calls) }
}

#[test]
fn a_handler_is_called_with_the_value_until_it_returns_false() {
    let calls = Calls { values: Mutex::default(), wanted: 3 };
    let once = Calls { values: Mutex::default(), wanted: 1 };
    every_release(|hsa| {
        calls.values.lock().unwrap().clear();
        once.values.lock().unwrap().clear();
        let (first, second) = (signal(2), signal(1));
        assert_eq!(handle(first, HsaSignalCondition::LT, 1, &calls), OK);
        assert_eq!(handle(second, HsaSignalCondition::EQ, 0, &once), OK);
        // The handler keeps its signal.
        destroy(&[second]);
        store(second, 0);
        assert_eq!(once.wait(), [0]);
        let queue = Queue::new(hsa.gpu(), 64);
        queue.submit(&barrier_and(&[], first));
        queue.submit(&barrier_and(&[], first));
        assert_eq!(calls.wait(), [0; 3]);
        drop(queue);
        destroy(&[first]);
    });
}

#[test]
fn handlers_need_a_function_and_a_signal_with_an_interrupt() {
    let calls = Calls { values: Mutex::default(), wanted: 1 };
    every_release(|_| {
        let mut polled = HsaSignal::NULL;
        // SAFETY: the output is a valid place; wrong arguments are refused.
        unsafe {
            let status = hsa_amd_signal_create(1, 0, ptr::null(), HSA_AMD_SIGNAL_AMD_GPU_ONLY, &mut polled);
            assert_eq!(status, OK);
            let status = hsa_amd_signal_async_handler(polled, HsaSignalCondition::EQ, 0, None, ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        assert_eq!(handle(polled, HsaSignalCondition::EQ, 0, &calls), HsaStatus::ERROR_INVALID_SIGNAL);
        assert_eq!(handle(HsaSignal::NULL, HsaSignalCondition::EQ, 0, &calls), HsaStatus::ERROR_INVALID_ARGUMENT);
        destroy(&[polled]);
        assert_eq!(handle(polled, HsaSignalCondition::EQ, 0, &calls), HsaStatus::ERROR_INVALID_SIGNAL);
    });
    in_environment(&[("HSA_ENABLE_INTERRUPT", "0")], |_| {
        let polled = signal(0);
        assert_eq!(handle(polled, HsaSignalCondition::EQ, 0, &calls), OK);
        assert_eq!(calls.wait(), [0]);
        destroy(&[polled]);
    });
}

#[test]
fn signals_without_an_interrupt_give_away_their_value() {
    every_release(|_| {
        let (with, mut without, mut value) = (signal(1), HsaSignal::NULL, ptr::null_mut());
        // SAFETY: the outputs are valid places, and the value lives as long as its signal.
        unsafe {
            assert_eq!(hsa_amd_signal_create(5, 0, ptr::null(), HSA_AMD_SIGNAL_AMD_GPU_ONLY, &mut without), OK);
            assert_eq!(hsa_amd_signal_value_pointer(with, &mut value), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_amd_signal_value_pointer(without, ptr::null_mut()), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_amd_signal_value_pointer(without, &mut value), OK);
            assert_eq!(value.read_volatile(), 5);
        }
        destroy(&[with, without]);
    });
}

#[test]
fn engines_copy_and_are_free() {
    in_environment(&[("HSA_SIM_AGENTS", "gfx90a,gfx1100")], |hsa| {
        let (mi, navi, done) = (hsa.gpus[0], hsa.gpus[1], signal(4));
        let from = hsa.host_memory::<u32>(16);
        let to = hsa.host_memory::<u32>(16);
        let mut mask = 0;
        let status = |dst, src, mask: &mut u32| {
            // SAFETY: the output is a valid place.
            unsafe { hsa_amd_memory_copy_engine_status(dst, src, mask) }
        };
        assert_eq!((status(mi, hsa.cpu, &mut mask), mask), (OK, 3));
        assert_eq!((status(hsa.cpu, mi, &mut mask), mask), (OK, 2));
        assert_eq!((status(hsa.cpu, navi, &mut mask), mask), (OK, 3));
        assert_eq!(status(navi, navi, &mut mask), HsaStatus::ERROR_INVALID_AGENT);
        // SAFETY: the memory has 16 words.
        unsafe { from.write(77) };
        let copy = |dst, src, engine| {
            let (a, b) = (to.cast(), from.cast_const().cast());
            // SAFETY: the ranges are this test's own, and wrong arguments are refused.
            unsafe { hsa_amd_memory_async_copy_on_engine(a, dst, b, src, 64, 0, ptr::null(), done, engine, false) }
        };
        for engine in [0, 3, 4] {
            assert_eq!(copy(mi, hsa.cpu, engine), HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        assert_eq!(copy(hsa.cpu, mi, 1), HsaStatus::ERROR_INVALID_ARGUMENT, "kept for copies from the host");
        assert_eq!(copy(hsa.cpu, hsa.cpu, 1), HsaStatus::ERROR_INVALID_AGENT);
        for (dst, src, engine) in [(mi, hsa.cpu, 1), (hsa.cpu, mi, 2), (hsa.cpu, navi, 1), (navi, navi, 2)] {
            assert_eq!(copy(dst, src, engine), OK);
        }
        wait_for(done, 0);
        // SAFETY: the memory has 16 words.
        assert_eq!(unsafe { to.read() }, 77);
        assert!([from, to].iter().all(|memory| free(memory.cast()) == OK));
        destroy(&[done]);
    });
}

#[test]
fn rectangles_are_copied_row_by_row() {
    every_release(|hsa| {
        const ROW: usize = 16;
        let (from, to, done) = (hsa.host_memory::<u8>(4 * ROW * 3), hsa.host_memory::<u8>(4 * ROW * 3), signal(2));
        // SAFETY: the memory has these bytes.
        let bytes = |memory: *mut u8| unsafe { std::slice::from_raw_parts_mut(memory, 4 * ROW * 3) };
        bytes(from).iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        let at = |base: *mut u8, pitch, slice| HsaPitchedPtr { base: base.cast(), pitch, slice };
        let whole = |memory| at(memory, ROW, 4 * ROW);
        let dim = |x, y, z| HsaDim3 { x, y, z };
        let copy = |dst: HsaPitchedPtr, dst_offset, src: HsaPitchedPtr, src_offset, range, agent, direction| {
            // SAFETY: the ranges are this test's own, and wrong arguments are refused.
            unsafe {
                let (signals, none) = (ptr::null(), 0);
                hsa_amd_memory_async_copy_rect(
                    &dst,
                    &dst_offset,
                    &src,
                    &src_offset,
                    &range,
                    agent,
                    direction,
                    none,
                    signals,
                    done,
                )
            }
        };
        let (gpu, in_gpu, zero) = (hsa.gpu(), HsaCopyDirection::DEVICE_TO_DEVICE, dim(0, 0, 0));
        let refused = HsaStatus::ERROR_INVALID_ARGUMENT;
        let small = dim(4, 2, 2);
        let host = HsaCopyDirection::HOST_TO_HOST;
        assert_eq!(copy(whole(to), zero, whole(from), zero, small, gpu, host), refused);
        let cpu = copy(whole(to), zero, whole(from), zero, small, hsa.cpu, in_gpu);
        assert_eq!(cpu, HsaStatus::ERROR_INVALID_AGENT);
        for odd in [at(to.wrapping_add(2), ROW, 64), at(to, 18, 64), at(to, ROW, 66), at(to, ROW, 0), at(to, 0, 0)] {
            assert_eq!(copy(odd, zero, whole(from), zero, small, gpu, in_gpu), refused, "{odd:?}");
        }
        assert_eq!(copy(whole(to), dim(13, 0, 0), whole(from), zero, small, gpu, in_gpu), refused, "too wide");
        assert_eq!(copy(whole(to), dim(0, 3, 0), whole(from), zero, small, gpu, in_gpu), refused, "too high");
        assert_eq!(copy(whole(to), zero, whole(from), zero, dim(4, 0, 1), gpu, in_gpu), OK, "empty, not signalled");
        assert_eq!(copy(whole(to), dim(1, 2, 1), whole(from), dim(3, 0, 0), dim(5, 2, 2), gpu, in_gpu), OK);
        assert_eq!(copy(at(to, ROW, 0), zero, at(from, ROW, 0), dim(0, 1, 0), dim(2, 1, 1), gpu, in_gpu), OK);
        wait_for(done, 0);
        let mut expected = vec![0; 4 * ROW * 3];
        for (z, y, x) in (0..20).map(|i| (i / 10, i / 5 % 2, i % 5)) {
            expected[(z + 1) * 64 + (y + 2) * ROW + x + 1] = (z * 64 + y * ROW + x + 3) as u8;
        }
        expected[..2].copy_from_slice(&[16, 17]);
        assert_eq!(bytes(to), expected);
        assert!([from, to].iter().all(|memory| free(memory.cast()) == OK));
        destroy(&[done]);
    });
}

#[test]
fn copies_are_timed_on_request() {
    every_release(|hsa| {
        let (memory, first, second) = (hsa.host_memory::<u64>(16), signal(1), signal(1));
        let mut time = HsaProfilingAsyncCopyTime::default();
        let copy = |done| {
            let (gpu, to, from) = (hsa.gpu(), memory.cast(), memory.wrapping_add(8).cast_const().cast());
            // SAFETY: the ranges are this test's own.
            assert_eq!(unsafe { hsa_amd_memory_async_copy(to, gpu, from, gpu, 64, 0, ptr::null(), done) }, OK);
            wait_for(done, 0);
        };
        // SAFETY: the outputs are valid places; wrong arguments are refused.
        unsafe {
            copy(first);
            assert_eq!(hsa_amd_profiling_get_async_copy_time(first, &mut time), HsaStatus::ERROR);
            assert_eq!(hsa_amd_profiling_async_copy_enable(true), OK);
            let mut before = 0_u64;
            assert_eq!(hsa_system_get_info(HsaSystemInfo::TIMESTAMP, as_data(&mut before)), OK);
            copy(second);
            let refused = hsa_amd_profiling_get_async_copy_time(second, ptr::null_mut());
            assert_eq!(refused, HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_amd_profiling_get_async_copy_time(second, &mut time), OK);
            // The GPU's clock counts in steps of 10 ns.
            assert!(before <= time.start + 10 && time.start <= time.end, "{before} {time:?}");
        }
        assert_eq!(free(memory.cast()), OK);
        destroy(&[first, second]);
    });
}

#[test]
fn registration_and_coherency_only_check_their_arguments() {
    every_release(|hsa| {
        let mut word = 0_u64;
        let word = as_data(&mut word);
        // SAFETY: nothing is written, and wrong arguments are refused.
        unsafe {
            assert_eq!(hsa_memory_register(word, 8), OK);
            assert_eq!(hsa_memory_register(word, 0), HsaStatus::ERROR_INVALID_ARGUMENT);
            assert_eq!(hsa_memory_deregister(word, 8), OK);
            assert_eq!(hsa_amd_coherency_set_type(hsa.gpu(), HsaCoherencyType::NONCOHERENT), OK);
            let status = hsa_amd_coherency_set_type(hsa.gpu(), HsaCoherencyType(2));
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_amd_coherency_set_type(hsa.cpu, HsaCoherencyType::COHERENT);
            assert_eq!(status, HsaStatus::ERROR_INVALID_AGENT);
        }
    });
}

#[test]
fn gpus_count_as_having_every_known_extension() {
    every_release(|hsa| {
        let mut has = false;
        // SAFETY: the outputs are valid places; wrong arguments are refused.
        unsafe {
            for (extension, major, minor, expected) in
                [(1, 1, 0, true), (0x201, 1, 0, true), (2, 1, 0, false), (1, 1, 1, false), (1, 2, 0, false)]
            {
                assert_eq!((hsa_system_extension_supported(extension, major, minor, &mut has), has), (OK, expected));
            }
            assert_eq!((hsa_agent_extension_supported(1, hsa.gpu(), 1, 0, &mut has), has), (OK, true));
            assert_eq!((hsa_agent_extension_supported(1, hsa.cpu, 1, 0, &mut has), has), (OK, false));
            let refused = HsaStatus::ERROR_INVALID_ARGUMENT;
            assert_eq!(hsa_system_extension_supported(0x300, 1, 0, &mut has), refused);
            assert_eq!(hsa_agent_extension_supported(1, hsa.gpu(), 1, 0, ptr::null_mut()), refused);
        }
    });
}

unsafe extern "C" fn push_name(_: HsaExecutable, symbol: HsaExecutableSymbol, names: *mut c_void) -> HsaStatus {
    let mut length = 0_u32;
    let mut name = vec![0_u8; 256];
    // SAFETY: the symbol is of the iteration; names here are shorter; the test passes its set.
    unsafe {
        assert_eq!(
            hsa_executable_symbol_get_info(symbol, HsaExecutableSymbolInfo::NAME_LENGTH, as_data(&mut length)),
            OK
        );
        assert_eq!(hsa_executable_symbol_get_info(symbol, HsaExecutableSymbolInfo::NAME, name.as_mut_ptr().cast()), OK);
        name.truncate(length as usize);
        (*names.cast::<BTreeSet<String>>()).insert(String::from_utf8(name).unwrap());
    }
    OK
}

unsafe extern "C" fn stop(_: HsaExecutable, _: HsaExecutableSymbol, count: *mut c_void) -> HsaStatus {
    // SAFETY: the test passes its counter.
    unsafe { *count.cast::<u32>() += 1 };
    HsaStatus::INFO_BREAK
}

#[test]
fn an_iteration_visits_every_symbol() {
    every_release(|hsa| {
        let code = load_code(hsa.gpu(), &for_gfx1100()).unwrap();
        let (mut names, mut count) = (BTreeSet::<String>::new(), 0_u32);
        // SAFETY: the callbacks get data of the expected types.
        unsafe {
            assert_eq!(hsa_executable_iterate_symbols(code.executable, Some(push_name), as_data(&mut names)), OK);
            let status = hsa_executable_iterate_symbols(code.executable, Some(stop), as_data(&mut count));
            assert_eq!((status, count), (HsaStatus::INFO_BREAK, 1));
            let status = hsa_executable_iterate_symbols(code.executable, None, ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
            let status = hsa_executable_iterate_symbols(HsaExecutable::NULL, Some(stop), as_data(&mut count));
            assert_eq!(status, HsaStatus::ERROR_INVALID_EXECUTABLE);
        }
        assert!(names.contains("fill.kd"), "{names:?}");
        assert!(names.iter().all(|name| code.symbol(name).is_ok()));
    });
}

#[test]
fn a_program_can_define_the_variables_that_a_code_object_declares() {
    let bytes = include_bytes!("../../../crates/code-object/testdata/globals-gfx1100-v5.hsaco");
    every_release(|hsa| {
        let (mut executable, mut reader) = (HsaExecutable::NULL, HsaCodeObjectReader::NULL);
        let memory = hsa.host_memory::<u32>(16);
        let name = CString::new("provided_by_loader").unwrap();
        let (name, mut symbol) = (name.as_ptr(), HsaExecutableSymbol::NULL);
        // SAFETY: the bytes outlive the reader, the outputs are valid places, and wrong arguments are refused.
        unsafe {
            let (profile, rounding) = (HsaProfile::BASE, HsaFloatRoundingMode::NEAR);
            assert_eq!(hsa_executable_create_alt(profile, rounding, ptr::null(), &mut executable), OK);
            let status = hsa_code_object_reader_create_from_memory(bytes.as_ptr().cast(), bytes.len(), &mut reader);
            assert_eq!(status, OK);
            let load =
                || hsa_executable_load_agent_code_object(executable, hsa.gpu(), reader, ptr::null(), ptr::null_mut());
            assert_eq!(load(), HsaStatus::ERROR_VARIABLE_UNDEFINED);
            let define = || hsa_executable_agent_global_variable_define(executable, hsa.gpu(), name, memory.cast());
            assert_eq!(define(), OK);
            assert_eq!(define(), HsaStatus::ERROR_VARIABLE_ALREADY_DEFINED);
            assert_eq!(load(), OK);
            assert_eq!(hsa_executable_get_symbol_by_name(executable, name, &hsa.gpu(), &mut symbol), OK);
            let mut address = 0_u64;
            let attribute = HsaExecutableSymbolInfo::VARIABLE_ADDRESS;
            assert_eq!(hsa_executable_symbol_get_info(symbol, attribute, as_data(&mut address)), OK);
            assert_eq!(address, memory.addr() as u64);
            let cursor = c"external_cursor".as_ptr();
            assert_eq!(hsa_executable_get_symbol_by_name(executable, cursor, &hsa.gpu(), &mut symbol), OK);
            assert_eq!(hsa_executable_symbol_get_info(symbol, attribute, as_data(&mut address)), OK);
            let cursor: *const u64 = ptr::with_exposed_provenance(address as usize);
            assert_eq!(cursor.read(), memory.addr() as u64);
            assert_eq!(hsa_executable_freeze(executable, ptr::null()), OK);
            assert_eq!(define(), HsaStatus::ERROR_FROZEN_EXECUTABLE);
            assert_eq!(hsa_code_object_reader_destroy(reader), OK);
            assert_eq!(hsa_executable_destroy(executable), OK);
        }
        assert_eq!(free(memory.cast()), OK);
    });
}

#[test]
fn images_are_refused() {
    every_release(|hsa| {
        let mut image = 0;
        let refused = HsaStatus::ERROR_NOT_INITIALIZED;
        // SAFETY: nothing is read or written.
        unsafe {
            let (gpu, none) = (hsa.gpu(), ptr::null());
            assert_eq!(hsa_ext_image_create(gpu, none, none, 3, &mut image), refused);
            assert_eq!(hsa_ext_sampler_create(gpu, none, &mut image), refused);
            assert_eq!(hsa_ext_image_destroy(gpu, 0), refused);
        }
        assert_eq!(agent_info::<[u32; 2]>(hsa.gpu(), HsaAgentInfo::IMAGE_2D_MAX_ELEMENTS), [16384; 2]);
        assert_eq!(agent_info::<u32>(hsa.gpu(), HsaAgentInfo::MAX_IMAGE_RORW_HANDLES), 64);
        assert_eq!(agent_info::<[u8; 128]>(hsa.gpu(), HsaAgentInfo::EXTENSIONS)[0], 2);
        assert_eq!(agent_info::<[u8; 128]>(hsa.cpu, HsaAgentInfo::EXTENSIONS)[0], 0);
    });
}

#[test]
fn blocks_of_device_memory_are_aligned_as_their_granule() {
    const BLOCK: usize = 2 << 20;
    for gpu in ["gfx1100", "gfx1151"] {
        in_environment(&[("HSA_SIM_AGENTS", gpu)], |hsa| {
            let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
            assert_eq!(pool_info::<usize>(pool, HsaMemoryPoolInfo::RUNTIME_ALLOC_REC_GRANULE), BLOCK);
            for size in [BLOCK, BLOCK + 1, 3 * BLOCK] {
                let memory = allocate(pool, size).unwrap();
                assert!(memory.addr().is_multiple_of(BLOCK), "{memory:?} on {gpu}");
                assert_eq!(free(memory), OK);
            }
        });
    }
}

#[test]
fn virtual_memory_is_shared_by_a_descriptor() {
    const SIZE: usize = 8192;
    every_release(|hsa| {
        let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
        let (mut memory, mut imported, mut fd) = (HsaVmemAllocHandle::NULL, HsaVmemAllocHandle::NULL, -1 as c_int);
        let mut places = [ptr::null_mut(); 2];
        let mut rights = HsaAccessPermission::NONE;
        // SAFETY: the outputs are valid places, wrong arguments are refused, and mapped memory is accessed.
        unsafe {
            assert_eq!(hsa_amd_vmem_handle_create(pool, SIZE, HsaVmemMemoryType::NONE, 0, &mut memory), OK);
            let unknown = HsaVmemAllocHandle { handle: 99 };
            let status = hsa_amd_vmem_export_shareable_handle(&mut fd, unknown, 0);
            assert_eq!(status, HsaStatus::ERROR_INVALID_ALLOCATION);
            assert_eq!(hsa_amd_vmem_export_shareable_handle(&mut fd, memory, 0), OK);
            let status = hsa_amd_vmem_import_shareable_handle(2, &mut imported);
            assert_eq!(status, HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS);
            assert_eq!(hsa_amd_vmem_import_shareable_handle(fd, &mut imported), OK);
            assert_eq!(libc::close(fd), 0);
            for (place, handle) in places.iter_mut().zip([memory, imported]) {
                assert_eq!(hsa_amd_vmem_address_reserve(place, SIZE, 0, 0), OK);
                let status = hsa_amd_vmem_get_access(*place, &mut rights, hsa.gpu());
                assert_eq!(status, HsaStatus::ERROR_INVALID_ALLOCATION);
                assert_eq!(hsa_amd_vmem_map(*place, SIZE, 0, handle, 0), OK);
                assert_eq!(hsa_amd_vmem_get_access(*place, &mut rights, hsa.gpu()), OK);
                assert_eq!(rights, HsaAccessPermission::NONE);
                let read_only = HsaMemoryAccessDesc { permissions: HsaAccessPermission::RO, agent_handle: hsa.gpu() };
                assert_eq!(hsa_amd_vmem_set_access(*place, SIZE, &read_only, 1), OK);
                assert_eq!(hsa_amd_vmem_get_access(place.wrapping_byte_add(5000), &mut rights, hsa.gpu()), OK);
                assert_eq!(rights, HsaAccessPermission::RO);
                let status = hsa_amd_vmem_get_access(*place, &mut rights, hsa.cpu);
                assert_eq!(status, HsaStatus::ERROR_INVALID_AGENT);
            }
            places[0].cast::<u32>().write_volatile(0x1234);
            assert_eq!(places[1].cast::<u32>().read_volatile(), 0x1234);
            for (place, handle) in places.into_iter().zip([memory, imported]) {
                assert_eq!(hsa_amd_vmem_unmap(place, SIZE), OK);
                assert_eq!(hsa_amd_vmem_handle_release(handle), OK);
                assert_eq!(hsa_amd_vmem_address_free(place, SIZE), OK);
            }
        }
    });
}

#[test]
fn agents_answer_what_rocminfo_and_hip_ask() {
    every_release(|hsa| {
        for attribute in [0xA003, 0xA005, 0xA00A, 0xA00B, 0xA00C, 0xA00D, 0xA108, 0xA109, 0xA10A, 0xA10B, 0xA110] {
            agent_info::<u32>(hsa.cpu, HsaAgentInfo(attribute));
            agent_info::<u32>(hsa.gpu(), HsaAgentInfo(attribute));
        }
        assert!(agent_info::<bool>(hsa.cpu, HsaAgentInfo::AMD_SVM_DIRECT_HOST_ACCESS));
        let units: u32 = agent_info(hsa.gpu(), HsaAgentInfo::AMD_COMPUTE_UNIT_COUNT);
        assert_eq!(agent_info::<u32>(hsa.gpu(), HsaAgentInfo::AMD_COOPERATIVE_COMPUTE_UNIT_COUNT), units);
        assert_ne!(agent_info::<u32>(hsa.gpu(), HsaAgentInfo::AMD_MEMORY_WIDTH), 0);
        assert_ne!(agent_info::<u32>(hsa.gpu(), HsaAgentInfo::AMD_MEMORY_MAX_FREQUENCY), 0);
        assert_eq!(agent_info::<u32>(hsa.gpu(), HsaAgentInfo::AMD_NUM_SDMA_ENG), 2);
        for agent in [hsa.cpu, hsa.gpu()] {
            assert_eq!(agent_info::<[u8; 8]>(agent, HsaAgentInfo::AMD_MEMORY_PROPERTIES), [0; 8]);
            assert_eq!(agent_info::<[u8; 8]>(agent, HsaAgentInfo::AMD_AQL_EXTENSIONS), [0; 8]);
        }
    });
    in_environment(&[("HSA_SIM_AGENTS", "gfx1151")], |hsa| {
        let apu = [1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(agent_info::<[u8; 8]>(hsa.gpu(), HsaAgentInfo::AMD_MEMORY_PROPERTIES), apu);
    });
}

#[test]
fn logs_of_packets_are_accepted_and_empty() {
    every_release(|_| {
        let mut flags = [1_u8, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: `flags` has the 8 bytes, and no file means standard error.
        unsafe {
            assert_eq!(hsa_amd_enable_logging(flags.as_mut_ptr(), ptr::null_mut()), OK);
            let status = hsa_amd_enable_logging(ptr::null_mut(), ptr::null_mut());
            assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        }
    });
}

#[test]
fn another_process_attaches_memory_by_its_handle() {
    const HANDLE: &str = "SIM_TEST_IPC_HANDLE";
    if let Ok(words) = std::env::var(HANDLE) {
        let words: Vec<u32> = words.split(' ').map(|word| word.parse().unwrap()).collect();
        let handle = HsaIpcHandle { handle: words.try_into().unwrap() };
        in_environment(&[], |hsa| {
            let mut there = ptr::null_mut();
            // SAFETY: the outputs are valid places, and attached memory is accessed.
            unsafe {
                assert_eq!(hsa_amd_ipc_memory_attach(&handle, 100, 1, &hsa.gpu(), &mut there), OK);
                let word = there.cast::<u32>().wrapping_add(3);
                assert_eq!(word.read_volatile(), 0x1111);
                word.write_volatile(0x2222);
                assert_eq!(pointer_info(there).0.pointer_type, HsaPointerType::IPC);
                assert_eq!(hsa_amd_ipc_memory_detach(there), OK);
            }
        });
        return;
    }
    every_release(|hsa| {
        let pool = hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED);
        let memory = allocate(pool, 100).unwrap();
        let (mut handle, mut again) = (HsaIpcHandle::default(), HsaIpcHandle::default());
        let word = memory.cast::<u32>().wrapping_add(3);
        // SAFETY: the memory has these bytes, the outputs are valid places, and wrong arguments are refused.
        unsafe {
            word.write_volatile(0x1111);
            let refused = HsaStatus::ERROR_INVALID_ARGUMENT;
            assert_eq!(hsa_amd_ipc_memory_create(memory.wrapping_byte_add(4), 96, &mut handle), refused);
            assert_eq!(hsa_amd_ipc_memory_create(memory, 99, &mut handle), refused);
            assert_eq!(hsa_amd_ipc_memory_create(memory, 100, &mut handle), OK);
            assert_eq!(hsa_amd_ipc_memory_create(memory, 4096, &mut again), OK);
            assert_eq!(handle, again);
            assert_eq!(word.read_volatile(), 0x1111);
        }
        let words = handle.handle.map(|word| word.to_string()).join(" ");
        let name = std::thread::current().name().unwrap().to_owned();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args([&name, "--exact"]).env(HANDLE, words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: the memory has these bytes.
        assert_eq!(unsafe { word.read_volatile() }, 0x2222);
        assert_eq!(free(memory), OK);
        let mut there = ptr::null_mut();
        // SAFETY: the output is a valid place.
        let late = unsafe { hsa_amd_ipc_memory_attach(&handle, 100, 0, ptr::null(), &mut there) };
        assert_eq!(late, HsaStatus::ERROR_INVALID_ARGUMENT);
    });
}

/// A signal for other processes.
fn shared_signal(value: i64) -> HsaSignal {
    let mut signal = HsaSignal::NULL;
    // SAFETY: no consumers, and the output is a valid place.
    assert_eq!(unsafe { hsa_amd_signal_create(value, 0, ptr::null(), HSA_AMD_SIGNAL_IPC, &mut signal) }, OK);
    signal
}

#[test]
fn processes_signal_each_other_by_a_shared_signal() {
    const HANDLE: &str = "SIM_TEST_IPC_SIGNAL";
    if let Ok(words) = std::env::var(HANDLE) {
        let words: Vec<u32> = words.split(' ').map(|word| word.parse().unwrap()).collect();
        let handle = HsaIpcHandle { handle: words.try_into().unwrap() };
        in_environment(&[], |hsa| {
            let mut there = HsaSignal::NULL;
            // SAFETY: the output is a valid place.
            assert_eq!(unsafe { hsa_amd_ipc_signal_attach(&handle, &mut there) }, OK);
            assert_eq!(load(there), 5);
            let (queue, done) = (Queue::new(hsa.gpu(), 64), signal(1));
            queue.submit(&barrier_and(&[there], done));
            store(there, 6);
            // The other process's barrier lowers it again, and its host opens this one's barrier.
            wait_for(done, 0);
            destroy(&[there, done]);
        });
        return;
    }
    every_release(|hsa| {
        let (alone, shared) = (signal(1), shared_signal(5));
        let mut handle = HsaIpcHandle::default();
        let refused = HsaStatus::ERROR_INVALID_ARGUMENT;
        // SAFETY: the output is a valid place, and wrong arguments are refused.
        unsafe {
            assert_eq!(hsa_amd_ipc_signal_create(alone, &mut handle), refused);
            assert_eq!(hsa_amd_ipc_signal_create(HsaSignal::NULL, &mut handle), refused);
            assert_eq!(hsa_amd_ipc_signal_create(shared, ptr::null_mut()), refused);
            assert_eq!(hsa_amd_ipc_signal_create(shared, &mut handle), OK);
        }
        let queue = Queue::new(hsa.gpu(), 64);
        let words = handle.handle.map(|word| word.to_string()).join(" ");
        let name = std::thread::current().name().unwrap().to_owned();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([&name, "--exact"]).env(HANDLE, words);
        // The child's summary must not stand among the output of this test program.
        let child = child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        wait_for(shared, 6);
        queue.submit(&barrier_and(&[], shared));
        wait_for(shared, 5);
        store(shared, 0);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // The other process has destroyed the signal for itself alone.
        assert_eq!(load(shared), 0);
        destroy(&[alone, shared]);
        let mut late = HsaSignal::NULL;
        // SAFETY: the outputs are valid places, and the handles are refused.
        unsafe {
            assert_eq!(hsa_amd_ipc_signal_attach(&handle, &mut late), refused);
            assert_eq!(hsa_amd_ipc_signal_create(shared, &mut handle), HsaStatus::ERROR_INVALID_SIGNAL);
        }
    });
}

#[test]
fn handles_of_memory_are_none_of_signals() {
    every_release(|hsa| {
        let memory = allocate(hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED), 4096).unwrap();
        let (mut handle, mut signal) = (HsaIpcHandle::default(), HsaSignal::NULL);
        // SAFETY: the outputs are valid places.
        unsafe {
            assert_eq!(hsa_amd_ipc_memory_create(memory, 4096, &mut handle), OK);
            assert_eq!(hsa_amd_ipc_signal_attach(&handle, &mut signal), HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        assert_eq!(free(memory), OK);
    });
}
