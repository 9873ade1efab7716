// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! `libhsa-amd-aqlprofile64.so.1` for the software GPU: the functions of ROCm's aqlprofile library that count events,
//! and those that trace waves (`att.rs`).
//!
//! The library creates packets whose commands the sim's packet processors execute (`performance.rs` and
//! `thread_trace.rs` of `sim/src/machine/product`), and decodes their results. It supports the blocks SQ, SPI, TA and
//! TCP, with events for waves, workgroups, busy cycles, kinds of instructions, LDS, loads, stores and cache lines. The
//! caller's callbacks provide memory. For counters, the caller also provides the properties of a GPU. For traces, the
//! library asks the HSA runtime in use, as ROCm's does.

mod att;
mod commands;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use hsa_abi::aqlprofile::{
    AqlProfileAgent, AqlProfileAgentInfo, AqlProfileAgentVersion, AqlProfileAllocate, AqlProfileBuffer, AqlProfileCopy,
    AqlProfileEvent, AqlProfileFree, AqlProfileHandle, AqlProfilePackets, AqlProfileRequest, AqlProfileTake,
    AqlProfileVersion,
};
use hsa_abi::performance::Block;
use hsa_abi::{AmdFormat, AmdPm4IbPacket, AmdVendorHeader, HsaSignal, HsaStatus, PacketHeader};
use parking_lot::Mutex;

use commands::{Counted, Plan};

/// Registered GPUs. Handles count from 1.
static AGENTS: Mutex<Vec<Plan>> = Mutex::new(Vec::new());

static PROFILES: Mutex<Option<Profiles>> = Mutex::new(None);

#[derive(Default)]
struct Profiles {
    last: u64,
    live: HashMap<u64, Profile>,
}

/// Packets of one request.
struct Profile {
    plan: Plan,
    events: Vec<Counted>,
    output: Memory,
    _commands: Memory,
}

/// Memory of the caller's, freed on drop.
struct Memory {
    address: *mut c_void,
    free: AqlProfileFree,
    data: *mut c_void,
}

// SAFETY: an address and the caller's callback, which the interface has any thread call.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the caller's own memory, data and callback, which it keeps until the packets are deleted.
        unsafe { (self.free)(self.address, self.data) };
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn fail(status: HsaStatus, text: &str) -> HsaStatus {
    LAST_ERROR.set(CString::new(text).unwrap_or_default());
    status
}

fn plan_of(agent: AqlProfileAgent) -> Option<Plan> {
    AGENTS.lock().get(usize::try_from(agent.handle).ok()?.checked_sub(1)?).copied()
}

/// Returns the version of the interface.
///
/// # Safety
/// `version` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_get_version(version: *mut AqlProfileVersion) -> HsaStatus {
    // SAFETY: the caller's contract.
    let Some(version) = (unsafe { version.as_mut() }) else {
        return fail(HsaStatus::ERROR_INVALID_ARGUMENT, "the pointer for the version is null");
    };
    *version = AqlProfileVersion { major: 1, minor: 0, patch: 0 };
    HsaStatus::SUCCESS
}

/// Registers a GPU.
///
/// # Safety
/// `agent` is valid for a write, and `info` points to the type that `version` names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_register_agent_info(
    agent: *mut AqlProfileAgent,
    info: *const c_void,
    version: AqlProfileAgentVersion,
) -> HsaStatus {
    if info.is_null() || agent.is_null() || version != AqlProfileAgentVersion::V1 {
        return fail(HsaStatus::ERROR_INVALID_ARGUMENT, "an agent is described by aqlprofile_agent_info_v1_t");
    }
    // SAFETY: the caller's contract.
    let info = unsafe { &*info.cast::<AqlProfileAgentInfo>() };
    // SAFETY: a C string, as the struct has it.
    let name = unsafe { CStr::from_ptr(info.agent_gfxip) }.to_string_lossy();
    let plan = Plan::new(&name, info.xcc_num, info.se_num, info.cu_num, info.shader_arrays_per_se);
    let Some(plan) = plan else {
        return fail(HsaStatus::ERROR_INVALID_AGENT, &format!("the counters of {name} are not known"));
    };
    let mut agents = AGENTS.lock();
    agents.push(plan);
    // SAFETY: not null; the caller's contract.
    unsafe { agent.write(AqlProfileAgent { handle: agents.len() as u64 }) };
    HsaStatus::SUCCESS
}

