// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Thread traces: the packets that start and stop a trace, the data in its buffer, and markers of code objects.
//!
//! The registers to write and their order, and the format that a decoder expects, follow ROCm's library
//! (`sqtt_builder.h`, `threadtrace.cpp`). The layout of markers follows its `trace_decoder_instrument.h`.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use hsa_abi::aqlprofile::{
    AqlProfileAllocate, AqlProfileBuffer, AqlProfileCopy, AqlProfileFree, AqlProfileHandle, AqlTraceCodeObject,
    AqlTracePackets, AqlTraceParameterName, AqlTraceRequest, AqlTraceTake,
};
use hsa_abi::performance::{BROADCAST, GRBM_GFX_INDEX, Generation, INSTANCE_BROADCAST, SH_REGISTERS};
use hsa_abi::thread_trace::*;
use hsa_abi::{AmdPm4IbPacket, HsaAgent, HsaAgentInfo, HsaStatus};
use parking_lot::Mutex;

use crate::commands::{Commands, EVENT_WRITE, PRED_EXEC, SET_SH_REG, WAIT_REG_MEM};
use crate::{Memory, fail, packet};

/// All existing traces and markers.
static MADE: Mutex<Option<Made>> = Mutex::new(None);

#[derive(Default)]
struct Made {
    last: u64,
    live: HashMap<u64, Live>,
}

enum Live {
    Trace(Trace),
    Marker { _commands: Memory },
}

/// Registers of a shader engine when its trace ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    status: u32,
    lost: u32,
    pointer: u32,
    status2: u32,
}

/// A trace with packets.
struct Trace {
    plan: Plan,
    copy: AqlProfileCopy,
    control: Memory,
    output: Memory,
    _commands: Memory,
}

/// Parameters of a trace, and properties of its GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    generation: Generation,
    /// True for gfx942, which its traces state.
    is_gfx942: bool,
    dies: u32,
    /// Shader engines of a die, and mask of the traced engines over all dies.
    engines: u32,
    traced: Vec<u32>,
    unit: u32,
    simd: u32,
    /// Bytes of memory for all engines.
    size: u64,
}

impl Plan {
    /// Creates a plan for a GPU with this number of dies, and of shader engines over all dies.
    fn new(gfxip: &str, dies: u32, engines: u32) -> Option<Self> {
        let generation = Generation::of(gfxip).filter(|generation| *generation != Generation::Gfx10)?;
        if dies == 0 || engines < dies {
            return None;
        }
        let (is_gfx942, engines) = (gfxip == "gfx942", engines / dies);
        Some(Self { generation, is_gfx942, dies, engines, traced: vec![0], unit: 0, simd: 0xf, size: 3 << 26 })
    }

    /// Sets a parameter. The error is a message about it.
    fn set(&mut self, name: AqlTraceParameterName, value: u32) -> Result<(), String> {
        type N = AqlTraceParameterName;
        match name {
            N::COMPUTE_UNIT_TARGET if value > 15 => return Err(format!("the compute unit {value} is over 15")),
            N::COMPUTE_UNIT_TARGET => self.unit = value,
            N::SE_MASK => {
                let all = (self.dies * self.engines).min(32);
                self.traced = (0..all).filter(|engine| value >> engine & 1 != 0).collect();
            }
            N::SIMD_SELECTION => self.simd = value & 0xf,
            N::BUFFER_SIZE => self.size = self.size & !0xffff_ffff | u64::from(value),
            N::BUFFER_SIZE_HIGH => self.size = self.size & 0xffff_ffff | u64::from(value) << 32,
            // There is one clock here.
            N::RT_TIMESTAMP => {}
            other => return Err(format!("parameter {other:?} is not known")),
        }
        Ok(())
    }

    /// Bytes of memory for each engine.
    fn share(&self) -> u64 {
        self.size / self.traced.len().max(1) as u64 / PAGE * PAGE
    }

    fn pages(&self) -> u32 {
        (self.share() / PAGE) as u32
    }

