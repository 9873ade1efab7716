// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The part of the library that traces waves. Older versions lack it.

use std::ffi::c_void;
use std::sync::Arc;

use amdgpu_ffi::{Result, status};
use hsa_abi::aqlprofile::{
    self as abi, AqlProfileHandle, AqlTraceCodeObject, AqlTracePackets, AqlTraceParameter, AqlTraceParameterName,
    AqlTraceRequest,
};
use hsa_abi::{AmdPm4IbPacket, HsaAgent, HsaStatus};

use super::{AqlProfile, CALLS, CaptureMemory, Memory, allocate, free};
use crate::executable::LoadRange;
use crate::{Agent, Library};

#[derive(Debug)]
pub(super) struct TraceSymbols {
    create: abi::aqlprofile_att_create_packets,
    delete: abi::aqlprofile_att_delete_packets,
    iterate: abi::aqlprofile_att_iterate_data,
    marker: abi::aqlprofile_att_codeobj_marker,
}

impl TraceSymbols {
    /// The functions, or the name of a missing one.
    ///
    /// # Safety
    /// `library` is an aqlprofile library that is not unloaded while these are in use.
    pub(super) unsafe fn load(library: &libloading::Library) -> std::result::Result<Self, &'static str> {
        macro_rules! find {
            ($name:ident) => {
                // SAFETY: the caller says that an export of this name has this type.
                match unsafe { library.get::<abi::$name>(concat!(stringify!($name), "\0").as_bytes()) } {
                    Ok(found) => *found,
                    Err(_) => return Err(stringify!($name)),
                }
            };
        }
        Ok(Self {
            create: find!(aqlprofile_att_create_packets),
            delete: find!(aqlprofile_att_delete_packets),
            iterate: find!(aqlprofile_att_iterate_data),
            marker: find!(aqlprofile_att_codeobj_marker),
        })
    }
}

/// The parameters of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceTarget {
    /// The compute unit of a shader engine, or the work-group processor from gfx10 on, whose instructions are traced.
    pub unit: u32,
    /// The shader engines, as bits.
    pub engines: u32,
    /// The SIMD units, as bits.
    pub simds: u32,
    /// Bytes of GPU memory for it.
    pub size: u64,
}

/// A GPU with thread traces.
#[derive(Debug)]
pub struct TracedAgent {
    library: Arc<AqlProfile>,
    agent: HsaAgent,
    memory: CaptureMemory,
    runtime: Arc<Library>,
}

/// The library's allocations, and the runtime that copies from them. Begins with the memory, whose callbacks get a
/// pointer to it.
#[derive(Debug)]
#[repr(C)]
struct TraceMemory {
    memory: Memory,
    runtime: Arc<Library>,
}

impl AqlProfile {
    /// Prepares a GPU for traces of waves, with memory of `memory`.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the library or the HSA runtime lacks a function for it.
    pub fn trace(self: &Arc<Self>, agent: &Agent, memory: CaptureMemory) -> Result<TracedAgent> {
        if let Err(missing) = &self.traces {
            let path = self.path.display();
            return Err(status!(
                UNIMPLEMENTED,
                "{path} makes no thread traces: it lacks {missing}; a newer ROCm has it"
            ));
        }
        if agent.library().symbols.hsa_memory_copy.is_none() {
            return Err(status!(
                UNIMPLEMENTED,
                "the HSA runtime lacks hsa_memory_copy, by which thread traces are read"
            ));
        }
        Ok(TracedAgent { library: self.clone(), agent: agent.handle(), memory, runtime: agent.library().clone() })
    }
}

impl TracedAgent {
    fn new_memory(&self) -> Arc<TraceMemory> {
        let memory = Memory { pools: self.memory.clone(), allocations: Default::default() };
        Arc::new(TraceMemory { memory, runtime: self.runtime.clone() })
    }

    fn symbols(&self) -> Result<&TraceSymbols> {
        self.library.traces.as_ref().map_err(|missing| status!(INTERNAL, "{missing} is not there"))
    }

    /// Makes packets for traces, for one use at a time.
    ///
    /// # Errors
    /// The error of the library, which does not support every GPU, nor every parameter in every version.
    pub fn capture(self: &Arc<Self>, target: TraceTarget) -> Result<TraceCapture> {
        type N = AqlTraceParameterName;
        let mut parameters = vec![
            (N::COMPUTE_UNIT_TARGET, target.unit),
            (N::SE_MASK, target.engines),
            (N::SIMD_SELECTION, target.simds),
            (N::BUFFER_SIZE, target.size as u32),
        ];
        if target.size >> 32 != 0 {
            parameters.push((N::BUFFER_SIZE_HIGH, (target.size >> 32) as u32));
        }
        // Times of the system's clock, too, by which traces can be put beside others.
        parameters.push((N::RT_TIMESTAMP, 1));
        let parameters: Vec<_> =
            parameters.into_iter().map(|(name, value)| AqlTraceParameter { name, value }).collect();
        let request = AqlTraceRequest {
            agent: self.agent,
            parameters: parameters.as_ptr(),
            parameter_count: parameters.len() as u32,
        };
        let create = self.symbols()?.create;
        let memory = self.new_memory();
        let data = Arc::as_ptr(&memory).cast_mut().cast();
        let mut handle = AqlProfileHandle::default();
        let mut packets = std::mem::MaybeUninit::<AqlTracePackets>::zeroed();
        let calls = CALLS.lock();
        // SAFETY: the parameters are as many as said; results go to locals; the callbacks take this data, which lives
        // until the packets are deleted, or for ever.
        let status = unsafe { create(&mut handle, packets.as_mut_ptr(), request, allocate, free, copy, data) };
        if let Err(error) = self.library.check("aqlprofile_att_create_packets", status) {
            // The library frees its allocations for the failed call when the process ends.
            std::mem::forget(memory);
            return Err(error.into());
        }
        drop(calls);
        // SAFETY: the library has filled them in; they are integers in any case.
        let packets = unsafe { packets.assume_init() };
        Ok(TraceCapture { made: Made { agent: self.clone(), handle, _memory: memory }, packets: Box::new(packets) })
    }

