// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Operations: their kinds, elements, and the bytes that a rank reads and writes (`iree/hal/command_buffer.h`).

use amdgpu_ffi::{Result, status};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each rank gets the blocks of all ranks.
    AllGather,
    /// Each rank gets the reduction over all ranks.
    AllReduce,
    /// Each rank gets block `rank` of every rank.
    AllToAll,
    /// All other ranks get the bytes of `root`.
    Broadcast {
        /// The source.
        root: u32,
    },
    /// `root` gets the reduction over all ranks.
    Reduce {
        /// The target.
        root: u32,
    },
    /// Rank i gets block i of the reduction over all ranks.
    ReduceScatter,
    /// Sends to `target`, which receives.
    Send {
        /// The receiver.
        target: u32,
    },
    /// Receives from `source`, which sends.
    Receive {
        /// The sender.
        source: u32,
    },
    /// Sends and receives at once. Without a source the receive buffer is zeroed.
    SendReceive {
        /// The receiver of the send buffer, if any.
        target: Option<u32>,
        /// The sender of the receive buffer, if any.
        source: Option<u32>,
    },
}

/// The function of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum; integers wrap.
    Sum,
    /// The product; integers wrap.
    Product,
    /// The smallest; NaN if one is NaN.
    Minimum,
    /// The largest; NaN if one is NaN.
    Maximum,
    /// The sum, divided by the number of ranks; integers round towards zero.
    Average,
}

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 8-bit signed integer.
    S8,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit signed integer.
    S16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit signed integer.
    S32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    S64,
    /// 64-bit unsigned integer.
    U64,
    /// 16-bit IEEE 754 number.
    F16,
    /// 32-bit IEEE 754 number.
    F32,
    /// 64-bit IEEE 754 number.
    F64,
    /// Upper half of a 32-bit IEEE 754 number (bfloat16).
    Bf16,
}

impl Element {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::S8 | Self::U8 => 1,
            Self::S16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::S32 | Self::U32 | Self::F32 => 4,
            Self::S64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// An operation as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The kind.
    pub kind: Kind,
    /// The function, for kinds that reduce.
    pub reduction: Option<Reduction>,
    /// The type of the elements.
    pub element: Element,
    /// The element count of the HAL call.
    pub count: usize,
}

/// An operation on a rank of a group: its sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The operation.
    pub operation: Operation,
    /// Bytes that the rank reads.
    pub send: usize,
    /// Bytes that the rank writes.
    pub receive: usize,
}

impl Operation {
    /// The plan of rank `rank` of `ranks`, with buffers of `send` and `receive` bytes.
    ///
    /// The count of an all-gather is per rank by the HAL's documentation, and the result's total in what IREE's
    /// compiler emits. The buffers' lengths tell which: a count that matches them exactly is taken first, per rank
    /// before total.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for ranks out of the group, for counts that do not divide among them, and for an all-gather
    /// whose count fits the buffers in neither meaning; OUT_OF_RANGE for buffers that are too short.
    pub fn plan(self, rank: u32, ranks: u32, send: usize, receive: usize) -> Result<Plan> {
        let bytes = self.bytes(self.count)?;
        let all = ranks as usize;
        let (sends, receives) = match self.kind {
            Kind::AllGather => return self.plan_gather(all, send, receive),
            Kind::AllReduce => (bytes, bytes),
            Kind::AllToAll => {
                if !self.count.is_multiple_of(all) {
                    let count = self.count;
                    return Err(status!(INVALID_ARGUMENT, "an all-to-all of {count} elements among {all} ranks"));
                }
                (bytes, bytes)
            }
            Kind::Broadcast { root } => {
                if root == rank {
                    (bytes, 0)
                } else {
                    (0, bytes)
                }
            }
            Kind::Reduce { root } => (bytes, if root == rank { bytes } else { 0 }),
            Kind::ReduceScatter => (self.bytes(self.count.checked_mul(all).ok_or_else(too_many)?)?, bytes),
            Kind::Send { .. } => (bytes, 0),
            Kind::Receive { .. } => (0, bytes),
            Kind::SendReceive { target, .. } => (if target.is_some() { bytes } else { 0 }, bytes),
        };
        let peers = match self.kind {
            Kind::Broadcast { root } | Kind::Reduce { root } => [Some(root), None],
            Kind::Send { target } => [Some(target), None],
            Kind::Receive { source } => [Some(source), None],
            Kind::SendReceive { target, source } => [target, source],
            _ => [None, None],
        };
        if let Some(peer) = peers.into_iter().flatten().find(|peer| *peer >= ranks) {
            return Err(status!(INVALID_ARGUMENT, "a collective names rank {peer} of a group of {ranks}"));
        }
        let short =
            [(sends, send, "send"), (receives, receive, "receive")].into_iter().find(|(needs, has, _)| needs > has);
        if let Some((needs, has, name)) = short {
            return Err(status!(
                OUT_OF_RANGE,
                "a collective of {} elements on {ranks} ranks needs {needs} bytes of its {name} buffer and has {has}",
                self.count
            ));
        }
        Ok(Plan { operation: self, send: sends, receive: receives })
    }

