// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Checks that run beside a kernel: missing waits, divergent barriers, data races, hazards and uninitialized data.
//!
//! A [`Sanitizer`] is the [`Observer`] of each thread of a dispatch: it goes through the instructions that each
//! micro-operation stands for ([`plan`]), no-ops among them, before the micro-operation runs.
//!
//! Modules name only those before them: [`finding`], [`counters`], [`shadow`], [`clock`], [`lds`], [`touch`],
//! [`hazard`], [`plan`], [`paths`], [`pending`], [`meetings`], [`bytes`], [`race`], [`unwritten`], [`uses`], [`init`],
//! this one with [`report`], a part of it.

mod bytes;
mod clock;
mod counters;
mod finding;
mod hazard;
mod init;
mod lds;
mod meetings;
mod paths;
mod pending;
mod plan;
mod race;
mod report;
mod shadow;
mod touch;
mod unwritten;
mod uses;

pub use finding::{CheckSet, Checks, Finding, Line, Sink, Touched};
pub(crate) use lds::Access;
pub(crate) use paths::check as check_paths;
pub use paths::{PathFinding, PathReport};
pub(crate) use plan::{Meeting, Named, Plan};
pub(crate) use race::Shared;
pub(crate) use touch::Touch;
pub use unwritten::{PAGE, Page, Unwritten};
pub(crate) use uses::Uses;

use crate::exec;
use crate::hardware::{SHARED_APERTURE, slot};
use crate::memory::Control;
use crate::micro_op::Step as Progress;
use crate::observer::Observer;
use crate::program::Program;
use crate::wave::{Group, Wave};
use counters::{Class, Issue, too_early};
use hazard::{Hazard, Trail};
use init::Init;
use lds::{Write, Writes};
use meetings::{Disorder, Meetings};
use pending::{Outstanding, Pending, Ticket, Values};
use plan::{Lanes, Span, Step, deeds};
use race::Races;
use report::Kind;
use sim_isa::Format;
use std::collections::HashMap;

/// The checks of one thread of a dispatch.
pub(crate) struct Sanitizer<'a, const L: usize> {
    checks: Checks<'a>,
    kernel: &'a str,
    program: &'a Program<L>,
    plan: &'a Plan,
    /// Outstanding operations of each wave of the workgroup.
    pending: Vec<Pending<L>>,
    /// History of each wave, if the check `hazard` is on.
    trails: Vec<Trail>,
    lds: Writes,
    meetings: Meetings,
    /// State of the check `race`, if it is on.
    races: Option<Races<'a>>,
    /// State of the check `init`, if it is on.
    init: Option<Init<'a, L>>,
    workgroup: [u32; 3],
    /// Findings by kind and instructions, with the number of times since the report.
    found: HashMap<(Kind, u32, Option<u32>), (Finding, u64)>,
    /// Old values of the registers that the current instruction writes, if its result is to be delayed.
    old: Option<Values<L>>,
    /// True if outstanding operations of waves are counted.
    counts: bool,
    /// Sets of [`deeds`] for which a micro-operation is checked before it runs, and after it has run.
    looked_at: u8,
    followed: u8,
    /// True if other checks need every micro-operation.
    looks_at_all: bool,
    /// True if the current micro-operation has to be counted after it has run, or values that it missed then arrive.
    has_to_follow: bool,
    dispatch: u64,
    /// Address and bytes of the kernel's arguments.
    arguments: (u64, u64),
    /// Decides which results are late.
    random: u64,
}

