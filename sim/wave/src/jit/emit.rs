// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The frame of compiled code: blocks, calls of handlers, and which registers hold which rows.

use super::{Context, NONE, Source, interpret, scalar, vector};
use crate::hardware::slot;
use crate::micro_op::MicroOp;
use crate::operand::{Src, SrcKind};
use crate::wave::{Row, Wave};
use sim_isa::{Flags, Format, Ty};
use sim_jit::{Assembler, Condition, Gpr, Jump, Mask, Mem, Rm, Scalar, Width};
use std::mem::offset_of;

/// Registers of a block's code: the function's arguments.
pub(super) const WAVE: Gpr = Gpr::Rbx;
const GROUP: Gpr = Gpr::R12;
pub(super) const ROWS: Gpr = Gpr::R13;
const CONTEXT: Gpr = Gpr::R14;
/// They are saved, with one more for the stack's alignment.
const SAVED: [Gpr; 5] = [WAVE, GROUP, ROWS, CONTEXT, Gpr::Rbp];

/// How an op is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By a template, or a call of its handler.
    Inside,
    /// Not at all: it may go elsewhere, or change EXEC or MODE, which a block's code depends on.
    End,
}

/// The width of this CPU's vectors; `None` if they are too narrow.
fn width() -> Option<Width> {
    if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") {
        return None;
    }
    Some(if is_x86_feature_detected!("avx512f") { Width::Zmm } else { Width::Ymm })
}

/// Compiles all blocks of a program. Returns their code, and where the block of each micro-operation starts in it, with
/// all lanes active and with some. `apart`: ops without a template end a block.
pub(super) fn compile<const L: usize>(program: Source<'_, L>, apart: bool) -> Option<(Vec<u8>, Vec<[u32; 2]>)> {
    let width = width()?;
    let ops = program.ops;
    let mut starts = vec![[NONE; 2]; ops.len()];
    let mut is_leader = vec![false; ops.len() + 1];
    is_leader[program.entry as usize] = true;
    for op in ops {
        if let Some(leader) = is_leader.get_mut(op.target as usize) {
            *leader = true;
        }
    }
    let mut emitter = Emitter::new(width, program);
    let mut at = 0;
    while at < ops.len() {
        let ends = |n: usize| n == ops.len() || is_leader[n] && n > at || kind(&ops[n]) == Kind::End;
        let end = (at..=ops.len()).find(|&n| ends(n)).unwrap_or(ops.len());
        if end == at {
            at += 1;
            continue;
        }
        for is_masked in [false, true] {
            // Masks need AVX-512.
            if is_masked && width == Width::Ymm {
                continue;
            }
            let mut first = at;
            while first < end {
                let start = emitter.asm.offset();
                let last = emitter.block(&ops[first..end], first as u32, is_masked, apart);
                match last {
                    Some(count) => {
                        starts[first][usize::from(is_masked)] = start as u32;
                        first += count;
                    }
                    None => {
                        emitter.asm.truncate(start);
                        first += 1;
                    }
                }
            }
        }
        at = end;
    }
    let code = emitter.asm.finish();
    (!code.is_empty()).then_some((code, starts))
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

/// Value in a vector register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    /// Part of a row.
    Row(u16, u8),
    /// A scalar slot in all lanes.
    Slot(u16),
}

/// Compiles blocks.
pub(super) struct Emitter<'p, const L: usize> {
    constants: &'p [u32],
    /// Row of the first constant.
    first_constant: usize,
    pub asm: Assembler,
    pub width: Width,
    /// Some lanes are inactive: mask registers 1 and up have the active ones of each part.
    pub is_masked: bool,
    held: [Held; 32],
    /// When each vector register was used last.
    used: [u32; 32],
    now: u32,
    /// Instructions to be counted.
    uncounted: i32,
    exits: Vec<Jump>,
}

impl<'p, const L: usize> Emitter<'p, L> {
    fn new(width: Width, program: Source<'p, L>) -> Self {
        Emitter {
            constants: program.constants,
            first_constant: program.first_constant,
            asm: Assembler::default(),
            width,
            is_masked: false,
            held: [Held::Nothing; 32],
            used: [0; 32],
            now: 0,
            uncounted: 0,
            exits: Vec::new(),
        }
    }

