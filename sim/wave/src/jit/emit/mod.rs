// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The frame of compiled code: blocks, calls of handlers, and which registers hold which rows.

mod registers;

use super::access::{self, Places, Way};
use super::{Context, MOST, NONE, Source, interpret, matrix, scalar, vector};
use crate::flow::falls_through;
use crate::hardware::slot;
use crate::micro_op::MicroOp;
use crate::operand::{Src, SrcKind};
use crate::wave::{Group, Row, Wave};
use registers::{Operand, Registers};
use sim_isa::{Flags, Format, Op, Target, Ty};
use sim_jit::{Assembler, Condition, Gpr, Jump, Mem, Scalar, Width};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::{offset_of, take};
use std::ops::Range;

/// Registers of a block's code: the function's arguments.
pub(super) const WAVE: Gpr = Gpr::Rbx;
pub(super) const GROUP: Gpr = Gpr::R12;
pub(super) const ROWS: Gpr = Gpr::R13;
pub(super) const CONTEXT: Gpr = Gpr::R14;
/// Address of the memory's generation.
pub(super) const GENERATION: Gpr = Gpr::Rbp;
/// Registers that compiled code saves; five keep the stack aligned.
const SAVED: [Gpr; 5] = [WAVE, GROUP, ROWS, CONTEXT, GENERATION];

/// How an op is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By a template, or a call of its handler.
    Inside,
    /// Not at all: it may go elsewhere, or change EXEC or MODE, which a block's code depends on.
    End,
}

/// The width of this CPU's vectors; `None` if they are too narrow. `is_narrow`: AVX2's, where there are wider ones.
pub(super) fn width(is_narrow: bool) -> Option<Width> {
    if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") || !is_x86_feature_detected!("f16c") {
        return None;
    }
    Some(if !is_narrow && is_x86_feature_detected!("avx512f") { Width::Zmm } else { Width::Ymm })
}

/// The code of a program's blocks.
pub(super) struct Emitted {
    pub code: Vec<u8>,
    /// Where the block of each micro-operation from `first` on starts, with all lanes active and with some.
    pub starts: Vec<[u32; 2]>,
    pub first: u32,
    /// Number of micro-operations that were compiled.
    pub ops: u64,
}

/// Compiles the blocks of a program, or those that its wave can reach, if it is large. `apart`: ops without a template
/// end a block.
pub(super) fn compile<const L: usize>(program: Source<'_, L>, apart: bool) -> Option<Emitted> {
    let width = width(program.is_narrow)?;
    let ops = program.ops;
    let lines = match ops.len() {
        ..=MOST => std::iter::once(0..ops.len()).collect(),
        _ => reached(ops, program.from as usize),
    };
    let first = lines.first()?.start;
    let mut starts = vec![[NONE; 2]; lines.last()?.end - first];
    let mut is_leader = vec![false; ops.len() + 1];
    is_leader[program.entry as usize] = true;
    for op in ops {
        if let Some(leader) = is_leader.get_mut(op.target as usize) {
            *leader = true;
        }
    }
    let mut emitter = Emitter::new(width, program, &lines);
    for line in &lines {
        let mut at = line.start;
        while at < line.end {
            let ends = |n: usize| n == line.end || is_leader[n] && n > at || kind(&ops[n]) == Kind::End;
            let end = (at..=line.end).find(|&n| ends(n)).unwrap_or(line.end);
            if end == at {
                at += 1;
                continue;
            }
            for is_masked in [false, true] {
                let mut next = at;
                while next < end {
                    let start = emitter.asm.offset();
                    let branch = ops.get(end).filter(|op| !apart && !is_leader[end] && condition(op).is_some());
                    let last = emitter.block(&ops[next..end], next as u32, is_masked, apart, branch);
                    match last {
                        Some(count) => {
                            starts[next - first][usize::from(is_masked)] = start as u32;
                            next += count;
                        }
                        None => {
                            emitter.asm.truncate(start);
                            next += 1;
                        }
                    }
                }
            }
            at = end;
        }
    }
    let code = emitter.asm.finish();
    let ops = lines.iter().map(|line| line.len() as u64).sum();
    (!code.is_empty()).then_some(Emitted { code, starts, first: first as u32, ops })
}

