// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The output of a session to its sink.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Session;
use crate::log::Taken;
use crate::metadata;
use crate::thread_traces::Artifact;
use amdgpu_ffi::profile::schema::{
    DispatchEvent, Endpoint, ProfileData, QueueDeviceEvent, Record, RelationshipKind, RelationshipRecord,
};
use amdgpu_ffi::profile::{Chunk, ContentType, ProfileSink, Stream};
use amdgpu_ffi::{Code, Result, status};
use amdgpu_gpu::Gpu;

impl Session {
    fn chunk(&self, content: ContentType) -> Chunk<'_> {
        let (stream, event) = (None, None);
        Chunk { content, name: &self.name, session: self.id, stream, event, dropped: 0, is_truncated: false }
    }

    /// The sink, for calls to it.
    fn sink(&self) -> Result<ProfileSink> {
        self.sink.lock().clone().ok_or_else(|| status!(FAILED_PRECONDITION, "the profiling session has ended"))
    }

    /// Begins the session at the sink.
    ///
    /// # Errors
    /// The error of the sink.
    pub fn begin(&self) -> Result<()> {
        self.sink()?.begin(self.chunk(ContentType::SESSION))
    }

    /// Ends the session at the sink and releases the sink. `code` is the session's result.
    ///
    /// # Errors
    /// The error of the sink.
    pub fn end(&self, code: Code) -> Result<()> {
        let sink = self.sink()?;
        *self.sink.lock() = None;
        sink.end(self.chunk(ContentType::SESSION), code)
    }

    /// Writes the objects to which all later chunks refer: GPUs, queues, metrics and counters; and a first sample of
    /// metrics and clocks.
    ///
    /// # Errors
    /// The error of the sink or of HSA's clock query.
    pub fn write_head(&self, gpus: &[Arc<Gpu>]) -> Result<()> {
        let devices: Vec<_> = gpus.iter().map(|gpu| metadata::device_record(gpu, self.queues_per_gpu)).collect();
        self.sink()?.write(self.chunk(ContentType::DEVICES), &devices)?;
        let queues: Vec<_> = self.queues.iter().map(|queue| metadata::queue_record(queue.stream)).collect();
        self.sink()?.write(self.chunk(ContentType::QUEUES), &queues)?;
        if let Some(metrics) = &self.metrics {
            self.sink()?.write_bytes(self.chunk(ContentType::METRIC_SOURCES), &metrics.source_records())?;
            self.sink()?.write_bytes(self.chunk(ContentType::METRIC_DESCRIPTORS), &metrics.descriptor_records())?;
        }
        if let Some(counters) = &self.counters {
            self.sink()?.write_bytes(self.chunk(ContentType::COUNTER_SETS), &counters.set_records())?;
            self.sink()?.write_bytes(self.chunk(ContentType::COUNTERS), &counters.counter_records())?;
        }
        self.write_clocks()?;
        self.write_metrics()
    }

    /// Writes the executables and command buffers that were not written before.
    ///
    /// # Errors
    /// The error of the sink.
    pub fn write_metadata(&self) -> Result<()> {
        let (executables, programs) = {
            let mut objects = self.objects.lock();
            let new = objects.executables[objects.executables_written..].to_vec();
            objects.executables_written = objects.executables.len();
            (new, std::mem::take(&mut objects.new_programs))
        };
        let records: Vec<_> = executables.iter().map(|executable| executable.record()).collect();
        self.sink()?.write(self.chunk(ContentType::EXECUTABLES), &records)?;
        if self.wants(ProfileData::EXECUTABLE_METADATA | ProfileData::EXECUTABLE_TRACES) {
            for executable in &executables {
                // An executable without one of these does not prevent other records.
                match executable.code_object_record() {
                    Ok(record) => self.sink()?.write_bytes(self.chunk(ContentType::CODE_OBJECTS), &record)?,
                    Err(status) => self.fail(status),
                }
                match executable.load_records() {
                    Ok(records) => self.sink()?.write(self.chunk(ContentType::CODE_OBJECT_LOADS), &records)?,
                    Err(status) => self.fail(status),
                }
            }
        }
        let functions: Vec<u8> = executables.iter().flat_map(|executable| executable.function_records()).collect();
        self.sink()?.write_bytes(self.chunk(ContentType::FUNCTIONS), &functions)?;
        let (buffers, commands): (Vec<_>, Vec<_>) =
            programs.into_iter().map(|program| (program.buffer, program.commands)).unzip();
        self.sink()?.write(self.chunk(ContentType::COMMAND_BUFFERS), &buffers)?;
        self.sink()?.write(self.chunk(ContentType::COMMAND_OPERATIONS), &commands.concat())
    }

    /// Writes a sample of the clocks of each GPU, if there are device times.
    fn write_clocks(&self) -> Result<()> {
        if !self.wants_timestamps() {
            return Ok(());
        }
        let mut samples = Vec::with_capacity(self.gpu_count);
        for gpu in 0..self.gpu_count as u32 {
            let id = self.next_clock_sample.fetch_add(1, Ordering::Relaxed);
            samples.push(metadata::clock_sample(&self.library, gpu, id)?);
        }
        self.sink()?.write(self.chunk(ContentType::CLOCK_CORRELATIONS), &samples)
    }

    fn write_taken<T: Record>(&self, content: ContentType, stream: Option<Stream>, taken: &Taken<T>) -> Result<()> {
        self.sink()?.write(Chunk { stream, dropped: taken.dropped, ..self.chunk(content) }, &taken.events)
    }

    /// Writes all complete data.
    ///
    /// # Errors
    /// The error of the sink, in which case the remaining data is lost; the session's own failure. Both are returned by
    /// later calls, too.
    pub fn flush(&self) -> Result<()> {
        if let Err(status) = self.write_events() {
            self.fail(status);
        }
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    fn write_events(&self) -> Result<()> {
        // An object was logged before the events that refer to it, so it is taken after them: traces and samples, then
        // device events, then queue events, then metadata.
        let mut traces: Vec<_> = self.queues.iter().map(|logs| logs.traces.take().events).collect();
        let samples: Vec<_> = self.queues.iter().map(|logs| logs.samples.take().events.concat()).collect();
        let logs = self.queues.iter();
        let queues: Vec<_> = logs.map(|logs| (logs.stream, logs.dispatches.take(), logs.operations.take())).collect();
        let host_events = self.host_events.take();
        let region_events = self.region_events.take();
        let memory_events = self.memory.take();
        let queue_events = self.queue_events.take();
        self.write_metadata()?;
        self.write_taken(ContentType::QUEUE_EVENTS, None, &queue_events)?;
        self.write_taken(ContentType::HOST_EXECUTION_EVENTS, None, &host_events)?;
        self.write_taken(ContentType::COMMAND_REGION_EVENTS, None, &region_events)?;
        self.write_taken(ContentType::MEMORY_EVENTS, None, &memory_events)?;
        for (((stream, dispatches, operations), samples), traces) in queues.iter().zip(&samples).zip(&mut traces) {
            self.write_taken(ContentType::DISPATCH_EVENTS, Some(*stream), dispatches)?;
            let chunk = Chunk { stream: Some(*stream), ..self.chunk(ContentType::COUNTER_SAMPLES) };
            self.sink()?.write_bytes(chunk, samples)?;
            self.write_traces(*stream, std::mem::take(traces))?;
            self.write_taken(ContentType::QUEUE_DEVICE_EVENTS, Some(*stream), operations)?;
            self.write_relationships(*stream, &dispatches.events, &operations.events)?;
        }
        let ranges = std::mem::take(&mut *self.range_samples.lock());
        for (stream, records) in ranges {
            let chunk = Chunk { stream: Some(stream), ..self.chunk(ContentType::COUNTER_SAMPLES) };
            self.sink()?.write_bytes(chunk, &records)?;
        }
        self.queue_events.give(queue_events.events);
        self.host_events.give(host_events.events);
        self.region_events.give(region_events.events);
        for (logs, (_, dispatches, operations)) in self.queues.iter().zip(queues) {
            logs.dispatches.give(dispatches.events);
            logs.operations.give(operations.events);
        }
        self.write_clocks()?;
        self.write_metrics()
    }

    /// Writes a sample of the metrics of each GPU, if they are wanted.
    fn write_metrics(&self) -> Result<()> {
        let Some(metrics) = &self.metrics else { return Ok(()) };
        self.sink()?.write_bytes(self.chunk(ContentType::METRIC_SAMPLES), &metrics.samples())
    }

    /// Writes traces, each as a chunk of its own.
    fn write_traces(&self, stream: Stream, artifacts: Vec<Artifact>) -> Result<()> {
        artifacts.iter().try_for_each(|Artifact { event, bytes, is_truncated, .. }| {
            let chunk = self.chunk(ContentType::EXECUTABLE_TRACES);
            let of = Chunk { stream: Some(stream), event: Some(*event), is_truncated: *is_truncated, ..chunk };
            self.sink()?.write_bytes(of, bytes)
        })
    }

    /// Writes the relationships between device events and submissions.
    fn write_relationships(
        &self,
        stream: Stream,
        dispatches: &[DispatchEvent],
        operations: &[QueueDeviceEvent],
    ) -> Result<()> {
        let part = |(kind, target, submission, event): (RelationshipKind, Endpoint, u64, u64)| {
            let mut record = RelationshipRecord::blank();
            record.type_ = kind as u32;
            record.relationship_id = self.next_relationship.fetch_add(1, Ordering::Relaxed);
            record.source_type = Endpoint::QueueSubmission as u32;
            record.target_type = target as u32;
            record.physical_device_ordinal = stream.gpu;
            record.queue_ordinal = stream.queue;
            record.stream_id = stream.id();
            record.source_id = submission;
            record.target_id = event;
            record
        };
        let dispatches = dispatches.iter().map(|event| {
            (RelationshipKind::SubmissionDispatch, Endpoint::DispatchEvent, event.submission_id, event.event_id)
        });
        let operations = operations.iter().map(|event| {
            (RelationshipKind::SubmissionQueueDevice, Endpoint::QueueDeviceEvent, event.submission_id, event.event_id)
        });
        let records: Vec<_> = dispatches.chain(operations).map(part).collect();
        let chunk = Chunk { stream: Some(stream), ..self.chunk(ContentType::RELATIONSHIPS) };
        self.sink()?.write(chunk, &records)
    }
}
