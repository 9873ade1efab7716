// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Counters of a wave's outstanding operations, and the instructions that wait for them.
//!
//! Counters and their fields are from the ISA documents ("Manually Inserted Wait States" of Vega, "Data Dependency
//! Resolution" of RDNA and CDNA, S_WAIT_LOADCNT and its like of RDNA4). The order in which operations complete is the
//! one that LLVM relies on (`SIInsertWaitcnts.cpp`).

use sim_isa::{Flags, Format, Inst, Op, Operand, Target};

/// A counter of outstanding operations. Before gfx12 some have other names, and count more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Counter {
    /// `loadcnt`; `vmcnt` before gfx12, which on GFX9 counts stores as well.
    Load,
    /// `storecnt`; `vscnt` on gfx10 and gfx11.
    Store,
    /// `dscnt`; `lgkmcnt` before gfx12, which counts scalar memory and messages as well.
    Ds,
    /// `kmcnt` of gfx12: scalar memory and messages.
    Scalar,
    /// `asynccnt` of gfx1250.
    Async,
    /// `tensorcnt` of gfx1250.
    Tensor,
}

pub(crate) const COUNTERS: usize = 6;

impl Counter {
    pub const ALL: [Counter; COUNTERS] =
        [Counter::Load, Counter::Store, Counter::Ds, Counter::Scalar, Counter::Async, Counter::Tensor];

    /// Highest value of a counter. An instruction that would exceed it is not issued until the counter is lower.
    pub fn limit(self, target: Target) -> u32 {
        match self {
            Counter::Ds if target.is_gfx9() => 15,
            Counter::Scalar => 31,
            Counter::Tensor => 3,
            _ => 63,
        }
    }

    /// Wait instruction for the counter to be at most `n`, in assembly.
    pub fn wait(self, target: Target, n: u32) -> String {
        if target.is_gfx12() {
            let name = match self {
                Counter::Load => "loadcnt",
                Counter::Store => "storecnt",
                Counter::Ds => "dscnt",
                Counter::Scalar => "kmcnt",
                Counter::Async => "asynccnt",
                Counter::Tensor => "tensorcnt",
            };
            return format!("s_wait_{name} {n:#x}");
        }
        match self {
            Counter::Load => format!("s_waitcnt vmcnt({n})"),
            Counter::Store => format!("s_waitcnt_vscnt null, {n:#x}"),
            _ => format!("s_waitcnt lgkmcnt({n})"),
        }
    }
}

/// Class of outstanding operations, which complete in the order of their issue or in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// Vector memory that returns data; on GFX9 all vector memory.
    Load,
    /// Vector memory that returns no data, from gfx10 on.
    Store,
    /// LDS.
    Lds,
    /// Scalar memory, in any order.
    Scalar,
    /// Messages with an answer, states of barriers.
    Message,
    /// GFX9: vector memory count of a flat access that may have gone to LDS, in any order.
    FlatLoad,
    /// GFX9: LDS count of a flat access that may have gone to memory, in any order.
    FlatLds,
    /// `global_load_async_to_lds_*`.
    AsyncLoad,
    /// `global_store_async_from_lds_*`.
    AsyncStore,
    /// `tensor_load_to_lds`.
    TensorLoad,
    /// `tensor_store_from_lds`.
    TensorStore,
}

pub(crate) const CLASSES: usize = 11;

impl Class {
    pub const ALL: [Class; CLASSES] = [
        Class::Load,
        Class::Store,
        Class::Lds,
        Class::Scalar,
        Class::Message,
        Class::FlatLoad,
        Class::FlatLds,
        Class::AsyncLoad,
        Class::AsyncStore,
        Class::TensorLoad,
        Class::TensorStore,
    ];

