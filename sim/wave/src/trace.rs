// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What waves do, told as they do it. A [`Trace`] is the [`Observer`] of each thread of a dispatch.

use crate::micro_op::Step as Progress;
use crate::observer::Observer;
use crate::program::Program;
use crate::sanitizer::{Line, Meeting, Plan};
use crate::wave::{Group, Wave};

/// Is told what waves do, from every thread that runs them.
pub trait Listener: Sync {
    /// Whether each instruction is wanted, or only that waves begin and end.
    fn wants_instructions(&self) -> bool;

    /// A line of text.
    fn hear(&self, text: &str);
}

/// Tells of one thread of a dispatch.
pub(crate) struct Trace<'a, const L: usize> {
    kernel: &'a str,
    program: &'a Program<L>,
    plan: &'a Plan,
    listener: &'a dyn Listener,
    workgroup: [u32; 3],
}

impl<'a, const L: usize> Trace<'a, L> {
    pub fn new(kernel: &'a str, program: &'a Program<L>, plan: &'a Plan, listener: &'a dyn Listener) -> Self {
        Trace { kernel, program, plan, listener, workgroup: [0; 3] }
    }

    fn tell(&self, wave: &Wave<L>, what: &str) {
        let [x, y, z] = self.workgroup;
        self.listener.hear(&format!("{} ({x}, {y}, {z}) wave {}: {what}", self.kernel, wave.index));
    }
}

impl<const L: usize> Observer<L> for Trace<'_, L> {
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], _: &Group<'_>) {
        self.workgroup = workgroup;
        for wave in waves {
            self.tell(wave, &format!("begins with lanes {:#x}", wave.exec() & Wave::<L>::LANES));
        }
    }

    fn before(&mut self, op: u32, wave: &mut Wave<L>, _: &mut Group<'_>) -> Progress {
        let steps = self.plan.of(op).map(|number| self.plan.at(number));
        for step in steps {
            if self.listener.wants_instructions() {
                let lanes = wave.exec() & Wave::<L>::LANES;
                let line = Line::of(self.program, step.offset);
                self.tell(wave, &format!("+{:#x}  {}  ; lanes {lanes:#x}", step.offset, line.text));
            }
            if step.meeting == Meeting::End {
                self.tell(wave, &format!("ends after {} instructions", wave.count));
            }
        }
        Ok(())
    }

    fn after(&mut self, _: u32, _: &mut Wave<L>) -> Progress {
        Ok(())
    }

    fn stuck(&mut self, _: &Wave<L>, _: &Group<'_>) {}
}
