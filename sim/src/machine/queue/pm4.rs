// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Decoder of PM4 packets, the packet processor's own commands, which AQL PM4-IB packets call.
//!
//! Sources of the layouts: the Linux kernel's `soc15d.h` and `nvd.h` (opcodes, headers), Mesa's `sid.h` and `radv`
//! (fields), and AMD's "PM4 packet" documentation. All addresses are memory addresses. Known fields without a meaning
//! here (cache policies, write confirmation, engines, instruction and metadata caches) are accepted. Every other bit
//! that is set, and every other packet, is an error that names it. `ACQUIRE_MEM` and `RELEASE_MEM` act on caches by
//! their flags, for all of memory whatever their range is.

use std::fmt;
use std::ops::Range;

use hsa_abi::performance::{self, SH_REGISTERS, UCONFIG_REGISTERS};
use hsa_abi::{compute, thread_trace};
use sim_wave::Control;

const NOP: u32 = 0x10;
const DISPATCH_DIRECT: u32 = 0x15;
const DISPATCH_INDIRECT: u32 = 0x16;
const PRED_EXEC: u32 = 0x23;
const WRITE_DATA: u32 = 0x37;
const WAIT_REG_MEM: u32 = 0x3c;
const INDIRECT_BUFFER: u32 = 0x3f;
const COPY_DATA: u32 = 0x40;
const EVENT_WRITE: u32 = 0x46;
const RELEASE_MEM: u32 = 0x49;
const ACQUIRE_MEM: u32 = 0x58;
const SET_SH_REG: u32 = 0x76;
const SET_UCONFIG_REG: u32 = 0x79;
const WAIT_REG_MEM64: u32 = 0x93;

/// Event at the end of a thread trace (`soc21_enum.h`).
const THREAD_TRACE_FINISH: u32 = 0x37;

/// Registers of compute shaders (Mesa's `sid.h`, in dwords): first register, number in a row, name.
const COMPUTE_REGISTERS: [(u32, u32, &str); 18] = [
    (compute::COMPUTE_START_X, 3, "COMPUTE_START_X"),
    (compute::COMPUTE_NUM_THREAD_X, 3, "COMPUTE_NUM_THREAD_X"),
    (0x2e0a, 1, "COMPUTE_PIPELINESTAT_ENABLE"),
    (performance::COMPUTE_PERFCOUNT_ENABLE, 1, "COMPUTE_PERFCOUNT_ENABLE"),
    (compute::COMPUTE_PGM_LO, 1, "COMPUTE_PGM_LO"),
    (compute::COMPUTE_PGM_HI, 1, "COMPUTE_PGM_HI"),
    (0x2e0e, 2, "COMPUTE_DISPATCH_PKT_ADDR_LO"),
    (0x2e10, 2, "COMPUTE_DISPATCH_SCRATCH_BASE_LO"),
    (compute::COMPUTE_PGM_RSRC1, 1, "COMPUTE_PGM_RSRC1"),
    (compute::COMPUTE_PGM_RSRC2, 1, "COMPUTE_PGM_RSRC2"),
    (compute::COMPUTE_RESOURCE_LIMITS, 1, "COMPUTE_RESOURCE_LIMITS"),
    (0x2e16, 2, "COMPUTE_STATIC_THREAD_MGMT_SE0"),
    (compute::COMPUTE_TMPRING_SIZE, 1, "COMPUTE_TMPRING_SIZE"),
    (0x2e19, 2, "COMPUTE_STATIC_THREAD_MGMT_SE2"),
    (compute::COMPUTE_RESTART_X, 3, "COMPUTE_RESTART_X"),
    (thread_trace::COMPUTE_THREAD_TRACE_ENABLE, 1, "COMPUTE_THREAD_TRACE_ENABLE"),
    (compute::COMPUTE_PGM_RSRC3, 1, "COMPUTE_PGM_RSRC3"),
    (compute::COMPUTE_USER_DATA_0, 16, "COMPUTE_USER_DATA_0"),
];

