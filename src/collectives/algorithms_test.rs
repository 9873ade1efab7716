// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Every operation among the threads of one process, each a rank, by both transports that need no launcher.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::communicator::Communicator;
use crate::operation::{Element, Kind, Operation, Reduction};
use crate::world::{MOST_BYTES, World};
use crate::{local, tcp};
use amdgpu_ffi::{Code, Result, status};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs `body` on a thread for each rank of a world in this process; the results by rank.
fn on_ranks<R: Send>(id: &str, count: u32, body: impl Fn(Arc<Communicator>) -> R + Sync) -> Vec<R> {
    on_worlds(count, |rank| local::join(id.as_bytes(), (rank, count), TIMEOUT).unwrap(), body)
}

/// As [`on_ranks`], by TCP.
fn on_processes<R: Send>(count: u32, body: impl Fn(Arc<Communicator>) -> R + Sync) -> Vec<R> {
    let store = tcp::Store::open().unwrap();
    let address = store.address.clone();
    let store = std::sync::Mutex::new(Some(store));
    let join = |rank| {
        let store = if rank == 0 { store.lock().unwrap().take() } else { None };
        tcp::join(&address, store, (rank, count), TIMEOUT).unwrap()
    };
    on_worlds(count, join, body)
}

fn on_worlds<R: Send>(
    count: u32,
    join: impl Fn(u32) -> Arc<World> + Sync,
    body: impl Fn(Arc<Communicator>) -> R + Sync,
) -> Vec<R> {
    // A rank that leaves before another one joins is not of the other one's world.
    let all_joined = Barrier::new(count as usize);
    std::thread::scope(|scope| {
        let run = |rank| {
            let (join, body, all_joined) = (&join, &body, &all_joined);
            scope.spawn(move || {
                let world = join(rank);
                all_joined.wait();
                body(world.root("", false).unwrap())
            })
        };
        let ranks: Vec<_> = (0..count).map(run).collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
    })
}

fn operation(kind: Kind, element: Element, count: usize) -> Operation {
    Operation { kind, reduction: Some(Reduction::Sum), element, count }
}

/// Performs an operation from `send` on this thread.
fn perform(communicator: &Communicator, operation: Operation, send: &[u8], receive: usize) -> Result<Vec<u8>> {
    let plan = operation.plan(communicator.rank(), communicator.count(), send.len(), receive)?;
    communicator.perform(&plan, send[..plan.send].to_vec())
}

fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Every operation of `length` words for each rank, against the result that each rank computes by itself.
fn every_kind(communicator: &Communicator, length: u32) {
    let (rank, count) = (communicator.rank(), communicator.count());
    let value = |rank: u32, index: u32| (rank + 1).wrapping_mul(index.wrapping_add(0x9e37));
    let own = |rank: u32, length: u32| words((0..length).map(|index| value(rank, index)));
    let sum = |index: u32| (0..count).fold(0_u32, |sum, rank| sum.wrapping_add(value(rank, index)));
    let (bytes, all) = (4 * length as usize, length * count);
    let run = |kind, elements: u32, send: &[u8], receive: usize| {
        perform(communicator, operation(kind, Element::U32, elements as usize), send, receive).unwrap()
    };
    let gathered: Vec<_> = (0..count).flat_map(|rank| own(rank, length)).collect();
    assert_eq!(run(Kind::AllGather, length, &own(rank, length), gathered.len()), gathered);
    assert_eq!(run(Kind::AllGather, all, &own(rank, length), gathered.len()), gathered, "with the compiler's count");
    assert_eq!(run(Kind::AllReduce, length, &own(rank, length), bytes), words((0..length).map(sum)));
    let parts = (0..count).flat_map(|other| (rank * length..(rank + 1) * length).map(move |index| value(other, index)));
    assert_eq!(run(Kind::AllToAll, all, &own(rank, all), gathered.len()), words(parts));
    let root = count - 1;
    let received = run(Kind::Broadcast { root }, length, &own(rank, length), bytes);
    assert_eq!(received, if rank == root { Vec::new() } else { own(root, length) });
    let reduced = run(Kind::Reduce { root }, length, &own(rank, length), bytes);
    assert_eq!(reduced, if rank == root { words((0..length).map(sum)) } else { Vec::new() });
    let scattered = run(Kind::ReduceScatter, length, &own(rank, all), bytes);
    assert_eq!(scattered, words((rank * length..(rank + 1) * length).map(sum)));
    // A shift by one, without a wrap: the first rank receives nothing, the last one sends nothing.
    let (target, source) = ((rank + 1 < count).then(|| rank + 1), rank.checked_sub(1));
    let shifted = run(Kind::SendReceive { target, source }, length, &own(rank, length), bytes);
    assert_eq!(shifted, source.map_or_else(|| vec![0; bytes], |source| own(source, length)));
    if count > 1 && rank < 2 {
        let other = 1 - rank;
        run(Kind::Send { target: other }, length, &own(rank, length), 0);
        assert_eq!(run(Kind::Receive { source: other }, length, &[], bytes), own(other, length));
    }
}