    pub fn counter(self, target: Target) -> Counter {
        match self {
            Class::Load | Class::FlatLoad => Counter::Load,
            Class::Store => Counter::Store,
            Class::Lds | Class::FlatLds => Counter::Ds,
            Class::Scalar | Class::Message if target.is_gfx12() => Counter::Scalar,
            Class::Scalar | Class::Message => Counter::Ds,
            Class::AsyncLoad | Class::AsyncStore => Counter::Async,
            Class::TensorLoad | Class::TensorStore => Counter::Tensor,
        }
    }

    /// True if operations of the class complete in order.
    pub fn is_ordered(self) -> bool {
        !matches!(self, Class::Scalar | Class::FlatLoad | Class::FlatLds)
    }

    /// True if two operations of the class write a common register in order. On gfx12 the counter of loads goes down
    /// in order, but registers are not written so (LLVM's `FeatureVmemWriteVgprInOrder`, which gfx12 lacks).
    pub fn writes_in_order(self, target: Target) -> bool {
        self.is_ordered() && !(self == Class::Load && target.is_gfx12())
    }
}

/// Description of a use of a register before the operation `by` that writes it is complete, and of the missing waits.
pub(super) fn too_early(register: &str, is_read: bool, by: &str, waits: &[String]) -> String {
    let does = if is_read { "read" } else { "overwritten" };
    format!("{register} is {does} before the {by} that writes it has completed: {} is missing", waits.join(" and "))
}

/// Waits of an instruction: for each counter the highest value at which the wave continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waits(pub [Option<u8>; COUNTERS]);

impl Waits {
    /// Waits of an instruction; `None` if it waits for no counter. Counters of exports, samples and ray tracing, for
    /// which there are no instructions here, are left out.
    pub fn of(inst: &Inst) -> Option<Waits> {
        let simm = inst.simm as u16;
        let field = |shift: u32, bits: u32| Some((simm >> shift & ((1 << bits) - 1)) as u8);
        let mut waits = Waits([None; COUNTERS]);
        let mut set = |counter: Counter, value: Option<u8>| waits.0[counter as usize] = value;
        // The register of `s_waitcnt_vscnt` and its like is added; compilers have null there.
        let is_known = inst.src[0] == Operand::Null;
        let (split_vmcnt, vmcnt) = (simm & 15 | simm >> 10 & 0x30, field(10, 6));
        match inst.op {
            Op::SWaitcnt => match inst.target {
                target if target.is_gfx11() => {
                    set(Counter::Load, vmcnt);
                    set(Counter::Ds, field(4, 6));
                }
                target if target.is_before_gfx11() => {
                    set(Counter::Load, Some(split_vmcnt as u8));
                    set(Counter::Ds, field(8, if target.is_gfx9() { 4 } else { 6 }));
                }
                _ => return None,
            },
            Op::SWaitcntVmcnt if is_known => set(Counter::Load, field(0, 6)),
            Op::SWaitcntVscnt if is_known => set(Counter::Store, field(0, 6)),
            Op::SWaitcntLgkmcnt if is_known => set(Counter::Ds, field(0, 6)),
            Op::SWaitLoadcnt => set(Counter::Load, field(0, 6)),
            Op::SWaitStorecnt => set(Counter::Store, field(0, 6)),
            Op::SWaitDscnt => set(Counter::Ds, field(0, 6)),
            Op::SWaitKmcnt => set(Counter::Scalar, field(0, 5)),
            Op::SWaitAsynccnt => set(Counter::Async, field(0, 6)),
            Op::SWaitTensorcnt => set(Counter::Tensor, field(0, 2)),
            Op::SWaitLoadcntDscnt => {
                set(Counter::Load, field(8, 6));
                set(Counter::Ds, field(0, 6));
            }
            Op::SWaitStorecntDscnt => {
                set(Counter::Store, field(8, 6));
                set(Counter::Ds, field(0, 6));
            }
            Op::SWaitIdle => Counter::ALL.into_iter().for_each(|counter| set(counter, Some(0))),
            _ => return None,
        }
        Some(waits)
    }
}

/// Counting of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Issue {
    /// One operation of a class.
    One(Class),
    /// A memory access of the class and an LDS access.
    Flat(Class),
}

