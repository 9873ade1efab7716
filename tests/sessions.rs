// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Several sessions on one device: each makes a device group of its own (`iree_runtime_session_create_with_device`).

#[path = "support/hold.rs"]
mod hold;
mod support;

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use amdgpu_rs::ffi::{Allocator, Code, Frontier, FrontierTracker, HalRef, Result, iree, raw};
use hold::Hold;
use support::{List, Points, Rig, failure, passes_alone, wait};

/// Kernels that go wrong; `testdata/faults.c` says how it was built.
const FAULTS: &[u8] = include_bytes!("testdata/faults.gfx1100.co");

/// The axis of the first queue of the first device of a group, and how far apart devices and queues are.
const AXIS: u64 = 1 << 56;
const NEXT_DEVICE: u64 = 1 << 32;
const NEXT_QUEUE: u64 = 1 << 24;

fn tracker(capacity: u32) -> FrontierTracker {
    let mut tracker = std::ptr::null_mut();
    // SAFETY: plain options; the result goes to a local, with its reference.
    unsafe {
        let mut options = raw::iree_async_frontier_tracker_options_default();
        options.axis_table_capacity = capacity;
        let allocator = Allocator::system().to_raw();
        iree!(raw::iree_async_frontier_tracker_create(options, allocator, &raw mut tracker)).expect("a tracker");
        HalRef::from_owned(tracker).expect("a tracker")
    }
}

/// A device group, as a session has it: it alone keeps its tracker.
struct Session(*mut raw::iree_hal_device_group_t);

impl Session {
    /// A group of `rigs`, of which each is told of by a tracker of its own.
    fn new(rigs: &[&Rig]) -> Result<Self> {
        Self::with(rigs, &tracker(256))
    }

    fn with(rigs: &[&Rig], tracker: &FrontierTracker) -> Result<Self> {
        let mut group = std::ptr::null_mut();
        // SAFETY: devices and tracker live; the builder is consumed by the call that ends it.
        unsafe {
            let mut builder = std::mem::zeroed();
            raw::iree_hal_device_group_builder_initialize(&raw mut builder, tracker.as_ptr());
            for rig in rigs {
                iree!(raw::iree_hal_device_group_builder_add_device(&raw mut builder, rig.device.as_ptr()))?;
            }
            let allocator = Allocator::system().to_raw();
            iree!(raw::iree_hal_device_group_builder_finalize(&raw mut builder, allocator, &raw mut group))?;
        }
        Ok(Self(group))
    }

    fn topology(&self) -> *const raw::iree_hal_topology_t {
        // SAFETY: the group lives.
        unsafe { raw::iree_hal_device_group_topology(self.0) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: owned.
        unsafe { raw::iree_hal_device_group_release(self.0) };
    }
}

/// The group that C finds the device in.
fn topology_of(rig: &Rig) -> *const raw::iree_hal_topology_t {
    // SAFETY: the device lives, and its topology as long.
    unsafe { (*raw::iree_hal_device_topology_info(rig.device.as_ptr())).topology }
}

/// A host call that does not return before it is told to.
struct Stay {
    entered: Sender<()>,
    leave: Mutex<Receiver<()>>,
}

impl Stay {
    /// Submits the call, which this outlives.
    fn submit(&self, rig: &Rig, signals: Points<'_>) {
        unsafe extern "C" fn stay(
            call: *mut c_void,
            _args: *const u64,
            _context: *mut raw::iree_hal_host_call_context_t,
        ) -> raw::iree_status_t {
            // SAFETY: the test waits for the call's signal.
            let call = unsafe { &*call.cast::<Stay>() };
            call.entered.send(()).unwrap();
            call.leave.lock().unwrap().recv().unwrap();
            std::ptr::null_mut()
        }
        let (waits, signals) = (List::new(&[]), List::new(signals));
        let call = raw::iree_hal_host_call_t { fn_: Some(stay), user_data: (&raw const *self).cast_mut().cast() };
        let (device, args) = (rig.device.as_ptr(), [0; 4]);
        // SAFETY: live objects; the arguments are read during the call.
        unsafe {
            iree!(raw::iree_hal_device_queue_host_call(device, 1, waits.raw(), signals.raw(), call, args.as_ptr(), 0))
        }
        .unwrap();
    }
}

/// How many completion threads the process has: one for each hardware queue.
fn queues() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("amdgpu_rs-q")).count()
}

