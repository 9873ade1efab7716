// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! State of one wavefront, and access of instructions to its registers.

use crate::gws::Gws;
use crate::hardware::{mode, slot};
use crate::memory::Translator;
use crate::operand::{Src, SrcKind};
use sim_isa::Target;
use std::mem::MaybeUninit;

/// One register of every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Row<const L: usize>(pub [u32; L]);

impl<const L: usize> Row<L> {
    pub const ZERO: Self = Row([0; L]);
}

/// A row that a loop writes lane by lane. Unlike a [`Row`] it is not zeroed first, so that the compiler can keep all of
/// it in vector registers.
pub(crate) struct NewRow<const L: usize>([MaybeUninit<u32>; L]);

impl<const L: usize> NewRow<L> {
    #[inline(always)]
    pub fn new() -> Self {
        NewRow([const { MaybeUninit::uninit() }; L])
    }

    #[inline(always)]
    pub fn set(&mut self, lane: usize, value: u32) {
        self.0[lane].write(value);
    }

    /// # Safety
    /// Each lane is set.
    #[inline(always)]
    pub unsafe fn done(self) -> Row<L> {
        // SAFETY: by this function's contract all lanes are initialised.
        Row(unsafe { self.0.as_ptr().cast::<[u32; L]>().read() })
    }
}

/// Rows after the allocated VGPRs that instructions use for intermediate results.
pub(crate) const SPARE_ROWS: usize = 4;

/// State that the waves of a workgroup share, and the thread's address translation.
pub(crate) struct Group<'a> {
    pub memory: Translator<'a>,
    /// The group segment, as long as the packet says.
    pub lds: Vec<u8>,
    /// Target of LDS accesses beyond the group segment: zeros, and stores to it are lost.
    pub beyond_lds: [u8; 16],
    /// Address of the kernel's code.
    pub code_base: u64,
    /// Bytes of private segment for each work-item.
    pub private_size: u32,
    /// Waves that have not ended.
    pub waves: u32,
    /// Waves that have signalled the barrier of gfx12 in this round.
    pub arrived: u32,
    /// gfx1250: the named barriers that the kernel asks for.
    pub named: Vec<Named>,
    /// The GPU's global wave sync.
    pub gws: Option<&'a Gws>,
    pub target: Target,
}

impl Group<'_> {
    /// Removes a wave that has ended. The workgroup's barrier no longer waits for it.
    pub fn ended(&mut self) {
        self.waves -= 1;
        if self.arrived >= self.waves {
            self.arrived = 0;
        }
    }

    /// True if a wave is in IEEE mode, which gfx12 lacks.
    #[inline(always)]
    pub fn ieee<const L: usize>(&self, wave: &Wave<L>) -> bool {
        wave.mode & mode::IEEE != 0 && !self.target.is_gfx12()
    }
}

/// State of a wave.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum State {
    Ready,
    AtBarrier,
    Ended,
}

/// A named barrier: number of waves that must signal it, number of signals in this round, and completed rounds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Named {
    pub members: u32,
    pub signals: u32,
    pub rounds: u32,
}

impl Named {
    pub fn finish_if_complete(&mut self) {
        if self.signals != 0 && self.signals == self.members {
            self.signals = 0;
            self.rounds += 1;
        }
    }
}

/// Number of [`Places`].
pub(crate) const PLACES: usize = 32;

/// Knowledge of compiled code about addresses in a wave's registers: `jit/access.rs`.
#[derive(Clone)]
#[repr(C)]
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
pub(crate) struct Places {
    /// A bit for each place that is known, and whose registers have not been written since.
    pub known: u32,
    /// A bit for each one that was known in any wave that had this storage.
    pub found: u32,
    pub of: [MaybeUninit<PlaceBytes>; PLACES],
}

/// Storage of a place.
pub(crate) type PlaceBytes = [u64; 16];