/// Stores true if the GPU can count an event.
///
/// # Safety
/// `event` is valid, and `result` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_validate_pmc_event(
    agent: AqlProfileAgent,
    event: *const AqlProfileEvent,
    result: *mut bool,
) -> HsaStatus {
    let Some(plan) = plan_of(agent) else {
        return fail(HsaStatus::ERROR_INVALID_AGENT, "the agent is not registered");
    };
    // SAFETY: the caller's contract.
    unsafe { result.write(plan.knows(&*event)) };
    HsaStatus::SUCCESS
}

/// Creates the packets that count `request`.
///
/// # Safety
/// `handle` and `packets` are valid for writes, the request's events valid for the call, and callbacks and `data` until
/// the packets are deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_pmc_create_packets(
    handle: *mut AqlProfileHandle,
    packets: *mut AqlProfilePackets,
    request: AqlProfileRequest,
    allocate: AqlProfileAllocate,
    free: AqlProfileFree,
    copy: AqlProfileCopy,
    data: *mut c_void,
) -> HsaStatus {
    let Some(plan) = plan_of(request.agent) else {
        return fail(HsaStatus::ERROR_INVALID_AGENT, "the agent is not registered");
    };
    if request.event_count == 0 || request.events.is_null() {
        return fail(HsaStatus::ERROR_INVALID_ARGUMENT, "the list of events is empty");
    }
    // SAFETY: the caller's contract.
    let events = unsafe { std::slice::from_raw_parts(request.events, request.event_count as usize) }.to_vec();
    if let Some(event) = events.iter().find(|event| !plan.knows(event)) {
        return fail(HsaStatus::ERROR_INVALID_ARGUMENT, &format!("{event:?} cannot be counted"));
    }
    let most = match counters() {
        Ok(most) => most,
        Err(text) => return fail(HsaStatus::ERROR_INVALID_ARGUMENT, &text),
    };
    // ROCm's library returns this status without a text (`counters.cpp`).
    let Some(events) = commands::assign(&events, most) else { return fail(HsaStatus::ERROR, "") };
    let memory = |size: usize, hint| {
        let flags = AqlProfileBuffer::new(AqlProfileBuffer::DEVICE_ACCESS | AqlProfileBuffer::HOST_ACCESS, hint);
        let mut address = ptr::null_mut();
        // SAFETY: the caller's callback, with its own data and a valid place.
        match unsafe { allocate(&mut address, size as u64, flags, data) } {
            HsaStatus::SUCCESS => Ok(Memory { address, free, data }),
            status => Err(fail(status, &format!("allocating {size} bytes of memory failed"))),
        }
    };
    let output = match memory(values(&plan, &events) * 8, AqlProfileBuffer::UNCACHED) {
        Ok(output) => output,
        Err(status) => return status,
    };
    let streams = [plan.start(&events), plan.stop(), plan.read(&events, output.address as u64)];
    let commands = match memory(streams.iter().map(Vec::len).sum::<usize>() * 4, AqlProfileBuffer::NONCOHERENT) {
        Ok(commands) => commands,
        Err(status) => return status,
    };
    let all = streams.concat();
    // SAFETY: the caller's callback; the memory is as long as the commands.
    let copied = unsafe { copy(commands.address, all.as_ptr().cast(), all.len() * 4, data) };
    if copied != HsaStatus::SUCCESS {
        return fail(copied, "the commands could not be copied");
    }
    let mut at = commands.address as u64;
    let [start, stop, read] = [&streams[0], &streams[1], &streams[2]].map(|stream| {
        let packet = packet(at, stream.len());
        at += stream.len() as u64 * 4;
        packet
    });
    let mut profiles = PROFILES.lock();
    let profiles = profiles.get_or_insert_default();
    profiles.last += 1;
    profiles.live.insert(profiles.last, Profile { plan, events, output, _commands: commands });
    // SAFETY: the caller's contract.
    unsafe {
        handle.write(AqlProfileHandle { handle: profiles.last });
        // C's packets are aligned to 8 bytes, not to 64.
        packets.write_unaligned(AqlProfilePackets { start, stop, read });
    }
    HsaStatus::SUCCESS
}