    /// Adds commands for the engine with this number over all dies. Only the engine's own die executes them.
    fn of_engine(&self, commands: &mut Commands, number: u32, write: impl FnOnce(&mut Commands)) {
        let (die, engine) = (number / self.engines, number % self.engines);
        let mut own = Commands::default();
        own.configure(GRBM_GFX_INDEX, engine << 16 | INSTANCE_BROADCAST);
        write(&mut own);
        if self.dies > 1 {
            commands.packet(PRED_EXEC, &[1 << (24 + die) | own.0.len() as u32]);
        }
        commands.0.append(&mut own.0);
    }

    /// Commands that start traces into a buffer.
    fn start(&self, output: u64) -> Vec<u32> {
        let mut commands = Commands::default();
        commands.configure(GRBM_GFX_INDEX, BROADCAST);
        commands.wait_idle();
        for (buffer, &engine) in self.traced.iter().enumerate() {
            let page = (output + buffer as u64 * self.share()) / PAGE;
            self.of_engine(&mut commands, engine, |commands| self.start_engine(commands, page));
        }
        commands.configure(GRBM_GFX_INDEX, BROADCAST);
        if self.generation != Generation::Gfx9 {
            commands.packet(SET_SH_REG, &[COMPUTE_THREAD_TRACE_ENABLE - SH_REGISTERS.start, 1]);
        }
        commands.wait_idle();
        // Says that there are markers, and of which version.
        commands.configure(SQ_THREAD_TRACE_USERDATA_2, u32::from_le_bytes(*b"\0ROC"));
        commands.configure(SQ_THREAD_TRACE_USERDATA_2, 524_801);
        commands.0
    }

    fn start_engine(&self, commands: &mut Commands, page: u64) {
        let (low, high) = (page as u32, (page >> 32) as u32);
        match self.generation {
            Generation::Gfx9 => {
                use gfx9::*;
                let tokens = [
                    TOKEN_MISC,
                    TOKEN_TIME,
                    TOKEN_REG,
                    TOKEN_WAVE_START,
                    TOKEN_REG_CS,
                    TOKEN_WAVE_END,
                    TOKEN_INST,
                    TOKEN_INST_PC,
                    TOKEN_USERDATA,
                    TOKEN_ISSUE,
                    TOKEN_REG_CS_PRIV,
                ];
                let tokens = tokens.into_iter().fold(0, |mask, token| mask | 1 << token);
                // Waves wait where a buffer within the GPU is full.
                let stall = 1 << 7 | 1 << 14 | 1 << 15;
                commands.configure(SQ_THREAD_TRACE_MASK, self.unit | self.simd << 8 | stall);
                commands.configure(SQ_THREAD_TRACE_TOKEN_MASK, 0xf << 16 | tokens);
                commands.configure(SQ_THREAD_TRACE_TOKEN_MASK2, u32::MAX);
                commands.configure(SQ_THREAD_TRACE_HIWATER, 6);
                commands.configure(SQ_THREAD_TRACE_MODE, MASK_CS_AND_AUTOFLUSH);
                commands.configure(SQ_THREAD_TRACE_STATUS, 0);
                commands.configure(SQ_THREAD_TRACE_BASE, low);
                commands.configure(SQ_THREAD_TRACE_BASE2, high);
                commands.configure(SQ_THREAD_TRACE_SIZE, self.pages());
                commands.configure(SQ_THREAD_TRACE_CTRL, RESET_BUFFER);
                commands.wait_idle();
                commands.configure(SQ_THREAD_TRACE_MODE, MASK_CS_AND_AUTOFLUSH | MODE_ON);
            }
            _ => {
                use gfx11::*;
                if self.generation == Generation::Gfx12 {
                    commands.configure(gfx12::SQ_THREAD_TRACE_BUF0_SIZE, self.pages());
                    commands.configure(gfx12::SQ_THREAD_TRACE_BUF0_BASE_LO, low);
                    commands.configure(gfx12::SQ_THREAD_TRACE_BUF0_BASE_HI, high);
                    commands.configure(SQ_THREAD_TRACE_WPTR, 0);
                } else {
                    commands.configure(SQ_THREAD_TRACE_BUF0_SIZE, high | self.pages() << 8);
                    commands.configure(SQ_THREAD_TRACE_BUF0_BASE, low);
                }
                let target = (self.simd & 3) | self.unit << 4;
                commands.configure(SQ_THREAD_TRACE_MASK, target | WTYPE_INCLUDE_CS | 1 << 17);
                let excluded = EXCLUDE_VMEMEXEC | EXCLUDE_ALUEXEC | EXCLUDE_EVENT | EXCLUDE_UTILCTR | EXCLUDE_WAVEALLOC;
                commands.configure(SQ_THREAD_TRACE_TOKEN_MASK, REG_INCLUDE_COMP | excluded);
                commands.configure(SQ_THREAD_TRACE_CTRL, self.control() | 1);
            }
        }
    }

