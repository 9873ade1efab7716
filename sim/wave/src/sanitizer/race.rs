// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Accesses to the same bytes that nothing orders.
//!
//! An access comes before another of a different wave if it was waited for, its wave then signalled a barrier that the
//! other wave waited for, or an atomic that the other has read from; and if the other, where it reads through a cache
//! of its own, has invalidated that since. Atomics of workgroups are looked at as if all were of the agent's scope.

use super::bytes::{self, Bytes, Doing, Hit, conflicts, hit, overlap, stores_what_is_there};
use super::clock::{self, Clock, Known};
use super::counters::{CLASSES, Class, Issue};
use super::finding::{Sink, Touched};
use super::lds::Access;
use super::pending::Pending;
use super::plan::{Meeting, Plan, Step};
use super::shadow::{Cell, Deed, Global, Kept, Local, Place, Stamp};
use super::touch::Touch;
use crate::exec::{self, Reach};
use crate::hardware::SHARED_APERTURE;
use crate::memory::Control;
use crate::micro_op::MicroOp;
use crate::wave::{Group, Wave};
use hsa_abi::KernelDispatchPacket;
use sim_isa::{Format, Target};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What was known at a wave's stores, which may be atomic ones that release it, is kept for so many changes of it.
const RELEASES: usize = 32;

/// How often a thread looks whether another has made a write.
const PATIENCE: u32 = 1000;

/// No write.
const NOTHING: u64 = u64::MAX;

/// A write as [`Shared::under_way`] has it.
fn write_of(stamp: &Stamp) -> u64 {
    u64::from(stamp.wave) << 32 | u64::from(stamp.n)
}

/// What all threads of a dispatch know.
pub(crate) struct Shared {
    memory: Global,
    /// What whoever reads a dword learns, by its address: of those that atomics have accessed.
    released: Mutex<HashMap<u64, Arc<Clock>>>,
    /// What waves have released by stores, by their numbers: from which store on.
    stores: Mutex<HashMap<u32, Vec<Release>>>,
    /// Of each thread, the write of memory that it has noted and may not have made yet.
    under_way: Mutex<Vec<Arc<AtomicU64>>>,
    /// Workgroups in each dimension.
    groups: [u32; 3],
    /// Numbers of waves that each workgroup has.
    width: u32,
    /// Waves of a workgroup are on several compute units.
    is_split: bool,
    target: Target,
}

struct Release {
    issued: [u32; CLASSES],
    clock: Arc<Clock>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// For a dispatch of waves of `lanes`.
    pub fn new(packet: &KernelDispatchPacket, lanes: u32, is_split: bool, target: Target) -> Self {
        let size = packet.workgroup_size.map(u32::from);
        Shared {
            memory: Global::new(),
            released: Mutex::default(),
            stores: Mutex::default(),
            under_way: Mutex::default(),
            groups: [0, 1, 2].map(|i| packet.grid_size[i].div_ceil(size[i])),
            width: size.iter().product::<u32>().div_ceil(lanes),
            is_split,
            target,
        }
    }

    /// Waits until another thread has made a write that it has noted. Returns whether it has: two that wait for each
    /// other give up.
    #[cold]
    fn is_made(&self, stamp: &Stamp) -> bool {
        let threads = lock(&self.under_way).clone();
        // Acquire: what was written is there when the thread says so.
        let is_under_way = || threads.iter().any(|thread| thread.load(Ordering::Acquire) == write_of(stamp));
        (0..PATIENCE).any(|_| {
            let is_made = !is_under_way();
            if !is_made {
                std::thread::yield_now();
            }
            is_made
        })
    }

