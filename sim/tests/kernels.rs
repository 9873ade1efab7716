// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Loading code objects and running kernels. The kernels are `kernels/kernels.c`.

mod common;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

static GFX942: &[u8] = include_bytes!("kernels/kernels.gfx942.co");

#[test]
fn a_kernel_fills_memory() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(1);
    let out = hsa.host_memory::<u32>(1000);
    let args = kernargs(&hsa, FillArgs { out, value: 7, count: 1000 });
    queue.submit(&code.packet("fill", 16, args, done));
    wait_for(done, 0);
    assert_eq!(read(out, 1000), (7..1007).collect::<Vec<_>>());
    assert_eq!(free(out.cast()), HsaStatus::SUCCESS);
    assert_eq!(free(args), HsaStatus::SUCCESS);
    destroy(&[done]);
}

#[test]
fn kernels_find_relocated_variables() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let table: u64 = code.info("test_table", HsaExecutableSymbolInfo::VARIABLE_ADDRESS);
    let pointer: u64 = code.info("test_pointer", HsaExecutableSymbolInfo::VARIABLE_ADDRESS);
    assert_eq!(code.info::<u32>("test_table", HsaExecutableSymbolInfo::VARIABLE_SIZE), 16);
    let mut seen = 0_u64;
    // SAFETY: both variables are 8 bytes or more.
    unsafe {
        let from = ptr::with_exposed_provenance(pointer as usize);
        assert!(hsa_memory_copy(as_data(&mut seen), from, 8).is_ok());
        assert_eq!(seen, table + 8);
        let to = ptr::with_exposed_provenance_mut(table as usize);
        assert!(hsa_memory_copy(to, ptr::from_ref(&10_u32).cast(), 4).is_ok());
    }
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(1);
    let out = hsa.host_memory::<u32>(4);
    let args = kernargs(&hsa, out);
    queue.submit(&code.packet("read_table", 1, args, done));
    wait_for(done, 0);
    assert_eq!(read(out, 4), [30, 6, 9, 12]);
    destroy(&[done]);
}

#[test]
fn kernels_on_several_queues_share_atomics() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queues = [Queue::new(hsa.gpu(), 64), Queue::new(hsa.gpu(), 64)];
    let done = signal(20);
    let counter = hsa.host_memory::<u32>(1);
    let args = kernargs(&hsa, counter);
    for _ in 0..10 {
        for queue in &queues {
            queue.submit(&code.packet("count_items", 8, args, done));
        }
    }
    wait_for(done, 0);
    assert_eq!(read(counter, 1), [20 * 8 * 64]);
    destroy(&[done]);
}

/// The GPU holds all workgroups of both kernels at the same time.
#[test]
fn kernels_of_one_queue_wait_for_those_of_another() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queues = [Queue::new(hsa.gpu(), 64), Queue::new(hsa.gpu(), 64)];
    let done = signal(2);
    let flag = hsa.host_memory::<u32>(1);
    queues[0].submit(&code.packet("spin", 4, kernargs(&hsa, flag), done));
    queues[1].submit(&code.packet("fill", 1, kernargs(&hsa, FillArgs { out: flag, value: 1, count: 1 }), done));
    wait_for(done, 0);
    destroy(&[done]);
}

#[test]
fn an_empty_grid_completes() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(1);
    let counter = hsa.host_memory::<u32>(1);
    queue.submit(&code.packet("count_items", 0, kernargs(&hsa, counter), done));
    wait_for(done, 0);
    assert_eq!(read(counter, 1), [0]);
    destroy(&[done]);
}

