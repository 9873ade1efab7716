// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Lists and references that C passes by value: semaphores, buffers, binding
//! tables. They borrow the caller's arrays, which die when the call returns.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::flags::{BufferUsage, MemoryAccess, MemoryType};
use super::object::{Borrowed, HalRef};
use super::status::{Result, Status};
use super::{BufferPlacement, fallible, iree, raw};

/// A slice from C's count and pointer; empty for a null pointer.
///
/// # Safety
/// `pointer` is null or holds `count` values for `'a`.
#[inline]
pub unsafe fn slice<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    if pointer.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { core::slice::from_raw_parts(pointer, count) }
}

/// A list of semaphores and a payload value of each (`iree_hal_semaphore_list_t`). It borrows C's list, which has no
/// null semaphore.
#[derive(Clone, Copy)]
pub struct SemaphoreList<'a>(&'a raw::iree_hal_semaphore_list_t);

impl<'a> SemaphoreList<'a> {
    /// The empty list.
    pub const EMPTY: Self = Self(&raw::iree_hal_semaphore_list_t {
        count: 0,
        semaphores: core::ptr::null_mut(),
        payload_values: core::ptr::null_mut(),
    });

    /// Reads a list of C.
    ///
    /// # Safety
    /// The list and its semaphores are alive for `'a`, and the list does not change.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for null arrays or semaphores.
    #[inline]
    pub unsafe fn from_raw(list: &'a raw::iree_hal_semaphore_list_t) -> Result<Self> {
        if list.count == 0 {
            return Ok(Self(list));
        }
        if list.semaphores.is_null() || list.payload_values.is_null() {
            return Err(null_semaphore(list.count));
        }
        // SAFETY: the caller's contract.
        let is_null = |index| unsafe { *list.semaphores.add(index) }.is_null();
        let mut index = 0;
        // There is one, so that nothing is asked before it.
        while !is_null(index) {
            index += 1;
            if index == list.count {
                return Ok(Self(list));
            }
        }
        Err(null_semaphore(list.count))
    }

    /// Calls `body` with a list of one semaphore and its payload value.
    pub fn with_one<R>(semaphore: Semaphore<'_>, mut value: u64, body: impl FnOnce(SemaphoreList<'_>) -> R) -> R {
        let mut semaphore = semaphore.as_ptr();
        body(SemaphoreList(&raw::iree_hal_semaphore_list_t {
            count: 1,
            semaphores: &raw mut semaphore,
            payload_values: &raw mut value,
        }))
    }

    /// The number of semaphores.
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each semaphore with its payload value.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Semaphore<'a>, u64)> + use<'a> {
        let list = self.0;
        // SAFETY: `from_raw` has seen that there are as many, none of them null, and was promised that they are alive
        // for `'a`.
        (0..list.count).map(|index| unsafe {
            (Borrowed::new(NonNull::new_unchecked(*list.semaphores.add(index))), *list.payload_values.add(index))
        })
    }
}

#[cold]
fn null_semaphore(count: usize) -> Status {
    crate::status!(INVALID_ARGUMENT, "list of {count} semaphores holds null pointers")
}

/// A semaphore of any driver.
pub type Semaphore<'a> = Borrowed<'a, raw::iree_hal_semaphore_t>;

/// A buffer of any driver.
pub type Buffer<'a> = Borrowed<'a, raw::iree_hal_buffer_t>;

impl<'a> Buffer<'a> {
    /// Copies from the buffer, which the host can map, to host memory.
    ///
    /// # Errors
    /// The error of the mapping.
    #[inline]
    pub fn read(self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: the buffer lives, and the target has this many bytes.
        unsafe { iree!(raw::iree_hal_buffer_map_read(self.as_ptr(), offset, bytes.as_mut_ptr().cast(), bytes.len())) }
    }

