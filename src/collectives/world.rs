// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Worlds: the ranks that can send each other frames.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::communicator::Communicator;
use super::mailbox::Mailbox;
use amdgpu_ffi::{Result, Status, status};

/// The purpose of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// An operation of all ranks of a group.
    Collective,
    /// A message from one rank to another.
    Direct,
    /// A split of a group.
    Split,
    /// The group has failed at the sender; the payload is the reason.
    Abort,
    /// The sender leaves.
    Leave,
}

impl Lane {
    const ALL: [Self; 5] = [Self::Collective, Self::Direct, Self::Split, Self::Abort, Self::Leave];
}

/// The identity of a frame at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The purpose.
    pub lane: Lane,
    /// The sender, by its rank in the world.
    pub source: u32,
    /// The group.
    pub context: u64,
    /// The operation within group and lane.
    pub sequence: u64,
    /// The step of the operation.
    pub step: u32,
    /// The part of the step's message.
    pub part: u32,
}

/// Bytes with a key.
#[derive(Debug)]
pub struct Frame {
    /// The key.
    pub key: Key,
    /// The bytes, at most [`MOST_BYTES`].
    pub payload: Vec<u8>,
}

/// Most bytes of a frame's payload. Longer messages have several parts.
pub const MOST_BYTES: usize = 16 << 20;

/// Bytes of a frame's head on the wire: lane, source, context, sequence, step, part and length, little-endian.
pub const HEAD_BYTES: usize = 40;

impl Frame {
    /// The head on the wire.
    pub fn head(&self) -> [u8; HEAD_BYTES] {
        let Key { lane, source, context, sequence, step, part } = self.key;
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(lane as u32).to_le_bytes());
        head[4..8].copy_from_slice(&source.to_le_bytes());
        head[8..16].copy_from_slice(&context.to_le_bytes());
        head[16..24].copy_from_slice(&sequence.to_le_bytes());
        head[24..28].copy_from_slice(&step.to_le_bytes());
        head[28..32].copy_from_slice(&part.to_le_bytes());
        head[32..].copy_from_slice(&(self.payload.len() as u64).to_le_bytes());
        head
    }

    /// Reads a head: the key and the payload's length; none for bytes that are no head.
    pub fn read_head(head: &[u8; HEAD_BYTES]) -> Option<(Key, usize)> {
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let lane = *Lane::ALL.get(word(0) as usize)?;
        let length = usize::try_from(long(32)).ok().filter(|length| *length <= MOST_BYTES)?;
        let key = Key { lane, source: word(4), context: long(8), sequence: long(16), step: word(24), part: word(28) };
        Some((key, length))
    }
}

/// The way in which frames travel.
pub trait Transport: Send + Sync {
    /// Sends a frame to a rank of the world, not to the sender. Does not wait for the receiver's operation.
    ///
    /// # Errors
    /// UNAVAILABLE if the connection or the receiver is gone.
    fn send(&self, target: u32, frame: Frame) -> Result<()>;

    /// Called before a wait for a frame. Transports that make progress only when asked begin to.
    fn begin_wait(&self) {}

    /// Called after such a wait.
    fn end_wait(&self) {}
}

/// A rank among the ranks that a rendezvous has brought together. The [transport](Transport) goes with the last
/// communicator.
pub struct World {
    /// The rank, below `count`.
    pub rank: u32,
    /// The number of ranks.
    pub count: u32,
    /// Longest wait for a frame.
    pub timeout: Duration,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) transport: Box<dyn Transport>,
    roots: Mutex<Roots>,
}

/// The groups of all ranks that the process has made.
#[derive(Default)]
struct Roots {
    groups: HashMap<String, Root>,
}

#[derive(Default)]
struct Root {
    made: u64,
    last: Weak<Communicator>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("rank", &self.rank).field("count", &self.count).finish_non_exhaustive()
    }
}

