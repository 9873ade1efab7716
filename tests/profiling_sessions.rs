// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The life of profiling sessions: how they begin and end, their errors, events of host threads, and
//! threads that know nothing of them.

#[path = "support/files.rs"]
mod files;
#[path = "support/sink.rs"]
mod sink;
mod support;

use std::collections::HashSet;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, Ordering};

use amdgpu_rs::ffi::{Code, iree, raw, strings};
use files::{FileHandle, import, memory_handle, native_handle};
use raw::iree_hal_profile_device_record_t as DeviceRecord;
use raw::iree_hal_profile_dispatch_event_t as DispatchEvent;
use raw::iree_hal_profile_executable_record_t as ExecutableRecord;
use raw::iree_hal_profile_host_execution_event_t as HostEvent;
use raw::iree_hal_profile_queue_device_event_t as QueueDeviceEvent;
use raw::iree_hal_profile_queue_event_t as QueueEvent;
use sink::{KERNELS, Sink, end, flush, launch};
use support::{BufferRef, List, Rig, failure, library_path, passes_alone, wait};

const QUEUE: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_QUEUE_EVENTS;
const HOST: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_HOST_EXECUTION_EVENTS;
const DEVICE: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_QUEUE_EVENTS;
const DISPATCH: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_DISPATCH_EVENTS;
const METADATA: u32 = raw::IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_METADATA;

fn fill_and_wait(rig: &Rig, queue: u64) {
    let (buffer, done) = (rig.buffer(4), rig.semaphore());
    rig.fill(queue, &[], &[(&done, 1)], &buffer, (0, 4), &[1]).unwrap();
    wait(&done, 1).unwrap();
}

#[test]
fn sessions_do_not_nest_and_end_once() {
    let rig = Rig::new();
    let (first, second) = (Sink::new(), Sink::new());
    // Without a session there is nothing to do.
    flush(&rig).unwrap();
    end(&rig).unwrap();
    first.begin(&rig, QUEUE).unwrap();
    let status = second.begin(&rig, QUEUE).expect_err("there is one");
    assert_eq!(status.code(), Code::FAILED_PRECONDITION, "{status}");
    assert_eq!(second.seen.lock().unwrap().begun, 0);
    fill_and_wait(&rig, 1);
    end(&rig).unwrap();
    end(&rig).unwrap();
    assert_eq!((first.ended(), first.records::<QueueEvent>("queue-events").len()), (vec![Code::OK], 1));
    // The next one counts from the start, under a name of its own.
    second.begin(&rig, QUEUE).unwrap();
    fill_and_wait(&rig, 1);
    end(&rig).unwrap();
    let events: Vec<QueueEvent> = second.records("queue-events");
    assert_eq!((events.len(), events[0].event_id, events[0].submission_id), (1, 1, 1));
    assert_ne!(first.seen.lock().unwrap().session, second.seen.lock().unwrap().session);
}

#[test]
fn nothing_is_recorded_outside_of_a_session() {
    let (rig, sink) = (Rig::new(), Sink::new());
    fill_and_wait(&rig, 1);
    sink.begin(&rig, QUEUE | HOST | DEVICE | DISPATCH).unwrap();
    end(&rig).unwrap();
    let chunks = sink.contents();
    fill_and_wait(&rig, 1);
    flush(&rig).unwrap();
    assert_eq!(sink.contents(), chunks);
    assert_eq!(chunks, ["devices", "queues", "clock-correlations", "clock-correlations"]);
    let seen = sink.seen.clone();
    drop(sink);
    assert!(seen.lock().unwrap().destroyed, "the session has let go of its sink");
}

#[test]
fn an_operation_under_way_does_not_keep_the_sink() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let (buffer, gate, done) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
    sink.begin(&rig, QUEUE | DEVICE).unwrap();
    rig.fill(1, &[(&gate, 1)], &[(&done, 1)], &buffer, (0, 4), &[1]).unwrap();
    end(&rig).unwrap();
    let seen = sink.seen.clone();
    drop(sink);
    assert!(seen.lock().unwrap().destroyed);
    gate.borrow().signal(1).unwrap();
    wait(&done, 1).unwrap();
    assert!(seen.lock().unwrap().chunks.iter().all(|chunk| chunk.content != "queue-events"));
}

