// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Records of what events refer to: GPUs, queues, clocks, executables and command buffers.

use std::sync::atomic::{AtomicU64, Ordering};

use amdgpu_code_object::Function;

use crate::core::gpu::Gpu;
use crate::ffi::Result;
use crate::ffi::profile::schema::{
    ClockSample, CommandBufferRecord, CommandRecord, DeviceRecord, ExecutableRecord, FunctionRecord, QueueRecord,
    Record, flags,
};
use crate::ffi::profile::{Stream, bytes_of, host_time};
use crate::hsa;

/// What profiles say of an executable. It outlives the executable in sessions that have seen it.
#[derive(Debug)]
pub struct ExecutableInfo {
    /// Unique in the process, never 0.
    pub id: u64,
    /// By ordinal.
    pub functions: Vec<Function>,
}

impl ExecutableInfo {
    /// A new executable with `functions`.
    pub fn new(functions: Vec<Function>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), functions }
    }

    /// Its record.
    pub fn record(&self) -> ExecutableRecord {
        let mut record = ExecutableRecord::blank();
        record.executable_id = self.id;
        record.function_count = self.functions.len() as u32;
        record
    }

    /// The records of its functions, each followed by its name.
    pub fn function_records(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (ordinal, function) in self.functions.iter().enumerate() {
            let mut record = FunctionRecord::blank();
            record.record_length += function.name.len() as u32;
            record.executable_id = self.id;
            record.function_ordinal = ordinal as u32;
            record.constant_count = function.constant_count.into();
            record.binding_count = function.binding_count.into();
            record.parameter_count = function.parameters.len() as u32;
            record.workgroup_size = function.workgroup_size;
            record.name_length = function.name.len() as u32;
            bytes.extend_from_slice(bytes_of(&record));
            bytes.extend_from_slice(function.name.as_bytes());
        }
        bytes
    }
}

/// The record of a GPU with so many queues.
pub fn device_record(gpu: &Gpu, queue_count: u32) -> DeviceRecord {
    let mut record = DeviceRecord::blank();
    record.physical_device_ordinal = gpu.index() as u32;
    record.queue_count = queue_count;
    // As the device's capabilities name it.
    if let Some(uuid) = gpu.info().uuid_bytes() {
        record.flags = flags::DEVICE_HAS_UUID;
        record.physical_device_uuid = uuid;
    }
    record
}

/// The record of a queue.
pub fn queue_record(stream: Stream) -> QueueRecord {
    let mut record = QueueRecord::blank();
    record.physical_device_ordinal = stream.gpu;
    record.queue_ordinal = stream.queue;
    record.stream_id = stream.id();
    record
}

/// A sample of the clock of device times and the host's clocks, for `gpu`.
///
/// # Errors
/// What HSA said of its clock.
pub fn clock_sample(library: &hsa::Library, gpu: u32, id: u64) -> Result<ClockSample> {
    let mut record = ClockSample::blank();
    record.flags =
        flags::CLOCK_DEVICE_TICK | flags::CLOCK_HOST_CPU | flags::CLOCK_HOST_SYSTEM | flags::CLOCK_HOST_BRACKET;
    record.physical_device_ordinal = gpu;
    record.sample_id = id;
    record.host_time_begin_ns = host_time();
    record.device_tick = library.timestamp()?;
    record.host_cpu_timestamp_ns = raw_monotonic_time();
    record.host_time_end_ns = host_time();
    // Device times are in this clock already.
    record.host_system_timestamp = record.device_tick;
    record.host_system_frequency_hz = library.system().timestamp_frequency;
    Ok(record)
}

/// Nanoseconds of the clock that no time service adjusts, as the kernel driver samples it for its own correlations.
fn raw_monotonic_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result. The clock exists since Linux 2.6.28, so that the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The records of a command buffer.
pub struct CommandRecords {
    /// Its own.
    pub buffer: CommandBufferRecord,
    /// Those of its commands, in order.
    pub commands: Vec<CommandRecord>,
}
