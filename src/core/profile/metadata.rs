// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Records of the objects that events refer to: GPUs, queues, clocks, executables and command buffers.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use amdgpu_code_object::Function;

use amdgpu_ffi::profile::schema::{
    ClockSample, CodeObjectLoadRecord, CodeObjectRecord, CommandBufferRecord, CommandRecord, DeviceRecord,
    ExecutableRecord, FunctionRecord, QueueRecord, Record, flags,
};
use amdgpu_ffi::profile::{Stream, bytes_of, host_time};
use amdgpu_ffi::{Result, status};
use amdgpu_gpu::Gpu;
use amdgpu_hsa::{self as hsa, LoadRange};

/// The description of an executable in profiles. It outlives the executable in sessions that have seen it.
#[derive(Debug)]
pub struct ExecutableInfo {
    /// Unique in the process, never 0.
    pub id: u64,
    /// Functions by ordinal.
    pub functions: Vec<Function>,
    /// The code object as it was passed to the runtime.
    code: Arc<Vec<u8>>,
    /// The load address ranges with the GPU's index in its logical device; none if the runtime does not report them.
    loads: Option<Vec<(usize, LoadRange)>>,
}

impl ExecutableInfo {
    /// A new executable with `functions`, whose code is `code` and was loaded at `loads`.
    pub fn new(functions: Vec<Function>, code: Arc<Vec<u8>>, loads: Option<Vec<(usize, LoadRange)>>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), functions, code, loads }
    }

    /// The record of the executable.
    pub fn record(&self) -> ExecutableRecord {
        let mut record = ExecutableRecord::blank();
        record.flags = flags::EXECUTABLE_HAS_HASH;
        record.executable_id = self.id;
        record.function_count = self.functions.len() as u32;
        record.code_object_hash = Identity::of_code(&self.code);
        record
    }

    /// The record of the code object, followed by its bytes. Its identifier is the executable's.
    ///
    /// # Errors
    /// OUT_OF_RANGE if it is longer than a record can be.
    pub fn code_object_record(&self) -> Result<Vec<u8>> {
        let mut record = CodeObjectRecord::blank();
        let length = size_of_val(&record) + self.code.len();
        record.record_length = u32::try_from(length).map_err(|_| {
            status!(OUT_OF_RANGE, "a profile has no room for a code object of {} bytes", self.code.len())
        })?;
        record.flags = flags::CODE_OBJECT_HAS_HASH;
        record.executable_id = self.id;
        record.code_object_id = self.id;
        record.data_length = self.code.len() as u64;
        record.code_object_hash = Identity::of_code(&self.code);
        Ok([bytes_of(&record), &self.code].concat())
    }

    /// The records of the load address range on each GPU.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the runtime does not report it.
    pub fn load_records(&self) -> Result<Vec<CodeObjectLoadRecord>> {
        let record = |(gpu, load): &(usize, LoadRange)| {
            let mut record = CodeObjectLoadRecord::blank();
            record.physical_device_ordinal = *gpu as u32;
            record.executable_id = self.id;
            record.code_object_id = self.id;
            record.load_delta = load.delta;
            record.load_size = load.size;
            record
        };
        Ok(self.loads()?.iter().map(record).collect())
    }

    /// The load address ranges, with the GPU's index in its logical device.
    ///
    /// # Errors
    /// As for [`Self::load_records`].
    pub fn loads(&self) -> Result<&[(usize, LoadRange)]> {
        self.loads.as_deref().ok_or_else(|| {
            status!(
                UNIMPLEMENTED,
                "the HSA runtime has no AMD loader extension, so that amdgpu_rs cannot tell where code was loaded"
            )
        })
    }

    /// The records of the functions, each followed by its name.
    pub fn function_records(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let code = Identity::of_code(&self.code);
        for (ordinal, function) in self.functions.iter().enumerate() {
            let mut record = FunctionRecord::blank();
            record.record_length += function.name.len() as u32;
            record.executable_id = self.id;
            record.function_ordinal = ordinal as u32;
            record.constant_count = function.constant_count.into();
            record.binding_count = function.binding_count.into();
            record.parameter_count = function.parameters.len() as u32;
            record.workgroup_size = function.workgroup_size;
            record.flags = flags::FUNCTION_HAS_HASH;
            record.function_hash = Identity::of_function(code, &record, &function.name);
            record.name_length = function.name.len() as u32;
            bytes.extend_from_slice(bytes_of(&record));
            bytes.extend_from_slice(function.name.as_bytes());
        }
        bytes
    }
}