    /// Control register from gfx11 on: when waves stall because a buffer in the GPU is full (a high and a low mark, for
    /// the packet processor and the sequencers), how often timestamps are written, and early flushing of data.
    fn control(&self) -> u32 {
        let marks = 5 << 6 | 1 << 11 | 1 << 12 | 4 << 20;
        match self.generation {
            Generation::Gfx12 => marks | 1 << 14 | 1 << 29,
            _ => marks | 1 << 13 | 2 << 16 | 1 << 29 | 1 << 31,
        }
    }

    /// Commands that stop traces, and store the final registers at `control`.
    fn stop(&self, control: u64) -> Vec<u32> {
        let mut commands = Commands::default();
        commands.configure(GRBM_GFX_INDEX, BROADCAST);
        commands.wait_idle();
        let is_gfx9 = self.generation == Generation::Gfx9;
        if !is_gfx9 {
            commands.packet(SET_SH_REG, &[COMPUTE_THREAD_TRACE_ENABLE - SH_REGISTERS.start, 0]);
            if self.generation == Generation::Gfx12 {
                commands.packet(EVENT_WRITE, &[0x37]);
            }
            wait_clear(&mut commands, gfx11::SQ_THREAD_TRACE_STATUS, gfx11::FINISH_PENDING);
        }
        let (register, off) = match is_gfx9 {
            true => (gfx9::SQ_THREAD_TRACE_MODE, gfx9::MASK_CS_AND_AUTOFLUSH),
            false => (gfx11::SQ_THREAD_TRACE_CTRL, self.control()),
        };
        commands.configure(register, off);
        commands.wait_idle();
        for &number in &self.traced {
            let target = control + u64::from(number) * size_of::<Ended>() as u64;
            self.of_engine(&mut commands, number, |commands| {
                let registers = match is_gfx9 {
                    true => {
                        wait_clear(commands, gfx9::SQ_THREAD_TRACE_STATUS, gfx9::BUSY);
                        use gfx9::*;
                        vec![SQ_THREAD_TRACE_STATUS, SQ_THREAD_TRACE_CNTR, SQ_THREAD_TRACE_WPTR]
                    }
                    false => {
                        wait_clear(commands, gfx11::SQ_THREAD_TRACE_STATUS, gfx11::BUSY);
                        use gfx11::*;
                        let [status, status2] = [SQ_THREAD_TRACE_STATUS, SQ_THREAD_TRACE_STATUS2];
                        vec![status, SQ_THREAD_TRACE_DROPPED_CNTR, SQ_THREAD_TRACE_WPTR, status2]
                    }
                };
                for (register, target) in registers.into_iter().zip((target..).step_by(4)) {
                    commands.copy(self.generation, register, target);
                }
            });
        }
        commands.configure(GRBM_GFX_INDEX, BROADCAST);
        commands.write_back(self.generation);
        commands.wait_idle();
        commands.0
    }