/// Runs a kernel that must fault at `address`, and returns the runtime's message.
fn expect_fault(hsa: &Hsa, packet: &KernelDispatchPacket, address: u64) -> String {
    hsa.handle_faults();
    let queue = Queue::new(hsa.gpu(), 64);
    queue.submit(packet);
    queue.wait_stopped(HsaStatus::ERROR_MEMORY_FAULT);
    // The program is told the page.
    let event = (hsa.gpu().handle, address & !0xfff, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT);
    let start = Instant::now();
    while FAULTS.lock().unwrap().is_empty() {
        assert!(start.elapsed() < TIMEOUT, "the program is told of no fault");
        thread::yield_now();
    }
    assert_eq!(*FAULTS.lock().unwrap(), [event]);
    queue.fault()
}

#[test]
fn accesses_beyond_an_allocation_fault_at_the_exact_byte() {
    passes_alone("accesses_beyond_an_allocation_fault_at_the_exact_byte", "gfx1100", || {
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let done = signal(1);
        let out = hsa.host_memory::<u32>(63);
        let args = kernargs(&hsa, FillArgs { out, value: 0, count: 64 });
        let packet = code.packet("fill", 1, args, done);
        let text = expect_fault(&hsa, &packet, out.addr() as u64 + 252);
        for part in
            ["kernel fill", "global_store_b32", "[dc6a0000 007c0001]", "0 bytes past the end of an allocation of 252"]
        {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert_eq!(load(done), 1);
        destroy(&[done]);
    });
}

#[test]
fn accesses_to_freed_memory_fault() {
    passes_alone("accesses_to_freed_memory_fault", "gfx1100", || {
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let out = hsa.host_memory::<u32>(64);
        assert_eq!(free(out.cast()), HsaStatus::SUCCESS);
        let args = kernargs(&hsa, FillArgs { out, value: 0, count: 64 });
        let packet = code.packet("fill", 1, args, HsaSignal::NULL);
        expect_fault(&hsa, &packet, out.addr() as u64);
    });
}

#[test]
fn accesses_without_permission_fault() {
    passes_alone("accesses_without_permission_fault", "gfx1100", || {
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let pool = hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED);
        let out: *mut u32 = allocate(pool, 256).unwrap().cast();
        let args = kernargs(&hsa, FillArgs { out, value: 0, count: 64 });
        let packet = code.packet("fill", 1, args, HsaSignal::NULL);
        let text = expect_fault(&hsa, &packet, out.addr() as u64);
        assert!(text.contains("agent 1 was given no access"), "{text}");
    });
}

/// The packet processor reads kernel arguments with the agent's access rights.
#[test]
fn kernel_arguments_without_permission_fault() {
    passes_alone("kernel_arguments_without_permission_fault", "gfx1100", || {
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let pool = hsa.pool(hsa.cpu, HSA_GLOBAL_FLAG_FINE_GRAINED);
        let args: *mut c_void = allocate(pool, 16).unwrap();
        let packet = code.packet("fill", 1, args, HsaSignal::NULL);
        let text = expect_fault(&hsa, &packet, args.addr() as u64);
        assert!(text.contains("16 bytes of kernel arguments"), "{text}");
    });
}

#[test]
fn locked_host_memory_is_accessible() {
    fill_locked_memory(true);
}

#[test]
fn locked_host_memory_is_accessible_elsewhere_without_shared_virtual_memory() {
    let name = "locked_host_memory_is_accessible_elsewhere_without_shared_virtual_memory";
    passes_alone(name, "gfx1100:svm=no", || fill_locked_memory(false));
}

fn fill_locked_memory(stays: bool) {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(1);
    let mut own = vec![0_u32; 64];
    let own_ptr = own.as_mut_ptr();
    let mut out = ptr::null_mut();
    // SAFETY: the vector outlives the lock and is only looked at after the kernel.
    unsafe {
        assert!(hsa_amd_memory_lock(own_ptr.cast(), 256, &mut hsa.gpu(), 1, &mut out).is_ok());
        assert_eq!(out == own_ptr.cast(), stays);
        let args = kernargs(&hsa, FillArgs { out: out.cast(), value: 1, count: 64 });
        queue.submit(&code.packet("fill", 1, args, done));
        wait_for(done, 0);
        assert!(hsa_amd_memory_unlock(own_ptr.cast()).is_ok());
        assert_eq!(read(own_ptr, 64), (1..65).collect::<Vec<_>>());
        drop(own);
    }
    destroy(&[done]);
}

