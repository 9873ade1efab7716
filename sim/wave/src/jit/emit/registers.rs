// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The vector registers of a block's code, which of them hold which rows, and the facts known of rows.

use super::{Emitter, NEW, ROWS, Value, field};
use crate::operand::{Src, SrcKind};
use crate::wave::{Row, Wave};
use sim_jit::{Mask, Mem, Rm, Width};
use std::cmp::Ordering;
use std::mem::offset_of;
use std::ops::Range;

/// Value in a vector register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Nothing,
    /// Part of a row.
    Row(u16, u8),
    /// A scalar slot in all lanes.
    Slot(u16),
}

/// State of the vector registers.
#[derive(Clone, Copy)]
pub(in super::super) struct Registers {
    pub(super) held: [Held; 32],
    /// A bit for each one whose row's memory is older than it.
    pub(super) dirty: u32,
}

impl Registers {
    pub(super) const NOTHING: Self = Registers { held: [Held::Nothing; 32], dirty: 0 };

    /// The dirty ones, with their contents.
    pub(super) fn dirty(&self) -> impl Iterator<Item = (u8, u16, u8)> {
        let Registers { held, dirty } = *self;
        (0..32u8).filter(move |n| dirty >> n & 1 != 0).filter_map(move |n| match held[usize::from(n)] {
            Held::Row(row, part) => Some((n, row, part)),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operand {
    Row(u16),
    Slot(u16),
}

impl<const L: usize> Emitter<'_, L> {
    /// Stores the dirty registers of a state.
    pub fn store_dirty(&mut self, registers: &Registers) {
        for (n, row, part) in registers.dirty() {
            let memory = self.row_memory(row, part);
            self.asm.store_vector(self.width, memory, n);
        }
    }

    /// Loads the contents of registers in a state.
    pub(super) fn load_held(&mut self, registers: &Registers) {
        for (n, held) in registers.held.into_iter().enumerate() {
            match held {
                Held::Nothing => {}
                Held::Row(row, part) => {
                    let memory = self.row_memory(row, part);
                    self.asm.load_vector(self.width, n as u8, memory);
                }
                Held::Slot(slot) => {
                    let memory = self.slot(slot);
                    self.asm.broadcast(self.width, n as u8, memory);
                }
            }
        }
    }

    /// State of the registers.
    pub fn registers(&self) -> Registers {
        self.registers
    }

    // ---- places and values

    /// Rows are written, in active lanes at least.
    pub fn overwritten(&mut self, first: u16, count: u16) {
        let lost = self.places.lose_rows(first, count);
        self.clear_known(lost);
        for row in first..first + count {
            self.values.insert(row, (self.next_value, 0));
            self.next_value += 1;
            self.written.push(row);
            self.uniform.remove(&row);
        }
    }

    /// Clears bits of known places.
    fn clear_known(&mut self, lost: u32) {
        if lost != 0 {
            self.asm.and_constant(field(offset_of!(Wave<L>, places.known)), !lost);
        }
    }

    /// A row has become the sum of a value and constants, in active lanes.
    pub fn set_sum(&mut self, row: u16, (value, sum): (Value, i32), constant: u32) {
        let sum = i64::from(constant) + i64::from(sum);
        if sum < 1 << 30 {
            self.values.insert(row, (value, sum as i32));
        }
    }

    /// The value that a row is a sum of, and the constant.
    pub fn value(&self, row: u16) -> (Value, i32) {
        self.values.get(&row).copied().unwrap_or((row.into(), 0))
    }

    /// The row that had a value first.
    pub fn first_row(&self, value: Value) -> u16 {
        value.checked_sub(NEW).map_or(value as u16, |n| self.written[n as usize])
    }

    /// A row has become the same in all active lanes.
    pub fn set_uniform(&mut self, row: u16) {
        self.uniform.insert(row);
    }

    pub fn is_uniform(&self, row: u16) -> bool {
        self.uniform.contains(&row)
    }

    /// Parts of a row, each as long as a vector register.
    pub fn parts(&self) -> u8 {
        (L / self.width.lanes()) as u8
    }

    /// The mask register with a part's active lanes.
    pub fn active(part: u8) -> Mask {
        Mask(1 + part)
    }

    /// The parts that a template compiles.
    pub fn each_part(&self) -> Range<u8> {
        self.run.map_or(0..self.parts(), |run| run.part..run.part + 1)
    }

    /// True if templates compile one part.
    pub fn is_in_run(&self) -> bool {
        self.run.is_some()
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

    /// Memory of a part of the lane mask in a slot.
    pub fn lanes(&self, slot: u16, part: u8) -> Mem {
        field(offset_of!(Wave<L>, s) + 4 * usize::from(slot) + usize::from(part) * self.width.lanes() / 8)
    }

    /// Memory of a part of a row.
    pub fn row_memory(&self, reg: u16, part: u8) -> Mem {
        let offset = usize::from(reg) * size_of::<Row<L>>() + usize::from(part) * 4 * self.width.lanes();
        Mem { base: ROWS, displacement: offset as i32 }
    }

    /// Forgets all that is known of the wave's registers.
    pub(super) fn forget(&mut self) {
        self.forget_rows();
        self.places.forget();
        self.values.clear();
        self.next_value = NEW;
        self.written.clear();
        self.uniform.clear();
    }

    /// Stores dirty registers.
    pub fn flush(&mut self) {
        let registers = self.registers;
        self.store_dirty(&registers);
        self.registers.dirty = 0;
    }

    /// Stores a row's dirty registers, so that its memory can be read.
    pub fn sync(&mut self, reg: u16) {
        for (n, row, part) in self.registers.dirty().collect::<Vec<_>>() {
            if row == reg {
                let memory = self.row_memory(row, part);
                self.asm.store_vector(self.width, memory, n);
                self.registers.dirty &= !(1 << n);
            }
        }
    }

    /// Forgets the contents of vector registers. None may be dirty.
    pub fn forget_rows(&mut self) {
        assert!(self.registers.dirty == 0, "rows in registers only are lost");
        self.registers.held = [Held::Nothing; 32];
    }

    /// Scalar slots are written.
    pub fn forget_slots(&mut self, first: u16, count: u16) {
        let lost = self.places.lose_slots(first, count);
        self.clear_known(lost);
        for held in &mut self.registers.held {
            if matches!(held, Held::Slot(slot) if (first..first + count).contains(slot)) {
                *held = Held::Nothing;
            }
        }
    }

    /// Stores a register to memory that the wave has alone, active lanes only.
    pub fn store_active(&mut self, memory: Mem, part: u8, value: u8) {
        let mut value = value;
        if self.is_masked && self.width == Width::Zmm {
            return self.asm.store_vector_masked(Self::active(part), memory, value);
        }
        if self.is_masked {
            let old = self.fresh();
            self.asm.load_vector(self.width, old, memory);
            self.blend_active(part, old, value);
            value = old;
        }
        self.asm.store_vector(self.width, memory, value);
    }

    /// Copies active lanes from a register to another one.
    fn blend_active(&mut self, part: u8, to: u8, from: u8) {
        if self.width == Width::Zmm {
            return self.asm.blend(Self::active(part), to, from);
        }
        let active = self.fresh();
        let offset = offset_of!(Wave<L>, mask) + usize::from(part) * 4 * self.width.lanes();
        self.asm.load_vector(self.width, active, field(offset));
        self.asm.blend_by(to, to, from, active);
    }

    /// Begins an op, by its number.
    pub(super) fn begin(&mut self, at: u32) {
        self.next();
        self.at = at;
    }

    /// Begins a part of an op: registers in use may be reused.
    pub fn next(&mut self) {
        self.now += 1;
    }

    /// Keeps a register for the part that has begun.
    pub fn keep(&mut self, register: u8) {
        self.used[usize::from(register)] = self.now;
    }

    /// A vector register that no current operand is in: an empty one, or that whose row is used last.
    pub fn fresh(&mut self) -> u8 {
        let use_after = |operand, at| {
            let uses = self.uses.get(&operand).map_or(&[][..], Vec::as_slice);
            uses.get(uses.partition_point(|&other| other < at)).copied().unwrap_or(u32::MAX)
        };
        let next_use = |operand, part: u8| {
            let Some(run) = self.run else { return use_after(operand, self.at + 1) };
            let end = run.first + run.count;
            let at = match part.cmp(&run.part) {
                Ordering::Less => use_after(operand, end),
                Ordering::Equal => use_after(operand, self.at + 1),
                Ordering::Greater => use_after(operand, run.first),
            };
            // The run's ops are compiled for other parts first.
            let passes = if at < end { part } else { self.parts() - 1 } - run.part;
            at.saturating_add(u32::from(passes) * run.count)
        };
        let last = (0..self.width.registers()).max_by_key(|&n| match self.registers.held[n] {
            _ if self.used[n] == self.now => (0, 0),
            Held::Nothing => (3, 0),
            Held::Row(row, part) => (1, next_use(Operand::Row(row), part)),
            Held::Slot(slot) => (1, next_use(Operand::Slot(slot), self.run.map_or(0, |run| run.part))),
        });
        let reg = last.unwrap_or(0);
        assert!(self.used[reg] != self.now, "an op needs more vector registers than there are");
        if self.registers.dirty >> reg & 1 != 0
            && let Held::Row(row, part) = self.registers.held[reg]
        {
            let memory = self.row_memory(row, part);
            self.asm.store_vector(self.width, memory, reg as u8);
        }
        self.registers.dirty &= !(1 << reg);
        self.registers.held[reg] = Held::Nothing;
        self.used[reg] = self.now;
        reg as u8
    }

    fn find(&mut self, held: Held) -> Option<u8> {
        let reg = self.registers.held[..self.width.registers()].iter().position(|&other| other == held)?;
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
            self.registers.held[usize::from(register)] = held;
            register
        })
    }

    /// Part of a source in a register, which is not to be written. The source `is_simple`.
    pub fn source(&mut self, src: &Src, part: u8) -> u8 {
        if src.kind == SrcKind::Vgpr {
            return self.row(src.reg, part);
        }
        let held = Held::Slot(src.reg);
        self.find(held).unwrap_or_else(|| {
            let register = self.fresh();
            self.asm.broadcast(self.width, register, self.slot(src.reg));
            self.registers.held[usize::from(register)] = held;
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

    /// Writes a result from a fresh register to the active lanes of a row; its memory is written later.
    pub fn write(&mut self, reg: u16, part: u8, result: u8) {
        let mut result = result;
        self.overwritten(reg, 1);
        let held = Held::Row(reg, part);
        if self.is_masked {
            let old = self.row(reg, part);
            self.blend_active(part, old, result);
            result = old;
        }
        for (n, other) in self.registers.held.iter_mut().enumerate() {
            if *other == held {
                *other = Held::Nothing;
                self.registers.dirty &= !(1 << n);
            }
        }
        self.registers.held[usize::from(result)] = held;
        self.registers.dirty |= 1 << result;
    }
}