/// The lines of ops that a wave at op `from` can reach without a jump to a register: [`MOST`] ops at most, the nearest
/// ones.
fn reached<const L: usize>(ops: &[MicroOp<L>], from: usize) -> Vec<Range<usize>> {
    let (mut found, mut pending) = (BTreeSet::new(), VecDeque::from([from]));
    while let Some(mut at) = pending.pop_front() {
        while at < ops.len() && found.len() < MOST && found.insert(at) {
            if let Some(code) = ops[at].code {
                if code.has(Flags::BRANCH) {
                    pending.push_back(ops[at].target as usize);
                }
                if !falls_through(code) {
                    break;
                }
            }
            at += 1;
        }
    }
    let mut lines: Vec<Range<usize>> = Vec::new();
    for at in found {
        match lines.last_mut() {
            Some(line) if line.end == at => line.end += 1,
            _ => lines.push(at..at + 1),
        }
    }
    lines
}

/// Tells if an op can be inside a block.
fn kind<const L: usize>(op: &MicroOp<L>) -> Kind {
    let Some(code) = op.code else { return Kind::End };
    let info = code.info();
    let name = code.name();
    // Beyond the last of 16 registers from here on is EXEC.
    let is_low = |slot: u16, dwords: usize| usize::from(slot) + dwords <= slot::NULL || usize::from(slot) == slot::NULL;
    let is_inside = match info.encodings[0].format {
        Format::Sop1 | Format::Sop2 | Format::Sopk | Format::Sopc => {
            const OTHERS: [&str; 13] = [
                "exec", "pc", "call", "movrel", "barrier", "sleep", "setreg", "mode", "rfe", "gpr", "msg", "alloc",
                "getreg",
            ];
            is_low(op.dst, 2) && !OTHERS.iter().any(|other| name.contains(other))
        }
        Format::Smem => is_low(op.dst, 16) && name.contains("_load_"),
        Format::Vopc => is_low(op.dst, 2) && !op.writes_exec,
        Format::Vop1 | Format::Vop2 | Format::Vop3 | Format::Vop3sd | Format::Vop3p | Format::Vopd | Format::Vopd3 => {
            let is_scalar = matches!(info.dst, Ty::Mask) || name.contains("read");
            (!is_scalar || is_low(op.dst, 2)) && is_low(op.sdst, 2) && !op.writes_exec && !name.contains("cmpx")
        }
        Format::Ds | Format::Mubuf | Format::Mtbuf | Format::Flat | Format::Global | Format::Scratch => {
            !name.contains("gws")
        }
        _ => false,
    };
    if is_inside && !code.has(Flags::WRITES_EXEC) { Kind::Inside } else { Kind::End }
}

/// When a branch is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Always,
    /// The condition code is this.
    Scc(bool),
    /// The lane mask in a slot is zero, or not.
    Zero(usize, bool),
}

/// When a branch is taken, if it is one that blocks may end with.
fn condition<const L: usize>(op: &MicroOp<L>) -> Option<Taken> {
    Some(match op.code? {
        Op::SBranch => Taken::Always,
        Op::SCbranchScc0 => Taken::Scc(false),
        Op::SCbranchScc1 => Taken::Scc(true),
        Op::SCbranchVccz => Taken::Zero(slot::VCC, true),
        Op::SCbranchVccnz => Taken::Zero(slot::VCC, false),
        Op::SCbranchExecz => Taken::Zero(slot::EXEC, true),
        Op::SCbranchExecnz => Taken::Zero(slot::EXEC, false),
        _ => return None,
    })
}

/// Rows that a handler writes from its destination on, and scalar slots. `None` if it may write others.
pub(super) fn writes<const L: usize>(op: &MicroOp<L>) -> Option<(u16, u16)> {
    let code = op.code.filter(|_| op.crossing.is_none())?;
    let (info, name) = (code.info(), code.name());
    const OTHERS: [&str; 7] = ["movrel", "swap", "permlane", "gpr", "relative", "lds", "async"];
    if OTHERS.iter().any(|other| name.contains(other)) {
        return None;
    }
    Some(match info.encodings[0].format {
        Format::Sop1 | Format::Sop2 | Format::Sopk | Format::Sopc => (0, 2),
        Format::Smem if name.contains("_load_") => (0, 16),
        Format::Vopc => (0, 2),
        Format::Vop1 | Format::Vop2 | Format::Vop3 | Format::Vop3sd | Format::Vop3p => {
            (info.dst.dwords(L > 32) as u16, 2)
        }
        Format::Ds | Format::Global | Format::Mubuf if name.contains("_load_") && !op.mem.tfe && !op.mem.lds => (4, 0),
        Format::Ds | Format::Global | Format::Mubuf if name.contains("_store_") => (0, 0),
        _ => return None,
    })
}

