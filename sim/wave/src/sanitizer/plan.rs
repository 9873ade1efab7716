// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Plan of a program's checks: reads, writes, issues and waits of its instructions, computed when code is decoded.

use super::counters::{Issue, Waits, is_async};
use super::hazard::{Facts, Hazards};
use super::lds::{Access, width};
use super::shadow::Deed;
use super::touch::Touch;
use crate::caching;
use crate::check::{self, Slice};
use crate::flow::falls_through;
use crate::hardware::slot;
use crate::hwreg::upper_by_setreg;
use crate::memory::Control;
use crate::operand::{Registers, Upper};
use crate::program::Program;
use crate::wave::Wave;
use sim_isa::{Dpp, Flags, Format, Inst, Op, Operand};
use std::collections::HashSet;
use std::ops::Range;

/// Range of a wave's registers, numbered consecutively: vector registers, then scalar slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub first: u16,
    pub count: u16,
    pub lanes: Lanes,
    /// Mask of the [`halves`], if it is one register.
    pub halves: u8,
    /// Marks of the registers in the span that operations of the program write when they complete.
    pub marks: Marks,
}

impl Span {
    fn new(first: usize, count: usize, lanes: Lanes) -> Span {
        Span { first: first as u16, count: count as u16, lanes, halves: halves::BOTH, marks: Marks::default() }
    }
}

/// Halves of a register, as sets.
pub(crate) mod halves {
    pub const LOW: u8 = 1;
    pub const HIGH: u8 = 2;
    pub const BOTH: u8 = LOW | HIGH;
}

/// Half of its data register that a memory instruction loads or stores; both if it accesses more.
///
/// From gfx11 on memory instructions on one half need not wait for those on the other. Vector arithmetic must wait: its
/// own write may be lost, and LLVM waits before its reads, too (`FeatureD16Writes32BitVgpr`;
/// `WaitcntBrackets::determineVGPR16Dependency`).
fn half_of_data(inst: &Inst) -> u8 {
    let is_memory = matches!(
        inst.format,
        Format::Mubuf | Format::Mtbuf | Format::Global | Format::Flat | Format::Scratch | Format::Ds
    );
    let info = inst.op.info();
    let data = if inst.op.has(Flags::STORE) { info.src.get(1).copied() } else { Some(info.dst) };
    let is_half = inst.op.has(Flags::D16) && inst.op.has(Flags::LOAD)
        || inst.op.has(Flags::STORE) && width(inst.op).is_some_and(|bytes| bytes <= 2);
    match inst.op.has(Flags::D16_HI) {
        _ if !is_memory || !is_half || inst.target.is_before_gfx11() => halves::BOTH,
        _ if data.is_none_or(|ty| ty.dwords(false) > 1) || inst.op.has(Flags::CONVERTS) => halves::BOTH,
        true => halves::HIGH,
        false => halves::LOW,
    }
}

/// Lanes whose registers an instruction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// Lanes in EXEC.
    Active,
    /// All lanes; also for scalar registers, which have none.
    All,
    /// Lanes in EXEC, and only registers whose bits are set in M0.
    ActiveByM0,
}

/// Role of an instruction at barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    None,
    /// Signals the workgroup's barrier.
    Signal,
    /// Waits for it.
    Wait,
    /// Does both.
    Both,
    /// Operates on a named barrier.
    Named(Named),
    /// Ends the wave.
    End,
    /// Writes memory that others see.
    Write,
}

/// Operation on a named barrier (gfx1250).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Init,
    Join,
    Signal,
    /// Waits for the named barrier that the wave has joined.
    Wait,
}

/// Checks of one instruction, which may be a no-op.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Byte offset in the code.
    pub offset: u32,
    /// True for the instruction of the micro-operation, false for a no-op before it.
    pub runs: bool,
    /// Set of [`deeds`].
    pub deeds: u8,
    pub waits: Option<Waits>,
    /// In [`Plan::spans`].
    reads: Range<u32>,
    writes: Range<u32>,
    pub issue: Option<Issue>,
    pub meeting: Meeting,
    pub lds: Option<Access>,
    pub touch: Option<Touch>,
    /// Cache operations of an instruction that has no other effect.
    pub control: Control,
    /// Before gfx11: scalar slot of the buffer resource, which may be the scratch resource.
    resource: Option<u16>,
    /// True if a result leaves part of its register unchanged.
    pub is_partial: bool,
}

