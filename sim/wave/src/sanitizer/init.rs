// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Decisions that depend on uninitialized data: bits of registers, LDS, scratch and memory.
//!
//! Registers are tracked by bit; memory, LDS and scratch by byte. Uninitialized bits of a result are found by trial:
//! the instruction is executed again with other values in the uninitialized bits of its sources; bits of the result
//! that change are uninitialized. Uninitialized addresses, branch conditions, EXEC masks and operands of atomics
//! are findings; copies, arithmetic and stores are not.

mod access;

use super::meetings::Disorder;
use super::unwritten::{Lds, Unwritten, View, set};
use super::uses::{Kind, Numbers, Use, Uses};
use crate::exec;
use crate::hardware::slot;
use crate::operand::{Src, SrcKind};
use crate::program::Program;
use crate::wave::{Group, Row, Wave};
use access::Bytes;

/// Place of uninitialized data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Register(u16),
    Scc,
    Lds(u64),
    Scratch(u64),
    Memory(u64),
}

/// Place of uninitialized data, with the number of the first instruction that has read it.
#[derive(Clone, Copy, Debug)]
struct Origin {
    place: Place,
    step: Option<u32>,
}

/// Uninitialized parts of a wave's registers and scratch.
struct Shadow<const L: usize> {
    /// Mask of the lanes with uninitialized bits for each vector register; `rows` has the bits of these lanes.
    lanes: Vec<u64>,
    rows: Vec<Row<L>>,
    slots: Vec<u32>,
    scc: bool,
    scc_origin: Origin,
    /// Registers with uninitialized bits, as sets of 64.
    marked: Vec<u64>,
    /// Origin of the uninitialized bits of each marked register.
    origins: Vec<Origin>,
    /// Mask of the lanes in which each byte of scratch is uninitialized.
    scratch: Vec<u64>,
}

