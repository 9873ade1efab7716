// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Records, kinds and flags of the profile format (`iree/hal/profile_schema.h`), and the families of data that sessions
//! can request (`iree/hal/device.h`).

use bitflags::bitflags;

use crate::{Result, raw, status};

/// A fixed-length record of the profile format.
///
/// # Safety
/// A struct of C that is valid as all zeros, with its own length in its first field.
pub unsafe trait Record: Copy {
    /// The record with its length set, ordinals absent and the rest 0.
    fn blank() -> Self;
}

macro_rules! records {
    ($($name:ident = $record:ident by $default:ident;)*) => {$(
        #[doc = concat!("`", stringify!($record), "`.")]
        pub type $name = raw::$record;

        // SAFETY: IREE's header says so of each.
        unsafe impl Record for raw::$record {
            #[inline]
            fn blank() -> Self {
                // SAFETY: a pure function.
                unsafe { raw::$default() }
            }
        }
    )*};
}

records! {
    DeviceRecord = iree_hal_profile_device_record_t by iree_hal_profile_device_record_default;
    QueueRecord = iree_hal_profile_queue_record_t by iree_hal_profile_queue_record_default;
    ExecutableRecord = iree_hal_profile_executable_record_t by iree_hal_profile_executable_record_default;
    CodeObjectRecord = iree_hal_profile_executable_code_object_record_t by iree_hal_profile_executable_code_object_record_default;
    CodeObjectLoadRecord = iree_hal_profile_executable_code_object_load_record_t by iree_hal_profile_executable_code_object_load_record_default;
    FunctionRecord = iree_hal_profile_executable_function_record_t by iree_hal_profile_executable_function_record_default;
    CommandBufferRecord = iree_hal_profile_command_buffer_record_t by iree_hal_profile_command_buffer_record_default;
    CommandRecord = iree_hal_profile_command_operation_record_t by iree_hal_profile_command_operation_record_default;
    ClockSample = iree_hal_profile_clock_correlation_record_t by iree_hal_profile_clock_correlation_record_default;
    DispatchEvent = iree_hal_profile_dispatch_event_t by iree_hal_profile_dispatch_event_default;
    QueueEvent = iree_hal_profile_queue_event_t by iree_hal_profile_queue_event_default;
    QueueDeviceEvent = iree_hal_profile_queue_device_event_t by iree_hal_profile_queue_device_event_default;
    HostExecutionEvent = iree_hal_profile_host_execution_event_t by iree_hal_profile_host_execution_event_default;
    CommandRegionEvent = iree_hal_profile_command_region_event_t by iree_hal_profile_command_region_event_default;
    MemoryEvent = iree_hal_profile_memory_event_t by iree_hal_profile_memory_event_default;
    MetricSourceRecord = iree_hal_profile_device_metric_source_record_t by iree_hal_profile_device_metric_source_record_default;
    MetricDescriptorRecord = iree_hal_profile_device_metric_descriptor_record_t by iree_hal_profile_device_metric_descriptor_record_default;
    MetricSampleRecord = iree_hal_profile_device_metric_sample_record_t by iree_hal_profile_device_metric_sample_record_default;
    CounterSetRecord = iree_hal_profile_counter_set_record_t by iree_hal_profile_counter_set_record_default;
    CounterRecord = iree_hal_profile_counter_record_t by iree_hal_profile_counter_record_default;
    CounterSampleRecord = iree_hal_profile_counter_sample_record_t by iree_hal_profile_counter_sample_record_default;
    ExecutableTraceRecord = iree_hal_profile_executable_trace_record_t by iree_hal_profile_executable_trace_record_default;
    RelationshipRecord = iree_hal_profile_event_relationship_record_t by iree_hal_profile_event_relationship_record_default;
}

