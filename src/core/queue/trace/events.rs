// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The events that are made from the trace of one operation.

use super::Trace;
use super::packets::Launched;
use amdgpu_ffi::profile::host_time;
use amdgpu_ffi::profile::schema::{
    DependencyStrategy, DispatchEvent, HostExecutionEvent, ProfileData, QueueDeviceEvent, QueueEvent, Record, flags,
};
use amdgpu_ffi::{Code, Result, status, tracing};
use amdgpu_gpu::Gpu;
use amdgpu_profile::regions::{self, HostClock};
use amdgpu_profile::{LaunchInfo, Profiler};

impl Trace {
    /// Logs that the operation was submitted, and, if it was started, its span until now.
    pub(super) fn log_host(&self, code: Code) {
        let session = self.session();
        if session.wants(ProfileData::QUEUE_EVENTS) {
            session.log_queue_event(self.queue_event());
        }
        if let Some(note) = &self.info.memory
            && let Some(memory) = session.memory()
            && self.started != 0
        {
            let mut event = note.event();
            event.host_time_ns = self.started;
            event.submission_id = self.submission;
            event.physical_device_ordinal = self.stream.gpu;
            event.queue_ordinal = self.stream.queue;
            memory.push(event);
        }
        if self.started != 0 && session.wants(ProfileData::HOST_EXECUTION_EVENTS) {
            session.log_host_event(self.host_event(code));
        }
    }

    fn allocation(&self) -> u64 {
        self.info.memory.map_or(0, |note| note.allocation)
    }

    fn flags(&self) -> u32 {
        if self.was_deferred { flags::QUEUE_SOFTWARE_DEFERRED } else { 0 }
    }

    fn queue_event(&self) -> QueueEvent {
        let mut event = QueueEvent::blank();
        event.type_ = self.info.kind as u32;
        event.flags = self.flags();
        event.dependency_strategy = if self.was_deferred {
            DependencyStrategy::SoftwareDefer
        } else if self.waits == 0 {
            DependencyStrategy::None
        } else if self.wait_packets > 0 {
            DependencyStrategy::DeviceBarrier
        } else {
            DependencyStrategy::Inline
        } as u32;
        event.host_time_ns = self.submitted;
        event.submission_id = self.submission;
        event.command_buffer_id = self.info.command_buffer;
        event.allocation_id = self.allocation();
        event.stream_id = self.stream.id();
        event.physical_device_ordinal = self.stream.gpu;
        event.queue_ordinal = self.stream.queue;
        event.wait_count = self.waits;
        event.signal_count = self.signals;
        event.barrier_count = self.wait_packets;
        event.operation_count = self.info.operations;
        event.payload_length = self.info.length;
        event.ready_host_time_ns = self.ready;
        event
    }

    /// The span as the host sees it: from the doorbell, or from the start on a host thread, until the host sees the
    /// completion.
    fn host_event(&self, code: Code) -> HostExecutionEvent {
        let mut event = HostExecutionEvent::blank();
        event.type_ = self.info.kind as u32;
        // Nothing is executed in the call that submits it.
        event.flags = flags::HOST_DEFERRED;
        event.status_code = code.to_raw();
        event.submission_id = self.submission;
        event.command_buffer_id = self.info.command_buffer;
        event.allocation_id = self.allocation();
        if self.info.command_buffer != 0 {
            event.flags |= flags::HOST_OF_COMMAND_BUFFER;
        }
        if let Some(launch) = &self.info.launch {
            event.executable_id = launch.function.executable;
            event.function_ordinal = launch.function.ordinal;
            event.workgroup_count = launch.workgroup_count;
            event.workgroup_size = launch.workgroup_size;
            if launch.indirect {
                event.flags |= flags::HOST_INDIRECT_PARAMETERS;
            }
        }
        event.stream_id = self.stream.id();
        event.physical_device_ordinal = self.stream.gpu;
        event.queue_ordinal = self.stream.queue;
        event.start_host_time_ns = self.started;
        event.end_host_time_ns = host_time();
        event.payload_length = self.info.length;
        event.operation_count = self.info.operations;
        event
    }