impl<const L: usize> Shadow<L> {
    fn new() -> Self {
        Shadow {
            lanes: Vec::new(),
            rows: Vec::new(),
            slots: Vec::new(),
            scc: true,
            scc_origin: Origin { place: Place::Scc, step: None },
            marked: Vec::new(),
            origins: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// A wave begins.
    fn begin(&mut self, wave: &Wave<L>) {
        let vgprs = wave.vgprs;
        self.lanes.clear();
        self.lanes.resize(vgprs, Wave::<L>::LANES);
        self.rows.clear();
        self.rows.resize(vgprs, Row([u32::MAX; L]));
        self.slots.clear();
        self.slots.resize(slot::PADDED, 0);
        self.slots[wave.given.0..slot::FLAT_SCRATCH].fill(u32::MAX);
        self.slots[slot::VCC..slot::TTMP].fill(u32::MAX);
        self.slots[slot::M0] = u32::MAX;
        self.lanes[..wave.given.1].fill(!wave.exec() & Wave::<L>::LANES);
        (self.scc, self.scc_origin) = (true, Origin { place: Place::Scc, step: None });
        let all = (vgprs + slot::PADDED) as u16;
        self.origins.clear();
        self.origins.extend((0..all).map(|n| Origin { place: Place::Register(n), step: None }));
        self.marked.clear();
        self.marked.resize(usize::from(all).div_ceil(64), 0);
        (0..all).for_each(|n| self.mark(n));
        self.scratch.clear();
        self.scratch.resize(4 * wave.scratch.len(), Wave::<L>::LANES);
    }

    /// Updates whether a register is marked.
    fn mark(&mut self, n: u16) {
        let n = usize::from(n);
        let is_marked = match n.checked_sub(self.lanes.len()) {
            None => self.lanes[n] != 0,
            Some(slot) => self.slots[slot] != 0,
        };
        let (set, bit) = (&mut self.marked[n / 64], 1 << (n % 64));
        *set = if is_marked { *set | bit } else { *set & !bit };
    }

    #[inline]
    fn any(&self, sets: &[(u32, u64)]) -> bool {
        sets.iter().any(|&(at, set)| self.marked[at as usize] & set != 0)
    }

    fn is_marked(&self, n: u16) -> bool {
        self.marked[usize::from(n) / 64] >> (n % 64) & 1 != 0
    }

    /// The first register that is uninitialized in any of these lanes. Scalar registers count for all lanes.
    fn find(&self, numbers: &[Numbers], lanes: u64) -> Option<u16> {
        numbers.iter().flat_map(Clone::clone).find(|n| {
            self.is_marked(*n) && self.lanes.get(usize::from(*n)).is_none_or(|unwritten| unwritten & lanes != 0)
        })
    }

    /// Mask of the lanes in which any of the vector registers is uninitialized.
    fn lanes(&self, numbers: &[Numbers]) -> u64 {
        let of = |n: u16| self.lanes.get(usize::from(n)).copied().unwrap_or(0);
        numbers.iter().flat_map(Clone::clone).fold(0, |lanes, n| lanes | of(n))
    }

    /// Marks registers as written, vector registers in `lanes` only.
    fn clear(&mut self, numbers: &[Numbers], lanes: u64) {
        for n in numbers.iter().flat_map(Clone::clone) {
            if self.is_marked(n) {
                match usize::from(n).checked_sub(self.lanes.len()) {
                    None => self.lanes[usize::from(n)] &= !lanes,
                    Some(slot) => self.slots[slot] = 0,
                }
                self.mark(n);
            }
        }
    }

    /// Uninitialized bits of a vector register in a lane.
    fn bits(&self, n: u16, lane: usize) -> u32 {
        let n = usize::from(n);
        if self.lanes[n] >> lane & 1 != 0 { self.rows[n].0[lane] } else { 0 }
    }

    fn set_bits(&mut self, n: u16, lane: usize, bits: u32) {
        let at = usize::from(n);
        self.rows[at].0[lane] = bits;
        self.lanes[at] = self.lanes[at] & !(1 << lane) | u64::from(bits != 0) << lane;
    }
}

/// Trial values for uninitialized bits: of the first source, and of the others.
const TRIED: [[u32; 2]; 2] = [[0x5555_5555, 0x3333_3333], [0xaaaa_aaaa, 0xcccc_cccc]];
/// Further trial values for comparisons.
const COMPARED: [[u32; 2]; 2] = [[0, u32::MAX], [u32::MAX, 0]];

/// Uninitialized parts of the results of micro-operations.
struct After<const L: usize> {
    rows: Vec<Row<L>>,
    slots: [u32; slot::PADDED],
    scc: bool,
}

/// The check of one thread.
pub(super) struct Init<'a, const L: usize> {
    program: &'a Program<L>,
    uses: &'a Uses,
    waves: Vec<Shadow<L>>,
    lds: Lds,
    memory: View<'a>,
    /// True if stores to memory that the host may read are checked.
    looks_at_results: bool,
    /// Reused allocation: bytes that the lanes access.
    lanes: Vec<Bytes>,
}

impl<'a, const L: usize> Init<'a, L> {
    pub fn new(program: &'a Program<L>, uses: &'a Uses, memory: &'a dyn Unwritten, looks_at_results: bool) -> Self {
        let (lds, memory) = (Lds::default(), View::new(memory));
        Init { program, uses, waves: Vec::new(), lds, memory, looks_at_results, lanes: Vec::new() }
    }

    /// A workgroup begins.
    pub fn begin(&mut self, waves: &[Wave<L>], group: &Group<'_>) {
        self.lds.begin(group.lds.len());
        self.waves.resize_with(waves.len().max(self.waves.len()), Shadow::new);
        self.waves.iter_mut().zip(waves).for_each(|(shadow, wave)| shadow.begin(wave));
    }