    /// Bytes written to an engine's share, and true if the share was too small.
    fn written(&self, ended: &Ended, address: u64) -> (u64, bool) {
        let (length, is_full) = match self.generation {
            Generation::Gfx9 => (u64::from(ended.pointer & gfx9::OFFSET) * BLOCK, ended.status & gfx9::FULL != 0),
            _ => {
                let end = u64::from(ended.pointer & gfx11::OFFSET) * BLOCK;
                // gfx11's pointer is the address, as much as it has of it.
                let start = if self.generation == Generation::Gfx11 { address } else { 0 };
                let length = end.wrapping_sub(start) % ((u64::from(gfx11::OFFSET) + 1) * BLOCK);
                (length, ended.status2 & gfx11::BUF0_FULL != 0)
            }
        };
        (length.min(self.share()), is_full || length >= self.share())
    }

    /// Header of a gfx9 trace, which names the engine and unit.
    fn header(&self, engine: u32) -> Option<u64> {
        let version = if self.is_gfx942 { 5 } else { 4 };
        let of = u64::from(self.simd) << 16 | u64::from(self.unit) << 20 | u64::from(engine) << 26;
        (self.generation == Generation::Gfx9).then_some(0x11 | version << 13 | of)
    }
}

/// Waits until bits of a register are clear.
fn wait_clear(commands: &mut Commands, register: u32, bits: u32) {
    const EQUAL: u32 = 3;
    commands.packet(WAIT_REG_MEM, &[EQUAL, register, 0, 0, bits, 4]);
}

/// Marker of a code object: words of user data, each behind one that states its kind.
fn marker(code_object: &AqlTraceCodeObject) -> Vec<u32> {
    const CODE_OBJECT: u32 = 4;
    const TAIL: u32 = 0;
    const SIZE_LOW: u32 = 1;
    const ADDRESS_LOW: u32 = 2;
    const ADDRESS_HIGH: u32 = 3;
    const SIZE_HIGH: u32 = 4;
    const ID_LOW: u32 = 5;
    const ID_HIGH: u32 = 6;
    let mut words = Vec::new();
    let AqlTraceCodeObject { id, address, length, flags, .. } = *code_object;
    if flags & AqlTraceCodeObject::UNLOAD == 0 {
        words.extend([(ADDRESS_LOW, address as u32), (ADDRESS_HIGH, (address >> 32) as u32)]);
        words.extend([(SIZE_LOW, length as u32), (SIZE_HIGH, (length >> 32) as u32)]);
    }
    // Those that fit are told with the last word.
    let short = u32::try_from(id).ok().filter(|id| *id < 1 << 30);
    if short.is_none() {
        words.extend([(ID_LOW, id as u32), (ID_HIGH, (id >> 32) as u32)]);
    }
    words.push((TAIL, flags & 3 | short.unwrap_or(0) << 2));
    let mut commands = Commands::default();
    commands.configure(GRBM_GFX_INDEX, BROADCAST);
    for (what, word) in words {
        commands.configure(SQ_THREAD_TRACE_USERDATA_2, CODE_OBJECT | what << 8);
        commands.configure(SQ_THREAD_TRACE_USERDATA_2, word);
    }
    commands.0
}

/// Plan for an agent. It asks the HSA runtime in use, because traces identify the agent by that runtime's handle.
fn plan_of(agent: HsaAgent) -> Result<Plan, HsaStatus> {
    type Get = unsafe extern "C" fn(HsaAgent, HsaAgentInfo, *mut c_void) -> HsaStatus;
    let flags = libloading::os::unix::RTLD_LAZY | RTLD_NOLOAD;
    // SAFETY: RTLD_NOLOAD loads nothing; a caller with an agent has initialised the runtime.
    let runtime = unsafe { libloading::os::unix::Library::open(Some("libhsa-runtime64.so.1"), flags) };
    let runtime = runtime
        .map_err(|error| fail(HsaStatus::ERROR_NOT_INITIALIZED, &format!("there is no HSA runtime in use: {error}")))?;
    // SAFETY: the function of this name has this type.
    let get = unsafe { runtime.get::<Get>(b"hsa_agent_get_info\0") };
    let get = get.map_err(|error| fail(HsaStatus::ERROR, &format!("the HSA runtime has no agents: {error}")))?;
    let mut name: [c_char; 64] = [0; 64];
    let (mut dies, mut engines) = (0_u32, 0_u32);
    let asked = [
        (HsaAgentInfo::NAME, name.as_mut_ptr().cast::<c_void>()),
        (HsaAgentInfo::AMD_NUM_XCC, (&raw mut dies).cast()),
        (HsaAgentInfo::AMD_NUM_SHADER_ENGINES, (&raw mut engines).cast()),
    ];
    for (attribute, place) in asked {
        // SAFETY: each place is as large as its attribute.
        match unsafe { get(agent, attribute, place) } {
            HsaStatus::SUCCESS => {}
            status => return Err(fail(status, &format!("the HSA runtime does not report {attribute:?}"))),
        }
    }
    // SAFETY: the runtime ends names, which are shorter.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy();
    Plan::new(&name, dies, engines)
        .ok_or_else(|| fail(HsaStatus::ERROR_INVALID_AGENT, &format!("the thread traces of {name} are not known")))
}

