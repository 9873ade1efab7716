// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Uses of registers and memory by micro-operations, for the check of uninitialized data: address registers, data
//! registers, written registers, and the kind of access.

use super::counters::is_async;
use super::lds::{Access, exchanges_lanes};
use super::plan::Walk;
use super::shadow::Deed;
use super::touch::Touch;
use crate::check::{self, Slice};
use crate::hardware::slot;
use crate::operand::{Registers, Upper, scalar_slot};
use crate::program::Program;
use sim_isa::{Dpp, Flags, Format, Inst, Op, Operand};
use std::ops::Range;

/// Registers, numbered as in [`super::plan::Span`].
pub(super) type Numbers = Range<u16>;

/// Kind of a micro-operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No relevant effect.
    Nothing,
    /// The op's results count as written.
    Sets,
    /// The op's results depend on its sources only.
    Plain,
    /// Moves with the destination's number in M0: mask of M0, and the number that it is added to.
    Relative(u32, u16),
    /// The op jumps depending on SCC, or on VCC.
    IfScc,
    IfVcc,
    /// The op jumps to an address in a register.
    Jump,
    /// Loads scalar registers.
    ScalarLoad,
    /// Writes memory at an address in scalar registers.
    ScalarStore,
    /// Accesses memory.
    Memory,
    /// Accesses LDS.
    Lds,
    /// Writes this number of bytes from each lane's address on.
    Stores(u64),
    /// Writes unknown bytes of LDS.
    WritesLds,
    /// Writes unknown bytes of memory.
    WritesMemory,
}

/// Part of its register that a loaded value fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Low,
    High,
}

/// Registers and memory that a micro-operation uses.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub kind: Kind,
    /// Addresses, and other registers that decide the accessed place.
    pub addresses: Vec<Numbers>,
    /// Sources, in their order. If a result leaves part of its register unchanged, the register is a source, too.
    pub reads: Vec<Numbers>,
    pub writes: Vec<Numbers>,
    pub reads_scc: bool,
    pub writes_scc: bool,
    /// True if it reads inactive lanes.
    pub crosses: bool,
    /// True if it writes inactive lanes.
    pub writes_all: bool,
    pub is_comparison: bool,
    /// Number of micro-operations of the instruction.
    pub ops: u32,
    pub format: Format,
    pub touch: Option<Touch>,
    pub lds: Option<Access>,
    /// True for an atomic whose result does not depend on the old value.
    pub exchanges: bool,
    /// First registers of the loaded or stored data.
    pub data: [Option<u16>; 2],
    pub part: Part,
    /// True if the loaded value is sign-extended.
    pub is_signed: bool,
    /// True if loaded data goes to lanes other than the loading ones, or not to registers.
    pub is_moved: bool,
}

/// Uses of a program's micro-operations.
pub(crate) struct Uses {
    /// Number of `v` registers.
    pub vectors: usize,
    uses: Vec<Option<Use>>,
    /// The registers of each, in sets of 64.
    sets: Vec<Vec<(u32, u64)>>,
}

impl Uses {
    pub fn new<const L: usize>(program: &Program<L>, registers: Registers) -> Self {
        let (count, vectors) = (program.ops.len(), registers.vector);
        let mut uses = Uses { vectors, uses: vec![None; count], sets: vec![Vec::new(); count] };
        let mut walk = Walk::default();
        for (at, op, inst) in program.instructions() {
            let offset = 4 * at as u32;
            walk.step(offset, &inst);
            // A no-op before the instruction has no effect of its own.
            if program.ops[op as usize].offset != offset {
                continue;
            }
            let mut of = Use::of::<L>(&inst, registers, walk);
            let following = program.ops[op as usize + 1..].iter();
            of.ops += following.take_while(|next| next.offset == offset && next.count == 0).count() as u32;
            let mut sets = std::collections::BTreeMap::<u32, u64>::new();
            for n in of.addresses.iter().chain(&of.reads).chain(&of.writes).flat_map(Clone::clone) {
                *sets.entry(u32::from(n) / 64).or_default() |= 1 << (n % 64);
            }
            if of.kind != Kind::Nothing {
                uses.sets[op as usize] = sets.into_iter().collect();
                uses.uses[op as usize] = Some(of);
            }
        }
        uses
    }

    /// Use of a micro-operation, and sets of its registers: 64 from this number times 64 on.
    #[inline]
    pub(super) fn of(&self, op: u32) -> Option<(&Use, &[(u32, u64)])> {
        self.uses[op as usize].as_ref().map(|of| (of, &self.sets[op as usize][..]))
    }
}