/// Register number of `COMPUTE_PGM_RSRC3`.
pub const fn pgm_rsrc3(gfx9: bool) -> u32 {
    if gfx9 { compute::GFX9_COMPUTE_PGM_RSRC3 } else { compute::COMPUTE_PGM_RSRC3 }
}

/// The die's own registers for counters: first register, number in a row, name.
const PERFORMANCE_REGISTERS: [(u32, u32, &str); 14] = [
    (performance::GRBM_GFX_INDEX, 1, "GRBM_GFX_INDEX"),
    (performance::TA_PERFCOUNTER0_LO, 4, "TA_PERFCOUNTER0_LO"),
    (performance::TCP_PERFCOUNTER0_LO, 8, "TCP_PERFCOUNTER0_LO"),
    (performance::SPI_PERFCOUNTER0_HI, 12, "SPI_PERFCOUNTER0_HI"),
    (performance::SQ_PERFCOUNTER0_LO, 32, "SQ_PERFCOUNTER0_LO"),
    (performance::CP_PERFMON_CNTL, 1, "CP_PERFMON_CNTL"),
    (performance::SPI_PERFCOUNTER0_SELECT, 10, "SPI_PERFCOUNTER0_SELECT"),
    (performance::SQ_PERFCOUNTER0_SELECT, 16, "SQ_PERFCOUNTER0_SELECT"),
    (performance::SQ_PERFCOUNTER_CTRL, 1, "SQ_PERFCOUNTER_CTRL"),
    (performance::SQ_PERFCOUNTER_MASK, 1, "SQ_PERFCOUNTER_MASK"),
    (performance::SQ_PERFCOUNTER_CTRL2, 1, "SQ_PERFCOUNTER_CTRL2"),
    (performance::TA_PERFCOUNTER0_SELECT, 3, "TA_PERFCOUNTER0_SELECT"),
    (performance::TCP_PERFCOUNTER0_SELECT, 6, "TCP_PERFCOUNTER0_SELECT"),
    (performance::RLC_PERFMON_CLK_CNTL, 1, "RLC_PERFMON_CLK_CNTL"),
];

/// Name of a register of compute shaders; `None` for others.
pub fn register_name(register: u32, gfx9: bool) -> Option<String> {
    if gfx9 && register == compute::GFX9_COMPUTE_PGM_RSRC3 {
        return Some("COMPUTE_PGM_RSRC3".to_owned());
    }
    if gfx9 && register == pgm_rsrc3(false) {
        return None;
    }
    name_of(&COMPUTE_REGISTERS, register)
}

/// Name of a register from a list of rows of registers.
fn name_of(list: &[(u32, u32, &str)], register: u32) -> Option<String> {
    let (first, _, name) = list.iter().find(|(first, count, _)| (*first..first + count).contains(&register))?;
    Some(match register - first {
        0 => (*name).to_owned(),
        distance => format!("{name} + {distance}"),
    })
}

/// Formats a register.
fn register_text(register: u32, gfx9: bool) -> String {
    let name = register_name(register, gfx9).or_else(|| name_of(&PERFORMANCE_REGISTERS, register));
    name.unwrap_or_else(|| format!("register {register:#x}"))
}

