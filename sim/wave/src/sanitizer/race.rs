// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Data races: conflicting accesses to the same bytes without an order.
//!
//! An access comes before another one of a different wave under these conditions:
//!
//! 1. Its wave has waited for it.
//! 2. Its wave has then signalled a barrier that the other wave waited for, or made an atomic that the other has read
//!    from.
//! 3. The other wave has since invalidated its own caches, if it reads through them.
//!
//! Two atomics do not race, unless the scope of one on gfx12 does not reach the other wave ([`Races::too_small`]).

mod known;
mod shared;

pub(crate) use shared::Shared;

use super::bytes::{self, Bytes, Doing, Hit, conflicts, hit, overlap, stores_what_is_there};
use super::clock::{self, Clock, Known};
use super::counters::{Class, Issue};
use super::lds::Access;
use super::pending::Pending;
use super::plan::{Plan, Step};
use super::shadow::{Cell, Deed, Kept, Local, Place, Stamp};
use super::touch::Touch;
use crate::caching::{ARRAY, DEVICE, UNIT};
use crate::exec::{self, Reach};
use crate::hardware::SHARED_APERTURE;
use crate::micro_op::MicroOp;
use crate::wave::{Group, Wave};
use known::{NamedRound, Visitor};
use shared::{NOTHING, Release, lock, write_of};
use sim_isa::Format;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of changes of a wave's clock at its stores to keep. A store may be an atomic that releases the clock.
const RELEASES: usize = 32;