impl Use {
    fn of<const L: usize>(inst: &Inst, registers: Registers, walk: Walk) -> Use {
        let (op, lds) = (inst.op, Access::of::<L>(inst, walk.upper));
        let touch = Touch::with_scratch(inst);
        let mut of = Use {
            kind: kind(inst, touch.as_ref(), lds.as_ref()),
            addresses: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            reads_scc: inst.src.contains(&Operand::Scc)
                || moves_if_scc(op)
                || matches!(op, Op::SCselectB32 | Op::SCselectB64 | Op::SAddcU32 | Op::SSubbU32),
            writes_scc: op.has(Flags::WRITES_SCC),
            crosses: inst.dpp != Dpp::None
                || op.has(Flags::MATRIX)
                || op.has(Flags::TILES)
                || op.loads_scales()
                || op.has(Flags::CROSSES_LANES)
                || matches!(op, Op::VReadlaneB32 | Op::VReadfirstlaneB32 | Op::VWritelaneB32),
            writes_all: inst.op.has(Flags::MATRIX) || matches!(inst.op, Op::VWritelaneB32 | Op::VMfmaLdScaleB32),
            is_comparison: op.has(Flags::COMPARES),
            ops: 1,
            format: inst.format,
            touch,
            lds,
            exchanges: op.has(Flags::EXCHANGES),
            data: [None; 2],
            part: match op {
                _ if op.has(Flags::D16_HI) => Part::High,
                _ if op.has(Flags::D16) => Part::Low,
                _ => Part::Whole,
            },
            is_signed: op.has(Flags::SIGNED),
            is_moved: inst.mem.lds
                || op.info().flags.intersects(Flags::TRANSPOSES | Flags::TO_LDS | Flags::ASYNC | Flags::BLOCK),
        };
        of.add::<L>(&Inst { dual: None, ..inst.clone() }, registers, walk.upper);
        if let Some(second) = &inst.dual {
            of.add::<L>(second, registers, walk.upper);
        }
        let m0 = registers.total() as u16 + slot::M0 as u16;
        let is_relative = op.has(Flags::RELATIVE);
        if is_relative || walk.is_indexed && matches!(inst.format, Format::Vop1 | Format::Vop3) {
            let dst = of.writes.first().map_or(0, |numbers| numbers.start);
            of.kind = Kind::Relative(if is_relative { u32::MAX } else { 0xff }, dst);
        }
        match of.kind {
            // Registers that choose the source are not tracked: the result counts as written.
            Kind::Relative(..) => (of.addresses, of.reads) = (std::iter::once(m0..m0 + 1).collect(), Vec::new()),
            Kind::IfVcc => {
                let vcc = registers.total() as u16 + slot::VCC as u16;
                of.reads.push(vcc..vcc + L as u16 / 32);
            }
            Kind::Plain if matches!(inst.op, Op::VDivFmasF32 | Op::VDivFmasF64) => {
                let vcc = registers.total() as u16 + slot::VCC as u16;
                of.reads.push(vcc..vcc + L as u16 / 32);
            }
            _ => {}
        }
        of
    }

