// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host threads for work that queues order but the GPU does not do: host calls and file transfers.
//!
//! Application code runs here, never on a completion thread: it may block, submit, or release the device. A task may
//! also wait for a later task by any means (e.g. a host call that waits for a semaphore of a later host call), so that
//! no fixed number of threads suffices. `WIDTH` tasks run at a time while tasks end. If none has ended for `STALL`, all
//! running tasks may wait for queued ones, so one more is started, and so on. A chain of tasks that wait for each other
//! therefore always ends, and merely long tasks get more threads slowly. While tasks are queued, one thread without a
//! task watches for a stall. Idle threads end after `IDLE`.

use std::cell::Cell;
use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
// From the standard library: every host call wakes a thread, which costs a tenth of parking_lot's wake-up.
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::host_call::HostCall;
use crate::signal_list::SignalList;
use amdgpu_ffi::{Result, fallible, thread, zone};

/// Tasks that run at a time while tasks end.
const WIDTH: usize = 16;

/// Time without a task's start or end, while tasks are queued, after which one more is started.
const STALL: Duration = Duration::from_millis(20);

/// Time for which an idle thread waits for the next task.
const IDLE: Duration = Duration::from_secs(2);

/// Time for which a thread that has run a task spins for another one before it sleeps: about as long as waking the
/// thread and the waiter for its call takes. A caller that submits calls in a row, or one after the other, need not
/// wake the thread for each.
const SPIN: Duration = Duration::from_micros(20);

thread_local! {
    /// The pool whose task this thread runs.
    static SERVING: Cell<*const Pool> = const { Cell::new(std::ptr::null()) };
    /// True while this thread's task signals its semaphores as its last act.
    static IS_ENDING: Cell<bool> = const { Cell::new(false) };
}

/// A task. It is called with the semaphores that it signals.
pub enum HostTask {
    /// A host call. In place, because one thread would allocate and another free its memory, for which they would
    /// contend.
    Call(HostCall),
    /// Any other work.
    Other(Box<dyn FnOnce(SignalList) + Send>),
}

impl HostTask {
    /// A task that calls `work`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn boxed(work: impl FnOnce(SignalList) + Send + 'static) -> Result<Self> {
        Ok(Self::Other(fallible::boxed(work)?))
    }

    /// Runs the task. The semaphores of a host call advance last: tasks that wait for them are left to this thread,
    /// which is about to look at the queued ones. No other thread is woken, so that a chain of calls stays on one. The
    /// callbacks that run here must not block (`iree/async/semaphore.h`, "Timepoint callbacks").
    fn run(self, signals: SignalList) {
        match self {
            Self::Other(work) => work(signals),
            Self::Call(call) => {
                if let Some(signals) = call.run(signals) {
                    IS_ENDING.set(true);
                    signals.signal();
                }
            }
        }
    }
}

/// The host threads of one logical device. When dropped, it does not wait for running tasks.
#[derive(Debug, Clone)]
pub struct HostWorker(Arc<Pool>);

struct Pool {
    stall: Duration,
    idle: Duration,
    state: Mutex<State>,
    changed: Condvar,
    /// True if tasks are queued; read without the lock.
    has_tasks: AtomicBool,
}

struct State {
    /// Queued tasks, oldest first.
    tasks: VecDeque<(HostTask, SignalList)>,
    /// Threads with a task.
    running: usize,
    /// All threads, including those being started.
    threads: usize,
    /// A thread without a task is about to look at the queued tasks: no other thread need be woken for them.
    attending: bool,
    /// The last time at which a task began or ended. None between the arrival of a task at an empty queue and the next
    /// look.
    progress: Option<Instant>,
    closed: bool,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Pool").field("tasks", &state.tasks.len()).field("threads", &state.threads).finish()
    }
}

impl Default for HostWorker {
    fn default() -> Self {
        Self::with_times(STALL, IDLE)
    }
}

impl HostWorker {
    fn with_times(stall: Duration, idle: Duration) -> Self {
        let tasks = VecDeque::new();
        let state = State { tasks, running: 0, threads: 0, attending: false, progress: None, closed: false };
        let (state, has_tasks) = (Mutex::new(state), AtomicBool::new(false));
        Self(Arc::new(Pool { stall, idle, state, changed: Condvar::new(), has_tasks }))
    }