    /// Tracks a micro-operation, which is instruction `number` and about to run. Returns the decision in it that
    /// depends on uninitialized data.
    #[inline]
    pub fn step(&mut self, op: u32, number: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Option<Disorder> {
        let (of, sets) = self.uses.of(op)?;
        let shadow = &self.waves[wave.index as usize];
        if !shadow.any(sets) && matches!(of.kind, Kind::Plain | Kind::Sets | Kind::Jump) && !shadow.scc {
            return None;
        }
        self.follow(op, of, number, wave, group)
    }

    #[inline(never)]
    fn follow(
        &mut self,
        op: u32,
        of: &'a Use,
        number: u32,
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
    ) -> Option<Disorder> {
        let exec = wave.exec() & Wave::<L>::LANES;
        let shadow = &mut self.waves[wave.index as usize];
        // Addresses do not matter if no lane accesses memory.
        let is_scalar = matches!(of.kind, Kind::Jump | Kind::ScalarLoad | Kind::ScalarStore);
        let address = shadow.find(&of.addresses, exec).filter(|_| exec != 0 || is_scalar);
        let found = address.map(|n| {
            let lanes = shadow.lanes(&of.addresses) & exec;
            let origin = shadow.origins[usize::from(n)];
            // Each is reported once.
            shadow.clear(&of.addresses, exec);
            (origin, lanes)
        });
        let what = match of.kind {
            Kind::Jump => "the jump target",
            Kind::Relative(..) => "the register index",
            _ => "the address",
        };
        let found = found.map(|(origin, lanes)| self.disorder(what, origin, lanes));
        let shadow = &mut self.waves[wave.index as usize];
        match of.kind {
            Kind::Nothing => {}
            Kind::Sets => {
                shadow.clear(&of.writes, exec);
                shadow.scc = false;
            }
            Kind::Jump => shadow.clear(&of.writes, exec),
            Kind::IfScc => {
                if std::mem::take(&mut shadow.scc) {
                    let origin = shadow.scc_origin;
                    return Some(self.disorder("the branch condition", origin, 0));
                }
            }
            Kind::IfVcc => return self.if_vcc(of, wave),
            Kind::Relative(mask, dst) => {
                let m0 = wave.s[slot::M0];
                let all = shadow.origins.len() as u32;
                for by in [0, m0 & mask, m0 >> 16 & 0x3ff] {
                    let n = u32::from(dst).saturating_add(by);
                    if n < all {
                        shadow.clear(std::slice::from_ref(&(n as u16..n as u16 + 1)), exec);
                    }
                }
                shadow.clear(&of.writes, exec);
            }
            Kind::Plain => {
                let sources = if of.crosses { u64::MAX } else { exec };
                let source = shadow.find(&of.reads, sources);
                let origin = source.map(|n| shadow.origins[usize::from(n)]);
                let origin = origin.or((of.reads_scc && shadow.scc).then_some(shadow.scc_origin));
                match origin {
                    None => {
                        shadow.clear(&of.writes, if of.writes_all { u64::MAX } else { exec });
                        shadow.scc &= !of.writes_scc;
                    }
                    Some(origin) => {
                        let origin = Origin { step: origin.step.or(Some(number)), ..origin };
                        return self.depends(op, of, origin, wave, group);
                    }
                }
            }
            Kind::ScalarLoad => self.scalar_load(op, of, number, wave, group),
            Kind::ScalarStore => {
                let op = &self.program.ops[op as usize];
                let bytes = of.touch.map_or(8, |touch| touch.bytes);
                let is_buffer = of.addresses.first().is_some_and(|numbers| numbers.len() > 2);
                if let Some((address, bytes)) = exec::scalar_reach(is_buffer, wave, group, op, bytes) {
                    set(&mut self.memory, address..address.saturating_add(bytes), false);
                }
                self.waves[wave.index as usize].clear(&of.writes, exec);
            }
            Kind::Memory => return found.or(self.memory(op, of, number, wave, group)),
            Kind::Lds => return found.or(self.local(of, number, wave)),
            Kind::Stores(bytes) => self.stores(op, bytes, of, wave, group),
            Kind::WritesLds => {
                self.lds.forget();
                shadow.clear(&of.writes, exec);
            }
            Kind::WritesMemory => self.memory.forget(),
        }
        found
    }

    fn disorder(&self, what: &str, origin: Origin, lanes: u64) -> Disorder {
        let place = match origin.place {
            Place::Register(n) => super::plan::register(n, self.waves_scalars(), self.uses.vectors),
            Place::Scc => "scc".to_owned(),
            Place::Lds(at) => format!("LDS byte {at:#x}"),
            Place::Scratch(at) => format!("scratch byte {at:#x}"),
            Place::Memory(at) => format!("memory byte {at:#x}"),
        };
        let what = format!("use of uninitialized {place}: {what} depends on it");
        let memory = if let Place::Memory(at) = origin.place { Some(at) } else { None };
        Disorder { what, other: origin.step, lanes, memory }
    }

    /// The number of the first scalar slot.
    fn waves_scalars(&self) -> u16 {
        self.waves.first().map_or(0, |shadow| shadow.lanes.len() as u16)
    }

    /// A bit of VCC that is written and set decides alone.
    fn if_vcc(&mut self, of: &Use, wave: &Wave<L>) -> Option<Disorder> {
        let shadow = &mut self.waves[wave.index as usize];
        let wide = |slots: &[u32]| u64::from(slots[slot::VCC]) | u64::from(slots[slot::VCC + 1]) << 32;
        let unwritten = wide(&shadow.slots) & Wave::<L>::LANES;
        if unwritten == 0 || wave.vcc() & !unwritten & Wave::<L>::LANES != 0 {
            return None;
        }
        let n = shadow.find(&of.reads, 0)?;
        let origin = shadow.origins[usize::from(n)];
        shadow.clear(&of.reads, 0);
        Some(self.disorder("the branch condition", origin, unwritten))
    }

    /// Runs an instruction with an uninitialized source again, with other values of that source.
    #[cold]
    fn depends(
        &mut self,
        at: u32,
        of: &Use,
        origin: Origin,
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
    ) -> Option<Disorder> {
        let exec = wave.exec() & Wave::<L>::LANES;
        let vectors = self.waves_scalars();
        let rows: Vec<u16> =
            of.reads.iter().chain(&of.writes).flat_map(Clone::clone).filter(|n| *n < vectors).collect();
        let old = Self::read(&rows, wave);
        let usual = self.run(at, of, &rows, wave, group);
        let mut changed = After { rows: vec![Row::ZERO; rows.len()], slots: [0; slot::PADDED], scc: false };
        let tried = TRIED.iter().chain(if of.is_comparison { &COMPARED[..] } else { &[] });
        let tries = tried.map(|values| Some(*values)).chain(of.is_comparison.then_some(None));
        for (n, values) in tries.enumerate() {
            Self::write(&rows, &old, wave);
            match values {
                Some(values) => self.perturb(of, values, n % 2 == 0, wave),
                None => self.equate(at, of, wave),
            }
            if let (Some(usual), Some(other)) = (&usual, self.run(at, of, &rows, wave, group)) {
                for (row, (usual, other)) in changed.rows.iter_mut().zip(usual.rows.iter().zip(&other.rows)) {
                    row.0.iter_mut().zip(usual.0.iter().zip(&other.0)).for_each(|(bits, (a, b))| *bits |= a ^ b);
                }
                let slots = usual.slots.iter().zip(&other.slots);
                changed.slots.iter_mut().zip(slots).for_each(|(bits, (a, b))| *bits |= a ^ b);
                changed.scc |= usual.scc != other.scc;
            }
        }
        Self::write(&rows, &old, wave);
        self.note(of, &rows, &changed, origin, (exec, wave.index))
    }

    /// Marks the result bits that were found to change.
    fn note(
        &mut self,
        of: &Use,
        rows: &[u16],
        changed: &After<L>,
        origin: Origin,
        (exec, wave): (u64, u32),
    ) -> Option<Disorder> {
        let shadow = &mut self.waves[wave as usize];
        let vectors = shadow.lanes.len();
        for n in of.writes.iter().flat_map(Clone::clone) {
            match usize::from(n).checked_sub(vectors) {
                None => {
                    let Some(at) = rows.iter().position(|row| *row == n) else { continue };
                    for lane in exec::lanes_of(if of.writes_all { Wave::<L>::LANES } else { exec }) {
                        shadow.set_bits(n, lane, changed.rows[at].0[lane]);
                    }
                    if shadow.lanes[usize::from(n)] & exec != 0 {
                        shadow.origins[usize::from(n)] = origin;
                    }
                }
                Some(slot) => shadow.slots[slot] = 0,
            }
            shadow.mark(n);
        }
        if of.writes_scc {
            (shadow.scc, shadow.scc_origin) = (changed.scc, origin);
        }
        let mut exec_bits = 0;
        for (slot, bits) in changed.slots.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            let n = (vectors + slot) as u16;
            match slot {
                slot::EXEC => exec_bits |= u64::from(*bits),
                _ if slot == slot::EXEC + 1 => exec_bits |= u64::from(*bits) << 32,
                slot::NULL => {}
                // A source that is no destination has only its own bits changed.
                _ if !of.writes.iter().any(|numbers| numbers.contains(&n)) && shadow.slots[slot] != 0 => {}
                _ => {
                    shadow.slots[slot] = *bits;
                    shadow.origins[usize::from(n)] = origin;
                    shadow.mark(n);
                }
            }
        }
        let lanes = exec_bits & Wave::<L>::LANES;
        (lanes != 0).then(|| self.disorder("the mask of active lanes", origin, lanes))
    }