/// A value of a row, by its number: that which a row had when its block began has the row's.
pub(super) type Value = u32;

/// Values from this number on are of rows that the block has written.
pub(super) const NEW: Value = 1 << 16;

/// Compiles blocks.
pub(super) struct Emitter<'p, const L: usize> {
    constants: &'p [u32],
    /// Vector registers of a wave that runs the program.
    pub rows: &'p [Row<L>],
    /// Row of the first constant.
    first_constant: usize,
    pub asm: Assembler,
    pub width: Width,
    /// Some lanes are inactive: with AVX-512 mask registers 1 and up have the active ones of each part.
    pub is_masked: bool,
    registers: Registers,
    /// When each vector register was used last.
    used: [u32; 32],
    now: u32,
    /// Instructions to be counted.
    uncounted: i32,
    exits: Vec<Jump>,
    pub target: Target,
    /// The op under way, by its number.
    at: u32,
    /// The run under way, if there is one.
    run: Option<Run>,
    pub places: Places,
    detours: Vec<Detour>,
    /// Rows that the block has written: each is the sum of a value and a constant so small that immediates can be
    /// added to it.
    values: BTreeMap<u16, (Value, i32)>,
    next_value: Value,
    /// The rows that had the values from [`NEW`] on first.
    written: Vec<u16>,
    /// The ops of the block that likely read a row, or a scalar slot, by their numbers.
    uses: BTreeMap<Operand, Vec<u32>>,
    /// Rows that the block has written with the same value in all lanes.
    uniform: BTreeSet<u16>,
    /// Where code of blocks begins behind their saving of registers, with all lanes active and with some.
    bodies: [BTreeMap<u32, usize>; 2],
}

/// Ops that are compiled for one part of their rows after the other.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// The part that is under way.
    part: u8,
    /// Number of the first op, and how many there are.
    first: u32,
    count: u32,
}

/// Code behind a block that makes calls in place of a template.
struct Detour {
    /// State of the registers at the jumps, and where the block goes on.
    before: Registers,
    after: Registers,
    to: usize,
    /// Calls the handlers of ops.
    to_handler: Vec<Jump>,
    /// The first of these ops, by its address and its number, and how many they are.
    op: u64,
    at: u32,
    ops: u32,
    /// Instructions to be counted before the ops, and of themselves.
    uncounted: i32,
    count: i32,
    other: Option<(Jump, Way)>,
}

impl<'p, const L: usize> Emitter<'p, L> {
    fn new(width: Width, program: Source<'p, L>, lines: &[Range<usize>]) -> Self {
        Emitter {
            constants: program.constants,
            rows: program.rows,
            first_constant: program.first_constant,
            asm: Assembler::new(width),
            width,
            is_masked: false,
            registers: Registers::NOTHING,
            used: [0; 32],
            now: 0,
            uncounted: 0,
            exits: Vec::new(),
            target: program.target,
            at: 0,
            run: None,
            places: Places::new(lines.iter().flat_map(|line| &program.ops[line.clone()]), program.target),
            detours: Vec::new(),
            values: BTreeMap::new(),
            next_value: NEW,
            written: Vec::new(),
            uses: BTreeMap::new(),
            uniform: BTreeSet::new(),
            bodies: Default::default(),
        }
    }