/// The check of one thread.
pub(super) struct Races<'a> {
    shared: &'a Shared,
    /// See [`Shared::under_way`].
    under_way: Arc<AtomicU64>,
    /// Waves of the workgroup under way.
    visitors: Vec<Visitor>,
    /// The number of its first one.
    first: u32,
    /// Knowledge of each wave (row) about each other from barriers.
    known: Vec<Known>,
    /// Part of `known` that reads of memory are sure to see.
    fresh: Vec<Known>,
    /// The last two rounds of each named barrier.
    named: Vec<[NamedRound; 2]>,
    lds: Local,
    pages: Kept,
    /// Reused allocation.
    lanes: Vec<Bytes>,
    spans: Vec<(u64, u64)>,
    /// See [`Shared::released`].
    released_in_lds: HashMap<u64, Arc<Clock>>,
    /// Wave of the current instruction, and the bytes of memory that it reads like an atomic.
    reads: Option<usize>,
    read_spans: Vec<(u64, u64)>,
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
            reads: None,
            read_spans: Vec::new(),
        }
    }

    pub fn begin(&mut self, workgroup: [u32; 3], waves: usize, lds: usize) {
        self.first = self.shared.first(workgroup);
        let nothing = Arc::new(Clock::default());
        self.visitors.clear();
        self.visitors.resize_with(waves, || Visitor::new(&nothing));
        for known in [&mut self.known, &mut self.fresh] {
            known.clear();
            known.resize(waves * waves, Known::default());
        }
        self.named.clear();
        self.lds.begin(lds);
        self.released_in_lds.clear();
    }

    /// Ends the check of the current instruction, which has run.
    pub fn done(&mut self) {
        // Release: after its writes.
        self.under_way.store(NOTHING, Ordering::Release);
        if let Some(index) = self.reads.take() {
            self.learn_late(index);
        }
    }

    /// Acquires the clocks of other threads' writes that an atomic read may have seen, and that were recorded after its
    /// check. Recorded writes that are made only later count as well, which can hide a race but reports no false one.
    #[cold]
    fn learn_late(&mut self, index: usize) {
        let (shared, wave) = (self.shared, self.first + index as u32);
        let spans = std::mem::take(&mut self.read_spans);
        let table = lock(&shared.released);
        let dwords = spans.iter().flat_map(|(start, end)| (start / 4..end.div_ceil(4)).map(|at| 4 * at));
        let mut last: Option<&Arc<Clock>> = None;
        for clock in dwords.filter_map(|at| table.get(&at)) {
            if !last.is_some_and(|known| Arc::ptr_eq(known, clock)) {
                clock::join(&mut self.visitors[index].seen, clock);
            }
            last = Some(clock);
        }
        drop(table);
        let mut sources: Vec<Stamp> = Vec::new();
        let mut pages = std::mem::replace(&mut self.pages, Kept::none());
        shared.memory.visit(&mut pages, &spans, &mut |cell: &mut Cell, _: Place, _: u8| {
            if cell.write.is_some() && cell.write.deed == Deed::Store && cell.write.wave != wave {
                sources.push(cell.write);
            }
            true
        });
        self.pages = pages;
        sources.dedup_by_key(|stamp| (stamp.wave, stamp.n));
        for stamp in sources {
            self.acquire_from(index, &stamp);
        }
        self.read_spans = spans;
    }

    /// Checks an access to memory.
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
        let is_load = matches!(touch.deed, Deed::Load | Deed::ExpectedLoad);
        let is_vector_load = is_load && touch.format != Format::Smem;
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
            is_cached: !is_lds && (is_vector_load || touch.scope == Some(UNIT)),
            op,
            shift: touch.shift,
            returns: touch.returns,
            scope: touch.scope,
            part: 1,
        };
        if touch.format == Format::Smem {
            let Some((address, bytes)) = exec::scalar_reach(touch.is_buffer, wave, group, op, touch.bytes) else {
                return hits;
            };
            let doing = doing(Class::Scalar, false);
            self.access(&doing, vec![(address, address + bytes, 0)], plan, pending, wave, group, &mut hits);
            return hits;
        }
        let Some(Reach { memory, partial, local, .. }) =
            exec::reach(touch.format, touch.way, wave, group, op, touch.bytes)
        else {
            return hits;
        };
        let bytes: u64 = touch.bytes.into();
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.clear();
        let whole = |lane: usize| (wave.addresses[lane], wave.addresses[lane] + bytes, lane as u8);
        extend::<L>(&mut lanes, memory, whole);
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
        let (to_memory, mut to_lds) = (doing(class, false), doing(of_flat, true));
        // The caches that a flat load bypasses say nothing of LDS, which has none: `volatile` is not atomic.
        if to_lds.stamp.deed == Deed::ScopedLoad {
            to_lds.stamp.deed = Deed::Load;
        }
        if !lanes.is_empty() {
            self.access(&to_memory, lanes, plan, pending, wave, group, &mut hits);
        }
        if !of_lds.is_empty() {
            self.access(&to_lds, of_lds, plan, pending, wave, group, &mut hits);
        }
        hits
    }

    /// Checks an access to LDS.
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
            Access { is_expected: true, .. } => Deed::ExpectedLoad,
            _ => Deed::Load,
        };
        for part in 0..2 {
            let mut lanes = std::mem::take(&mut self.lanes);
            lanes.clear();
            match access.by_register(part) {
                Some((register, offset, bytes)) => {
                    let starts = &wave.v[usize::from(register)].0;
                    extend::<L>(&mut lanes, exec, |lane| {
                        let start = u64::from(starts[lane].wrapping_add(offset));
                        (start, start + u64::from(bytes), lane as u8)
                    });
                }
                None => lanes.extend(
                    exec::lanes_of(exec)
                        .filter_map(|lane| access.part(part, wave, lane).map(|bytes| (lane, bytes)))
                        .map(|(lane, bytes)| (bytes.start as u64, bytes.end as u64, lane as u8)),
                ),
            }
            // Bytes outside are not accessed.
            lanes.retain(|(_, end, _)| *end <= group.lds.len() as u64);
            if lanes.is_empty() {
                self.lanes = lanes;
                continue;
            }
            let n = pending.next(class).n;
            let doing = Doing {
                stamp: Stamp { wave: self.first + wave.index, n, step: number, class, deed, mask: 0 },
                is_lds: true,
                is_cached: false,
                op,
                shift: access.shift,
                returns: op.has_dst,
                scope: None,
                part: 1 + part,
            };
            self.access(&doing, lanes, plan, pending, wave, group, &mut hits);
        }
        hits
    }

    /// Checks the bytes of an access.
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
            // Before the locks, through which other threads learn of the write.
            self.under_way.store(write_of(&doing.stamp), Ordering::Relaxed);
        }
        let (shared, first) = (self.shared, self.first);
        let is_near = |wave: u32| wave.wrapping_sub(first) < shared.width;
        let synchronizes = doing.is_lds || plan.synchronizes;
        if synchronizes && (!matches!(deed, Deed::Load | Deed::ExpectedLoad) || doing.is_lds) {
            self.synchronize(doing, &lanes, pending, index);
        }
        let is_arrival =
            |stamp: &Stamp| doing.is_lds && plan.at(stamp.step).lds.is_some_and(|access| access.is_arrival);
        let arrives = is_arrival(&doing.stamp);
        let mut sources: Vec<Stamp> = Vec::new();
        let reads_from_stores =
            plan.synchronizes && !doing.is_lds && (deed == Deed::ScopedLoad || deed == Deed::Atomic && doing.returns);
        let (mut local, mut pages) = (std::mem::take(&mut self.lds), std::mem::replace(&mut self.pages, Kept::none()));
        {
            // Returns true if nothing was found: only findings depend on the place.
            let mut update = |cell: &mut Cell, place: Place, mask: u8| {
                let found = hits.len();
                // A store that leaves memory unchanged, after the write of that value has been made.
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
                    let scope = self.too_small(doing, &write, plan);
                    let is_looked_at = scope.is_some()
                        || conflicts(deed, write.deed, doing.is_lds) && !(deed == Deed::Load && is_arrival(&write));
                    if is_looked_at && !self.is_before(index, &write, doing.is_lds, doing.is_cached) {
                        // If several have stored the same value, any of them will do.
                        let reads_equal =
                            matches!(deed, Deed::Load | Deed::ExpectedLoad) && write.deed == Deed::EqualStore;
                        is_equal = reads_equal || is_same(group, mask & write.mask, &write);
                        hits.push(Hit { scope, ..hit(doing, &lanes, Some(write), place, is_equal) });
                    }
                }
                if !writes {
                    cell.read(stamp, is_near);
                    return hits.len() == found;
                }
                for read in cell.reads {
                    let is_other = read.is_some() && read.wave != stamp.wave && read.mask & mask != 0;
                    if !is_other {
                        continue;
                    }
                    let scope = self.too_small(doing, &read, plan);
                    let is_looked_at = scope.is_some()
                        || conflicts(deed, read.deed, doing.is_lds) && !(arrives && read.deed == Deed::Load);
                    if is_looked_at && !self.is_before(index, &read, doing.is_lds, false) {
                        let writes_equal = write.is_some() && is_same(group, mask & read.mask, &write);
                        is_equal |= writes_equal;
                        hits.push(Hit { scope, ..hit(doing, &lanes, Some(read), place, writes_equal) });
                    }
                }
                if is_equal {
                    stamp.deed = Deed::EqualStore;
                }
                cell.write(stamp);
                hits.len() == found
            };
            match doing.is_lds {
                true => local.visit(&spans, &mut update),
                false => self.shared.memory.visit(&mut pages, &spans, &mut update),
            }
        }
        if reads_from_stores {
            self.read_spans.clone_from(&spans);
            self.reads = Some(index);
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

    /// The scope of an atomic of memory that does not reach another wave, of an access and one before it: gfx12 may do
    /// the atomic in a cache of that scope, which the other wave does not use. A compute unit has one, a shader engine
    /// may; waves of a workgroup are on both units of a WGP in WGP mode, and workgroups on any engine of the device
    /// (AMDGPUUsage, "Memory Model GFX12").
    fn too_small<const L: usize>(&self, doing: &Doing<'_, L>, other: &Stamp, plan: &Plan) -> Option<u8> {
        if doing.is_lds || doing.stamp.deed != Deed::Atomic && other.deed != Deed::Atomic {
            return None;
        }
        let needed = match other.wave.wrapping_sub(self.first) < self.shared.width {
            true if self.shared.is_split => ARRAY,
            true => UNIT,
            false => DEVICE,
        };
        let of_other = plan.at(other.step).touch.and_then(|touch| touch.scope);
        doing.scope.into_iter().chain(of_other).min().filter(|scope| *scope < needed)
    }

    /// Exchanges clocks through the dwords that atomics access.
    fn synchronize<const L: usize>(
        &mut self,
        doing: &Doing<'_, L>,
        lanes: &[Bytes],
        pending: &Pending<L>,
        index: usize,
    ) {
        let deed = doing.stamp.deed;
        if doing.is_lds && deed != Deed::Atomic && self.released_in_lds.is_empty() {
            return;
        }
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
            let reads = match deed {
                Deed::Load | Deed::ExpectedLoad | Deed::ScopedLoad => true,
                Deed::Atomic => doing.returns,
                Deed::Store | Deed::EqualStore => false,
            };
            if reads {
                learnt.iter().for_each(|clock| clock::join(&mut self.visitors[index].seen, clock));
            }
            if deed == Deed::Atomic || deed == Deed::Store && !learnt.is_empty() {
                let is_async = doing.stamp.class == Class::AsyncLoad;
                let mut told = self.release(index, pending, doing.is_lds, is_async);
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

    /// Acquires the clock that a wave had released when it stored the value read now.
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

    /// Records the clock that a wave releases at a store, if it has changed.
    fn log<const L: usize>(&mut self, index: usize, pending: &Pending<L>) {
        let clock = self.release(index, pending, false, false);
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

/// Adds the accesses of a set of lanes. Mostly the set has all lanes, which needs no test of each.
#[inline]
fn extend<const L: usize>(lanes: &mut Vec<Bytes>, set: u64, bytes: impl Fn(usize) -> Bytes) {
    match set == Wave::<L>::LANES {
        true => lanes.extend((0..L).map(bytes)),
        false => lanes.extend(exec::lanes_of(set).map(bytes)),
    }
}
