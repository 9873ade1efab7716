// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Host threads for work that queues order but the GPU does not do: host calls and file transfers.
//!
//! Application code runs here, never on a completion thread: it may block, submit, or release the device. A task may also wait for another
//! task (a host call that waits for a semaphore which a later host call signals), so a task never waits for a thread: when all are busy
//! another one is started, and threads that find nothing to do for a while end.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long an idle thread stays for the next task.
const IDLE: Duration = Duration::from_secs(2);

thread_local! {
    /// The pool whose task this thread runs.
    static SERVING: Cell<*const Pool> = const { Cell::new(std::ptr::null()) };
}

/// One task.
pub type Task = Box<dyn FnOnce() + Send>;

/// The threads of one logical device. Dropped, it lets running tasks finish on their own.
#[derive(Debug, Default, Clone)]
pub struct HostWorker(Arc<Pool>);

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    idle: usize,
    threads: usize,
    closed: bool,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Pool").field("tasks", &state.tasks.len()).field("threads", &state.threads).finish()
    }
}

impl HostWorker {
    /// Runs `task` on a thread of its own or an idle one.
    ///
    /// # Errors
    /// The worker is closed or no thread could be started; the task is dropped.
    pub fn run(&self, task: Task) -> std::io::Result<()> {
        let mut state = self.0.state.lock();
        if state.closed {
            drop(state);
            drop(task);
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        state.tasks.push_back(task);
        if state.idle >= state.tasks.len() {
            self.0.changed.notify_one();
            return Ok(());
        }
        state.threads += 1;
        let pool = self.0.clone();
        let started = std::thread::Builder::new().name("amdgpu_rs-host".into()).spawn(move || pool.serve());
        if let Err(error) = started {
            state.threads -= 1;
            if state.threads == 0 {
                let task = state.tasks.pop_back();
                drop(state);
                drop(task);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits until no task is queued or running, unless called by a task itself. Nothing is run after that.
    pub fn close(&self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        self.0.changed.notify_all();
        if SERVING.get() == Arc::as_ptr(&self.0) {
            return;
        }
        while state.threads > 0 {
            self.0.changed.wait(&mut state);
        }
    }

    /// True from [`Self::close`] on: tasks that wait for something give up.
    pub fn is_closing(&self) -> bool {
        self.0.state.lock().closed
    }
}

impl Pool {
    fn serve(&self) {
        SERVING.set(self);
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                drop(state);
                // A panic in application code must not take the process down from a thread of ours; the task's drop guards have failed
                // what it had promised.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
                state = self.state.lock();
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let timed_out = self.changed.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if timed_out && state.tasks.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_task_may_wait_for_a_later_one() {
        let worker = HostWorker::default();
        let (give, take) = channel();
        let (done, finished) = channel();
        worker.run(Box::new(move || done.send(take.recv().unwrap()).unwrap())).unwrap();
        worker.run(Box::new(move || give.send(7).unwrap())).unwrap();
        assert_eq!(finished.recv(), Ok(7));
        worker.close();
    }

    #[test]
    fn a_closed_worker_drops_its_tasks() {
        let worker = HostWorker::default();
        worker.close();
        let (done, finished) = channel::<()>();
        assert!(worker.run(Box::new(move || done.send(()).unwrap())).is_err());
        assert!(finished.recv().is_err());
    }

    #[test]
    fn a_panic_ends_only_its_task() {
        let worker = HostWorker::default();
        let (done, finished) = channel();
        worker.run(Box::new(|| panic!("on purpose"))).unwrap();
        worker.run(Box::new(move || done.send(1).unwrap())).unwrap();
        assert_eq!(finished.recv(), Ok(1));
        worker.close();
    }
}