impl Step {
    fn does(&self) -> u8 {
        let set = |deed: u8, does: bool| if does { deed } else { 0 };
        set(deeds::WAITS, self.waits.is_some())
            | set(deeds::COUNTS, self.issue.is_some() && !self.runs)
            | set(deeds::ISSUES, self.issue.is_some() && self.runs)
            | set(deeds::MEETS, self.meeting != Meeting::None)
            | set(deeds::LDS, self.lds.is_some())
            | set(deeds::MEMORY, self.touch.is_some() || self.control != Control::default())
    }

    /// True if a buffer instruction accesses scratch. Only scratch resources are swizzled here.
    pub fn is_private<const L: usize>(&self, wave: &Wave<L>) -> bool {
        self.resource.is_some_and(|slot| wave.s[usize::from(slot) + 1] >> 31 != 0)
    }
}

/// Summary of the checks before a micro-operation. Most need only a look at its registers.
#[derive(Clone, Copy)]
pub(crate) struct Glance {
    /// Marks of the registers that it reads or writes and that outstanding operations may write.
    pub registers: Marks,
    /// Set of further [`deeds`].
    pub deeds: u8,
}

impl Glance {
    /// It is counted when it has run.
    pub fn issues(&self) -> bool {
        self.deeds & deeds::ISSUES != 0
    }
}

/// Set of registers that operations of a program write when they complete. The registers take the set's bits in turn;
/// if they outnumber the bits, several registers share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks([u64; 2]);

impl Marks {
    /// Set of the registers with these numbers.
    fn of(numbers: Range<u16>) -> Marks {
        numbers.fold(Marks::default(), |Marks(mut sets), n| {
            sets[usize::from(n) / 64 % 2] |= 1 << (n % 64);
            Marks(sets)
        })
    }

    #[inline]
    pub fn meets(self, Marks([low, high]): Marks) -> bool {
        self.0[0] & low | self.0[1] & high != 0
    }

    #[inline]
    pub fn add(&mut self, Marks([low, high]): Marks) {
        self.0[0] |= low;
        self.0[1] |= high;
    }

    #[inline]
    pub fn remove(&mut self, Marks([low, high]): Marks) {
        self.0[0] &= !low;
        self.0[1] &= !high;
    }
}

/// Deeds of a micro-operation's instructions, as bits.
pub(crate) mod deeds {
    /// An instruction waits for a counter.
    pub const WAITS: u8 = 1;
    /// An instruction is counted after it has run.
    pub const ISSUES: u8 = 2;
    /// An instruction uses a barrier.
    pub const MEETS: u8 = 4;
    /// An instruction accesses LDS.
    pub const LDS: u8 = 8;
    /// An instruction accesses memory, or controls caches.
    pub const MEMORY: u8 = 16;
    /// An instruction is counted that does not run.
    pub const COUNTS: u8 = 32;
}

/// Check data of a program's instructions, by micro-operation.
pub(crate) struct Plan {
    steps: Vec<Step>,
    /// Summary of each micro-operation.
    glances: Vec<Glance>,
    /// Range in `steps` of each micro-operation: the no-ops before it, then itself.
    of: Vec<Range<u32>>,
    spans: Vec<Span>,
    /// The number of the first scalar slot.
    pub scalars: u16,
    /// Number of `v` registers before it; `a` registers follow.
    pub vectors: usize,
    /// True if there are accesses that may synchronize waves: atomics of memory, and loads past caches.
    pub synchronizes: bool,
    /// True if there are barriers other than the workgroup's and named ones: those of all waves, and of clusters.
    pub has_other_barriers: bool,
    /// Hash of the code.
    pub hash: u64,
    /// Hazard rules of the program.
    pub hazards: Hazards,
}