    fn add<const L: usize>(&mut self, inst: &Inst, registers: Registers, upper: Upper) {
        let is_memory =
            !matches!(self.kind, Kind::Nothing | Kind::Sets | Kind::Plain | Kind::IfScc | Kind::IfVcc | Kind::Jump);
        for (at, Slice { operand, first, dwords }) in check::slices::<L>(inst, upper).into_iter().enumerate() {
            let number = match operand {
                Operand::Vgpr(_) => first,
                Operand::Agpr(_) => registers.vector + first,
                other => match scalar_slot(other) {
                    Some(slot) if slot != slot::NULL => registers.total() + slot,
                    _ => continue,
                },
            };
            let end = (number + dwords).min(registers.total() + slot::PADDED);
            let numbers = number as u16..end as u16;
            let is_data = match inst.format {
                Format::Smem | Format::Vimage => at == 2,
                Format::Ds => at == 1 || at == 2,
                _ => at == 1,
            };
            match at {
                // The LDS address of data that moves between LDS and memory.
                1 | 4 if is_async(inst.op) => self.addresses.push(numbers),
                0..4 if !is_memory && self.kind == Kind::Jump => self.addresses.push(numbers),
                0..4 if !is_memory => self.reads.push(numbers),
                0..4 if is_data => {
                    let of_ds = usize::from(inst.format == Format::Ds && at == 2);
                    self.data[of_ds] = Some(number as u16);
                    self.reads.push(numbers);
                }
                0..4 => self.addresses.push(numbers),
                _ => {
                    let keeps = inst.op.has(Flags::READS_DST)
                        || inst.op.info().dst.is_16()
                        || inst.dpp != Dpp::None
                        || inst.sdwa.is_some()
                        || matches!(
                            inst.op,
                            Op::VWritelaneB32
                                | Op::VSwapB32
                                | Op::VSwapB16
                                | Op::VPermlane16SwapB32
                                | Op::VPermlane32SwapB32
                        )
                        || moves_if_scc(inst.op)
                        || changes_dst(inst.op);
                    if keeps && at == 4 && !is_memory {
                        self.reads.push(numbers.clone());
                    }
                    if at == 4 && is_memory && self.touch.is_none_or(|touch| touch.deed != Deed::Store) {
                        self.data[0] = self.data[0].filter(|_| self.is_atomic()).or(Some(number as u16));
                    }
                    self.writes.push(numbers);
                }
            }
            // These are exchanged with the destination.
            if at == 0
                && matches!(inst.op, Op::VSwapB32 | Op::VSwapB16 | Op::VPermlane16SwapB32 | Op::VPermlane32SwapB32)
            {
                self.writes.extend(self.reads.last().cloned());
            }
        }
    }

    /// True if it changes a value in memory or LDS.
    pub fn is_atomic(&self) -> bool {
        self.touch.is_some_and(|touch| touch.deed == Deed::Atomic) || self.lds.is_some_and(|access| access.is_atomic)
    }
}

fn kind(inst: &Inst, touch: Option<&Touch>, lds: Option<&Access>) -> Kind {
    let stores = inst.op.has(Flags::STORE) || inst.op.has(Flags::ATOMIC);
    match inst.op {
        Op::SCbranchScc0 | Op::SCbranchScc1 => return Kind::IfScc,
        Op::SCbranchVccz | Op::SCbranchVccnz => return Kind::IfVcc,
        Op::SSetpcB64 | Op::SSwappcB64 | Op::SAddPcI64 | Op::SCallB64 => return Kind::Jump,
        _ if inst.op.has(Flags::NOP) => return Kind::Nothing,
        _ => {}
    }
    match inst.format {
        Format::Sopp => Kind::Nothing,
        _ if inst.op.has(Flags::BARRIER) || sets(inst.op) => Kind::Sets,
        Format::Smem if touch.is_some_and(|touch| touch.deed == Deed::Load) => Kind::ScalarLoad,
        Format::Smem if touch.is_some() || stores => Kind::ScalarStore,
        // Times and messages.
        Format::Smem => Kind::Plain,
        Format::Vimage if stores => Kind::WritesMemory,
        Format::Vimage => Kind::WritesLds,
        Format::Ds if exchanges_lanes(inst.op) => Kind::Plain,
        Format::Ds if lds.is_some() => Kind::Lds,
        Format::Ds => Kind::WritesLds,
        // The dwords that M0 chooses of 32, and up to four that are converted.
        Format::Flat | Format::Global | Format::Scratch if inst.op.has(Flags::BLOCK) => {
            Kind::Stores(if stores { 128 } else { 0 })
        }
        Format::Mubuf | Format::Mtbuf if touch.is_none() => Kind::Stores(if stores { 16 } else { 0 }),
        Format::Mubuf | Format::Flat | Format::Global | Format::Scratch if touch.is_some() => Kind::Memory,
        Format::Mubuf | Format::Flat | Format::Global | Format::Scratch => Kind::Stores(if stores { 16 } else { 0 }),
        _ => Kind::Plain,
    }
}

/// True for ops that set hardware registers, not the program's. Ops of SOPP that do are handled before.
fn sets(op: Op) -> bool {
    matches!(op, Op::SSetregB32 | Op::SSetregImm32B32 | Op::SSetGprIdxIdx | Op::SSetGprIdxOn)
}

/// True for `s_cmov*`, which keep the destination if SCC is 0.
fn moves_if_scc(op: Op) -> bool {
    matches!(op, Op::SCmovB32 | Op::SCmovB64 | Op::SCmovkI32)
}

/// True for scalar ops that modify their destination although their row does not list it as a source.
fn changes_dst(op: Op) -> bool {
    use Op::*;
    matches!(op, SBitset0B32 | SBitset0B64 | SBitset1B32 | SBitset1B64 | SAddkI32 | SMulkI32)
}