/// Bytes of memory that the process has.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Nothing of the first session's is waited for, and nothing of it ends.
#[test]
fn a_second_session_leaves_the_first_ones_work_alone() {
    let rig = Rig::new();
    let (buffer, start, held, filled, called) =
        (rig.buffer(8), rig.semaphore(), rig.semaphore(), rig.semaphore(), rig.semaphore());
    rig.write(&buffer, 0, &[0; 8]);
    let hold = Hold::new(&rig, hold::GFX1100, 1, &[(&held, 1)]);
    rig.fill(2, &[(&start, 1)], &[(&filled, 1)], &buffer, (0, 4), &[1]).unwrap();
    let ((entered, has_entered), (leave, may_leave)) = (channel(), channel());
    let call = Stay { entered, leave: Mutex::new(may_leave) };
    call.submit(&rig, &[(&called, 1)]);
    has_entered.recv().unwrap();
    let second = Session::new(&[&rig]).unwrap();
    let done = rig.semaphore();
    rig.fill(2, &[], &[(&done, 1)], &buffer, (4, 4), &[2]).unwrap();
    wait(&done, 1).unwrap();
    drop(second);
    assert_eq!([&held, &called].map(|semaphore| semaphore.borrow().query().unwrap()), [0, 0], "both still run");
    leave.send(()).unwrap();
    start.borrow().signal(1).unwrap();
    drop(hold);
    for semaphore in [&held, &filled, &called] {
        wait(semaphore, 1).unwrap();
    }
    assert_eq!(rig.read(&buffer, 0, 8), [1, 1, 1, 1, 2, 2, 2, 2]);
}

/// Beside them another thread submits without a pause, and a kernel runs all the time.
#[test]
fn sessions_come_and_go_beside_work() {
    passes_alone("sessions_come_and_go_beside_work", "gfx1100", || {
        const THREADS: usize = 4;
        const SESSIONS: usize = 75;
        let rig = Rig::new();
        let hold = Hold::new(&rig, hold::GFX1100, 1, &[]);
        let (over, completed) = (AtomicBool::new(false), AtomicU64::new(0));
        let round = |sessions: usize| {
            for _ in 0..sessions {
                let session = Session::new(&[&rig]).unwrap();
                let done = rig.semaphore();
                rig.barrier(2, &[], &[(&done, 1)]).unwrap();
                wait(&done, 1).unwrap();
                drop(session);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let done = rig.semaphore();
                for value in 1.. {
                    rig.barrier(2, &[], &[(&done, value)]).unwrap();
                    if value % 16 == 0 {
                        wait(&done, value).unwrap();
                    }
                    completed.store(value, Ordering::Relaxed);
                    if over.load(Ordering::Relaxed) {
                        wait(&done, value).unwrap();
                        break;
                    }
                }
            });
            let all = |sessions| {
                std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(move || round(sessions)))));
            };
            all(SESSIONS / 5);
            let before = resident();
            all(SESSIONS);
            let grown = resident().saturating_sub(before);
            over.store(true, Ordering::Relaxed);
            assert!(grown < 4 << 20, "{grown} bytes more");
        });
        assert!(completed.load(Ordering::Relaxed) > 0);
        assert_eq!(queues(), 2);
        drop(hold);
    });
}

#[test]
fn every_groups_tracker_hears_of_all_work() {
    let rig = Rig::new();
    let done = rig.semaphore();
    let run = |value| {
        rig.barrier(2, &[], &[(&done, value)]).unwrap();
        wait(&done, value).unwrap();
    };
    run(1);
    let tracker = tracker(256);
    let session = Session::with(&[&rig], &tracker).unwrap();
    let axis = AXIS + NEXT_QUEUE;
    assert!(tracker.has_passed(axis, 1), "what was complete before it was in the group");
    // Reached while the group alone holds the tracker, and by a thread that waits.
    let frontier = Frontier::new([(axis, 3)].into_iter());
    let waiting = tracker.wait(&frontier).unwrap();
    run(2);
    assert!(!waiting.wait_for(Duration::ZERO).unwrap());
    run(3);
    assert!(waiting.wait_for(Duration::from_secs(60)).unwrap());
    assert!(!tracker.has_passed(axis, 4) && rig.tracker.has_passed(axis, 3));
    // A group may be made again with its tracker, and ends with its last owner.
    drop(session);
    drop(Session::with(&[&rig], &tracker).unwrap());
    run(4);
    let frontier = Frontier::new([(axis, 4), (axis + NEXT_QUEUE, 1)].into_iter());
    assert_eq!(tracker.wait(&frontier).map(drop).unwrap_err().code(), Code::NOT_FOUND, "there are two queues");
    let frontier = Frontier::new([(axis, 4)].into_iter());
    assert!(tracker.wait(&frontier).unwrap().wait_for(Duration::from_secs(60)).unwrap());
}

/// A group that is gone takes none beside it along.
#[test]
fn older_groups_outlive_one_that_is_gone() {
    let rig = Rig::new();
    let done = rig.semaphore();
    let [oldest, gone, newest] = [(); 3].map(|()| tracker(256));
    let [first, second, third] = [&oldest, &gone, &newest].map(|tracker| Session::with(&[&rig], tracker).unwrap());
    drop((second, gone));
    for value in [1, 2] {
        rig.barrier(2, &[], &[(&done, value)]).unwrap();
        wait(&done, value).unwrap();
    }
    assert!([oldest, newest].iter().all(|tracker| tracker.has_passed(AXIS + NEXT_QUEUE, 2)));
    drop((first, third));
}

