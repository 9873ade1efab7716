// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host calls through the C API.

mod support;

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use amdgpu_rs::ffi::{Code, HalRef, QUEUE_AFFINITY_ANY, Result, SemaphoreRef, Status, iree, raw, status};
use support::{List, Points, Rig, failure, wait, when};

/// Arguments of a call's function.
struct Context {
    args: [u64; 4],
    affinity: u64,
    device: *mut raw::iree_hal_device_t,
    signals: Vec<(SemaphoreRef, u64)>,
}

/// A function to be called once.
type Function = Box<dyn FnOnce(Context) -> Result<()> + Send>;

unsafe extern "C" fn called(
    user_data: *mut c_void,
    args: *const u64,
    context: *mut raw::iree_hal_host_call_context_t,
) -> raw::iree_status_t {
    // SAFETY: `queue` gave a boxed function, which is called at most once, and the driver valid arguments.
    let (function, context) = unsafe {
        let list = (*context).signal_semaphore_list;
        let signals = (0..list.count).map(|index| {
            let semaphore = HalRef::retain(*list.semaphores.add(index)).expect("semaphores are not null");
            (semaphore, *list.payload_values.add(index))
        });
        let context = Context {
            args: args.cast::<[u64; 4]>().read(),
            affinity: (*context).queue_affinity,
            device: (*context).device,
            signals: signals.collect(),
        };
        (Box::from_raw(user_data.cast::<Function>()), context)
    };
    function(context).map_or_else(Status::into_raw, |()| std::ptr::null_mut())
}

fn queue(
    rig: &Rig,
    (waits, signals): (Points<'_>, Points<'_>),
    flags: u32,
    args: [u64; 4],
    function: impl FnOnce(Context) -> Result<()> + Send + 'static,
) -> Result<()> {
    let function: Function = Box::new(function);
    let user_data = Box::into_raw(Box::new(function)).cast();
    let call = raw::iree_hal_host_call_t { fn_: Some(called), user_data };
    let (waits, signals) = (List::new(waits), List::new(signals));
    // SAFETY: live objects; the function lives until it is called.
    unsafe {
        iree!(raw::iree_hal_device_queue_host_call(
            rig.device.as_ptr(),
            QUEUE_AFFINITY_ANY,
            waits.raw(),
            signals.raw(),
            call,
            args.as_ptr(),
            flags.into(),
        ))
    }
}

const BLOCKING: u32 = raw::IREE_HAL_HOST_CALL_FLAG_NONE;
const NON_BLOCKING: u32 = raw::IREE_HAL_HOST_CALL_FLAG_NON_BLOCKING;

#[test]
fn a_call_is_between_the_work_before_and_after_it() {
    let rig = Rig::new();
    let (buffer, done) = (rig.buffer(4), rig.semaphore());
    let (seen, saw) = channel();
    rig.fill(1, &[(&done, 3)], &[(&done, 4)], &buffer, (0, 4), &[2]).unwrap();
    let mapped = buffer.clone();
    queue(&rig, (&[(&done, 2)], &[(&done, 3)]), BLOCKING, [1, 2, 3, u64::MAX], move |context| {
        let mut byte = 0_u8;
        // SAFETY: a live buffer and room for one byte.
        unsafe { iree!(raw::iree_hal_buffer_map_read(mapped.as_ptr(), 0, (&raw mut byte).cast(), 1)) }?;
        seen.send((context.args, context.affinity.count_ones(), context.device as usize, byte)).unwrap();
        Ok(())
    })
    .unwrap();
    rig.fill(1, &[(&done, 1)], &[(&done, 2)], &buffer, (0, 4), &[1]).unwrap();
    done.borrow().signal(1).unwrap();
    wait(&done, 4).unwrap();
    assert_eq!(saw.recv().unwrap(), ([1, 2, 3, u64::MAX], 1, rig.device.as_ptr() as usize, 1));
    assert_eq!(rig.read(&buffer, 0, 4), [2; 4]);
}

#[test]
fn an_error_fails_what_the_call_signals_and_nothing_else() {
    let rig = Rig::new();
    let (a, b, other) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
    queue(&rig, (&[], &[(&a, 1), (&b, 2)]), BLOCKING, [0; 4], |_| Err(status!(PERMISSION_DENIED, "not today")))
        .unwrap();
    for (semaphore, value) in [(&a, 1), (&b, 2)] {
        assert_eq!(failure(semaphore, value).code(), Code::PERMISSION_DENIED);
        let status = semaphore.borrow().query().unwrap_err();
        assert!(status.to_string().contains("not today"), "{status}");
    }
    queue(&rig, (&[], &[(&other, 1)]), BLOCKING, [0; 4], |_| Ok(())).unwrap();
    wait(&other, 1).unwrap();
}