/// Flag of `dlopen` to find a loaded library without loading it (glibc's `dlfcn.h`).
const RTLD_NOLOAD: i32 = 4;

/// The caller's callbacks for memory.
#[derive(Clone, Copy)]
struct Caller {
    allocate: AqlProfileAllocate,
    free: AqlProfileFree,
    data: *mut c_void,
}

impl Caller {
    fn memory(&self, size: u64, access: u32, hint: u32) -> Result<Memory, HsaStatus> {
        let mut address = ptr::null_mut();
        // SAFETY: the caller's callback, with its own data and a valid place.
        match unsafe { (self.allocate)(&mut address, size, AqlProfileBuffer::new(access, hint), self.data) } {
            HsaStatus::SUCCESS => Ok(Memory { address, free: self.free, data: self.data }),
            status => Err(fail(status, &format!("allocating {size} bytes of memory failed"))),
        }
    }
}

/// Memory that the GPU and the host access.
const SHARED: u32 = AqlProfileBuffer::DEVICE_ACCESS | AqlProfileBuffer::HOST_ACCESS;

fn keep(live: Live) -> AqlProfileHandle {
    let mut made = MADE.lock();
    let made = made.get_or_insert_default();
    made.last += 1;
    made.live.insert(made.last, live);
    AqlProfileHandle { handle: made.last }
}

/// Creates the packets that start and stop the requested trace.
///
/// # Safety
/// `handle` and `packets` are valid for writes, the request's parameters valid for the call, and callbacks and `data`
/// until the packets are deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_att_create_packets(
    handle: *mut AqlProfileHandle,
    packets: *mut AqlTracePackets,
    request: AqlTraceRequest,
    allocate: AqlProfileAllocate,
    free: AqlProfileFree,
    copy: AqlProfileCopy,
    data: *mut c_void,
) -> HsaStatus {
    let parameters = match request.parameter_count {
        0 => &[],
        // SAFETY: the caller's contract.
        count => unsafe { std::slice::from_raw_parts(request.parameters, count as usize) },
    };
    let made = (|| {
        let mut plan = plan_of(request.agent)?;
        for parameter in parameters {
            let set = plan.set(parameter.name, parameter.value);
            set.map_err(|what| fail(HsaStatus::ERROR_INVALID_ARGUMENT, &what))?;
        }
        // Sizes are in 22 bits of pages.
        if plan.traced.is_empty() || plan.share() == 0 || plan.share() / PAGE >= 1 << 22 {
            let text = format!("{} bytes for traces of {} shader engines", plan.size, plan.traced.len());
            return Err(fail(HsaStatus::ERROR_INVALID_ARGUMENT, &text));
        }
        let caller = Caller { allocate, free, data };
        let count = u64::from(plan.dies * plan.engines);
        let control = caller.memory(count * size_of::<Ended>() as u64, SHARED, AqlProfileBuffer::HOST)?;
        let output = caller.memory(plan.size, AqlProfileBuffer::DEVICE_ACCESS, AqlProfileBuffer::NONCOHERENT)?;
        if !(output.address as u64).is_multiple_of(PAGE) {
            return Err(fail(HsaStatus::ERROR_INVALID_ALLOCATION, "memory for a trace does not begin with a page"));
        }
        let (start, stop) = (plan.start(output.address as u64), plan.stop(control.address as u64));
        let all = [&start[..], &stop].concat();
        let commands = caller.memory(all.len() as u64 * 4, SHARED, AqlProfileBuffer::NONCOHERENT)?;
        // SAFETY: the caller's callback; the memory is as long as the commands.
        match unsafe { copy(commands.address, all.as_ptr().cast(), all.len() * 4, data) } {
            HsaStatus::SUCCESS => {}
            status => return Err(fail(status, "the commands could not be copied")),
        }
        let at = commands.address as u64;
        let made =
            AqlTracePackets { start: packet(at, start.len()), stop: packet(at + start.len() as u64 * 4, stop.len()) };
        Ok((keep(Live::Trace(Trace { plan, copy, control, output, _commands: commands })), made))
    })();
    match made {
        Ok((kept, made)) => {
            // SAFETY: the caller's contract; C's packets are aligned to 8 bytes, not to 64.
            unsafe {
                handle.write(kept);
                packets.write_unaligned(made);
            }
            HsaStatus::SUCCESS
        }
        Err(status) => status,
    }
}