/// A 128-bit identity of code across processes and drivers. It equals that of IREE's own driver for AMD GPUs for the
/// same code, so that profiles of both can be joined: two SipHash-2-4 of the bytes, with IREE's keys
/// (`profile_metadata.h` of that driver). It does not protect against deliberate collisions.
#[expect(deprecated, reason = "the standard library's SipHash-2-4; what is meant to replace it may change")]
struct Identity([std::hash::SipHasher; 2]);

#[expect(deprecated, reason = "as above")]
impl Identity {
    const KEYS: [(u64, u64); 2] =
        [(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908), (0x1716_1514_1312_1110, 0x1f1e_1d1c_1b1a_1918)];

    fn new() -> Self {
        Self(Self::KEYS.map(|(first, second)| std::hash::SipHasher::new_with_keys(first, second)))
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.0.iter_mut().for_each(|hasher| hasher.write(bytes));
        self
    }

    fn finish(&self) -> [u64; 2] {
        self.0.each_ref().map(Hasher::finish)
    }

    /// The identity of a code object.
    fn of_code(code: &[u8]) -> [u64; 2] {
        Self::new().add(code).finish()
    }

    /// The identity of the function `name`, which `record` describes, of the code object with the identity `code`.
    fn of_function(code: [u64; 2], record: &FunctionRecord, name: &str) -> [u64; 2] {
        let identity = code.into_iter().fold(Self::new(), |identity, word| identity.add(&word.to_le_bytes()));
        let identity = identity
            .add(&record.function_ordinal.to_le_bytes())
            .add(&(record.constant_count as u16).to_le_bytes())
            .add(&(record.binding_count as u16).to_le_bytes());
        let sizes = record.workgroup_size;
        let identity = sizes.into_iter().fold(identity, |identity, size| identity.add(&size.to_le_bytes()));
        identity.add(&(name.len() as u64).to_le_bytes()).add(name.as_bytes()).finish()
    }
}

/// The record of a GPU with `queue_count` queues.
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
/// The error of HSA's clock query.
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

/// The time in nanoseconds of a clock that no time service adjusts. The kernel driver uses it for its own correlations.
fn raw_monotonic_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result. The clock exists since Linux 2.6.28, so that the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The records of a command buffer.
pub struct CommandRecords {
    /// The record of the command buffer.
    pub buffer: CommandBufferRecord,
    /// The records of its commands, in order.
    pub commands: Vec<CommandRecord>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The identities that IREE's driver has for the same bytes and function (`profile_metadata_test.cc`).
    #[test]
    fn identities_are_those_of_irees_driver() {
        let code = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, b'I', b'R', b'E', b'E', 0, 0x10, 0x80, 0xff];
        assert_eq!(Identity::of_code(&code), [0xc928_aa6b_62b6_29a9, 0xd1a5_2f9c_3082_fba5]);
        let mut record = FunctionRecord::blank();
        (record.function_ordinal, record.constant_count, record.binding_count) = (0, 3, 2);
        record.workgroup_size = [8, 4, 1];
        let code = [0x0706_0504_0302_0100, 0x1716_1514_1312_1110];
        let function = Identity::of_function(code, &record, "test_dispatch");
        assert_eq!(function, [0x12db_d8b4_4277_f553, 0x873c_5d1c_5596_dce4]);
    }
}
