// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executable traces: the instructions that waves of selected dispatches execute, as the GPU's sequencers write them to
//! memory (thread traces, SQTT or ATT).
//!
//! A traced dispatch lies between a packet that begins a trace, a packet that marks the dispatch's code object, and a
//! packet that ends the trace, all made by ROCm's aqlprofile library (`hsa/aqlprofile/traces.rs`). It runs alone on its
//! queue. The trace is read when the submission is complete, and kept until it is flushed. Traces are the GPU's: waves
//! of its other queues may be in them.
//!
//! One shader engine is traced. The trace has begin and end of all of its waves, and the instructions of the waves of
//! one compute unit (or work-group processor), as far as they fit the trace buffer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hsa_abi::AmdPm4IbPacket;
use parking_lot::Mutex;

use crate::metadata::ExecutableInfo;
use crate::pool::{Pool, Pooled};
use amdgpu_ffi::profile::schema::{DispatchEvent, ExecutableTraceRecord, Record, flags};
use amdgpu_ffi::profile::{Origin, Stream, bytes_of};
use amdgpu_ffi::{Result, status};
use amdgpu_gpu::Gpu;
use amdgpu_hsa::aqlprofile::{AqlProfile, CaptureMemory, Marker, TraceCapture, TraceTarget, TracedAgent};

/// The traced units and the buffer size: those of IREE's own driver for AMD GPUs.
const TARGET: TraceTarget = TraceTarget { unit: 1, engines: 1, simds: 0xf, size: 16 << 20 };

/// Captures of a GPU: 1 GiB of its memory.
const MOST_CAPTURES: usize = 64;

/// Most bytes of traces between two flushes.
const MOST_BYTES: usize = 1 << 30;

/// Packets around a dispatch that is traced: two in front of it, one behind.
pub const PACKETS: u32 = 3;

/// Packets in front of a traced dispatch.
pub const PACKETS_BEFORE: u32 = 2;

/// The traces of a session.
#[derive(Debug)]
pub struct ThreadTraces {
    gpus: Vec<GpuTraces>,
    /// Markers by the GPU's ordinal and the executable.
    markers: Mutex<HashMap<(u32, u64), Marker>>,
    next_trace: AtomicU64,
    /// Bytes that were not flushed yet.
    kept: Kept,
}

/// The number of bytes of traces that are kept, and its limit.
#[derive(Debug)]
struct Kept {
    bytes: Arc<AtomicUsize>,
    most: usize,
}

/// A number of bytes of traces, counted until the traces are written or lost.
#[derive(Debug)]
struct Share {
    kept: Arc<AtomicUsize>,
    bytes: usize,
}