    fn read(rows: &[u16], wave: &Wave<L>) -> After<L> {
        After { rows: rows.iter().map(|n| wave.v[usize::from(*n)]).collect(), slots: wave.s, scc: wave.scc }
    }

    fn write(rows: &[u16], after: &After<L>, wave: &mut Wave<L>) {
        for (n, row) in rows.iter().zip(&after.rows) {
            wave.v[usize::from(*n)] = *row;
        }
        (wave.s, wave.scc) = (after.slots, after.scc);
        wave.set_exec(wave.exec());
    }

    /// Runs an instruction; `None` if it cannot with these values.
    fn run(&self, at: u32, of: &Use, rows: &[u16], wave: &mut Wave<L>, group: &mut Group<'_>) -> Option<After<L>> {
        for op in &self.program.ops[at as usize..(at + of.ops) as usize] {
            // SAFETY: the handler was selected for a level that this CPU has.
            unsafe { (op.run)(wave, group, op) }.ok()?;
        }
        Some(Self::read(rows, wave))
    }

    /// Puts other values into the unwritten bits of the sources.
    fn perturb(&self, of: &Use, values: [u32; 2], scc: bool, wave: &mut Wave<L>) {
        let shadow = &self.waves[wave.index as usize];
        let mut seen: Vec<u16> = Vec::new();
        for (source, numbers) in of.reads.iter().enumerate() {
            let value = values[source.min(1)];
            for n in numbers.clone() {
                if !shadow.is_marked(n) || seen.contains(&n) {
                    continue;
                }
                seen.push(n);
                match usize::from(n).checked_sub(shadow.lanes.len()) {
                    None => {
                        for lane in exec::lanes_of(shadow.lanes[usize::from(n)]) {
                            let bits = shadow.bits(n, lane);
                            let old = &mut wave.v[usize::from(n)].0[lane];
                            *old = *old & !bits | value & bits;
                        }
                    }
                    Some(slot) => {
                        let bits = shadow.slots[slot];
                        wave.s[slot] = wave.s[slot] & !bits | value & bits;
                    }
                }
            }
        }
        if shadow.scc && of.reads_scc {
            wave.scc = scc;
        }
    }