impl Issue {
    /// Counting of an instruction; `None` if it is not counted.
    pub fn of(inst: &Inst) -> Option<Issue> {
        let gfx9 = inst.target.is_gfx9();
        let store = if gfx9 { Class::Load } else { Class::Store };
        match inst.op {
            // These are counted, invalidations before gfx12 are not.
            Op::BufferWbl2 | Op::GlobalInv => return Some(Issue::One(Class::Load)),
            Op::GlobalWb | Op::GlobalWbinv => return Some(Issue::One(store)),
            Op::SSendmsg | Op::SSendmsghalt => return Some(Issue::One(Class::Message)),
            Op::SSendmsgRtnB32 | Op::SSendmsgRtnB64 => return Some(Issue::One(Class::Message)),
            // In no order, as scalar memory (LLVM, `AMDGPUHWEvents.cpp`).
            Op::SGetBarrierState => return Some(Issue::One(Class::Scalar)),
            op if op.has(Flags::NOP) => return None,
            _ => {}
        }
        let stores = inst.op.has(Flags::STORE);
        let class = match inst.format {
            Format::Ds if is_async(inst.op) => Class::AsyncLoad,
            Format::Ds => Class::Lds,
            Format::Smem => Class::Scalar,
            Format::Vimage if stores => Class::TensorStore,
            Format::Vimage => Class::TensorLoad,
            Format::Global if is_async(inst.op) && stores => Class::AsyncStore,
            Format::Global if is_async(inst.op) => Class::AsyncLoad,
            Format::Mubuf | Format::Mtbuf | Format::Global | Format::Scratch | Format::Flat => {
                let is_silent = stores || inst.op.has(Flags::ATOMIC) && inst.dst.is_none();
                if is_silent { store } else { Class::Load }
            }
            _ => return None,
        };
        Some(if inst.format == Format::Flat { Issue::Flat(class) } else { Issue::One(class) })
    }
}

/// True if it is counted by `asynccnt`. The LDS address looks like its destination.
pub(crate) fn is_async(op: Op) -> bool {
    op.has(Flags::ASYNC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(target: Target, word: u32) -> [Option<u8>; COUNTERS] {
        Waits::of(&sim_isa::decode(target, &[word]).unwrap()).unwrap().0
    }

    #[test]
    fn fields_are_where_each_generation_has_them() {
        // s_waitcnt vmcnt(35) lgkmcnt(5), without expcnt, as LLVM assembles it.
        assert_eq!(waits(Target::Gfx906, 0xbf8c_8573), [Some(35), None, Some(5), None, None, None]);
        assert_eq!(waits(Target::Gfx1030, 0xbf8c_8573), [Some(35), None, Some(5), None, None, None]);
        assert_eq!(waits(Target::Gfx11, 0xbf89_8c57), [Some(35), None, Some(5), None, None, None]);
        // s_waitcnt_vscnt null, 0x3
        assert_eq!(waits(Target::Gfx11, 0xbc7c_0003), [None, Some(3), None, None, None, None]);
        // s_wait_loadcnt_dscnt 0x203, s_wait_storecnt 0x4, s_wait_kmcnt 0x1
        assert_eq!(waits(Target::Gfx1200, 0xbfc8_0203), [Some(2), None, Some(3), None, None, None]);
        assert_eq!(waits(Target::Gfx1200, 0xbfc1_0004), [None, Some(4), None, None, None, None]);
        assert_eq!(waits(Target::Gfx1200, 0xbfc7_0001), [None, None, None, Some(1), None, None]);
        // s_wait_asynccnt 0x5, s_wait_tensorcnt 0x1
        assert_eq!(waits(Target::Gfx1250, 0xbfca_0005), [None, None, None, None, Some(5), None]);
        assert_eq!(waits(Target::Gfx1250, 0xbfcb_0001), [None, None, None, None, None, Some(1)]);
    }
}