    /// Compiles the ops of a block, of which the first is number `first`. Returns how many of them it has; `None` if
    /// code is of no use for the first.
    fn block(&mut self, ops: &[MicroOp<L>], first: u32, is_masked: bool, apart: bool) -> Option<usize> {
        self.is_masked = is_masked;
        self.forget();
        for reg in SAVED {
            self.asm.push(reg);
        }
        for (to, from) in [(WAVE, Gpr::Rdi), (GROUP, Gpr::Rsi), (ROWS, Gpr::Rdx), (CONTEXT, Gpr::Rcx)] {
            self.asm.move_wide(to, from);
        }
        self.load_masks();
        let (mut templates, mut at) = (0, 0);
        while at < ops.len() {
            if self.template(&ops[at]) {
                self.uncounted += ops[at].count as i32;
                templates += 1;
                at += 1;
                continue;
            }
            if apart {
                break;
            }
            // Ops without a template share a call, up to the next one that has one.
            let start = self.asm.offset();
            let mut end = at + 1;
            while end < ops.len() && !self.template(&ops[end]) {
                end += 1;
            }
            self.asm.truncate(start);
            self.forget();
            self.call(&ops[at..end], first + at as u32);
            at = end;
        }
        if templates == 0 {
            self.uncounted = 0;
            self.exits.clear();
            return None;
        }
        self.count();
        self.asm.store_constant(field(offset_of!(Wave<L>, next)), first + at as u32);
        self.asm.scalar_constant(Scalar::Mov, Gpr::Rax, 0);
        for exit in std::mem::take(&mut self.exits) {
            self.asm.land(exit);
        }
        self.asm.zero_upper();
        for reg in SAVED.into_iter().rev() {
            self.asm.pop(reg);
        }
        self.asm.ret();
        Some(at)
    }

    /// Compiles an op by its template, if it has one for what the op does.
    fn template(&mut self, op: &MicroOp<L>) -> bool {
        let (Some(code), None) = (op.code, &op.crossing) else { return false };
        self.next();
        let start = self.asm.offset();
        let is_done = vector::template(self, code, op) || scalar::template(self, code, op);
        assert!(is_done || start == self.asm.offset(), "a template of {} gave up too late", code.name());
        is_done
    }

    /// Calls the handlers of ops.
    fn call(&mut self, ops: &[MicroOp<L>], first: u32) {
        self.count();
        self.asm.zero_upper();
        self.asm.store_constant(field(offset_of!(Wave<L>, next)), first);
        self.asm.move_wide(Gpr::Rdi, WAVE);
        self.asm.move_wide(Gpr::Rsi, GROUP);
        self.asm.constant_wide(Gpr::Rdx, ops.as_ptr() as u64);
        self.asm.scalar_constant(Scalar::Mov, Gpr::Rcx, ops.len() as u32);
        self.asm.move_wide(Gpr::R8, CONTEXT);
        let function: unsafe extern "sysv64" fn(&mut Wave<L>, &mut _, *const MicroOp<L>, usize, &mut Context) -> bool =
            interpret::<L>;
        self.asm.constant_wide(Gpr::Rax, function as usize as u64);
        self.asm.call(Gpr::Rax);
        // The rest of the register is undefined.
        self.asm.scalar_constant(Scalar::And, Gpr::Rax, 1);
        let exit = self.asm.jump_if(Condition::NotEqual);
        self.exits.push(exit);
        self.load_masks();
    }

    /// Adds the templates' instructions to the wave's.
    fn count(&mut self) {
        if self.uncounted != 0 {
            self.asm.add_wide(field(offset_of!(Wave<L>, count)), self.uncounted);
            self.uncounted = 0;
        }
    }

    fn load_masks(&mut self) {
        if self.is_masked {
            for part in 0..self.parts() {
                self.asm.load_mask(Self::active(part), self.lanes(slot::EXEC as u16, part));
            }
        }
    }

    // ---- for templates

    /// Parts of a row, each as long as a vector register.
    pub fn parts(&self) -> u8 {
        (L / self.width.lanes()) as u8
    }

    /// The mask register with a part's active lanes.
    pub fn active(part: u8) -> Mask {
        Mask(1 + part)
    }

    /// A mask register for other uses.
    pub const FREE_MASK: Mask = Mask(7);