    /// Runs `task`, which signals `signals`, on a host thread after the queued tasks.
    ///
    /// # Errors
    /// The worker is closed or no thread could be started. The task is dropped and the semaphores fail.
    pub fn run(&self, task: HostTask, signals: SignalList) -> std::io::Result<()> {
        let mut state = self.0.lock();
        if state.closed {
            drop(state);
            drop((task, signals));
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        if state.tasks.try_reserve(1).is_err() {
            let status = fallible::exhausted((state.tasks.len() + 1) * size_of::<(HostTask, SignalList)>());
            drop(state);
            drop(task);
            signals.fail(status);
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        if state.tasks.is_empty() {
            state.progress = None;
            self.0.has_tasks.store(true, Ordering::Relaxed);
        }
        state.tasks.push_back((task, signals));
        state.attending |= IS_ENDING.get() && SERVING.get() == Arc::as_ptr(&self.0);
        match self.0.ensure_worker(&mut state) {
            Err(error) if state.threads == 0 => {
                let task = state.tasks.pop_back();
                drop(state);
                drop(task);
                Err(error)
            }
            attended => {
                drop(state);
                self.0.wake(attended.unwrap_or(false));
                Ok(())
            }
        }
    }

    /// Waits until no task is queued or running, unless called by a task itself. No task runs afterwards.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        self.0.changed.notify_all();
        if SERVING.get() == Arc::as_ptr(&self.0) {
            return;
        }
        while state.threads > 0 {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Pool {
    /// The state. No panic leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ensures that a thread without a task looks at the queued tasks. Returns true if a sleeping thread is to be woken
    /// for that once the lock is released.
    fn ensure_worker(self: &Arc<Self>, state: &mut State) -> std::io::Result<bool> {
        if state.attending {
            return Ok(false);
        }
        let is_idle = state.threads > state.running;
        if !is_idle {
            let pool = self.clone();
            thread::spawn("amdgpu_rs-host".into(), move || pool.worker_loop())?;
            state.threads += 1;
        }
        state.attending = true;
        Ok(is_idle)
    }

    /// Wakes a sleeping thread if `is_to`.
    fn wake(&self, is_to: bool) {
        if is_to {
            self.changed.notify_one();
        }
    }

    /// Sleeps for at most `time`. Returns true if `time` has passed.
    fn sleep<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> (MutexGuard<'a, State>, bool) {
        let (state, result) = self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
        (state, result.timed_out())
    }

    /// Spins for tasks for [`SPIN`], as the attending thread.
    fn spin_for_task<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.attending = true;
        drop(state);
        let start = Instant::now();
        while !self.has_tasks.load(Ordering::Relaxed) && start.elapsed() < SPIN {
            spin_loop();
        }
        let mut state = self.lock();
        state.attending = false;
        state
    }

    fn worker_loop(self: &Arc<Self>) {
        SERVING.set(Arc::as_ptr(self));
        let mut has_run = false;
        let mut state = self.lock();
        loop {
            state.attending = false;
            let stalled = state.progress.get_or_insert_with(Instant::now).checked_add(self.stall);
            let may_begin = state.running < WIDTH || stalled.is_some_and(|time| time <= Instant::now());
            if may_begin && let Some((task, signals)) = state.tasks.pop_front() {
                state.progress = Some(Instant::now());
                state.running += 1;
                let is_last = state.tasks.is_empty();
                self.has_tasks.store(!is_last, Ordering::Relaxed);
                // Without another thread this one goes on when its task has ended.
                let wakes = !is_last && self.ensure_worker(&mut state).unwrap_or(false);
                drop(state);
                self.wake(wakes);
                // A panic in application code must not take the process down from a thread of ours; the task's drop
                // guards have failed its semaphores.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    zone!("host call");
                    task.run(signals)
                }));
                IS_ENDING.set(false);
                state = self.lock();
                state.running -= 1;
                state.progress = Some(Instant::now());
                has_run = true;
            } else if !state.tasks.is_empty() {
                let time = stalled.map_or(self.idle, |time| time.saturating_duration_since(Instant::now()));
                state = self.sleep(state, time).0;
            } else if state.closed {
                break;
            } else if std::mem::take(&mut has_run) && !state.attending {
                state = self.spin_for_task(state);
            } else {
                let is_over;
                (state, is_over) = self.sleep(state, self.idle);
                if is_over && state.tasks.is_empty() && !state.closed {
                    break;
                }
            }
        }
        state.threads -= 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    fn with_stall(stall: Duration) -> HostWorker {
        HostWorker::with_times(stall, IDLE)
    }

    fn run(worker: &HostWorker, task: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        worker.run(HostTask::Other(Box::new(|_| task())), SignalList::default())
    }

    #[test]
    fn a_task_may_wait_for_a_later_one() {
        let worker = HostWorker::default();
        let (give, take) = channel();
        let (done, finished) = channel();
        run(&worker, move || done.send(take.recv().unwrap()).unwrap()).unwrap();
        run(&worker, move || give.send(7).unwrap()).unwrap();
        assert_eq!(finished.recv(), Ok(7));
        worker.close();
    }

    /// There is no thread that could be woken, so that one would be started, which shows in their number.
    #[test]
    fn a_chain_of_calls_stays_on_one_thread() {
        let worker = with_stall(Duration::MAX);
        let (done, finished) = channel();
        let next = worker.clone();
        run(&worker, move || {
            IS_ENDING.set(true);
            for _ in 0..2 {
                let done = done.clone();
                run(&next, move || done.send(std::thread::current().id()).unwrap()).unwrap();
            }
            assert_eq!(next.0.lock().threads, 1, "nothing was started for what this thread comes to");
            done.send(std::thread::current().id()).unwrap();
        })
        .unwrap();
        let ids: Vec<_> = (0..3).map(|_| finished.recv().unwrap()).collect();
        assert_eq!(ids[0], ids[1]);
        worker.close();
    }

    /// Otherwise it looks at the tasks when it has been idle for so long that the test fails before.
    #[test]
    fn an_idle_thread_is_woken() {
        const NEVER: Duration = Duration::from_secs(3600);
        let worker = HostWorker::with_times(STALL, NEVER);
        for _ in 0..4 {
            let (done, finished) = channel();
            run(&worker, move || done.send(()).unwrap()).unwrap();
            finished.recv_timeout(NEVER / 180).expect("the thread is woken");
            let is_idle = || {
                let state = worker.0.lock();
                state.running == 0 && !state.attending
            };
            while !is_idle() {
                std::thread::yield_now();
            }
        }
        assert_eq!(worker.0.lock().threads, 1, "no other thread made the calls");
        worker.close();
    }

    #[test]
    fn a_closed_worker_drops_its_tasks() {
        let worker = HostWorker::default();
        worker.close();
        let (done, finished) = channel::<()>();
        assert!(run(&worker, move || done.send(()).unwrap()).is_err());
        assert!(finished.recv().is_err());
    }

    #[test]
    fn a_panic_ends_only_its_task() {
        let worker = HostWorker::default();
        let (done, finished) = channel();
        run(&worker, || panic!("on purpose")).unwrap();
        run(&worker, move || done.send(1).unwrap()).unwrap();
        assert_eq!(finished.recv(), Ok(1));
        worker.close();
    }

    /// Queues tasks that block until they are released. `count` of them have begun when this returns.
    fn begin(worker: &HostWorker, count: usize) -> Vec<Sender<()>> {
        let (began, begins) = channel();
        let gates = (0..count).map(|_| {
            let (gate, opened) = channel();
            let began = began.clone();
            let task = move || {
                began.send(()).unwrap();
                let _ = opened.recv();
            };
            run(worker, task).unwrap();
            gate
        });
        let gates = gates.collect();
        (0..count).for_each(|_| begins.recv().unwrap());
        gates
    }

    #[test]
    fn as_long_as_tasks_end_no_more_than_so_many_run() {
        let worker = with_stall(Duration::MAX);
        let gates = begin(&worker, WIDTH);
        let (done, finished) = channel();
        for _ in 0..2_000 {
            let done = done.clone();
            run(&worker, move || done.send(()).unwrap()).unwrap();
        }
        {
            let state = worker.0.lock();
            assert_eq!((state.running, state.tasks.len()), (WIDTH, 2_000));
            assert_eq!(state.threads, WIDTH + 1, "one attends");
        }
        drop(gates);
        (0..2_000).for_each(|_| finished.recv().unwrap());
        assert!(worker.0.lock().threads <= WIDTH + 1);
        worker.close();
    }

    #[test]
    fn tasks_that_do_not_end_give_way_to_later_ones() {
        let worker = with_stall(Duration::from_millis(1));
        let gates = begin(&worker, 3 * WIDTH);
        assert!(worker.0.lock().threads >= 3 * WIDTH);
        drop(gates);
        worker.close();
    }

    #[test]
    fn what_is_in_line_runs_before_a_worker_is_closed() {
        let worker = with_stall(Duration::MAX);
        let gates = begin(&worker, WIDTH);
        let (done, finished) = channel();
        for task in 0..100 {
            let done = done.clone();
            run(&worker, move || done.send(task).unwrap()).unwrap();
        }
        let closing = {
            let worker = worker.clone();
            std::thread::spawn(move || worker.close())
        };
        drop(gates);
        closing.join().unwrap();
        let mut ran: Vec<_> = finished.try_iter().collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..100).collect::<Vec<_>>());
    }
}