#[test]
fn data_that_there_is_none_of_is_refused_by_name() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let counter = strings::view("SQ_WAVES");
    // SAFETY: all-zero is a selection of nothing.
    let mut selection: raw::iree_hal_profile_counter_set_selection_t = unsafe { std::mem::zeroed() };
    (selection.counter_name_count, selection.counter_names) = (1, &raw const counter);
    let both = raw::IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_SAMPLES | raw::IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_RANGES;
    let begun = sink.begin_options(&rig, QUEUE | both, |options| {
        (options.counter_set_count, options.counter_sets) = (1, &raw const selection);
    });
    let status = begun.expect_err("unsupported");
    assert_eq!(status.code(), Code::UNIMPLEMENTED, "{status}");
    let text = "either for each dispatch (counters) or for ranges of time (counter-ranges)";
    assert!(status.to_string().contains(text), "{status}");
    assert_eq!(sink.begin(&rig, 1 << 30).expect_err("unknown").code(), Code::INVALID_ARGUMENT);
    assert_eq!(sink.seen.lock().unwrap().begun, 0);
    // Nothing asked for is no session.
    sink.begin(&rig, 0).unwrap();
    assert_eq!(sink.seen.lock().unwrap().begun, 0);
}

#[test]
fn metadata_alone_names_the_executables_there_are() {
    let rig = Rig::new();
    let kernels = rig.executable(KERNELS).unwrap();
    drop(rig.executable(KERNELS).unwrap());
    for families in [METADATA, 0] {
        let sink = Sink::new();
        sink.begin_options(&rig, families, |options| {
            if families == 0 {
                options.flags = raw::IREE_HAL_DEVICE_PROFILING_FLAG_LIGHTWEIGHT_STATISTICS;
            }
        })
        .unwrap();
        fill_and_wait(&rig, 1);
        end(&rig).unwrap();
        let executables: Vec<ExecutableRecord> = sink.records("executables");
        assert_eq!((executables.len(), executables[0].function_count), (1, 3));
        let devices: Vec<DeviceRecord> = sink.records("devices");
        assert_eq!((devices.len(), devices[0].queue_count), (1, 2));
        assert_eq!(sink.chunks("queue-events").len(), usize::from(families == 0), "statistics count operations");
    }
    drop(kernels);
}

#[test]
fn a_sink_that_fails_ends_the_session() {
    let rig = Rig::new();
    for (refuse, ended) in [("session", vec![]), ("queues", vec![Code::DATA_LOSS])] {
        let sink = Sink::new();
        sink.seen.lock().unwrap().refuse = Some(refuse);
        assert!(sink.begin(&rig, QUEUE | DEVICE).is_err(), "{refuse}");
        assert_eq!(sink.ended(), ended, "{refuse}");
    }
    let sink = Sink::new();
    sink.begin(&rig, QUEUE | DEVICE).unwrap();
    sink.seen.lock().unwrap().refuse = Some("queue-events");
    fill_and_wait(&rig, 1);
    assert_eq!(flush(&rig).expect_err("the sink refuses").code(), Code::DATA_LOSS);
    sink.seen.lock().unwrap().refuse = None;
    // Lost events stay lost.
    assert_eq!(end(&rig).expect_err("events are missing").code(), Code::DATA_LOSS);
    assert_eq!(sink.ended(), [Code::DATA_LOSS]);
    let after = Sink::new();
    after.begin(&rig, QUEUE | DEVICE).unwrap();
    fill_and_wait(&rig, 1);
    end(&rig).unwrap();
    assert_eq!(after.records::<QueueDeviceEvent>("queue-device-events").len(), 1);
}