/// Number of values of the events in all dies.
fn values(plan: &Plan, events: &[Counted]) -> usize {
    plan.dies() * events.iter().map(|event| plan.values_of_die(event.block)).sum::<usize>()
}

/// Maximum number of events of a block that can be counted at a time: `HSA_SIM_COUNTERS`.
fn counters() -> Result<u32, String> {
    const NAME: &str = "HSA_SIM_COUNTERS";
    const MOST: u32 = Block::Sq.counters();
    let Some(text) = std::env::var_os(NAME) else { return Ok(MOST) };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.filter(|number| *number <= MOST).ok_or_else(|| format!("{NAME}={}: expected 0 to {MOST}", text.display()))
}

/// Packet that runs this number of dwords of commands at `address`.
fn packet(address: u64, dwords: usize) -> AmdPm4IbPacket {
    AmdPm4IbPacket {
        header: AmdVendorHeader { header: PacketHeader::INVALID, format: AmdFormat::PM4_IB, reserved: 0 },
        ib_jump_command: commands::jump(address, dwords),
        dw_cnt_remain: AmdPm4IbPacket::DW_CNT_REMAIN,
        reserved: [0; 8],
        completion_signal: HsaSignal::NULL,
    }
}

/// Frees the memory of the packets.
///
/// # Safety
/// No packet of the handle is in a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_pmc_delete_packets(handle: AqlProfileHandle) {
    let deleted = PROFILES.lock().as_mut().and_then(|profiles| profiles.live.remove(&handle.handle));
    // Calls the caller back, under no lock.
    drop(deleted);
}

/// Calls `take` with the values of each event that the last read packet has read.
///
/// # Safety
/// The read packet is complete, and `take` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aqlprofile_pmc_iterate_data(
    handle: AqlProfileHandle,
    take: AqlProfileTake,
    data: *mut c_void,
) -> HsaStatus {
    let found = {
        let profiles = PROFILES.lock();
        let profile = profiles.as_ref().and_then(|profiles| profiles.live.get(&handle.handle));
        profile.map(|profile| {
            let count = values(&profile.plan, &profile.events);
            let output = profile.output.address.cast::<u64>();
            // SAFETY: so many values were allocated, and the GPU is done with them.
            let values: Vec<u64> = (0..count).map(|index| unsafe { output.add(index).read_volatile() }).collect();
            (profile.plan, profile.events.clone(), values)
        })
    };
    let Some((plan, events, values)) = found else {
        return fail(HsaStatus::ERROR_INVALID_ARGUMENT, "the handle of packets is unknown");
    };
    let mut values = values.into_iter();
    for die in 0..plan.dies() {
        for counted in &events {
            let of_die = plan.values_of_die(counted.block);
            for (place, value) in values.by_ref().take(of_die).enumerate() {
                // SAFETY: the caller's contract.
                match unsafe { take(counted.event, (die * of_die + place) as u64, value, data) } {
                    HsaStatus::SUCCESS => {}
                    HsaStatus::INFO_BREAK => return HsaStatus::SUCCESS,
                    status => return status,
                }
            }
        }
    }
    HsaStatus::SUCCESS
}

/// Returns the message of this thread's last failed call.
///
/// # Safety
/// `text` is valid for a write. Its string lives until this thread's next failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_ven_amd_aqlprofile_error_string(text: *mut *const c_char) -> HsaStatus {
    LAST_ERROR.with_borrow(|last| {
        // SAFETY: the caller's contract.
        unsafe { text.write(last.as_ptr()) };
    });
    HsaStatus::SUCCESS
}