    /// Tells what has been accessed. Of bytes that were written it is not known any more who has read them before.
    pub fn tell(&self, plan: &Plan, sink: &dyn Sink) {
        let mut touched = Vec::new();
        self.memory.each_page(|cells| {
            touched.clear();
            for (address, bytes, cell) in cells {
                for stamp in [&cell.write, &cell.reads[0], &cell.reads[1]].into_iter().filter(|stamp| stamp.is_some()) {
                    // Of a dword each byte has its bit.
                    let mask = (0..4).fold(0, |mask, dword| mask | u16::from(stamp.mask & 15) << (4 * dword));
                    touched.push(Touched {
                        address,
                        bytes: bytes & mask,
                        is_write: !matches!(stamp.deed, Deed::Load | Deed::ScopedLoad),
                        is_atomic: matches!(stamp.deed, Deed::Atomic | Deed::ScopedLoad),
                        offset: plan.at(stamp.step).offset,
                    });
                }
            }
            sink.touched(&touched);
        });
    }

    /// The number of a workgroup's first wave.
    fn first(&self, [x, y, z]: [u32; 3]) -> u32 {
        let [nx, ny, _] = self.groups;
        z.wrapping_mul(ny).wrapping_add(y).wrapping_mul(nx).wrapping_add(x).wrapping_mul(self.width)
    }

    /// The workgroup that has a wave, and which of its waves it is.
    pub fn place(&self, wave: u32) -> ([u32; 3], u32) {
        let ([nx, ny, _], group) = (self.groups, wave / self.width);
        ([group % nx, group / nx % ny, group / nx / ny], wave % self.width)
    }
}

/// Where a wave stands.
struct Visitor {
    /// What it had done when it last signalled the barrier, and the time before.
    rounds: [Round; 2],
    signals: u32,
    waits: u32,
    /// It has waited for a barrier, and has not learnt yet from those that it met there.
    has_met: bool,
    /// The same of a named one.
    has_met_named: bool,
    /// Learnt from atomics.
    seen: Arc<Clock>,
    /// As much of it as reads through its compute unit's cache, and its shader array's, are sure to see.
    in_vector: Arc<Clock>,
    in_array: Arc<Clock>,
    /// gfx942: what it had issued when it last wrote its die's cache back.
    written: [u32; CLASSES],
    /// What it released last.
    released: Option<Release>,
}

#[derive(Clone, Default)]
struct Round {
    own: Known,
    seen: Arc<Clock>,
    in_vector: Arc<Clock>,
    in_array: Arc<Clock>,
}

/// What has been signalled at a named barrier up to a round.
#[derive(Clone, Default)]
struct NamedRound {
    /// The round's number and one, or 0.
    number: u32,
    /// What its signallers had done, and what they knew, by wave.
    known: Vec<Known>,
    seen: Arc<Clock>,
    in_vector: Arc<Clock>,
    in_array: Arc<Clock>,
}

/// The check of one thread.
pub(super) struct Races<'a> {
    shared: &'a Shared,
    /// See [`Shared::under_way`].
    under_way: Arc<AtomicU64>,
    /// Waves of the workgroup under way.
    visitors: Vec<Visitor>,
    /// The number of its first one.
    first: u32,
    /// What each wave (row) knows of each from barriers.
    known: Vec<Known>,
    /// As much of it as its reads of memory are sure to see.
    fresh: Vec<Known>,
    /// The last two rounds of each named barrier.
    named: Vec<[NamedRound; 2]>,
    lds: Local,
    pages: Kept,
    /// Kept for their memory.
    lanes: Vec<Bytes>,
    spans: Vec<(u64, u64)>,
    /// See [`Shared::released`].
    released_in_lds: HashMap<u64, Arc<Clock>>,
}

impl<'a> Races<'a> {
    pub fn new(shared: &'a Shared) -> Self {
        let under_way = Arc::new(AtomicU64::new(NOTHING));
        lock(&shared.under_way).push(under_way.clone());
        Races {
            shared,
            under_way,
            visitors: Vec::new(),
            first: 0,
            known: Vec::new(),
            fresh: Vec::new(),
            named: Vec::new(),
            lds: Local::default(),
            pages: Kept::default(),
            lanes: Vec::new(),
            spans: Vec::new(),
            released_in_lds: HashMap::new(),
        }
    }