/// Formats a command: the first of `dwords`, decoded as `command`.
pub fn describe(command: &Command, dwords: &[u32], gfx9: bool) -> String {
    let name = match dwords {
        [header, ..] if header >> 30 == 3 => name(header >> 8 & 0xff),
        _ => "filler".to_owned(),
    };
    let store = |(source, target, wide): (Source, u64, bool)| {
        let source = match source {
            Source::Memory(address) => format!("the memory at {address:#x}"),
            Source::Immediate(value) => format!("{value:#x}"),
            Source::Clock => "the clock".to_owned(),
            Source::Register(register) => register_text(register, gfx9),
        };
        format!("{} bits at {target:#x} = {source}", if wide { 64 } else { 32 })
    };
    let text = match command {
        Command::Nothing => String::new(),
        Command::Registers(first, values) | Command::Configure(first, values) => {
            let register = |(register, value)| format!("{} = {value:#x}", register_text(register, gfx9));
            (*first..).zip(values).map(register).collect::<Vec<_>>().join(", ")
        }
        Command::Write(target, words) => format!("{words:x?} at {target:#x}"),
        Command::Copy(source, target, wide) => store((*source, *target, *wide)),
        Command::Wait(wait) => {
            let Wait { address, reference, mask, wide, .. } = wait;
            let bits = if *wide { 64 } else { 32 };
            format!("{bits} bits at {address:#x} & {mask:#x}, reference {reference:#x}, control {:#x}", dwords[1])
        }
        Command::WaitRegister(wait) => {
            let RegisterWait { register, reference, mask, .. } = wait;
            let register = register_text(*register, gfx9);
            format!("{register} & {mask:#x}, reference {reference:#x}, control {:#x}", dwords[1])
        }
        Command::Flush => "CS_PARTIAL_FLUSH".to_owned(),
        Command::Caches(control) => actions(*control),
        Command::Release(control, target) => {
            let parts = [Some(actions(*control)), target.map(store)];
            format!("after the dispatches: {}", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
        }
        Command::Predicate(dies, dwords) => format!("{dwords} dwords for the dies {dies:#b}"),
        Command::Dispatch(groups, initiator) => format!("{groups:?} workgroups, initiator {initiator:#x}"),
        Command::DispatchIndirect(address, initiator) => {
            format!("workgroups at {address:#x}, initiator {initiator:#x}")
        }
    };
    format!("{name} {text}").trim_end().to_owned()
}

/// Formats cache operations.
fn actions(control: Control) -> String {
    let caches = [
        (control.invalidate_vector, "invalidate vector caches"),
        (control.invalidate_array, "invalidate GL1"),
        (control.invalidate_scalar, "invalidate scalar caches"),
        (control.write_back_shared, "write L2 back"),
        (control.invalidate_shared, "invalidate L2"),
    ];
    let done: Vec<_> = caches.iter().filter(|(is_done, _)| *is_done).map(|(_, text)| *text).collect();
    if done.is_empty() { "nothing to caches".to_owned() } else { done.join(", ") }
}

/// Length field of a `NOP` that consists of its header only.
const NOP_ALONE: u32 = 0x3fff;

/// A buffer of commands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectBuffer {
    /// Address, a multiple of 4.
    pub address: u64,
    /// Length in dwords.
    pub dwords: u32,
}

/// Source of a value of `COPY_DATA` and `RELEASE_MEM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Memory.
    Memory(u64),
    /// The packet.
    Immediate(u64),
    /// The agent's clock.
    Clock,
    /// A 32-bit register.
    Register(u32),
}

/// Unsigned comparison of `WAIT_REG_MEM`, between the masked word and the reference value.
pub type Comparison = fn(u64, u64) -> bool;

/// A wait for memory: until `compare(memory & mask, reference)`.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The word, aligned to its width.
    pub address: u64,
    /// The comparison.
    pub compare: Comparison,
    /// Reference value.
    pub reference: u64,
    /// Mask of the word.
    pub mask: u64,
    /// True for 64 bits, false for 32.
    pub wide: bool,
}

/// A wait for a register: until `compare(register & mask, reference)`.
#[derive(Clone, Copy, Debug)]
pub struct RegisterWait {
    /// Number of the register, in dwords.
    pub register: u32,
    /// The comparison.
    pub compare: Comparison,
    /// Reference value.
    pub reference: u64,
    /// Mask of the register.
    pub mask: u64,
}