    /// Makes the operands of a comparison equal, as far as their bits are uninitialized.
    fn equate(&self, at: u32, of: &Use, wave: &mut Wave<L>) {
        let shadow = &self.waves[wave.index as usize];
        // Only sources that are restored afterwards: a source of 32 bits has no second part.
        let is_read = |n: usize| of.reads.iter().any(|numbers| numbers.contains(&(n as u16)));
        let [a, b, ..] = &self.program.ops[at as usize].src;
        for part in 0..2 {
            for (to, from) in [(a, b), (b, a)] {
                let value = |wave: &Wave<L>, lane: usize| {
                    let dword = dword(wave, from, part, lane);
                    (dword >> (from.shift % 32)) << (to.shift % 32)
                };
                let register = usize::from(to.reg) + part;
                match to.kind {
                    SrcKind::Vgpr if register < shadow.lanes.len() && is_read(register) => {
                        for lane in exec::lanes_of(shadow.lanes[register]) {
                            let (bits, value) = (shadow.bits(register as u16, lane), value(wave, lane));
                            let old = &mut wave.v[register].0[lane];
                            *old = *old & !bits | value & bits;
                        }
                    }
                    SrcKind::Scalar if from.kind != SrcKind::Vgpr => {
                        let (bits, value) = (shadow.slots[register], value(wave, 0));
                        wave.s[register] = wave.s[register] & !bits | value & bits;
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A dword of a source in a lane.
fn dword<const L: usize>(wave: &Wave<L>, src: &Src, part: usize, lane: usize) -> u32 {
    match src.kind {
        SrcKind::Vgpr => wave.v.get(usize::from(src.reg) + part).map_or(0, |row| row.0[lane]),
        SrcKind::Scalar => wave.s.get(usize::from(src.reg) + part).copied().unwrap_or(0),
        _ => (src.value >> (32 * (part % 2))) as u32,
    }
}