#[test]
fn every_kind_gives_what_each_rank_computes_itself() {
    for count in [1, 2, 3, 4, 5, 8] {
        on_ranks("kinds", count, |communicator| {
            every_kind(&communicator, 7);
            // Around the ring, with blocks of different lengths.
            every_kind(&communicator, 5000 * count + 3);
        });
    }
    for count in [1, 2, 3, 4] {
        on_processes(count, |communicator| {
            every_kind(&communicator, 7);
            every_kind(&communicator, 5000 * count + 3);
        });
    }
}

#[test]
fn sixteen_ranks_split_and_reduce() {
    on_processes(16, |communicator| {
        every_kind(&communicator, 3);
        let color = (communicator.rank() % 4) as i32;
        let part = communicator.split(color, 0).unwrap().communicator().unwrap();
        assert_eq!((part.rank(), part.count()), (communicator.rank() / 4, 4));
        every_kind(&part, 3);
    });
}

#[test]
fn reductions_have_the_same_bits_on_all_ranks() {
    let values = |rank: u32, count: usize| -> Vec<u8> {
        (0..count).flat_map(|index| (1.0_f32 / (rank as f32 + index as f32 * 0.37 + 1.0)).to_le_bytes()).collect()
    };
    for count in [3, 30_000] {
        let operation =
            Operation { reduction: Some(Reduction::Average), ..operation(Kind::AllReduce, Element::F32, count) };
        let results =
            on_ranks("bits", 4, |ranks| perform(&ranks, operation, &values(ranks.rank(), count), 4 * count).unwrap());
        assert!(results.iter().all(|result| *result == results[0]));
        let over_tcp =
            on_processes(4, |ranks| perform(&ranks, operation, &values(ranks.rank(), count), 4 * count).unwrap());
        assert_eq!(over_tcp, results, "the transport does not matter");
        let first = f32::from_le_bytes(results[0][..4].try_into().unwrap());
        assert!((first - (1.0 + 0.5 + 1.0 / 3.0 + 0.25) / 4.0).abs() < 1e-6, "{first}");
    }
}

#[test]
fn a_message_longer_than_a_frame_comes_in_parts() {
    let length = MOST_BYTES + 5;
    on_processes(2, |communicator| {
        let send: Vec<_> = (0..length).map(|index| (index >> 3) as u8 ^ communicator.rank() as u8).collect();
        let other = 1 - communicator.rank();
        let kind = Kind::SendReceive { target: Some(other), source: Some(other) };
        let received = perform(&communicator, operation(kind, Element::U8, length), &send, length).unwrap();
        assert!(received.iter().zip(&send).all(|(theirs, ours)| theirs ^ ours == 1));
    });
}