    pub fn begin(&mut self, workgroup: [u32; 3], waves: usize, lds: usize) {
        self.first = self.shared.first(workgroup);
        let nothing = Arc::new(Clock::default());
        self.visitors.clear();
        self.visitors.resize_with(waves, || Visitor {
            rounds: Default::default(),
            signals: 0,
            waits: 0,
            has_met: false,
            has_met_named: false,
            seen: nothing.clone(),
            in_vector: nothing.clone(),
            in_array: nothing.clone(),
            written: [0; CLASSES],
            released: None,
        });
        for known in [&mut self.known, &mut self.fresh] {
            known.clear();
            known.resize(waves * waves, Known::default());
        }
        self.named.clear();
        self.lds.begin(lds);
        self.released_in_lds.clear();
    }

    /// The instruction that was looked at has run.
    pub fn done(&self) {
        // Release: after what it wrote.
        self.under_way.store(NOTHING, Ordering::Release);
    }

    /// A wave comes to a barrier.
    pub fn meet<const L: usize>(&mut self, wave: usize, meeting: Meeting, pending: &Pending<L>) {
        let visitor = &mut self.visitors[wave];
        if matches!(meeting, Meeting::Signal | Meeting::Both) {
            let Visitor { seen, in_vector, in_array, .. } = visitor;
            visitor.rounds[visitor.signals as usize % 2] = Round {
                own: pending.known(),
                seen: seen.clone(),
                in_vector: in_vector.clone(),
                in_array: in_array.clone(),
            };
            visitor.signals += 1;
        }
        if matches!(meeting, Meeting::Wait | Meeting::Both) {
            visitor.waits += 1;
            visitor.has_met = true;
        }
    }

    /// A wave goes on; if it has met others at a barrier it learns what they had done by then.
    /// `named` is the named barrier that it has joined, and the rounds of it that are over for it.
    #[inline]
    pub fn go_on(&mut self, wave: usize, named: (usize, u32)) {
        if std::mem::take(&mut self.visitors[wave].has_met) {
            self.learn(wave);
        }
        if std::mem::take(&mut self.visitors[wave].has_met_named) {
            self.learn_named(wave, named);
        }
    }

    /// A wave signals a named barrier in this round.
    pub fn signal_named<const L: usize>(&mut self, wave: usize, barrier: usize, round: u32, pending: &Pending<L>) {
        let count = self.visitors.len();
        if self.named.len() <= barrier {
            self.named.resize_with(barrier + 1, Default::default);
        }
        let [even, odd] = &mut self.named[barrier];
        let (this, last) = if round.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        if this.number != round + 1 {
            // Who waits for this one knows what the last one told.
            *this = NamedRound { number: round + 1, ..last.clone() };
            this.known.resize(count, Known::default());
        }
        for (other, known) in this.known.iter_mut().enumerate() {
            match other == wave {
                true => known.join(&pending.known()),
                false => known.join(&self.known[wave * count + other]),
            }
        }
        let visitor = &self.visitors[wave];
        clock::join(&mut this.seen, &visitor.seen);
        clock::join(&mut this.in_vector, &visitor.in_vector);
        clock::join(&mut this.in_array, &visitor.in_array);
    }

    /// A wave waits for the named barrier that it has joined.
    pub fn wait_named(&mut self, wave: usize) {
        self.visitors[wave].has_met_named = true;
    }

    #[cold]
    fn learn_named(&mut self, wave: usize, (joined, rounds): (usize, u32)) {
        let count = self.visitors.len();
        let Some(named) = joined.checked_sub(1).and_then(|barrier| self.named.get(barrier)).cloned() else { return };
        for round in named.iter().filter(|round| (1..=rounds).contains(&round.number)) {
            for (other, known) in round.known.iter().enumerate().filter(|(other, _)| *other != wave) {
                self.known[wave * count + other].join(known);
            }
            let visitor = &mut self.visitors[wave];
            clock::join(&mut visitor.seen, &round.seen);
            clock::join(&mut visitor.in_array, &round.in_array);
            if !self.shared.is_split {
                clock::join(&mut visitor.in_vector, &round.in_vector);
            }
        }
    }

