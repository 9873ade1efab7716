// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The conversion of a command's buffers and binding-table slots to their recorded forms: addresses, table places,
//! template words.

use crate::AddressSource;
use crate::arena::Storage;
use crate::recorder::Recorder;
use amdgpu_ffi::{
    Borrowed, Buffer, BufferRef, BufferRefs, Fallible, HalRef, HalResource, Resource, Result, Status, WHOLE_BUFFER,
    retain, status,
};
use amdgpu_memory::transient::Transient;
use amdgpu_memory::{Location, locate, own_address};
use amdgpu_operations::transfer::check_span;

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
        let extents = &mut self.storage.slot_extents;
        if slot >= extents.len() {
            extents.try_resize(slot + 1, 0)?;
        }
        extents[slot] = extents[slot].max(1);
        let length = (reference.length != WHOLE_BUFFER).then_some(reference.length as u64);
        Ok(Target { place: AddressSource::Binding { index: reference.slot, offset: reference.offset as u64 }, length })
    }

    /// Appends the template words of `bindings` to `words`. Returns the OR of the words.
    pub(super) fn bind(&mut self, bindings: BufferRefs<'_>, words: &mut Vec<u64>) -> Result<u64> {
        words.make_room(bindings.len())?;
        let mut all = 0;
        for reference in bindings.iter() {
            let word = self.word(&reference)?;
            words.push(word);
            all |= word;
        }
        Ok(all)
    }

    /// The template word of a binding.
    fn word(&mut self, reference: &BufferRef<'_>) -> Result<u64> {
        let place = match reference.buffer {
            Some(buffer) => self.place(buffer, reference),
            None => self.slot(reference).map(|target| target.place),
        }?;
        place.word().ok_or_else(|| no_word(place))
    }
}

/// Writes the words of `bindings`, at most as many as `block` has, to `block`. Returns the OR of the words; none if one
/// of the bindings is unusual. The extents of slots are raised as the bindings before it need.
#[inline(always)]
pub(super) fn bind_common(
    block: &mut [u64],
    extents: &mut [u64],
    resources: &mut Vec<Resource>,
    bindings: BufferRefs<'_>,
    retains: bool,
) -> Option<u64> {
    let mut all = 0;
    for (word, reference) in block.iter_mut().zip(bindings.iter()) {
        *word = common_word(extents, resources, retains, &reference)?;
        all |= *word;
    }
    Some(all)
}

/// The template word of a usual binding: a table slot that has an extent, which is raised, or bytes of a buffer that
/// has its memory, which is retained in `resources` if `retains`. None for other bindings.
#[inline(always)]
fn common_word(
    extents: &mut [u64],
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
    raise(extents.get_mut(slot as usize)?, offset as u64);
    Some(word)
}

/// Records that a dispatch uses the table entries that its binding words name. Uses of unallocated buffers, which have
/// no extent, are checked when they are recorded.
pub(super) fn extend_all<'a>(extents: &mut [u64], words: impl IntoIterator<Item = &'a u64>) {
    for (index, offset) in words.into_iter().filter_map(|word| AddressSource::in_table(*word)) {
        if let Some(extent) = extents.get_mut(index) {
            raise(extent, offset);
        }
    }
}

/// Raises the extent of a slot that a binding uses from `offset` on.
#[inline(always)]
fn raise(extent: &mut u64, offset: u64) {
    // No overflow: words have 43 bits of it.
    let end = offset.wrapping_add(1);
    if end > *extent {
        *extent = end;
    }
}

/// Sets the extents to those of the recorded commands, after a dispatch failed that may have raised them. Used slots
/// stay marked as used.
#[cold]
pub(super) fn recount_extents(storage: &mut Storage) {
    let mut extents = std::mem::take(&mut storage.slot_extents);
    extents.iter_mut().for_each(|extent| *extent = (*extent).min(1));
    extend_all(&mut extents, storage.bound().flat_map(|(bindings, _)| bindings));
    storage.slot_extents = extents;
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
