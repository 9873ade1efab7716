// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Barrier check: arrivals of a workgroup's waves at its barrier.

use super::plan::Meeting;

/// State of a wave at barriers.
#[derive(Clone, Copy, Default)]
struct Visitor {
    /// Mask of the lanes that the wave began with.
    lanes: u64,
    signals: u32,
    waits: u32,
    /// Number of the instruction of its last barrier.
    last: u32,
    /// Mask of the lanes that were inactive at a barrier, and the instruction of that barrier.
    absent: u64,
    absent_at: u32,
    /// Instruction at which it ended.
    end: Option<u32>,
}

/// All waves of a workgroup.
#[derive(Default)]
pub(super) struct Meetings(Vec<Visitor>);

/// Problem to report: its description, the other instruction involved, and the mask of the lanes.
pub(super) struct Disorder {
    pub what: String,
    pub other: Option<u32>,
    pub lanes: u64,
    /// Address in memory, if it concerns one.
    pub memory: Option<u64>,
}

impl Meetings {
    /// Begins a workgroup, given the lane mask of each wave.
    pub fn begin(&mut self, waves: impl Iterator<Item = u64>) {
        self.0.clear();
        self.0.extend(waves.map(|lanes| Visitor { lanes, ..Visitor::default() }));
    }

    /// Checks instruction `step`, which a wave reaches with the lanes `exec`.
    pub fn step(&mut self, wave: usize, meeting: Meeting, step: u32, exec: u64) -> Option<Disorder> {
        let visitor = &mut self.0[wave];
        let (returned, absent_at) = (visitor.absent & exec, visitor.absent_at);
        let goes_on = returned != 0 && meeting != Meeting::End;
        if goes_on {
            visitor.absent = 0;
        }
        let disorder = match meeting {
            Meeting::None | Meeting::Write | Meeting::Named(_) => None,
            Meeting::End => self.end(wave, step),
            Meeting::Signal | Meeting::Wait | Meeting::Both => self.barrier(wave, meeting, step, exec),
        };
        let what = "divergent barrier: these lanes were inactive when their wave reached it, and continue after it";
        disorder.or_else(|| {
            goes_on.then(|| Disorder { what: what.to_owned(), other: Some(absent_at), lanes: returned, memory: None })
        })
    }

    fn barrier(&mut self, wave: usize, meeting: Meeting, step: u32, exec: u64) -> Option<Disorder> {
        let visitor = &mut self.0[wave];
        visitor.absent |= visitor.lanes & !exec;
        (visitor.absent_at, visitor.last) = (step, step);
        let (signals, waits) = (visitor.signals, visitor.waits);
        visitor.signals += u32::from(meeting != Meeting::Wait);
        visitor.waits += u32::from(meeting != Meeting::Signal);
        let now = visitor.signals;
        let wrong = |what: &str| Some(Disorder { what: what.to_owned(), other: None, lanes: 0, memory: None });
        match meeting {
            Meeting::Signal if signals > waits => {
                return wrong("second signal of the barrier without a wait since the first");
            }
            Meeting::Wait if waits >= signals => {
                return wrong("wait for the barrier without a signal before");
            }
            _ => {}
        }
        let (other, gone) = self.0.iter().enumerate().find(|(_, other)| other.end.is_some() && other.signals < now)?;
        let what = format!(
            "divergent barrier: the wave has reached barrier number {now}, wave {other} has ended after {} barriers",
            gone.signals
        );
        Some(Disorder { what, other: gone.end, lanes: 0, memory: None })
    }

    fn end(&mut self, wave: usize, step: u32) -> Option<Disorder> {
        let visitor = &mut self.0[wave];
        visitor.end = Some(step);
        let visitor = *visitor;
        if visitor.signals > visitor.waits {
            let what = "end of the wave after a signal of the barrier without a wait".to_owned();
            return Some(Disorder { what, other: Some(visitor.last), lanes: 0, memory: None });
        }
        let (other, ahead) = self.0.iter().enumerate().find(|(_, other)| other.signals > visitor.signals)?;
        let what = format!(
            "divergent barrier: the wave ends after {} barriers, wave {other} has reached barrier number {}",
            visitor.signals, ahead.signals
        );
        Some(Disorder { what, other: Some(ahead.last), lanes: 0, memory: None })
    }

    /// Describes a barrier that a wave waits for and others have not signalled: the wave's instruction and the state of
    /// the others.
    pub fn stuck(&self, wave: usize) -> (u32, String) {
        let visitor = &self.0[wave];
        let mut what = format!("deadlock at barrier number {}", visitor.waits);
        for (other, behind) in self.0.iter().enumerate().filter(|(_, other)| other.signals < visitor.waits) {
            what += &format!("; wave {other} has signalled {} barriers", behind.signals);
        }
        (visitor.last, what)
    }
}