/// A wavefront of `L` lanes.
#[derive(Clone)]
pub(crate) struct Wave<const L: usize> {
    /// Vector registers: those allocated, then [`SPARE_ROWS`], then the program's constants.
    pub v: Vec<Row<L>>,
    /// Number of allocated registers, including accumulation registers.
    pub vgprs: usize,
    /// Scalar registers and specials, see [`slot`]. EXEC is mirrored by `mask` and `full`: write with [`Wave::set_s`].
    pub s: [u32; slot::PADDED],
    /// All ones in active lanes, else zero.
    pub mask: Row<L>,
    /// True if every lane is active.
    pub full: bool,
    /// Scalar condition code.
    pub scc: bool,
    /// MODE without the bits that never change.
    pub mode: u32,
    /// gfx12's `SCHED_MODE`: which dependencies hardware waits for. Here none has to be waited for.
    pub sched_mode: u32,
    /// True if f32 denormals are flushed.
    pub flush32: bool,
    /// True if f16 and f64 denormals are flushed.
    pub flush64: bool,
    /// Small floats that overflow become the greatest finite value: [`mode::FP16_OVERFLOW`].
    pub saturates: bool,
    /// Index of the next micro-operation.
    pub next: u32,
    /// Instructions executed.
    pub count: u64,
    /// Executed instructions that access global memory.
    pub global_accesses: u64,
    /// Private memory, dword *i* of every lane in row *i*.
    pub scratch: Vec<Row<L>>,
    /// Addresses of the memory access under way.
    pub addresses: [u64; L],
    /// Bytes that each lane may access from its address on; see `Lanes::beyond`.
    pub room: Row<L>,
    /// Broadcast operands.
    pub temp: [[Row<L>; 2]; 3],
    /// Wave in the workgroup.
    pub index: u32,
    /// Numbers of its signals of the workgroup's barrier, and of its waits for it; `s_barrier` does both.
    pub signals: u32,
    pub waits: u32,
    /// The named barrier that it has joined, 0 for none; how many of its rounds it has seen; whether it waits for the
    /// next one's end.
    pub joined: usize,
    pub seen: u32,
    pub at_named: bool,
    /// Resource of global wave sync at which the wave waits, and the round that it waits for the end of.
    pub gws: Option<(usize, u64)>,
    /// Backward branches left before other waves get a turn.
    pub branch_budget: u32,
    /// Numbers of SGPRs and VGPRs with initial values.
    pub given: (usize, usize),
    pub places: Places,
}

impl<const L: usize> Wave<L> {
    pub const LANES: u64 = u64::MAX >> (64 - L);

    /// True if the named barrier that the wave has joined is complete. Records that the wave has passed it.
    pub fn passes_named(&mut self, group: &Group<'_>) -> bool {
        let rounds = group.named.get(self.joined.wrapping_sub(1)).map_or(self.seen, |barrier| barrier.rounds);
        std::mem::replace(&mut self.seen, rounds) != rounds
    }

    /// A wave with `vgprs` registers and `private_size` bytes of scratch in each lane, everything zero, no lane active.
    pub fn new(vgprs: usize, private_size: u32) -> Self {
        Wave {
            v: vec![Row::ZERO; vgprs + SPARE_ROWS],
            vgprs,
            s: [0; slot::PADDED],
            mask: Row::ZERO,
            full: false,
            scc: false,
            mode: 0,
            sched_mode: 0,
            flush32: false,
            flush64: false,
            saturates: false,
            next: 0,
            count: 0,
            global_accesses: 0,
            scratch: vec![Row::ZERO; private_size.div_ceil(4) as usize],
            addresses: [0; L],
            room: Row::ZERO,
            temp: [[Row::ZERO; 2]; 3],
            index: 0,
            signals: 0,
            waits: 0,
            joined: 0,
            seen: 0,
            at_named: false,
            gws: None,
            branch_budget: 0,
            given: (0, 0),
            places: Places { known: 0, found: 0, of: [const { MaybeUninit::uninit() }; PLACES] },
        }
    }

    /// Writes a program's constants to the registers that it reads them from.
    pub fn set_constants(&mut self, constants: &[u32]) {
        self.v.truncate(self.vgprs + SPARE_ROWS);
        self.v.extend(constants.iter().map(|&value| Row([value; L])));
    }

    pub fn set_mode(&mut self, mode: u32) {
        self.mode = mode;
        self.flush32 = mode & mode::DENORM_32 != mode::DENORM_32;
        self.flush64 = mode & mode::DENORM_16_64 != mode::DENORM_16_64;
        self.saturates = mode & mode::FP16_OVERFLOW != 0;
    }

    // ---- EXEC

    /// The active lanes.
    #[inline(always)]
    pub fn exec(&self) -> u64 {
        let high = if L > 32 { u64::from(self.s[slot::EXEC + 1]) << 32 } else { 0 };
        u64::from(self.s[slot::EXEC]) | high
    }

    /// Sets the active lanes. In wave32 the upper half is an ordinary register and stays.
    #[inline(always)]
    pub fn set_exec(&mut self, exec: u64) {
        self.s[slot::EXEC] = exec as u32;
        if L > 32 {
            self.s[slot::EXEC + 1] = (exec >> 32) as u32;
        }
        self.refresh_exec();
    }

    #[inline(always)]
    fn refresh_exec(&mut self) {
        let exec = self.exec();
        self.full = exec & Self::LANES == Self::LANES;
        self.mask = expand::<L>(exec);
    }

    // ---- scalar operands

    /// A 32-bit scalar operand.
    #[inline(always)]
    pub fn s32(&self, src: &Src) -> u32 {
        match src.kind {
            SrcKind::Const => src.value as u32,
            SrcKind::Scalar => self.s[src.reg as usize],
            _ => self.special(src),
        }
    }