    /// Copies from host memory to the buffer, which the host can map.
    ///
    /// # Errors
    /// The error of the mapping.
    #[inline]
    pub fn write(self, offset: usize, bytes: &[u8]) -> Result<()> {
        // SAFETY: the buffer lives, and the source has this many bytes.
        unsafe { iree!(raw::iree_hal_buffer_map_write(self.as_ptr(), offset, bytes.as_ptr().cast(), bytes.len())) }
    }

    /// The allocation that it is a part of; possibly itself.
    #[inline]
    pub fn allocated(self) -> Option<Buffer<'a>> {
        // SAFETY: the buffer lives for `'a` and keeps its allocation; the field does not change.
        unsafe { Borrowed::from_raw((&raw const (*self.as_ptr()).allocated_buffer).read()) }
    }

    /// The placement: the device and queues that it was allocated for.
    #[inline]
    pub fn placement(self) -> BufferPlacement {
        // SAFETY: the buffer lives, and the field does not change.
        unsafe { (&raw const (*self.as_ptr()).placement).read() }
    }

    /// Checks that the buffer allows `access`.
    ///
    /// # Errors
    /// PERMISSION_DENIED.
    #[inline]
    pub fn check_access(self, access: MemoryAccess) -> Result<()> {
        // SAFETY: plain values.
        unsafe { iree!(raw::iree_hal_buffer_validate_access(self.allowed_access().bits(), access.bits())) }
    }

    /// IREE's error for a buffer that does not allow `usage` and `access`.
    ///
    /// # Errors
    /// PERMISSION_DENIED.
    #[cold]
    pub fn refuse_use(self, usage: BufferUsage, access: MemoryAccess) -> Result<()> {
        // SAFETY: a pure function of plain values.
        unsafe { iree!(raw::iree_hal_buffer_validate_usage(self.allowed_usage().bits(), usage.bits())) }?;
        self.check_access(access)
    }

    /// True if `length` bytes from `offset` on share memory with as many bytes of `other`.
    #[inline]
    pub fn overlaps(self, offset: usize, (other, other_offset): (Buffer<'_>, usize), length: usize) -> bool {
        // SAFETY: both buffers live.
        let overlap = unsafe {
            raw::iree_hal_buffer_test_overlap(self.as_ptr(), offset, length, other.as_ptr(), other_offset, length)
        };
        overlap != raw::IREE_HAL_BUFFER_OVERLAP_DISJOINT
    }

    /// Checks that the buffer has `length` bytes from `offset` on.
    ///
    /// # Errors
    /// OUT_OF_RANGE.
    #[inline]
    pub fn check_range(self, offset: usize, length: usize) -> Result<()> {
        // SAFETY: the buffer lives.
        unsafe { iree!(raw::iree_hal_buffer_validate_range(self.as_ptr(), offset, length)) }
    }

    /// The length in bytes.
    #[inline]
    pub fn byte_length(self) -> usize {
        // SAFETY: the buffer lives, and the field does not change.
        unsafe { (&raw const (*self.as_ptr()).byte_length).read() }
    }

    /// The memory type.
    #[inline]
    pub fn memory_type(self) -> MemoryType {
        // SAFETY: the buffer lives, and the field does not change.
        MemoryType::from_bits_retain(unsafe { (&raw const (*self.as_ptr()).memory_type).read() })
    }

    /// The allowed usage.
    #[inline]
    pub fn allowed_usage(self) -> BufferUsage {
        // SAFETY: the buffer lives, and the field does not change.
        BufferUsage::from_bits_retain(unsafe { (&raw const (*self.as_ptr()).allowed_usage).read() })
    }

    /// The allowed access.
    #[inline]
    pub fn allowed_access(self) -> MemoryAccess {
        // SAFETY: the buffer lives, and the field does not change.
        MemoryAccess::from_bits_retain(unsafe { (&raw const (*self.as_ptr()).allowed_access).read() })
    }
}