impl Plan {
    pub fn new<const L: usize>(program: &Program<L>, registers: Registers) -> Self {
        let mut plan = Plan {
            steps: Vec::new(),
            glances: Vec::new(),
            of: vec![0..0; program.ops.len()],
            spans: Vec::new(),
            scalars: registers.total() as u16,
            vectors: registers.vector,
            synchronizes: false,
            has_other_barriers: false,
            hash: hash(&program.words),
            hazards: Hazards::default(),
        };
        let mut found = Vec::new();
        let mut walk = Walk::default();
        let expected = expected_loads(program);
        for (at, op, inst) in program.instructions() {
            let offset = 4 * at as u32;
            walk.step(offset, &inst);
            plan.has_other_barriers |= inst.op == Op::DsGwsBarrier
                || inst.op.has(Flags::BARRIER) && inst.op != Op::SBarrierLeave && meeting(&inst) == Meeting::None;
            let facts = Facts::of::<L>(&inst, walk.upper);
            let mut step = plan.step::<L>(offset, &inst, registers, walk);
            if expected.contains(&offset) {
                step.touch.iter_mut().filter(|touch| touch.deed == Deed::Load).for_each(|touch| {
                    touch.deed = Deed::ExpectedLoad;
                });
                step.lds.iter_mut().for_each(|access| access.is_expected = true);
            }
            found.push((op, step, facts));
        }
        found.sort_by_key(|(op, step, _)| (*op, step.offset));
        let synchronizes = |touch: &Touch| matches!(touch.deed, Deed::Atomic | Deed::ScopedLoad);
        plan.synchronizes = found.iter().any(|(_, step, _)| step.touch.as_ref().is_some_and(synchronizes));
        let mut all_facts = Vec::with_capacity(found.len());
        for (op, mut step, facts) in found {
            all_facts.push(facts);
            step.runs = program.ops[op as usize].offset == step.offset;
            step.deeds = step.does();
            let of = &mut plan.of[op as usize];
            if of.start == of.end {
                *of = plan.steps.len() as u32..plan.steps.len() as u32;
            }
            of.end += 1;
            plan.steps.push(step);
        }
        plan.hazards = Hazards::new((program.target, L > 32), all_facts);
        plan.mark_spans();
        plan.glances = (0..program.ops.len() as u32).map(|op| plan.glance_over(op)).collect();
        plan
    }

    fn mark_spans(&mut self) {
        let range = |span: &Span| usize::from(span.first)..usize::from(span.first + span.count);
        let mut is_late = vec![false; usize::from(self.scalars) + slot::PADDED];
        for span in self.steps.iter().filter(|step| step.issue.is_some()).flat_map(|step| self.writes(step)) {
            is_late[range(span)].fill(true);
        }
        // Number of marked registers before each register.
        let before: Vec<u16> = std::iter::once(0)
            .chain(is_late.into_iter().scan(0, |n, is_late| {
                *n += u16::from(is_late);
                Some(*n)
            }))
            .collect();
        for span in &mut self.spans {
            let Range { start, end } = range(span);
            span.marks = Marks::of(before[start]..before[end]);
        }
    }

    fn glance_over(&self, op: u32) -> Glance {
        let mut glance = Glance { registers: Marks::default(), deeds: 0 };
        for step in self.of(op).map(|number| self.at(number)) {
            glance.deeds |= step.deeds;
            self.reads(step).iter().chain(self.writes(step)).for_each(|span| glance.registers.add(span.marks));
        }
        glance
    }

    #[inline]
    pub fn glance(&self, op: u32) -> &Glance {
        &self.glances[op as usize]
    }

    /// The instructions of a micro-operation, with their numbers.
    #[inline]
    pub fn of(&self, op: u32) -> Range<u32> {
        self.of[op as usize].clone()
    }

    /// The name of a register, by the number that spans have.
    pub fn name(&self, number: u16) -> String {
        register(number, self.scalars, self.vectors)
    }

    /// Ranges of steps of all micro-operations.
    pub fn ops(&self) -> &[Range<u32>] {
        &self.of
    }

    /// Number of instructions.
    pub fn steps(&self) -> u32 {
        self.steps.len() as u32
    }

    #[inline]
    pub fn at(&self, step: u32) -> &Step {
        &self.steps[step as usize]
    }

    #[inline]
    pub fn reads(&self, step: &Step) -> &[Span] {
        &self.spans[step.reads.start as usize..step.reads.end as usize]
    }

    #[inline]
    pub fn writes(&self, step: &Step) -> &[Span] {
        &self.spans[step.writes.start as usize..step.writes.end as usize]
    }