    /// Compiles the ops of a block, of which the first is number `first`, and the branch behind them, if there is one.
    /// Returns how many of the ops it has; `None` if code is of no use for the first.
    fn block(
        &mut self,
        ops: &[MicroOp<L>],
        first: u32,
        is_masked: bool,
        apart: bool,
        branch: Option<&MicroOp<L>>,
    ) -> Option<usize> {
        self.is_masked = is_masked;
        self.registers = Registers::NOTHING;
        self.uses.clear();
        for (at, op) in (first..).zip(ops) {
            for src in &op.src {
                let operand = match src.kind {
                    SrcKind::Vgpr => Operand::Row(src.reg),
                    SrcKind::Scalar => Operand::Slot(src.reg),
                    _ => continue,
                };
                self.uses.entry(operand).or_default().push(at);
            }
        }
        self.forget();
        for reg in SAVED {
            self.asm.push(reg);
        }
        for (to, from) in [(WAVE, Gpr::Rdi), (GROUP, Gpr::Rsi), (ROWS, Gpr::Rdx), (CONTEXT, Gpr::Rcx)] {
            self.asm.move_wide(to, from);
        }
        self.asm.load_wide(GENERATION, Mem { base: CONTEXT, displacement: offset_of!(Context, generation) as i32 });
        self.load_masks();
        let body = self.asm.offset();
        let (mut templates, mut at) = (0, 0);
        while at < ops.len() {
            // A stored value may be loaded again; the interpreter would then compute something else than the code did.
            let is_access = apart && access::is_access(&ops[at], self.target);
            if is_access && at > 0 {
                break;
            }
            let run = self.by_lane(&ops[at..], first + at as u32, apart);
            if run > 0 {
                templates += run;
                at += run;
                continue;
            }
            if self.template(&ops[at], first + at as u32) {
                self.uncounted += ops[at].count as i32;
                templates += 1;
                at += 1;
                if is_access {
                    break;
                }
                continue;
            }
            if apart {
                break;
            }
            // Ops without a template share a call, up to the next one that has one.
            let mut end = at + 1;
            while end < ops.len() && !self.has_template(&ops[end], first + end as u32) {
                end += 1;
            }
            self.call(&ops[at..end], first + at as u32);
            at = end;
        }
        if templates == 0 {
            self.registers = Registers::NOTHING;
            self.uncounted = 0;
            self.exits.clear();
            self.detours.clear();
            return None;
        }
        self.bodies[usize::from(is_masked)].insert(first, body);
        self.flush();
        match branch.filter(|_| at == ops.len()) {
            Some(branch) => self.branch(branch, first + at as u32),
            None => {
                self.count();
                self.asm.store_constant(field(offset_of!(Wave<L>, next)), first + at as u32);
            }
        }
        self.asm.scalar_constant(Scalar::Mov, Gpr::Rax, 0);
        for exit in take(&mut self.exits) {
            self.asm.land(exit);
        }
        let exit = self.asm.offset();
        self.asm.zero_upper();
        for reg in SAVED.into_iter().rev() {
            self.asm.pop(reg);
        }
        self.asm.ret();
        for detour in take(&mut self.detours) {
            self.detour(detour, exit);
        }
        Some(at)
    }

    /// Compiles a branch, which is number `at`: a backward one goes on in the block that it leads to.
    fn branch(&mut self, op: &MicroOp<L>, at: u32) {
        let Some(condition) = condition(op) else { return };
        self.uncounted += op.count as i32;
        self.count();
        let next = field(offset_of!(Wave<L>, next));
        self.asm.store_constant(next, at + 1);
        let untaken = match condition {
            Taken::Always => None,
            Taken::Scc(value) => {
                self.asm.compare_byte(self.scc(), 0);
                Some(if value { Condition::Equal } else { Condition::NotEqual })
            }
            Taken::Zero(slot, value) => {
                self.asm.scalar_mem(Scalar::Mov, Gpr::Rax, self.slot(slot as u16));
                if L > 32 {
                    self.asm.scalar_mem(Scalar::Or, Gpr::Rax, self.slot(slot as u16 + 1));
                }
                self.asm.test(Gpr::Rax);
                Some(if value { Condition::NotEqual } else { Condition::Equal })
            }
        };
        let untaken = untaken.map(|condition| self.asm.jump_if(condition));
        self.asm.store_constant(next, op.target);
        if op.target <= at {
            self.asm.subtract_constant(field(offset_of!(Wave<L>, branch_budget)), 1);
            self.asm.scalar_constant(Scalar::Mov, Gpr::Rax, 1);
            // Without a reason: others get a turn.
            let exit = self.asm.jump_if(Condition::Equal);
            self.exits.push(exit);
            if let Some(&body) = self.bodies[usize::from(self.is_masked)].get(&op.target) {
                self.asm.jump_back(body);
            }
        }
        if let Some(untaken) = untaken {
            self.asm.land(untaken);
        }
    }

