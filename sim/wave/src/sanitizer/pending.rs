// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Outstanding operations of a wave, and the registers that they will still write.

use super::clock::Known;
use super::counters::{CLASSES, Class, Counter, Waits};
use super::plan::{Lanes, Marks, Span};
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
    /// Mask of the [`halves`], if it is one register.
    ///
    /// [`halves`]: super::plan::halves
    pub halves: u8,
    /// The instruction, by its number in the plan.
    pub step: u32,
    /// Mask of the lanes that it writes; all for scalar registers.
    pub lanes: u64,
    /// Tickets. When all of these operations are complete, the registers are written.
    pub tickets: [Option<Ticket>; 2],
    /// The registers as a set, which may have more of them.
    pub marks: Marks,
}

/// Delayed values of an operation, which its registers do not have yet. No other operation has one of these registers.
struct Late<const L: usize> {
    first: u16,
    lanes: u64,
    values: Values<L>,
}

/// Values of registers.
pub(super) enum Values<const L: usize> {
    Vector(Vec<Row<L>>),
    Scalar(Vec<u32>),
}

impl<const L: usize> Values<L> {
    /// Reads the current values of registers. `scalars` is the number of the first scalar slot.
    pub fn read(wave: &Wave<L>, first: u16, count: u16, scalars: u16) -> Self {
        let (first, count) = (usize::from(first), usize::from(count));
        match first.checked_sub(scalars.into()) {
            None => Values::Vector(wave.v[first..first + count].to_vec()),
            Some(slot) => Values::Scalar(wave.s[slot..slot + count].to_vec()),
        }
    }

    /// Number of registers.
    fn count(&self) -> u16 {
        match self {
            Values::Vector(rows) => rows.len() as u16,
            Values::Scalar(values) => values.len() as u16,
        }
    }

    /// Writes the values to the registers of `lanes`.
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
    /// Number of the first scalar slot.
    scalars: u16,
    /// Counter of each class.
    counters: [Counter; CLASSES],
    /// Maximum value of the counter of each class.
    limits: [u32; CLASSES],
    issued: [u32; CLASSES],
    /// Number of operations of each class that are surely complete.
    back: [u32; CLASSES],
    /// Set of the classes with operations that may be incomplete.
    open: u32,
    /// The registers that operations will write.
    marked: Marks,
    /// True if two operations may share a mark.
    overlaps: bool,
    /// The operations with one ticket, by its class, in the order in which they were issued, which is that in which
    /// they are known to be back.
    queues: [VecDeque<Outstanding>; CLASSES],
    /// Outstanding operations with two tickets.
    flat: Vec<Outstanding>,
    late: Vec<Late<L>>,
    /// Operations that the current instruction has not waited for. Their values arrive after it.
    pub missed: Vec<Outstanding>,
}

impl<const L: usize> Pending<L> {
    pub fn new(target: Target, scalars: u16) -> Self {
        let counters = Class::ALL.map(|class| class.counter(target));
        Pending {
            scalars,
            counters,
            limits: counters.map(|counter| counter.limit(target)),
            issued: [0; CLASSES],
            back: [0; CLASSES],
            open: 0,
            marked: Marks::default(),
            overlaps: false,
            queues: Default::default(),
            flat: Vec::new(),
            late: Vec::new(),
            missed: Vec::new(),
        }
    }

    /// Resets the state for a new wave, without outstanding operations.
    pub fn clear(&mut self) {
        (self.issued, self.back) = ([0; CLASSES], [0; CLASSES]);
        (self.open, self.marked) = (0, Marks::default());
        self.overlaps = false;
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.flat.clear();
        self.late.clear();
        self.missed.clear();
    }

    /// Counts an operation.
    #[inline]
    pub fn issue(&mut self, class: Class, wave: &mut Wave<L>) -> Ticket {
        let (at, limit) = (class as usize, self.limits[class as usize]);
        self.issued[at] += 1;
        self.open |= 1 << at;
        let n = self.issued[at];
        // The hardware does not issue it before there is room in the counter.
        if n - self.back[at] > limit {
            let counter = self.counters[at];
            self.settle(wave, |other| (other == counter).then_some(limit));
        }
        Ticket { class, n }
    }

    /// Ticket of the next operation of a class.
    pub fn next(&self, class: Class) -> Ticket {
        Ticket { class, n: self.issued[class as usize] + 1 }
    }

    /// Issued and complete operations of the wave.
    pub fn known(&self) -> Known {
        Known { issued: self.issued, back: self.back }
    }

    pub fn is_back(&self, ticket: Ticket) -> bool {
        self.back[ticket.class as usize] >= ticket.n
    }

    /// Value of its counter at which an operation is surely complete.
    pub fn needed(&self, ticket: Ticket) -> u32 {
        match ticket.class.is_ordered() {
            true => self.issued[ticket.class as usize] - ticket.n,
            false => 0,
        }
    }

    /// Adds an operation with the registers that it will write.
    #[inline]
    pub fn add(&mut self, operation: Outstanding) {
        self.mark(operation.marks);
        match operation.tickets {
            [Some(ticket), None] | [None, Some(ticket)] => self.queues[ticket.class as usize].push_back(operation),
            _ => self.flat.push(operation),
        }
    }

