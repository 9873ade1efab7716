// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What a wave has outstanding, and the registers that it will still write.

use super::clock::Known;
use super::counters::{CLASSES, COUNTERS, Class, Counter, Waits};
use super::plan::{Lanes, Span};
use crate::exec;
use crate::hardware::slot;
use crate::wave::{Row, Wave};
use sim_isa::Target;
use std::collections::VecDeque;

/// The `n`-th operation of a class that a wave has issued, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub class: Class,
    pub n: u32,
}

/// An operation that will write registers.
#[derive(Clone, Copy)]
pub(super) struct Outstanding {
    /// Registers, in the numbers of a [`Span`].
    pub first: u16,
    pub count: u16,
    /// The instruction, by its number in the plan.
    pub step: u32,
    /// Lanes that it writes; all for scalar registers.
    pub lanes: u64,
    /// When all of these are back, the registers are written.
    pub tickets: [Option<Ticket>; 2],
}

/// The sets of 64 registers that some are in, by number, and their bits there.
#[inline]
fn sets(first: u16, count: u16) -> impl Iterator<Item = (usize, u64)> {
    let (first, end) = (usize::from(first), usize::from(first + count));
    (first / 64..end.div_ceil(64)).map(move |set| {
        let (from, to) = (first.max(64 * set) - 64 * set, end.min(64 * set + 64) - 64 * set);
        (set, u64::MAX << from & u64::MAX >> (64 - to))
    })
}

/// What an operation will write that its registers do not have yet. No other operation has one of these registers.
struct Late<const L: usize> {
    first: u16,
    lanes: u64,
    values: Values<L>,
}

/// Contents of registers.
pub(super) enum Values<const L: usize> {
    Vector(Vec<Row<L>>),
    Scalar(Vec<u32>),
}

impl<const L: usize> Values<L> {
    /// Those that are in registers now. `scalars` is the number of the first scalar slot.
    pub fn read(wave: &Wave<L>, first: u16, count: u16, scalars: u16) -> Self {
        let (first, count) = (usize::from(first), usize::from(count));
        match first.checked_sub(scalars.into()) {
            None => Values::Vector(wave.v[first..first + count].to_vec()),
            Some(slot) => Values::Scalar(wave.s[slot..slot + count].to_vec()),
        }
    }

    /// How many there are.
    fn count(&self) -> u16 {
        match self {
            Values::Vector(rows) => rows.len() as u16,
            Values::Scalar(values) => values.len() as u16,
        }
    }

    /// Puts them into the registers of `lanes`.
    pub fn write(&self, wave: &mut Wave<L>, first: u16, lanes: u64, scalars: u16) {
        let first = usize::from(first);
        match self {
            Values::Vector(rows) => {
                for (target, row) in wave.v[first..].iter_mut().zip(rows) {
                    for lane in (0..L).filter(|lane| lanes >> lane & 1 != 0) {
                        target.0[lane] = row.0[lane];
                    }
                }
            }
            Values::Scalar(values) => {
                let first = first - usize::from(scalars);
                for (n, &value) in values.iter().enumerate() {
                    wave.set_s(first + n, value);
                }
            }
        }
    }
}

/// A wave's outstanding operations.
pub(super) struct Pending<const L: usize> {
    target: Target,
    /// Number of the first scalar slot.
    scalars: u16,
    /// The classes that each counter counts, as a set.
    classes: [u16; COUNTERS],
    /// How high the counter of each class goes.
    limits: [u32; CLASSES],
    issued: [u32; CLASSES],
    /// Those of them that are back for sure.
    back: [u32; CLASSES],
    /// The registers that operations will write, as sets of 64.
    marked: Vec<u64>,
    /// Some of them may be those of two operations.
    overlaps: bool,
    /// The operations with one ticket, by its class, in the order in which they were issued, which is that in which
    /// they are known to be back.
    queues: [VecDeque<Outstanding>; CLASSES],
    /// Those with two.
    flat: Vec<Outstanding>,
    /// How many there are in both.
    count: usize,
    late: Vec<Late<L>>,
    /// Those that the instruction under way has not waited for: they arrive after it.
    pub missed: Vec<Outstanding>,
}

