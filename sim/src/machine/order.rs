// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Accesses to the same bytes by different dispatches that nothing orders, one of which writes: the check `race`.
//!
//! Dispatches run one after the other here, mostly; a GPU may run them beside each other. What orders two for sure, or
//! may do so without being seen here, is
//!
//! * the barrier bit of a packet, between what is in front of it in its queue, and itself and what is behind it;
//! * a command of PM4 that waits for kernels (CS_PARTIAL_FLUSH), between those before it in its packet and those
//!   behind;
//! * a barrier packet that waits for signals, or commands of PM4: what has completed by the time when it is done comes
//!   before everything behind it in its queue, whatever the signals;
//! * the host, or a kernel that writes packets: what was published only when a dispatch had begun already may have
//!   waited for it.
//!
//! For each 16 bytes the last write and the last read are kept, with the bytes and the instruction. A dispatch is kept
//! until all packets that had been published when it began are done: those that come later are behind it, and so it is
//! before each access that finds one of its own.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use sim_wave::{Line, PAGE, Touched};

use super::Machine;
use super::execute::Kernel;
use super::packet;
use super::pm4::PlacedCommand;
use super::queue::Queue;

/// Bytes that are looked at together.
const BLOCK: u64 = 16;

/// A dispatch, by its number among all, from 1 on.
type Number = u32;

/// So many dispatches are kept at least.
const KEPT: usize = 64;

/// Where a dispatch is in its queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The index of its packet.
    pub packet: u64,
    /// Of a packet with commands, how many of them before it have waited for the kernels before them.
    pub waits: u32,
}

/// Dispatches and what they have accessed.
#[derive(Default)]
pub struct Order(Mutex<State<Origin>>);

/// What is known of a dispatch's code, and of the command that started it, if one did.
struct Origin {
    kernel: Arc<Kernel>,
    command: Option<PlacedCommand>,
}

/// `K` is what is known of where dispatches are from.
struct State<K> {
    /// Those that one to come may not be behind, and some more.
    dispatches: HashMap<Number, Dispatch<K>>,
    /// How many have begun.
    begun: Number,
    /// How many have completed.
    completed: u32,
    /// When so many are kept, those are forgotten that matter no more.
    limit: usize,
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

struct Dispatch<K> {
    queue: u64,
    place: Place,
    origin: K,
    /// The kernel has atomics of memory, or loads past caches.
    synchronizes: bool,
    /// The place from which on nothing waits for more: the last packet with the barrier bit in its queue, itself among
    /// them, or behind the last command that waits.
    barrier: Place,
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
    /// Those of the bytes that an atomic accessed last, and those that one of too small a scope did.
    atomic: u16,
    narrow: u16,
}

impl Access {
    /// The bytes that `touched` has in common with it and that need an order; and those that either accesses by an
    /// atomic, as atomic stores look like any other.
    fn racing(&self, touched: &Touched) -> (u16, u16) {
        let atomic = self.atomic | only_if(touched.is_atomic, touched.bytes);
        let narrow = self.narrow | only_if(touched.is_narrow, touched.bytes);
        (self.bytes & touched.bytes & (!atomic | narrow), atomic)
    }

    /// `dispatch` accesses the bytes of `touched`, and it may be some of them again.
    fn add(&mut self, dispatch: Number, touched: &Touched) {
        if self.dispatch != dispatch {
            *self = Access { dispatch, ..Access::default() };
        }
        self.offset = touched.offset;
        self.bytes |= touched.bytes;
        self.atomic = self.atomic & !touched.bytes | only_if(touched.is_atomic, touched.bytes);
        self.narrow = self.narrow & !touched.bytes | only_if(touched.is_narrow, touched.bytes);
    }
}

fn only_if(does: bool, bytes: u16) -> u16 {
    if does { bytes } else { 0 }
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Access,
    read: Access,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        State {
            dispatches: HashMap::new(),
            begun: 0,
            completed: 0,
            limit: KEPT,
            queues: HashMap::new(),
            pages: HashMap::new(),
        }
    }
}

