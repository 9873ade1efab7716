// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Figures of a kernel's instructions: executions, active lanes, accesses and their efficiency.
//!
//! A [`Profile`] is the [`Observer`] of each thread of a dispatch.

use crate::exec::{self, Reach};
use crate::micro_op::Step as Progress;
use crate::observer::Observer;
use crate::program::Program;
use crate::sanitizer::{Access, Plan, Touch};
use crate::wave::{Group, Wave};
use sim_isa::{Format, Target};

/// Figures of an instruction over all of its executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Byte offset of the instruction in the code.
    pub offset: u32,
    /// Number of executions, summed over the waves.
    pub times: u64,
    /// Active lanes, summed over the executions.
    pub lanes: u64,
    /// Executions with some of the lanes active that the wave began with, but not all.
    pub divergent: u64,
    /// Bytes that lanes, or the wave, accessed in memory, LDS or scratch.
    pub bytes: u64,
    /// Cache lines of memory that vector accesses touched, summed.
    pub lines: u64,
    /// Minimum number of cache lines for the accessed bytes, summed.
    pub fewest_lines: u64,
    /// Passes of LDS accesses over its banks, summed.
    pub passes: u64,
    /// Number of passes without bank conflicts, summed.
    pub fewest_passes: u64,
}

impl Figures {
    /// Adds figures of the same instruction from elsewhere.
    pub fn add(&mut self, other: &Figures) {
        let Figures { offset: _, times, lanes, divergent, bytes, lines, fewest_lines, passes, fewest_passes } = other;
        self.times += times;
        self.lanes += lanes;
        self.divergent += divergent;
        self.bytes += bytes;
        self.lines += lines;
        self.fewest_lines += fewest_lines;
        self.passes += passes;
        self.fewest_passes += fewest_passes;
    }
}

/// Receiver of a dispatch's figures.
pub trait Collect: Sync {
    /// Takes the figures of one thread of the dispatch, by offset.
    fn collect(&self, figures: &[Figures]);
}

/// Banks of LDS, each of which gives one dword in a pass (RDNA3 ISA, "LDS"; CDNA3 ISA, "Local Data Share").
const fn banks(target: Target) -> usize {
    if matches!(target, Target::Gfx950) { MOST_BANKS } else { 32 }
}

/// Banks of gfx950, the target with most (CDNA4 ISA, "Local Data Share").
const MOST_BANKS: usize = 64;

/// Bytes of a line of the caches that vector memory goes through first: 64 on GFX9 before gfx942, 128 there and from
/// gfx10 on (AMD's white papers on CDNA 3 and RDNA).
pub(crate) fn line_bytes(target: Target) -> u64 {
    if target.is_gfx9() && !target.is_cdna3_or_later() { 64 } else { 128 }
}

/// Meter of instructions' accesses.
pub(crate) struct Meter<'a, const L: usize> {
    program: &'a Program<L>,
    plan: &'a Plan,
    line: u64,
    /// Banks of LDS.
    banks: usize,
    /// Reused allocation: cache lines, or dwords of LDS.
    places: Vec<u64>,
    /// Reused allocation: addresses and sizes of lanes.
    ranges: Vec<(u64, u64)>,
}

impl<'a, const L: usize> Meter<'a, L> {
    pub fn new(program: &'a Program<L>, plan: &'a Plan) -> Self {
        let (line, banks) = (line_bytes(program.target), banks(program.target));
        Meter { program, plan, line, banks, places: Vec::new(), ranges: Vec::new() }
    }

    /// Adds the accesses that a micro-operation is about to make.
    #[inline]
    pub fn add(&mut self, at: u32, wave: &mut Wave<L>, group: &mut Group<'_>, count: &mut Figures) {
        if self.plan.glance(at).issues() {
            self.access(at, wave, group, count);
        }
    }

    fn access(&mut self, at: u32, wave: &mut Wave<L>, group: &mut Group<'_>, count: &mut Figures) {
        let plan = self.plan;
        let Some(step) = plan.of(at).last().map(|number| plan.at(number)) else { return };
        if let Some(touch) = &step.touch {
            self.touch(at, touch, wave, group, count);
        }
        if let Some(access) = &step.lds {
            self.lds(access, wave, count);
        }
    }