    fn step<const L: usize>(&mut self, offset: u32, inst: &Inst, registers: Registers, walk: Walk) -> Step {
        let mut uses = Uses { reads: Vec::new(), writes: Vec::new() };
        let scalars = self.scalars;
        let mut add = |inst: &Inst| uses.add::<L>(inst, registers, scalars, walk);
        add(&Inst { dual: None, ..inst.clone() });
        if let Some(second) = &inst.dual {
            add(second);
        }
        let mut put = |spans: Vec<Span>| {
            let start = self.spans.len() as u32;
            self.spans.extend(spans);
            start..self.spans.len() as u32
        };
        let (reads, writes) = (put(uses.reads), put(uses.writes));
        let mut control = Control::default();
        if inst.op.has(Flags::NOP) {
            caching::add(&mut control, inst, inst.target);
        }
        Step {
            offset,
            runs: false,
            deeds: 0,
            waits: Waits::of(inst),
            reads,
            writes,
            issue: Issue::of(inst),
            meeting: meeting(inst),
            lds: Access::of::<L>(inst, walk.upper),
            touch: Touch::of(inst),
            resource: match inst.src[2] {
                Operand::Sgpr(slot) if inst.format == Format::Mubuf && inst.target.is_before_gfx11() => {
                    Some(slot.into())
                }
                _ => None,
            },
            control,
            is_partial: inst.op.has(Flags::D16),
        }
    }
}

/// Maximum number of instructions between a load and its compare-and-swap.
const EXPECTED: usize = 96;

/// Offsets of loads that give the expected value of a later compare-and-swap. Compilers emit such loops for atomics
/// that a GPU lacks (LLVM, `AtomicExpandPass`). Where the address is uniform they use a scalar load, and move its value
/// to vector registers.
fn expected_loads<const L: usize>(program: &Program<L>) -> HashSet<u32> {
    let insts: Vec<(u32, Inst)> = program.instructions().map(|(at, _, inst)| (4 * at as u32, inst)).collect();
    let loads = insts.iter().enumerate().filter(|(_, (_, inst))| inst.op.has(Flags::LOAD));
    let of_load = |&(at, (offset, load)): &(usize, &(u32, Inst))| {
        let bytes = width(load.op)?;
        let mut value = Value::new(load.dst, bytes)?;
        for (_, inst) in insts[at + 1..].iter().take(EXPECTED) {
            if expects(inst).is_some_and(|(register, size)| size == bytes && value.is_in(register)) {
                return Some(*offset);
            }
            value.step::<L>(inst);
            if value.is_lost() || !falls_through(inst.op) {
                return None;
            }
        }
        None
    };
    loads.filter_map(|load| of_load(&load)).collect()
}

/// Registers with a loaded value of one or two dwords.
struct Value {
    /// The first of the scalar registers that it was loaded to, if they still have it.
    scalar: Option<u8>,
    /// The vector register with each dword.
    vectors: Vec<Option<u8>>,
}

impl Value {
    fn new(dst: Operand, bytes: u32) -> Option<Self> {
        let dwords = bytes.div_ceil(4) as u8;
        match dst {
            Operand::Vgpr(first) => {
                Some(Value { scalar: None, vectors: (0..dwords).map(|n| first.checked_add(n)).collect() })
            }
            Operand::Sgpr(first) => Some(Value { scalar: Some(first), vectors: vec![None; dwords.into()] }),
            _ => None,
        }
    }

    /// True if it is in the vector registers from `first` on.
    fn is_in(&self, first: u8) -> bool {
        self.vectors.iter().zip(first..).all(|(vector, register)| *vector == Some(register))
    }

    fn is_lost(&self) -> bool {
        self.scalar.is_none() && self.vectors.contains(&None)
    }

    /// Follows the value through an instruction.
    fn step<const L: usize>(&mut self, inst: &Inst) {
        let halves = || std::iter::once(inst).chain(inst.dual.as_deref());
        let first = self.scalar.map_or(0, usize::from);
        let dwords = if self.scalar.is_some() { self.vectors.len() } else { 0 };
        let moved: Vec<(usize, u8)> = halves()
            .flat_map(moves)
            .filter_map(|(from, to)| Some((usize::from(from).checked_sub(first).filter(|n| *n < dwords)?, to)))
            .collect();
        for half in halves() {
            let info = half.op.info();
            for (operand, ty) in [(half.dst, info.dst), (half.sdst, info.sdst)] {
                let written = |first: u8| usize::from(first)..usize::from(first) + usize::from(ty.dwords(L > 32));
                match operand {
                    Operand::Vgpr(n) => self
                        .vectors
                        .iter_mut()
                        .filter(|vector| vector.is_some_and(|vector| written(n).contains(&vector.into())))
                        .for_each(|vector| *vector = None),
                    Operand::Sgpr(n) if written(n).start < first + dwords && first < written(n).end => {
                        self.scalar = None;
                    }
                    _ => {}
                }
            }
        }
        moved.into_iter().for_each(|(n, to)| self.vectors[n] = Some(to));
    }
}