/// Two accesses that nothing orders.
pub struct Race {
    /// What it is, in a sentence.
    pub what: String,
    /// The first byte that both have accessed.
    pub address: u64,
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
            let state = &mut *self.0.lock();
            let barriers = &mut state.queues.entry(queue.id).or_default().barriers;
            barriers.insert(id);
            // Packets in front of the head are done. Of barriers up to it the last one counts.
            let head = queue.head().load(std::sync::atomic::Ordering::Relaxed);
            let last = barriers.range(..=head).next_back().copied().unwrap_or(0);
            barriers.retain(|barrier| *barrier >= last);
        }
    }

    /// A packet that waits for others than those of its queue is done.
    pub fn waited(&self, queue: &Queue) {
        let state = &mut *self.0.lock();
        state.queues.entry(queue.id).or_default().floor = state.completed;
    }

    /// A dispatch begins. Returns its number.
    pub fn begin(
        &self,
        machine: &Machine,
        queue: &Queue,
        place: Place,
        kernel: &Arc<Kernel>,
        command: Option<PlacedCommand>,
    ) -> Number {
        let queues = machine.queues.read().clone();
        let state = &mut *self.0.lock();
        let (mut published, mut heads) = (HashMap::new(), HashMap::new());
        for other in queues {
            let of = state.queues.entry(other.id).or_default();
            let head = other.head().load(std::sync::atomic::Ordering::Relaxed);
            let mut at = of.published.max(head);
            while at < head + u64::from(other.size) && packet::published(&other, at).is_some() {
                at += 1;
            }
            of.published = at;
            published.insert(other.id, at);
            heads.insert(other.id, head);
        }
        let origin = (Origin { kernel: Arc::clone(kernel), command }, kernel.synchronizes());
        state.begin((queue.id, place), origin, published, &heads)
    }

    /// It is over.
    pub fn end(&self, number: Number) {
        self.0.lock().end(number);
    }

    /// Nobody knows any more what has accessed a range.
    pub fn forget(&self, range: Range<u64>) {
        let pages = &mut self.0.lock().pages;
        if !pages.is_empty() {
            (range.start / PAGE..range.end.div_ceil(PAGE)).for_each(|number| drop(pages.remove(&number)));
        }
    }

    /// A dispatch has accessed bytes, each of these within a page. `report` is told of races.
    pub fn touched(&self, number: Number, accesses: &[Touched], report: &mut dyn FnMut(Race)) {
        let State { dispatches, pages, .. } = &mut *self.0.lock();
        let Some(this) = dispatches.get(&number) else { return };
        // Mostly the same follow each other.
        let mut last = (0, true);
        let mut is_before = |other: Number| {
            if last.0 != other {
                last = (other, dispatches.get(&other).is_none_or(|other| is_before(other, this)));
            }
            last.1
        };
        let mut page: (u64, &mut [Cell]) = (u64::MAX, &mut []);
        for touched in accesses {
            let at = touched.address / PAGE;
            if page.0 != at {
                let new = || vec![Cell::default(); (PAGE / BLOCK) as usize].into();
                page = (at, pages.entry(at).or_insert_with(new));
            }
            let first = (touched.address % PAGE / BLOCK) as usize;
            for (at, cell) in page.1[first..].iter_mut().take(touched.blocks as usize).enumerate() {
                let reads = [Some(cell.read).filter(|_| touched.is_write), Some(cell.write)];
                for (of, other) in reads.into_iter().enumerate().filter_map(|(of, other)| Some((of, other?))) {
                    let (racing, atomic) = other.racing(touched);
                    let is_other = other.dispatch != 0 && other.dispatch != number;
                    if !is_other || racing == 0 || is_before(other.dispatch) {
                        continue;
                    }
                    let Some(of_other) = dispatches.get(&other.dispatch) else { continue };
                    let Origin { kernel, command } = &of_other.origin;
                    let Some(line) = kernel.line(other.offset) else { continue };
                    let address = touched.address + BLOCK * at as u64 + u64::from(racing.trailing_zeros());
                    let is_atomic = atomic >> racing.trailing_zeros() & 1 != 0;
                    let command = command.map_or_else(String::new, |command| format!("{command}, "));
                    let what = format!(
                        "memory at {address:#x} is {}; dispatch {} of queue {}, {command}of kernel {}, has {} it, and nothing \
                         orders the two dispatches{}",
                        if touched.is_write { "written" } else { "read" },
                        of_other.place.packet,
                        of_other.queue,
                        kernel.name,
                        if of == 0 { "read" } else { "written" },
                        if is_atomic { ": an atomic's scope does not reach the other" } else { "" },
                    );
                    report(Race { what, address, offset: touched.offset, other: line });
                }
                let access = if touched.is_write { &mut cell.write } else { &mut cell.read };
                access.add(number, touched);
            }
        }
    }
}

impl<K> State<K> {
    /// A dispatch begins, in its place of a queue: with where it is from, and whether its kernel synchronizes; up to
    /// where the packets of each queue are published, and up to where they are done.
    fn begin(
        &mut self,
        (queue, place): (u64, Place),
        (origin, synchronizes): (K, bool),
        published: HashMap<u64, u64>,
        heads: &HashMap<u64, u64>,
    ) -> Number {
        if self.dispatches.len() >= self.limit {
            self.forget(heads);
        }
        let of = self.queues.entry(queue).or_default();
        let barrier = of.barriers.range(..=place.packet).next_back().copied().unwrap_or(0);
        // Those before are of no more use.
        of.barriers = of.barriers.split_off(&barrier);
        let barrier = if place.waits > 0 { place } else { Place { packet: barrier, waits: 0 } };
        let (begun, floor) = (self.completed, of.floor);
        let dispatch =
            Dispatch { queue, place, origin, synchronizes, barrier, begun, floor, published, completed: None };
        self.begun += 1;
        self.dispatches.insert(self.begun, dispatch);
        self.begun
    }