/// The thread of callbacks also provides scratch memory.
#[test]
fn a_queue_that_wants_scratch_memory_waits_for_callbacks_to_end() {
    static IN_CALLBACK: AtomicBool = AtomicBool::new(false);
    static MAY_END: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn block(_: HsaStatus, _: *mut HsaQueue, _: *mut std::ffi::c_void) {
        IN_CALLBACK.store(true, Ordering::SeqCst);
        while !MAY_END.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let (first, scratch, later) = (signal(1), signal(1), signal(1));
    let mut failing = ptr::null_mut();
    let kind = HsaQueueType::MULTI;
    // SAFETY: the output is a valid place.
    let status = unsafe { hsa_queue_create(hsa.gpu(), 64, kind, Some(block), ptr::null_mut(), 0, 0, &mut failing) };
    assert_eq!(status, HsaStatus::SUCCESS);
    let failing = Queue { queue: failing.cast(), errors: Box::default() };
    let mut packet = barrier_and(&[], HsaSignal::NULL);
    packet.header = PacketHeader(0x42);
    failing.submit(&packet);
    while !IN_CALLBACK.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    let queue = Queue::new(hsa.gpu(), 64);
    let fill = |done, private| {
        let out = hsa.host_memory::<u32>(64);
        let args = kernargs(&hsa, FillArgs { out, value: 1, count: 64 });
        let mut packet = code.packet("fill", 1, args, done);
        packet.private_segment_size = private;
        packet
    };
    queue.submit(&fill(first, 0));
    wait_for(first, 0);
    queue.submit(&fill(scratch, 16));
    queue.submit(&barrier_and(&[], later));
    assert_eq!(queue.read_index().load(Ordering::Acquire), 1);
    assert_eq!((load(scratch), load(later)), (1, 1));
    MAY_END.store(true, Ordering::SeqCst);
    wait_for(later, 0);
    queue.submit(&fill(first, 16));
    wait_for(first, -1);
    drop((queue, failing));
    for done in [first, scratch, later] {
        destroy(&[done]);
    }
}

#[test]
fn a_queue_with_an_endless_kernel_can_be_destroyed() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let (started, done) = (signal(1), signal(1));
    let flag = hsa.host_memory::<u32>(1);
    let queue = Queue::new(hsa.gpu(), 64);
    queue.submit(&barrier_and(&[], started));
    queue.submit(&code.packet("spin", 1, kernargs(&hsa, flag), done));
    wait_for(started, 0);
    drop(queue);
    assert_eq!(load(done), 1);
    destroy(&[started]);
    destroy(&[done]);
}

/// ROCR removes the hardware queue before it returns (`amd_aql_queue.cpp`, Inactivate). A kernel that could end after
/// that does not.
#[test]
fn nothing_of_a_queue_runs_once_it_is_inactivated() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    for _ in 0..50 {
        let (started, done) = (signal(1), signal(1));
        let flag = hsa.host_memory::<u32>(1);
        let queue = Queue::new(hsa.gpu(), 64);
        queue.submit(&barrier_and(&[], started));
        queue.submit(&code.packet("spin", 1, kernargs(&hsa, flag), done));
        wait_for(started, 0);
        // Most likely the kernel is under way then; if not, it must not begin.
        (0..50).for_each(|_| thread::yield_now());
        // SAFETY: a live queue, and memory of the host that kernels read.
        unsafe {
            assert_eq!(hsa_queue_inactivate(queue.queue.cast()), HsaStatus::SUCCESS);
            flag.write_volatile(1);
        }
        (0..50).for_each(|_| thread::yield_now());
        assert!(queue.errors.lock().unwrap().is_empty(), "nobody is told");
        drop(queue);
        assert_eq!(load(done), 1);
        destroy(&[started]);
        destroy(&[done]);
    }
}