#[test]
fn a_lost_device_ends_its_session_with_what_was_complete() {
    passes_alone("a_lost_device_ends_its_session_with_what_was_complete", "gfx1100", || {
        let (rig, sink) = (Rig::new(), Sink::new());
        let kernels = rig.executable(KERNELS).unwrap();
        let (target, done, lost) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
        sink.begin(&rig, QUEUE | HOST | DEVICE | DISPATCH).unwrap();
        launch(&rig, 1, &[(&done, 1)], &kernels, &target).unwrap();
        wait(&done, 1).unwrap();
        let far = (1_u64 << 40).to_le_bytes();
        rig.dispatch(1, &[], &[(&lost, 1)], (&kernels, "write_at"), &far, &[&target]).unwrap();
        assert_eq!(failure(&lost, 1).code(), Code::DATA_LOSS);
        end(&rig).unwrap();
        assert_eq!(sink.ended(), [Code::DATA_LOSS]);
        assert_eq!(sink.records::<DispatchEvent>("dispatch-events").len(), 1);
        assert_eq!(sink.records::<QueueDeviceEvent>("queue-device-events").len(), 1);
        let codes: Vec<_> =
            sink.records::<HostEvent>("host-execution-events").iter().map(|event| event.status_code).collect();
        assert_eq!(codes, [Code::OK.to_raw(), Code::DATA_LOSS.to_raw()]);
        let again = Sink::new();
        // A lost device has nothing to profile, and says so at its queues.
        again.begin(&rig, QUEUE).unwrap();
        end(&rig).unwrap();
        assert_eq!(again.ended(), [Code::DATA_LOSS]);
    });
}

#[test]
fn a_device_that_is_destroyed_ends_its_session() {
    let sink = Sink::new();
    let rig = Rig::new();
    sink.begin(&rig, QUEUE).unwrap();
    fill_and_wait(&rig, 1);
    drop(rig);
    assert_eq!((sink.ended(), sink.records::<QueueEvent>("queue-events").len()), (vec![Code::OK], 1));
}

#[test]
fn deferred_operations_say_so() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let (buffer, gate, done, failed) = (rig.buffer(4), rig.semaphore(), rig.semaphore(), rig.semaphore());
    sink.begin(&rig, QUEUE).unwrap();
    rig.fill(1, &[(&gate, 1)], &[(&done, 1)], &buffer, (0, 4), &[1]).unwrap();
    rig.fill(1, &[(&gate, 2)], &[(&failed, 1)], &buffer, (0, 4), &[2]).unwrap();
    gate.borrow().signal(1).unwrap();
    wait(&done, 1).unwrap();
    rig.fill(1, &[(&done, 1)], &[(&done, 2)], &buffer, (0, 4), &[1]).unwrap();
    wait(&done, 2).unwrap();
    gate.borrow().fail(amdgpu_rs::ffi::status!(ABORTED, "on purpose"));
    assert_eq!(failure(&failed, 1).code(), Code::ABORTED);
    rig.barrier(1, &[], &[(&done, 3)]).unwrap();
    wait(&done, 3).unwrap();
    end(&rig).unwrap();
    let mut events: Vec<QueueEvent> = sink.records("queue-events");
    events.sort_by_key(|event| event.submission_id);
    let (none, inline, defer) = (
        raw::IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_NONE,
        raw::IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_INLINE,
        raw::IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_SOFTWARE_DEFER,
    );
    let strategies: Vec<_> = events.iter().map(|event| event.dependency_strategy).collect();
    assert_eq!(strategies, [defer, defer, inline, none]);
    let flags: Vec<_> = events.iter().map(|event| event.flags).collect();
    assert_eq!(
        flags,
        [raw::IREE_HAL_PROFILE_QUEUE_EVENT_FLAG_SOFTWARE_DEFERRED; 2].into_iter().chain([0, 0]).collect::<Vec<_>>()
    );
    assert!(events[0].ready_host_time_ns > events[0].host_time_ns);
    assert_eq!(events[1].ready_host_time_ns, 0, "it never was");
}