/// One reference to a range of a buffer, or of a binding-table slot (`iree_hal_buffer_ref_t`).
#[derive(Clone, Copy, Debug)]
pub struct BufferRef<'a> {
    /// The buffer; none for slot [`BufferRef::slot`] of the binding table at execution.
    pub buffer: Option<Buffer<'a>>,
    /// Binding-table slot; meaningless with a buffer.
    pub slot: u32,
    /// Bytes from the start of the buffer or slot.
    pub offset: usize,
    /// Bytes, or [`WHOLE_BUFFER`](super::WHOLE_BUFFER).
    pub length: usize,
}

impl BufferRef<'_> {
    /// Reads a reference of C.
    ///
    /// # Safety
    /// Its buffer is null or alive for the result's lifetime.
    #[inline]
    pub unsafe fn from_raw(reference: &raw::iree_hal_buffer_ref_t) -> Self {
        Self {
            // SAFETY: the caller's contract.
            buffer: unsafe { Borrowed::from_raw(reference.buffer) },
            slot: slot_of(reference),
            offset: reference.offset,
            length: reference.length,
        }
    }
}

/// The slot, in the upper 24 bits of the word in front of the buffer. bindgen's accessor would read it bit by bit.
#[inline]
fn slot_of(reference: &raw::iree_hal_buffer_ref_t) -> u32 {
    const OFFSET: usize = std::mem::offset_of!(raw::iree_hal_buffer_ref_t, _bitfield_1);
    // SAFETY: the field's unit is four bytes of the reference.
    let unit = unsafe { (&raw const *reference).byte_add(OFFSET).cast::<[u8; 4]>().read() };
    u32::from_le_bytes(unit) >> 8
}

/// The bindings of a dispatch (`iree_hal_buffer_ref_list_t`).
#[derive(Clone, Copy)]
pub struct BufferRefs<'a>(&'a [raw::iree_hal_buffer_ref_t]);

// SAFETY: the array is only read, and its buffers may be used from any thread.
unsafe impl Send for BufferRefs<'_> {}
// SAFETY: nothing is written through it; buffers may be used from several threads.
unsafe impl Sync for BufferRefs<'_> {}

impl<'a> BufferRefs<'a> {
    /// No bindings.
    pub const EMPTY: Self = Self(&[]);

    /// Reads a list of C.
    ///
    /// # Safety
    /// The list and its buffers are alive for `'a`.
    #[inline]
    pub unsafe fn from_raw(list: raw::iree_hal_buffer_ref_list_t) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { slice(list.values, list.count) })
    }

    /// The number of bindings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A copy that keeps the buffers alive.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn retain(&self) -> Result<RetainedBufferRefs> {
        let references = fallible::copy(self.0)?;
        let buffers = self.iter().map(|reference| reference.buffer.map(Borrowed::retain));
        Ok(RetainedBufferRefs { references, _buffers: fallible::collect(buffers)? })
    }

    /// The reference at `index`; none if there are fewer.
    #[inline]
    pub fn get(&self, index: usize) -> Option<BufferRef<'a>> {
        // SAFETY: `from_raw` promised live buffers for `'a`.
        self.0.get(index).map(|reference| unsafe { BufferRef::from_raw(reference) })
    }

    /// Each reference.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = BufferRef<'a>> + use<'a> {
        // SAFETY: `from_raw` promised live buffers for `'a`.
        self.0.iter().map(|reference| unsafe { BufferRef::from_raw(reference) })
    }
}

/// Bindings with retained buffers, which outlive the call that passed them.
pub struct RetainedBufferRefs {
    references: Vec<raw::iree_hal_buffer_ref_t>,
    /// The buffers of the bindings.
    _buffers: Vec<Option<HalRef<raw::iree_hal_buffer_t>>>,
}

// SAFETY: the references are only read, and buffers may be used from any thread.
unsafe impl Send for RetainedBufferRefs {}

impl RetainedBufferRefs {
    /// The bindings.
    pub fn borrow(&self) -> BufferRefs<'_> {
        BufferRefs(&self.references)
    }
}