impl<const L: usize> Pending<L> {
    pub fn new(target: Target, scalars: u16) -> Self {
        let mut classes = [0; COUNTERS];
        for class in Class::ALL {
            classes[class.counter(target) as usize] |= 1 << class as u16;
        }
        Pending {
            target,
            scalars,
            classes,
            limits: Class::ALL.map(|class| class.counter(target).limit(target)),
            issued: [0; CLASSES],
            back: [0; CLASSES],
            marked: vec![0; (usize::from(scalars) + slot::PADDED).div_ceil(64)],
            overlaps: false,
            queues: Default::default(),
            flat: Vec::new(),
            count: 0,
            late: Vec::new(),
            missed: Vec::new(),
        }
    }

    /// A new wave has nothing outstanding.
    pub fn clear(&mut self) {
        (self.issued, self.back) = ([0; CLASSES], [0; CLASSES]);
        self.marked.fill(0);
        self.overlaps = false;
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.flat.clear();
        self.count = 0;
        self.late.clear();
        self.missed.clear();
    }

    /// Counts an operation.
    #[inline]
    pub fn issue(&mut self, class: Class, wave: &mut Wave<L>) -> Ticket {
        let (at, limit) = (class as usize, self.limits[class as usize]);
        self.issued[at] += 1;
        let n = self.issued[at];
        // The hardware does not issue it before there is room in the counter.
        if n - self.back[at] > limit {
            self.settle(class.counter(self.target), limit, wave);
        }
        Ticket { class, n }
    }

    /// What the next operation of a class will have.
    pub fn next(&self, class: Class) -> Ticket {
        Ticket { class, n: self.issued[class as usize] + 1 }
    }

    /// What the wave has done.
    pub fn known(&self) -> Known {
        Known { issued: self.issued, back: self.back }
    }

    pub fn is_back(&self, ticket: Ticket) -> bool {
        self.back[ticket.class as usize] >= ticket.n
    }

    /// The value of its counter at which an operation is back for sure.
    pub fn needed(&self, ticket: Ticket) -> u32 {
        match ticket.class.is_ordered() {
            true => self.issued[ticket.class as usize] - ticket.n,
            false => 0,
        }
    }

    /// Notes what an operation will write, with what registers do not have yet.
    #[inline]
    pub fn add(&mut self, operation: Outstanding, late: Option<Values<L>>) {
        self.mark(&operation);
        self.count += 1;
        if let Some(values) = late {
            self.late.push(Late { first: operation.first, lanes: operation.lanes, values });
        }
        match operation.tickets {
            [Some(ticket), None] | [None, Some(ticket)] => self.queues[ticket.class as usize].push_back(operation),
            _ => self.flat.push(operation),
        }
    }

    #[inline]
    fn mark(&mut self, operation: &Outstanding) {
        for (at, set) in sets(operation.first, operation.count) {
            self.overlaps |= self.marked[at] & set != 0;
            self.marked[at] |= set;
        }
    }

    /// An operation on these registers that was taken out will write no more.
    #[inline]
    fn unmark(&mut self, first: u16, count: u16) {
        self.count -= 1;
        for (at, set) in sets(first, count) {
            self.marked[at] &= !set;
        }
        if self.overlaps {
            self.mark_again();
        }
    }

    #[cold]
    fn mark_again(&mut self) {
        self.overlaps = false;
        let (queues, flat) = (std::mem::take(&mut self.queues), std::mem::take(&mut self.flat));
        queues.iter().flatten().chain(&flat).for_each(|other| self.mark(other));
        (self.queues, self.flat) = (queues, flat);
    }

    /// Whether any operation will write a register of these sets.
    #[inline]
    pub fn touches_any(&self, sets: &[(u32, u64)]) -> bool {
        self.count != 0 && sets.iter().any(|&(at, set)| self.marked[at as usize] & set != 0)
    }

    /// Whether any operation will write one of these registers.
    #[inline]
    pub fn touches(&self, span: &Span) -> bool {
        self.count != 0 && sets(span.first, span.count).any(|(at, set)| self.marked[at] & set != 0)
    }