    #[cold]
    fn learn(&mut self, wave: usize) {
        let count = self.visitors.len();
        let waits = self.visitors[wave].waits;
        for other in (0..count).filter(|other| *other != wave) {
            // One that has ended before does not count.
            if self.visitors[other].signals < waits {
                continue;
            }
            let round = self.visitors[other].rounds[(waits as usize - 1) % 2].clone();
            self.known[wave * count + other].join(&round.own);
            let visitor = &mut self.visitors[wave];
            clock::join(&mut visitor.seen, &round.seen);
            clock::join(&mut visitor.in_array, &round.in_array);
            if !self.shared.is_split {
                clock::join(&mut visitor.in_vector, &round.in_vector);
            }
        }
    }

    /// A wave controls caches.
    pub fn control<const L: usize>(&mut self, wave: usize, control: &Control, pending: &Pending<L>) {
        let count = self.visitors.len();
        let visitor = &mut self.visitors[wave];
        if control.invalidate_vector {
            visitor.in_vector = visitor.seen.clone();
            self.fresh[wave * count..(wave + 1) * count].copy_from_slice(&self.known[wave * count..(wave + 1) * count]);
        }
        if control.invalidate_array {
            visitor.in_array = visitor.seen.clone();
        }
        if control.write_back_die {
            visitor.written = pending.known().issued;
        }
    }

    /// Whether an access comes before what `wave` does now.
    fn is_before(&self, wave: usize, stamp: &Stamp, is_lds: bool, is_cached: bool) -> bool {
        let visitor = &self.visitors[wave];
        let count = self.visitors.len();
        let is_split = self.shared.is_split;
        let of_group = stamp.wave.wrapping_sub(self.first) as usize;
        if of_group < count {
            let in_order = !is_lds && !is_split;
            let needs_fresh = is_cached && is_split;
            let known = if needs_fresh { &self.fresh } else { &self.known };
            let seen = if needs_fresh { &visitor.in_vector } else { &visitor.seen };
            return known[wave * count + of_group].covers(stamp, in_order) || seen.covers(stamp, in_order);
        }
        if !is_cached {
            return visitor.seen.covers(stamp, false);
        }
        // gfx9 has no cache for a shader array.
        visitor.in_vector.covers(stamp, false)
            && (self.shared.target.is_gfx9() || visitor.in_array.covers(stamp, false))
    }

    /// What `wave` tells others by an atomic or a store.
    fn release<const L: usize>(&self, wave: usize, pending: &Pending<L>, is_lds: bool) -> Arc<Clock> {
        let count = self.visitors.len();
        let mut own = pending.known();
        if self.shared.target == Target::Gfx942 && !is_lds {
            own.back
                .iter_mut()
                .zip(&self.visitors[wave].written)
                .for_each(|(back, written)| *back = (*back).min(*written));
        }
        let mut clock = self.visitors[wave].seen.clone();
        let changed = Arc::make_mut(&mut clock);
        for other in 0..count {
            let mut known = if other == wave { own } else { self.known[wave * count + other] };
            if known == Known::default() {
                continue;
            }
            if other != wave && !self.shared.is_split {
                // Their stores are in front of this one in the compute unit's way to memory.
                known.back = known.issued;
            }
            changed.add(self.first + other as u32, &known);
        }
        clock
    }