/// The scalar registers that an instruction moves, and the vector registers that it moves them to.
fn moves(inst: &Inst) -> Vec<(u8, u8)> {
    let (Operand::Sgpr(from), Operand::Vgpr(to)) = (inst.src[0], inst.dst) else { return Vec::new() };
    let is_pair =
        inst.op == Op::VMovB64 || inst.op == Op::VPkMovB32 && inst.src[0] == inst.src[1] && inst.op_sel & 3 == 2;
    match inst.op {
        Op::VMovB32 => vec![(from, to)],
        _ if is_pair => vec![(from, to), (from.saturating_add(1), to.saturating_add(1))],
        _ => Vec::new(),
    }
}

/// Register with the expected value of a compare-and-swap, and its bytes.
fn expects(inst: &Inst) -> Option<(u8, u32)> {
    let name = inst.op.name();
    let bytes = width(inst.op)?;
    let (slot, behind) = match () {
        () if name.contains("_cmpswap") => (1, bytes / 4),
        () if name.starts_with("ds_cmpstore") => (2, 0),
        () if name.starts_with("ds_cmpst") => (1, 0),
        () => return None,
    };
    match inst.src[slot] {
        Operand::Vgpr(n) => Some((n.saturating_add(behind as u8), bytes)),
        _ => None,
    }
}

/// State of the walk from one instruction to the next in the order of the code, as `translate` follows it.
#[derive(Clone, Copy, Default)]
pub(super) struct Walk {
    next: Option<u32>,
    pub upper: Upper,
    /// GFX9: M0 is added to register numbers.
    pub is_indexed: bool,
}

impl Walk {
    pub fn step(&mut self, offset: u32, inst: &Inst) {
        if self.next != Some(offset) {
            self.upper = Upper::default();
        }
        match inst.op {
            Op::SSetVgprMsb => self.upper = Upper(inst.simm as u8),
            Op::SSetregImm32B32 => self.upper = upper_by_setreg(inst).unwrap_or(self.upper),
            Op::SSetGprIdxOn | Op::SSetGprIdxMode => self.is_indexed = inst.simm & 15 != 0,
            Op::SSetGprIdxOff => self.is_indexed = false,
            _ => {}
        }
        self.next = falls_through(inst.op).then(|| offset + u32::from(inst.size));
    }
}

struct Uses {
    reads: Vec<Span>,
    writes: Vec<Span>,
}

impl Uses {
    fn add<const L: usize>(&mut self, inst: &Inst, registers: Registers, scalars: u16, walk: Walk) {
        // Their registers are known only when they run.
        let is_relative = inst.op.has(Flags::RELATIVE) || walk.is_indexed;
        let crosses = inst.dpp != Dpp::None
            || inst.op.has(Flags::MATRIX)
            || inst.op.has(Flags::TILES)
            || matches!(inst.op, Op::VReadlaneB32 | Op::VWritelaneB32)
            || inst.op.has(Flags::CROSSES_LANES);
        let lanes = match inst.op {
            op if op.has(Flags::BLOCK) => Lanes::ActiveByM0,
            _ if crosses => Lanes::All,
            _ => Lanes::Active,
        };
        let scalar = |first: usize, count: usize| Span::new(usize::from(scalars) + first, count, Lanes::All);
        // The slot of the loaded or stored data.
        let data = (if inst.op.has(Flags::STORE) { 1 } else { 4 }, half_of_data(inst));
        for (at, Slice { operand, first, dwords }) in check::slices::<L>(inst, walk.upper).into_iter().enumerate() {
            let lanes = if dwords == 32 || lanes != Lanes::ActiveByM0 { lanes } else { Lanes::Active };
            // An instruction with registers that the kernel lacks faults when it is reached, and may be no code at all.
            let vector =
                |first: usize, end: usize| Span::new(first.min(end), dwords.min(end.saturating_sub(first)), lanes);
            let mut span = match operand {
                Operand::Vgpr(_) | Operand::Agpr(_) if is_relative => continue,
                Operand::Vgpr(_) => vector(first, registers.vector),
                Operand::Agpr(_) => vector(registers.vector + first, registers.total()),
                other => match crate::operand::scalar_slot(other) {
                    Some(slot) if slot != slot::NULL => scalar(slot, dwords.min(slot::PADDED - slot)),
                    _ => continue,
                },
            };
            if at == data.0 {
                span.halves = data.1;
            }
            let is_destination = at >= inst.src.len();
            // The operand in the place of the destination is the LDS address.
            let is_read = !is_destination || is_async(inst.op);
            let is_both = match at {
                0 => matches!(inst.op, Op::VSwapB32 | Op::VSwapB16 | Op::VPermlane16SwapB32 | Op::VPermlane32SwapB32),
                4 => {
                    inst.op.has(Flags::READS_DST)
                        || matches!(
                            inst.op,
                            Op::VSwapB32 | Op::VSwapB16 | Op::VPermlane16SwapB32 | Op::VPermlane32SwapB32
                        )
                }
                _ => false,
            };
            if is_read || is_both {
                self.reads.push(span);
            }
            if !is_read || is_both {
                self.writes.push(span);
            }
        }
        let wide = L / 32;
        let implied = match inst.op {
            Op::VDivFmasF32 | Op::VDivFmasF64 | Op::SCbranchVccz | Op::SCbranchVccnz => Some(scalar(slot::VCC, wide)),
            _ if lanes == Lanes::ActiveByM0 || is_relative || needs_m0(inst) => Some(scalar(slot::M0, 1)),
            _ => None,
        };
        self.reads.extend(implied);
    }
}

