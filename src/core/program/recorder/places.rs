// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The conversion of a command's buffers and binding-table slots to their recorded forms: addresses, table places,
//! template words.

use crate::core::memory::transient::Transient;
use crate::core::memory::{Location, locate, own_address};
use crate::core::operations::transfer::check_span;
use crate::core::program::arena::Storage;
use crate::core::program::recorder::Recorder;
use crate::core::program::{AddressSource, Span};
use crate::ffi::{
    Borrowed, Buffer, BufferRef, BufferRefs, Fallible, HalRef, HalResource, Resource, Result, Status, WHOLE_BUFFER,
    retain, status,
};

/// The number of last retained objects that are compared with a new one.
const LOOK_BACK: usize = 8;

/// A place with the length that the command gave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) place: AddressSource,
    /// None for the whole table entry.
    pub(super) length: Option<u64>,
}

impl Recorder {
    /// The buffer or binding-table slot that `reference` names.
    pub(super) fn target(&mut self, reference: BufferRef<'_>) -> Result<Target> {
        let whole = reference.length == WHOLE_BUFFER;
        let Some(buffer) = reference.buffer else { return self.slot(&reference) };
        let place = self.place(buffer, &reference)?;
        let length = if whole { buffer.byte_length().saturating_sub(reference.offset) } else { reference.length };
        Ok(Target { place, length: Some(length as u64) })
    }

    /// The place of `reference` in its `buffer`.
    fn place(&mut self, buffer: Buffer<'_>, reference: &BufferRef<'_>) -> Result<AddressSource> {
        check_span(buffer, reference.offset, reference.length)?;
        match own_address(buffer, reference.offset) {
            Some(address) => {
                self.keep(buffer)?;
                Ok(AddressSource::Fixed(address))
            }
            None => self.place_of_other(buffer, reference.offset),
        }
    }

    /// The place of byte `offset` of a buffer that is not a whole buffer of the driver. A queue-allocated buffer is
    /// retained in any case. Without memory it is resolved at execution; with memory, each execution checks that it
    /// still owns it.
    #[inline(never)]
    fn place_of_other(&mut self, buffer: Buffer<'_>, offset: usize) -> Result<AddressSource> {
        let location = locate(buffer, offset, Some(self.gpu()))?;
        let storage = &mut *self.storage;
        match location {
            Location::Own(address) => {
                self.keep(buffer)?;
                Ok(AddressSource::Fixed(address))
            }
            Location::Lent(address, transient) => {
                list(&mut storage.lent, transient)?;
                Ok(AddressSource::Fixed(address))
            }
            Location::Awaited(offset, transient) => {
                let index = storage.first_unallocated + list(&mut storage.unallocated_buffers, transient)?;
                if index >= AddressSource::MOST_ENTRIES {
                    return Err(too_many_awaited(self.slots));
                }
                Ok(AddressSource::Binding { index: index as u32, offset: offset as u64 })
            }
        }
    }

    #[cold]
    fn slot(&mut self, reference: &BufferRef<'_>) -> Result<Target> {
        let (slot, slots) = (reference.slot as usize, self.slots);
        if slot >= slots {
            return Err(status!(INVALID_ARGUMENT, "slot {slot} of a command buffer made for {slots} binding slots"));
        }
        let reach = &mut self.storage.slot_extents;
        if slot >= reach.len() {
            reach.try_resize(slot + 1, 0)?;
        }
        reach[slot] = reach[slot].max(1);
        let length = (reference.length != WHOLE_BUFFER).then_some(reference.length as u64);
        Ok(Target { place: AddressSource::Binding { index: reference.slot, offset: reference.offset as u64 }, length })
    }

    /// Writes `bindings` from index `first` on to `lines`, the last templates. Removes the lines if one of the bindings
    /// is impossible. Returns the OR of the bindings' words.
    #[inline(never)]
    pub(super) fn bind_rest(&mut self, lines: Span, bindings: BufferRefs<'_>, first: usize) -> Result<u64> {
        let mut all = 0;
        for index in first..bindings.len() {
            let word = self.word(bindings, index).inspect_err(|_| forget(&mut self.storage, lines))?;
            self.storage.templates[lines.start as usize..].as_flattened_mut()[index] = word;
            all |= word;
        }
        Ok(all)
    }

    /// The template word of the binding at this index.
    fn word(&mut self, bindings: BufferRefs<'_>, index: usize) -> Result<u64> {
        let reference = bindings.get(index).ok_or_else(|| status!(INTERNAL, "binding {index} is not there"))?;
        let place = match reference.buffer {
            Some(buffer) => self.place(buffer, &reference),
            None => self.slot(&reference).map(|target| target.place),
        }?;
        let Some(word) = place.word() else { return Err(no_word(place)) };
        if let Some((index, offset)) = AddressSource::in_table(word) {
            extend_to(&mut self.storage.slot_extents, index, offset);
        }
        Ok(word)
    }
}

