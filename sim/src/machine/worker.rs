// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A thread of the machine that sleeps until it is woken.

use std::io;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

/// The thread, from its start to its stop.
#[derive(Debug, Default)]
pub struct Worker(Mutex<Option<JoinHandle<()>>>);

impl Worker {
    /// Starts the thread, which parks when it has nothing to do.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(&self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        *self.0.lock() = Some(thread::Builder::new().name(name.to_owned()).spawn(body)?);
        Ok(())
    }

    /// Unparks the thread because there is something to do.
    pub fn wake(&self) {
        if let Some(thread) = &*self.0.lock() {
            thread.thread().unpark();
        }
    }

    /// Waits for the end of the thread, which must have been told to end.
    pub fn stop(&self) {
        let thread = self.0.lock().take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            // A thread that panicked has nothing left to do.
            let _ = thread.join();
        }
    }
}