/// More events than a stream keeps: the rest is counted.
#[test]
fn a_full_stream_of_queue_events_is_marked_truncated() {
    const KEPT: usize = 1 << 16;
    const LOST: usize = 100;
    let (rig, sink) = (Rig::new(), Sink::new());
    let done = rig.semaphore();
    sink.begin(&rig, QUEUE).unwrap();
    for value in 1..=(KEPT + LOST) as u64 {
        rig.barrier(1, &[], &[(&done, value)]).unwrap();
        // Never more than the rings hold, so that they complete in this order.
        if value % 512 == 0 || value == (KEPT + LOST) as u64 {
            wait(&done, value).unwrap();
        }
    }
    flush(&rig).unwrap();
    let chunks = sink.chunks("queue-events");
    assert_eq!(chunks.len(), 1);
    assert_eq!((chunks[0].truncated, chunks[0].dropped), (true, LOST as u64));
    assert_eq!(sink.records::<QueueEvent>("queue-events").len(), KEPT);
    end(&rig).unwrap();
    assert_eq!((sink.chunks("queue-events").len(), sink.ended()), (1, vec![Code::OK]));
}

/// Sessions come and go under threads that submit all the time: nothing is lost but events, and no event is wrong.
#[test]
fn threads_submit_while_sessions_begin_and_end() {
    let rig = Rig::new();
    let kernels = rig.executable(KERNELS).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (rig, kernels, stop) = (&rig, &kernels, &stop);
            scope.spawn(move || {
                let (target, done) = (rig.buffer(4), rig.semaphore());
                let mut value = 0;
                while !stop.load(Ordering::Relaxed) {
                    value += 1;
                    launch(rig, 1 << (thread % 2), &[(&done, value)], kernels, &target).unwrap();
                    wait(&done, value).unwrap();
                }
            });
        }
        let mut seen = 0;
        for _ in 0..40 {
            let sink = Sink::new();
            sink.begin(&rig, QUEUE | HOST | DEVICE | DISPATCH).unwrap();
            fill_and_wait(&rig, 1);
            flush(&rig).unwrap();
            end(&rig).unwrap();
            let events: Vec<DispatchEvent> = sink.records("dispatch-events");
            assert!(events.iter().all(|event| event.start_tick != 0 && event.start_tick <= event.end_tick));
            let submissions: HashSet<_> =
                sink.records::<QueueEvent>("queue-events").iter().map(|event| event.submission_id).collect();
            assert!(events.iter().all(|event| submissions.contains(&event.submission_id)));
            seen += events.len();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(seen > 0);
    });
}

unsafe extern "C" fn call(
    _user_data: *mut std::ffi::c_void,
    args: *const u64,
    _context: *mut raw::iree_hal_host_call_context_t,
) -> raw::iree_status_t {
    // SAFETY: four arguments.
    let code = unsafe { *args };
    match code {
        0 => std::ptr::null_mut(),
        _ => amdgpu_rs::ffi::status!(ABORTED, "on purpose").into_raw(),
    }
}