/// 64 bits that depend on all of `parts`, alike in all processes (FNV-1a).
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().copied().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl World {
    /// A rank whose frames arrive in `mailbox` and leave by `transport`.
    pub(super) fn new(
        (rank, count): (u32, u32),
        timeout: Duration,
        mailbox: Arc<Mailbox>,
        transport: Box<dyn Transport>,
    ) -> Arc<Self> {
        Arc::new(Self { rank, count, timeout, mailbox, transport, roots: Mutex::default() })
    }

    /// The group of all ranks for a device. Devices of all processes that ask for `group` in the same order get the
    /// same group; `is_single` allows one device of the process at a time.
    ///
    /// # Errors
    /// ALREADY_EXISTS for a second device where there may be one.
    pub fn root(self: &Arc<Self>, group: &str, is_single: bool) -> Result<Arc<Communicator>> {
        let mut roots = self.roots.lock();
        let root = roots.groups.entry(group.to_owned()).or_default();
        if is_single && root.last.strong_count() > 0 {
            let rank = self.rank;
            return Err(status!(
                ALREADY_EXISTS,
                "rank {rank} of the channel's id is taken by another device of this process; give each device its rank"
            ));
        }
        let context = hash(&[b"root", group.as_bytes(), &root.made.to_le_bytes()]);
        root.made += 1;
        let communicator = Communicator::new(self.clone(), context, (0..self.count).collect(), self.rank);
        root.last = Arc::downgrade(&communicator);
        Ok(communicator)
    }

    /// Sends a message of any length to a rank, in parts.
    ///
    /// # Errors
    /// As for [`Transport::send`].
    pub(super) fn send(&self, target: u32, key: Key, bytes: &[u8]) -> Result<()> {
        let parts = bytes.len().div_ceil(MOST_BYTES).max(1);
        for part in 0..parts {
            let start = part * MOST_BYTES;
            let payload = bytes[start..bytes.len().min(start + MOST_BYTES)].to_vec();
            let frame = Frame { key: Key { part: part as u32, source: self.rank, ..key }, payload };
            if target == self.rank {
                self.mailbox.deliver(frame.key, frame.payload);
            } else {
                self.transport.send(target, frame)?;
            }
        }
        Ok(())
    }

    /// Receives a message of `length` bytes.
    ///
    /// # Errors
    /// As for [`Mailbox::take`]; INVALID_ARGUMENT for a message of another length.
    pub(super) fn receive(&self, key: Key, length: usize, members: &[u32]) -> Result<Vec<u8>> {
        let parts = length.div_ceil(MOST_BYTES).max(1);
        let mut message = Vec::new();
        self.transport.begin_wait();
        let result = (0..parts).try_for_each(|part| {
            let payload = self.mailbox.take(&Key { part: part as u32, ..key }, members, self.timeout)?;
            let expected = (length - part * MOST_BYTES).min(MOST_BYTES);
            if payload.len() != expected {
                let (source, sent) = (key.source, payload.len());
                return Err(status!(
                    INVALID_ARGUMENT,
                    "rank {source} sent {sent} bytes where {expected} were expected: all ranks must make the same \
                     collective calls with the same counts in the same order"
                ));
            }
            if parts == 1 {
                message = payload;
            } else {
                message.extend_from_slice(&payload);
            }
            Ok(())
        });
        self.transport.end_wait();
        result.map(|()| message)
    }

    /// Tells the other `members` of a group that it has failed here. Errors are ignored: they fail for themselves.
    pub(super) fn abort(&self, context: u64, members: &[u32], status: &Status) {
        self.mailbox.abort(context, status.clone());
        let key = Key { lane: Lane::Abort, source: self.rank, context, sequence: 0, step: 0, part: 0 };
        for target in members.iter().filter(|member| **member != self.rank) {
            let _ = self.transport.send(*target, Frame { key, payload: status.to_string().into_bytes() });
        }
    }
}

/// Gives a frame that has arrived to its receiver.
pub(super) fn arrive(mailbox: &Mailbox, key: Key, payload: Vec<u8>) {
    match key.lane {
        Lane::Abort => {
            let (rank, reason) = (key.source, String::from_utf8_lossy(&payload).into_owned());
            mailbox.abort(key.context, status!(ABORTED, "a collective has failed on rank {rank}: {reason}"));
        }
        Lane::Leave => mailbox.leave(key.source),
        _ => mailbox.deliver(key, payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_names_its_frame_and_nothing_else_is_a_head() {
        let key = Key { lane: Lane::Abort, source: 7, context: 1 << 63, sequence: 9, step: 3, part: 2 };
        let frame = Frame { key, payload: vec![0; 5] };
        assert_eq!(Frame::read_head(&frame.head()), Some((key, 5)));
        let mut head = frame.head();
        head[39] = 1;
        assert_eq!(Frame::read_head(&head), None, "longer than any payload");
        let mut head = frame.head();
        head[0] = 9;
        assert_eq!(Frame::read_head(&head), None, "no such lane");
    }
}
