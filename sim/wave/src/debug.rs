// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Waves under a debugger: stops before instructions and at faults, the state of a stopped workgroup, and its way back
//! to an earlier state.
//!
//! A [`Debugger`] is the [`Observer`] of each running workgroup. A [`Debug`] decides before which instructions a wave
//! stops, and looks at the workgroup while it is stopped. No wave of the dispatch runs meanwhile.
//!
//! A workgroup on one thread always runs in the same way. So it goes back in time by its beginning: the [`Snapshot`] of
//! its waves and LDS, and the [`Journal`] of memory that it has overwritten since. From there it runs again, and the
//! [`Debug`] chooses the instruction to stop at. Checks have seen these instructions and do not see them again.

use crate::fault::{Access, FaultKind};
use crate::journal::Journal;
use crate::micro_op::{Step as Progress, Stop};
use crate::observer::{Held, Observer};
use crate::program::Program;
use crate::sanitizer::{Meeting, Plan, Sanitizer};
use crate::wave::{Group, Named, State, Wave};

/// An instruction that a wave is about to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The wave's workgroup.
    pub workgroup: [u32; 3],
    /// The wave's number in it.
    pub wave: u32,
    /// Address of the instruction.
    pub pc: u64,
    /// Number of instructions that waves of the workgroup have executed before this one.
    pub time: u64,
    /// True if the wave ends with it.
    pub ends: bool,
}

/// A wave's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progresses {
    /// The wave has a next instruction.
    Runs,
    /// The wave waits at a barrier.
    Waits,
    /// The wave has ended.
    Ended,
}

/// Continuation of a stopped workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// The wave goes on with the instruction at which it has stopped. A fault ends the dispatch.
    On,
    /// The workgroup starts again at [`Stopped::start`]; not allowed without one.
    Back,
    /// The dispatch ends with a fault that says so.
    End,
}

/// A debugger. Called on the thread that runs the wave.
pub trait Debug: Sync {
    /// True to stop before the instruction of `event`. Called for each instruction, in order; after [`Go::Back`] again
    /// for those since the start.
    fn stops(&self, event: &Event) -> bool;

    /// Looks at a stopped workgroup. Called after [`Debug::stops`] has returned true, and at faults.
    fn stopped(&self, stopped: &mut dyn Stopped) -> Go;
}

/// A stopped workgroup. Numbers of waves are less than [`Stopped::waves`].
pub trait Stopped {
    /// Id of the workgroup.
    fn workgroup(&self) -> [u32; 3];

    /// The wave that has stopped it.
    fn wave(&self) -> u32;

    /// Text of the fault that has stopped it.
    fn fault(&self) -> Option<String>;

    /// Number of its waves.
    fn waves(&self) -> u32;

    /// Progress of a wave.
    fn progress(&self, wave: u32) -> Progresses;

    /// Address of a wave's next instruction, or of the one that has faulted.
    fn pc(&self, wave: u32) -> u64;

    /// Number of instructions that a wave has executed, no-ops among them as far as later ones have run.
    fn count(&self, wave: u32) -> u64;

    /// Number of lanes of a wave.
    fn lanes(&self) -> u32;

    /// Numbers of vector registers and of accumulation registers.
    fn vector_registers(&self) -> (usize, usize);

    /// Values of a vector register by lane. Accumulation registers are numbered behind the others.
    fn vector(&self, wave: u32, register: usize) -> Option<&[u32]>;

    /// A scalar register, numbered as operands are encoded; `None` from 128 on.
    fn scalar(&self, wave: u32, register: usize) -> Option<u32>;

    /// The scalar condition code.
    fn scc(&self, wave: u32) -> bool;

    /// The MODE register, as far as it is modelled.
    fn mode(&self, wave: u32) -> u32;

    /// The workgroup's LDS.
    fn lds(&self) -> &[u8];

    /// Private memory of a lane.
    fn scratch(&self, wave: u32, lane: u32) -> Vec<u8>;

    /// Reads global memory behind the modelled caches. The error says why it cannot be read.
    fn read(&mut self, address: u64, size: u32) -> Result<Vec<u8>, String>;

    /// Number of instructions that the workgroup has executed.
    fn time(&self) -> u64;

    /// Time of the earliest state that is kept; the error says why there is none.
    fn start(&self) -> Result<u64, &'static str>;
}

/// State of a workgroup that it can go back to.
struct Snapshot<const L: usize> {
    waves: Vec<Wave<L>>,
    states: Vec<State>,
    lds: Vec<u8>,
    beyond_lds: [u8; 16],
    /// [`Group::waves`] and [`Group::arrived`].
    barrier: (u32, u32),
    named: Vec<Named>,
    time: u64,
    ops: u64,
}