    /// Takes out an operation that will write a register of `span`, unless all of its tickets are `allowed`; the first
    /// of its class. Returns what of it both have.
    pub fn conflict(
        &mut self,
        span: &Span,
        wave: &Wave<L>,
        allowed: impl Fn(Ticket) -> bool,
    ) -> Option<(Outstanding, Conflict)> {
        let exec = wave.exec() & Wave::<L>::LANES;
        let chosen = wave.s[slot::M0];
        let common = |operation: &Outstanding| {
            let first = span.first.max(operation.first);
            let end = (span.first + span.count).min(operation.first + operation.count);
            let lanes = operation.lanes & if span.lanes == Lanes::All { u64::MAX } else { exec };
            let named = |register: &u16| span.lanes != Lanes::ActiveByM0 || chosen >> (register - span.first) & 1 != 0;
            let register = (first..end).find(named).filter(|_| lanes != 0)?;
            let is_allowed = operation.tickets.iter().flatten().all(|ticket| allowed(*ticket));
            (!is_allowed).then_some(Conflict { register, lanes })
        };
        let find = |at: usize, operation: &Outstanding| Some((at, common(operation)?));
        for queue in &mut self.queues {
            let Some((at, conflict)) = queue.iter().enumerate().find_map(|(at, one)| find(at, one)) else { continue };
            let operation = queue.remove(at)?;
            self.unmark(operation.first, operation.count);
            return Some((operation, conflict));
        }
        let (at, conflict) = self.flat.iter().enumerate().find_map(|(at, one)| find(at, one))?;
        let operation = self.flat.remove(at);
        self.unmark(operation.first, operation.count);
        Some((operation, conflict))
    }

    /// Everything a wait tells is back. What is late arrives.
    pub fn wait(&mut self, waits: &Waits, wave: &mut Wave<L>) {
        for at in 0..COUNTERS {
            if let Some(n) = waits.0[at] {
                self.settle(Counter::ALL[at], n.into(), wave);
            }
        }
    }

    /// Takes out what is back with one of the class.
    #[inline]
    fn arrive(&mut self, class: Class, wave: &mut Wave<L>) {
        let queue = class as usize;
        let back = self.back[queue];
        while let Some(&Outstanding { first, count, tickets, .. }) = self.queues[queue].front() {
            if tickets.iter().flatten().any(|ticket| ticket.n > back) {
                break;
            }
            self.queues[queue].pop_front();
            self.unmark(first, count);
            self.land(first, wave);
        }
        if !self.flat.is_empty() {
            self.arrive_flat(wave);
        }
    }

    #[cold]
    fn arrive_flat(&mut self, wave: &mut Wave<L>) {
        let mut at = 0;
        while at < self.flat.len() {
            let Outstanding { first, count, tickets, .. } = self.flat[at];
            if tickets.iter().flatten().all(|ticket| self.is_back(*ticket)) {
                self.flat.remove(at);
                self.unmark(first, count);
                self.land(first, wave);
            } else {
                at += 1;
            }
        }
    }

    /// Writes what is late of an operation that is back, whose first register this is.
    #[inline]
    fn land(&mut self, first: u16, wave: &mut Wave<L>) {
        if !self.late.is_empty()
            && let Some(at) = self.late.iter().position(|late| late.first == first)
        {
            let Late { lanes, values, .. } = self.late.swap_remove(at);
            values.write(wave, first, lanes, self.scalars);
        }
    }

    /// What is late of registers of `span` arrives; it stays outstanding.
    pub fn land_under(&mut self, span: &Span, wave: &mut Wave<L>) {
        let mut at = 0;
        while at < self.late.len() {
            let Late { first, values, .. } = &self.late[at];
            if *first < span.first + span.count && span.first < first + values.count() {
                self.land(*first, wave);
            } else {
                at += 1;
            }
        }
    }

    /// What was missed arrives.
    #[inline]
    pub fn land_missed(&mut self, wave: &mut Wave<L>) {
        if !self.missed.is_empty() {
            for operation in std::mem::take(&mut self.missed) {
                self.land(operation.first, wave);
            }
        }
    }

    /// A counter is no more than `n`. If one of a class that comes back in order were not back, none of those after it
    /// would be: it is, where it and those after it are more than `n`. This holds whatever else the counter counts.
    /// What is back arrives.
    fn settle(&mut self, counter: Counter, n: u32, wave: &mut Wave<L>) {
        for class in exec::lanes_of(self.classes[counter as usize].into()).map(|class| Class::ALL[class]) {
            let issued = self.issued[class as usize];
            let now = match class.is_ordered() {
                true => issued.saturating_sub(n),
                false if n == 0 => issued,
                false => continue,
            };
            if now > self.back[class as usize] {
                self.back[class as usize] = now;
                self.arrive(class, wave);
            }
        }
    }
}

/// What an instruction and an outstanding operation have in common.
pub(super) struct Conflict {
    /// The first register.
    pub register: u16,
    pub lanes: u64,
}