impl<'a, const L: usize> Sanitizer<'a, L> {
    /// Checks for the dispatch of this number, with the address and bytes of its arguments. `shared` is the race state
    /// of all its threads.
    pub fn new(
        checks: Checks<'a>,
        kernel: &'a str,
        (program, plan, uses): (&'a Program<L>, &'a Plan, Option<&'a Uses>),
        (dispatch, arguments): (u64, (u64, u64)),
        shared: Option<&'a Shared>,
    ) -> Self {
        let (wait, is_late) = (checks.set.wait, checks.set.wait && checks.seed.is_some());
        let races = shared.is_some();
        let counts = wait || checks.set.bounds || checks.set.clamp || races;
        let set = |deeds: u8, does: bool| if does { deeds } else { 0 };
        Sanitizer {
            counts,
            looked_at: set(deeds::WAITS | deeds::COUNTS, counts)
                | set(deeds::ISSUES, is_late)
                | set(deeds::MEETS, checks.set.sync || races)
                | set(deeds::LDS, wait || races || checks.set.clamp)
                | set(deeds::MEMORY, checks.set.bounds || checks.set.clamp || races),
            followed: set(deeds::ISSUES, counts),
            looks_at_all: false,
            checks,
            kernel,
            program,
            plan,
            pending: Vec::new(),
            trails: Vec::new(),
            lds: Writes::default(),
            meetings: Meetings::default(),
            races: shared.map(Races::new),
            init: uses.map(|uses| Init::new(program, uses, checks.memory, checks.set.result)),
            workgroup: [0; 3],
            found: HashMap::new(),
            old: None,
            has_to_follow: false,
            dispatch,
            arguments,
            random: 0,
        }
    }

    /// True if the next result is delayed.
    fn is_late(&mut self) -> bool {
        if self.checks.seed.is_none() {
            return false;
        }
        // Knuth's MMIX generator; the high bit is its best.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 63 != 0
    }

    /// Checks an instruction's registers.
    #[cold]
    fn registers(&mut self, number: u32, step: &Step, wave: &mut Wave<L>) -> Progress {
        for span in self.plan.reads(step) {
            if self.may_touch(span, wave) {
                self.conflicts(Kind::Read, number, step, span, wave)?;
            }
        }
        for span in self.plan.writes(step) {
            if self.may_touch(span, wave) {
                self.conflicts(Kind::Overwritten, number, step, span, wave)?;
            }
        }
        Ok(())
    }

    /// True if an operation of the wave may write one of these registers.
    fn may_touch(&self, span: &Span, wave: &Wave<L>) -> bool {
        self.pending[wave.index as usize].may_touch(span.marks)
    }

    fn conflicts(&mut self, kind: Kind, number: u32, step: &Step, span: &Span, wave: &mut Wave<L>) -> Progress {
        loop {
            let target = self.program.target;
            let pending = &mut self.pending[wave.index as usize];
            let allowed = |ticket: Ticket| {
                kind == Kind::Overwritten
                    && ticket.class.writes_in_order(target)
                    && step.issue == Some(Issue::One(ticket.class))
            };
            let Some((operation, conflict)) = pending.conflict(span, wave, allowed) else { return Ok(()) };
            let missing: Vec<String> = operation
                .tickets
                .iter()
                .flatten()
                .filter(|ticket| !pending.is_back(**ticket))
                .map(|ticket| ticket.class.counter(target).wait(target, pending.needed(*ticket)))
                .collect();
            let other = Some(operation.step);
            pending.missed.push(operation);
            self.has_to_follow = true;
            let register = self.register(conflict.register);
            let what = too_early(&register, kind == Kind::Read, &self.mnemonic(operation.step), &missing);
            // Lanes do not matter for scalar registers.
            let lanes = if span.first < self.plan.scalars { conflict.lanes & Wave::<L>::LANES } else { 0 };
            self.report(kind, number, &Disorder { what, other, lanes, memory: None }, wave.index)?;
        }
    }

    /// Checks the instructions of a micro-operation. `touches` is true if one may use a register that an outstanding
    /// operation will write.
    #[inline(never)]
    fn look(&mut self, op: u32, touches: bool, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        let plan = self.plan;
        if let Some(races) = &mut self.races {
            races.go_on(wave.index as usize, (wave.joined, wave.seen));
        }
        for number in plan.of(op) {
            let step = plan.at(number);
            let pending = &mut self.pending[wave.index as usize];
            if let (true, Some(waits)) = (self.counts, &step.waits) {
                pending.wait(waits, wave);
            }
            // Often the instruction was the wait for these registers.
            if touches && pending.may_touch(plan.glance(op).registers) {
                self.registers(number, step, wave)?;
            }
            if step.deeds & self.looked_at & !deeds::WAITS != 0 {
                self.look_closely(op, number, step, wave, group)?;
            }
        }
        Ok(())
    }

    /// Checks an instruction, except its registers.
    #[inline(never)]
    fn look_closely(
        &mut self,
        op: u32,
        number: u32,
        step: &Step,
        wave: &mut Wave<L>,
        group: &mut Group<'_>,
    ) -> Progress {
        if self.counts {
            if let (true, true, Some(touch)) = (self.checks.set.bounds, step.runs, &step.touch)
                && touch.format == Format::Smem
            {
                self.arguments(op, number, touch, wave, group)?;
            }
            if let (true, true, Some(touch)) = (self.checks.set.clamp, step.runs, &step.touch)
                && !step.is_private(wave)
            {
                self.clamped(op, number, touch, wave, group)?;
            }
            if let (true, true, Some(access)) = (self.checks.set.clamp, step.runs, &step.lds) {
                self.clamped_lds(number, access, wave, group)?;
            }
            if self.races.is_some() {
                self.order(op, number, step, wave, group)?;
            }
            if let (Some(access), true) = (&step.lds, self.checks.set.wait) {
                self.lds(number, access, step.issue, wave)?;
            }
            match step.issue {
                // No micro-operation will run.
                Some(issue) if !step.runs => self.issue_skipped(number, step, issue, wave),
                Some(_) if self.checks.seed.is_some() && self.checks.set.wait => {
                    self.land_under(step, wave);
                    self.keep_old(step, wave);
                }
                _ => {}
            }
        }
        if let Meeting::Named(deed) = step.meeting {
            self.named(op, number, deed, wave, group)?;
        }
        if self.checks.set.sync && step.meeting != Meeting::None && !step.is_private(wave) {
            let exec = wave.exec() & Wave::<L>::LANES;
            if let Some(disorder) = self.meetings.step(wave.index as usize, step.meeting, number, exec) {
                self.report(Kind::Barrier, number, &disorder, wave.index)?;
            }
        }
        Ok(())
    }

    /// Checks for hazards between a micro-operation and earlier ones.
    fn hazards(&mut self, op: u32, wave: &Wave<L>) -> Progress {
        let Some(trail) = self.trails.get_mut(wave.index as usize) else { return Ok(()) };
        let mut found: Option<Vec<(u32, Hazard)>> = None;
        let on = (self.program.target, L > 32);
        self.plan.hazards.step((op, self.plan.ops()), on, trail, |number, hazard| {
            found.get_or_insert_default().push((number, hazard));
        });
        for (number, Hazard { what, other }) in found.into_iter().flatten() {
            self.report(
                Kind::Hazard,
                number,
                &Disorder { what, other: Some(other), lanes: 0, memory: None },
                wave.index,
            )?;
        }
        Ok(())
    }

    /// Checks an operation on a named barrier.
    #[cold]
    fn named(&mut self, op: u32, number: u32, deed: Named, wave: &Wave<L>, group: &Group<'_>) -> Progress {
        let op = &self.program.ops[op as usize];
        let (barrier, members) = match deed {
            Named::Wait => (wave.joined, None),
            _ => exec::named_number(wave, op).unwrap_or_default(),
        };
        let of = group.named.get(barrier.wrapping_sub(1));
        if let (Some(races), Some(of)) = (&mut self.races, of) {
            let index = wave.index as usize;
            match deed {
                Named::Signal => races.signal_named(index, barrier - 1, of.rounds, &self.pending[index]),
                Named::Wait => races.wait_named(index),
                Named::Init | Named::Join => {}
            }
        }
        let what = match (deed, of) {
            (Named::Wait, None) => "wait for a named barrier by a wave that has joined none".to_owned(),
            (_, None) => format!("there is no named barrier {barrier}; the kernel has {}", group.named.len()),
            (Named::Init, Some(of)) if of.signals != 0 => {
                format!("named barrier {barrier} is initialized after {} signals of its current phase", of.signals)
            }
            (Named::Signal, Some(of)) if of.members == 0 && members.is_none() => {
                format!("named barrier {barrier} is signalled before its member count is set")
            }
            _ => return Ok(()),
        };
        if !self.checks.set.sync {
            return Ok(());
        }
        self.report(Kind::Barrier, number, &Disorder { what, other: None, lanes: 0, memory: None }, wave.index)
    }

    /// Checks a scalar load from the kernel's arguments. Compilers read beyond their end on purpose, up to the next
    /// multiple of 16 bytes.
    fn arguments(&mut self, op: u32, number: u32, touch: &Touch, wave: &Wave<L>, group: &Group<'_>) -> Progress {
        let op = &self.program.ops[op as usize];
        let (base, size) = self.arguments;
        if touch.is_buffer || size == 0 || wave.s64(&op.src[0]) != base {
            return Ok(());
        }
        let Some((address, bytes)) = exec::scalar_reach(false, wave, group, op, touch.bytes) else { return Ok(()) };
        let offset = address.wrapping_sub(base) as i64;
        if offset >= 0 && offset as u64 + bytes <= size.next_multiple_of(16) {
            return Ok(());
        }
        let what = format!("out-of-bounds read of kernel arguments: {bytes} bytes at offset {offset}, of {size}");
        self.report(Kind::Bounds, number, &Disorder { what, other: None, lanes: 0, memory: None }, wave.index)
    }

    /// Checks a buffer access, of which hardware drops the part beyond the buffer's end.
    fn clamped(&mut self, op: u32, number: u32, touch: &Touch, wave: &mut Wave<L>, group: &Group<'_>) -> Progress {
        let op = &self.program.ops[op as usize];
        let (what, lanes) = match touch.format {
            Format::Mubuf => {
                let Some(reach) = exec::reach(touch.format, exec::Way::Plain, wave, group, op, touch.bytes) else {
                    return Ok(());
                };
                let lanes = wave.exec() & Wave::<L>::LANES & !(reach.memory | reach.local);
                (format!("out-of-bounds buffer access by {} lanes", lanes.count_ones()), lanes)
            }
            Format::Smem if touch.is_buffer => {
                let Some((_, bytes)) = exec::scalar_reach(true, wave, group, op, touch.bytes) else { return Ok(()) };
                let beyond = u64::from(touch.bytes) - bytes;
                (format!("out-of-bounds buffer read of {beyond} of {} bytes", touch.bytes), beyond)
            }
            _ => return Ok(()),
        };
        if lanes == 0 {
            return Ok(());
        }
        let lanes = if touch.format == Format::Mubuf { lanes } else { 0 };
        let what = format!("{what}: reads beyond the end return 0, writes are dropped");
        self.report(Kind::Clamp, number, &Disorder { what, other: None, lanes, memory: None }, wave.index)
    }

    /// Checks an LDS access, of which hardware drops the part beyond the group segment.
    fn clamped_lds(&mut self, number: u32, access: &Access, wave: &Wave<L>, group: &Group<'_>) -> Progress {
        let is_beyond = |lane: &usize| access.ranges(wave, *lane).any(|bytes| bytes.end > group.lds.len());
        let lanes = exec::lanes_of(access.lanes(wave.exec() & Wave::<L>::LANES)).filter(is_beyond);
        let lanes = lanes.fold(0u64, |lanes, lane| lanes | 1 << lane);
        if lanes == 0 {
            return Ok(());
        }
        let what = format!(
            "out-of-bounds LDS access by {} lanes, group segment of {} bytes: reads beyond the end return 0, writes are \
             dropped",
            lanes.count_ones(),
            group.lds.len()
        );
        self.report(Kind::Clamp, number, &Disorder { what, other: None, lanes, memory: None }, wave.index)
    }

    /// Race check of an instruction: its cache operations, barriers and accesses.
    fn order(&mut self, op: u32, number: u32, step: &Step, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        let index = wave.index as usize;
        let (Some(races), pending) = (&mut self.races, &self.pending[index]) else { return Ok(()) };
        if step.control != Control::default() {
            races.control(index, &step.control, pending);
        }
        if step.meeting != Meeting::None {
            races.meet(index, step.meeting, pending);
        }
        if !step.runs {
            return Ok(());
        }
        let op = &self.program.ops[op as usize];
        let mut hits = Vec::new();
        if let Some(touch) = &step.touch {
            hits = races.touch((number, step, touch), op, self.plan, pending, (wave, group));
        }
        if let (Some(access), Some(Issue::One(class))) = (&step.lds, step.issue) {
            let access = (number, access, class);
            hits.extend(races.touch_lds(access, op, self.plan, pending, (wave, group)));
        }
        hits.into_iter().try_for_each(|hit| self.race(number, &hit, wave.index))
    }

    /// Completes the checks after a micro-operation has run.
    #[inline(never)]
    fn follow(&mut self, op: u32, wave: &mut Wave<L>) {
        if let Some(races) = &mut self.races {
            races.done();
        }
        self.pending[wave.index as usize].land_missed(wave);
        let step = self.plan.of(op).last().map(|number| (number, self.plan.at(number)));
        if let Some((number, step @ Step { issue: Some(issue), runs: true, .. })) = step {
            self.issue(number, step, *issue, wave);
        }
    }

    /// Checks an instruction's LDS access. The instruction has not been counted yet.
    fn lds(&mut self, number: u32, access: &Access, issue: Option<Issue>, wave: &Wave<L>) -> Progress {
        if access.is_atomic {
            return Ok(());
        }
        if access.writes {
            let Some(Issue::One(class)) = issue else { return Ok(()) };
            let ticket = self.pending[wave.index as usize].next(class);
            if self.lds.is_full() {
                self.lds.settle(|write| self.pending[write.wave as usize].is_back(write.ticket));
            }
            self.lds.note(access, wave, Write { wave: wave.index, ticket, step: number });
            return Ok(());
        }
        // Within a wave LDS accesses are in order.
        let is_settled = |write: &Write| {
            write.wave == wave.index && write.ticket.class == Class::Lds
                || self.pending[write.wave as usize].is_back(write.ticket)
        };
        self.lds.settle(|write| self.pending[write.wave as usize].is_back(write.ticket));
        let Some((write, at, lanes)) = self.lds.under(access, wave, is_settled) else { return Ok(()) };
        let target = self.program.target;
        let needed = self.pending[write.wave as usize].needed(write.ticket);
        let what = format!(
            "LDS byte {at:#x} is read before the {} of wave {} that writes it has completed: {} is missing there",
            self.mnemonic(write.step),
            write.wave,
            write.ticket.class.counter(target).wait(target, needed)
        );
        self.report(Kind::Lds, number, &Disorder { what, other: Some(write.step), lanes, memory: None }, wave.index)
    }

    /// Mnemonic of the instruction `number`.
    fn mnemonic(&self, number: u32) -> String {
        Line::of(self.program, self.plan.at(number).offset).mnemonic().to_owned()
    }

    /// The name of a register.
    fn register(&self, register: u16) -> String {
        plan::register(register, self.plan.scalars, self.plan.vectors)
    }

    /// Runs the checks that need every micro-operation.
    #[inline(never)]
    fn look_at_all(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        self.hazards(op, wave)?;
        self.follow_unwritten(op, wave, group)
    }

    /// Checks an instruction's uses of uninitialized data.
    #[inline]
    fn follow_unwritten(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        let Some(init) = &mut self.init else { return Ok(()) };
        let Some(number) = self.plan.of(op).last() else { return Ok(()) };
        match init.step(op, number, wave, group) {
            None => Ok(()),
            Some(disorder) => self.report(Kind::Init, number, &disorder, wave.index),
        }
    }

    /// Delivers delayed values of registers that an instruction is about to write, because these values are older.
    fn land_under(&mut self, step: &Step, wave: &mut Wave<L>) {
        for span in self.plan.writes(step) {
            if self.may_touch(span, wave) {
                self.pending[wave.index as usize].land_under(span, wave);
            }
        }
    }

    /// Saves the registers that an instruction will overwrite, if its result is to be delayed. Only results that write
    /// whole registers, without another outstanding one, are delayed.
    fn keep_old(&mut self, step: &Step, wave: &Wave<L>) {
        let [span] = self.plan.writes(step) else { return };
        let is_simple = !step.is_partial && span.lanes != Lanes::ActiveByM0;
        if is_simple && !self.pending[wave.index as usize].touches(span) && self.is_late() {
            self.old = Some(Values::read(wave, span.first, span.count, self.plan.scalars));
        }
    }

    /// Counts a no-op.
    #[cold]
    fn issue_skipped(&mut self, number: u32, step: &Step, issue: Issue, wave: &mut Wave<L>) {
        self.issue(number, step, issue, wave);
    }

    /// Counts an instruction that has run, and records the registers that it will write.
    #[inline(always)]
    fn issue(&mut self, number: u32, step: &Step, issue: Issue, wave: &mut Wave<L>) {
        let plan = self.plan;
        let exec = wave.exec() & Wave::<L>::LANES;
        let pending = &mut self.pending[wave.index as usize];
        let tickets = match issue {
            Issue::One(class) => [Some(pending.issue(class, wave)), None],
            Issue::Flat(class) => flat(pending, class, wave, exec, self.program.target.is_gfx9()),
        };
        if !self.checks.set.wait {
            return;
        }
        for span in plan.writes(step) {
            let lanes = if span.first >= plan.scalars { u64::MAX } else { exec };
            if lanes == 0 {
                continue;
            }
            let Span { first, count, halves, marks, .. } = *span;
            let operation = Outstanding { first, count, halves, lanes, tickets, step: number, marks };
            if span.lanes == Lanes::ActiveByM0 {
                let chosen = wave.s[slot::M0];
                for n in (0..count).filter(|n| chosen >> n & 1 != 0) {
                    pending.add(Outstanding { first: first + n, count: 1, ..operation });
                }
                continue;
            }
            pending.add(operation);
        }
        if let Some(old) = self.old.take() {
            self.hold_back(step, &old, wave);
        }
    }

    /// Restores the registers that a counted instruction has overwritten, and delays the values that it wrote.
    #[cold]
    fn hold_back(&mut self, step: &Step, old: &Values<L>, wave: &mut Wave<L>) {
        let (plan, exec) = (self.plan, wave.exec() & Wave::<L>::LANES);
        for span in plan.writes(step) {
            let lanes = if span.first >= plan.scalars { u64::MAX } else { exec };
            if lanes != 0 {
                let new = Values::read(wave, span.first, span.count, plan.scalars);
                old.write(wave, span.first, lanes, plan.scalars);
                self.pending[wave.index as usize].hold_back(span.first, lanes, new);
            }
        }
    }
}

/// Counts a flat access twice, as memory and as LDS. Before gfx10 the counter of the space that no lane accessed may go
/// down early; an access to both spaces is in order with nothing. Returns the tickets that its result waits for.
fn flat<const L: usize>(
    pending: &mut Pending<L>,
    class: Class,
    wave: &mut Wave<L>,
    exec: u64,
    gfx9: bool,
) -> [Option<Ticket>; 2] {
    let is_lds = |lane: &usize| (wave.addresses[*lane] >> 32) as u32 == SHARED_APERTURE;
    let lds = (0..L).filter(|lane| exec >> lane & 1 != 0).filter(is_lds).fold(0, |lanes, lane| lanes | 1u64 << lane);
    let (to_memory, to_lds) = (lds != exec || exec == 0, lds != 0 || exec == 0);
    let memory = pending.issue(if gfx9 && lds != 0 { Class::FlatLoad } else { class }, wave);
    let lds = pending.issue(if gfx9 && lds != exec { Class::FlatLds } else { Class::Lds }, wave);
    [Some(memory).filter(|_| to_memory), Some(lds).filter(|_| to_lds)]
}

impl<const L: usize> Observer<L> for Sanitizer<'_, L> {
    fn begin(&mut self, workgroup: [u32; 3], waves: &[Wave<L>], group: &Group<'_>) {
        self.workgroup = workgroup;
        // Seeded by the workgroup, so that it does not matter which thread runs it.
        let mix = |random: u64, by: u64| (random ^ by).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let parts = workgroup.map(u64::from).into_iter().chain([self.dispatch]);
        self.random = parts.fold(self.checks.seed.unwrap_or_default(), mix);
        let (target, scalars) = (self.program.target, self.plan.scalars);
        self.pending.iter_mut().for_each(Pending::clear);
        self.pending.resize_with(waves.len().max(self.pending.len()), || Pending::new(target, scalars));
        self.trails.clear();
        if self.checks.set.hazard && self.plan.hazards.is_there() {
            self.trails.resize(waves.len(), Trail::NEW);
        }
        self.looks_at_all = !self.trails.is_empty() || self.init.is_some();
        self.lds.clear();
        if let Some(races) = &mut self.races {
            races.begin(workgroup, waves.len(), group.lds.len());
        }
        if let Some(init) = &mut self.init {
            init.begin(waves, group);
        }
        self.meetings.begin(waves.iter().map(|wave| wave.exec() & Wave::<L>::LANES));
    }

