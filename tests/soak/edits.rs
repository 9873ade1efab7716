// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Edits that make a failing program smaller and simpler.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::{Fate, Kind, OpId, Program};

/// Parts to leave out of a program. [`Edits::text`] hands them to a child process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    pub dropped: BTreeSet<OpId>,
    pub has_one_thread: bool,
    pub has_one_queue_each: bool,
    pub has_no_options: bool,
    pub is_in_order: bool,
}

impl Edits {
    /// The edits as text for [`Self::parse`].
    pub fn text(&self) -> String {
        let mut words: Vec<_> = self.dropped.iter().map(OpId::to_string).collect();
        let switches = [
            (self.has_one_thread, "one-thread"),
            (self.has_one_queue_each, "one-queue-each"),
            (self.has_no_options, "no-options"),
            (self.is_in_order, "in-order"),
        ];
        words.extend(switches.iter().filter(|(is_on, _)| *is_on).map(|(_, word)| (*word).to_owned()));
        words.join(",")
    }

    pub fn parse(text: &str) -> Self {
        let mut edits = Self::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word {
                "one-thread" => edits.has_one_thread = true,
                "one-queue-each" => edits.has_one_queue_each = true,
                "no-options" => edits.has_no_options = true,
                "in-order" => edits.is_in_order = true,
                number => _ = edits.dropped.insert(number.parse().expect("the number of an operation")),
            }
        }
        edits
    }

    /// Applies the edits. Dropping an alloca also drops the operations that use its buffer; dropping an operation also
    /// drops the operations whose failure it causes.
    pub fn apply(&self, mut program: Program) -> Program {
        let mut dropped = self.dropped.clone();
        for op in &program.ops {
            if let Kind::Alloca { buffer } = op.kind
                && is_dropped(&dropped, op.id, op.fate)
            {
                let users = program.ops.iter().filter(|other| other.buffers(&program).contains(&buffer));
                dropped.extend(users.map(|other| other.id));
            }
        }
        let dropped: BTreeSet<_> =
            program.ops.iter().filter(|op| is_dropped(&dropped, op.id, op.fate)).map(|op| op.id).collect();
        close_gaps(&mut program, &dropped);
        for op in &mut program.ops {
            if self.has_one_thread {
                op.thread = 0;
            }
            if self.has_one_queue_each {
                // The first queue of its affinity.
                op.affinity &= op.affinity.wrapping_neg();
            }
            if self.is_in_order {
                op.rank = op.id as u64;
            }
        }
        if self.has_one_thread {
            program.threads = 1;
        }
        if self.has_no_options {
            let queues = |option: &(&str, String)| option.0 == "hardware_queues_per_gpu";
            program.options.retain(queues);
        }
        program
    }
}

fn is_dropped(dropped: &BTreeSet<OpId>, id: OpId, fate: Fate) -> bool {
    dropped.contains(&id) || fate.source().is_some_and(|source| dropped.contains(&source))
}

/// Removes operations. An operation that depended on a removed one inherits its dependencies.
fn close_gaps(program: &mut Program, dropped: &BTreeSet<OpId>) {
    // The dependencies that replace a dropped operation.
    let mut instead: BTreeMap<OpId, BTreeSet<OpId>> = BTreeMap::new();
    // Further dependencies of the next operation on each timeline, besides its predecessor there.
    let mut inherited: Vec<BTreeSet<OpId>> = vec![BTreeSet::new(); program.timelines.len()];
    let mut last: Vec<Option<OpId>> = vec![None; program.timelines.len()];
    for op in &mut program.ops {
        let mut dependencies: BTreeSet<OpId> = BTreeSet::new();
        for id in &op.dependencies {
            match instead.get(id) {
                Some(others) => dependencies.extend(others),
                None => _ = dependencies.insert(*id),
            }
        }
        for timeline in &op.timelines {
            dependencies.extend(&inherited[*timeline]);
        }
        if dropped.contains(&op.id) {
            dependencies.extend(op.timelines.iter().filter_map(|timeline| last[*timeline]));
            for timeline in &op.timelines {
                inherited[*timeline].extend(&dependencies);
            }
            instead.insert(op.id, dependencies);
        } else {
            for timeline in &op.timelines {
                inherited[*timeline].clear();
                last[*timeline] = Some(op.id);
            }
            op.dependencies = dependencies.into_iter().collect();
        }
    }
    program.ops.retain(|op| !dropped.contains(&op.id));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use random::Random;

    #[test]
    fn what_is_left_is_ordered_as_before() {
        for seed in 0..100 {
            let program = generate::program(seed);
            let order: BTreeMap<_, _> = program.ops.iter().map(|op| op.id).zip(program.predecessors()).collect();
            let mut random = Random::new(seed);
            let dropped = program.ops.iter().map(|op| op.id).filter(|_| random.below(3) == 0).collect();
            let smaller = Edits { dropped, ..Edits::default() }.apply(program);
            let left: BTreeSet<_> = smaller.ops.iter().map(|op| op.id).collect();
            for (op, before) in smaller.ops.iter().zip(smaller.predecessors()) {
                let expected: BTreeSet<_> = order[&op.id].intersection(&left).copied().collect();
                assert_eq!(before, expected, "seed {seed}, operation {}", op.id);
            }
            assert_eq!(smaller.order().len(), smaller.ops.len());
        }
    }

    #[test]
    fn edits_are_text() {
        let edits = Edits { dropped: [3, 17].into(), has_one_thread: true, is_in_order: true, ..Edits::default() };
        assert_eq!(Edits::parse(&edits.text()), edits);
    }
}