impl Kept {
    /// Counts `bytes`; none if there would be too many.
    fn share(&self, bytes: usize) -> Option<Share> {
        let share = Share { kept: self.bytes.clone(), bytes };
        (self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most).then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct GpuTraces {
    agent: Arc<TracedAgent>,
    captures: Pool<TraceCapture>,
}

/// One trace of a shader engine, to be written.
#[derive(Debug)]
pub struct Artifact {
    /// The dispatch.
    pub event: Origin,
    /// The record with the trace behind it.
    pub bytes: Vec<u8>,
    /// The trace was cut off at the buffer's size.
    pub is_truncated: bool,
    _share: Share,
}

impl ThreadTraces {
    /// Traces on GPUs of one device. Loads the library that makes their packets, and makes the packets of a first trace
    /// of each GPU.
    ///
    /// # Errors
    /// NOT_FOUND without the library; UNIMPLEMENTED for one without traces; the error of the library, which does not
    /// support every GPU; RESOURCE_EXHAUSTED without the memory.
    pub fn new(gpus: &[Arc<Gpu>]) -> Result<Self> {
        let library = AqlProfile::load(gpus[0].agent().library(), "executable traces")?;
        let of_gpu = |gpu: &Arc<Gpu>| {
            let memory = CaptureMemory {
                host: gpu.cpu().kernarg.clone(),
                device: gpu.info().coarse.clone(),
                agents: vec![gpu.agent().handle()],
            };
            let agent = Arc::new(library.trace(gpu.agent(), memory)?);
            let name = &gpu.agent().info().name;
            let first = agent.capture(TARGET);
            let first = first.map_err(|status| status.annotate(&format!("executable traces on {name}")))?;
            Ok(GpuTraces { agent, captures: Pool::new(first, MOST_CAPTURES) })
        };
        Ok(Self {
            gpus: gpus.iter().map(of_gpu).collect::<Result<_>>()?,
            markers: Mutex::default(),
            next_trace: AtomicU64::new(1),
            kept: Kept { bytes: Arc::default(), most: MOST_BYTES },
        })
    }

    /// Registers an executable whose functions may be traced.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the runtime does not report load addresses; the error of the library.
    pub fn add_executable(&self, executable: &ExecutableInfo) -> Result<()> {
        for (gpu, load) in executable.loads()?.iter().filter(|(gpu, _)| *gpu < self.gpus.len()) {
            // A code object has the identifier of its executable.
            let marker = self.gpus[*gpu].agent.marker(executable.id, *load)?;
            self.markers.lock().insert((*gpu as u32, executable.id), marker);
        }
        Ok(())
    }

    /// The packet that marks an executable in a trace of GPU `gpu`. It is valid as long as this object. None for an
    /// executable that is not registered.
    pub fn marker(&self, gpu: u32, executable: u64) -> Option<AmdPm4IbPacket> {
        self.markers.lock().get(&(gpu, executable)).map(|marker| *marker.packet())
    }

    /// A capture for a launch on GPU `gpu`. It must not be dropped while its packets are in a queue.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there are too many; the error of the library.
    pub fn take(&self, gpu: u32) -> Result<Pooled<TraceCapture>> {
        let GpuTraces { agent, captures: pool } = &self.gpus[gpu as usize];
        let too_many = || {
            status!(
                RESOURCE_EXHAUSTED,
                "more than {MOST_CAPTURES} launches would be traced at a time, with {} MiB of memory each; choose \
                 fewer with a filter",
                TARGET.size >> 20
            )
        };
        pool.take(|| agent.capture(TARGET), too_many)
    }

    /// The traces in `capture` of the dispatch of `event` on `stream`: one for each shader engine.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is too much data since the last flush; the error of the library.
    pub fn artifacts(&self, stream: Stream, event: &DispatchEvent, capture: &TraceCapture) -> Result<Read> {
        let traced = capture.read()?;
        let DispatchEvent { event_id: id, executable_id: executable, command_buffer_id: command_buffer, .. } = *event;
        let origin = Origin { id, executable, command_buffer };
        let trace_id = self.next_trace.fetch_add(1, Ordering::Relaxed);
        let artifact = |(engine, trace): (u32, Vec<u8>)| {
            let share = self.kept.share(trace.len()).ok_or_else(|| {
                status!(
                    RESOURCE_EXHAUSTED,
                    "more than {} MiB of executable traces since the last flush; flush more often, or choose fewer \
                     launches with a filter",
                    MOST_BYTES >> 20
                )
            })?;
            let mut record = ExecutableTraceRecord::blank();
            record.format = flags::TRACE_FORMAT_ATT;
            record.flags = flags::TRACE_OF_DISPATCH;
            if event.flags & flags::DISPATCH_OF_COMMAND_BUFFER != 0 {
                record.flags |= flags::TRACE_OF_COMMAND;
            }
            record.shader_engine = engine;
            record.trace_id = trace_id;
            record.dispatch_event_id = event.event_id;
            record.submission_id = event.submission_id;
            record.command_buffer_id = event.command_buffer_id;
            record.executable_id = event.executable_id;
            record.stream_id = stream.id();
            record.command_index = event.command_index;
            record.function_ordinal = event.function_ordinal;
            record.physical_device_ordinal = stream.gpu;
            record.queue_ordinal = stream.queue;
            record.data_length = trace.len() as u64;
            let bytes = [bytes_of(&record), &trace].concat();
            Ok(Artifact { event: origin, bytes, is_truncated: traced.lost.is_some(), _share: share })
        };
        let artifacts = traced.engines.into_iter().map(artifact).collect::<Result<_>>()?;
        Ok(Read { artifacts, lost: traced.lost })
    }
}

/// The result of reading a trace.
#[derive(Debug)]
pub struct Read {
    /// One trace for each shader engine.
    pub artifacts: Vec<Artifact>,
    /// The reason for which some of it is lost; none if it is complete.
    pub lost: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_that_are_lost_are_kept_no_more() {
        let kept = Kept { bytes: Arc::default(), most: 10 };
        let first = kept.share(6).expect("there is room");
        for _ in 0..2 {
            assert!(kept.share(5).is_none());
        }
        let second = kept.share(4).expect("there is room");
        drop(first);
        assert!(kept.share(7).is_none());
        let third = kept.share(6).expect("there is room again");
        drop((second, third));
        assert_eq!(kept.bytes.load(Ordering::Relaxed), 0);
    }
}
