// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Costs of collectives by number of ranks, up to 1,024 threads, each a rank, in one process. The transport counts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::super::communicator::Communicator;
use super::super::mailbox::Mailbox;
use super::super::operation::{Element, Kind, Operation, Reduction};
use super::super::world::{Frame, HEAD_BYTES, Transport, World, arrive};
use super::Result;

/// A thread's stack. The defaults of a thousand threads would be 2 GiB of address space.
const STACK_BYTES: usize = 256 << 10;

/// Frames that one rank has sent.
#[derive(Default)]
struct Sent {
    frames: AtomicU64,
    /// Bytes of payloads and heads.
    bytes: AtomicU64,
    /// The ranks that received them.
    targets: Mutex<BTreeSet<u32>>,
}

/// The ranks of one world: mailboxes and counts, by rank.
type Ranks = Arc<Vec<(Arc<Mailbox>, Sent)>>;

/// The transport of one rank.
struct Counted {
    rank: u32,
    ranks: Ranks,
}

impl Transport for Counted {
    fn send(&self, target: u32, frame: Frame) -> Result<()> {
        let (_, sent) = &self.ranks[self.rank as usize];
        sent.frames.fetch_add(1, Ordering::Relaxed);
        sent.bytes.fetch_add((HEAD_BYTES + frame.payload.len()) as u64, Ordering::Relaxed);
        sent.targets.lock().insert(target);
        arrive(&self.ranks[target as usize].0, frame.key, frame.payload);
        Ok(())
    }
}

/// The costs of a body that every rank runs: most frames and bytes that one rank sent, the most ranks that it sent
/// them to, and the frames of all ranks.
#[derive(Debug, PartialEq, Eq)]
struct Costs {
    frames: u64,
    bytes: u64,
    targets: usize,
    all_frames: u64,
}

/// Runs `body` on a thread for each of `count` ranks.
fn costs(count: u32, body: impl Fn(&Arc<Communicator>) + Sync) -> Costs {
    let ranks: Ranks = Arc::new((0..count).map(|_| Default::default()).collect());
    std::thread::scope(|scope| {
        for rank in 0..count {
            let (ranks, body) = (ranks.clone(), &body);
            let run = move || {
                let mailbox = ranks[rank as usize].0.clone();
                let transport = Counted { rank, ranks };
                let world = World::new((rank, count), Duration::from_secs(60), mailbox, Box::new(transport));
                body(&world.root("", false).unwrap());
            };
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).expect("a thread");
        }
    });
    let each = |figure: fn(&Sent) -> u64| ranks.iter().map(move |(_, sent)| figure(sent));
    let frames = |sent: &Sent| sent.frames.load(Ordering::Relaxed);
    Costs {
        frames: each(frames).max().unwrap_or(0),
        bytes: each(|sent| sent.bytes.load(Ordering::Relaxed)).max().unwrap_or(0),
        targets: ranks.iter().map(|(_, sent)| sent.targets.lock().len()).max().unwrap_or(0),
        all_frames: each(frames).sum(),
    }
}

/// The sum of `length` words over all ranks.
fn all_reduce(communicator: &Communicator, length: usize) {
    let operation =
        Operation { kind: Kind::AllReduce, reduction: Some(Reduction::Sum), element: Element::U32, count: length };
    let send: Vec<_> = std::iter::repeat_n(communicator.rank().to_le_bytes(), length).flatten().collect();
    let plan = operation.plan(communicator.rank(), communicator.count(), send.len(), send.len()).unwrap();
    let sum: u32 = (0..communicator.count()).sum();
    let expected: Vec<_> = std::iter::repeat_n(sum.to_le_bytes(), length).flatten().collect();
    assert_eq!(communicator.perform(&plan, send).unwrap(), expected);
}

#[test]
fn short_sums_cost_a_rank_a_logarithm_of_the_ranks() {
    for count in [2, 16, 128, 1024_u32] {
        let steps = count.ilog2();
        let costs = costs(count, |communicator| all_reduce(communicator, 7));
        let bytes = u64::from(steps) * (HEAD_BYTES as u64 + 28);
        let all_frames = 2 * (u64::from(count) - 1);
        let expected = Costs { frames: steps.into(), bytes, targets: steps as usize, all_frames };
        assert_eq!(costs, expected, "{count} ranks");
    }
}

#[test]
fn long_sums_go_around_a_ring() {
    for count in [2, 16_u32] {
        // 16 KiB for each rank.
        let share = 4096;
        let costs = costs(count, |communicator| all_reduce(communicator, share * count as usize));
        let steps = 2 * (u64::from(count) - 1);
        let bytes = steps * (HEAD_BYTES as u64 + 4 * share as u64);
        let expected = Costs { frames: steps, bytes, targets: 1, all_frames: steps * u64::from(count) };
        assert_eq!(costs, expected, "{count} ranks");
    }
}

/// IREE splits a channel in the body of a function, that is at each call.
#[test]
fn a_call_costs_each_rank_eight_bytes_of_every_other_and_keeps_nothing() {
    const CALLS: u64 = 3;
    for count in [2, 16, 128, 1024_u32] {
        let costs = costs(count, |communicator| {
            for _ in 0..CALLS {
                let part = communicator.split((communicator.rank() % 2) as i32, 0).unwrap().communicator().unwrap();
                assert_eq!((part.rank(), part.count()), (communicator.rank() / 2, count / 2));
            }
            assert_eq!(communicator.tree_size(), 2, "the communicator and its part");
        });
        let steps = u64::from(count.ilog2());
        let expected = Costs {
            frames: CALLS * steps,
            bytes: CALLS * (steps * HEAD_BYTES as u64 + 8 * (u64::from(count) - 1)),
            targets: steps as usize,
            all_frames: CALLS * steps * u64::from(count),
        };
        assert_eq!(costs, expected, "{count} ranks");
    }
}