    /// A 64-bit scalar operand.
    #[inline(always)]
    pub fn s64(&self, src: &Src) -> u64 {
        match src.kind {
            SrcKind::Const => src.value,
            SrcKind::Scalar => self.slot64(src.reg as usize),
            _ => u64::from(self.special(src)),
        }
    }

    /// A lane mask operand: one dword in wave32, two in wave64.
    #[inline(always)]
    pub fn lanes(&self, src: &Src) -> u64 {
        if L > 32 { self.s64(src) } else { u64::from(self.s32(src)) }
    }

    /// Two slots.
    #[inline(always)]
    pub fn slot64(&self, slot: usize) -> u64 {
        if slot == slot::NULL {
            return 0;
        }
        u64::from(self.s[slot]) | u64::from(self.s[slot + 1]) << 32
    }

    #[cold]
    fn special(&self, src: &Src) -> u32 {
        match src.kind {
            SrcKind::Scc => u32::from(self.scc),
            SrcKind::Vccz => u32::from(self.vcc() == 0),
            SrcKind::Execz => u32::from(self.exec() == 0),
            // A scalar instruction cannot name a VGPR; `v_readfirstlane`-like reads do not come here.
            SrcKind::Vgpr | SrcKind::None | SrcKind::Const | SrcKind::Scalar => 0,
        }
    }

    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        let high = if L > 32 { u64::from(self.s[slot::VCC + 1]) << 32 } else { 0 };
        u64::from(self.s[slot::VCC]) | high
    }

    /// Writes a scalar slot, with the effects of EXEC and NULL.
    #[inline(always)]
    pub fn set_s(&mut self, slot: usize, value: u32) {
        if slot < slot::NULL {
            self.s[slot] = value;
        } else {
            self.set_special(slot, value);
        }
    }

    #[inline(never)]
    fn set_special(&mut self, slot: usize, value: u32) {
        if slot == slot::NULL || slot >= slot::COUNT {
            return;
        }
        self.s[slot] = value;
        if slot >= slot::EXEC {
            self.refresh_exec();
        }
    }

    #[inline(always)]
    pub fn set_s64(&mut self, slot: usize, value: u64) {
        if slot == slot::NULL {
            return;
        }
        self.set_s(slot, value as u32);
        self.set_s(slot + 1, (value >> 32) as u32);
    }

    /// Writes a lane mask.
    #[inline(always)]
    pub fn set_lanes(&mut self, slot: usize, value: u64) {
        if L > 32 {
            self.set_s64(slot, value);
        } else {
            self.set_s(slot, value as u32);
        }
    }

    // ---- vector operands

    /// One dword of a vector operand in one lane.
    #[inline(always)]
    pub fn lane(&self, src: &Src, lane: usize) -> u32 {
        match src.kind {
            SrcKind::Vgpr => self.v[src.reg as usize].0[lane],
            _ => self.s32(src),
        }
    }

    /// Writes `row` to a VGPR's active lanes.
    #[inline(always)]
    pub fn put(&mut self, reg: usize, row: &Row<L>) {
        let target = &mut self.v[reg];
        if self.full {
            *target = *row;
        } else {
            for i in 0..L {
                target.0[i] = (target.0[i] & !self.mask.0[i]) | (row.0[i] & self.mask.0[i]);
            }
        }
    }
}

/// Dword `part` of an operand as a row: the register itself, or `temp` with the scalar in every lane.
#[inline(always)]
pub(crate) fn row<'a, const L: usize>(
    v: &'a [Row<L>],
    src: &Src,
    scalar: u64,
    part: usize,
    temp: &'a mut Row<L>,
) -> &'a Row<L> {
    if src.kind == SrcKind::Vgpr {
        &v[src.reg as usize + part]
    } else {
        broadcast((scalar >> (32 * part)) as u32, temp)
    }
}

#[inline(always)]
fn broadcast<const L: usize>(value: u32, temp: &mut Row<L>) -> &Row<L> {
    *temp = Row([value; L]);
    temp
}

/// All ones in the lanes of `bits`.
#[inline(always)]
pub(crate) fn expand<const L: usize>(bits: u64) -> Row<L> {
    let mut row = Row::ZERO;
    for half in 0..L.div_ceil(32) {
        let word = (bits >> (32 * half)) as u32;
        for i in 0..32 {
            row.0[32 * half + i] = if word & (1 << i) != 0 { u32::MAX } else { 0 };
        }
    }
    row
}

/// The lanes whose entry is all ones.
#[inline(always)]
pub(crate) fn collect<const L: usize>(row: &Row<L>) -> u64 {
    let mut bits = 0u64;
    for half in 0..L.div_ceil(32) {
        let mut word = 0u32;
        for i in 0..32 {
            word |= row.0[32 * half + i] & (1 << i);
        }
        bits |= u64::from(word) << (32 * half);
    }
    bits
}