bitflags! {
    /// `iree_hal_device_profiling_data_families_t`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ProfileData: u64 {
        /// `IREE_HAL_DEVICE_PROFILING_DATA_QUEUE_EVENTS`.
        const QUEUE_EVENTS = raw::IREE_HAL_DEVICE_PROFILING_DATA_QUEUE_EVENTS as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_HOST_EXECUTION_EVENTS`.
        const HOST_EXECUTION_EVENTS = raw::IREE_HAL_DEVICE_PROFILING_DATA_HOST_EXECUTION_EVENTS as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_QUEUE_EVENTS`.
        const DEVICE_QUEUE_EVENTS = raw::IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_QUEUE_EVENTS as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_DISPATCH_EVENTS`.
        const DISPATCH_EVENTS = raw::IREE_HAL_DEVICE_PROFILING_DATA_DISPATCH_EVENTS as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_MEMORY_EVENTS`.
        const MEMORY_EVENTS = raw::IREE_HAL_DEVICE_PROFILING_DATA_MEMORY_EVENTS as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_METADATA`.
        const EXECUTABLE_METADATA = raw::IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_METADATA as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_SAMPLES`.
        const COUNTER_SAMPLES = raw::IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_SAMPLES as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_RANGES`.
        const COUNTER_RANGES = raw::IREE_HAL_DEVICE_PROFILING_DATA_COUNTER_RANGES as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_TRACES`.
        const EXECUTABLE_TRACES = raw::IREE_HAL_DEVICE_PROFILING_DATA_EXECUTABLE_TRACES as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_METRICS`.
        const DEVICE_METRICS = raw::IREE_HAL_DEVICE_PROFILING_DATA_DEVICE_METRICS as u64;
        /// `IREE_HAL_DEVICE_PROFILING_DATA_COMMAND_REGION_EVENTS`.
        const COMMAND_REGION_EVENTS = raw::IREE_HAL_DEVICE_PROFILING_DATA_COMMAND_REGION_EVENTS as u64;
    }
}

impl ProfileData {
    /// These bits, if all are known.
    ///
    /// # Errors
    /// INVALID_ARGUMENT.
    pub fn known(bits: u64) -> Result<Self> {
        let unknown = bits & !Self::all().bits();
        Self::from_bits(bits).ok_or_else(|| status!(INVALID_ARGUMENT, "unknown profiling data families {unknown:#x}"))
    }
}

/// Defines the kinds of records as numbers.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident { $($kind:ident = $value:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name {
            $(
                #[doc = concat!("`", stringify!($value), "`.")]
                $kind = raw::$value,
            )*
        }
    )*};
}

kinds! {
    /// `iree_hal_profile_queue_event_type_t`: the operation of a queue.
    QueueEventKind {
        Barrier = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_BARRIER,
        Dispatch = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_DISPATCH,
        Execute = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_EXECUTE,
        Copy = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_COPY,
        Fill = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_FILL,
        Update = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_UPDATE,
        Read = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_READ,
        Write = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_WRITE,
        Alloca = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_ALLOCA,
        Dealloca = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_DEALLOCA,
        HostCall = IREE_HAL_PROFILE_QUEUE_EVENT_TYPE_HOST_CALL,
    }
    /// `iree_hal_profile_command_operation_type_t`: a recorded command.
    CommandKind {
        Barrier = IREE_HAL_PROFILE_COMMAND_OPERATION_TYPE_BARRIER,
        Dispatch = IREE_HAL_PROFILE_COMMAND_OPERATION_TYPE_DISPATCH,
        Fill = IREE_HAL_PROFILE_COMMAND_OPERATION_TYPE_FILL,
        Copy = IREE_HAL_PROFILE_COMMAND_OPERATION_TYPE_COPY,
        Update = IREE_HAL_PROFILE_COMMAND_OPERATION_TYPE_UPDATE,
    }
    /// `iree_hal_profile_memory_event_type_t`.
    MemoryEventKind {
        SlabAcquire = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_SLAB_ACQUIRE,
        SlabRelease = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_SLAB_RELEASE,
        PoolReserve = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_POOL_RESERVE,
        PoolMaterialize = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_POOL_MATERIALIZE,
        PoolRelease = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_POOL_RELEASE,
        PoolWait = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_POOL_WAIT,
        QueueAlloca = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_QUEUE_ALLOCA,
        QueueDealloca = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_QUEUE_DEALLOCA,
        BufferAllocate = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_BUFFER_ALLOCATE,
        BufferFree = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_BUFFER_FREE,
        BufferImport = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_BUFFER_IMPORT,
        BufferUnimport = IREE_HAL_PROFILE_MEMORY_EVENT_TYPE_BUFFER_UNIMPORT,
    }
    /// `iree_hal_profile_queue_dependency_strategy_t`: the way in which an operation waits.
    DependencyStrategy {
        None = IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_NONE,
        Inline = IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_INLINE,
        DeviceBarrier = IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_DEVICE_BARRIER,
        SoftwareDefer = IREE_HAL_PROFILE_QUEUE_DEPENDENCY_STRATEGY_SOFTWARE_DEFER,
    }
    /// `iree_hal_profile_counter_unit_t`.
    CounterUnit {
        Count = IREE_HAL_PROFILE_COUNTER_UNIT_COUNT,
        Cycles = IREE_HAL_PROFILE_COUNTER_UNIT_CYCLES,
    }
    /// `iree_hal_profile_counter_sample_scope_t`: the scope of a sample.
    CounterSampleScope {
        Dispatch = IREE_HAL_PROFILE_COUNTER_SAMPLE_SCOPE_DISPATCH,
        TimeRange = IREE_HAL_PROFILE_COUNTER_SAMPLE_SCOPE_DEVICE_TIME_RANGE,
    }
    /// `iree_hal_profile_event_relationship_type_t`.
    RelationshipKind {
        SubmissionDispatch = IREE_HAL_PROFILE_EVENT_RELATIONSHIP_TYPE_QUEUE_SUBMISSION_DISPATCH,
        SubmissionQueueDevice = IREE_HAL_PROFILE_EVENT_RELATIONSHIP_TYPE_QUEUE_SUBMISSION_QUEUE_DEVICE_EVENT,
    }
    /// `iree_hal_profile_event_endpoint_type_t`: an end of a relationship.
    Endpoint {
        QueueSubmission = IREE_HAL_PROFILE_EVENT_ENDPOINT_TYPE_QUEUE_SUBMISSION,
        DispatchEvent = IREE_HAL_PROFILE_EVENT_ENDPOINT_TYPE_DISPATCH_EVENT,
        QueueDeviceEvent = IREE_HAL_PROFILE_EVENT_ENDPOINT_TYPE_QUEUE_DEVICE_EVENT,
    }
}

impl Default for CommandKind {
    /// The kind of a command that only orders later ones.
    fn default() -> Self {
        Self::Barrier
    }
}

/// Flags of records.
pub mod flags {
    use super::raw;

    macro_rules! flags {
        ($($name:ident = $value:ident;)*) => {$(
            #[doc = concat!("`", stringify!($value), "`.")]
            pub const $name: u32 = raw::$value;
        )*};
    }

    flags! {
        DEVICE_HAS_UUID = IREE_HAL_PROFILE_DEVICE_FLAG_PHYSICAL_DEVICE_UUID;
        EXECUTABLE_HAS_HASH = IREE_HAL_PROFILE_EXECUTABLE_FLAG_CODE_OBJECT_HASH;
        CODE_OBJECT_HAS_HASH = IREE_HAL_PROFILE_EXECUTABLE_CODE_OBJECT_FLAG_CODE_OBJECT_HASH;
        FUNCTION_HAS_HASH = IREE_HAL_PROFILE_EXECUTABLE_FUNCTION_FLAG_FUNCTION_HASH;
        COMMAND_BARRIER = IREE_HAL_PROFILE_COMMAND_OPERATION_FLAG_EXECUTION_BARRIER;
        COMMAND_INDIRECT_PARAMETERS = IREE_HAL_PROFILE_COMMAND_OPERATION_FLAG_INDIRECT_PARAMETERS;
        COMMAND_DYNAMIC_BINDINGS = IREE_HAL_PROFILE_COMMAND_OPERATION_FLAG_DYNAMIC_BINDINGS;
        COMMAND_STATIC_BINDINGS = IREE_HAL_PROFILE_COMMAND_OPERATION_FLAG_STATIC_BINDINGS;
        COMMAND_PREPUBLISHED_ARGUMENTS = IREE_HAL_PROFILE_COMMAND_OPERATION_FLAG_PREPUBLISHED_ARGUMENTS;
        CLOCK_DEVICE_TICK = IREE_HAL_PROFILE_CLOCK_CORRELATION_FLAG_DEVICE_TICK;
        CLOCK_HOST_CPU = IREE_HAL_PROFILE_CLOCK_CORRELATION_FLAG_HOST_CPU_TIMESTAMP;
        CLOCK_HOST_SYSTEM = IREE_HAL_PROFILE_CLOCK_CORRELATION_FLAG_HOST_SYSTEM_TIMESTAMP;
        CLOCK_HOST_BRACKET = IREE_HAL_PROFILE_CLOCK_CORRELATION_FLAG_HOST_TIME_BRACKET;
        DISPATCH_OF_COMMAND_BUFFER = IREE_HAL_PROFILE_DISPATCH_EVENT_FLAG_COMMAND_BUFFER;
        DISPATCH_INDIRECT_PARAMETERS = IREE_HAL_PROFILE_DISPATCH_EVENT_FLAG_INDIRECT_PARAMETERS;
        QUEUE_SOFTWARE_DEFERRED = IREE_HAL_PROFILE_QUEUE_EVENT_FLAG_SOFTWARE_DEFERRED;
        HOST_OF_COMMAND_BUFFER = IREE_HAL_PROFILE_HOST_EXECUTION_EVENT_FLAG_COMMAND_BUFFER;
        HOST_INDIRECT_PARAMETERS = IREE_HAL_PROFILE_HOST_EXECUTION_EVENT_FLAG_INDIRECT_PARAMETERS;
        HOST_DEFERRED = IREE_HAL_PROFILE_HOST_EXECUTION_EVENT_FLAG_DEFERRED;
        REGION_OF_COMMAND_BUFFER = IREE_HAL_PROFILE_COMMAND_REGION_EVENT_FLAG_COMMAND_BUFFER;
        REGION_TERMINAL = IREE_HAL_PROFILE_COMMAND_REGION_EVENT_FLAG_TERMINAL;
        REGION_HAS_NEXT = IREE_HAL_PROFILE_COMMAND_REGION_EVENT_FLAG_HAS_NEXT_REGION;
        MEMORY_OF_QUEUE = IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_QUEUE_OPERATION;
        MEMORY_WAIT_FRONTIER = IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_WAIT_FRONTIER;
        MEMORY_WAIT_NOTIFICATION = IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_WAIT_NOTIFICATION;
        MEMORY_POOL_RESERVATION = IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_POOL_RESERVATION;
        MEMORY_POOL_STATS = IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_POOL_STATS;
        DEVICE_CLASS_GPU = IREE_HAL_PROFILE_DEVICE_CLASS_GPU;
        METRIC_SAMPLE_PARTIAL = IREE_HAL_PROFILE_DEVICE_METRIC_SAMPLE_FLAG_PARTIAL;
        COUNTER_RAW = IREE_HAL_PROFILE_COUNTER_FLAG_RAW;
        SAMPLE_OF_DISPATCH = IREE_HAL_PROFILE_COUNTER_SAMPLE_FLAG_DISPATCH_EVENT;
        SAMPLE_OF_COMMAND = IREE_HAL_PROFILE_COUNTER_SAMPLE_FLAG_COMMAND_OPERATION;
        TRACE_OF_DISPATCH = IREE_HAL_PROFILE_EXECUTABLE_TRACE_FLAG_DISPATCH_EVENT;
        TRACE_OF_COMMAND = IREE_HAL_PROFILE_EXECUTABLE_TRACE_FLAG_COMMAND_OPERATION;
        TRACE_FORMAT_ATT = IREE_HAL_PROFILE_EXECUTABLE_TRACE_FORMAT_AMDGPU_ATT;
        SAMPLE_HAS_TICKS = IREE_HAL_PROFILE_COUNTER_SAMPLE_FLAG_DEVICE_TICK_RANGE;
        MEMORY_EXTERNALLY_OWNED = IREE_HAL_PROFILE_MEMORY_EVENT_FLAG_EXTERNALLY_OWNED;
    }
}
