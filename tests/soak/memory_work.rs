// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Random fills, copies, updates and dispatches.

use crate::program::{Kernel, Place, Span, Work};
use random::Random;

/// The most that a dispatch writes.
const LONGEST_DISPATCH: usize = 1 << 14;

/// The longest update: an update is in one piece in the ring of kernel arguments, which may be a short one.
const LONGEST_UPDATE: usize = 1 << 11;

/// A buffer or a slot of the binding table, all of it.
#[derive(Clone, Copy, Debug)]
pub struct Area(Place);

impl Area {
    pub fn of_buffer(buffer: usize, size: usize) -> Self {
        Self(Place::Direct(Span { buffer, offset: 0, length: size }))
    }

    pub fn of_slot(slot: usize, size: usize) -> Self {
        Self(Place::Slot { slot, offset: 0, length: size })
    }

    pub fn size(&self) -> usize {
        length(self.0)
    }

    /// The buffer; of a slot there is none.
    pub fn buffer(&self) -> usize {
        match self.0 {
            Place::Direct(span) => span.buffer,
            Place::Slot { .. } => unreachable!("areas of operations are buffers"),
        }
    }
}

fn length(place: Place) -> usize {
    match place {
        Place::Direct(Span { length, .. }) | Place::Slot { length, .. } => length,
    }
}

/// Some of an area: at least `unit` bytes, at most `most`, offset and length multiples of `unit`. The area holds a
/// unit.
pub fn part(random: &mut Random, area: Area, unit: usize, most: usize) -> Place {
    let units = (area.size() / unit).min(most / unit).max(1);
    let length = match random.below(4) {
        0 => units,
        1 => 1 + random.below(units as u32) as usize,
        _ => 1 + random.below(units.min(100) as u32) as usize,
    } * unit;
    let offset = random.below(((area.size() - length) / unit + 1) as u32) as usize * unit;
    within(area, offset, length)
}

fn within(area: Area, start: usize, length: usize) -> Place {
    match area.0 {
        Place::Direct(span) => Place::Direct(Span { buffer: span.buffer, offset: start, length }),
        Place::Slot { slot, .. } => Place::Slot { slot, offset: start, length },
    }
}

/// A part of another length's that does not overlap `other`; none if a few tries find none.
fn part_beside(random: &mut Random, areas: &[Area], unit: usize, length: usize, other: Place) -> Option<Place> {
    (0..6).find_map(|_| {
        let area = areas[random.below(areas.len() as u32) as usize];
        let space = area.size().checked_sub(length)?;
        let place = within(area, random.below((space / unit + 1) as u32) as usize * unit, length);
        (!place.overlaps(other)).then_some(place)
    })
}

/// Some work on the areas; none if the chosen one does not fit.
pub fn work(random: &mut Random, areas: &[Area]) -> Option<Work<Place>> {
    let kind = random.below(10);
    let unit = match kind {
        0..3 => [1, 2, 4][random.below(3) as usize],
        3..6 => 1,
        _ => 4,
    };
    let roomy: Vec<_> = areas.iter().filter(|area| area.size() >= unit).copied().collect();
    if roomy.is_empty() {
        return None;
    }
    let area = roomy[random.below(roomy.len() as u32) as usize];
    let most = match kind {
        0..5 => usize::MAX,
        5 => LONGEST_UPDATE,
        _ => LONGEST_DISPATCH,
    };
    let target = part(random, area, unit, most);
    Some(match kind {
        0..3 => Work::Fill { target, pattern: (0..unit).map(|_| random.below(256) as u8).collect() },
        3..5 => Work::Copy { source: part_beside(random, &roomy, 1, length(target), target)?, target },
        5 => Work::Update { target, noise: random.below(u32::MAX).into() },
        6..9 => {
            let mut source = || {
                let in_place = random.below(4) == 0;
                let beside = |random| part_beside(random, &roomy, 4, length(target), target);
                if in_place { Some(target) } else { beside(random) }
            };
            let sources = vec![source()?, source()?];
            Work::Dispatch { kernel: Kernel::Combine, target, sources, factor: random.below(u32::MAX) }
        }
        _ => {
            let sources = vec![part_beside(random, &roomy, 4, length(target), target)?];
            Work::Dispatch { kernel: Kernel::Gather, target, sources, factor: 1 + random.below(1000) }
        }
    })
}

/// True if a barrier must be between the last commands and `work`.
pub fn needs_barrier(commands: &[(bool, Work<Place>)], work: &Work<Place>) -> bool {
    let (reads, target) = work.places();
    let last = commands.iter().rposition(|(is_after_barrier, _)| *is_after_barrier).unwrap_or(0);
    commands[last..].iter().any(|(_, other)| {
        let (other_reads, other_target) = other.places();
        other_target.overlaps(target)
            || reads.iter().any(|read| read.overlaps(other_target))
            || other_reads.iter().any(|read| read.overlaps(target))
    })
}

/// Spans of buffers that the work names directly.
pub fn direct_spans(work: &Work<Place>) -> Vec<Span> {
    let (mut places, target) = work.places();
    places.push(target);
    let spans = places.into_iter().filter_map(|place| match place {
        Place::Direct(span) => Some(span),
        Place::Slot { .. } => None,
    });
    spans.collect()
}