#[test]
fn a_deferred_call_signals_when_it_wants() {
    let rig = Rig::new();
    let (done, gate) = (rig.semaphore(), rig.semaphore());
    let (give, take) = channel();
    queue(&rig, (&[], &[(&done, 5)]), BLOCKING, [0; 4], move |context| {
        give.send(context.signals).unwrap();
        Err(Status::from_code(Code::DEFERRED))
    })
    .unwrap();
    let signals = take.recv().unwrap();
    // A later call is made although the first has not signaled.
    queue(&rig, (&[], &[(&gate, 1)]), BLOCKING, [0; 4], |_| Ok(())).unwrap();
    wait(&gate, 1).unwrap();
    assert_eq!(done.borrow().query().unwrap(), 0);
    assert_eq!(signals.len(), 1);
    for (semaphore, value) in signals {
        semaphore.borrow().signal(value).unwrap();
    }
    wait(&done, 5).unwrap();
}

#[test]
fn nothing_waits_for_a_non_blocking_call() {
    let rig = Rig::new();
    let done = rig.semaphore();
    let (resume, resumed) = channel::<()>();
    let (finished, finish) = channel();
    queue(&rig, (&[], &[(&done, 1)]), NON_BLOCKING, [0; 4], move |context| {
        resumed.recv().unwrap();
        finished.send(context.signals.len()).unwrap();
        Err(status!(INTERNAL, "nobody sees this"))
    })
    .unwrap();
    wait(&done, 1).unwrap();
    resume.send(()).unwrap();
    assert_eq!(finish.recv().unwrap(), 0);
}

#[test]
fn a_call_may_wait_for_a_later_call() {
    let rig = Rig::new();
    let (first, second) = (rig.semaphore(), rig.semaphore());
    let awaited = second.clone();
    queue(&rig, (&[], &[(&first, 1)]), BLOCKING, [0; 4], move |_| wait(&awaited, 1)).unwrap();
    queue(&rig, (&[], &[(&second, 1)]), BLOCKING, [0; 4], |_| Ok(())).unwrap();
    wait(&first, 1).unwrap();
}

#[test]
fn a_call_may_release_the_device() {
    let rig = Rig::new();
    let done = rig.semaphore();
    let (entered, enter) = channel();
    let last = std::sync::Arc::new(Mutex::new(None));
    let held = last.clone();
    queue(&rig, (&[], &[(&done, 1)]), BLOCKING, [0; 4], move |_| {
        enter.recv().unwrap();
        let rig: Option<Rig> = held.lock().unwrap().take();
        drop(rig);
        Ok(())
    })
    .unwrap();
    *last.lock().unwrap() = Some(rig);
    entered.send(()).unwrap();
    wait(&done, 1).unwrap();
    assert!(last.lock().unwrap().is_none());
}

#[test]
fn a_call_that_waits_when_the_device_goes_is_not_made() {
    let rig = Rig::new();
    let (gate, done) = (rig.semaphore(), rig.semaphore());
    let (called, calls) = channel();
    queue(&rig, (&[(&gate, 1)], &[(&done, 1)]), BLOCKING, [0; 4], move |_| {
        called.send(()).unwrap();
        Ok(())
    })
    .unwrap();
    drop(rig);
    assert_eq!(failure(&done, 1).code(), Code::CANCELLED);
    gate.borrow().signal(1).unwrap();
    assert!(calls.try_recv().is_err());
}

#[test]
fn unknown_flags_are_refused() {
    let rig = Rig::new();
    let done = rig.semaphore();
    let status = queue(&rig, (&[], &[(&done, 1)]), 1 << 30, [0; 4], |_| Ok(())).unwrap_err();
    assert_eq!(status.code(), Code::INVALID_ARGUMENT);
    assert_eq!(done.borrow().query().unwrap(), 0);
}

#[test]
fn many_calls_share_a_few_threads() {
    const CALLS: u64 = 500;
    let rig = Rig::new();
    let done: Vec<_> = (0..CALLS).map(|_| rig.semaphore()).collect();
    let threads = Arc::new(Mutex::new(HashSet::new()));
    for done in &done {
        let threads = threads.clone();
        queue(&rig, (&[], &[(done, 1)]), BLOCKING, [0; 4], move |_| {
            threads.lock().unwrap().insert(std::thread::current().id());
            std::thread::sleep(Duration::from_millis(10));
            Ok(())
        })
        .unwrap();
    }
    for done in &done {
        wait(done, 1).unwrap();
    }
    // 16 at a time, and one more for each 20 ms in which none ends.
    let threads = threads.lock().unwrap().len();
    assert!(threads <= 100, "{threads} threads for {CALLS} calls");
}

