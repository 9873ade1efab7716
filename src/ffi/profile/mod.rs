// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Profile sinks and the records that go to them (`iree/hal/profile_sink.h`, `iree/hal/profile_schema.h`).

pub mod metrics;
pub mod schema;

use schema::Record;

use super::object::{Borrowed, HalRef};
use super::raw;
use super::status::{Code, Result};
use super::strings;
use crate::iree;

/// The content type of a payload, an array of one kind of record. The texts are `IREE_HAL_PROFILE_CONTENT_TYPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentType(&'static str);

impl ContentType {
    /// The boundaries of a session.
    pub const SESSION: Self = Self("application/vnd.iree.hal.profile.session");
    /// `iree_hal_profile_device_record_t`.
    pub const DEVICES: Self = Self("application/vnd.iree.hal.profile.devices");
    /// `iree_hal_profile_queue_record_t`.
    pub const QUEUES: Self = Self("application/vnd.iree.hal.profile.queues");
    /// `iree_hal_profile_executable_record_t`.
    pub const EXECUTABLES: Self = Self("application/vnd.iree.hal.profile.executables");
    /// `iree_hal_profile_executable_code_object_record_t`, each followed by the code object.
    pub const CODE_OBJECTS: Self = Self("application/vnd.iree.hal.profile.executable-code-objects");
    /// `iree_hal_profile_executable_code_object_load_record_t`.
    pub const CODE_OBJECT_LOADS: Self = Self("application/vnd.iree.hal.profile.executable-code-object-loads");
    /// `iree_hal_profile_executable_function_record_t`, each followed by its name.
    pub const FUNCTIONS: Self = Self("application/vnd.iree.hal.profile.executable-functions");
    /// `iree_hal_profile_command_buffer_record_t`.
    pub const COMMAND_BUFFERS: Self = Self("application/vnd.iree.hal.profile.command-buffers");
    /// `iree_hal_profile_command_operation_record_t`.
    pub const COMMAND_OPERATIONS: Self = Self("application/vnd.iree.hal.profile.command-operations");
    /// `iree_hal_profile_clock_correlation_record_t`.
    pub const CLOCK_CORRELATIONS: Self = Self("application/vnd.iree.hal.profile.clock-correlations");
    /// `iree_hal_profile_dispatch_event_t`.
    pub const DISPATCH_EVENTS: Self = Self("application/vnd.iree.hal.profile.dispatch-events");
    /// `iree_hal_profile_queue_event_t`.
    pub const QUEUE_EVENTS: Self = Self("application/vnd.iree.hal.profile.queue-events");
    /// `iree_hal_profile_queue_device_event_t`.
    pub const QUEUE_DEVICE_EVENTS: Self = Self("application/vnd.iree.hal.profile.queue-device-events");
    /// `iree_hal_profile_host_execution_event_t`.
    pub const HOST_EXECUTION_EVENTS: Self = Self("application/vnd.iree.hal.profile.host-execution-events");
    /// `iree_hal_profile_command_region_event_t`.
    pub const COMMAND_REGION_EVENTS: Self = Self("application/vnd.iree.hal.profile.command-region-events");
    /// `iree_hal_profile_memory_event_t`.
    pub const MEMORY_EVENTS: Self = Self("application/vnd.iree.hal.profile.memory-events");
    /// `iree_hal_profile_device_metric_source_record_t`, each followed by its name.
    pub const METRIC_SOURCES: Self = Self("application/vnd.iree.hal.profile.device-metric-sources");
    /// `iree_hal_profile_device_metric_descriptor_record_t`, each followed by name and description.
    pub const METRIC_DESCRIPTORS: Self = Self("application/vnd.iree.hal.profile.device-metric-descriptors");
    /// `iree_hal_profile_device_metric_sample_record_t`, each followed by its values.
    pub const METRIC_SAMPLES: Self = Self("application/vnd.iree.hal.profile.device-metric-samples");
    /// `iree_hal_profile_counter_set_record_t`, each followed by its name.
    pub const COUNTER_SETS: Self = Self("application/vnd.iree.hal.profile.counter-sets");
    /// `iree_hal_profile_counter_record_t`, each followed by block, name and description.
    pub const COUNTERS: Self = Self("application/vnd.iree.hal.profile.counters");
    /// `iree_hal_profile_counter_sample_record_t`, each followed by its values.
    pub const COUNTER_SAMPLES: Self = Self("application/vnd.iree.hal.profile.counter-samples");
    /// `iree_hal_profile_executable_trace_record_t`, one, followed by the trace.
    pub const EXECUTABLE_TRACES: Self = Self("application/vnd.iree.hal.profile.executable-traces");
    /// `iree_hal_profile_event_relationship_record_t`.
    pub const RELATIONSHIPS: Self = Self("application/vnd.iree.hal.profile.event-relationships");
}