#[test]
fn splits_are_cached_by_what_all_ranks_say() {
    on_ranks("splits", 4, |world| {
        let rank = world.rank();
        let split = |color: u32, key: i32| world.split(color as i32, key).unwrap();
        let (first, again) = (split(rank / 2, 0).communicator().unwrap(), split(rank / 2, 0).communicator().unwrap());
        assert!(Arc::ptr_eq(&first, &again));
        // This rank says as before, others do not: a new group for all.
        let other = split(rank / 2, if rank == 3 { -1 } else { 0 }).communicator().unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        assert_eq!(other.rank(), [0, 1, 1, 0][rank as usize], "by key");
        every_kind(&other, 2);
        every_kind(&first, 2);
        let own = world.split(if rank == 1 { -1 } else { 5 }, -(rank as i32)).unwrap();
        match own.communicator() {
            Ok(own) => assert_eq!((own.rank(), own.count()), ([2, 9, 1, 0][rank as usize], 3)),
            Err(status) => assert_eq!((rank, status.code()), (1, Code::FAILED_PRECONDITION)),
        }
        for _ in 0..200 {
            split(rank % 2, 0).communicator().unwrap();
        }
        assert_eq!(world.tree_size(), if rank == 1 { 4 } else { 5 });
    });
}

#[test]
fn tickets_order_operations_and_a_lost_one_ends_the_group() {
    let failures = on_ranks("tickets", 2, |communicator| {
        let tickets: Vec<_> = (0..3).map(|_| communicator.reserve().0).collect();
        let (sender, results) = std::sync::mpsc::channel();
        // Ready in the opposite order on one of the ranks; the last one is lost there.
        for (index, ticket) in tickets.into_iter().enumerate().rev() {
            if communicator.rank() == 1 && index == 2 {
                continue;
            }
            let sender = sender.clone();
            ticket.run(move |communicator| {
                let kind = operation(Kind::AllReduce, Element::U32, 1);
                let sum = perform(communicator, kind, &words([1 << index]), 4);
                sender.send((index, sum)).unwrap();
            });
        }
        drop(sender);
        let results: Vec<_> = results.iter().collect();
        // The loss may come before the first operation or between the two.
        let failure = results.iter().find_map(|(_, sum)| sum.as_ref().err().cloned());
        for (index, sum) in &results {
            assert!(sum.as_ref().is_ok_and(|sum| *sum == words([2 << index])) || failure.is_some());
        }
        (communicator.rank(), failure)
    });
    let failure = failures[0].1.as_ref().expect("the rank that waits is told").to_string();
    assert!(failure.contains("rank 1"), "{failure}");
}

#[test]
fn a_rank_that_leaves_ends_the_others_waits() {
    let start = Instant::now();
    let waits = |communicator: Arc<Communicator>| {
        if communicator.rank() == 1 {
            return None;
        }
        let sum = perform(&communicator, operation(Kind::AllReduce, Element::U32, 1), &words([1]), 4);
        Some(sum.unwrap_err().to_string())
    };
    assert!(on_ranks("leaves", 2, waits)[0].as_ref().is_some_and(|text| text.contains("rank 1 has ended")));
    assert!(start.elapsed() < TIMEOUT / 2);
}

#[test]
fn an_abort_reaches_all_ranks() {
    // A rank that has gone refuses connections: another one that is told later would see that instead of the abort.
    let all_have_ended = Barrier::new(3);
    on_processes(3, |communicator| {
        if communicator.rank() == 2 {
            communicator.abort(&status!(DATA_LOSS, "on purpose"));
        }
        let sum = perform(&communicator, operation(Kind::AllReduce, Element::U32, 1), &words([1]), 4);
        all_have_ended.wait();
        let text = sum.unwrap_err().to_string();
        assert!(text.contains("on purpose"), "{text}");
    });
}

#[test]
fn ranks_that_disagree_are_told() {
    on_ranks("disagree", 2, |communicator| {
        let count = 2 - communicator.rank() as usize;
        let kind = operation(Kind::AllReduce, Element::U32, count);
        let result = perform(&communicator, kind, &words([1; 2])[..4 * count], 4 * count);
        if communicator.rank() == 0 {
            let text = result.unwrap_err().to_string();
            assert!(text.contains("rank 1 sent 4 bytes where 8 were expected"), "{text}");
            communicator.abort(&status!(ABORTED, "{text}"));
        } else {
            assert!(result.is_err());
        }
    });
}
