// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Findings of the checks, and the options that request them.

use super::unwritten::Unwritten;
use crate::program::Program;
use std::fmt;

/// Checks that can be requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckSet {
    /// Checks that registers and LDS which an outstanding operation will write are neither read nor overwritten before
    /// the wait.
    pub wait: bool,
    /// Checks that all waves of a workgroup reach its barriers equally often, with all of their lanes.
    pub sync: bool,
    /// Checks for data races: two unordered accesses to the same bytes of which at least one writes.
    pub race: bool,
    /// Also reports races in which a store leaves memory unchanged. Needs `race`.
    pub equal: bool,
    /// Check of the wait states that instructions need between them without interlocks in hardware.
    pub hazard: bool,
    /// Checks that loads of kernel arguments stay within the kernel's arguments.
    pub bounds: bool,
    /// Checks that buffer accesses stay within the buffer, although hardware drops the excess.
    pub clamp: bool,
    /// Checks that no decision depends on uninitialized data.
    pub init: bool,
    /// Also reports stores of uninitialized data to memory that the host may read. Needs `init`.
    pub result: bool,
}

/// Checks of a launch, and the receiver of findings.
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    /// Checks to make.
    pub set: CheckSet,
    /// Record of uninitialized memory, for the check `init`.
    pub memory: &'a dyn Unwritten,
    /// Seed that decides for each result if it arrives at once or as late as the waits allow.
    pub seed: Option<u64>,
    /// The first finding ends the kernel with [`crate::FaultKind::Found`].
    pub fatal: bool,
    /// Receives findings, from every thread that runs waves.
    pub sink: &'a dyn Sink,
}

/// Receiver of findings.
pub trait Sink: Sync {
    /// Reports the first finding of its kind at its instructions in a thread of a dispatch.
    fn found(&self, finding: &Finding);

    /// Reports that a finding has been found `times` more times.
    fn repeated(&self, finding: &Finding, times: u64);

    /// With [`CheckSet::race`], reports the accesses of a finished dispatch to one page.
    fn touched(&self, _: &[Touched]) {}

    /// Source file and line of the instruction at an address; `None` if unknown.
    fn source(&self, _pc: u64) -> Option<String> {
        None
    }

    /// True for a word that devices store to by convention, in no order: the mailbox of signals.
    fn is_mailbox(&self, _address: u64) -> bool {
        false
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
    /// Number of 16-byte blocks from there on.
    pub blocks: u32,
    /// Mask of the accessed bytes of each block.
    pub bytes: u16,
    /// True if the dispatch wrote the bytes.
    pub is_write: bool,
    /// True for an atomic, and for a read past the caches.
    pub is_atomic: bool,
    /// True for a gfx12 atomic whose scope need not include other workgroups.
    pub is_narrow: bool,
    /// Byte offset of the instruction in the code.
    pub offset: u32,
}

/// A defect in a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check that found it: `wait`, `sync`, `race`, `equal`, `hazard`, `bounds`, `clamp` or `init`.
    pub check: &'static str,
    /// The problem, in a sentence.
    pub what: String,
    /// Address of the memory concerned, and its description if known.
    pub memory: Option<(u64, Option<String>)>,
    /// Name of the kernel.
    pub kernel: String,
    /// Hash of the kernel's code: kernels of different code objects may have the same name.
    pub code: u64,
    /// Address of the instruction at which the defect showed.
    pub pc: u64,
    /// Instruction at `pc`.
    pub line: Line,
    /// Instructions before and after it in the code.
    pub around: [Option<Line>; 2],
    /// The other instruction involved.
    pub other: Option<Line>,
    /// Workgroup.
    pub workgroup: [u32; 3],
    /// Wave in the workgroup.
    pub wave: u32,
    /// Mask of the wave's lanes concerned; 0 if lanes do not matter.
    pub lanes: u64,
}

/// An instruction of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Address of the instruction.
    pub pc: u64,
    /// Offset of the instruction from the beginning of the code.
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

impl Line {
    /// Mnemonic of the instruction.
    pub(crate) fn mnemonic(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
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