    fn touch(&mut self, at: u32, touch: &Touch, wave: &mut Wave<L>, group: &mut Group<'_>, count: &mut Figures) {
        let op = &self.program.ops[at as usize];
        if touch.format == Format::Smem {
            if let Some((_, bytes)) = exec::scalar_reach(touch.is_buffer, wave, group, op, touch.bytes) {
                count.bytes += bytes;
            }
            return;
        }
        let reach = exec::reach(touch.format, touch.way, wave, group, op, touch.bytes);
        let Some(Reach { memory, partial, local, .. }) = reach else { return };
        let mut bytes = 0;
        self.places.clear();
        self.ranges.clear();
        for lane in exec::lanes_of(memory | partial) {
            let size = match partial >> lane & 1 {
                0 => u64::from(touch.bytes),
                _ => u64::from(wave.room.0[lane]).min(touch.bytes.into()),
            };
            let start = wave.addresses[lane];
            if size > 0 {
                self.places.extend(start / self.line..=start.saturating_add(size - 1) / self.line);
                self.ranges.push((start, size));
            }
            bytes += size;
        }
        self.places.sort_unstable();
        self.places.dedup();
        // Bytes that several lanes access count once.
        self.ranges.sort_unstable();
        self.ranges.dedup();
        let distinct = self.ranges.iter().map(|(_, size)| size).sum::<u64>();
        let lines = self.places.len() as u64;
        count.bytes += bytes + u64::from(local.count_ones()) * u64::from(touch.bytes);
        count.lines += lines;
        count.fewest_lines += lines.min(distinct.div_ceil(self.line));
    }

    /// Lanes are served in their order, as many at once as the banks have dwords for; each bank gives one dword to all
    /// that want it. Atomics at the same address come one after the other.
    fn lds(&mut self, access: &Access, wave: &Wave<L>, count: &mut Figures) {
        let exec = access.lanes(wave.exec() & Wave::<L>::LANES);
        for part in 0..2 {
            let at_once = exec::lanes_of(exec)
                .find_map(|lane| access.part(part, wave, lane))
                .map_or(L, |range| (self.banks / range.len().div_ceil(4)).max(1));
            for first in (0..L).step_by(at_once) {
                self.places.clear();
                let lanes = exec::lanes_of(exec).filter(|lane| (first..first + at_once).contains(lane));
                for range in lanes.filter_map(|lane| access.part(part, wave, lane)) {
                    count.bytes += range.len() as u64;
                    self.places.extend((range.start / 4..range.end.div_ceil(4)).map(|dword| dword as u64));
                }
                if self.places.is_empty() {
                    continue;
                }
                if !access.is_atomic {
                    self.places.sort_unstable();
                    self.places.dedup();
                }
                let mut wanted = [0; MOST_BANKS];
                for dword in &self.places {
                    wanted[*dword as usize % self.banks] += 1;
                }
                count.passes += wanted.into_iter().max().unwrap_or(0);
                count.fewest_passes += 1;
            }
        }
    }
}

/// Figures of the instructions in one thread of a dispatch.
pub(crate) struct Profile<'a, const L: usize> {
    meter: Meter<'a, L>,
    sink: &'a dyn Collect,
    /// Figures of each micro-operation.
    counts: Vec<Figures>,
    /// The lanes that each wave of the workgroup began with.
    began: Vec<u64>,
}

impl<'a, const L: usize> Profile<'a, L> {
    pub fn new(program: &'a Program<L>, plan: &'a Plan, sink: &'a dyn Collect) -> Self {
        let counts = vec![Figures::default(); program.ops.len()];
        Profile { meter: Meter::new(program, plan), sink, counts, began: Vec::new() }
    }
}

impl<const L: usize> Observer<L> for Profile<'_, L> {
    fn begin(&mut self, _: [u32; 3], waves: &[Wave<L>], _: &Group<'_>) {
        self.began.clear();
        self.began.extend(waves.iter().map(|wave| wave.exec() & Wave::<L>::LANES));
    }

    #[inline]
    fn before(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        let exec = wave.exec() & Wave::<L>::LANES;
        let count = &mut self.counts[op as usize];
        count.times += 1;
        count.lanes += u64::from(exec.count_ones());
        count.divergent += u64::from(exec != 0 && exec != self.began[wave.index as usize]);
        self.meter.add(op, wave, group, count);
        Ok(())
    }
}

impl<const L: usize> Drop for Profile<'_, L> {
    fn drop(&mut self) {
        let mut figures = Vec::new();
        for (op, count) in self.counts.iter().enumerate().filter(|(_, count)| count.times > 0) {
            let plan = self.meter.plan;
            for step in plan.of(op as u32).map(|number| plan.at(number)) {
                let Figures { times, lanes, divergent, .. } = *count;
                figures.push(match step.runs {
                    true => Figures { offset: step.offset, ..*count },
                    false => Figures { offset: step.offset, times, lanes, divergent, ..Figures::default() },
                });
            }
        }
        self.sink.collect(&figures);
    }
}
