// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Findings of the checks, and the options that request them.

use super::unwritten::Unwritten;
use crate::program::Program;
use std::fmt;

/// Checks of a launch, and the receiver of findings.
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    /// Registers and LDS that an operation under way will still write are not read or overwritten before the wait.
    pub wait: bool,
    /// All waves of a workgroup reach its barriers, and do so equally often, with all of their lanes.
    pub sync: bool,
    /// No two accesses to the same bytes, of which one writes, are without an order.
    pub race: bool,
    /// Nor are those that write what is there already. A part of `race`.
    pub equal: bool,
    /// Check of the wait states that instructions need between them without interlocks in hardware.
    pub hazard: bool,
    /// Loads of kernel arguments stay within those that the kernel has.
    pub bounds: bool,
    /// Accesses to buffers stay within them, though hardware leaves out what does not.
    pub clamp: bool,
    /// No decision depends on what nobody has written; with what is known of memory.
    pub init: Option<&'a dyn Unwritten>,
    /// Nor is it stored where the host may read it. A part of `init`.
    pub result: bool,
    /// Results arrive late, as late as the waits let them, or at once: this decides for each.
    pub seed: Option<u64>,
    /// The first finding ends the kernel with [`crate::FaultKind::Found`].
    pub fatal: bool,
    /// Told of findings, from every thread that runs waves.
    pub sink: &'a dyn Sink,
}

/// Takes findings.
pub trait Sink: Sync {
    /// The first finding of its kind at its instructions in a thread of a dispatch.
    fn found(&self, finding: &Finding);

    /// Reports that a finding has been found `times` more times.
    fn repeated(&self, finding: &Finding, times: u64);

    /// With [`Checks::race`], when the dispatch is over: what it has accessed of one page.
    fn touched(&self, _: &[Touched]) {}

    /// Source file and line of the instruction at an address; `None` if unknown.
    fn source(&self, _pc: u64) -> Option<String> {
        None
    }

    /// Describes the memory at an address; `None` if it is unknown.
    fn place(&self, _address: u64) -> Option<String> {
        None
    }
}

/// Memory that a dispatch has accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// A multiple of 16.
    pub address: u64,
    /// So many blocks of 16 bytes from there on.
    pub blocks: u32,
    /// Which bytes of each, by bits.
    pub bytes: u16,
    /// It has written them.
    pub is_write: bool,
    /// By an atomic; or it has read them past the caches.
    pub is_atomic: bool,
    /// By an atomic of gfx12 that need not reach other workgroups.
    pub is_narrow: bool,
    /// The instruction.
    pub offset: u32,
}

/// Something that is wrong with a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check that found it: `wait`, `sync`, `race`, `equal`, `hazard`, `bounds`, `clamp` or `init`.
    pub check: &'static str,
    /// The problem, in a sentence.
    pub what: String,
    /// The memory that it is about, and what that is, in words, if it is known.
    pub memory: Option<(u64, Option<String>)>,
    /// Name of the kernel.
    pub kernel: String,
    /// A hash of the code that the kernel is in: kernels of different code objects may have the same name.
    pub code: u64,
    /// The instruction where it showed.
    pub pc: u64,
    /// That instruction.
    pub line: Line,
    /// The one before it in the code, and the one after.
    pub around: [Option<Line>; 2],
    /// The other instruction that it takes.
    pub other: Option<Line>,
    /// Workgroup.
    pub workgroup: [u32; 3],
    /// Wave in the workgroup.
    pub wave: u32,
    /// Its lanes that are concerned; 0 if it is not a matter of lanes.
    pub lanes: u64,
}

/// An instruction of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its address.
    pub pc: u64,
    /// Its offset from the beginning of the code.
    pub offset: u32,
    /// In assembly.
    pub text: String,
    /// The file and the line of the source, if they are known.
    pub source: Option<String>,
}

impl Line {
    /// The instruction of a program at this offset.
    pub(crate) fn of<const L: usize>(program: &Program<L>, offset: u32) -> Line {
        let words = program.words.get(offset as usize / 4..).unwrap_or_default();
        let text = sim_isa::decode(program.target, words).map_or_else(|error| error.reason(), |i| i.to_string());
        Line { pc: program.base + u64::from(offset), offset, text, source: None }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} (+{:#x})  {}", self.pc, self.offset, self.text)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, "  ; {source}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        writeln!(f, "{}: kernel {}: {}", self.check, self.kernel, self.what)?;
        if let Some((address, Some(place))) = &self.memory {
            writeln!(f, "  {address:#x} is {place}")?;
        }
        if let Some(other) = &self.other {
            writeln!(f, "    {other}")?;
            writeln!(f, "    ...")?;
        }
        let [before, after] = &self.around;
        if let Some(line) = before.as_ref().filter(|line| self.other.as_ref() != Some(*line)) {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "  > {}", self.line)?;
        if let Some(line) = after {
            writeln!(f, "    {line}")?;
        }
        write!(f, "  workgroup ({x}, {y}, {z}), wave {}", self.wave)?;
        if self.lanes != 0 {
            write!(f, ", lanes {:#x}", self.lanes)?;
        }
        Ok(())
    }
}
