// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Running a kernel over a grid: workgroups over threads, waves of a workgroup in turns on one thread.
//!
//! Workgroups may wait for each other if the GPU holds them at the same time. So a workgroup that runs for long yields
//! to others on its thread, which begins further ones as long as the GPU has room ([`Launch::resident`]). Most
//! workgroups end before that, and run one after the other. A time slice is measured in actions of waves, so that a
//! dispatch on one thread always runs in the same way.

use crate::count::Count;
use crate::debug::Debugger;
use crate::fault::{Access, Fault, FaultKind};
use crate::hardware::lds_bytes;
use crate::hardware::slot;
use crate::journal::Journal;
use crate::kernel::{Code, Kernel};
use crate::launch::{Counters, Launch, MAX_WORKGROUP, Observers, Watch};
use crate::memory::{Memory, Translator};
use crate::micro_op::Stop;
use crate::observer::{Held, NoObserver, Observer};
use crate::profile::Profile;
use crate::program::{BRANCH_BUDGET, BRANCH_BUDGET_WITH_CACHES, Program};
use crate::sanitizer::{Checks, Sanitizer, Shared};
use crate::steps::Steps;
use crate::trace::Trace;
use crate::wave::{Group, Named, Row, State, Wave};
use hsa_abi::KernelDispatchPacket;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Work that one thread does before the others are started: most dispatches of a real program are over by then.
const ALONE: Duration = Duration::from_micros(60);

/// Branch budget of a workgroup before others get a turn: backward branches of the wave that makes most of them, in one
/// turn or several. The budget is smaller where several workgroups are under way on a thread.
const SLICE: u32 = BRANCH_BUDGET;
const SHARED_SLICE: u32 = 1 << 10;
/// Cost in backward branches of a round in which a wave sleeps: it likely waits for others.
const SLEEP: u32 = 1 << 8;

/// Runs a kernel to its end. Workgroups start in order. With one thread they also run one after the other, except long
/// ones, which take turns.
///
/// # Errors
/// The first fault of any wave; the other waves then stop at their next turn, with the grid partly done.
pub fn run(kernel: &Kernel, launch: &Launch<'_>, memory: &dyn Memory) -> Result<Counters, Box<Fault>> {
    match &kernel.code {
        Code::Wave32(program) => run_program(kernel, program, launch, memory),
        Code::Wave64(program) => run_program(kernel, program, launch, memory),
    }
}

fn run_program<const L: usize>(
    kernel: &Kernel,
    program: &Program<L>,
    launch: &Launch<'_>,
    memory: &dyn Memory,
) -> Result<Counters, Box<Fault>> {
    let dispatch = Dispatch::new(kernel, program, launch, memory)?;
    match launch.watch {
        None => dispatch.run(|| NoObserver(launch.jit)),
        Some(Watch::Profile(sink)) => {
            let plan = kernel.plan(program);
            dispatch.run(|| Profile::new(program, plan, sink))
        }
        Some(Watch::Trace(listener)) => {
            let plan = kernel.plan(program);
            dispatch.run(|| Trace::new(&kernel.name, program, plan, listener))
        }
        Some(Watch::Count(sink)) => {
            let plan = kernel.plan(program);
            dispatch.run(|| Count::new(program, plan, sink))
        }
        Some(Watch::Steps(sink)) => dispatch.run(|| Steps::new(program, sink)),
        Some(Watch::Checks(checks)) => {
            let checking = Checking::new(checks, kernel, program, launch);
            let counters = dispatch.run(|| checking.observer())?;
            checking.tell();
            Ok(counters)
        }
        Some(Watch::Several(Observers { checks, profile, trace, count, steps })) => {
            let plan = kernel.plan(program);
            let checking = checks.map(|checks| Checking::new(checks, kernel, program, launch));
            let counters = dispatch.run(|| {
                let count = count.map(|sink| Count::new(program, plan, sink));
                let steps = steps.map(|sink| Steps::new(program, sink));
                let trace = trace.map(|listener| Trace::new(&kernel.name, program, plan, listener));
                let profile = profile.map(|sink| Profile::new(program, plan, sink));
                (checking.as_ref().map(Checking::observer), (profile, (trace, (count, steps))))
            })?;
            if let Some(checking) = &checking {
                checking.tell();
            }
            Ok(counters)
        }
        Some(Watch::Debug(debug, checks)) => {
            let (plan, journal) = (kernel.plan(program), Journal::new(memory));
            let dispatch = Dispatch::new(kernel, program, launch, &journal)?;
            let checking = checks.map(|checks| Checking::new(checks, kernel, program, launch));
            let code = (program, plan, kernel.registers.vector);
            let observer = || Debugger::new(code, debug, &journal, checking.as_ref().map(Checking::observer));
            let counters = dispatch.run(observer)?;
            if let Some(checking) = &checking {
                checking.tell();
            }
            Ok(counters)
        }
    }
}