/// The binding of a binding-table slot.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The buffer; none leaves the slot unbound.
    pub buffer: Option<Buffer<'a>>,
    /// Bytes from the start of the buffer.
    pub offset: usize,
    /// Bytes, or [`WHOLE_BUFFER`](super::WHOLE_BUFFER).
    pub length: usize,
}

/// The buffers of an indirect command buffer's slots (`iree_hal_buffer_binding_table_t`).
#[derive(Clone, Copy)]
pub struct BindingTable<'a>(&'a [raw::iree_hal_buffer_binding_t]);

// SAFETY: the array is only read, and its buffers may be used from any thread.
unsafe impl Send for BindingTable<'_> {}
// SAFETY: nothing is written through it; buffers may be used from several threads.
unsafe impl Sync for BindingTable<'_> {}

impl<'a> BindingTable<'a> {
    /// A table without slots.
    pub const EMPTY: Self = Self(&[]);

    /// Reads a table of C.
    ///
    /// # Safety
    /// The table and its buffers are alive for `'a`.
    #[inline]
    pub unsafe fn from_raw(table: raw::iree_hal_buffer_binding_table_t) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { slice(table.bindings, table.count) })
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The binding of a slot; none when the table is shorter.
    pub fn get(&self, slot: usize) -> Option<Binding<'a>> {
        let binding = self.0.get(slot)?;
        Some(Binding {
            // SAFETY: `from_raw` promised live buffers for `'a`.
            buffer: unsafe { Borrowed::from_raw(binding.buffer) },
            offset: binding.offset,
            length: binding.length,
        })
    }

    /// Each slot's binding.
    pub fn iter(&self) -> impl Iterator<Item = Binding<'a>> + use<'a> {
        let table = *self;
        (0..table.len()).filter_map(move |slot| table.get(slot))
    }
}

/// The C location of a result (`out_*` parameters).
pub struct Out<'a, T>(pub(super) core::ptr::NonNull<T>, pub(super) PhantomData<&'a mut T>);

impl<T> Out<'_, T> {
    /// Writes the result.
    pub fn set(self, value: T) {
        // SAFETY: the thunk made it from a non-null pointer for one result.
        unsafe { self.0.write(value) }
    }

    /// The location, for C calls that write to it.
    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<R> Out<'_, *mut R> {
    /// Hands a driver object to the caller, with its reference.
    pub fn give<T: super::HalObject<Raw = R>>(self, object: HalRef<T>) {
        self.set(object.into_raw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_semaphores_are_refused() {
        let mut semaphores = [core::ptr::null_mut()];
        let mut values = [1];
        let list =
            |count, semaphores, payload_values| raw::iree_hal_semaphore_list_t { count, semaphores, payload_values };
        // SAFETY: the arrays are as long as the lists say, or null.
        unsafe {
            assert!(SemaphoreList::from_raw(&list(1, semaphores.as_mut_ptr(), values.as_mut_ptr())).is_err());
            assert!(SemaphoreList::from_raw(&list(1, core::ptr::null_mut(), core::ptr::null_mut())).is_err());
            assert!(
                SemaphoreList::from_raw(&list(0, core::ptr::null_mut(), core::ptr::null_mut())).unwrap().is_empty()
            );
        }
    }

    #[test]
    fn buffer_slots_come_from_the_bit_field() {
        // SAFETY: all-zero is a valid reference: no buffer.
        let mut reference: raw::iree_hal_buffer_ref_t = unsafe { core::mem::zeroed() };
        reference.set_buffer_slot(0x00AB_CDEF);
        reference.offset = 16;
        // SAFETY: no buffer.
        let read = unsafe { BufferRef::from_raw(&reference) };
        assert!(read.buffer.is_none());
        assert_eq!((read.slot, read.offset), (0x00AB_CDEF, 16));
    }
}