/// Observer of a running workgroup, and of those that reuse its storage.
pub(crate) struct Debugger<'a, const L: usize> {
    program: &'a Program<L>,
    plan: &'a Plan,
    vectors: usize,
    debug: &'a dyn Debug,
    journal: &'a Journal<'a>,
    /// Tells the running workgroups of a dispatch apart.
    id: u64,
    checks: Option<Sanitizer<'a, L>>,
    workgroup: [u32; 3],
    /// Instructions executed, and micro-operations begun.
    time: u64,
    ops: u64,
    /// Micro-operations that the checks have seen before and after they ran.
    checked: u64,
    followed: u64,
    /// The instruction at which a wave has stopped.
    stop: Option<u32>,
    start: Option<Snapshot<L>>,
}

impl<'a, const L: usize> Debugger<'a, L> {
    pub fn new(
        (program, plan, vectors): (&'a Program<L>, &'a Plan, usize),
        debug: &'a dyn Debug,
        journal: &'a Journal<'a>,
        checks: Option<Sanitizer<'a, L>>,
    ) -> Self {
        Debugger {
            program,
            plan,
            vectors,
            debug,
            journal,
            id: journal.number(),
            checks,
            workgroup: [0; 3],
            time: 0,
            ops: 0,
            checked: 0,
            followed: 0,
            stop: None,
            start: None,
        }
    }

    fn keep(&mut self, held: &Held<'_, '_, L>) {
        let group = &*held.group;
        self.start = Some(Snapshot {
            waves: held.waves.to_vec(),
            states: held.states.to_vec(),
            lds: group.lds.clone(),
            beyond_lds: group.beyond_lds,
            barrier: (group.waves, group.arrived),
            named: group.named.clone(),
            time: self.time,
            ops: self.ops,
        });
    }

    fn go_back(&mut self, held: Held<'_, '_, L>) {
        let Some(start) = &self.start else { return };
        self.journal.undo();
        held.waves.clone_from_slice(&start.waves);
        held.states.copy_from_slice(&start.states);
        let group = held.group;
        group.lds.copy_from_slice(&start.lds);
        group.beyond_lds = start.beyond_lds;
        (group.waves, group.arrived) = start.barrier;
        group.named.clone_from(&start.named);
        (self.time, self.ops) = (start.time, start.ops);
        self.stop = None;
    }

    /// Address of the first instruction of a micro-operation.
    fn pc(&self, op: u32) -> u64 {
        let steps = self.plan.of(op);
        let offset = match steps.is_empty() {
            true => self.program.ops.get(op as usize).map_or(0, |op| op.offset),
            false => self.plan.at(steps.start).offset,
        };
        self.program.base + u64::from(offset)
    }
}

impl<const L: usize> Observer<L> for Debugger<'_, L> {
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], group: &Group<'_>) {
        self.workgroup = workgroup;
        (self.time, self.ops, self.checked, self.followed) = (0, 0, 0, 0);
        (self.stop, self.start) = (None, None);
        if let Some(checks) = &mut self.checks {
            checks.begin(workgroup, waves, group);
        }
    }

    fn before(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        let steps = self.plan.of(op);
        let resumed = self.stop.take();
        if resumed.is_none() {
            self.ops += 1;
            if self.ops > self.checked {
                self.checked = self.ops;
                if let Some(checks) = &mut self.checks {
                    checks.before(op, wave, group)?;
                }
            }
        }
        for number in resumed.unwrap_or(steps.start)..steps.end {
            let step = self.plan.at(number);
            let event = Event {
                workgroup: self.workgroup,
                wave: wave.index,
                pc: self.program.base + u64::from(step.offset),
                time: self.time,
                ends: step.meeting == Meeting::End,
            };
            if resumed != Some(number) && self.debug.stops(&event) {
                self.stop = Some(number);
                wave.next -= 1;
                wave.count -= u64::from(self.program.ops[op as usize].count);
                return Err(Stop::Pause);
            }
            self.time += 1;
        }
        Ok(())
    }

    fn after(&mut self, op: u32, wave: &mut Wave<L>) -> Progress {
        if self.ops <= self.followed {
            return Ok(());
        }
        self.followed = self.ops;
        self.checks.as_mut().map_or(Ok(()), |checks| checks.after(op, wave))
    }

    fn stuck(&mut self, wave: &Wave<L>, group: &Group<'_>) {
        if let Some(checks) = self.checks.as_mut().filter(|_| self.ops >= self.checked) {
            checks.stuck(wave, group);
        }
    }

    fn resume(&mut self, held: Held<'_, '_, L>) {
        let others_ran = self.journal.enter(self.id);
        if self.start.is_none() || others_ran {
            self.journal.clear();
            self.keep(&held);
        }
    }

    fn paused(&mut self, wave: usize, fault: Option<&FaultKind>, held: Held<'_, '_, L>) -> Result<bool, FaultKind> {
        let next = held.waves[wave].next;
        let pc = match (fault, self.stop) {
            (None, Some(number)) => self.program.base + u64::from(self.plan.at(number).offset),
            (Some(FaultKind::Cancelled { .. }), _) | (None, None) => self.pc(next),
            (Some(_), _) => {
                let op = &self.program.ops[next.saturating_sub(1) as usize];
                self.program.base + u64::from(op.offset)
            }
        };
        let mut view = View { debugger: self, held, wave, pc, fault };
        let (go, debug) = (Go::On, view.debugger.debug);
        let go = if matches!(fault, Some(FaultKind::Cancelled { .. })) { go } else { debug.stopped(&mut view) };
        let View { held, .. } = view;
        match go {
            Go::On => Ok(false),
            Go::Back => {
                self.go_back(held);
                Ok(true)
            }
            Go::End => Err(FaultKind::Found("ended by the debugger".into())),
        }
    }
}