/// Checks of a dispatch.
struct Checking<'a, const L: usize> {
    checks: Checks<'a>,
    kernel: &'a Kernel,
    program: &'a Program<L>,
    launch: &'a Launch<'a>,
    /// State of the check `race`.
    shared: Option<Shared>,
}

impl<'a, const L: usize> Checking<'a, L> {
    fn new(checks: Checks<'a>, kernel: &'a Kernel, program: &'a Program<L>, launch: &'a Launch<'a>) -> Self {
        // The members of barriers other than the workgroup's are unknown.
        let looks_for_races = checks.set.race && !kernel.plan(program).has_other_barriers;
        let shared =
            looks_for_races.then(|| Shared::new(&launch.packet, L as u32, kernel.start.is_split(), program.target));
        Self { checks, kernel, program, launch, shared }
    }

    fn observer(&self) -> Sanitizer<'_, L> {
        let Self { checks, kernel, program, launch, .. } = *self;
        let code = (program, kernel.plan(program), checks.set.init.then(|| kernel.uses(program)));
        let arguments = (launch.packet.kernarg_address, kernel.start.arguments_size());
        Sanitizer::new(checks, &kernel.name, code, (launch.dispatch_id, arguments), self.shared.as_ref())
    }

    /// Tells the accesses of the finished dispatch.
    fn tell(&self) {
        if let Some(shared) = &self.shared {
            shared.tell(self.kernel.plan(self.program), self.checks.sink);
        }
    }
}

/// A dispatch under way, shared by the threads that run it.
struct Dispatch<'a, const L: usize> {
    kernel: &'a Kernel,
    program: &'a Program<L>,
    launch: &'a Launch<'a>,
    memory: &'a dyn Memory,
    /// Workgroups in each dimension.
    groups: [u32; 3],
    total: u64,
    /// The workgroup to start next.
    next: AtomicU64,
    /// Number of workgroups under way, in the storage of workers.
    resident: AtomicU64,
    failure: Mutex<Option<Box<Fault>>>,
    /// True if there is a failure.
    failed: AtomicBool,
    /// Kernel arguments that waves start with in SGPRs.
    preloaded: Vec<u32>,
    /// Vector registers that a wave with all lanes may read before it writes them; `None` if an observer sees all.
    zeroed: Option<&'a [Range<usize>]>,
}

impl<'a, const L: usize> Dispatch<'a, L> {
    fn new(
        kernel: &'a Kernel,
        program: &'a Program<L>,
        launch: &'a Launch<'a>,
        memory: &'a dyn Memory,
    ) -> Result<Self, Box<Fault>> {
        let packet = &launch.packet;
        let fail = |what: String| Err(Fault::outside(&kernel.name, FaultKind::Launch(what)));
        let size = packet.workgroup_size.map(u32::from);
        if size.contains(&0) || packet.grid_size.contains(&0) {
            return fail(format!("workgroup size {size:?} or grid size {:?} has a zero", packet.grid_size));
        }
        if size.iter().map(|&n| u64::from(n)).product::<u64>() > u64::from(MAX_WORKGROUP) {
            return fail(format!("workgroup size {size:?} is over {MAX_WORKGROUP} work-items"));
        }
        let most = lds_bytes(program.target);
        if packet.group_segment_size > most {
            return fail(format!("group segment of {} bytes is over {most}", packet.group_segment_size));
        }
        if packet.private_segment_size > 1 << 20 {
            return fail(format!("private segment of {} bytes a work-item is over 1 MiB", packet.private_segment_size));
        }
        let groups = [0, 1, 2].map(|i| packet.grid_size[i].div_ceil(size[i]));
        let Some(total) = groups.iter().try_fold(1u64, |total, &n| total.checked_mul(u64::from(n))) else {
            return fail(format!("grid of {groups:?} workgroups is too large"));
        };
        let preloaded = preloaded(kernel, packet, memory).map_err(|kind| Fault::outside(&kernel.name, kind))?;
        Ok(Dispatch {
            preloaded,
            zeroed: launch.watch.is_none().then(|| kernel.read_first(program)),
            kernel,
            program,
            launch,
            memory,
            groups,
            total,
            next: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
        })
    }