    #[inline(always)]
    fn before(&mut self, op: u32, wave: &mut Wave<L>, group: &mut Group<'_>) -> Progress {
        if self.looks_at_all {
            self.look_at_all(op, wave, group)?;
        }
        let glance = self.plan.glance(op);
        let touches = self.pending[wave.index as usize].may_touch(glance.registers);
        self.has_to_follow = glance.deeds & self.followed != 0;
        if !touches && glance.deeds & self.looked_at == 0 {
            return Ok(());
        }
        self.look(op, touches, wave, group)
    }

    #[inline(always)]
    fn after(&mut self, op: u32, wave: &mut Wave<L>) -> Progress {
        if self.has_to_follow {
            self.follow(op, wave);
        }
        Ok(())
    }

    fn stuck(&mut self, wave: &Wave<L>, group: &Group<'_>) {
        if !self.checks.set.sync {
            return;
        }
        let (number, what) = match wave.at_named {
            false => self.meetings.stuck(wave.index as usize),
            true => {
                let barrier = group.named.get(wave.joined.wrapping_sub(1)).copied().unwrap_or_default();
                let what = format!(
                    "deadlock at named barrier {}: {} of {} signals have come",
                    wave.joined, barrier.signals, barrier.members
                );
                // The wave's last executed instruction.
                (self.plan.of(wave.next.saturating_sub(1)).last().unwrap_or(0), what)
            }
        };
        // It is a fault anyway.
        let _ = self.report(Kind::Stuck, number, &Disorder { what, other: None, lanes: 0, memory: None }, wave.index);
    }
}