    fn plan_gather(self, ranks: usize, send: usize, receive: usize) -> Result<Plan> {
        let bytes = self.bytes(self.count)?;
        let per_rank = bytes.checked_mul(ranks).map(|total| (bytes, total));
        let total = self.count.is_multiple_of(ranks).then_some((bytes / ranks, bytes));
        let each = || [per_rank, total].into_iter().flatten();
        let exact = each().find(|lengths| *lengths == (send, receive));
        let fits = || each().find(|(sends, receives)| *sends <= send && *receives <= receive);
        let (sends, receives) = exact.or_else(fits).ok_or_else(|| {
            let count = self.count;
            status!(
                INVALID_ARGUMENT,
                "an all-gather of {count} elements on {ranks} ranks from {send} bytes to {receive}: the count fits the \
                 buffers neither as a rank's nor as the result's"
            )
        })?;
        Ok(Plan { operation: self, send: sends, receive: receives })
    }

    fn bytes(self, count: usize) -> Result<usize> {
        count.checked_mul(self.element.size()).ok_or_else(too_many)
    }
}

fn too_many() -> amdgpu_ffi::Status {
    status!(OUT_OF_RANGE, "a collective has more elements than memory can hold")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(count: usize, send: usize, receive: usize) -> Option<(usize, usize)> {
        let operation = Operation { kind: Kind::AllGather, reduction: None, element: Element::F32, count };
        operation.plan(0, 4, send, receive).ok().map(|plan| (plan.send, plan.receive))
    }

    #[test]
    fn both_meanings_of_an_all_gathers_count_are_taken_by_the_lengths() {
        assert_eq!(gather(6, 24, 96), Some((24, 96)), "per rank, as the HAL documents");
        assert_eq!(gather(24, 24, 96), Some((24, 96)), "the total, as the compiler emits");
        assert_eq!(gather(6, 100, 200), Some((24, 96)), "per rank where both fit");
        assert_eq!(gather(24, 30, 96), Some((24, 96)), "the total where that alone fits");
        assert_eq!(gather(24, 20, 96), None, "the send buffer is too short for either");
        assert_eq!(gather(6, 24, 92), None, "6 elements do not divide among 4 ranks");
    }

    #[test]
    fn plans_refuse_what_buffers_and_groups_do_not_have() {
        let plan = |kind, count, send, receive| {
            Operation { kind, reduction: None, element: Element::U16, count }.plan(1, 4, send, receive)
        };
        assert!(plan(Kind::AllToAll, 6, 12, 12).is_err());
        assert!(plan(Kind::ReduceScatter, 2, 15, 4).is_err());
        assert_eq!(plan(Kind::ReduceScatter, 2, 16, 4).map(|plan| (plan.send, plan.receive)).ok(), Some((16, 4)));
        assert!(plan(Kind::Broadcast { root: 4 }, 1, 2, 2).is_err());
        assert_eq!(plan(Kind::Broadcast { root: 0 }, 1, 0, 2).map(|plan| (plan.send, plan.receive)).ok(), Some((0, 2)));
        let none = Kind::SendReceive { target: None, source: None };
        assert_eq!(plan(none, 1, 0, 2).map(|plan| (plan.send, plan.receive)).ok(), Some((0, 2)));
        assert!(plan(Kind::AllReduce, usize::MAX, 2, 2).is_err());
    }
}
