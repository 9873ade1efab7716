// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The profiling sessions of a logical device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::LogicalDevice;
use amdgpu_ffi::profile::schema::ProfileData;
use amdgpu_ffi::{Code, Result, Status, status, tracing};
use amdgpu_operations::counting::turn_over;
use amdgpu_profile::FunctionRef;
use amdgpu_profile::session::{Filter, Range, Request, Session};

impl LogicalDevice {
    /// Begins a profiling session. Operations submitted from now on are in it, and no longer in the driver's own
    /// session.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when there is a session or the device has no queues; UNIMPLEMENTED for data that the driver
    /// does not produce; as for [`Counters::new`](amdgpu_profile::counters::Counters::new); the error of the sink
    /// or of HSA. There is no session then.
    pub fn begin_profiling(&self, name: &str, request: Request) -> Result<()> {
        request.check()?;
        self.begin_session(name, request).inspect_err(|_| self.begin_zones())
    }

    fn begin_session(&self, name: &str, request: Request) -> Result<()> {
        let profiler = self.profiler();
        let control = profiler.control();
        if profiler.requested_session().is_some() {
            return Err(status!(FAILED_PRECONDITION, "the device has a profiling session; end it first"));
        }
        let queues = self.queues().list();
        if queues.iter().all(|queue| queue.is_stopping()) {
            return Err(status!(
                FAILED_PRECONDITION,
                "the device has no queues to profile: it must be added to a device group (iree_hal_device_group_create) first"
            ));
        }
        let session = self.new_session(name, request)?;
        session.begin()?;
        let begun = session.write_head(self.gpus()).and_then(|()| self.set_timestamps(&session, true)).and_then(|()| {
            profiler.publish(&session);
            self.note_counting();
            session.write_metadata()
        });
        if let Err(status) = begun {
            profiler.retract();
            self.note_counting();
            // The first failure is the one to tell of.
            let _ = self.set_timestamps(&session, false);
            let _ = session.end(status.code());
            return Err(status);
        }
        // Not under the lock, as it waits for the GPUs.
        drop(control);
        if let Err(status) = self.begin_ranges(&session) {
            session.fail(status.clone());
            let _ = self.end_session();
            return Err(status);
        }
        Ok(())
    }

