// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The check `race`: conflicting accesses to the same bytes by different dispatches without an order between them.
//!
//! In the sim, dispatches mostly run one after the other; a GPU may run them concurrently. Two dispatches are ordered,
//! or may be ordered in a way that the sim cannot see, by
//!
//! * the barrier bit of a packet, between the packets in front of it in its queue, and itself and the packets behind
//!   it;
//! * a PM4 command that waits for kernels (CS_PARTIAL_FLUSH), between the commands before it in its packet and those
//!   behind it;
//! * a barrier packet that waits for signals, or PM4 commands: everything that has completed when the packet completes
//!   comes before everything behind it in its queue, whatever the signals;
//! * the host, or a kernel that writes packets: a packet that was published after a dispatch had begun may have waited
//!   for the dispatch.
//!
//! For each 16 bytes the check keeps the last write and the last read, with the accessed bytes and the instruction. It
//! keeps a dispatch until all packets that had been published when the dispatch began are complete. Later packets are
//! behind the dispatch, and so their accesses cannot race with it.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use sim_wave::{Line, PAGE, Touched};

use crate::machine::code::kernel::Kernel;
use crate::machine::memory::map::OnFree;
use crate::machine::queue::Queue;
use crate::machine::queue::pm4::PlacedCommand;

/// Size of the blocks that accesses are recorded in, in bytes.
const BLOCK: u64 = 16;

/// Number of a dispatch among all, from 1 on.
type Number = u32;

/// Minimum number of dispatches to keep.
const KEPT: usize = 64;

/// Position of a dispatch in its queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of its packet.
    pub packet: u64,
    /// Number of waits for preceding kernels among the PM4 commands before it in its packet.
    pub waits: u32,
}

/// Dispatches and their accesses.
#[derive(Default)]
pub struct RaceDetector(Mutex<State<Origin>>);

/// Kernel of a dispatch, and the PM4 command that started it, if one did.
struct Origin {
    kernel: Arc<Kernel>,
    command: Option<PlacedCommand>,
}

/// State of the check. `K` describes the origin of a dispatch.
struct State<K> {
    /// Dispatches that a future one might be unordered with, and some more.
    dispatches: HashMap<Number, Dispatch<K>>,
    /// Number of dispatches that have begun.
    begun: Number,
    /// Number of dispatches that have completed.
    completed: u32,
    /// Number of kept dispatches at which the irrelevant ones are removed.
    limit: usize,
    queues: HashMap<u64, OfQueue>,
    /// Accesses by number of the page, for each block of 16 bytes.
    pages: HashMap<u64, Box<[Cell]>>,
}

/// State of a queue.
#[derive(Default)]
struct OfQueue {
    /// Packets with the barrier bit that the packet processor has seen.
    barriers: BTreeSet<u64>,
    /// End of the published packets.
    published: u64,
    /// Number of dispatches that had completed at the queue's last wait for anything besides its own packets.
    floor: u32,
}

struct Dispatch<K> {
    queue: u64,
    place: Place,
    origin: K,
    /// True if the kernel has atomics of memory, or loads that bypass caches.
    synchronizes: bool,
    /// Last barrier before it: the last packet with the barrier bit in its queue, which may be its own, or the last
    /// command that waits for kernels.
    barrier: Place,
    /// Number of dispatches that had completed when it began, and the number of those that its queue had waited for.
    begun: u32,
    floor: u32,
    /// End of the published packets of each queue when it began.
    published: HashMap<u64, u64>,
    /// Number of completed dispatches, including itself, at its end.
    completed: Option<u32>,
}

#[derive(Clone, Copy, Default)]
struct Access {
    /// Number of the dispatch; 0 without an access.
    dispatch: Number,
    offset: u32,
    bytes: u16,
    /// Bytes whose last access is an atomic, and bytes whose last access is an atomic of too small a scope.
    atomic: u16,
    narrow: u16,
}

impl Access {
    /// Returns the bytes that both accesses share and that need an order, and the bytes that either accesses by an
    /// atomic, because atomic stores look like ordinary ones.
    fn racing(&self, touched: &Touched) -> (u16, u16) {
        let atomic = self.atomic | only_if(touched.is_atomic, touched.bytes);
        let narrow = self.narrow | only_if(touched.is_narrow, touched.bytes);
        (self.bytes & touched.bytes & (!atomic | narrow), atomic)
    }