#[test]
fn a_chain_of_calls_that_wait_for_later_ones_ends() {
    const CALLS: u64 = 60;
    let rig = Rig::new();
    let (gates, done): (Vec<_>, Vec<_>) = (0..CALLS).map(|_| (rig.semaphore(), rig.semaphore())).unzip();
    for call in 0..CALLS as usize {
        let (own, next) = (gates[call].clone(), gates.get(call + 1).cloned());
        queue(&rig, (&[], &[(&done[call], 1)]), BLOCKING, [0; 4], move |_| {
            if let Some(next) = next {
                wait(&next, 1)?;
            }
            own.borrow().signal(1)
        })
        .unwrap();
    }
    for done in &done {
        wait(done, 1).unwrap();
    }
}

#[test]
fn calls_do_not_wait_for_a_completion_thread() {
    let rig = Rig::new();
    let (buffer, filled, gate) = (rig.buffer(4), rig.semaphore(), rig.semaphore());
    let (entered, enter) = channel();
    let (let_go, leave) = channel();
    when(&filled, 1, move |_| {
        entered.send(()).unwrap();
        leave.recv().unwrap();
    });
    rig.fill(1, &[], &[(&filled, 1)], &buffer, (0, 4), &[1]).unwrap();
    enter.recv().unwrap();
    let (called, calls) = channel();
    let gated = called.clone();
    queue(&rig, (&[], &[]), BLOCKING, [0; 4], move |_| called.send(0).map_err(|_| status!(INTERNAL, "late"))).unwrap();
    queue(&rig, (&[(&gate, 1)], &[]), BLOCKING, [0; 4], move |_| gated.send(1).map_err(|_| status!(INTERNAL, "late")))
        .unwrap();
    let first = calls.recv_timeout(Duration::from_secs(10));
    gate.borrow().signal(1).unwrap();
    let second = calls.recv_timeout(Duration::from_secs(10));
    let_go.send(()).unwrap();
    assert_eq!((first, second), (Ok(0), Ok(1)), "one has nothing to wait for, the other a semaphore of the host's");
}

/// A call of a timeline, from `value - 1` to `value`.
fn link(
    rig: &Rig,
    timeline: &SemaphoreRef,
    value: u64,
    function: impl FnOnce(Context) -> Result<()> + Send + 'static,
) -> Result<()> {
    queue(rig, (&[(timeline, value - 1)], &[(timeline, value)]), BLOCKING, [value; 4], function)
}

/// The first call of a timeline. It runs until it is let go, then calls `function`.
fn hold(
    rig: &Rig,
    timeline: &SemaphoreRef,
    function: impl FnOnce(Context) -> Result<()> + Send + 'static,
) -> std::sync::mpsc::Sender<()> {
    let (entered, enter) = channel();
    let (let_go, leave) = channel();
    link(rig, timeline, 1, move |context| {
        entered.send(()).unwrap();
        leave.recv().unwrap();
        function(context)
    })
    .unwrap();
    enter.recv().unwrap();
    let_go
}

#[test]
fn calls_of_a_timeline_are_made_in_order_each_after_the_one_before() {
    const CALLS: u64 = 2_000;
    let rig = Rig::new();
    for count in [1, 2] {
        let timelines: Vec<_> = (0..count).map(|_| rig.semaphore()).collect();
        let made = Arc::new(Mutex::new(vec![Vec::new(); count]));
        for value in 1..=CALLS {
            for (index, timeline) in timelines.iter().enumerate() {
                let (made, seen) = (made.clone(), timeline.clone());
                link(&rig, timeline, value, move |context| {
                    assert_eq!((context.args[0], context.signals.len()), (value, 1));
                    assert_eq!(context.signals[0].1, value);
                    let now = seen.borrow().query()?;
                    made.lock().unwrap()[index].push((value, now));
                    Ok(())
                })
                .unwrap();
            }
        }
        for timeline in &timelines {
            wait(timeline, CALLS).unwrap();
        }
        let expected: Vec<_> = (1..=CALLS).map(|value| (value, value - 1)).collect();
        assert_eq!(*made.lock().unwrap(), vec![expected; count]);
    }
}