    /// Runs the dispatch. Each running workgroup has an observer, which `observe` creates and later workgroups reuse.
    fn run<O: Observer<L>>(&self, observe: impl Fn() -> O + Sync) -> Result<Counters, Box<Fault>> {
        let observe = &observe;
        let mut counters = Counters::default();
        std::thread::scope(|scope| {
            let start = Instant::now();
            let mut helpers = Vec::new();
            let call_helpers = || {
                let left = self.total.saturating_sub(self.next.load(Ordering::Relaxed));
                let help = || {
                    let mut thread = Thread::new(self, observe);
                    while thread.run_slice() {}
                    thread.counters
                };
                let count = left.min(self.launch.threads.saturating_sub(1) as u64);
                (0..count).map(|_| scope.spawn(help)).collect()
            };
            // With caches, concurrent workgroups may see stale values of each other.
            if self.memory.caches().is_some() {
                helpers = call_helpers();
            }
            let mut thread = Thread::new(self, observe);
            while thread.run_slice() {
                if helpers.is_empty() && self.launch.threads > 1 && start.elapsed() > ALONE {
                    helpers = call_helpers();
                }
            }
            counters = thread.counters;
            for helper in helpers {
                match helper.join() {
                    Ok(theirs) => add(&mut counters, &theirs),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        match self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            Some(fault) => Err(fault),
            None => Ok(counters),
        }
    }

    /// Number of a workgroup to begin beside the running ones; `None` if all have begun or the GPU is full.
    fn begin_another(&self) -> Option<u64> {
        // Relaxed, as below: only counts are shared.
        if self.next.load(Ordering::Relaxed) >= self.total {
            return None;
        }
        let begun = self.resident.fetch_add(1, Ordering::Relaxed) < self.launch.resident.max(1);
        let number = if begun { self.begin_next() } else { None };
        if number.is_none() {
            self.resident.fetch_sub(1, Ordering::Relaxed);
        }
        number
    }

    /// The number of the workgroup that takes the place of one that has ended.
    fn begin_next(&self) -> Option<u64> {
        // Relaxed: the number is all that is shared through it; memory is published by the thread scope and the
        // packet's fences.
        let number = if self.launch.threads > 1 {
            self.next.fetch_add(1, Ordering::Relaxed)
        } else {
            // This thread is alone: an atomic addition would wait for the last workgroup's stores.
            let number = self.next.load(Ordering::Relaxed);
            self.next.store(number + 1, Ordering::Relaxed);
            number
        };
        Some(number).filter(|number| *number < self.total)
    }

    /// Stores the first fault. All threads then stop: none begins another workgroup or continues its own.
    fn fail(&self, fault: Box<Fault>) {
        self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(fault);
        self.next.store(self.total, Ordering::Relaxed);
        self.failed.store(true, Ordering::Relaxed);
    }
}

fn add(counters: &mut Counters, more: &Counters) {
    counters.wave_instructions += more.wave_instructions;
    counters.global_accesses += more.global_accesses;
    counters.workgroups += more.workgroups;
    counters.waves += more.waves;
}

/// One thread of a dispatch.
struct Thread<'a, const L: usize, O, F> {
    dispatch: &'a Dispatch<'a, L>,
    observe: &'a F,
    /// Workers with running workgroups; usually one.
    workers: Vec<Worker<'a, L, O>>,
    /// Index of the worker whose turn it is.
    current: usize,
    has_begun: bool,
    counters: Counters,
}

impl<'a, const L: usize, O: Observer<L>, F: Fn() -> O> Thread<'a, L, O, F> {
    fn new(dispatch: &'a Dispatch<'a, L>, observe: &'a F) -> Self {
        Thread { dispatch, observe, workers: Vec::new(), current: 0, has_begun: false, counters: Counters::default() }
    }

    /// Runs a workgroup until it ends or gives way; false if this thread has nothing more to do, or the dispatch has
    /// failed.
    fn run_slice(&mut self) -> bool {
        let dispatch = self.dispatch;
        if !self.has_begun {
            self.has_begun = true;
            self.begin_another();
        }
        let is_alone = self.workers.len() == 1;
        let Some(worker) = self.workers.get_mut(self.current) else { return false };
        match worker.run(if is_alone { SLICE } else { SHARED_SLICE }) {
            Ok(true) => match dispatch.begin_next() {
                Some(number) => worker.begin(number),
                None => {
                    dispatch.resident.fetch_sub(1, Ordering::Relaxed);
                    add(&mut self.counters, &worker.counters);
                    self.workers.remove(self.current);
                    self.current = self.current.checked_rem(self.workers.len()).unwrap_or(0);
                }
            },
            Ok(false) => {
                if !self.begin_another() {
                    self.current = (self.current + 1) % self.workers.len();
                }
            }
            Err((kind, wave)) => {
                dispatch.fail(worker.fault(kind, wave));
                return false;
            }
        }
        true
    }

    /// Begins a workgroup beside the running ones, if one is left and the GPU has room. It runs next.
    fn begin_another(&mut self) -> bool {
        let Some(number) = self.dispatch.begin_another() else { return false };
        let mut worker = Worker::new(self.dispatch, (self.observe)());
        worker.begin(number);
        self.current = self.workers.len();
        self.workers.push(worker);
        true
    }
}

/// A running workgroup. Later workgroups reuse its storage.
struct Worker<'a, const L: usize, O> {
    dispatch: &'a Dispatch<'a, L>,
    observer: O,
    group: Group<'a>,
    waves: Vec<Wave<L>>,
    /// States of the workgroup's waves, in the first elements.
    states: Vec<State>,
    /// The workgroup's number in the grid, and its id.
    number: u64,
    id: [u32; 3],
    counters: Counters,
}

impl<'a, const L: usize, O: Observer<L>> Worker<'a, L, O> {
    fn new(dispatch: &'a Dispatch<'a, L>, observer: O) -> Self {
        let packet = &dispatch.launch.packet;
        let group = Group {
            memory: Translator::new(dispatch.memory),
            lds: vec![0; packet.group_segment_size as usize],
            beyond_lds: [0; 16],
            code_base: dispatch.program.base,
            private_size: packet.private_segment_size,
            waves: 0,
            arrived: 0,
            named: Vec::new(),
            gws: dispatch.launch.gws,
            target: dispatch.program.target,
        };
        let (waves, states) = (Vec::new(), Vec::new());
        Worker { dispatch, observer, group, waves, states, number: 0, id: [0; 3], counters: Counters::default() }
    }