    /// Adds an access of `dispatch` to the bytes of `touched`. It may have accessed some of them before.
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

/// Two unordered accesses.
pub struct Race {
    /// Description, in a sentence.
    pub what: String,
    /// First byte that both accessed.
    pub address: u64,
    /// Offset in the code of the later instruction.
    pub offset: u32,
    /// The earlier instruction.
    pub other: Line,
}

impl OnFree for RaceDetector {
    fn freed(&self, range: Range<u64>) {
        self.forget(range);
    }
}

impl std::fmt::Debug for RaceDetector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RaceDetector")
    }
}

impl RaceDetector {
    /// Records that the packet processor has seen a packet.
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

    /// Records that a packet which waits for anything besides its queue's packets is complete.
    pub fn waited(&self, queue: &Queue) {
        let state = &mut *self.0.lock();
        state.queues.entry(queue.id).or_default().floor = state.completed;
    }

    /// Records that a dispatch of `queue` begins; `queues` are all of the machine's. Returns its number.
    pub fn begin(
        &self,
        queues: Vec<Arc<Queue>>,
        queue: &Queue,
        place: Place,
        kernel: &Arc<Kernel>,
        command: Option<PlacedCommand>,
    ) -> Number {
        let state = &mut *self.0.lock();
        let (mut published, mut heads) = (HashMap::new(), HashMap::new());
        for other in queues {
            let of = state.queues.entry(other.id).or_default();
            let head = other.head().load(std::sync::atomic::Ordering::Relaxed);
            let mut at = of.published.max(head);
            while at < head + u64::from(other.size) && other.published(at).is_some() {
                at += 1;
            }
            of.published = at;
            published.insert(other.id, at);
            heads.insert(other.id, head);
        }
        let origin = (Origin { kernel: Arc::clone(kernel), command }, kernel.synchronizes());
        state.begin((queue.id, place), origin, published, &heads)
    }

    /// Records that a dispatch ends.
    pub fn end(&self, number: Number) {
        self.0.lock().end(number);
    }

    /// Removes the accesses to a range.
    pub fn forget(&self, range: Range<u64>) {
        let pages = &mut self.0.lock().pages;
        if !pages.is_empty() {
            (range.start / PAGE..range.end.div_ceil(PAGE)).for_each(|number| drop(pages.remove(&number)));
        }
    }

    /// Records accesses of a dispatch, each within a page. Calls `report` with each race.
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
                        "data race between dispatches on memory byte {address:#x}: {}, previous {} by dispatch {} of queue \
                         {}, {command}of kernel {}{}",
                        if touched.is_write { "write" } else { "read" },
                        if of == 0 { "read" } else { "write" },
                        of_other.place.packet,
                        of_other.queue,
                        kernel.name,
                        if is_atomic { ": an atomic's scope does not reach the other dispatch" } else { "" },
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
    /// Records that a dispatch begins, at its position in a queue, with its origin, and with true if its kernel
    /// synchronizes. `published` and `heads` are the ends of the published and of the completed packets of each queue.
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

    /// Removes the dispatches that all running and future ones are ordered behind, and destroyed queues.
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

/// True if a dispatch comes before another that was recorded later, or may do so.
fn is_before<K>(first: &Dispatch<K>, second: &Dispatch<K>) -> bool {
    let by_packets = first.queue == second.queue && first.place < second.barrier;
    let by_waiting = first.completed.is_some_and(|completed| completed <= second.floor);
    let by_publishing = first.published.get(&second.queue).is_none_or(|published| second.place.packet >= *published);
    // Dispatches that run at the same time may synchronize through memory.
    let is_beside = first.completed.is_none_or(|completed| completed > second.begun);
    let by_memory = is_beside && first.synchronizes && second.synchronizes;
    by_packets || by_waiting || by_publishing || by_memory
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum number of kept dispatches with two queues: one gets `at_once` packets published at a time, and packet
    /// number 3 of the other stays in front of its processor while the first queue's dispatches up to `held` run.
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
        // They may run beside later packets of the other queue.
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