    /// Logs the events that have device times.
    pub(super) fn log_device(&self, (gpu, ordinal): (&Gpu, u32), profiler: &Profiler) -> Result<()> {
        let session = self.session();
        let mut launches = Vec::new();
        for Launched { signal, info: launch, count, trace } in &self.packets.launched {
            let (start, end) = self.times(gpu, *signal)?;
            if self.packets.launches && session.selects_launch(launch) {
                let count = count.map(|count| &self.packets.counts[count]);
                let trace = trace.map(|trace| &*self.packets.traces[trace]);
                session.log_dispatch(ordinal, self.dispatch_event(launch, start, end), count, trace)?;
                if tracing::TRACES_DEVICES {
                    profiler.add_zone(
                        session.library(),
                        (ordinal, session.queue_count()),
                        launch.function,
                        (start, end),
                    );
                }
            }
            if self.packets.regions {
                launches.push((*launch, (start, end)));
            }
        }
        if self.packets.regions {
            self.log_regions(gpu, &launches)?;
        }
        if let (Some(first), Some(last)) = (self.packets.first, self.packets.last) {
            let (start, end) = self.times(gpu, first)?;
            let end = if first == last { end } else { self.times(gpu, last)?.1 };
            session.log_operation(ordinal, self.device_event(start, end));
        }
        Ok(())
    }

    fn log_regions(&self, gpu: &Gpu, launches: &[(LaunchInfo, (u64, u64))]) -> Result<()> {
        let session = self.session();
        let barriers = session.barriers(self.info.command_buffer);
        for mut event in regions::events(&barriers, launches, HostClock::new(session.library())?) {
            event.submission_id = self.submission;
            event.command_buffer_id = self.info.command_buffer;
            event.stream_id = self.stream.id();
            event.queue.physical_device_ordinal = self.stream.gpu;
            event.queue.queue_ordinal = self.stream.queue;
            event.scheduler.worker_count = gpu.agent().info().compute_units;
            session.log_region(event);
        }
        Ok(())
    }

    /// The start and end time of the packet with this signal.
    fn times(&self, gpu: &Gpu, signal: usize) -> Result<(u64, u64)> {
        let time = self.packets.signals[signal].dispatch_time(gpu.agent().handle())?;
        if time.start == 0 || time.end == 0 {
            return Err(status!(DATA_LOSS, "a profiled packet is complete and the runtime has no times for it"));
        }
        // The runtime adjusts its translation between the two clocks now and then, perhaps between two translations.
        Ok((time.start, time.end.max(time.start)))
    }

    fn dispatch_event(&self, launch: &LaunchInfo, start: u64, end: u64) -> DispatchEvent {
        let mut event = DispatchEvent::blank();
        if self.info.command_buffer != 0 {
            event.flags |= flags::DISPATCH_OF_COMMAND_BUFFER;
        }
        if launch.indirect {
            event.flags |= flags::DISPATCH_INDIRECT_PARAMETERS;
        }
        event.submission_id = self.submission;
        event.command_buffer_id = self.info.command_buffer;
        event.executable_id = launch.function.executable;
        event.command_index = launch.command_index;
        event.function_ordinal = launch.function.ordinal;
        event.workgroup_count = launch.workgroup_count;
        event.workgroup_size = launch.workgroup_size;
        (event.start_tick, event.end_tick) = (start, end);
        event
    }

    fn device_event(&self, start: u64, end: u64) -> QueueDeviceEvent {
        let mut event = QueueDeviceEvent::blank();
        event.type_ = self.info.kind as u32;
        event.flags = self.flags();
        event.submission_id = self.submission;
        event.command_buffer_id = self.info.command_buffer;
        event.allocation_id = self.allocation();
        event.stream_id = self.stream.id();
        event.payload_length = self.info.length;
        event.physical_device_ordinal = self.stream.gpu;
        event.queue_ordinal = self.stream.queue;
        event.operation_count = self.info.operations;
        (event.start_tick, event.end_tick) = (start, end.max(start));
        event
    }
}