/// A decoded command.
#[derive(Clone, Debug)]
pub enum Command {
    /// No effect, or an effect that holds anyway because commands run one after another.
    Nothing,
    /// Store dwords at an address.
    Write(u64, Vec<u32>),
    /// Store a value at an address: 64 bits (`true`) or 32.
    Copy(Source, u64, bool),
    /// Wait for memory.
    Wait(Wait),
    /// Wait for a 32-bit register.
    WaitRegister(RegisterWait),
    /// Wait for all dispatches before it.
    Flush,
    /// Write caches back and invalidate them.
    Caches(Control),
    /// Wait for all dispatches before it, write caches back and invalidate them, then store as `Copy`.
    Release(Control, Option<(Source, u64, bool)>),
    /// Set shader registers, from this one on.
    Registers(u32, Vec<u32>),
    /// Set registers of the die's own, from this one on.
    Configure(u32, Vec<u32>),
    /// Mask of the dies that execute the commands in the next dwords, and the number of these dwords.
    Predicate(u32, usize),
    /// Run the kernel of the shader registers: workgroups, dispatch initiator.
    Dispatch([u32; 3], u32),
    /// As `Dispatch`, with the workgroups at an address.
    DispatchIndirect(u64, u32),
}

/// Returns the indirect buffer that an `INDIRECT_BUFFER` packet jumps to.
pub fn jump(command: [u32; 4]) -> Result<IndirectBuffer, String> {
    const VALID: u32 = 1 << 23;
    let [header, low, high, control] = command;
    if header >> 30 != 3 || header >> 8 & 0xff != INDIRECT_BUFFER || header >> 16 & 0x3fff != 2 {
        return Err(format!("the jump {header:#010x} is not an INDIRECT_BUFFER packet of 4 dwords"));
    }
    if control & VALID == 0 {
        return Err("INDIRECT_BUFFER does not have its valid bit".into());
    }
    bits("INDIRECT_BUFFER", control, 0xf_ffff | VALID)?;
    let address = address("INDIRECT_BUFFER", low, high, 4)?;
    match control & 0xf_ffff {
        0 => Err("INDIRECT_BUFFER of no dwords".into()),
        dwords => Ok(IndirectBuffer { address, dwords }),
    }
}

/// Decodes the first packet of `dwords`. Returns its command and length. `gfx9` selects the layout of `ACQUIRE_MEM` on
/// gfx9.
pub fn decode(dwords: &[u32], gfx9: bool) -> Result<(Command, usize), String> {
    let &[header, ref rest @ ..] = dwords else { return Err("no packet".into()) };
    match header >> 30 {
        // A filler.
        2 => return Ok((Command::Nothing, 1)),
        3 => {}
        other => return Err(format!("header {header:#010x} is of a packet of type {other}")),
    }
    let (opcode, count) = (header >> 8 & 0xff, header >> 16 & 0x3fff);
    if opcode == NOP && count == NOP_ALONE {
        return Ok((Command::Nothing, 1));
    }
    let name = name(opcode);
    let length = count as usize + 1;
    let Some(body) = rest.get(..length) else {
        return Err(format!("{name} of {} dwords goes beyond the end of the buffer", length + 1));
    };
    // Bit 1 says that the packet is about compute shaders.
    bits(&name, header & 0xff, 1 << 1)?;
    let command = command(opcode, &name, body, gfx9)?;
    Ok((command, length + 1))
}