    /// Looks at an access to memory.
    pub fn touch<const L: usize>(
        &mut self,
        (number, step, touch): (u32, &Step, &Touch),
        op: &MicroOp<L>,
        plan: &Plan,
        pending: &Pending<L>,
        (wave, group): (&mut Wave<L>, &mut Group<'_>),
    ) -> Vec<Hit> {
        let mut hits = Vec::new();
        let Some(issue) = step.issue else { return hits };
        let index = wave.index;
        let doing = |class: Class, is_lds: bool| Doing {
            stamp: Stamp {
                wave: self.first + index,
                n: pending.next(class).n,
                step: number,
                class,
                deed: touch.deed,
                mask: 0,
            },
            is_lds,
            is_cached: touch.deed == Deed::Load && touch.format != Format::Smem,
            op,
            shift: touch.shift,
            returns: touch.returns,
            part: 1,
        };
        if touch.format == Format::Smem {
            let Some((address, bytes)) = exec::scalar_reach(touch.is_special, wave, group, op, touch.bytes) else {
                return hits;
            };
            let doing = doing(Class::Scalar, false);
            self.access(&doing, vec![(address, address + bytes, 0)], plan, pending, wave, group, &mut hits);
            return hits;
        }
        let Some(Reach { memory, partial, local, .. }) =
            exec::reach(touch.format, touch.is_special, wave, group, op, touch.bytes)
        else {
            return hits;
        };
        let bytes: u64 = touch.bytes.into();
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.clear();
        lanes.extend(
            exec::lanes_of(memory).map(|lane| (wave.addresses[lane], wave.addresses[lane] + bytes, lane as u8)),
        );
        lanes.extend(exec::lanes_of(partial).map(|lane| {
            let start = wave.addresses[lane];
            (start, start + u64::from(wave.room.0[lane] & !3).min(bytes), lane as u8)
        }));
        let is_shared = |lane: &usize| (wave.addresses[*lane] >> 32) as u32 == SHARED_APERTURE;
        let of_lds: Vec<Bytes> = exec::lanes_of(local)
            .filter(is_shared)
            .map(|lane| (lane, u64::from(wave.addresses[lane] as u32)))
            .map(|(lane, start)| (start, start + bytes, lane as u8))
            .collect();
        let (class, of_flat) = match issue {
            Issue::One(class) => (class, Class::Lds),
            // As they are counted where lanes go both ways.
            Issue::Flat(class) => match self.shared.target.is_gfx9() {
                true if !of_lds.is_empty() && !lanes.is_empty() => (Class::FlatLoad, Class::FlatLds),
                true if !of_lds.is_empty() => (Class::FlatLoad, Class::Lds),
                _ => (class, Class::Lds),
            },
        };
        let (to_memory, to_lds) = (doing(class, false), doing(of_flat, true));
        if !lanes.is_empty() {
            self.access(&to_memory, lanes, plan, pending, wave, group, &mut hits);
        }
        if !of_lds.is_empty() {
            self.access(&to_lds, of_lds, plan, pending, wave, group, &mut hits);
        }
        hits
    }

    /// Looks at an access to LDS.
    pub fn touch_lds<const L: usize>(
        &mut self,
        (number, access, class): (u32, &Access, Class),
        op: &MicroOp<L>,
        plan: &Plan,
        pending: &Pending<L>,
        (wave, group): (&Wave<L>, &mut Group<'_>),
    ) -> Vec<Hit> {
        let mut hits = Vec::new();
        let exec = wave.exec() & Wave::<L>::LANES;
        let deed = match access {
            Access { is_atomic: true, .. } => Deed::Atomic,
            Access { writes: true, .. } => Deed::Store,
            _ => Deed::Load,
        };
        for part in 0..2 {
            let mut lanes = std::mem::take(&mut self.lanes);
            lanes.clear();
            lanes.extend(
                exec::lanes_of(exec)
                    .filter_map(|lane| access.part(part, wave, lane).map(|bytes| (lane, bytes)))
                    .map(|(lane, bytes)| (bytes.start as u64, bytes.end as u64, lane as u8)),
            );
            if lanes.is_empty() {
                break;
            }
            let n = pending.next(class).n;
            let doing = Doing {
                stamp: Stamp { wave: self.first + wave.index, n, step: number, class, deed, mask: 0 },
                is_lds: true,
                is_cached: false,
                op,
                shift: access.shift,
                returns: op.has_dst,
                part: 1 + part,
            };
            self.access(&doing, lanes, plan, pending, wave, group, &mut hits);
        }
        hits
    }

    /// Looks at the bytes of an access.
    #[allow(clippy::too_many_arguments)]
    fn access<const L: usize>(
        &mut self,
        doing: &Doing<'_, L>,
        mut lanes: Vec<Bytes>,
        plan: &Plan,
        pending: &Pending<L>,
        wave: &Wave<L>,
        group: &mut Group<'_>,
        hits: &mut Vec<Hit>,
    ) {
        let (index, deed) = (wave.index as usize, doing.stamp.deed);
        let writes = matches!(deed, Deed::Store | Deed::Atomic);
        let overlaps = |lanes: &[Bytes]| lanes.windows(2).any(|pair| pair[1].0 < pair[0].1);
        if deed == Deed::Store && overlaps(&lanes) {
            lanes.sort_unstable();
            hits.extend(overlap(doing, &lanes, wave));
        }
        let mut spans = std::mem::take(&mut self.spans);
        bytes::spans(&lanes, &mut spans);
        if writes && !doing.is_lds {
            // In front of the locks, with which other threads come to know of the write.
            self.under_way.store(write_of(&doing.stamp), Ordering::Relaxed);
        }
        let (shared, first) = (self.shared, self.first);
        let is_near = |wave: u32| wave.wrapping_sub(first) < shared.width;
        let synchronizes = doing.is_lds || plan.synchronizes;
        if synchronizes && (deed != Deed::Load || doing.is_lds) {
            self.synchronize(doing, &lanes, pending, index);
        }
        let mut sources: Vec<Stamp> = Vec::new();
        let reads_from_stores =
            plan.synchronizes && !doing.is_lds && (deed == Deed::ScopedLoad || deed == Deed::Atomic && doing.returns);
        let (mut local, mut pages) = (std::mem::take(&mut self.lds), std::mem::replace(&mut self.pages, Kept::none()));
        {
            let mut update = |cell: &mut Cell, place: Place, mask: u8| {
                // A store of what is there, where the write that put it there has been made.
                let is_same = |group: &mut Group<'_>, mask: u8, write: &Stamp| {
                    deed == Deed::Store
                        && (stores_what_is_there(doing, &lanes, place, mask, wave, group)
                            || !is_near(write.wave)
                                && (!shared.is_made(write)
                                    || stores_what_is_there(doing, &lanes, place, mask, wave, group)))
                };
                let mut stamp = Stamp { mask, ..doing.stamp };
                let write = cell.write;
                let mut is_equal = false;
                if write.is_some() && write.wave != stamp.wave && write.mask & mask != 0 {
                    if reads_from_stores && write.deed == Deed::Store {
                        sources.push(write);
                    }
                    let is_looked_at = conflicts(deed, write.deed, doing.is_lds);
                    if is_looked_at && !self.is_before(index, &write, doing.is_lds, doing.is_cached) {
                        // Where several have stored the same it does not matter whose it is.
                        let reads_equal = deed == Deed::Load && write.deed == Deed::EqualStore;
                        is_equal = reads_equal || is_same(group, mask & write.mask, &write);
                        hits.push(hit(doing, &lanes, Some(write), place, is_equal));
                    }
                }
                if !writes {
                    cell.read(stamp, is_near);
                    return;
                }
                for read in cell.reads {
                    let is_other = read.is_some() && read.wave != stamp.wave && read.mask & mask != 0;
                    let is_looked_at = is_other && conflicts(deed, read.deed, doing.is_lds);
                    if is_looked_at && !self.is_before(index, &read, doing.is_lds, false) {
                        let writes_equal = write.is_some() && is_same(group, mask & read.mask, &write);
                        is_equal |= writes_equal;
                        hits.push(hit(doing, &lanes, Some(read), place, writes_equal));
                    }
                }
                if is_equal {
                    stamp.deed = Deed::EqualStore;
                }
                cell.write(stamp);
            };
            match doing.is_lds {
                true => spans.iter().for_each(|span| local.visit(*span, &mut update)),
                false => self.shared.memory.visit(&mut pages, &spans, &mut update),
            }
        }
        (self.lds, self.pages, self.spans) = (local, pages, spans);
        self.lanes = lanes;
        sources.dedup_by_key(|stamp| (stamp.wave, stamp.n));
        for stamp in sources {
            self.acquire_from(index, &stamp);
        }
        if plan.synchronizes && deed == Deed::Store && !doing.is_lds {
            self.log(index, pending);
        }
    }

    /// Learns and tells what goes through dwords that atomics access.
    fn synchronize<const L: usize>(
        &mut self,
        doing: &Doing<'_, L>,
        lanes: &[Bytes],
        pending: &Pending<L>,
        index: usize,
    ) {
        let deed = doing.stamp.deed;
        let mut in_lds = std::mem::take(&mut self.released_in_lds);
        let shared = self.shared;
        let mut in_memory;
        let table = match doing.is_lds {
            true => &mut in_lds,
            false => {
                in_memory = lock(&shared.released);
                &mut *in_memory
            }
        };
        if !table.is_empty() || deed == Deed::Atomic {
            let dwords = || lanes.iter().flat_map(|(start, end, _)| (start / 4..end.div_ceil(4)).map(|at| 4 * at));
            let mut learnt: Vec<Arc<Clock>> = Vec::new();
            for clock in dwords().filter_map(|at| table.get(&at)) {
                if !learnt.iter().any(|known| Arc::ptr_eq(known, clock)) {
                    learnt.push(clock.clone());
                }
            }
            let reads = deed == Deed::ScopedLoad || deed == Deed::Load || deed == Deed::Atomic && doing.returns;
            if reads {
                learnt.iter().for_each(|clock| clock::join(&mut self.visitors[index].seen, clock));
            }
            if deed == Deed::Atomic || deed == Deed::Store && !learnt.is_empty() {
                let mut told = self.release(index, pending, doing.is_lds);
                learnt.iter().for_each(|clock| clock::join(&mut told, clock));
                for at in dwords() {
                    if deed == Deed::Atomic || table.contains_key(&at) {
                        table.insert(at, told.clone());
                    }
                }
            }
        }
        self.released_in_lds = in_lds;
    }

    /// Learns what a wave had released when it stored what is read now.
    fn acquire_from(&mut self, index: usize, store: &Stamp) {
        let stores = lock(&self.shared.stores);
        let releases = stores.get(&store.wave).map_or(&[][..], |releases| releases);
        let class = store.class as usize;
        let clock = match releases.iter().rev().find(|release| release.issued[class] < store.n) {
            Some(release) => release.clock.clone(),
            // It is forgotten.
            None if releases.len() == RELEASES => Arc::new(Clock::everything()),
            None => return,
        };
        drop(stores);
        clock::join(&mut self.visitors[index].seen, &clock);
    }

    /// Notes what a wave has released at a store, if that has changed.
    fn log<const L: usize>(&mut self, index: usize, pending: &Pending<L>) {
        let clock = self.release(index, pending, false);
        let visitor = &mut self.visitors[index];
        if visitor.released.as_ref().is_some_and(|last| last.clock == clock) {
            return;
        }
        let issued = pending.known().issued;
        visitor.released = Some(Release { issued, clock: clock.clone() });
        let mut stores = lock(&self.shared.stores);
        let releases = stores.entry(self.first + index as u32).or_default();
        if releases.len() == RELEASES {
            releases.remove(0);
        }
        releases.push(Release { issued, clock });
    }

    /// The workgroup of a wave, and which of its waves it is.
    pub fn place(&self, wave: u32) -> ([u32; 3], u32) {
        self.shared.place(wave)
    }
}