    /// Memory of a scalar slot.
    pub fn slot(&self, slot: u16) -> Mem {
        field(offset_of!(Wave<L>, s) + 4 * usize::from(slot))
    }

    /// Memory of the condition code.
    pub fn scc(&self) -> Mem {
        field(offset_of!(Wave<L>, scc))
    }

    /// Memory of a part of the lane mask in a slot, 16 lanes each.
    pub fn lanes(&self, slot: u16, part: u8) -> Mem {
        field(offset_of!(Wave<L>, s) + 4 * usize::from(slot) + 2 * usize::from(part))
    }

    /// Memory of a part of a row.
    pub fn row_memory(&self, reg: u16, part: u8) -> Mem {
        let offset = usize::from(reg) * size_of::<Row<L>>() + usize::from(part) * 4 * self.width.lanes();
        Mem { base: ROWS, displacement: offset as i32 }
    }

    /// Forgets what vector registers hold.
    fn forget(&mut self) {
        self.held = [Held::Nothing; 32];
    }

    /// Forgets the values of scalar slots.
    pub fn forget_slots(&mut self) {
        for held in &mut self.held {
            if matches!(held, Held::Slot(_)) {
                *held = Held::Nothing;
            }
        }
    }

    /// Begins an op, or a part of one: registers in use may be reused.
    pub fn next(&mut self) {
        self.now += 1;
    }

    /// A vector register that no current operand is in.
    pub fn fresh(&mut self) -> u8 {
        let oldest = (0..self.width.registers()).min_by_key(|&n| match self.held[n] {
            _ if self.used[n] == self.now => u32::MAX,
            Held::Nothing => 0,
            _ => self.used[n],
        });
        let reg = oldest.unwrap_or(0);
        self.held[reg] = Held::Nothing;
        self.used[reg] = self.now;
        reg as u8
    }

    fn find(&mut self, held: Held) -> Option<u8> {
        let reg = self.held[..self.width.registers()].iter().position(|&other| other == held)?;
        self.used[reg] = self.now;
        Some(reg as u8)
    }

    /// Part of a row in a register, which is not to be written.
    pub fn row(&mut self, reg: u16, part: u8) -> u8 {
        let held = Held::Row(reg, part);
        self.find(held).unwrap_or_else(|| {
            let register = self.fresh();
            let memory = self.row_memory(reg, part);
            self.asm.load_vector(self.width, register, memory);
            self.held[usize::from(register)] = held;
            register
        })
    }

    /// Part of a source in a register, which is not to be written. The source is one that [`is_simple`].
    pub fn source(&mut self, src: &Src, part: u8) -> u8 {
        if src.kind == SrcKind::Vgpr {
            return self.row(src.reg, part);
        }
        let held = Held::Slot(src.reg);
        self.find(held).unwrap_or_else(|| {
            let register = self.fresh();
            self.asm.broadcast(self.width, register, self.slot(src.reg));
            self.held[usize::from(register)] = held;
            register
        })
    }

    /// The value of a source that is a constant.
    pub fn constant(&self, src: &Src) -> Option<u32> {
        let at = usize::from(src.reg).checked_sub(self.first_constant)?;
        self.constants.get(at).copied().filter(|_| src.kind == SrcKind::Vgpr)
    }

    /// Part of a source as the last operand: in memory, unless a register has it.
    pub fn last(&mut self, src: &Src, part: u8) -> Rm {
        match src.kind {
            SrcKind::Vgpr => match self.find(Held::Row(src.reg, part)) {
                Some(register) => Rm::Reg(register),
                None => Rm::Mem(self.row_memory(src.reg, part)),
            },
            _ => Rm::Reg(self.source(src, part)),
        }
    }

    /// Writes a result from a fresh register to the active lanes of a row.
    pub fn write(&mut self, reg: u16, part: u8, result: u8) {
        let mut result = result;
        let held = Held::Row(reg, part);
        if self.is_masked {
            let old = self.row(reg, part);
            self.asm.blend(Self::active(part), old, result);
            result = old;
        }
        for other in &mut self.held {
            if *other == held {
                *other = Held::Nothing;
            }
        }
        let memory = self.row_memory(reg, part);
        self.asm.store_vector(self.width, memory, result);
        self.held[usize::from(result)] = held;
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