    /// Sets up the workgroup of that number in the grid.
    fn begin(&mut self, number: u64) {
        let dispatch = self.dispatch;
        let [nx, ny, _] = dispatch.groups.map(u64::from);
        let id = [number % nx, number / nx % ny, number / (nx * ny)].map(|n| n as u32);
        (self.number, self.id) = (number, id);
        let packet = &dispatch.launch.packet;
        // Workgroups at the grid's edge have only the work-items that are in the grid.
        let size = [0, 1, 2].map(|i| {
            let full = u32::from(packet.workgroup_size[i]);
            full.min(packet.grid_size[i] - id[i] * full)
        });
        let count = size.iter().product::<u32>().div_ceil(L as u32) as usize;
        // The address of an empty vector is not mapped: glibc's store of nothing there, by a mask, costs an assist.
        if !self.group.lds.is_empty() {
            self.group.lds.fill(0);
        }
        (self.group.waves, self.group.arrived) = (count as u32, 0);
        self.group.named = vec![Named::default(); dispatch.kernel.start.named_barriers()];
        for index in 0..count {
            if index == self.waves.len() {
                let mut wave = Wave::new(dispatch.kernel.registers.total(), packet.private_segment_size);
                wave.set_constants(&dispatch.program.constants);
                self.waves.push(wave);
            }
            let wave = &mut self.waves[index];
            let is_full = (index + 1) * L <= size.iter().product::<u32>() as usize;
            if cfg!(debug_assertions) {
                // A test that sees this value has found a register that should be zero.
                wave.v[..dispatch.kernel.registers.total()].fill(Row([0x7fa5_5aa5; L]));
            }
            match &dispatch.zeroed {
                Some(zeroed) if is_full => zeroed.iter().for_each(|rows| wave.v[rows.clone()].fill(Row::ZERO)),
                _ => wave.v[..dispatch.kernel.registers.total()].fill(Row::ZERO),
            }
            wave.s = [0; slot::PADDED];
            wave.scc = false;
            wave.next = dispatch.program.entry;
            (wave.count, wave.global_accesses) = (0, 0);
            wave.index = index as u32;
            wave.places.known = 0;
            (wave.signals, wave.waits) = (0, 0);
            (wave.joined, wave.at_named, wave.gws) = (0, false, None);
            let Dispatch { kernel, launch, preloaded, .. } = dispatch;
            kernel.start.wave(wave, launch, preloaded, id, size, index as u32);
        }
        self.states.clear();
        self.states.resize(count, State::Ready);
        self.observer.begin(id, &self.waves[..count], &self.group);
    }

