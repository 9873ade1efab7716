// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What a wave has outstanding, and the registers that it will still write.

use super::clock::Known;
use super::counters::{CLASSES, COUNTERS, Class, Counter, Waits};
use super::plan::{Lanes, Span};
use crate::hardware::slot;
use crate::wave::{Row, Wave};
use sim_isa::Target;

/// The `n`-th operation of a class that a wave has issued, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub class: Class,
    pub n: u32,
}

/// An operation that will write registers.
pub(super) struct Outstanding<const L: usize> {
    /// Registers, in the numbers of a [`Span`].
    pub first: u16,
    pub count: u16,
    /// Lanes that it writes; all for scalar registers.
    pub lanes: u64,
    /// When all of these are back, the registers are written.
    pub tickets: [Option<Ticket>; 2],
    /// The instruction, by its number in the plan.
    pub step: u32,
    /// What it will write, if the registers do not have it yet.
    pub late: Option<Values<L>>,
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
    issued: [u32; CLASSES],
    /// Those of them that are back for sure.
    back: [u32; CLASSES],
    /// How many of `outstanding` will write a register.
    marks: Vec<u8>,
    /// The registers that have a mark, as sets of 64.
    marked: Vec<u64>,
    /// In the order in which they were issued.
    pub outstanding: Vec<Outstanding<L>>,
    /// Those that the instruction under way has not waited for: they arrive after it.
    pub missed: Vec<Outstanding<L>>,
}

impl<const L: usize> Pending<L> {
    pub fn new(target: Target, scalars: u16) -> Self {
        let marks = vec![0; usize::from(scalars) + slot::PADDED];
        let marked = vec![0; marks.len().div_ceil(64)];
        let (issued, back) = ([0; CLASSES], [0; CLASSES]);
        Pending { target, scalars, issued, back, marks, marked, outstanding: Vec::new(), missed: Vec::new() }
    }

    /// A new wave has nothing outstanding.
    pub fn clear(&mut self) {
        (self.issued, self.back) = ([0; CLASSES], [0; CLASSES]);
        self.marks.fill(0);
        self.marked.fill(0);
        self.outstanding.clear();
        self.missed.clear();
    }

    /// Counts an operation.
    pub fn issue(&mut self, class: Class, wave: &mut Wave<L>) -> Ticket {
        let counter = class.counter(self.target);
        self.issued[class as usize] += 1;
        // The hardware does not issue it before there is room in the counter.
        if self.issued[class as usize] - self.back[class as usize] > counter.limit(self.target) {
            self.settle(counter, counter.limit(self.target));
            self.arrive(wave);
        }
        Ticket { class, n: self.issued[class as usize] }
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

    pub fn add(&mut self, operation: Outstanding<L>) {
        self.mark(&operation, 1);
        self.outstanding.push(operation);
    }

    fn mark(&mut self, operation: &Outstanding<L>, by: u8) {
        let first = usize::from(operation.first);
        for register in first..first + usize::from(operation.count) {
            let mark = &mut self.marks[register];
            *mark = mark.wrapping_add(by);
            let (set, bit) = (&mut self.marked[register / 64], 1 << (register % 64));
            *set = if *mark == 0 { *set & !bit } else { *set | bit };
        }
    }

    /// Whether any operation will write a register of these sets.
    #[inline]
    pub fn touches_any(&self, sets: &[(u32, u64)]) -> bool {
        !self.outstanding.is_empty() && sets.iter().any(|&(at, set)| self.marked[at as usize] & set != 0)
    }

    /// Whether any operation will write one of these registers.
    #[inline]
    pub fn touches(&self, span: &Span) -> bool {
        let first = usize::from(span.first);
        self.marks[first..first + usize::from(span.count)].iter().any(|mark| *mark != 0)
    }

    /// The first operation that will write a register of `span`, and what of it both have.
    pub fn conflict(&self, span: &Span, wave: &Wave<L>) -> impl Iterator<Item = (usize, Conflict)> {
        let exec = wave.exec() & Wave::<L>::LANES;
        let chosen = wave.s[slot::M0];
        let span = *span;
        self.outstanding.iter().enumerate().filter_map(move |(at, operation)| {
            let first = span.first.max(operation.first);
            let end = (span.first + span.count).min(operation.first + operation.count);
            let lanes = operation.lanes & if span.lanes == Lanes::All { u64::MAX } else { exec };
            let named = |register: &u16| span.lanes != Lanes::ActiveByM0 || chosen >> (register - span.first) & 1 != 0;
            let register = (first..end).find(named).filter(|_| lanes != 0)?;
            Some((at, Conflict { register, lanes }))
        })
    }

    /// Takes an operation out, as back.
    pub fn remove(&mut self, at: usize) -> Outstanding<L> {
        let operation = self.outstanding.remove(at);
        self.mark(&operation, u8::MAX);
        operation
    }

    /// Everything a wait tells is back. What is late arrives.
    pub fn wait(&mut self, waits: &Waits, wave: &mut Wave<L>) {
        for at in 0..COUNTERS {
            if let Some(n) = waits.0[at] {
                self.settle(Counter::ALL[at], n.into());
            }
        }
        self.arrive(wave);
    }

    /// Takes out what is back.
    fn arrive(&mut self, wave: &mut Wave<L>) {
        let is_back =
            |operation: &Outstanding<L>| operation.tickets.iter().flatten().all(|ticket| self.is_back(*ticket));
        if !self.outstanding.iter().any(is_back) {
            return;
        }
        let mut outstanding = std::mem::take(&mut self.outstanding);
        outstanding.retain(|operation| {
            let stays = !operation.tickets.iter().flatten().all(|ticket| self.is_back(*ticket));
            if !stays {
                self.mark(operation, u8::MAX);
                self.land(operation, wave);
            }
            stays
        });
        self.outstanding = outstanding;
    }

    /// Writes the registers of an operation that is back.
    pub fn land(&self, operation: &Outstanding<L>, wave: &mut Wave<L>) {
        if let Some(values) = &operation.late {
            values.write(wave, operation.first, operation.lanes, self.scalars);
        }
    }

    /// What is late of registers of `span` arrives; it stays outstanding.
    pub fn land_under(&mut self, span: &Span, wave: &mut Wave<L>) {
        let mut outstanding = std::mem::take(&mut self.outstanding);
        for operation in &mut outstanding {
            let has = |register: u16| (operation.first..operation.first + operation.count).contains(&register);
            if (span.first..span.first + span.count).any(has) {
                self.land(operation, wave);
                operation.late = None;
            }
        }
        self.outstanding = outstanding;
    }

    /// What was missed arrives.
    pub fn land_missed(&mut self, wave: &mut Wave<L>) {
        for operation in std::mem::take(&mut self.missed) {
            self.land(&operation, wave);
        }
    }

    /// A counter is no more than `n`. If one of a class that comes back in order were not back, none of those after it
    /// would be: it is, where it and those after it are more than `n`. This holds whatever else the counter counts.
    fn settle(&mut self, counter: Counter, n: u32) {
        for class in Class::ALL {
            if class.counter(self.target) != counter {
                continue;
            }
            let (issued, back) = (self.issued[class as usize], &mut self.back[class as usize]);
            if class.is_ordered() {
                *back = (*back).max(issued.saturating_sub(n));
            } else if n == 0 {
                *back = issued;
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
