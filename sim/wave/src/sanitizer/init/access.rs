// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Uninitialized data in accesses to memory, LDS and scratch.

use super::{Init, Origin, Place};
use crate::exec::{self, Reach};
use crate::hardware::SHARED_APERTURE;
use crate::sanitizer::meetings::Disorder;
use crate::sanitizer::shadow::Deed;
use crate::sanitizer::unwritten::{PAGE, Pages, any, bits, set};
use crate::sanitizer::uses::{Part, Use};
use crate::wave::{Group, Wave};

impl<const L: usize> Init<'_, L> {
    pub(super) fn scalar_load(&mut self, at: u32, of: &Use, number: u32, wave: &Wave<L>, group: &Group<'_>) {
        let shadow = &mut self.waves[wave.index as usize];
        shadow.clear(&of.writes, 0);
        let (Some(touch), op) = (&of.touch, &self.program.ops[at as usize]) else { return };
        let Some((address, bytes)) = exec::scalar_reach(touch.is_buffer, wave, group, op, touch.bytes) else { return };
        let range = address..address.saturating_add(bytes);
        if !any(&mut self.memory, range.clone()) {
            return;
        }
        for (n, at) in of.writes.iter().flat_map(Clone::clone).zip(range.clone().step_by(4)) {
            let slot = usize::from(n) - shadow.lanes.len();
            let unwritten = bits(&mut self.memory, at, (range.end - at).min(4) as u32);
            if unwritten != 0 {
                shadow.slots[slot] = loaded(unwritten, touch.bytes, of.is_signed);
                shadow.origins[usize::from(n)] = Origin { place: Place::Memory(at), step: Some(number) };
                shadow.mark(n);
            }
        }
    }

    /// Stores that are not followed closely, or loads.
    pub(super) fn stores(&mut self, at: u32, bytes: u64, of: &Use, wave: &mut Wave<L>, group: &Group<'_>) {
        let op = &self.program.ops[at as usize];
        let exec = wave.exec() & Wave::<L>::LANES;
        let shadow = &mut self.waves[wave.index as usize];
        shadow.clear(&of.writes, exec);
        let Some(reach) = exec::reach(of.format, exec::Way::Plain, wave, group, op, 4).filter(|_| bytes != 0) else {
            return;
        };
        for lane in exec::lanes_of(reach.memory | reach.partial) {
            let start = wave.addresses[lane];
            set(&mut self.memory, start..start.saturating_add(bytes), false);
        }
        if reach.local != 0 {
            self.lds.forget();
            shadow.scratch.fill(0);
        }
    }

    /// An access to memory, or through an aperture.
    pub(super) fn memory(
        &mut self,
        at: u32,
        of: &Use,
        number: u32,
        wave: &mut Wave<L>,
        group: &Group<'_>,
    ) -> Option<Disorder> {
        let (touch, op) = (of.touch.as_ref()?, &self.program.ops[at as usize]);
        let exec = wave.exec() & Wave::<L>::LANES;
        let Reach { memory, partial, local, span } =
            exec::reach(touch.format, touch.way, wave, group, op, touch.bytes)?;
        let loads = matches!(touch.deed, Deed::Load | Deed::ExpectedLoad | Deed::ScopedLoad);
        if of.is_moved {
            self.moved(of, touch.bytes, (loads, memory), wave);
            return None;
        }
        let bytes = touch.bytes;
        let is_stored = || self.waves[wave.index as usize].lanes(&of.reads) & exec == 0;
        if local == 0 && (loads || touch.deed == Deed::Store && is_stored()) {
            // Lanes beyond a buffer's end are few.
            let (first, last) = exec::lanes_of(partial).fold(span, |(first, last), lane| {
                let at = wave.addresses[lane];
                (first.min(at), last.max(at))
            });
            let (first, last) = if memory | partial == 0 { (1, 0) } else { (first, last) };
            if first > last || last - first <= NEAR && !any(&mut self.memory, first..last.saturating_add(bytes.into()))
            {
                self.waves[wave.index as usize].clear(&of.writes, exec);
                return None;
            }
        }
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.clear();
        lanes.extend(exec::lanes_of(memory | partial | local).map(|lane| {
            let at = wave.addresses[lane];
            let low = u64::from(at as u32);
            match (local >> lane & 1 != 0, (at >> 32) as u32 == SHARED_APERTURE) {
                (true, true) => Bytes { lane, space: Space::Lds, at: low, bytes },
                (true, false) => Bytes { lane, space: Space::Scratch, at: low, bytes },
                _ if partial >> lane & 1 != 0 => {
                    let bytes = wave.room.0[lane].min(bytes) & !3;
                    Bytes { lane, space: Space::Memory, at, bytes }
                }
                _ => Bytes { lane, space: Space::Memory, at, bytes },
            }
        }));
        let shape = Shape { first: of.data[0].unwrap_or(NO_DATA), bytes, shift: touch.shift };
        let deed = if loads { Deed::Load } else { touch.deed };
        let found = self.access(of, &shape, &lanes, deed, number, (wave.index, exec));
        self.lanes = lanes;
        found
    }

    /// An access to LDS.
    pub(super) fn local(&mut self, of: &Use, number: u32, wave: &Wave<L>) -> Option<Disorder> {
        let access = of.lds.as_ref()?;
        let exec = wave.exec() & Wave::<L>::LANES;
        let deed = match () {
            () if access.is_atomic => Deed::Atomic,
            () if access.writes => Deed::Store,
            () => Deed::Load,
        };
        if of.is_moved {
            self.waves[wave.index as usize].clear(&of.writes, exec);
            return None;
        }
        let mut found = None;
        for part in 0..2 {
            // Mostly all bytes are written, and so is the stored data.
            if let (Some((register, offset, bytes)), true) = (access.by_register(part), deed != Deed::Atomic) {
                let shadow = &mut self.waves[wave.index as usize];
                let of_part = match deed {
                    Deed::Load => None,
                    _ => of.reads.get(part).filter(|numbers| shadow.lanes(std::slice::from_ref(numbers)) & exec != 0),
                };
                let row = &wave.v[usize::from(register)].0;
                let is_written = of_part.is_none()
                    && match exec == Wave::<L>::LANES {
                        true => self.lds.is_written(row.iter().map(|at| at.wrapping_add(offset)), bytes),
                        false => {
                            let lanes = exec::lanes_of(exec);
                            self.lds.is_written(lanes.map(|lane| row[lane].wrapping_add(offset)), bytes)
                        }
                    };
                if is_written && deed == Deed::Store {
                    continue;
                }
                if let (true, [Some(first), _]) = (is_written, of.data) {
                    let dwords = bytes.div_ceil(4) as u16;
                    let first = first + part as u16 * dwords;
                    shadow.clear(std::slice::from_ref(&(first..first + dwords)), exec);
                    continue;
                }
            }
            let mut lanes = std::mem::take(&mut self.lanes);
            lanes.clear();
            lanes.extend(
                exec::lanes_of(access.lanes(exec))
                    .filter_map(|lane| access.part(part, wave, lane).map(|range| (lane, range)))
                    .map(|(lane, range)| Bytes {
                        lane,
                        space: Space::Lds,
                        at: range.start as u64,
                        bytes: range.len() as u32,
                    }),
            );
            let bytes = lanes.first().map_or(0, |lane| lane.bytes);
            let first = match (deed, of.data) {
                (Deed::Load, [Some(first), _]) => first + part as u16 * bytes.div_ceil(4) as u16,
                (_, [first, None]) => first.unwrap_or(NO_DATA),
                (_, [first, second]) => if part == 0 { first } else { second }.unwrap_or(NO_DATA),
            };
            let shape = Shape { first, bytes, shift: access.shift };
            if bytes != 0 {
                found = found.or(self.access(of, &shape, &lanes, deed, number, (wave.index, exec)));
            }
            self.lanes = lanes;
        }
        found
    }

    /// Performs the accesses of some lanes to their bytes.
    fn access(
        &mut self,
        of: &Use,
        shape: &Shape,
        lanes: &[Bytes],
        deed: Deed,
        number: u32,
        (wave, exec): (u32, u64),
    ) -> Option<Disorder> {
        match deed {
            Deed::Load | Deed::ExpectedLoad | Deed::ScopedLoad => self.load(of, shape, lanes, number, (wave, exec)),
            Deed::Store | Deed::EqualStore => {
                let found = self.result(shape, lanes, (wave, exec));
                self.store(shape, lanes, (wave, exec));
                return found;
            }
            Deed::Atomic => return self.atomic(of, shape, lanes, number, (wave, exec)),
        }
        None
    }

    fn load(&mut self, of: &Use, shape: &Shape, lanes: &[Bytes], number: u32, (wave, exec): (u32, u64)) {
        let numbers = shape.first..shape.first + shape.dwords();
        // Mostly all is written.
        if lanes.iter().all(|bytes| self.unwritten(bytes, wave) == 0) {
            self.waves[wave as usize].clear(std::slice::from_ref(&numbers), exec);
            return;
        }
        let mut told = 0u32;
        for bytes in lanes {
            let unwritten = self.unwritten(bytes, wave);
            let shadow = &mut self.waves[wave as usize];
            for (n, register) in numbers.clone().enumerate() {
                let of_dword = unwritten >> (4 * n) & 15;
                let loaded = loaded(of_dword, shape.bytes, of.is_signed);
                let old = shadow.bits(register, bytes.lane);
                let bits = match of.part {
                    Part::Whole => loaded,
                    Part::Low => old & 0xffff_0000 | loaded & 0xffff,
                    Part::High => old & 0xffff | loaded << 16,
                };
                shadow.set_bits(register, bytes.lane, bits);
                // The first lane's is told.
                if loaded != 0 && told >> n & 1 == 0 {
                    told |= 1 << n;
                    shadow.origins[usize::from(register)] = Origin { place: bytes.place(), step: Some(number) };
                }
            }
        }
        numbers.for_each(|n| self.waves[wave as usize].mark(n));
    }

    /// Finds uninitialized data stored to untracked memory, which the host may read.
    fn result(&mut self, shape: &Shape, lanes: &[Bytes], (wave, exec): (u32, u64)) -> Option<Disorder> {
        if !self.looks_at_results || shape.first == NO_DATA {
            return None;
        }
        let numbers = shape.first..shape.first.saturating_add(shape.dwords());
        let n = self.waves[wave as usize].find(std::slice::from_ref(&numbers), exec)?;
        let origin = self.waves[wave as usize].origins[usize::from(n)];
        let mut told = 0;
        for bytes in lanes.iter().filter(|bytes| bytes.space == Space::Memory) {
            let unwritten = self.unwritten_data(shape, bytes, wave) & ((1u64 << bytes.bytes) - 1) as u32;
            if unwritten != 0 && self.memory.page(bytes.at / PAGE, true).is_none() {
                told |= 1 << bytes.lane;
            }
        }
        (told != 0).then(|| self.disorder("a value stored where the host may read it", origin, told))
    }

    /// Mask of the uninitialized bytes in a lane's stored data.
    fn unwritten_data(&self, shape: &Shape, bytes: &Bytes, wave: u32) -> u32 {
        let mut unwritten = 0;
        for n in 0..shape.dwords() {
            let bits = self.waves[wave as usize].bits(shape.first + n, bytes.lane) >> shape.shift;
            (0..4).for_each(|byte| unwritten |= u32::from(bits >> (8 * byte) & 0xff != 0) << (4 * n + byte));
        }
        unwritten
    }

    fn store(&mut self, shape: &Shape, lanes: &[Bytes], (wave, exec): (u32, u64)) {
        let numbers = shape.first..shape.first.saturating_add(shape.dwords());
        let shadow = &self.waves[wave as usize];
        let is_written = shape.first == NO_DATA || shadow.lanes(std::slice::from_ref(&numbers)) & exec == 0;
        let mut span: Option<Bytes> = None;
        for bytes in lanes {
            if !is_written {
                let unwritten = self.unwritten_data(shape, bytes, wave);
                self.written(bytes, unwritten, wave);
                continue;
            }
            match &mut span {
                Some(last)
                    if last.space == bytes.space
                        && bytes.space != Space::Scratch
                        && last.at + u64::from(last.bytes) == bytes.at =>
                {
                    last.bytes += bytes.bytes;
                }
                last => {
                    if let Some(last) = last.replace(*bytes) {
                        self.written(&last, 0, wave);
                    }
                }
            }
        }
        if let Some(last) = span {
            self.written(&last, 0, wave);
        }
    }

    /// The operand of an atomic must be initialized, because other waves read the result. The old value is checked at
    /// its use.
    fn atomic(
        &mut self,
        of: &Use,
        shape: &Shape,
        lanes: &[Bytes],
        number: u32,
        (wave, exec): (u32, u64),
    ) -> Option<Disorder> {
        let shadow = &mut self.waves[wave as usize];
        let found = shadow.find(&of.reads, exec).map(|n| {
            let (origin, lanes) = (shadow.origins[usize::from(n)], shadow.lanes(&of.reads) & exec);
            shadow.clear(&of.reads, exec);
            (origin, lanes)
        });
        shadow.clear(&of.writes, exec);
        let returned = of.writes.iter().find(|numbers| usize::from(numbers.start) < shadow.lanes.len()).cloned();
        for bytes in lanes {
            let unwritten = self.unwritten(bytes, wave);
            if let (Some(numbers), true) = (&returned, unwritten != 0) {
                let shadow = &mut self.waves[wave as usize];
                for (n, register) in numbers.clone().take(shape.dwords().into()).enumerate() {
                    let loaded = loaded(unwritten >> (4 * n) & 15, 4, false);
                    shadow.set_bits(register, bytes.lane, loaded);
                    shadow.origins[usize::from(register)] = Origin { place: bytes.place(), step: Some(number) };
                    shadow.mark(register);
                }
            }
            if of.exchanges {
                self.written(bytes, 0, wave);
            }
        }
        found.map(|(origin, lanes)| self.disorder("the operand of an atomic", origin, lanes))
    }

    /// Data that goes between memory and LDS, or to other lanes, counts as written.
    fn moved(&mut self, of: &Use, bytes: u32, (loads, memory): (bool, u64), wave: &Wave<L>) {
        self.waves[wave.index as usize].clear(&of.writes, wave.exec() & Wave::<L>::LANES);
        let exec = wave.exec() & Wave::<L>::LANES;
        for lane in exec::lanes_of(exec) {
            if let Some(range) = of.lds.as_ref().filter(|access| access.writes).and_then(|lds| lds.part(0, wave, lane))
            {
                set(&mut self.lds, range.start as u64..range.end as u64, false);
            }
            if !loads && memory >> lane & 1 != 0 {
                let start = wave.addresses[lane];
                set(&mut self.memory, start..start.saturating_add(bytes.into()), false);
            }
        }
    }

    /// Mask of a lane's uninitialized bytes.
    #[inline]
    fn unwritten(&mut self, bytes: &Bytes, wave: u32) -> u32 {
        match bytes.space {
            Space::Memory => bits(&mut self.memory, bytes.at, bytes.bytes),
            Space::Lds => bits(&mut self.lds, bytes.at, bytes.bytes),
            Space::Scratch => {
                let scratch = &self.waves[wave as usize].scratch;
                let of = scratch.get(bytes.at as usize..).unwrap_or_default().iter().take(bytes.bytes as usize);
                of.enumerate().fold(0, |bits, (n, lanes)| bits | ((lanes >> bytes.lane & 1) as u32) << n)
            }
        }
    }

    /// Marks bytes as written, except those in the mask `unwritten`.
    fn written(&mut self, bytes: &Bytes, unwritten: u32, wave: u32) {
        let range = bytes.at..bytes.at.saturating_add(bytes.bytes.into());
        if bytes.space == Space::Scratch {
            let scratch = &mut self.waves[wave as usize].scratch;
            let of = scratch.get_mut(bytes.at as usize..).unwrap_or_default().iter_mut().take(bytes.bytes as usize);
            for (n, lanes) in of.enumerate() {
                *lanes = *lanes & !(1 << bytes.lane) | u64::from(unwritten >> n & 1) << bytes.lane;
            }
            return;
        }
        let mut put = |range, is_unwritten| match bytes.space {
            Space::Lds => set(&mut self.lds, range, is_unwritten),
            _ => set(&mut self.memory, range, is_unwritten),
        };
        match unwritten {
            0 => put(range, false),
            _ => range.enumerate().for_each(|(n, at)| put(at..at + 1, unwritten >> n & 1 != 0)),
        }
    }
}

