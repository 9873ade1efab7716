// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A debugging session: which instructions stop a wave, and where a stopped one goes.
//!
//! A [`Debugger`] exists once in a process. Waves of all queues ask it before each instruction, under one lock, which a
//! stopped wave holds: while one is stopped, no other goes on. The user is a [`Frontend`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sim_wave::{Debug, Event, Go, Progresses, Stopped};

use crate::breakpoint::{Breakpoint, Place};
use crate::code::{Code, Position};

/// Reason of a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The first instruction of the first dispatch.
    Entry,
    /// Breakpoints of these numbers.
    Breakpoints(Vec<u32>),
    /// A finding of the checks.
    Finding(String),
    /// A fault, after which the dispatch ends.
    Fault(String),
    /// The end of a step.
    Step,
    /// The user has asked for it.
    Pause,
    /// Anything else.
    Told(String),
}

/// Extent of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// An instruction.
    Instruction,
    /// A source line.
    Line,
    /// A source line, without those of functions that it calls.
    LineOver,
}

/// Continuation of a stopped session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Motion {
    /// As before the stop, which was for the frontend alone.
    Resume,
    /// Until a breakpoint.
    Continue,
    /// So many steps of the chosen wave.
    Step(Unit, u32),
    /// So many steps back.
    Back(Unit, u32),
    /// Back to the breakpoint before.
    ContinueBack,
    /// Until this workgroup begins.
    Workgroup([u32; 3]),
    /// Until the end of the program.
    Detach,
    /// The dispatch ends with a fault, and nothing stops any more.
    Kill,
}

/// A user interface.
pub trait Frontend: Send {
    /// Tells a stop, and returns the continuation.
    fn stopped(&mut self, core: &mut Core, reason: &Reason, at: &mut dyn Stopped) -> Motion;

    /// Tells that the last motion is impossible. The next call is [`Frontend::stopped`], with the reason of before.
    fn refused(&mut self, text: &str);

    /// Tells that a dispatch of this kernel begins.
    fn began(&mut self, _core: &Core, _code: &Code) {}

    /// Tells that the program ends.
    fn ended(&mut self) {}
}

/// State of a session that its user sees.
#[derive(Default)]
pub struct Core {
    /// The breakpoints.
    pub breakpoints: Vec<Breakpoint>,
    last_number: u32,
    /// Changes with the breakpoints.
    version: u64,
    /// Code of the kernel that is stopped.
    pub code: Option<Arc<Code>>,
    /// The chosen wave of the stopped workgroup.
    pub wave: u32,
    /// The chosen lane.
    pub lane: u32,
    /// True if the reason of the stop is told anew: the motion before was refused.
    pub is_again: bool,
}

impl Core {
    /// Adds a breakpoint, and returns its number.
    pub fn add(&mut self, breakpoint: Breakpoint) -> u32 {
        self.last_number += 1;
        self.version += 1;
        self.breakpoints.push(Breakpoint { number: self.last_number, ..breakpoint });
        self.last_number
    }

    /// Deletes those of which this is false.
    pub fn retain(&mut self, keeps: impl Fn(&Breakpoint) -> bool) {
        self.version += 1;
        self.breakpoints.retain(keeps);
    }

    /// Source line of a wave.
    pub fn position(&self, at: &dyn Stopped, wave: u32) -> Option<&Position> {
        self.code.as_ref()?.position(at.pc(wave))
    }
}

/// A wave in the dispatch of this number.
type Who = (u64, [u32; 3], u32);

enum Mode {
    /// Until the first instruction.
    Entry,
    Run,
    Step(Step),
    Workgroup([u32; 3]),
    /// Forward again from an earlier state, until this time.
    Seek(u64, [u32; 3], Reason),
    /// Forward again from an earlier state until the time of the stop, to find the last stop before it.
    Scan(Scan),
    Detached,
}

struct Step {
    who: Who,
    unit: Unit,
    left: u32,
    line: Option<Position>,
    /// Address behind the last instruction, if that was a call.
    behind_call: Option<u64>,
    /// Address to which the function that is stepped over returns.
    returns: Option<u64>,
    has_ended: bool,
}

struct Scan {
    who: Who,
    now: u64,
    /// `None` looks for breakpoints.
    unit: Option<Unit>,
    count: usize,
    line: Option<Position>,
    /// Times of the last matches.
    found: VecDeque<(u64, Reason)>,
    start: u64,
}

struct Session {
    core: Core,
    frontend: Box<dyn Frontend>,
    mode: Mode,
    /// Event of the stop, and why it stops; `None` if that depends on conditions.
    event: Option<Event>,
    reason: Option<Reason>,
    /// Breakpoints at the event.
    met: Vec<u32>,
    /// Breakpoints by address, for the dispatch and the version of the breakpoints.
    resolved: HashMap<u64, Vec<usize>>,
    resolved_for: Option<(u64, u64)>,
    dispatches: u64,
}