/// The bytes of records, for payloads that mix them with other bytes.
pub fn bytes_of<R: Record>(record: &R) -> &[u8] {
    // SAFETY: `blank` copies the struct from C whole, and the formats have no
    // padding: sizes are asserted by IREE's header.
    unsafe { core::slice::from_raw_parts((&raw const *record).cast(), size_of::<R>()) }
}

/// The queue of a chunk's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Ordinal of the GPU in the session.
    pub gpu: u32,
    /// Ordinal of the queue on the GPU.
    pub queue: u32,
}

impl Stream {
    /// The stream's identifier, unique in the session.
    pub fn id(self) -> u64 {
        u64::from(self.gpu) << 32 | u64::from(self.queue)
    }
}

/// The dispatch of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The identifier of its event.
    pub id: u64,
    /// The executable.
    pub executable: u64,
    /// The command buffer; 0 for none.
    pub command_buffer: u64,
}

/// The properties of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The content type.
    pub content: ContentType,
    /// The name of the session's device.
    pub name: &'a str,
    /// The session.
    pub session: u64,
    /// The queue, if all contents are of one.
    pub stream: Option<Stream>,
    /// The dispatch, if all contents are of one.
    pub event: Option<Origin>,
    /// The number of records that were lost.
    pub dropped: u64,
    /// The contents are incomplete.
    pub is_truncated: bool,
}

impl Chunk<'_> {
    fn to_raw(self) -> raw::iree_hal_profile_chunk_metadata_t {
        // SAFETY: a pure function.
        let mut metadata = unsafe { raw::iree_hal_profile_chunk_metadata_default() };
        metadata.content_type = strings::view(self.content.0);
        metadata.name = strings::view(self.name);
        metadata.session_id = self.session;
        if let Some(stream) = self.stream {
            metadata.stream_id = stream.id();
            metadata.physical_device_ordinal = stream.gpu;
            metadata.queue_ordinal = stream.queue;
        }
        if let Some(event) = self.event {
            metadata.event_id = event.id;
            metadata.executable_id = event.executable;
            metadata.command_buffer_id = event.command_buffer;
        }
        if self.dropped > 0 || self.is_truncated {
            metadata.flags = u64::from(raw::IREE_HAL_PROFILE_CHUNK_FLAG_TRUNCATED);
            metadata.dropped_record_count = self.dropped;
        }
        metadata
    }
}

/// The application's receiver of a session's chunks. Its calls may block and
/// allocate: never under a lock that queues take.
#[derive(Clone, Debug)]
pub struct ProfileSink(HalRef<raw::iree_hal_profile_sink_t>);

impl ProfileSink {
    /// Retains the caller's sink.
    pub fn retain(sink: Borrowed<'_, raw::iree_hal_profile_sink_t>) -> Self {
        Self(sink.retain())
    }

    /// Begins a session.
    ///
    /// # Errors
    /// The error of the sink.
    pub fn begin(&self, chunk: Chunk<'_>) -> Result<()> {
        let metadata = chunk.to_raw();
        // SAFETY: the sink is held; the metadata lives during the call.
        unsafe { iree!(raw::iree_hal_profile_sink_begin_session(self.0.as_ptr(), &raw const metadata)) }
    }

    /// Writes records, or only the number of lost ones if there are none. Does nothing if nothing was lost either.
    ///
    /// # Errors
    /// The error of the sink.
    pub fn write<R: Record>(&self, chunk: Chunk<'_>, records: &[R]) -> Result<()> {
        self.write_span(chunk, records.as_ptr().cast(), size_of_val(records))
    }

    /// Writes records of different lengths.
    ///
    /// # Errors
    /// The error of the sink.
    pub fn write_bytes(&self, chunk: Chunk<'_>, bytes: &[u8]) -> Result<()> {
        self.write_span(chunk, bytes.as_ptr(), bytes.len())
    }

    fn write_span(&self, chunk: Chunk<'_>, data: *const u8, data_length: usize) -> Result<()> {
        if data_length == 0 && chunk.dropped == 0 {
            return Ok(());
        }
        let metadata = chunk.to_raw();
        let span = raw::iree_const_byte_span_t { data, data_length };
        let count = usize::from(data_length > 0);
        // SAFETY: the sink is held; metadata and payload live during the call.
        unsafe { iree!(raw::iree_hal_profile_sink_write(self.0.as_ptr(), &raw const metadata, count, &raw const span)) }
    }

    /// Ends the session. `code` is its result.
    ///
    /// # Errors
    /// The error of the sink.
    pub fn end(&self, chunk: Chunk<'_>, code: Code) -> Result<()> {
        let metadata = chunk.to_raw();
        // SAFETY: the sink is held; the metadata live during the call.
        unsafe { iree!(raw::iree_hal_profile_sink_end_session(self.0.as_ptr(), &raw const metadata, code.to_raw())) }
    }
}

/// IREE's monotonic host clock, in nanoseconds.
#[inline]
pub fn host_time() -> i64 {
    // SAFETY: reads a clock.
    unsafe { raw::iree_time_now() }
}