/// Maximum distance of lanes' addresses that are checked as one range.
const NEAR: u64 = 16 << 10;

/// The number of no register.
const NO_DATA: u16 = u16::MAX;

/// The registers of an access, by lane.
struct Shape {
    first: u16,
    /// Bytes of each lane.
    bytes: u32,
    /// Bits of the first one in front of the stored bytes.
    shift: u8,
}

impl Shape {
    fn dwords(&self) -> u16 {
        self.bytes.div_ceil(4) as u16
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Memory,
    Lds,
    Scratch,
}

/// Bytes that a lane accesses.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    lane: usize,
    space: Space,
    at: u64,
    bytes: u32,
}

impl Bytes {
    fn place(&self) -> Place {
        match self.space {
            Space::Memory => Place::Memory(self.at),
            Space::Lds => Place::Lds(self.at),
            Space::Scratch => Place::Scratch(self.at),
        }
    }
}

/// Bits of a register that are uninitialized if these bytes of the data loaded to it are.
fn loaded(bytes: u32, size: u32, is_signed: bool) -> u32 {
    match (bytes, size) {
        (0, _) => 0,
        // The sign is extended.
        (_, 1 | 2) if is_signed => u32::MAX,
        _ => (0..4).fold(0, |bits, n| bits | ((bytes >> n & 1) * 0xff) << (8 * n)),
    }
}