    fn end(&mut self, number: Number) {
        self.completed += 1;
        if let Some(dispatch) = self.dispatches.get_mut(&number) {
            dispatch.completed = Some(self.completed);
        }
    }

    /// Forgets the dispatches that all others that run or are to come are behind, and queues that are no more.
    fn forget(&mut self, heads: &HashMap<u64, u64>) {
        self.dispatches.retain(|_, dispatch| {
            let is_running = dispatch.completed.is_none() && heads.contains_key(&dispatch.queue);
            let is_in_front = |queue: &u64, published: &u64| heads.get(queue).is_some_and(|head| head < published);
            is_running || dispatch.published.iter().any(|(queue, published)| is_in_front(queue, published))
        });
        self.queues.retain(|queue, _| heads.contains_key(queue));
        self.limit = KEPT.max(2 * self.dispatches.len());
    }
}

/// Whether a dispatch comes before another that was looked at later, or may do so.
fn is_before<K>(first: &Dispatch<K>, second: &Dispatch<K>) -> bool {
    let by_packets = first.queue == second.queue && first.place < second.barrier;
    let by_waiting = first.completed.is_some_and(|completed| completed <= second.floor);
    let by_publishing = first.published.get(&second.queue).is_none_or(|published| second.place.packet >= *published);
    // What runs at the same time may tell each other through memory.
    let is_beside = first.completed.is_none_or(|completed| completed > second.begun);
    let by_memory = is_beside && first.synchronizes && second.synchronizes;
    by_packets || by_waiting || by_publishing || by_memory
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two queues, of which one is published so many packets at once, and the other's packet number 3 stays in front
    /// of its processor while the first's dispatches up to `held` run.
    fn most_kept(at_once: u64, held: u64) -> usize {
        let mut state = State::default();
        let mut most = 0;
        for packet in 0..10_000_u64 {
            let other = if packet < held { 3 } else { 4 };
            let heads = HashMap::from([(7, packet), (8, other)]);
            let published = HashMap::from([(7, (packet / at_once + 1) * at_once), (8, 4)]);
            let number = state.begin((7, Place { packet, waits: 0 }), ((), false), published, &heads);
            most = most.max(state.dispatches.len());
            for earlier in packet / at_once * at_once..packet {
                let first = state.dispatches.get(&(earlier as Number + 1)).unwrap();
                assert!(!is_before(first, &state.dispatches[&number]), "packet {earlier} is not before {packet}");
            }
            state.end(number);
        }
        most
    }

    #[test]
    fn bytes_race_as_each_of_them_was_accessed() {
        let touched = |bytes, is_atomic, is_narrow| Touched {
            address: 0,
            blocks: 1,
            bytes,
            is_write: true,
            is_atomic,
            is_narrow,
            offset: 0,
        };
        let of = |accesses: &[Touched]| {
            let mut access = Access::default();
            accesses.iter().for_each(|touched| access.add(7, touched));
            access
        };
        let [wide, narrow] = [0xf, 0xf0].map(|bytes| [touched(bytes, true, false), touched(bytes, true, true)]);
        // An atomic of the first dword, and one of too small a scope of the second, in either order.
        for both in [of(&[wide[0], narrow[1]]), of(&[narrow[1], wide[0]])] {
            assert_eq!(both.racing(&wide[0]).0, 0);
            assert_eq!(both.racing(&narrow[0]), (0xf0, 0xff));
        }
        // A store of the first, and an atomic of the second.
        let both = of(&[touched(0xf, false, false), narrow[0]]);
        assert_eq!(both.racing(&wide[0]).0, 0, "an atomic store may be either");
        assert_eq!(both.racing(&touched(0xff, false, false)), (0xf, 0xf0));
        let mut again = both;
        again.add(8, &narrow[0]);
        assert_eq!(again.racing(&touched(0xff, false, false)), (0, 0xf0));
    }

    #[test]
    fn dispatches_that_all_to_come_are_behind_are_forgotten() {
        assert!(most_kept(1, 0) <= KEPT);
        assert!(most_kept(50, 0) <= 2 * KEPT);
        // They may be beside what is behind the other queue's packet.
        assert_eq!(most_kept(1, 10_000), 10_000);
        assert!((1000..=2000).contains(&most_kept(1, 1000)));
    }

    #[test]
    fn a_queue_that_is_no_more_keeps_no_dispatch() {
        let mut state = State::default();
        for n in 0..1000_u64 {
            // Nothing of these ends, as after a fault.
            let (heads, published) = (HashMap::from([(n, 0)]), HashMap::from([(n, 1)]));
            state.begin((n, Place { packet: 0, waits: 0 }), ((), false), published, &heads);
        }
        assert!(state.dispatches.len() <= KEPT && state.queues.len() <= KEPT, "{} are kept", state.dispatches.len());
    }
}