/// Frees the memory of a trace's packets, or of a marker.
///
/// # Safety
/// No packet of the handle is in a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_att_delete_packets(handle: AqlProfileHandle) {
    let deleted = MADE.lock().as_mut().and_then(|made| made.live.remove(&handle.handle));
    // Calls the caller back, under no lock.
    drop(deleted);
}

/// Calls `take` with the data of each traced shader engine. Returns an error if a buffer was too small; `take` gets the
/// incomplete data nevertheless.
///
/// # Safety
/// The stop packet is complete, and `take` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_att_iterate_data(
    handle: AqlProfileHandle,
    take: AqlTraceTake,
    data: *mut c_void,
) -> HsaStatus {
    let mut traces = Vec::new();
    let mut full = None;
    {
        let made = MADE.lock();
        let Some(Live::Trace(trace)) = made.as_ref().and_then(|made| made.live.get(&handle.handle)) else {
            return fail(HsaStatus::ERROR_INVALID_ARGUMENT, "the handle of the trace is unknown");
        };
        for (buffer, &engine) in trace.plan.traced.iter().enumerate() {
            // SAFETY: each shader engine has so much there, and the GPU is done with it.
            let ended = unsafe { trace.control.address.cast::<Ended>().add(engine as usize).read_volatile() };
            let address = trace.output.address as u64 + buffer as u64 * trace.plan.share();
            let (length, is_full) = trace.plan.written(&ended, address);
            if is_full {
                full = Some(engine);
            }
            let mut bytes: Vec<u8> = trace.plan.header(engine).iter().flat_map(|header| header.to_le_bytes()).collect();
            let from = bytes.len();
            bytes.resize(from + length as usize, 0);
            // SAFETY: the caller's callback, from its own memory to a vector that is as long.
            let copied = unsafe {
                let source = ptr::with_exposed_provenance(address as usize);
                (trace.copy)(bytes[from..].as_mut_ptr().cast(), source, length as usize, trace.output.data)
            };
            if copied != HsaStatus::SUCCESS {
                return fail(copied, "the trace could not be copied");
            }
            traces.push((engine, bytes));
        }
    }
    for (engine, mut bytes) in traces {
        // SAFETY: the caller's contract.
        match unsafe { take(engine, bytes.as_mut_ptr().cast(), bytes.len() as u64, data) } {
            HsaStatus::SUCCESS => {}
            status => return status,
        }
    }
    match full {
        None => HsaStatus::SUCCESS,
        Some(engine) => {
            let text = format!("the buffer of shader engine {engine} had no room for all of its trace");
            fail(HsaStatus::ERROR_OUT_OF_RESOURCES, &text)
        }
    }
}