    /// Compiles a detour. `exit` is where a block ends that was stopped.
    fn detour(&mut self, detour: Detour, exit: usize) {
        let Detour { before, after, to, to_handler, op, at, ops, uncounted, count, other } = detour;
        let mut end = None;
        if !to_handler.is_empty() {
            for jump in to_handler {
                self.asm.land(jump);
            }
            self.store_dirty(&before);
            let counter = field(offset_of!(Wave<L>, count));
            if uncounted != 0 {
                self.asm.add_wide(counter, uncounted);
            }
            // The handler may write rows that places depend on.
            self.asm.store_constant(field(offset_of!(Wave<L>, places.known)), 0);
            self.call_handlers(op, ops, at);
            self.asm.jump_back_if(Condition::NotEqual, exit);
            // The block counts all of them later.
            self.asm.add_wide(counter, -uncounted - count);
            self.load_masks();
            end = other.is_some().then(|| self.asm.jump());
        }
        if let Some((jump, way)) = other {
            self.asm.land(jump);
            self.store_dirty(&before);
            access::go(self, way);
        }
        if let Some(end) = end {
            self.asm.land(end);
        }
        self.load_held(&after);
        self.asm.jump_back(to);
    }

    /// Tells if an op has a template, without compiling it.
    fn has_template(&mut self, op: &MicroOp<L>, at: u32) -> bool {
        let (start, detours, registers) = (self.asm.offset(), self.detours.len(), self.registers);
        let (places, values, uniform) = (self.places.clone(), self.values.clone(), self.uniform.clone());
        let has = self.template(op, at);
        self.asm.truncate(start);
        self.detours.truncate(detours);
        (self.registers, self.places, self.values, self.uniform) = (registers, places, values, uniform);
        has
    }

    /// Compiles the ops, up to the first that is not by lane, for one part of their rows after the other, so that the
    /// vector registers hold more rows. `at` is the number of the first one. Returns how many there are; none if there
    /// is nothing to be gained. `apart`: accesses to private memory end the run.
    fn by_lane(&mut self, ops: &[MicroOp<L>], at: u32, apart: bool) -> usize {
        let is_by_lane =
            |op: &MicroOp<L>| op.code.is_some_and(vector::is_by_lane) || !apart && access::end_of_scratch(op).is_some();
        let count = ops.iter().take_while(|op| op.crossing.is_none() && is_by_lane(op)).count();
        if count < 2 {
            return 0;
        }
        let (start, before) = (self.asm.offset(), self.registers);
        let end = ops[..count].iter().filter_map(access::end_of_scratch).max();
        let beyond = end.map(|end| access::compare_scratch(self, end));
        let (values, uniform) = (self.values.clone(), self.uniform.clone());
        let (next_value, written) = (self.next_value, self.written.len());
        let mut done = count;
        for part in 0..self.parts() {
            if part > 0 {
                // The facts are those of one part.
                (self.values, self.uniform) = (values.clone(), uniform.clone());
                self.next_value = next_value;
                self.written.truncate(written);
            }
            self.run = Some(Run { part, first: at, count: done as u32 });
            let is_compiled = |&(at, op): &(u32, &MicroOp<L>)| {
                self.begin(at);
                let compiles = |code| vector::template(self, code, op) || access::scratch(self, code, op);
                op.code.is_some_and(compiles)
            };
            done = (at..).zip(&ops[..done]).take_while(is_compiled).count();
        }
        self.run = None;
        if done == 0 {
            self.asm.truncate(start);
            return 0;
        }
        if let Some(beyond) = beyond {
            self.or_handlers(vec![beyond], None, before, (&ops[..done], at));
        }
        self.uncounted += ops[..done].iter().map(|op| op.count as i32).sum::<i32>();
        done
    }

    /// Compiles an op by its template, if there is one.
    fn template(&mut self, op: &MicroOp<L>, at: u32) -> bool {
        let (Some(code), None) = (op.code, &op.crossing) else { return false };
        self.begin(at);
        let start = self.asm.offset();
        let is_done = vector::template(self, code, op)
            || scalar::template(self, code, op)
            || access::template(self, code, op)
            || matrix::template(self, code, op);
        assert!(is_done || start == self.asm.offset(), "a template of {} gave up too late", code.name());
        is_done
    }

