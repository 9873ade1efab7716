// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Jobs that run in the order in which their numbers were drawn, on a thread of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use amdgpu_ffi::{thread, thunk};

/// A job.
pub type Job = Box<dyn FnOnce() + Send>;

/// A line of jobs. The thread starts with the first job and ends when the line is closed and no number is outstanding.
#[derive(Default)]
pub struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next number to draw.
    next: u64,
    /// The number whose job runs next, or runs.
    serving: u64,
    ready: BTreeMap<u64, Job>,
    has_thread: bool,
    /// The thread, once it runs.
    thread: Option<ThreadId>,
    is_closed: bool,
}

impl Line {
    /// Draws a number. [`Self::run`] must be called for it, in any order.
    pub fn draw(&self) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        state.next - 1
    }

    /// Runs `job` when the jobs of all lower numbers have run.
    ///
    /// # Errors
    /// The thread could not be started. The job was dropped, and the line goes on behind it.
    pub fn run(self: &Arc<Self>, number: u64, job: Job, name: &str) -> std::io::Result<()> {
        let mut state = self.state.lock();
        if !state.has_thread {
            let line = self.clone();
            if let Err(error) = thread::spawn(name.to_owned(), move || line.serve()) {
                state.ready.insert(number, Box::new(|| ()));
                drop(state);
                drop(job);
                return Err(error);
            }
            state.has_thread = true;
        }
        state.ready.insert(number, job);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// True if jobs are outstanding or running.
    pub fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.serving < state.next
    }

    /// True after [`Self::close`].
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Waits until no job is outstanding, for `timeout` at most. A job does not wait for itself.
    pub fn wait_until_idle(&self, timeout: Duration) {
        let mut state = self.state.lock();
        if state.thread == Some(std::thread::current().id()) {
            return;
        }
        let is_busy = |state: &mut State| state.serving < state.next;
        self.changed.wait_while_for(&mut state, is_busy, timeout);
    }

    /// Ends the thread after the outstanding jobs. Does not wait.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        state.thread = Some(std::thread::current().id());
        loop {
            let number = state.serving;
            if let Some(job) = state.ready.remove(&number) {
                drop(state);
                // A panic has dropped the job's promises, which fails them.
                let _ = thunk::catch(job);
                state = self.state.lock();
                state.serving += 1;
                self.changed.notify_all();
            } else if state.is_closed && state.serving == state.next {
                return;
            } else {
                self.changed.wait(&mut state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn jobs_run_in_the_order_of_their_numbers() {
        let (line, (sender, ran)) = (Arc::new(Line::default()), channel());
        let numbers: Vec<_> = (0..4).map(|_| line.draw()).collect();
        for number in numbers.iter().rev() {
            let (sender, number) = (sender.clone(), *number);
            line.run(number, Box::new(move || sender.send(number).unwrap()), "line").unwrap();
        }
        let order: Vec<_> = (0..4).map(|_| ran.recv().unwrap()).collect();
        assert_eq!(order, numbers);
        line.wait_until_idle(Duration::MAX);
        assert!(!line.is_busy());
        line.close();
    }
}