/// Host calls and files that are no memory run on host threads.
#[test]
fn work_of_host_threads_has_spans() {
    let (rig, sink) = (Rig::new(), Sink::new());
    let (buffer, done, failed) = (rig.buffer(64), rig.semaphore(), rig.semaphore());
    let (mut memory, path) = ([3_u8; 64], std::env::temp_dir().join(format!("amdgpu_rs-{}", std::process::id())));
    std::fs::write(&path, [4_u8; 64]).unwrap();
    let native = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    sink.begin(&rig, QUEUE | HOST | DEVICE).unwrap();
    for (semaphore, code) in [(&done, 0), (&failed, 1)] {
        let (waits, signals) = (List::new(&[]), List::new(&[(semaphore, 1)]));
        let call = raw::iree_hal_host_call_t { fn_: Some(call), user_data: std::ptr::null_mut() };
        let args = [code, 0, 0, 0];
        // SAFETY: live objects; the arguments are captured.
        unsafe {
            iree!(raw::iree_hal_device_queue_host_call(
                rig.device.as_ptr(),
                1,
                waits.raw(),
                signals.raw(),
                call,
                args.as_ptr(),
                0
            ))
        }
        .unwrap();
    }
    wait(&done, 1).unwrap();
    assert_eq!(failure(&failed, 1).code(), Code::ABORTED);
    let handles = [memory_handle(&mut memory), native_handle(&native, raw::IREE_IO_FILE_MODE_NONE)];
    for (value, handle) in (2..).zip(handles) {
        read(&rig, &handle, (&done, value), &buffer);
        wait(&done, value).unwrap();
        assert_eq!(rig.read(&buffer, 0, 64), [value as u8 + 1; 64]);
    }
    flush(&rig).unwrap();
    end(&rig).unwrap();
    let queue: Vec<QueueEvent> = sink.records("queue-events");
    let host: Vec<HostEvent> = sink.records("host-execution-events");
    let (call, read) = (raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_HOST_CALL, raw::IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_READ);
    let mut kinds: Vec<_> = host.iter().map(|event| (event.type_, event.status_code, event.payload_length)).collect();
    kinds.sort();
    let (ok, aborted) = (Code::OK.to_raw(), Code::ABORTED.to_raw());
    assert_eq!(kinds, [(read, ok, 64), (read, ok, 64), (call, ok, 0), (call, aborted, 0)]);
    for event in &host {
        assert!(event.start_host_time_ns <= event.end_host_time_ns);
        let submitted = queue.iter().find(|queue| queue.submission_id == event.submission_id).expect("its submission");
        assert_eq!(submitted.type_, event.type_);
        assert!(submitted.host_time_ns <= event.start_host_time_ns);
    }
    // Only the file that is memory was read by the device.
    let device: Vec<_> =
        sink.records::<QueueDeviceEvent>("queue-device-events").iter().map(|event| event.type_).collect();
    assert_eq!(device, [read]);
}

/// Has the next call of `function` fail; none without one.
fn fail_next(function: Option<&CStr>) {
    type Fail = unsafe extern "C" fn(*const c_char, u64, hsa_abi::HsaStatus);
    // SAFETY: the software runtime, which the driver has loaded, its function's type, and a string or none.
    unsafe {
        let library = std::mem::ManuallyDrop::new(libloading::Library::new(library_path()).unwrap());
        let fail = library.get::<Fail>(b"hsa_sim_fail\0").expect("the software runtime");
        let name = function.map_or(std::ptr::null(), CStr::as_ptr);
        fail(name, 1, hsa_abi::HsaStatus::ERROR_OUT_OF_RESOURCES);
    }
}

/// Host calls between dispatches take nothing that these would use again, signals among it.
#[test]
fn host_calls_leave_signals_to_dispatches() {
    passes_alone("host_calls_leave_signals_to_dispatches", "gfx1100", || {
        let (rig, sink) = (Rig::new(), Sink::new());
        let kernels = rig.executable(KERNELS).unwrap();
        let (target, done) = (rig.buffer(4), rig.semaphore());
        sink.begin(&rig, HOST | DEVICE).unwrap();
        for value in 1..=10 {
            // No more signals than the first two took.
            if value == 3 {
                fail_next(Some(c"hsa_amd_signal_create"));
            }
            launch(&rig, 1, &[(&done, 2 * value - 1)], &kernels, &target).unwrap();
            wait(&done, 2 * value - 1).unwrap();
            rig.host_call(1, &[], &[(&done, 2 * value)]).unwrap();
            wait(&done, 2 * value).unwrap();
        }
        fail_next(None);
        end(&rig).unwrap();
        assert_eq!(sink.records::<QueueDeviceEvent>("queue-device-events").len(), 10);
        assert_eq!(sink.records::<HostEvent>("host-execution-events").len(), 20);
    });
}

/// Reads 64 bytes of a file to `buffer`.
fn read(rig: &Rig, handle: &FileHandle, signal: (&amdgpu_rs::ffi::SemaphoreRef, u64), buffer: &BufferRef) {
    let file = import(rig, handle, raw::IREE_HAL_MEMORY_ACCESS_READ as u16, 0).unwrap();
    let (waits, signals) = (List::new(&[]), List::new(&[signal]));
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_device_queue_read(
            rig.device.as_ptr(),
            1,
            waits.raw(),
            signals.raw(),
            file.as_ptr(),
            0,
            buffer.as_ptr(),
            0,
            64,
            0
        ))
        .unwrap();
    }
}