    /// Runs the workgroup until it ends, or has spent a slice of so many backward branches. Returns whether it has
    /// ended.
    ///
    /// # Errors
    /// The fault of a wave, and which one.
    fn run(&mut self, slice: u32) -> Result<bool, (FaultKind, usize)> {
        let result = self.take_turns(slice);
        if !matches!(result, Ok(false)) {
            self.counters.workgroups += 1;
            self.counters.waves += self.states.len() as u64;
            for wave in &self.waves[..self.states.len()] {
                self.counters.wave_instructions += wave.count;
                self.counters.global_accesses += wave.global_accesses;
            }
        }
        result
    }

    /// Runs each wave until it ends, waits or yields, in turns.
    fn take_turns(&mut self, slice: u32) -> Result<bool, (FaultKind, usize)> {
        let mut left = slice;
        let are_exclusive = self.dispatch.memory.caches().is_some_and(|caches| caches.are_exclusive());
        let branch_budget = if are_exclusive { BRANCH_BUDGET_WITH_CACHES } else { slice };
        let Worker { observer, group, waves, states, .. } = self;
        observer.resume(Held { waves: &mut waves[..states.len()], states, group });
        'rounds: loop {
            // The most that a wave has spent in this round; a barrier costs something, too.
            let mut spent = 1;
            for index in 0..self.states.len() {
                if self.states[index] != State::Ready {
                    continue;
                }
                if must_stop(self.dispatch) {
                    return Err((self.cancelled(), index));
                }
                let mut budget = branch_budget;
                let stop = loop {
                    let wave = &mut self.waves[index];
                    match self.dispatch.program.run_slice(
                        wave,
                        &mut self.group,
                        self.number,
                        budget,
                        &mut self.observer,
                    ) {
                        Stop::Pause => {
                            if self.pause(index, None)? {
                                left = slice;
                                continue 'rounds;
                            }
                            budget = self.waves[index].branch_budget;
                        }
                        Stop::Fault(kind) => {
                            if self.pause(index, Some(&kind))? {
                                left = slice;
                                continue 'rounds;
                            }
                            return Err((*kind, index));
                        }
                        stop => break stop,
                    }
                };
                let state = &mut self.states[index];
                let wave = &mut self.waves[index];
                match stop {
                    Stop::End => {
                        *state = State::Ended;
                        self.group.ended();
                    }
                    Stop::Barrier => *state = State::AtBarrier,
                    Stop::GiveWay => (),
                    _ => {
                        if wave.branch_budget != 0 {
                            spent = spent.max(SLEEP);
                        }
                        std::thread::yield_now();
                    }
                }
                spent = spent.max(branch_budget - wave.branch_budget);
            }
            if self.states.iter().all(|&state| state == State::Ended) {
                return Ok(true);
            }
            // A barrier waits for the waves that have not ended (RDNA3 ISA, S_BARRIER).
            let alive = || self.waves.iter().zip(&self.states).filter(|(_, state)| **state != State::Ended);
            let signals = alive().map(|(wave, _)| wave.signals).min().unwrap_or(0);
            let waiting = self.waves.iter_mut().zip(&mut self.states).filter(|(_, state)| **state == State::AtBarrier);
            for (wave, state) in waiting {
                let passes = match (wave.gws, self.group.gws) {
                    (Some((number, round)), Some(gws)) => gws.has_ended(number, round),
                    _ if wave.at_named => wave.passes_named(&self.group),
                    _ => wave.waits <= signals,
                };
                if passes {
                    (*state, wave.at_named, wave.gws) = (State::Ready, false, None);
                }
            }
            if let (false, Some(stuck)) =
                (self.states.contains(&State::Ready), self.states.iter().position(|state| *state == State::AtBarrier))
            {
                // The others are waves of other workgroups.
                if self.waves[..self.states.len()].iter().any(|wave| wave.gws.is_some()) {
                    if must_stop(self.dispatch) {
                        return Err((self.cancelled(), stuck));
                    }
                    std::thread::yield_now();
                    return Ok(false);
                }
                self.observer.stuck(&self.waves[stuck], &self.group);
                if self.pause(stuck, Some(&FaultKind::Deadlock))? {
                    left = slice;
                    continue;
                }
                return Err((FaultKind::Deadlock, stuck));
            }
            left = left.saturating_sub(spent);
            if left == 0 {
                return Ok(false);
            }
        }
    }