/// The debugger of a process.
pub struct Debugger {
    session: Mutex<Session>,
    /// Set to stop the next wave.
    pause: Arc<AtomicBool>,
}

/// A dispatch under the debugger.
pub struct Dispatch<'a> {
    debugger: &'a Debugger,
    code: Arc<Code>,
    number: u64,
    /// The workgroup that began first.
    first: OnceLock<[u32; 3]>,
    findings: Mutex<Vec<String>>,
}

impl Debugger {
    /// Creates a debugger. `core` may have breakpoints already; `stops_at_entry` stops the first dispatch. `pause` is
    /// set by the frontend.
    pub(crate) fn new(frontend: Box<dyn Frontend>, core: Core, stops_at_entry: bool, pause: Arc<AtomicBool>) -> Self {
        let session = Session {
            core,
            frontend,
            mode: if stops_at_entry { Mode::Entry } else { Mode::Run },
            event: None,
            reason: None,
            met: Vec::new(),
            resolved: HashMap::new(),
            resolved_for: None,
            dispatches: 0,
        };
        Self { session: Mutex::new(session), pause }
    }

    /// Begins a dispatch of a kernel.
    pub fn begin(&self, code: Arc<Code>) -> Dispatch<'_> {
        let session = &mut *self.session.lock();
        session.frontend.began(&session.core, &code);
        session.dispatches += 1;
        let number = session.dispatches;
        Dispatch { debugger: self, code, number, first: OnceLock::new(), findings: Mutex::default() }
    }

    /// Tells the user that the program ends.
    pub fn end(&self) {
        self.session.lock().frontend.ended();
    }
}

impl Dispatch<'_> {
    /// Tells a finding of the checks. Called on the thread of the wave.
    pub fn found(&self, text: &str) {
        self.findings.lock().push(text.to_owned());
    }
}

impl Debug for Dispatch<'_> {
    fn stops(&self, event: &Event) -> bool {
        let first = *self.first.get_or_init(|| event.workgroup);
        let mut session = self.debugger.session.lock();
        if matches!(session.mode, Mode::Detached) {
            return false;
        }
        let findings = std::mem::take(&mut *self.findings.lock());
        let pauses = self.debugger.pause.load(Ordering::Relaxed);
        let stops = session.stops(self, event, (first, findings, pauses));
        if stops {
            session.event = Some(*event);
        }
        stops
    }

    fn stopped(&self, at: &mut dyn Stopped) -> Go {
        self.debugger.session.lock().stopped(self, at, &self.debugger.pause)
    }
}

impl Session {
    /// Decides if the wave stops, and stores why.
    fn stops(&mut self, of: &Dispatch<'_>, event: &Event, news: ([u32; 3], Vec<String>, bool)) -> bool {
        let (first, findings, pauses) = news;
        self.reason = None;
        let met = self.met_by(of, event, first);
        self.met.clear();
        let who = (of.number, event.workgroup, event.wave);
        match &mut self.mode {
            Mode::Detached => return false,
            Mode::Entry => self.reason = Some(Reason::Entry),
            Mode::Run => {}
            Mode::Workgroup(id) => {
                if *id == event.workgroup && event.time == 0 {
                    self.reason = Some(Reason::Step);
                }
            }
            Mode::Step(step) => self.reason = step.step(&of.code, who, event),
            Mode::Seek(to, workgroup, reason) => {
                if who.1 != *workgroup {
                    self.reason = Some(Reason::Told(DIVERGED.into()));
                } else if event.time >= *to {
                    self.reason = Some(reason.clone());
                }
                return self.reason.is_some();
            }
            Mode::Scan(scan) => {
                if of.number != scan.who.0 {
                    return false;
                }
                if event.time >= scan.now || event.workgroup != scan.who.1 {
                    return true;
                }
                if scan.unit.is_none() {
                    self.met = met;
                    return !self.met.is_empty();
                }
                scan.look(&of.code, who, event);
                return false;
            }
        }
        let has_finding = self.core.breakpoints.iter().any(|it| it.place == Place::Finding && it.is_for(event));
        if let (true, Some(text)) = (has_finding, findings.into_iter().next_back()) {
            self.reason = Some(Reason::Finding(text));
        }
        if pauses {
            self.reason.get_or_insert(Reason::Pause);
        }
        self.met = met;
        self.reason.is_some() || !self.met.is_empty()
    }