/// FNV-1a, by words.
fn hash(words: &[u32]) -> u64 {
    let step = |hash: u64, word: &u32| (hash ^ u64::from(*word)).wrapping_mul(0x100_0000_01b3);
    words.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// True for ops that read M0 without naming it.
fn needs_m0(inst: &Inst) -> bool {
    inst.mem.lds
        || inst.op.has(Flags::TO_LDS)
        || matches!(inst.op, Op::DsAppend | Op::DsConsume | Op::DsLoadAddtidB32 | Op::DsStoreAddtidB32)
        || matches!(inst.op, Op::SSendmsg | Op::SSendmsghalt)
}

/// Role of an instruction at barriers: the workgroup's, which is number -1, or named ones from 1 on.
fn meeting(inst: &Inst) -> Meeting {
    let workgroup = Operand::Inline(u64::from(u32::MAX));
    let is_named = match inst.src[0] {
        Operand::Inline(number) => (number as i32) > 0,
        other => other == Operand::M0,
    };
    let writes = inst.op.has(Flags::STORE) || inst.op.has(Flags::ATOMIC);
    match inst.op {
        Op::SBarrier => Meeting::Both,
        Op::SBarrierSignal | Op::SBarrierSignalIsfirst if inst.src[0] == workgroup => Meeting::Signal,
        Op::SBarrierWait if inst.simm == -1 => Meeting::Wait,
        Op::SBarrierInit => Meeting::Named(Named::Init),
        Op::SBarrierJoin => Meeting::Named(Named::Join),
        Op::SBarrierSignal | Op::SBarrierSignalIsfirst if is_named => Meeting::Named(Named::Signal),
        Op::SBarrierWait if inst.simm > 0 => Meeting::Named(Named::Wait),
        Op::SEndpgm | Op::SEndpgmSaved | Op::SEndpgmOrderedPsDone => Meeting::End,
        _ if writes && !matches!(inst.format, Format::Scratch | Format::Smem) => Meeting::Write,
        _ => Meeting::None,
    }
}

/// Name of a register, by its number. `scalars` is the number of the first scalar slot. Of the registers before it, the
/// first `vectors` are `v` registers.
pub(super) fn register(register: u16, scalars: u16, vectors: usize) -> String {
    match register.checked_sub(scalars) {
        None if usize::from(register) < vectors => format!("v{register}"),
        None => format!("a{}", usize::from(register) - vectors),
        Some(n) => match usize::from(n) {
            slot::VCC => "vcc_lo".to_owned(),
            n if n == slot::VCC + 1 => "vcc_hi".to_owned(),
            slot::M0 => "m0".to_owned(),
            slot::EXEC => "exec_lo".to_owned(),
            n if n == slot::EXEC + 1 => "exec_hi".to_owned(),
            n if n >= slot::TTMP => format!("ttmp{}", n - slot::TTMP),
            n => format!("s{n}"),
        },
    }
}
