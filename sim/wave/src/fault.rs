// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Faults, which stop a kernel.

use std::fmt;

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Write only.
    Write,
    /// Atomic read-modify-write.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "atomic",
        })
    }
}

/// The kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The simulator lacks this instruction or mode.
    NotImplemented(String),
    /// Every wave of the workgroup waits for a barrier that not all of them have signalled.
    Deadlock,
    /// The words at the pc are no instruction of the target.
    InvalidEncoding(String),
    /// The instruction names a register that the kernel descriptor does not allocate.
    RegisterOutOfRange(String),
    /// The kernel descriptor, code or packet cannot start a kernel.
    Launch(String),
    /// An access to memory that is not mapped, or not for this kind of access.
    MemoryViolation {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u32,
        /// Kind of access.
        access: Access,
        /// Lane that made it; 0 for scalar accesses.
        lane: u32,
        /// State of the memory there.
        reason: &'static str,
    },
    /// An access that must be aligned and is not.
    Misaligned {
        /// First byte.
        address: u64,
        /// Bytes, also the alignment that is required.
        size: u32,
        /// Kind of access.
        access: Access,
        /// Lane that made it.
        lane: u32,
    },
    /// An access beyond the workgroup's group segment.
    LdsOutOfBounds {
        /// Byte offset in the group segment.
        offset: u64,
        /// Bytes.
        size: u32,
        /// Bytes the dispatch packet asked for.
        limit: u32,
        /// Kind of access.
        access: Access,
        /// Lane that made it.
        lane: u32,
    },
    /// An access beyond the work-item's private segment.
    ScratchOutOfBounds {
        /// Byte offset in the lane's private segment.
        offset: i64,
        /// Bytes.
        size: u32,
        /// Bytes the dispatch packet asked for.
        limit: u32,
        /// Kind of access.
        access: Access,
        /// Lane that made it.
        lane: u32,
    },
    /// The program counter left the code.
    PcOutOfRange(u64),
    /// A finding of the checks, which is fatal.
    Found(String),
    /// `s_trap`.
    Trap(u16),
    /// The launcher asked to stop, or another workgroup has failed.
    Cancelled {
        /// Waves of the workgroup that have ended.
        ended: usize,
        /// Waves that wait at a barrier.
        waiting: usize,
        /// All of them.
        waves: usize,
        /// Workgroups of the grid that have begun.
        begun: u64,
        /// All of them.
        workgroups: u64,
    },
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::NotImplemented(what) => write!(f, "not implemented by the simulator: {what}"),
            FaultKind::Deadlock => f.write_str("deadlock: all waves wait for a barrier that some have not signalled"),
            FaultKind::InvalidEncoding(what) => write!(f, "invalid encoding: {what}"),
            FaultKind::RegisterOutOfRange(what) => write!(f, "register out of range: {what}"),
            FaultKind::Launch(why) => write!(f, "cannot launch: {why}"),
            FaultKind::MemoryViolation { address, size, access, lane, reason } => {
                write!(f, "memory violation: {access} of {size} bytes at address {address:#x} (lane {lane}): {reason}")
            }
            FaultKind::Misaligned { address, size, access, lane } => {
                write!(f, "misaligned {access} of {size} bytes at address {address:#x} (lane {lane})")
            }
            FaultKind::LdsOutOfBounds { offset, size, limit, access, lane } => write!(
                f,
                "LDS {access} of {size} bytes at offset {offset:#x} (lane {lane}) is outside the group segment of \
                 {limit} bytes"
            ),
            FaultKind::ScratchOutOfBounds { offset, size, limit, access, lane } => write!(
                f,
                "scratch {access} of {size} bytes at offset {offset:#x} (lane {lane}) is outside the private segment \
                 of {limit} bytes"
            ),
            FaultKind::PcOutOfRange(to) => write!(f, "pc out of range: jump to {to:#x}"),
            FaultKind::Found(finding) => f.write_str(finding),
            FaultKind::Trap(id) => write!(f, "trap {id}"),
            FaultKind::Cancelled { ended, waiting, waves, begun, workgroups } => write!(
                f,
                "cancelled when {ended} of the workgroup's {waves} waves had ended, {waiting} waited at a barrier, \
                 and {begun} of {workgroups} workgroups had begun"
            ),
        }
    }
}

impl std::error::Error for FaultKind {}

/// A fault that has stopped a kernel, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Name of the kernel.
    pub kernel: String,
    /// Address of the instruction (0 before the first one).
    pub pc: u64,
    /// Mnemonic of the instruction; empty if it has none.
    pub mnemonic: String,
    /// Encoding of the instruction, one to three dwords.
    pub words: Vec<u32>,
    /// Workgroup.
    pub workgroup: [u32; 3],
    /// Wave in the workgroup.
    pub wave: u32,
}

impl Fault {
    /// A fault that no instruction caused.
    pub(crate) fn outside(kernel: &str, kind: FaultKind) -> Box<Self> {
        Box::new(Fault {
            kind,
            kernel: kernel.to_owned(),
            pc: 0,
            mnemonic: String::new(),
            words: Vec::new(),
            workgroup: [0; 3],
            wave: 0,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}: {}", self.kernel, self.kind)?;
        if self.words.is_empty() {
            return Ok(());
        }
        let mnemonic = if self.mnemonic.is_empty() { "?" } else { &self.mnemonic };
        write!(f, "; at pc {:#x}: {mnemonic} [", self.pc)?;
        for (i, word) in self.words.iter().enumerate() {
            write!(f, "{}{word:08x}", if i == 0 { "" } else { " " })?;
        }
        let [x, y, z] = self.workgroup;
        write!(f, "], workgroup ({x}, {y}, {z}), wave {}", self.wave)
    }
}

impl std::error::Error for Fault {}