/// Writes `bindings` to `lines`, the last templates, up to the first unusual one. Returns their number, and the OR of
/// their words.
#[inline(always)]
pub(super) fn bind_common(storage: &mut Storage, lines: Span, bindings: BufferRefs<'_>, retains: bool) -> (usize, u64) {
    let words = storage.templates[lines.start as usize..].as_flattened_mut();
    let reach = &mut storage.slot_extents[..];
    let (mut written, mut all) = (0, 0);
    for (word, reference) in words.iter_mut().zip(bindings.iter()) {
        let Some(usual) = common_word(reach, &mut storage.resources, retains, &reference) else { break };
        *word = usual;
        all |= usual;
        written += 1;
    }
    (written, all)
}

/// The template word of a usual binding: a table slot within `reach`, or bytes of a buffer that has its memory, which
/// is retained in `resources` if `retains`. None for other bindings.
#[inline(always)]
fn common_word(
    reach: &mut [u64],
    resources: &mut Vec<Resource>,
    retains: bool,
    reference: &BufferRef<'_>,
) -> Option<u64> {
    let BufferRef { buffer, slot, offset, length } = *reference;
    if let Some(buffer) = buffer {
        let fits = offset.checked_add(length).is_some_and(|end| end <= buffer.byte_length());
        let address = own_address(buffer, offset).filter(|_| fits)?;
        if retains {
            keep(resources, buffer).ok()?;
        }
        return Some(address);
    }
    let word = AddressSource::table_word(slot, offset as u64)?;
    let reach = reach.get_mut(slot as usize)?;
    let end = (offset as u64).saturating_add(1);
    if end > *reach {
        *reach = end;
    }
    Some(word)
}

/// Notes that a command uses the entry `index` of the table up to `offset`. Uses of unallocated buffers are checked
/// when they are recorded.
fn extend_to(reach: &mut [u64], index: usize, offset: u64) {
    if let Some(reach) = reach.get_mut(index) {
        *reach = offset.saturating_add(1).max(*reach);
    }
}

/// Removes the last templates, `lines`, of a command that failed, and undoes its reach into the table.
#[cold]
fn forget(storage: &mut Storage, lines: Span) {
    storage.templates.truncate(lines.start as usize);
    let mut reach = std::mem::take(&mut storage.slot_extents);
    // Used slots stay marked as used.
    reach.iter_mut().for_each(|reach| *reach = (*reach).min(1));
    let words = storage.bound().flat_map(|(bindings, _)| bindings.iter().copied());
    for (index, offset) in words.filter_map(AddressSource::in_table) {
        extend_to(&mut reach, index, offset);
    }
    storage.slot_extents = reach;
}

/// Retains `object` in `resources`. Consecutive commands mostly use the same few objects, which are retained once.
#[inline(always)]
pub(super) fn keep<T: HalResource>(resources: &mut Vec<Resource>, object: Borrowed<'_, T>) -> Result<()> {
    let pointer = object.as_ptr().cast();
    let newest = &resources[resources.len().saturating_sub(LOOK_BACK)..];
    if !newest.iter().any(|kept| kept.as_ptr() == pointer) {
        resources.make_room(1)?;
        resources.push(object.retain_resource());
    }
    Ok(())
}

/// The error for a dispatch's binding that has no template word.
#[cold]
fn no_word(place: AddressSource) -> Status {
    let AddressSource::Binding { index, offset } = place else { return status!(INTERNAL, "an address without a word") };
    if index as usize >= AddressSource::MOST_ENTRIES {
        let most = AddressSource::MOST_ENTRIES;
        return status!(
            UNIMPLEMENTED,
            "a dispatch whose binding is slot {index} of the binding table: dispatches can use the first {most} slots; \
             use a lower slot, or name the buffer itself"
        );
    }
    let most = 1_u64 << AddressSource::OFFSET_BITS;
    status!(
        UNIMPLEMENTED,
        "a dispatch whose binding begins {offset} bytes into a buffer that is known only when the recording is executed: \
         that can be less than {most} bytes; bind a span of the buffer that begins later"
    )
}

/// The error for a buffer without memory when a recording has as many as words can address.
#[cold]
fn too_many_awaited(slots: usize) -> Status {
    let most = AddressSource::MOST_ENTRIES.saturating_sub(slots);
    status!(
        RESOURCE_EXHAUSTED,
        "a command buffer made for {slots} binding slots can use {most} queue-allocated buffers that have no memory yet \
         when they are recorded, and this is one more: record after what their queue_alloca signals, give them slots of \
         the binding table, or record several command buffers"
    )
}

/// The index of `buffer` in `list`, to which it is added if it is not found. It may be there twice.
fn list(list: &mut Vec<HalRef<Transient>>, buffer: &Transient) -> Result<usize> {
    let is_at = |list: &[HalRef<Transient>], index: usize| {
        list.get(index).is_some_and(|listed| std::ptr::eq(&raw const **listed, buffer))
    };
    let hint = buffer.listed_at();
    if is_at(list, hint) {
        return Ok(hint);
    }
    // Another recording, made at the same time, lists it elsewhere.
    let mut newest = (list.len().saturating_sub(LOOK_BACK)..list.len()).rev();
    let index = match newest.find(|index| is_at(list, *index)) {
        Some(index) => index,
        None => {
            list.try_push(retain(buffer))?;
            list.len() - 1
        }
    };
    buffer.set_listed_at(index);
    Ok(index)
}