fn command(opcode: u32, name: &str, body: &[u32], gfx9: bool) -> Result<Command, String> {
    match (opcode, body) {
        (NOP, _) => Ok(Command::Nothing),
        (WRITE_DATA, &[control, low, high, ref data @ ..]) if !data.is_empty() => {
            // Destination, write confirmation, cache policy, engine.
            bits(name, control, 0xf << 8 | 1 << 20 | 3 << 25 | 3 << 30)?;
            destination(name, control >> 8 & 0xf)?;
            Ok(Command::Write(address(name, low, high, 4)?, data.to_vec()))
        }
        (COPY_DATA, &[control, source_low, source_high, low, high]) => {
            copy(name, control, (source_low, source_high), (low, high))
        }
        (WAIT_REG_MEM, &[control, low, high, reference, mask, interval]) => {
            bits(name, interval, 0xffff)?;
            let (reference, mask) = (u64::from(reference), u64::from(mask));
            if control >> 4 & 3 == 0 && high == 0 {
                bits(name, control, 7 | 1 << 8)?;
                let compare = comparison(name, control)?;
                return Ok(Command::WaitRegister(RegisterWait { register: low, compare, reference, mask }));
            }
            wait(name, control, address(name, low, high, 4)?, reference, mask, false)
        }
        (WAIT_REG_MEM64, &[control, low, high, reference_low, reference_high, mask_low, mask_high, interval]) => {
            // The upper bit lets the packet processor run other queues meanwhile.
            bits(name, interval, 0xffff | 1 << 31)?;
            let (reference, mask) = (wide(reference_low, reference_high), wide(mask_low, mask_high));
            wait(name, control, address(name, low, high, 8)?, reference, mask, true)
        }
        (RELEASE_MEM, &[event, control, low, high, data_low, data_high, _interrupt]) => {
            let caches = if gfx9 { release_gfx9(name, event)? } else { release_gfx10(name, event)? };
            let copy = release(name, event, control, (low, high), wide(data_low, data_high))?;
            Ok(Command::Release(caches, copy))
        }
        (ACQUIRE_MEM, &[caches, _, _, _, _, _]) if gfx9 => Ok(Command::Caches(acquire_gfx9(name, caches)?)),
        (ACQUIRE_MEM, &[engine, _, _, _, _, _, caches]) if !gfx9 => {
            bits(name, engine, 1 << 31)?;
            Ok(Command::Caches(acquire_gfx10(name, caches)?))
        }
        (ACQUIRE_MEM, body) => Err(format!("{name} of {} dwords is of another GPU generation", body.len() + 1)),
        (EVENT_WRITE, &[event]) => match (event & 0x3f, event >> 8) {
            (7, 4) => Ok(Command::Flush),
            // The end of thread traces: tokens are never under way here.
            (THREAD_TRACE_FINISH, 0) if !gfx9 => Ok(Command::Nothing),
            _ => Err(format!("{name} of event {event:#x} is not supported")),
        },
        (SET_SH_REG, &[offset, ref values @ ..]) if !values.is_empty() => {
            let first = registers(name, SH_REGISTERS, offset, values)?;
            let unknown = (first..).take(values.len()).find(|register| register_name(*register, gfx9).is_none());
            match unknown {
                None => Ok(Command::Registers(first, values.to_vec())),
                Some(register) => Err(format!("{name} of {register:#x}, which is not a register of compute shaders")),
            }
        }
        (SET_UCONFIG_REG, &[offset, ref values @ ..]) if !values.is_empty() => {
            Ok(Command::Configure(registers(name, UCONFIG_REGISTERS, offset, values)?, values.to_vec()))
        }
        // Linux's `soc15d.h`: packet processors of several dies are of gfx9 only.
        (PRED_EXEC, &[control]) if gfx9 => {
            bits(name, control, 0xff << 24 | 0x3fff)?;
            Ok(Command::Predicate(control >> 24, (control & 0x3fff) as usize))
        }
        (DISPATCH_DIRECT, &[x, y, z, initiator]) => Ok(Command::Dispatch([x, y, z], initiator)),
        (DISPATCH_INDIRECT, &[low, high, initiator]) => {
            Ok(Command::DispatchIndirect(address(name, low, high, 4)?, initiator))
        }
        (
            WRITE_DATA | COPY_DATA | WAIT_REG_MEM | WAIT_REG_MEM64 | RELEASE_MEM | EVENT_WRITE | SET_SH_REG
            | SET_UCONFIG_REG | DISPATCH_DIRECT | DISPATCH_INDIRECT,
            _,
        ) => Err(format!("{name} cannot have {} dwords", body.len() + 1)),
        _ => Err(format!("{name} is not supported")),
    }
}