/// Creates a packet that adds a code object's marker to traces.
///
/// # Safety
/// As for [`aqlprofile_att_create_packets`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_att_codeobj_marker(
    packet_place: *mut AmdPm4IbPacket,
    handle: *mut AqlProfileHandle,
    code_object: AqlTraceCodeObject,
    allocate: AqlProfileAllocate,
    free: AqlProfileFree,
    data: *mut c_void,
) -> HsaStatus {
    if let Err(status) = plan_of(code_object.agent) {
        return status;
    }
    let commands = marker(&code_object);
    let caller = Caller { allocate, free, data };
    let memory = match caller.memory(commands.len() as u64 * 4, SHARED, AqlProfileBuffer::NO_HINT) {
        Ok(memory) => memory,
        Err(status) => return status,
    };
    // SAFETY: as many bytes as were allocated for the host, which no other code knows of; valid places.
    unsafe {
        memory.address.cast::<u32>().copy_from_nonoverlapping(commands.as_ptr(), commands.len());
        packet_place.write_unaligned(packet(memory.address as u64, commands.len()));
        handle.write(keep(Live::Marker { _commands: memory }));
    }
    HsaStatus::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_known_or_refused() {
        type N = AqlTraceParameterName;
        let mut plan = Plan::new("gfx942", 8, 32).unwrap();
        for (name, value) in [
            (N::COMPUTE_UNIT_TARGET, 1),
            (N::SE_MASK, 0x1_0001),
            (N::SIMD_SELECTION, 0xff),
            (N::BUFFER_SIZE, 1 << 24),
            (N::BUFFER_SIZE_HIGH, 1),
            (N::RT_TIMESTAMP, 1),
        ] {
            plan.set(name, value).unwrap();
        }
        assert_eq!((plan.unit, &plan.traced[..], plan.simd), (1, &[0, 16][..], 0xf));
        assert_eq!(plan.share(), ((1 << 32) + (1 << 24)) / 2);
        assert_eq!(plan.header(16), Some(0x11 | 5 << 13 | 0xf << 16 | 1 << 20 | 16 << 26));
        assert!(plan.set(N::COMPUTE_UNIT_TARGET, 16).unwrap_err().contains("over 15"));
        assert!(plan.set(AqlTraceParameterName(99), 0).unwrap_err().contains("not known"));
        assert!(["gfx1030", "gfx1250"].into_iter().all(|name| Plan::new(name, 1, 4).is_none()));
    }

    /// The write pointer of gfx11 gives the size of the data, wherever the buffer begins in the pointer's 16 GiB range.
    #[test]
    fn the_pointer_of_gfx11_is_an_address() {
        let mut plan = Plan::new("gfx1100", 1, 6).unwrap();
        plan.set(AqlTraceParameterName::BUFFER_SIZE, 0x10000).unwrap();
        let written = |address: u64, length: u64| {
            let pointer = ((address + length) / BLOCK) as u32 & gfx11::OFFSET;
            plan.written(&Ended { pointer, ..Ended::default() }, address)
        };
        assert_eq!(written(0x7_ffff_f000, 0x2000), (0x2000, false));
        assert_eq!(written(0x7fff_1234_5000, 0x40), (0x40, false));
        assert_eq!(written(0x7fff_1234_5000, 0x10000), (0x10000, true));
        let gfx12 = Plan::new("gfx1201", 1, 4).unwrap();
        assert_eq!(gfx12.written(&Ended { pointer: 2, status2: 1, ..Ended::default() }, 0x1000), (64, true));
    }

    #[test]
    fn markers_have_the_code_object_last() {
        let of =
            |id| AqlTraceCodeObject { id, address: 0x1_0000_2000, length: 0x3000, agent: HsaAgent::NULL, flags: 2 };
        let values = |words: Vec<u32>| words.chunks(3).map(|command| command[2]).skip(1).collect::<Vec<_>>();
        let short = [0x204, 0x2000, 0x304, 1, 0x104, 0x3000, 0x404, 0, 4, 2 | 7 << 2];
        assert_eq!(values(marker(&of(7))), short);
        let long = values(marker(&of(1 << 40)));
        assert_eq!(long[8..], [0x504, 0, 0x604, 1 << 8, 4, 2]);
    }
}