    /// Numbers of the breakpoints at an event, regardless of conditions.
    fn met_by(&mut self, of: &Dispatch<'_>, event: &Event, first: [u32; 3]) -> Vec<u32> {
        if self.resolved_for != Some((of.number, self.core.version)) {
            self.resolved_for = Some((of.number, self.core.version));
            self.resolved.clear();
            for (index, breakpoint) in self.core.breakpoints.iter().enumerate() {
                if let Some(pc) = breakpoint.resolve(&of.code) {
                    self.resolved.entry(pc).or_default().push(index);
                }
            }
        }
        let mut met = Vec::new();
        for index in self.resolved.get(&event.pc).into_iter().flatten() {
            met.extend(Some(&self.core.breakpoints[*index]).filter(|it| it.is_for(event)).map(|it| it.number));
        }
        if event.time == 0 {
            for breakpoint in &self.core.breakpoints {
                if let Place::Kernel(name) = &breakpoint.place
                    && of.code.name.contains(name.as_str())
                    && breakpoint.workgroup.unwrap_or(first) == event.workgroup
                {
                    met.push(breakpoint.number);
                }
            }
        }
        met
    }

    fn stopped(&mut self, of: &Dispatch<'_>, at: &mut dyn Stopped, pause: &AtomicBool) -> Go {
        if matches!(self.mode, Mode::Detached) {
            return Go::On;
        }
        self.core.code = Some(Arc::clone(&of.code));
        if !matches!(self.mode, Mode::Scan(_)) || self.core.wave >= at.waves() {
            self.core.wave = at.wave();
        }
        self.core.lane = self.core.lane.min(at.lanes() - 1);
        let fault = at.fault();
        if let Mode::Scan(scan) = &mut self.mode {
            let is_over = fault.is_some() || at.time() >= scan.now || at.workgroup() != scan.who.1;
            if is_over {
                return self.end_scan(at);
            }
            let met = true_ones(&self.core, &self.met, at);
            if let (Mode::Scan(scan), false) = (&mut self.mode, met.is_empty()) {
                scan.add(at.time(), Reason::Breakpoints(met));
            }
            return Go::On;
        }
        let met = true_ones(&self.core, &self.met, at);
        let mut reason = match (fault, self.reason.take()) {
            (Some(fault), _) => Reason::Fault(fault),
            (None, Some(Reason::Step) | None) if !met.is_empty() => Reason::Breakpoints(met),
            (None, Some(reason)) => reason,
            // The conditions of all breakpoints here are false.
            (None, None) => return Go::On,
        };
        loop {
            pause.store(false, Ordering::Relaxed);
            self.tell_hits(&reason);
            let motion = self.frontend.stopped(&mut self.core, &reason, at);
            self.core.is_again = false;
            // At the first prompt there were no breakpoints yet.
            if let (Reason::Entry, Motion::Continue, Some(event)) = (&reason, &motion, self.event) {
                let first = event.workgroup;
                let met = self.met_by(of, &event, first);
                let met = true_ones(&self.core, &met, at);
                if !met.is_empty() {
                    reason = Reason::Breakpoints(met);
                    continue;
                }
            }
            match self.go(of, motion, at) {
                Ok(go) => return go,
                Err(text) => {
                    self.core.is_again = true;
                    self.frontend.refused(&text);
                }
            }
        }
    }

    fn tell_hits(&mut self, reason: &Reason) {
        let Reason::Breakpoints(numbers) = reason else { return };
        if self.core.is_again {
            return;
        }
        for breakpoint in self.core.breakpoints.iter_mut().filter(|it| numbers.contains(&it.number)) {
            breakpoint.hits += 1;
        }
        self.core.retain(|it| !(it.is_temporary && numbers.contains(&it.number)));
    }

