// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Accesses to the same bytes by different dispatches that nothing orders, one of which writes: the check `race`.
//!
//! Dispatches run one after the other here, mostly; a GPU may run them beside each other. What orders two for sure, or
//! may do so without being seen here, is
//!
//! * the barrier bit of a packet, between what is in front of it in its queue, and itself and what is behind it;
//! * a barrier packet that waits for signals, or commands of PM4: what has completed by the time when it is done comes
//!   before everything behind it in its queue, whatever the signals;
//! * the host, or a kernel that writes packets: what was published only when a dispatch had begun already may have
//!   waited for it.
//!
//! For each 16 bytes the last write and the last read are kept, with the bytes and the instruction.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use sim_wave::{Line, PAGE, Touched};

use super::Machine;
use super::execute::Kernel;
use super::packet;
use super::queue::Queue;

/// Bytes that are looked at together.
const BLOCK: u64 = 16;

/// A dispatch, by its number among all, from 1 on.
type Number = u32;

/// All dispatches and what they have accessed.
#[derive(Default)]
pub struct Order(Mutex<State>);

#[derive(Default)]
struct State {
    dispatches: Vec<Dispatch>,
    /// How many have completed.
    completed: u32,
    queues: HashMap<u64, OfQueue>,
    /// By number; of each block of 16 bytes.
    pages: HashMap<u64, Box<[Cell]>>,
}

/// What is known of the packets of a queue.
#[derive(Default)]
struct OfQueue {
    /// Those with the barrier bit that have been in front of the packet processor.
    barriers: BTreeSet<u64>,
    /// Up to here they have been published.
    published: u64,
    /// What had completed when it last waited for anything else than its own packets.
    floor: u32,
}

struct Dispatch {
    queue: u64,
    packet: u64,
    kernel: Arc<Kernel>,
    /// The last packet with the barrier bit in its queue, itself among them.
    barrier: u64,
    /// What had completed when it began, and of that what something else than the host's own order puts before it.
    begun: u32,
    floor: u32,
    /// Up to where the packets of each queue were published when it began.
    published: HashMap<u64, u64>,
    /// How many had completed with it.
    completed: Option<u32>,
}

#[derive(Clone, Copy, Default)]
struct Access {
    /// 0 if there was none.
    dispatch: Number,
    offset: u32,
    bytes: u16,
    is_atomic: bool,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Access,
    read: Access,
}

/// Two accesses that nothing orders.
pub struct Race {
    /// What it is, in a sentence.
    pub what: String,
    /// Where the code has the instruction that came second here.
    pub offset: u32,
    /// The one that came first.
    pub other: Line,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Order")
    }
}

impl Order {
    /// A packet is in front of the packet processor.
    pub fn see(&self, queue: &Queue, id: u64, has_barrier_bit: bool) {
        if has_barrier_bit {
            self.0.lock().queues.entry(queue.id).or_default().barriers.insert(id);
        }
    }

    /// A packet that waits for others than those of its queue is done.
    pub fn waited(&self, queue: &Queue) {
        let state = &mut *self.0.lock();
        state.queues.entry(queue.id).or_default().floor = state.completed;
    }

    /// A dispatch begins. Returns its number.
    pub fn begin(&self, machine: &Machine, queue: &Queue, packet: u64, kernel: &Arc<Kernel>) -> Number {
        let queues = machine.queues.read().clone();
        let state = &mut *self.0.lock();
        let mut published = HashMap::new();
        for other in queues {
            let of = state.queues.entry(other.id).or_default();
            let head = other.head().load(std::sync::atomic::Ordering::Relaxed);
            let mut at = of.published.max(head);
            while at < head + u64::from(other.size) && packet::published(&other, at).is_some() {
                at += 1;
            }
            of.published = at;
            published.insert(other.id, at);
        }
        let of = state.queues.entry(queue.id).or_default();
        let barrier = of.barriers.range(..=packet).next_back().copied().unwrap_or(0);
        // Those before are of no more use.
        of.barriers = of.barriers.split_off(&barrier);
        state.dispatches.push(Dispatch {
            queue: queue.id,
            packet,
            kernel: Arc::clone(kernel),
            barrier,
            begun: state.completed,
            floor: of.floor,
            published,
            completed: None,
        });
        state.dispatches.len() as Number
    }

    /// It is over.
    pub fn end(&self, number: Number) {
        let state = &mut *self.0.lock();
        state.completed += 1;
        state.dispatches[number as usize - 1].completed = Some(state.completed);
    }

    /// Nobody knows any more what has accessed a range.
    pub fn forget(&self, range: Range<u64>) {
        let pages = &mut self.0.lock().pages;
        if !pages.is_empty() {
            (range.start / PAGE..range.end.div_ceil(PAGE)).for_each(|number| drop(pages.remove(&number)));
        }
    }

    /// A dispatch has accessed bytes of one page. `report` is told of races.
    pub fn touched(&self, number: Number, accesses: &[Touched], report: &mut dyn FnMut(Race)) {
        let State { dispatches, pages, .. } = &mut *self.0.lock();
        let mut orders = HashMap::<Number, bool>::new();
        let mut is_before = |other: Number| {
            *orders
                .entry(other)
                .or_insert_with(|| is_before(&dispatches[other as usize - 1], &dispatches[number as usize - 1]))
        };
        for touched in accesses {
            let page = pages
                .entry(touched.address / PAGE)
                .or_insert_with(|| vec![Cell::default(); (PAGE / BLOCK) as usize].into());
            let cell = &mut page[(touched.address % PAGE / BLOCK) as usize];
            let reads = [Some(cell.read).filter(|_| touched.is_write), Some(cell.write)];
            for (of, other) in reads.into_iter().enumerate().filter_map(|(of, other)| Some((of, other?))) {
                let common = other.bytes & touched.bytes;
                let is_other = other.dispatch != 0 && other.dispatch != number && common != 0;
                // An atomic store looks like any other.
                if !is_other || other.is_atomic || touched.is_atomic || is_before(other.dispatch) {
                    continue;
                }
                let of_other = &dispatches[other.dispatch as usize - 1];
                let Some(line) = of_other.kernel.line(other.offset) else { continue };
                let what = format!(
                    "memory at {:#x} is {}; dispatch {} of queue {}, of kernel {}, has {} it, and nothing orders the \
                     two dispatches",
                    touched.address + u64::from(common.trailing_zeros()),
                    if touched.is_write { "written" } else { "read" },
                    of_other.packet,
                    of_other.queue,
                    of_other.kernel.name,
                    if of == 0 { "read" } else { "written" },
                );
                report(Race { what, offset: touched.offset, other: line });
            }
            let (offset, is_atomic) = (touched.offset, touched.is_atomic);
            let access = if touched.is_write { &mut cell.write } else { &mut cell.read };
            let bytes = if access.dispatch == number { access.bytes | touched.bytes } else { touched.bytes };
            *access = Access { dispatch: number, offset, bytes, is_atomic };
        }
    }
}

/// Whether a dispatch comes before another that was looked at later, or may do so.
fn is_before(first: &Dispatch, second: &Dispatch) -> bool {
    let by_packets = first.queue == second.queue && first.packet < second.barrier;
    let by_waiting = first.completed.is_some_and(|completed| completed <= second.floor);
    let by_publishing = first.published.get(&second.queue).is_none_or(|published| second.packet >= *published);
    // What runs at the same time may tell each other through memory.
    let is_beside = first.completed.is_none_or(|completed| completed > second.begun);
    let by_memory = is_beside && first.kernel.synchronizes() && second.kernel.synchronizes();
    by_packets || by_waiting || by_publishing || by_memory
}