/// The user sets the time limit of kernels. The queue's error contains the kernel's progress until then.
#[test]
fn a_kernel_that_runs_too_long_fails_its_queue() {
    passes_alone("a_kernel_that_runs_too_long_fails_its_queue", "gfx1100", || {
        // SAFETY: this process runs this test alone, and no other thread looks at the environment yet.
        unsafe { std::env::set_var("HSA_SIM_TIMEOUT", "1") };
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let flag = hsa.host_memory::<u32>(1);
        let done = signal(1);
        let queue = Queue::new(hsa.gpu(), 64);
        queue.submit(&code.packet("spin", 3, kernargs(&hsa, flag), done));
        queue.wait_stopped(HsaStatus::ERROR_EXCEPTION);
        let text = queue.fault();
        for part in [
            "HSA_SIM_TIMEOUT=1",
            "kernel spin",
            "at pc 0x",
            "workgroup (",
            "0 of the workgroup's 2 waves had ended",
            "of 3 workgroups",
        ] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert_eq!(load(done), 1);
        // Other queues go on.
        let other = Queue::new(hsa.gpu(), 64);
        other.submit(&barrier_and(&[], done));
        wait_for(done, 0);
        destroy(&[done]);
    });
}

/// A program that fetches the text of a fault shows it itself, and should not show it twice.
#[test]
fn faults_are_printed_until_the_program_fetches_one() {
    let said = alone("faults_are_printed_until_the_program_fetches_one", "gfx1100", || {
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let args = kernargs(&hsa, FillArgs { out: ptr::null_mut(), value: 0, count: 0 });
        let fail = || {
            let queue = Queue::new(hsa.gpu(), 64);
            queue.submit(&code.packet("fill", 1, args.wrapping_byte_add(8), HsaSignal::NULL));
            assert_eq!(queue.wait_error(), HsaStatus::ERROR_INVALID_PACKET_FORMAT);
            queue
        };
        assert!(fail().fault().contains("16-byte aligned"));
        fail();
    });
    if let Some((status, text)) = said {
        assert!(status.success(), "{text}");
        assert_eq!(text.matches("16-byte aligned").count(), 1, "{text}");
    }
}

#[test]
fn dispatches_are_checked_against_their_kernel() {
    passes_alone("dispatches_are_checked_against_their_kernel", "gfx1100", || {
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let args = kernargs(&hsa, FillArgs { out: ptr::null_mut(), value: 0, count: 0 });
        let refuse = |args: *mut c_void, status, text: &str| {
            let queue = Queue::new(hsa.gpu(), 64);
            queue.submit(&code.packet("fill", 1, args, HsaSignal::NULL));
            queue.wait_stopped(status);
            assert!(queue.fault().contains(text), "{}", queue.fault());
        };
        hsa.handle_faults();
        let misaligned = args.wrapping_byte_add(8);
        refuse(misaligned, HsaStatus::ERROR_INVALID_PACKET_FORMAT, "16-byte aligned");
        refuse(ptr::null_mut(), HsaStatus::ERROR_MEMORY_FAULT, "kernel arguments");
    });
}

