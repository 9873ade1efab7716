// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A kernel's instructions as micro-operations, and their execution by a wave.

use crate::fault::FaultKind;
use crate::jit::{self, Blocks, Compiled, Context, Jit, LOOK, Source};
use crate::micro_op::{MicroOp, Stop};
use crate::observer::{NoObserver, Observer};
use crate::wave::{Group, Wave};
use sim_isa::{DecodeError, Format, Inst, Target};

/// Backward branches that a wave takes before others get a turn.
pub(crate) const BRANCH_BUDGET: u32 = 1 << 14;
/// Backward branches that a wave takes before others get a turn, where others cannot use the caches meanwhile.
pub(crate) const BRANCH_BUDGET_WITH_CACHES: u32 = 1 << 6;

/// Marks offsets where no instruction starts.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Reason that an instruction cannot run.
pub(crate) enum Refusal {
    /// Decoder error, interpreted only if it is reached: where calls may go anywhere, each dword is decoded.
    Undecoded(DecodeError),
    Fault(FaultKind),
}

impl Refusal {
    /// Fault of the refusal. A decoder error with a mnemonic is [`FaultKind::NotImplemented`].
    fn fault(&self) -> FaultKind {
        match self {
            Self::Undecoded(error) if error.mnemonic().is_some() => FaultKind::NotImplemented(error.reason()),
            Self::Undecoded(error) => FaultKind::InvalidEncoding(error.reason()),
            Self::Fault(kind) => kind.clone(),
        }
    }
}

/// The instructions that can be reached from an entry point.
pub(crate) struct Program<const L: usize> {
    pub ops: Vec<MicroOp<L>>,
    /// Micro-operation of each dword of the code.
    pub index: Vec<u32>,
    /// Reasons that some instructions cannot run, which are reported if they are reached.
    pub refusals: Vec<Refusal>,
    /// Constants that vector instructions read, in the rows after the spare ones.
    pub constants: Vec<u32>,
    /// The row of the first constant.
    pub first_constant: usize,
    /// Host code of the program, once it has run for long.
    pub compiled: Compiled<L>,
    /// Address of the code.
    pub base: u64,
    pub words: Vec<u32>,
    pub target: Target,
    pub entry: u32,
}

impl<const L: usize> Program<L> {
    /// Executes a wave of workgroup `workgroup` until it ends, waits at a barrier, yields or faults. It yields after
    /// `branch_budget` backward branches, and leaves the unused rest of these in [`Wave::branch_budget`].
    pub fn run_slice<O: Observer<L>>(
        &self,
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
        workgroup: u64,
        branch_budget: u32,
        observer: &mut O,
    ) -> Stop {
        wave.branch_budget = branch_budget;
        if !group.memory.begin_turn(workgroup, wave.index) {
            if !observer.jit().is_off() {
                return self.turn_compiled(wave, group, observer.jit());
            }
            return self.run_until_stop::<false, O>(wave, group, observer);
        }
        let stop = self.run_until_stop::<true, O>(wave, group, observer);
        group.memory.end_turn();
        stop
    }

    fn run_until_stop<const CACHES: bool, O: Observer<L>>(
        &self,
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
        observer: &mut O,
    ) -> Stop {
        loop {
            let at = wave.next;
            let op = &self.ops[at as usize];
            if CACHES {
                group.memory.cache(&op.caching);
            }
            wave.next += 1;
            wave.count += u64::from(op.count);
            if let Err(stop) = observer.before(at, wave, group) {
                return stop;
            }
            // SAFETY: the handler was selected for a level that this CPU has.
            let step = unsafe { (op.run)(wave, group, op) };
            match step {
                Ok(()) => {
                    if let Err(stop) = observer.after(at, wave) {
                        return stop;
                    }
                }
                Err(stop) => {
                    if let Some(stop) = self.stopped(stop, wave) {
                        return stop;
                    }
                }
            }
        }
    }

    /// Follows a jump. Returns the reason to leave the loop where that is another one.
    #[inline]
    fn stopped(&self, stop: Stop, wave: &mut Wave<L>) -> Option<Stop> {
        match stop {
            Stop::Jump(address) => {
                let Some(index) = self.at(address) else {
                    return Some(Stop::Fault(Box::new(FaultKind::PcOutOfRange(address))));
                };
                wave.next = index;
                wave.branch_budget -= 1;
                (wave.branch_budget == 0).then_some(Stop::Yield)
            }
            Stop::Refused => {
                let refusal = self.ops[wave.next as usize - 1].target;
                Some(Stop::Fault(Box::new(self.refusals[refusal as usize].fault())))
            }
            stop => Some(stop),
        }
    }