    /// Holds the values of an operation back from its registers.
    pub fn hold_back(&mut self, first: u16, lanes: u64, values: Values<L>) {
        self.late.push(Late { first, lanes, values });
    }

    #[inline]
    fn mark(&mut self, marks: Marks) {
        self.overlaps |= self.marked.meets(marks);
        self.marked.add(marks);
    }

    /// Removes the marks of an operation that was removed.
    #[inline]
    fn unmark(&mut self, marks: Marks) {
        self.marked.remove(marks);
        if self.overlaps {
            self.mark_again();
        }
    }

    #[cold]
    fn mark_again(&mut self) {
        (self.marked, self.overlaps) = (Marks::default(), false);
        let (queues, flat) = (std::mem::take(&mut self.queues), std::mem::take(&mut self.flat));
        queues.iter().flatten().chain(&flat).for_each(|other| self.mark(other.marks));
        (self.queues, self.flat) = (queues, flat);
    }

    /// True if an operation may write one of these registers. If false, none does.
    #[inline]
    pub fn may_touch(&self, registers: Marks) -> bool {
        self.marked.meets(registers)
    }

    /// True if any operation will write one of these registers.
    pub fn touches(&self, span: &Span) -> bool {
        let has = |one: &Outstanding| one.first < span.first + span.count && span.first < one.first + one.count;
        self.may_touch(span.marks) && self.queues.iter().flatten().chain(&self.flat).any(has)
    }

    /// Removes the first operation of its class that will write a register of `span`, unless all of its tickets are
    /// `allowed` or it is on another half of the register. Returns the common registers.
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
            let is_shared = span.halves & operation.halves != 0;
            let register = (first..end).find(named).filter(|_| lanes != 0 && is_shared)?;
            let is_allowed = operation.tickets.iter().flatten().all(|ticket| allowed(*ticket));
            (!is_allowed).then_some(Conflict { register, lanes })
        };
        let find = |at: usize, operation: &Outstanding| Some((at, common(operation)?));
        for queue in &mut self.queues {
            let Some((at, conflict)) = queue.iter().enumerate().find_map(|(at, one)| find(at, one)) else { continue };
            let operation = queue.remove(at)?;
            self.unmark(operation.marks);
            return Some((operation, conflict));
        }
        let (at, conflict) = self.flat.iter().enumerate().find_map(|(at, one)| find(at, one))?;
        let operation = self.flat.remove(at);
        self.unmark(operation.marks);
        Some((operation, conflict))
    }

    /// Completes all operations that a wait covers, and delivers their delayed values.
    pub fn wait(&mut self, waits: &Waits, wave: &mut Wave<L>) {
        self.settle(wave, |counter| waits.0[counter as usize].map(u32::from));
    }

    /// Removes the operations that are complete with one of the class.
    #[inline]
    fn arrive(&mut self, class: Class, wave: &mut Wave<L>) {
        let queue = class as usize;
        let back = self.back[queue];
        while let Some(&Outstanding { first, tickets, marks, .. }) = self.queues[queue].front() {
            if tickets.iter().flatten().any(|ticket| ticket.n > back) {
                break;
            }
            self.queues[queue].pop_front();
            self.unmark(marks);
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
            let Outstanding { first, tickets, marks, .. } = self.flat[at];
            if tickets.iter().flatten().all(|ticket| self.is_back(*ticket)) {
                self.flat.remove(at);
                self.unmark(marks);
                self.land(first, wave);
            } else {
                at += 1;
            }
        }
    }

    /// Writes the delayed values of a complete operation, which begin at register `first`.
    #[inline]
    fn land(&mut self, first: u16, wave: &mut Wave<L>) {
        if !self.late.is_empty()
            && let Some(at) = self.late.iter().position(|late| late.first == first)
        {
            let Late { lanes, values, .. } = self.late.swap_remove(at);
            values.write(wave, first, lanes, self.scalars);
        }
    }

    /// Delivers delayed values of registers of `span`. The operation stays outstanding.
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

    /// Delivers the values of missed operations.
    #[inline]
    pub fn land_missed(&mut self, wave: &mut Wave<L>) {
        if !self.missed.is_empty() {
            for operation in std::mem::take(&mut self.missed) {
                self.land(operation.first, wave);
            }
        }
    }

    /// Takes for known that each counter is at most the `n` that `most` returns for it, and completes operations
    /// accordingly. In a class that completes in order, all but the last `n` issued operations are then complete,
    /// whatever else the counter counts. In other classes, all are complete if `n` is 0, else none surely is.
    #[inline]
    fn settle(&mut self, wave: &mut Wave<L>, most: impl Fn(Counter) -> Option<u32>) {
        for at in exec::lanes_of(self.open.into()) {
            let Some(n) = most(self.counters[at]) else { continue };
            let (class, issued) = (Class::ALL[at], self.issued[at]);
            let now = match class.is_ordered() {
                true => issued.saturating_sub(n),
                false if n == 0 => issued,
                false => continue,
            };
            if now == issued {
                self.open &= !(1 << at);
            }
            if now > self.back[at] {
                self.back[at] = now;
                self.arrive(class, wave);
            }
        }
    }
}

/// Common registers of an instruction and an outstanding operation.
pub(super) struct Conflict {
    /// The first register.
    pub register: u16,
    pub lanes: u64,
}
