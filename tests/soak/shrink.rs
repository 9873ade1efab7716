// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Makes a program that fails smaller while it still fails.

use std::time::{Duration, Instant};

use crate::child::{self, Task};
use crate::edits::Edits;
use crate::generate;
use crate::program::{OpId, Program};

/// How often a smaller program must pass to count as one that does.
const ATTEMPTS: u64 = 8;

/// How long nothing may happen in a program that is being made smaller.
const LIMIT: Duration = Duration::from_secs(20);

/// The smallest program that was found to fail.
pub struct Smallest {
    pub program: Program,
    /// Last failure of the program; `None` if it did not fail again alone.
    pub what: Option<String>,
}

/// Makes the program of `task` smaller until nothing more can be left out, or for so long.
pub fn shrink(task: &Task, time: Duration) -> Smallest {
    let deadline = Instant::now() + time;
    let fails = |edits: &Edits, attempts: u64| {
        let task = Task { count: attempts, edits: Some(edits.clone()), limit: LIMIT, ..task.clone() };
        child::run(&task, Some(deadline), || ()).failure.map(|(_, what)| what)
    };
    let mut best = Edits::default();
    let mut what = fails(&best, 3 * ATTEMPTS);
    if what.is_some() {
        let mut try_edits = |edits: Edits, best: &mut Edits| {
            let failure = fails(&edits, ATTEMPTS);
            let is_better = failure.is_some();
            if is_better {
                (*best, what) = (edits, failure);
            }
            is_better
        };
        drop_operations(task.seed, deadline, &mut best, &mut try_edits);
        let switches: [fn(&mut Edits); 4] = [
            |edits| edits.has_one_thread = true,
            |edits| edits.has_one_queue_each = true,
            |edits| edits.has_no_options = true,
            |edits| edits.is_in_order = true,
        ];
        for switch in switches {
            let mut edits = best.clone();
            switch(&mut edits);
            if Instant::now() < deadline {
                try_edits(edits, &mut best);
            }
        }
    }
    Smallest { program: best.apply(generate::program(task.seed)), what }
}

/// Leaves out halves, quarters, … single operations.
fn drop_operations(
    seed: u64,
    deadline: Instant,
    best: &mut Edits,
    try_edits: &mut impl FnMut(Edits, &mut Edits) -> bool,
) {
    let left =
        |edits: &Edits| -> Vec<OpId> { edits.apply(generate::program(seed)).ops.iter().map(|op| op.id).collect() };
    let mut size = left(best).len().div_ceil(2);
    while size > 0 {
        let mut is_smaller = false;
        // The last first: later operations need earlier ones.
        let mut end = left(best).len();
        while end > 0 && Instant::now() < deadline {
            let ids = left(best);
            end = end.min(ids.len());
            let start = end.saturating_sub(size);
            let mut edits = best.clone();
            edits.dropped.extend(&ids[start..end]);
            is_smaller |= try_edits(edits, best);
            end = start;
        }
        if Instant::now() >= deadline {
            return;
        }
        if size > 1 || !is_smaller {
            size /= 2;
        }
    }
}
