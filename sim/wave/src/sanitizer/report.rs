// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Texts of findings.

use super::Sanitizer;
use super::bytes::Hit;
use super::finding::{Finding, Line};
use super::meetings::Disorder;
use super::shadow::Deed;
use crate::caching::UNIT;
use crate::fault::FaultKind;
use crate::micro_op::{Step as Progress, Stop};
use crate::program::NOWHERE;

/// Kinds of findings.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Read,
    Overwritten,
    Lds,
    Barrier,
    Stuck,
    Race,
    Equal,
    Bounds,
    Clamp,
    Hazard,
    Init,
}

impl<const L: usize> Sanitizer<'_, L> {
    /// Reports two unordered accesses.
    #[cold]
    pub(super) fn race(&mut self, number: u32, hit: &Hit, wave: u32) -> Progress {
        if hit.is_equal && !self.checks.set.equal {
            return Ok(());
        }
        if !hit.is_lds && self.checks.sink.is_mailbox(hit.address) {
            return Ok(());
        }
        let kind = if hit.is_equal { Kind::Equal } else { Kind::Race };
        let other = hit.other.map(|stamp| stamp.step);
        if let Some((_, times)) = self.found.get_mut(&(kind, number, other)) {
            *times += 1;
            return Ok(());
        }
        let space = if hit.is_lds { "LDS" } else { "memory" };
        let access = |deed: Deed| match deed {
            Deed::Load | Deed::ExpectedLoad | Deed::ScopedLoad => "read",
            Deed::Store | Deed::EqualStore => "write",
            Deed::Atomic => "atomic",
        };
        let at = |number: u32| format!("at +{:#x}", self.plan.at(number).offset);
        let (doing, here) = (access(hit.deed), at(number));
        let equal = if hit.is_equal { "; the value stays the same" } else { "" };
        let scope = hit.scope.map_or(String::new(), |scope| {
            let name = if scope == UNIT { "SCOPE_CU" } else { "SCOPE_SE" };
            format!(": an atomic's {name} does not reach the other wave")
        });
        let what = match (hit.other, &self.races) {
            (Some(stamp), Some(races)) => {
                let ([x, y, z], other) = races.place(stamp.wave);
                let of =
                    if [x, y, z] == self.workgroup { String::new() } else { format!(" of workgroup ({x}, {y}, {z})") };
                format!(
                    "data race on {space} byte {:#x}: {doing} by wave {wave} {here}, previous {} by wave {other}{of} \
                     {}{equal}{scope}",
                    hit.address,
                    access(stamp.deed),
                    at(stamp.step),
                )
            }
            _ => {
                let what = if hit.is_equal { "the same value" } else { "different values" };
                format!(
                    "data race on {space} byte {:#x}: write by several lanes of wave {wave} {here}, with {what}",
                    hit.address
                )
            }
        };
        let memory = (!hit.is_lds).then_some(hit.address);
        self.report(kind, number, &Disorder { what, other, lanes: hit.lanes, memory }, wave)
    }

    /// Reports a finding at instruction `number`, once.
    pub(super) fn report(&mut self, kind: Kind, number: u32, disorder: &Disorder, wave: u32) -> Progress {
        let key = (kind, number, disorder.other);
        if let Some((_, times)) = self.found.get_mut(&key) {
            *times += 1;
            return Ok(());
        }
        let line = self.line(self.plan.at(number).offset);
        let finding = Finding {
            code: self.plan.hash,
            check: match kind {
                Kind::Read | Kind::Overwritten | Kind::Lds => "wait",
                Kind::Barrier | Kind::Stuck => "sync",
                Kind::Race => "race",
                Kind::Equal => "equal",
                Kind::Bounds => "bounds",
                Kind::Clamp => "clamp",
                Kind::Hazard => "hazard",
                Kind::Init => "init",
            },
            what: disorder.what.clone(),
            memory: disorder.memory.map(|address| (address, self.checks.sink.place(address))),
            kernel: self.kernel.to_owned(),
            pc: line.pc,
            around: self.around(&line),
            line,
            other: disorder.other.map(|other| self.line(self.plan.at(other).offset)),
            workgroup: self.workgroup,
            wave,
            lanes: disorder.lanes,
        };
        self.checks.sink.found(&finding);
        let text = finding.to_string();
        self.found.insert(key, (finding, 0));
        if self.checks.fatal { Err(Stop::Fault(Box::new(FaultKind::Found(text)))) } else { Ok(()) }
    }

    fn line(&self, offset: u32) -> Line {
        let mut line = Line::of(self.program, offset);
        line.source = self.checks.sink.source(line.pc);
        line
    }

    /// The instructions before and after one in the code.
    fn around(&self, line: &Line) -> [Option<Line>; 2] {
        let index = &self.program.index;
        let at = line.offset as usize / 4;
        // The longest has four dwords.
        let before = (at.saturating_sub(4)..at).rev().find(|at| index[*at] != NOWHERE);
        let after = (at + 1..index.len().min(at + 5)).find(|at| index[*at] != NOWHERE);
        [before, after].map(|at| at.map(|at| self.line(4 * at as u32)))
    }
}

impl<const L: usize> Drop for Sanitizer<'_, L> {
    fn drop(&mut self) {
        for (finding, times) in self.found.values().filter(|(_, times)| *times != 0) {
            self.checks.sink.repeated(finding, *times);
        }
    }
}