    /// `wave`: one that runs the program.
    fn source<'a>(&'a self, wave: &'a Wave<L>, jit: Jit) -> Source<'a, L> {
        let &Self { ref ops, entry, ref constants, first_constant, target, .. } = self;
        let (from, is_narrow) = (wave.next, jit.is_narrow());
        Source { ops, entry, from, constants, first_constant, target, is_narrow, rows: &wave.v }
    }

    /// [`Self::run_slice`] without caches and observers, by the program's compiled code once it has any. A program that
    /// is not compiled runs in the interpreter, for so many backward branches at a time.
    fn turn_compiled(&self, wave: &mut Wave<L>, group: &mut Group<'_>, jit: Jit) -> Stop {
        if jit.is_eager() {
            self.compiled.compile(self.source(wave, jit), jit.is_checked());
        }
        loop {
            if let Some(blocks) = self.compiled.get() {
                return self.run_blocks(blocks, wave, group, jit.is_checked());
            }
            let before = (wave.branch_budget, wave.count);
            let slice = wave.branch_budget.min(LOOK);
            wave.branch_budget = slice;
            let stop = self.run_until_stop::<false, NoObserver>(wave, group, &mut NoObserver(Jit::OFF));
            let has_run_out = wave.branch_budget == 0;
            wave.branch_budget += before.0 - slice;
            let is_final = self.compiled.heat(self.source(wave, jit), wave.count - before.1);
            if !has_run_out || wave.branch_budget == 0 || !matches!(stop, Stop::Yield) {
                return stop;
            }
            if is_final && self.compiled.get().is_none() {
                return self.run_until_stop::<false, NoObserver>(wave, group, &mut NoObserver(Jit::OFF));
            }
        }
    }

    /// Runs compiled blocks where there are any, and the interpreter between them.
    fn run_blocks(&self, blocks: &Blocks<L>, wave: &mut Wave<L>, group: &mut Group<'_>, is_checked: bool) -> Stop {
        let mut context = Context::new(wave, group);
        loop {
            let at = wave.next;
            let stop = match blocks.at(at, wave) {
                Some(run) if is_checked => match jit::check(&self.ops, run, wave, group) {
                    Ok(None) => continue,
                    Ok(Some(stop)) => stop,
                    Err(difference) => return Stop::Fault(Box::new(FaultKind::Found(difference))),
                },
                Some(run) => {
                    let rows = wave.v.as_mut_ptr();
                    // SAFETY: the code is of this program, and `rows` are the wave's.
                    if !unsafe { run(wave, group, rows, &mut context) } {
                        continue;
                    }
                    context.stop()
                }
                None => {
                    let op = &self.ops[at as usize];
                    if !op.code.is_some_and(|code| code.info().encodings[0].format == Format::Sopp) {
                        wave.places.known = 0;
                    }
                    wave.next += 1;
                    wave.count += u64::from(op.count);
                    // SAFETY: the handler was selected for a level that this CPU has.
                    match unsafe { (op.run)(wave, group, op) } {
                        Ok(()) => continue,
                        Err(stop) => stop,
                    }
                }
            };
            if let Some(stop) = self.stopped(stop, wave) {
                return stop;
            }
        }
    }

    /// The instructions that decode, no-ops among them, by their place in [`Self::words`], each with its
    /// micro-operation.
    pub fn instructions(&self) -> impl Iterator<Item = (usize, u32, Inst)> {
        let places = self.index.iter().enumerate().filter(|(_, op)| **op != NOWHERE);
        places.filter_map(|(at, &op)| Some((at, op, sim_isa::decode(self.target, &self.words[at..]).ok()?)))
    }

    /// The micro-operation at an address.
    pub fn at(&self, address: u64) -> Option<u32> {
        let offset = address.wrapping_sub(self.base);
        let index = *self.index.get(usize::try_from(offset / 4).ok()?)?;
        (offset.is_multiple_of(4) && index != NOWHERE).then_some(index)
    }
}