    /// Makes a packet that marks a code object in a trace, which was loaded before the trace began.
    ///
    /// # Errors
    /// The error of the library.
    pub fn marker(self: &Arc<Self>, id: u64, load: LoadRange) -> Result<Marker> {
        let code_object = AqlTraceCodeObject {
            id,
            address: load.delta as u64,
            length: load.size,
            agent: self.agent,
            flags: AqlTraceCodeObject::FROM_START,
        };
        let make = self.symbols()?.marker;
        let memory = self.new_memory();
        let data = Arc::as_ptr(&memory).cast_mut().cast();
        let mut handle = AqlProfileHandle::default();
        let mut packet = std::mem::MaybeUninit::<AmdPm4IbPacket>::zeroed();
        let calls = CALLS.lock();
        // SAFETY: places for the handle and the packet; the functions and their data outlive the packet.
        let status = unsafe { make(packet.as_mut_ptr(), &mut handle, code_object, allocate, free, data) };
        if let Err(error) = self.library.check("aqlprofile_att_codeobj_marker", status) {
            std::mem::forget(memory);
            return Err(error.into());
        }
        drop(calls);
        // SAFETY: the library has filled the packet in, and it was zeroed before: integers without padding.
        let packet = unsafe { packet.assume_init() };
        Ok(Marker { _made: Made { agent: self.clone(), handle, _memory: memory }, packet: Box::new(packet) })
    }
}

/// Packets made by the library, and their memory.
#[derive(Debug)]
struct Made {
    agent: Arc<TracedAgent>,
    handle: AqlProfileHandle,
    /// The library's allocations.
    _memory: Arc<TraceMemory>,
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Ok(symbols) = self.agent.symbols() {
            let _calls = CALLS.lock();
            // SAFETY: the handle is the library's own, and is deleted once; no packet is in a queue. It gives its
            // memory back to `_memory`, which is dropped after this.
            unsafe { (symbols.delete)(self.handle) };
        }
    }
}

/// A packet that marks a code object in a trace. It must not be dropped while it is in a queue.
#[derive(Debug)]
pub struct Marker {
    _made: Made,
    packet: Box<AmdPm4IbPacket>,
}

impl Marker {
    /// The packet, without header and completion signal.
    pub fn packet(&self) -> &AmdPm4IbPacket {
        &self.packet
    }
}

/// Packets for traces, for one use at a time, and their memory. It must not be dropped while one of them is in a queue.
#[derive(Debug)]
pub struct TraceCapture {
    made: Made,
    packets: Box<AqlTracePackets>,
}

/// The traces of all shader engines.
#[derive(Debug)]
pub struct Traced {
    /// The index and the tokens of each shader engine.
    pub engines: Vec<(u32, Vec<u8>)>,
    /// The library's message if there was no room for all tokens.
    pub lost: Option<String>,
}

impl TraceCapture {
    /// The packets, without headers and completion signals.
    pub fn packets(&self) -> &AqlTracePackets {
        &self.packets
    }

    /// The trace that the complete stop packet has ended.
    ///
    /// # Errors
    /// The error of the library, unless that is only an incomplete trace.
    pub fn read(&self) -> Result<Traced> {
        let mut engines = Vec::new();
        let library = &self.made.agent.library;
        let iterate = self.made.agent.symbols()?.iterate;
        let _calls = CALLS.lock();
        // SAFETY: the callback takes a vector of this type.
        let status = unsafe { iterate(self.made.handle, take, (&raw mut engines).cast()) };
        match library.check("aqlprofile_att_iterate_data", status) {
            Ok(()) => Ok(Traced { engines, lost: None }),
            // All available data was reported.
            Err(error) if status == HsaStatus::ERROR_OUT_OF_RESOURCES => {
                Ok(Traced { engines, lost: Some(error.to_string()) })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The library copies commands to host memory, and traces from GPU memory, which the host may not be able to access.
unsafe extern "C" fn copy(target: *mut c_void, source: *const c_void, size: usize, data: *mut c_void) -> HsaStatus {
    // SAFETY: the data given with this callback; it lives as long as the packets that were made with it.
    let memory = unsafe { &*data.cast::<TraceMemory>() };
    match memory.runtime.symbols.hsa_memory_copy {
        None => HsaStatus::ERROR,
        Some(_) if size == 0 => HsaStatus::SUCCESS,
        // SAFETY: both are as long as the library says: memory that it was given, and its own.
        Some(copy) => unsafe { copy(target, source, size) },
    }
}

unsafe extern "C" fn take(engine: u32, bytes: *mut c_void, length: u64, data: *mut c_void) -> HsaStatus {
    let bytes = match length {
        0 => Vec::new(),
        // SAFETY: the library gives so many bytes for the length of the call.
        length => unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) }.to_vec(),
    };
    // SAFETY: the data given with this callback, for the length of the iteration.
    unsafe { &mut *data.cast::<Vec<(u32, Vec<u8>)>>() }.push((engine, bytes));
    HsaStatus::SUCCESS
}