    /// Calls the handlers of ops.
    fn call(&mut self, ops: &[MicroOp<L>], first: u32) {
        self.flush();
        self.forget_rows();
        self.count();
        for op in ops {
            match writes(op) {
                Some((rows, slots)) => {
                    if rows > 0 {
                        self.overwritten(op.dst, rows);
                    }
                    if slots > 0 {
                        self.forget_slots(op.dst, slots);
                        self.forget_slots(op.sdst, slots);
                    }
                }
                None => {
                    self.forget();
                    self.asm.store_constant(field(offset_of!(Wave<L>, places.known)), 0);
                }
            }
        }
        self.call_handlers(ops.as_ptr() as u64, ops.len() as u32, first);
        let exit = self.asm.jump_if(Condition::NotEqual);
        self.exits.push(exit);
        self.load_masks();
    }

    /// Calls the handlers of `count` ops from `op` on, of which the first is number `at`. Flags tell "not equal" if one
    /// has stopped the wave.
    fn call_handlers(&mut self, op: u64, count: u32, at: u32) {
        self.asm.zero_upper();
        self.asm.store_constant(field(offset_of!(Wave<L>, next)), at);
        self.asm.move_wide(Gpr::Rdi, WAVE);
        self.asm.move_wide(Gpr::Rsi, GROUP);
        self.asm.constant_wide(Gpr::Rdx, op);
        self.asm.scalar_constant(Scalar::Mov, Gpr::Rcx, count);
        self.asm.move_wide(Gpr::R8, CONTEXT);
        type Interpret<const L: usize> =
            unsafe extern "C" fn(&mut Wave<L>, &mut Group<'_>, *const MicroOp<L>, usize, &mut Context<'_>) -> bool;
        let function: Interpret<L> = interpret::<L>;
        self.asm.constant_wide(Gpr::Rax, function as usize as u64);
        self.asm.call(Gpr::Rax);
        // The rest of the register is undefined.
        self.asm.scalar_constant(Scalar::And, Gpr::Rax, 1);
    }

    /// Makes jumps lead to a call of the handler of the op under way, and another one to another call, after which the
    /// block goes on here. `before` is the state of the registers at the jumps.
    pub fn or_handler(
        &mut self,
        to_handler: Vec<Jump>,
        other: Option<(Jump, Way)>,
        before: Registers,
        op: &MicroOp<L>,
    ) {
        self.or_handlers(to_handler, other, before, (std::slice::from_ref(op), self.at));
    }

    /// [`Self::or_handler`] of several ops, of which the first has a number.
    fn or_handlers(
        &mut self,
        to_handler: Vec<Jump>,
        other: Option<(Jump, Way)>,
        before: Registers,
        (ops, at): (&[MicroOp<L>], u32),
    ) {
        self.detours.push(Detour {
            before,
            after: self.registers,
            to: self.asm.offset(),
            to_handler,
            op: ops.as_ptr() as u64,
            at,
            ops: ops.len() as u32,
            uncounted: self.uncounted,
            count: ops.iter().map(|op| op.count as i32).sum(),
            other,
        });
    }

    /// Adds the templates' instructions to the wave's.
    fn count(&mut self) {
        if self.uncounted != 0 {
            self.asm.add_wide(field(offset_of!(Wave<L>, count)), self.uncounted);
            self.uncounted = 0;
        }
    }

    /// Loads the masks of active lanes, at a block's begin and after calls.
    pub fn load_masks(&mut self) {
        if self.is_masked && self.width == Width::Zmm {
            for part in 0..self.parts() {
                self.asm.load_mask(Self::active(part), self.lanes(slot::EXEC as u16, part));
            }
        }
    }
}

/// A field of the wave.
fn field(offset: usize) -> Mem {
    Mem { base: WAVE, displacement: offset as i32 }
}

/// True if templates can read a vector operand: a register, or a scalar in all lanes.
pub(super) fn is_simple(src: &Src) -> bool {
    src.shift == 0 && matches!(src.kind, SrcKind::Vgpr | SrcKind::Scalar)
}