/// A stopped workgroup as a [`Debug`] sees it.
struct View<'v, 'h, 'a, const L: usize> {
    debugger: &'v Debugger<'v, L>,
    held: Held<'h, 'a, L>,
    wave: usize,
    pc: u64,
    fault: Option<&'v FaultKind>,
}

impl<const L: usize> View<'_, '_, '_, L> {
    fn of(&self, wave: u32) -> &Wave<L> {
        &self.held.waves[wave as usize]
    }
}

impl<const L: usize> Stopped for View<'_, '_, '_, L> {
    fn workgroup(&self) -> [u32; 3] {
        self.debugger.workgroup
    }

    fn wave(&self) -> u32 {
        self.wave as u32
    }

    fn fault(&self) -> Option<String> {
        self.fault.map(ToString::to_string)
    }

    fn waves(&self) -> u32 {
        self.held.states.len() as u32
    }

    fn progress(&self, wave: u32) -> Progresses {
        match self.held.states[wave as usize] {
            State::Ready => Progresses::Runs,
            State::AtBarrier => Progresses::Waits,
            State::Ended => Progresses::Ended,
        }
    }

    fn pc(&self, wave: u32) -> u64 {
        let next = self.of(wave).next;
        match self.progress(wave) {
            _ if wave as usize == self.wave => self.pc,
            Progresses::Ended => self.debugger.pc(next.saturating_sub(1)),
            _ => self.debugger.pc(next),
        }
    }

    fn count(&self, wave: u32) -> u64 {
        self.of(wave).count
    }

    fn lanes(&self) -> u32 {
        L as u32
    }

    fn vector_registers(&self) -> (usize, usize) {
        let vectors = self.debugger.vectors;
        (vectors, self.of(0).vgprs - vectors)
    }

    fn vector(&self, wave: u32, register: usize) -> Option<&[u32]> {
        let wave = self.of(wave);
        wave.v[..wave.vgprs].get(register).map(|row| &row.0[..])
    }

    fn scalar(&self, wave: u32, register: usize) -> Option<u32> {
        self.of(wave).s[..crate::hardware::slot::COUNT].get(register).copied()
    }

    fn scc(&self, wave: u32) -> bool {
        self.of(wave).scc
    }

    fn mode(&self, wave: u32) -> u32 {
        self.of(wave).mode
    }

    fn lds(&self) -> &[u8] {
        &self.held.group.lds
    }

    fn scratch(&self, wave: u32, lane: u32) -> Vec<u8> {
        self.of(wave).scratch.iter().flat_map(|row| row.0[lane as usize].to_le_bytes()).collect()
    }

    fn read(&mut self, address: u64, size: u32) -> Result<Vec<u8>, String> {
        let host = self.held.group.memory.check(address, size, Access::Read, 0).map_err(|kind| kind.to_string())?;
        let mut bytes = vec![0; size as usize];
        // SAFETY: `check` found `size` bytes readable there, which stay mapped while the dispatch runs. The host may
        // write them at the same time, as it may during any read of a kernel.
        unsafe { std::ptr::copy(host as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(bytes)
    }

    fn time(&self) -> u64 {
        self.debugger.time
    }

    fn start(&self) -> Result<u64, &'static str> {
        self.debugger.journal.is_whole()?;
        self.debugger.start.as_ref().map(|start| start.time).ok_or("the workgroup has no earlier state")
    }
}