#[test]
fn a_call_is_not_made_when_the_one_before_it_fails() {
    let rig = Rig::new();
    let timeline = rig.semaphore();
    let let_go = hold(&rig, &timeline, |_| Err(status!(PERMISSION_DENIED, "not today")));
    let (called, calls) = channel();
    link(&rig, &timeline, 2, move |_| called.send(()).map_err(|_| status!(INTERNAL, "late"))).unwrap();
    let_go.send(()).unwrap();
    assert_eq!(failure(&timeline, 2).code(), Code::PERMISSION_DENIED);
    // Dropped, or about to be: the function is never called.
    let other = rig.semaphore();
    link(&rig, &other, 1, |_| Ok(())).unwrap();
    wait(&other, 1).unwrap();
    assert!(calls.try_recv().is_err());
}

#[test]
fn a_call_waits_for_its_value_and_not_for_the_call_that_promised_it() {
    let rig = Rig::new();
    let timeline = rig.semaphore();
    let let_go = hold(&rig, &timeline, |_| Err(Status::from_code(Code::DEFERRED)));
    let (called, calls) = channel();
    let early = called.clone();
    link(&rig, &timeline, 2, move |_| called.send(2).map_err(|_| status!(INTERNAL, "late"))).unwrap();
    link(&rig, &timeline, 3, move |_| early.send(3).map_err(|_| status!(INTERNAL, "late"))).unwrap();
    let_go.send(()).unwrap();
    // Made by the same threads, behind the first one.
    let other = rig.semaphore();
    for value in 1..=100 {
        link(&rig, &other, value, |_| Ok(())).unwrap();
    }
    wait(&other, 100).unwrap();
    assert!(calls.try_recv().is_err());
    timeline.borrow().signal(1).unwrap();
    wait(&timeline, 3).unwrap();
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [2, 3]);
}

/// The signaller that brings a semaphore to 1 while the call that has promised to is still running.
#[derive(Clone, Copy, Debug)]
enum Advance {
    /// The call itself.
    Call,
    /// A submission to the device.
    Device,
    /// Another producer, by IREE's function for that, of which the semaphore's driver does not hear.
    Publish,
}

#[test]
fn a_call_is_made_once_its_value_is_there_although_the_one_before_still_runs() {
    let rig = Rig::new();
    for by in [Advance::Call, Advance::Device, Advance::Publish] {
        for submitted_before in [false, true] {
            let timeline = rig.semaphore();
            let (called, calls) = channel();
            let signaled = timeline.clone();
            let (advance, advances) = channel::<()>();
            let let_go = hold(&rig, &timeline, move |_| {
                if matches!(by, Advance::Call) {
                    signaled.borrow().signal(1)?;
                }
                advance.send(()).unwrap();
                // Until the next call has been made.
                calls.recv().unwrap();
                Err(Status::from_code(Code::DEFERRED))
            });
            let add = |called: std::sync::mpsc::Sender<()>| {
                link(&rig, &timeline, 2, move |_| called.send(()).map_err(|_| status!(INTERNAL, "late"))).unwrap();
            };
            let late = if submitted_before {
                add(called);
                None
            } else {
                Some(called)
            };
            let_go.send(()).unwrap();
            advances.recv().unwrap();
            match by {
                Advance::Call => {}
                Advance::Device => {
                    let buffer = rig.buffer(4);
                    rig.fill(1, &[], &[(&timeline, 1)], &buffer, (0, 4), &[1]).unwrap();
                    wait(&timeline, 1).unwrap();
                }
                // SAFETY: a live semaphore; no frontier.
                Advance::Publish => unsafe {
                    let semaphore = timeline.as_ptr().cast();
                    iree!(raw::iree_async_semaphore_publish_untainted(semaphore, 1, std::ptr::null())).unwrap();
                },
            }
            late.into_iter().for_each(add);
            wait(&timeline, 2).unwrap_or_else(|status| panic!("{by:?}, {submitted_before}: {status}"));
        }
    }
}

#[test]
fn calls_behind_one_that_runs_when_the_device_goes_are_not_made() {
    let rig = Rig::new();
    let timeline = rig.semaphore();
    let let_go = hold(&rig, &timeline, |_| Ok(()));
    let (called, calls) = channel();
    let (entered, enter) = channel();
    let (leave, left) = channel::<()>();
    link(&rig, &timeline, 2, move |_| {
        entered.send(()).unwrap();
        left.recv().unwrap();
        Ok(())
    })
    .unwrap();
    for value in 3..=5 {
        let called = called.clone();
        link(&rig, &timeline, value, move |_| called.send(()).map_err(|_| status!(INTERNAL, "late"))).unwrap();
    }
    let_go.send(()).unwrap();
    enter.recv().unwrap();
    drop(rig);
    leave.send(()).unwrap();
    assert_eq!(failure(&timeline, 5).code(), Code::CANCELLED);
    assert!(calls.try_recv().is_err());
}