/// Where devices have other places in their groups than before, their axes are not taken for each other's.
#[test]
fn devices_that_were_apart_share_a_group() {
    let (first, second) = (Rig::new(), Rig::new());
    let tracker = tracker(256);
    let session = Session::with(&[&first, &second], &tracker).unwrap();
    let done = second.semaphore();
    for value in 1..=3 {
        second.barrier(1, &[], &[(&done, value)]).unwrap();
        wait(&done, value).unwrap();
    }
    let frontier = Frontier::new([(AXIS + NEXT_DEVICE, 3)].into_iter());
    assert!(tracker.wait(&frontier).unwrap().wait_for(Duration::from_secs(60)).unwrap());
    assert!(!tracker.has_passed(AXIS, 1), "the first device has done nothing");
    drop(session);
}

#[test]
fn a_session_that_fails_leaves_the_device_as_it_was() {
    let (rig, other) = (Rig::new(), Rig::new());
    let (buffer, start, filled) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
    let topology = topology_of(&rig);
    rig.write(&buffer, 0, &[0; 4]);
    rig.fill(1, &[(&start, 1)], &[(&filled, 1)], &buffer, (0, 4), &[3]).unwrap();
    // Of another device's group, and too small for anybody's queues.
    let refused = Session::with(&[&rig], &other.tracker).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::ALREADY_EXISTS, "{refused}");
    let refused = Session::with(&[&rig], &tracker(3)).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::RESOURCE_EXHAUSTED, "{refused}");
    assert!(refused.to_string().contains("2 hardware queues"), "{refused}");
    // Of two devices the second has no room: the first is taken back.
    let refused = Session::with(&[&rig, &other], &tracker(6)).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::RESOURCE_EXHAUSTED, "{refused}");
    assert_eq!(topology_of(&rig), topology);
    let second = Session::new(&[&rig, &other]).unwrap();
    start.borrow().signal(1).unwrap();
    wait(&filled, 1).unwrap();
    assert_eq!(rig.read(&buffer, 0, 4), [3; 4]);
    drop(second);
}

#[test]
fn a_device_is_found_in_the_oldest_group_that_is_left() {
    let rig = Rig::new();
    let own = topology_of(&rig);
    let first = Session::new(&[&rig]).unwrap();
    let second = Session::new(&[&rig]).unwrap();
    assert_eq!(topology_of(&rig), own, "whoever has the first group still uses it");
    let device = rig.device.clone();
    drop(rig);
    // SAFETY: the device lives.
    let topology = || unsafe { (*raw::iree_hal_device_topology_info(device.as_ptr())).topology };
    assert_eq!(topology(), first.topology());
    drop(first);
    assert_eq!(topology(), second.topology());
}

#[test]
fn all_groups_of_a_lost_device_hear_of_the_loss_and_none_is_made() {
    let rig = Rig::new();
    let tracker = tracker(256);
    let session = Session::with(&[&rig], &tracker).unwrap();
    let faults = rig.executable(FAULTS).unwrap();
    let (target, done) = (rig.buffer(4), rig.semaphore());
    let frontier = Frontier::new([(AXIS + NEXT_QUEUE, 1)].into_iter());
    let waiting = [&tracker, &rig.tracker].map(|tracker| tracker.wait(&frontier).unwrap());
    rig.dispatch(1, &[], &[(&done, 1)], (&faults, "trap"), &[], &[&target]).unwrap();
    assert_eq!(failure(&done, 1).code(), Code::DATA_LOSS);
    for waiting in &waiting {
        assert_eq!(waiting.wait_for(Duration::from_secs(60)).unwrap_err().code(), Code::DATA_LOSS);
    }
    let refused = Session::new(&[&rig]).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::DATA_LOSS, "{refused}");
    assert!(refused.to_string().contains("the device is lost"), "{refused}");
    drop(session);
}

#[test]
fn who_waits_in_a_group_whose_device_goes_is_told() {
    let (rig, other) = (Rig::new(), Rig::new());
    let tracker = tracker(256);
    let session = Session::with(&[&rig], &tracker).unwrap();
    let frontier = Frontier::new([(AXIS, 1)].into_iter());
    let waiting = tracker.wait(&frontier).unwrap();
    drop(session);
    drop(rig);
    assert_eq!(waiting.wait_for(Duration::from_secs(60)).unwrap_err().code(), Code::CANCELLED);
    let done = other.semaphore();
    other.barrier(1, &[], &[(&done, 1)]).unwrap();
    wait(&done, 1).unwrap();
}