fn copy(name: &str, control: u32, source: (u32, u32), target: (u32, u32)) -> Result<Command, String> {
    // Source, destination, source cache policy, width, write confirmation, destination cache policy, engine.
    bits(name, control, 0xf | 0xf << 8 | 3 << 13 | 1 << 16 | 1 << 20 | 3 << 25 | 3 << 30)?;
    destination(name, control >> 8 & 0xf)?;
    let wide = control & 1 << 16 != 0;
    let alignment = if wide { 8 } else { 4 };
    let source = match control & 0xf {
        // Memory-mapped registers, and those of counters, which are some of them.
        0 | 4 if !wide && source.1 == 0 => Source::Register(source.0),
        1 | 2 => Source::Memory(address(name, source.0, source.1, alignment)?),
        5 => Source::Immediate(self::wide(source.0, source.1)),
        9 => Source::Clock,
        other => return Err(format!("{name} from source {other} is not supported")),
    };
    Ok(Command::Copy(source, address(name, target.0, target.1, alignment)?, wide))
}

fn wait(name: &str, control: u32, address: u64, reference: u64, mask: u64, wide: bool) -> Result<Command, String> {
    // Function, space, operation, engine.
    bits(name, control, 7 | 3 << 4 | 3 << 6 | 1 << 8)?;
    if control >> 4 & 3 != 1 {
        return Err(format!("{name} for a register is not supported"));
    }
    if control >> 6 & 3 != 0 {
        return Err(format!("{name} with operation {} is not supported", control >> 6 & 3));
    }
    Ok(Command::Wait(Wait { address, compare: comparison(name, control)?, reference, mask, wide }))
}

fn comparison(name: &str, control: u32) -> Result<Comparison, String> {
    Ok(match control & 7 {
        0 => |_, _| true,
        1 => |value, reference| value < reference,
        2 => |value, reference| value <= reference,
        3 => |value, reference| value == reference,
        4 => |value, reference| value != reference,
        5 => |value, reference| value >= reference,
        6 => |value, reference| value > reference,
        _ => return Err(format!("{name} with the reserved function 7")),
    })
}

/// Cache operations of `CP_COHER_CNTL` (`soc15d.h`, `PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_*`).
fn acquire_gfx9(name: &str, flags: u32) -> Result<Control, String> {
    const TCL1_VOL: u32 = 1 << 15;
    const TC_WB: u32 = 1 << 18;
    const TCL1: u32 = 1 << 22;
    const TC: u32 = 1 << 23;
    const SH_KCACHE: u32 = 1 << 27;
    const SH_KCACHE_VOL: u32 = 1 << 28;
    // Kinds of lines in the L2, metadata, color and depth, instructions, lines that scalar stores wrote, the engine.
    let others = 7 << 3 | 3 << 25 | 1 << 29 | 1 << 30 | 1 << 31;
    bits(name, flags, TCL1_VOL | TC_WB | TCL1 | TC | SH_KCACHE | SH_KCACHE_VOL | others)?;
    Ok(Control {
        invalidate_vector: flags & (TCL1 | TCL1_VOL) != 0,
        invalidate_scalar: flags & (SH_KCACHE | SH_KCACHE_VOL) != 0,
        invalidate_shared: flags & TC != 0,
        ..write_back(flags & TC_WB != 0)
    })
}

/// Cache operations of `GCR_CNTL` (`nvd.h`, `PACKET3_ACQUIRE_MEM_GCR_CNTL_*`).
fn acquire_gfx10(name: &str, flags: u32) -> Result<Control, String> {
    const GLK_INV: u32 = 1 << 7;
    const GLV_INV: u32 = 1 << 8;
    const GL1_INV: u32 = 1 << 9;
    const GL2_INV: u32 = 1 << 14;
    const GL2_WB: u32 = 1 << 15;
    // Instructions, ranges, metadata, lines that scalar stores wrote, the order.
    let others = 0x7f | 7 << 10 | 7 << 16;
    bits(name, flags, GLK_INV | GLV_INV | GL1_INV | GL2_INV | GL2_WB | others)?;
    Ok(Control {
        invalidate_vector: flags & GLV_INV != 0,
        invalidate_array: flags & GL1_INV != 0,
        invalidate_scalar: flags & GLK_INV != 0,
        invalidate_shared: flags & GL2_INV != 0,
        ..write_back(flags & GL2_WB != 0)
    })
}