    fn new_session(&self, name: &str, request: Request) -> Result<Arc<Session>> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let (id, queues_per_gpu) = (NEXT_ID.fetch_add(1, Ordering::Relaxed), self.options().hardware_queues_per_gpu);
        Session::new(id, name, request, self.gpus(), queues_per_gpu as u32).map(Arc::new)
    }

    /// Begins the driver's own session, which adds kernels to IREE's trace, if IREE traces devices and the device has
    /// no session. If that fails, the trace lacks the kernels.
    pub(super) fn begin_zones(&self) {
        if !tracing::TRACES_DEVICES {
            return;
        }
        let _control = self.profiler().control();
        if self.profiler().session().is_some() || self.queues().list().is_empty() {
            return;
        }
        let (filter, counter_sets) = (Filter::default(), Vec::new());
        let request = Request { families: ProfileData::DISPATCH_EVENTS, sink: None, filter, counter_sets };
        if let Ok(session) = self.new_session("", request)
            && self.set_timestamps(&session, true).is_ok()
        {
            self.profiler().publish(&session);
        }
    }

    /// Writes all complete data to the session's sink. Does nothing without a session.
    ///
    /// # Errors
    /// The error of the sink; the session's own failure, see [`Session::fail`].
    pub fn flush_profiling(&self) -> Result<()> {
        // Before the lock, as it waits for the GPUs.
        if let Some(session) = self.profiler().requested_session() {
            self.turn_ranges(&session, true);
        }
        let _control = self.profiler().control();
        let Some(session) = self.profiler().requested_session() else { return Ok(()) };
        session.flush()
    }

    /// Ends the session, if there is one, after the submissions in the queues' rings. The session is over even if this
    /// fails. Submissions that wait for semaphores have not run and are not in it.
    ///
    /// # Errors
    /// As for [`Self::flush_profiling`].
    pub fn end_profiling(&self) -> Result<()> {
        let ended = self.end_session();
        self.begin_zones();
        ended
    }

    /// Ends the application's session, and does not begin the driver's own.
    pub(super) fn end_session(&self) -> Result<()> {
        let Some(session) = self.profiler().requested_session() else { return Ok(()) };
        // Before the lock: waiting completes submissions, which calls the application back.
        let queues = self.queues().list();
        for queue in queues {
            queue.wait_until_drained();
        }
        self.turn_ranges(&session, false);
        let _control = self.profiler().control();
        let Some(session) = self.profiler().retract() else { return Ok(()) };
        self.note_counting();
        let written = session.flush();
        let stopped = self.set_timestamps(&session, false);
        let loss = queues.iter().find_map(|queue| queue.failure().cloned());
        let code = written.as_ref().err().or(loss.as_ref()).map_or(Code::OK, Status::code);
        let ended = session.end(code);
        queues.iter().for_each(|queue| queue.drop_unused_traces());
        written.and(stopped).and(ended)
    }

    /// Sets the queues that submissions choose from: none while the session counts hardware events of launches.
    /// Submissions read the mask anyway, so that this costs nothing without a session.
    fn note_counting(&self) {
        let open = if self.profiler().is_counting() { 0 } else { self.queue_mask() };
        self.open_mask.store(open, Ordering::Relaxed);
    }

    /// Starts counting on each GPU if `session` wants counter ranges. Ranges are read on the last queue of a GPU, which
    /// also starts last, because submissions of any affinity mostly go to the first queue. After a failure, the ranges
    /// that have started end with the session.
    fn begin_ranges(&self, session: &Session) -> Result<()> {
        let Some(counters) = session.range_counters() else { return Ok(()) };
        let mut ranges = session.ranges().lock();
        let of_gpus = self.queues().list().chunks(self.options().hardware_queues_per_gpu);
        for (gpu, (range, queues)) in ranges.iter_mut().zip(of_gpus).enumerate() {
            for queue in queues {
                let (count, counts) = match range.take() {
                    Some(begun) => (begun.count, true),
                    None => (counters.take(gpu as u32, FunctionRef::default())?, false),
                };
                match turn_over(queue, session, None, Some(count)) {
                    Ok(turned) => *range = turned.begun,
                    Err(unturned) => {
                        let start = Err(unturned.status.clone());
                        *range = unturned.begun.filter(|_| counts).map(|count| Range { count, start });
                        return Err(unturned.status);
                    }
                }
                if let Some(Range { start: Err(status), .. }) = range {
                    return Err(status.clone());
                }
            }
        }
        Ok(())
    }

    /// Ends the ranges of `session`, and begins the next ones if `again`. An error becomes the session's failure.
    fn turn_ranges(&self, session: &Session, again: bool) {
        let Some(counters) = session.range_counters() else { return };
        let queues = self.queues().list();
        // A thread in a callback of a queue must not wait for a thread that holds the lock and may wait for that queue.
        let is_called_back = queues.iter().any(|queue| queue.is_drained_by_this_thread());
        let ranges = if is_called_back { session.ranges().try_lock() } else { Some(session.ranges().lock()) };
        let Some(mut ranges) = ranges else {
            if !again {
                session
                    .fail(status!(ABORTED, "a profiling session ended in a callback while another thread flushed it"));
            }
            return;
        };
        for (gpu, queues) in queues.chunks(self.options().hardware_queues_per_gpu).enumerate() {
            let (Some(range), Some(queue)) = (ranges[gpu].take(), queues.last()) else { continue };
            // Without memory for another one, the range ends all the same.
            let (next, taken) = match again.then(|| counters.take(gpu as u32, FunctionRef::default())).transpose() {
                Ok(next) => (next, Ok(())),
                Err(status) => (None, Err(status)),
            };
            let logged = match turn_over(queue, session, Some(range), next) {
                Ok(turned) => {
                    ranges[gpu] = turned.begun;
                    turned.ended.map_or(Ok(()), |(range, end)| session.log_range(queue.ordinal(), &range, end?))
                }
                Err(unturned) => {
                    ranges[gpu] = unturned.ended;
                    Err(unturned.status)
                }
            };
            if let Err(status) = logged.and(taken) {
                session.fail(status.annotate("a profiling session lost a range of hardware counters"));
            }
        }
    }

    /// Enables or disables time stamps in completion signals, if `session` wants them.
    fn set_timestamps(&self, session: &Session, enabled: bool) -> Result<()> {
        if !session.wants_timestamps() {
            return Ok(());
        }
        let queues = self.queues().list();
        queues.iter().try_for_each(|queue| queue.set_profiling(enabled))
    }
}