#[test]
fn symbols_are_found_by_name_and_kind() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    for name in ["fill", "nothing.kd", ""] {
        assert_eq!(code.symbol(name), Err(HsaStatus::ERROR_INVALID_SYMBOL_NAME));
    }
    let size: u32 = code.info("fill.kd", HsaExecutableSymbolInfo::KERNEL_KERNARG_SEGMENT_SIZE);
    assert_eq!(size, 16);
    let mut value = 0_u64;
    // SAFETY: the value is as large as the attributes.
    unsafe {
        let symbol = code.symbol("test_table").unwrap();
        let attribute = HsaExecutableSymbolInfo::KERNEL_KERNARG_SEGMENT_SIZE;
        let status = hsa_executable_symbol_get_info(symbol, attribute, as_data(&mut value));
        assert_eq!(status, HsaStatus::ERROR_INVALID_ARGUMENT);
        let unknown = HsaExecutableSymbol { handle: u64::MAX };
        let status = hsa_executable_symbol_get_info(unknown, attribute, as_data(&mut value));
        assert_eq!(status, HsaStatus::ERROR_INVALID_EXECUTABLE_SYMBOL);
    }
}

#[test]
fn the_loader_extension_tells_where_code_is() {
    unsafe extern "C" fn collect(_: HsaExecutable, object: HsaLoadedCodeObject, data: *mut c_void) -> HsaStatus {
        // SAFETY: the test passes a vector of this type.
        unsafe { (*data.cast::<Vec<HsaLoadedCodeObject>>()).push(object) };
        HsaStatus::SUCCESS
    }
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let mut objects = Vec::<HsaLoadedCodeObject>::new();
    let (mut minor, mut supported) = (0, false);
    let mut table = std::mem::MaybeUninit::<HsaVenAmdLoaderTable>::uninit();
    let (mut base, mut size, mut agent) = (0_u64, 0_u64, HsaAgent::NULL);
    // SAFETY: every output has its attribute's type.
    unsafe {
        let loader = HsaExtension::AMD_LOADER;
        assert!(hsa_system_major_extension_supported(loader, 1, &mut minor, &mut supported).is_ok());
        assert!(supported && minor >= 1);
        let (length, out) = (size_of_val(&table), table.as_mut_ptr().cast());
        assert!(hsa_system_get_major_extension_table(loader, 1, length, out).is_ok());
        let table = table.assume_init();
        let iterate = table.executable_iterate_loaded_code_objects.unwrap();
        assert!(iterate(code.executable, Some(collect), as_data(&mut objects)).is_ok());
        let info = table.loaded_code_object_get_info.unwrap();
        let object = objects[0];
        assert!(info(object, HsaLoadedCodeObjectInfo::LOAD_BASE, as_data(&mut base)).is_ok());
        assert!(info(object, HsaLoadedCodeObjectInfo::LOAD_SIZE, as_data(&mut size)).is_ok());
        assert!(info(object, HsaLoadedCodeObjectInfo::AGENT, as_data(&mut agent)).is_ok());
    }
    assert_eq!((objects.len(), agent), (1, hsa.gpu()));
    let kernel: u64 = code.info("fill.kd", HsaExecutableSymbolInfo::KERNEL_OBJECT);
    assert!((base..base + size).contains(&kernel));
}

#[test]
fn code_for_another_target_is_refused() {
    let hsa = Hsa::new();
    let status = load_code(hsa.gpu(), GFX942).err();
    assert_eq!(status, Some(HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS));
}

#[test]
fn truncated_code_objects_are_refused_or_load() {
    let hsa = Hsa::new();
    // Section headers are last in the file, so that every cut loses something that is needed.
    for length in (1..GFX11.len()).step_by(97) {
        let status = load_code(hsa.gpu(), &GFX11[..length]).err();
        assert_eq!(status, Some(HsaStatus::ERROR_INVALID_CODE_OBJECT), "{length} bytes");
    }
}

#[test]
fn corrupted_code_objects_never_crash() {
    let hsa = Hsa::new();
    let mut refused = 0;
    for position in (0..GFX11.len()).step_by(3) {
        for value in [0x00, 0x7f, 0xff] {
            let mut bytes = GFX11.to_vec();
            if bytes[position] == value {
                continue;
            }
            bytes[position] = value;
            refused += usize::from(load_code(hsa.gpu(), &bytes).is_err());
        }
    }
    assert!(refused > 100, "{refused}");
}