/// Cache operations of `RELEASE_MEM` on gfx9 (`soc15d.h`, `EOP_*_ACTION_EN`). They follow the kernels' stores.
fn release_gfx9(name: &str, event: u32) -> Result<Control, String> {
    const TCL1_VOL: u32 = 1 << 12;
    const TC_WB: u32 = 1 << 15;
    const TCL1: u32 = 1 << 16;
    const TC: u32 = 1 << 17;
    // The event, volatile and other kinds of lines in the L2, metadata, its policy, the order.
    let others = 0xf3f | 1 << 13 | 7 << 19 | 3 << 25 | 1 << 28;
    bits(name, event, TCL1_VOL | TC_WB | TCL1 | TC | others)?;
    Ok(Control {
        invalidate_vector: event & (TCL1 | TCL1_VOL) != 0,
        invalidate_shared: event & TC != 0,
        write_back: true,
        ..write_back(event & TC_WB != 0)
    })
}

/// Cache operations of `RELEASE_MEM` from gfx10 on (`nvd.h`, `PACKET3_RELEASE_MEM_GCR_*`).
fn release_gfx10(name: &str, event: u32) -> Result<Control, String> {
    const GLV_INV: u32 = 1 << 14;
    const GL1_INV: u32 = 1 << 15;
    const GL2_INV: u32 = 1 << 20;
    const GL2_WB: u32 = 1 << 21;
    // The event, metadata, ranges, the order, the L2's policy, the order of packets.
    let others = 0xf3f | 3 << 12 | 7 << 16 | 3 << 22 | 3 << 25 | 1 << 28;
    bits(name, event, GLV_INV | GL1_INV | GL2_INV | GL2_WB | others)?;
    Ok(Control {
        invalidate_vector: event & GLV_INV != 0,
        invalidate_array: event & GL1_INV != 0,
        invalidate_shared: event & GL2_INV != 0,
        write_back: true,
        ..write_back(event & GL2_WB != 0)
    })
}

/// Write-back of the L2, or no operation.
fn write_back(is_asked: bool) -> Control {
    Control { write_back: is_asked, write_back_die: is_asked, write_back_shared: is_asked, ..Control::default() }
}

type Copy = Option<(Source, u64, bool)>;

fn release(name: &str, event: u32, control: u32, target: (u32, u32), data: u64) -> Result<Copy, String> {
    /// Events at the end of the pipe, with and without a time stamp, and at the end of a kernel.
    const EVENTS: [u32; 4] = [0x14, 0x28, 0x2f, 0x30];
    if !EVENTS.contains(&(event & 0x3f)) {
        return Err(format!("{name} at event {:#x} is not supported", event & 0x3f));
    }
    // Destination, interrupt, data.
    bits(name, control, 3 << 16 | 7 << 24 | 7 << 29)?;
    let (source, wide) = match control >> 29 {
        0 => return Ok(None),
        1 => (Source::Immediate(data), false),
        2 => (Source::Immediate(data), true),
        3 => (Source::Clock, true),
        other => return Err(format!("{name} of data {other} is not supported")),
    };
    let target = address(name, target.0, target.1, if wide { 8 } else { 4 })?;
    Ok(Some((source, target, wide)))
}

/// First of the registers that `values` are for. All of them must be in their range.
fn registers(name: &str, range: Range<u32>, offset: u32, values: &[u32]) -> Result<u32, String> {
    let (count, room) = (values.len() as u32, range.len() as u32);
    if offset >= room || offset + count > room {
        return Err(format!("{name} of {count} registers from offset {offset:#x} on leaves their range"));
    }
    Ok(range.start + offset)
}

