// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Programs for people to read.

use std::collections::BTreeSet;
use std::fmt;

use crate::program::{Fate, Kind, Op, Place, Points, Program, Span, Touch, Work};

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}[{}..{}]", self.buffer, self.offset, self.offset + self.length)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(span) => span.fmt(f),
            Self::Slot { slot, offset, length } => write!(f, "slot {slot}[{offset}..{}]", offset + length),
        }
    }
}

impl<P: fmt::Display> fmt::Display for Work<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fill { target, pattern } => write!(f, "fill {target} with {pattern:?}"),
            Self::Copy { source, target } => write!(f, "copy {source} to {target}"),
            Self::Update { target, noise } => write!(f, "update {target} with noise {noise:#x}"),
            Self::Dispatch { kernel, target, sources, factor } => {
                let sources = joined(sources.iter());
                write!(f, "dispatch {kernel:?} of {sources} by {factor} to {target}")
            }
        }
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes = self.writes.iter().map(|(span, noise)| format!("{span} with noise {noise:#x}"));
        write!(f, "checks {{{}}}, writes {{{}}}", joined(self.reads.iter()), joined(writes))
    }
}

impl Kind {
    /// Name in the counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Barrier => "barriers",
            Self::Work(Work::Fill { .. }) => "fills",
            Self::Work(Work::Copy { .. }) => "copies",
            Self::Work(Work::Update { .. }) => "updates",
            Self::Work(Work::Dispatch { .. }) => "dispatches",
            Self::Execute { .. } => "executions",
            Self::Alloca { .. } => "allocas",
            Self::Dealloca { .. } => "deallocas",
            Self::Read { .. } => "reads",
            Self::Write { .. } => "writes",
            Self::Call { .. } => "host-calls",
            Self::Host(_) => "host-steps",
            Self::FailHost => "cancellations",
            Self::FailCall => "failing-calls",
            Self::Trap { .. } => "traps",
            Self::MemoryFault { .. } => "memory-faults",
            Self::Session { .. } => "sessions",
            Self::Release => "releases",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier => f.write_str("barrier"),
            Self::Work(work) => work.fmt(f),
            Self::Execute { recording, bindings } => {
                write!(f, "execute r{recording} with {{{}}}", joined(bindings.iter()))
            }
            Self::Alloca { buffer } => write!(f, "alloca b{buffer}"),
            Self::Dealloca { buffer } => write!(f, "dealloca b{buffer}"),
            Self::Read { file, file_offset, target } => write!(f, "read f{file} from {file_offset} to {target}"),
            Self::Write { source, file, file_offset } => write!(f, "write {source} to f{file} from {file_offset}"),
            Self::Call { touch, is_deferred: false } => write!(f, "host call that {touch}"),
            Self::Call { touch, is_deferred: true } => write!(f, "host call that {touch}, and signals by itself"),
            Self::Host(touch) => write!(f, "the thread waits, {touch}, and signals"),
            Self::FailHost => f.write_str("the thread waits and fails the semaphore"),
            Self::FailCall => f.write_str("host call that returns an error"),
            Self::Trap { target } => write!(f, "dispatch that writes {target} and traps"),
            Self::MemoryFault { target } => write!(f, "dispatch that writes far from {target}"),
            Self::Session { is_kept: false } => f.write_str("the thread waits and makes a session, which ends"),
            Self::Session { is_kept: true } => f.write_str("the thread waits and makes a session"),
            Self::Release => f.write_str("the thread waits and releases the device"),
        }
    }
}

fn joined(list: impl Iterator<Item = impl fmt::Display>) -> String {
    list.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn points(list: &[(usize, u64)]) -> String {
    joined(list.iter().map(|(timeline, value)| format!("s{timeline}:{value}")))
}

/// An operation in a line.
pub fn line(op: &Op, Points { waits, signals }: &Points) -> String {
    let place = if op.is_on_host() {
        format!("thread {}", op.thread)
    } else {
        format!("thread {}, device {}, queues {:#x}", op.thread, op.device, op.affinity)
    };
    let fate = match op.fate {
        Fate::Certain => String::new(),
        Fate::Doomed(source) => format!(" (must fail, due to {source})"),
        Fate::Maybe(source) => format!(" (may fail, due to {source})"),
    };
    let (waits, signals) = (points(waits), points(signals));
    format!("{:4}: {place}: waits for {{{waits}}}, {}, signals {{{signals}}}{fate}", op.id, op.kind)
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} devices, {} threads, options {:?}", self.devices, self.threads, self.options)?;
        let buffers: BTreeSet<_> = self.ops.iter().flat_map(|op| op.buffers(self)).collect();
        for (index, buffer) in self.buffers.iter().enumerate().filter(|(index, _)| buffers.contains(index)) {
            let lives = if buffer.is_ephemeral { ", released after its last use" } else { "" };
            writeln!(
                f,
                "  b{index}: {} bytes of {:?} memory of device {}{lives}",
                buffer.size, buffer.heap, buffer.device
            )?;
        }
        let is_used = |index: usize| {
            self.ops
                .iter()
                .any(|op| matches!(op.kind, Kind::Read { file, .. } | Kind::Write { file, .. } if file == index))
        };
        for (index, file) in self.files.iter().enumerate().filter(|(index, _)| is_used(*index)) {
            writeln!(f, "  f{index}: {:?} file of {} bytes, device {}", file.kind, file.size, file.device)?;
        }
        let is_executed = |index: usize| {
            self.ops.iter().any(|op| matches!(op.kind, Kind::Execute { recording, .. } if recording == index))
        };
        for (index, recording) in self.recordings.iter().enumerate().filter(|(index, _)| is_executed(*index)) {
            writeln!(
                f,
                "  r{index}: {:?} commands of device {}, queues {:#x}, slots {:?}",
                recording.mode, recording.device, recording.affinity, recording.slots
            )?;
            for (is_after_barrier, work) in &recording.commands {
                writeln!(f, "      {}{work}", if *is_after_barrier { "barrier; " } else { "" })?;
            }
        }
        let points = self.points();
        writeln!(f, "  in the order in which they are submitted:")?;
        for index in self.order() {
            writeln!(f, "  {}", line(&self.ops[index], &points[index]))?;
        }
        Ok(())
    }
}