    /// Shows the workgroup to the observer, for which a wave has stopped, or whose fault this is. Returns true if the
    /// observer has put the workgroup into an earlier state.
    fn pause(&mut self, wave: usize, fault: Option<&FaultKind>) -> Result<bool, (FaultKind, usize)> {
        let Worker { observer, group, waves, states, .. } = self;
        let held = Held { waves: &mut waves[..states.len()], states, group };
        observer.paused(wave, fault, held).map_err(|kind| (kind, wave))
    }

    /// Fault of a workgroup that is cancelled.
    fn cancelled(&self) -> FaultKind {
        let count = |wanted| self.states.iter().filter(|&&state| state == wanted).count();
        FaultKind::Cancelled {
            ended: count(State::Ended),
            waiting: count(State::AtBarrier),
            waves: self.states.len(),
            begun: self.dispatch.next.load(Ordering::Relaxed).min(self.dispatch.total),
            workgroups: self.dispatch.total,
        }
    }

    /// Describes a fault at the instruction that a wave executed last; where it was cancelled, at the next one.
    fn fault(&self, kind: FaultKind, wave: usize) -> Box<Fault> {
        let program = self.dispatch.program;
        let back = u32::from(!matches!(kind, FaultKind::Cancelled { .. }));
        let at = self.waves.get(wave).map_or(0, |wave| wave.next.saturating_sub(back)) as usize;
        let offset = program.ops[at].offset;
        let rest = program.words.get(offset as usize / 4..).unwrap_or_default();
        let decoded = sim_isa::decode(program.target, rest);
        let dwords = decoded.as_ref().map_or(1, |inst| usize::from(inst.size) / 4);
        Box::new(Fault {
            kind,
            kernel: self.dispatch.kernel.name.clone(),
            pc: program.base + u64::from(offset),
            mnemonic: decoded
                .map_or_else(|error| error.mnemonic().unwrap_or_default(), |inst| inst.op.name_on(program.target))
                .to_owned(),
            words: rest.iter().take(dwords).copied().collect(),
            workgroup: self.id,
            wave: wave as u32,
        })
    }
}

/// Reads the arguments that waves start with.
fn preloaded(kernel: &Kernel, packet: &KernelDispatchPacket, memory: &dyn Memory) -> Result<Vec<u32>, FaultKind> {
    let (offset, count) = kernel.start.preloaded();
    if count == 0 {
        return Ok(Vec::new());
    }
    let address = packet.kernarg_address.wrapping_add(offset);
    let host = Translator::new(memory).check(address, 4 * count as u32, Access::Read, 0).map_err(|kind| *kind)?;
    // SAFETY: `check` found all of it readable; any alignment is allowed.
    Ok((0..count).map(|i| unsafe { (host as *const u32).add(i).read_unaligned() }).collect())
}

/// True if the launcher or a fault in another thread requires the waves to stop.
fn must_stop<const L: usize>(dispatch: &Dispatch<'_, L>) -> bool {
    dispatch.launch.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
        || dispatch.failed.load(Ordering::Relaxed)
}
