// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Traces of waves as they run. A [`Trace`] is the [`Observer`] of each thread of a dispatch.

use crate::hardware::slot;
use crate::micro_op::Step as Progress;
use crate::observer::Observer;
use crate::program::Program;
use crate::sanitizer::{Line, Meeting, Plan};
use crate::wave::{Group, Row, Wave};

/// Receiver of traces. Called from every thread that runs waves.
pub trait Listener: Sync {
    /// True to trace each instruction, false for the start and end of waves only.
    fn wants_instructions(&self) -> bool;

    /// Receives a line of text.
    fn hear(&self, text: &str);

    /// True to trace a wave, given its workgroup and its number in it.
    fn wants(&self, _workgroup: [u32; 3], _wave: u32) -> bool {
        true
    }

    /// Source file and line of the instruction at an address; `None` if unknown.
    fn source(&self, _pc: u64) -> Option<String> {
        None
    }
}

/// Tracer of one thread of a dispatch.
pub(crate) struct Trace<'a, const L: usize> {
    kernel: &'a str,
    program: &'a Program<L>,
    plan: &'a Plan,
    listener: &'a dyn Listener,
    workgroup: [u32; 3],
    /// Old values of the registers that the current micro-operation may change.
    old: Option<Old<L>>,
}

/// Registers before a micro-operation.
struct Old<const L: usize> {
    rows: Vec<(u16, Row<L>)>,
    slots: [u32; slot::PADDED],
    scc: bool,
}

impl<'a, const L: usize> Trace<'a, L> {
    pub fn new(kernel: &'a str, program: &'a Program<L>, plan: &'a Plan, listener: &'a dyn Listener) -> Self {
        Trace { kernel, program, plan, listener, workgroup: [0; 3], old: None }
    }

    /// Describes the change of a vector register as one value, or as values by lane; `None` if it is unchanged.
    fn vector_change(&self, n: u16, old: &Row<L>, new: &Row<L>) -> Option<String> {
        let lanes: Vec<usize> = (0..L).filter(|lane| old.0[*lane] != new.0[*lane]).collect();
        let first = new.0[*lanes.first()?];
        let set = lanes.iter().fold(0u64, |set, lane| set | 1 << lane);
        let name = self.plan.name(n);
        Some(match lanes.iter().all(|lane| new.0[*lane] == first) {
            true => format!("{name} = {first:#x} in lanes {set:#x}"),
            false => {
                let values: Vec<String> = lanes.iter().map(|lane| format!("{:#x}", new.0[*lane])).collect();
                format!("{name} = [{}] in lanes {set:#x}", values.join(" "))
            }
        })
    }

    fn tell(&self, wave: &Wave<L>, what: &str) {
        let [x, y, z] = self.workgroup;
        self.listener.hear(&format!("{} ({x}, {y}, {z}) wave {}: {what}", self.kernel, wave.index));
    }
}

impl<const L: usize> Observer<L> for Trace<'_, L> {
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], _: &Group<'_>) {
        self.workgroup = workgroup;
        for wave in waves.iter().filter(|wave| self.listener.wants(workgroup, wave.index)) {
            self.tell(wave, &format!("begins with lanes {:#x}", wave.exec() & Wave::<L>::LANES));
        }
    }

    fn before(&mut self, op: u32, wave: &mut Wave<L>, _: &mut Group<'_>) -> Progress {
        if !self.listener.wants(self.workgroup, wave.index) {
            return Ok(());
        }
        let steps = self.plan.of(op).map(|number| self.plan.at(number));
        for step in steps {
            if self.listener.wants_instructions() {
                let lanes = wave.exec() & Wave::<L>::LANES;
                let line = Line::of(self.program, step.offset);
                let source = self.listener.source(line.pc).map_or(String::new(), |source| format!(", {source}"));
                self.tell(wave, &format!("+{:#x}  {}  ; lanes {lanes:#x}{source}", step.offset, line.text));
            }
            if step.meeting == Meeting::End {
                self.tell(wave, &format!("ends after {} instructions", wave.count));
            }
        }
        self.old = self.listener.wants_instructions().then(|| {
            let spans = self.plan.of(op).flat_map(|number| self.plan.writes(self.plan.at(number)));
            let numbers = spans.flat_map(|span| span.first..span.first + span.count);
            let rows = numbers.filter(|n| *n < self.plan.scalars).map(|n| (n, wave.v[usize::from(n)])).collect();
            Old { rows, slots: wave.s, scc: wave.scc }
        });
        Ok(())
    }

    fn after(&mut self, _: u32, wave: &mut Wave<L>) -> Progress {
        let Some(old) = self.old.take() else { return Ok(()) };
        let mut changes: Vec<String> = Vec::new();
        for (n, row) in &old.rows {
            changes.extend(self.vector_change(*n, row, &wave.v[usize::from(*n)]));
        }
        for (at, (old, new)) in old.slots.iter().zip(&wave.s).enumerate().take(slot::COUNT) {
            if old != new {
                changes.push(format!("{} = {new:#x}", self.plan.name(self.plan.scalars + at as u16)));
            }
        }
        if old.scc != wave.scc {
            changes.push(format!("scc = {}", u8::from(wave.scc)));
        }
        if !changes.is_empty() {
            self.tell(wave, &format!("  {}", changes.join(", ")));
        }
        Ok(())
    }
}