/// Refuses set bits outside of `known`.
fn bits(name: &str, value: u32, known: u32) -> Result<(), String> {
    match value & !known {
        0 => Ok(()),
        other => Err(format!("{name} with bits {other:#x} is not supported")),
    }
}

/// Accepts memory as destination, with or without the L2.
fn destination(name: &str, destination: u32) -> Result<(), String> {
    match destination {
        2 | 5 => Ok(()),
        other => Err(format!("{name} to destination {other} is not supported")),
    }
}

fn wide(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn address(name: &str, low: u32, high: u32, alignment: u64) -> Result<u64, String> {
    let address = wide(low, high);
    if address.is_multiple_of(alignment) {
        Ok(address)
    } else {
        Err(format!("{name} at {address:#x}, which is not a multiple of {alignment}"))
    }
}

/// Position of the command of a packet that started a kernel.
#[derive(Clone, Copy, Debug)]
pub struct PlacedCommand {
    /// Opcode of the command.
    pub opcode: u32,
    /// Index of its first dword in the packet's buffer.
    pub dword: usize,
}

impl fmt::Display for PlacedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {} at dword {}", name(self.opcode), self.dword)
    }
}

/// Name of an opcode, for messages.
pub fn name(opcode: u32) -> String {
    let name = match opcode {
        NOP => "NOP",
        DISPATCH_DIRECT => "DISPATCH_DIRECT",
        DISPATCH_INDIRECT => "DISPATCH_INDIRECT",
        0x1e => "ATOMIC_MEM",
        PRED_EXEC => "PRED_EXEC",
        WRITE_DATA => "WRITE_DATA",
        WAIT_REG_MEM => "WAIT_REG_MEM",
        INDIRECT_BUFFER => "INDIRECT_BUFFER",
        COPY_DATA => "COPY_DATA",
        EVENT_WRITE => "EVENT_WRITE",
        RELEASE_MEM => "RELEASE_MEM",
        0x50 => "DMA_DATA",
        ACQUIRE_MEM => "ACQUIRE_MEM",
        SET_SH_REG => "SET_SH_REG",
        SET_UCONFIG_REG => "SET_UCONFIG_REG",
        WAIT_REG_MEM64 => "WAIT_REG_MEM64",
        _ => return format!("PM4 opcode {opcode:#04x}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers of known opcodes with random bodies, and altogether random ones.
    #[test]
    fn any_words_are_decoded_or_refused() {
        const OPCODES: [u32; 14] = [
            NOP,
            DISPATCH_DIRECT,
            DISPATCH_INDIRECT,
            WRITE_DATA,
            WAIT_REG_MEM,
            INDIRECT_BUFFER,
            COPY_DATA,
            EVENT_WRITE,
            RELEASE_MEM,
            ACQUIRE_MEM,
            SET_SH_REG,
            SET_UCONFIG_REG,
            PRED_EXEC,
            WAIT_REG_MEM64,
        ];
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 32) as u32
        };
        let mut decoded = 0;
        for round in 0..200_000 {
            let mut words: Vec<u32> = (0..random() % 12).map(|_| random()).collect();
            for word in &mut words {
                // Most fields are small.
                *word >>= random() % 32;
            }
            if let (true, [header, ..]) = (round % 4 != 0, &mut words[..]) {
                let opcode = OPCODES[random() as usize % OPCODES.len()];
                *header = 3 << 30 | (random() % 12) << 16 | opcode << 8;
            }
            let gfx9 = round % 2 == 0;
            if let Ok((_, length)) = decode(&words, gfx9) {
                assert!((1..=words.len()).contains(&length), "{words:x?}");
                decoded += 1;
            }
            if let Some(&jump) = words.first_chunk() {
                let _ = self::jump(jump);
            }
        }
        assert!(decoded > 1000, "{decoded}");
    }
}