    /// Starts a motion. The error says why it is impossible.
    fn go(&mut self, of: &Dispatch<'_>, motion: Motion, at: &mut dyn Stopped) -> Result<Go, String> {
        let who = (of.number, at.workgroup(), self.core.wave);
        let unit_of = |unit: Unit| match unit {
            Unit::Instruction => Unit::Instruction,
            unit if of.code.instructions.iter().any(|it| it.position.is_some()) => unit,
            _ => Unit::Instruction,
        };
        match motion {
            Motion::Resume => {}
            Motion::Continue => self.mode = Mode::Run,
            Motion::Detach => self.mode = Mode::Detached,
            Motion::Kill => {
                self.mode = Mode::Detached;
                return Ok(Go::End);
            }
            Motion::Workgroup(id) => self.mode = Mode::Workgroup(id),
            Motion::Step(unit, count) => {
                if at.progress(who.2) == Progresses::Ended {
                    return Err(format!("wave {} has ended", who.2));
                }
                let unit = unit_of(unit);
                let instruction = of.code.find(at.pc(who.2));
                let is_stopped_here = who.2 == at.wave();
                let instruction =
                    instruction.map(|index| (&of.code.instructions[index], index)).filter(|_| is_stopped_here);
                self.mode = Mode::Step(Step {
                    who,
                    unit,
                    // Another wave has its next instruction before it.
                    left: count + u32::from(!is_stopped_here && unit == Unit::Instruction),
                    line: of.code.position(at.pc(who.2)).cloned(),
                    behind_call: instruction.and_then(|(it, index)| behind_call(&of.code, it.is_call(), index)),
                    returns: None,
                    has_ended: instruction.is_some_and(|(it, _)| it.text.starts_with("s_endpgm")),
                });
            }
            Motion::Back(..) | Motion::ContinueBack => {
                let start = at.start()?;
                let (unit, count) = match motion {
                    Motion::Back(unit, count) => (Some(unit_of(unit)), count as usize),
                    _ => (None, 1),
                };
                let (now, found) = (at.time(), VecDeque::new());
                if now == start {
                    let text =
                        "this is the earliest state that is kept: the workgroup began here, or another one ran before";
                    return Err(text.into());
                }
                self.mode = Mode::Scan(Scan { who, now, unit, count: count.max(1), line: None, found, start });
                return Ok(Go::Back);
            }
        }
        Ok(Go::On)
    }

    /// Goes back to the stop that a scan has found.
    fn end_scan(&mut self, at: &mut dyn Stopped) -> Go {
        let Mode::Scan(scan) = std::mem::replace(&mut self.mode, Mode::Run) else { return Go::On };
        if at.workgroup() != scan.who.1 {
            self.mode = Mode::Seek(0, at.workgroup(), Reason::Told(DIVERGED.into()));
            return Go::On;
        }
        let (to, reason) = match scan.found.front() {
            Some((time, reason)) => (*time, reason.clone()),
            None => (scan.start, Reason::Told("Beginning of the kept history".into())),
        };
        self.mode = Mode::Seek(to, scan.who.1, reason);
        Go::Back
    }
}

const DIVERGED: &str = "The workgroup has not run as before: what it did depends on the host or on other queues";

/// Address of the instruction behind a call at this index.
fn behind_call(code: &Code, is_call: bool, index: usize) -> Option<u64> {
    if is_call { code.instructions.get(index + 1).map(|it| it.pc) } else { None }
}

/// The met breakpoints whose conditions hold. A condition that cannot be evaluated holds.
fn true_ones(core: &Core, met: &[u32], at: &mut dyn Stopped) -> Vec<u32> {
    let (wave, lane) = (at.wave(), core.lane);
    let holds = |breakpoint: &&Breakpoint| {
        let Some((condition, _)) = &breakpoint.condition else { return true };
        condition.number(at, wave, lane) != Ok(0)
    };
    let met = core.breakpoints.iter().filter(|it| met.contains(&it.number)).filter(holds);
    met.map(|it| it.number).collect()
}

impl Step {
    fn step(&mut self, code: &Code, who: Who, event: &Event) -> Option<Reason> {
        if self.has_ended {
            self.left = 0;
            return Some(Reason::Told(format!("Wave {} has ended", self.who.2)));
        }
        if who != self.who {
            return None;
        }
        self.has_ended = event.ends;
        let behind = self.behind_call.take();
        if self.unit == Unit::LineOver {
            if self.returns.is_some_and(|returns| returns != event.pc) {
                return None;
            }
            self.returns = behind.filter(|behind| *behind != event.pc);
            if self.returns.is_some() {
                return None;
            }
            self.behind_call =
                code.find(event.pc).and_then(|at| behind_call(code, code.instructions[at].is_call(), at));
        }
        if self.unit != Unit::Instruction {
            let position = code.position(event.pc)?;
            if self.line.as_ref() == Some(position) {
                return None;
            }
            self.line = Some(position.clone());
        }
        self.left = self.left.saturating_sub(1);
        (self.left == 0).then_some(Reason::Step)
    }
}

impl Scan {
    fn look(&mut self, code: &Code, who: Who, event: &Event) {
        if who != self.who {
            return;
        }
        if self.unit != Some(Unit::Instruction) {
            let Some(position) = code.position(event.pc) else { return };
            if self.line.as_ref() == Some(position) {
                return;
            }
            self.line = Some(position.clone());
        }
        self.add(event.time, Reason::Step);
    }

    fn add(&mut self, time: u64, reason: Reason) {
        self.found.push_back((time, reason));
        if self.found.len() > self.count {
            self.found.pop_front();
        }
    }
}
