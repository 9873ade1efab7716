// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The checks `wait` and `hazard` on every path of a kernel's control-flow graph, without running it.
//!
//! The rules are those of the checks of a run: reads, writes, issues and waits from the [`Plan`], distances from
//! [`super::hazard`]. A path may be one that no input leads to.
//!
//! Modules name only those before them: [`graph`], [`waits`], [`hazards`], this one.

mod graph;
mod hazards;
mod waits;

use super::counters::too_early;
use super::finding::Line;
use super::plan::Plan;
use crate::program::Program;
use graph::Graph;
use hazards::HazardCheck;
use std::collections::HashMap;
use std::fmt;
use waits::WaitCheck;

/// Results of looking at the paths of a kernel.
#[derive(Clone, Debug)]
pub struct PathReport {
    /// Name of the kernel.
    pub kernel: String,
    /// Defects, in the order of the code.
    pub findings: Vec<PathFinding>,
    /// Instructions behind which the code was not followed, with the reason.
    pub unknown: Vec<(Line, String)>,
    /// Number of instructions that can be reached, those of called functions among them.
    pub instructions: usize,
    /// Number of their basic blocks.
    pub blocks: usize,
}

/// A defect on a path.
#[derive(Clone, Debug)]
pub struct PathFinding {
    /// Name of the check.
    pub check: &'static str,
    /// Description of the defect.
    pub what: String,
    /// The earlier instruction.
    pub other: Line,
    /// The instruction at which the defect shows.
    pub line: Line,
    /// First instructions of the blocks of a path from the one to the other, their own blocks among them.
    pub path: Vec<Line>,
}

impl PathReport {
    /// All lines of the report.
    pub fn lines_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        let unknown = self.unknown.iter_mut().map(|(line, _)| line);
        self.findings
            .iter_mut()
            .flat_map(|one| one.path.iter_mut().chain([&mut one.other, &mut one.line]))
            .chain(unknown)
    }
}

impl fmt::Display for PathFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    {}", self.other)?;
        match &self.path[..] {
            [] | [_] => writeln!(f, "    ...")?,
            // The first block is that of the instruction above.
            [_, others @ ..] => others.iter().try_for_each(|line| writeln!(f, "    ... by {line}"))?,
        }
        write!(f, "  > {}", self.line)
    }
}

/// Checks the code that can be reached from a program's entry.
pub(crate) fn check<const L: usize>(program: &Program<L>, plan: &Plan, kernel: &str) -> PathReport {
    let numbers: HashMap<u32, u32> = (0..plan.steps()).map(|number| (plan.at(number).offset, number)).collect();
    let inst = |(at, _, inst): (usize, u32, _)| numbers.get(&(4 * at as u32)).map(|n| (4 * at as u32, (*n, inst)));
    let insts = program.instructions().filter_map(inst).collect();
    let graph = Graph::new(plan, &insts, plan.at(plan.of(program.entry).start).offset);
    let line = |offset: u32| Line::of(program, offset);
    let of_step = |number: u32| line(plan.at(number).offset);
    let path = |blocks: &[usize]| blocks.iter().map(|at| of_step(graph.blocks[*at].steps[0])).collect();
    let waits = WaitCheck::new(plan, &graph, program.target).run().into_iter().map(|missing| {
        let other = of_step(missing.other);
        PathFinding {
            check: "wait",
            what: too_early(&missing.register, missing.is_read, other.mnemonic(), &missing.waits),
            line: of_step(missing.number),
            path: path(&missing.path),
            other,
        }
    });
    let hazards = HazardCheck::new(&plan.hazards, &graph, L > 32).run().into_iter().map(|violation| PathFinding {
        check: "hazard",
        what: violation.hazard.what,
        other: of_step(violation.hazard.other),
        line: of_step(violation.number),
        path: path(&violation.path),
    });
    let mut findings: Vec<PathFinding> = waits.chain(hazards).collect();
    findings.sort_by_key(|finding| finding.line.offset);
    let unknown = graph.unknown.iter().map(|(offset, why)| (line(*offset), why.clone())).collect();
    PathReport {
        kernel: kernel.to_owned(),
        findings,
        unknown,
        instructions: graph.blocks.iter().map(|block| block.steps.len()).sum(),
        blocks: graph.blocks.len(),
    }
}
