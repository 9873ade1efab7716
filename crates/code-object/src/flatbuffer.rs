// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reading FlatBuffers from untrusted bytes.
//!
//! Each access is checked, so there is no separate verification pass that could disagree with the
//! reader, and no `unsafe` as the `flatbuffers` crate's accessors would need. Offsets may point
//! anywhere in the buffer, so a small buffer can describe a huge tree (many offsets to one table);
//! a budget in proportion to the buffer's size stops that, with room for strings that are shared.
//!
//! Source: the FlatBuffers project's "FlatBuffer Internals".

use std::cell::Cell;

use crate::bytes::{slice, u16_at, u32_at};
use crate::error::{Error, Result};

const WHAT: &str = "flatbuffer";
/// How many bytes may be read for each byte of the buffer.
const BUDGET_FACTOR: usize = 16;
/// What reading a table costs: honest tables need at least 8 bytes, twice what this leaves each.
const TABLE_COST: usize = 64;

/// A flatbuffer and what may still be read from it.
pub(crate) struct Buffer<'a> {
    bytes: &'a [u8],
    budget: Cell<usize>,
}

impl<'a> Buffer<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, budget: Cell::new(bytes.len().saturating_mul(BUDGET_FACTOR)) }
    }

    /// The four identifier bytes after the root offset.
    pub(crate) fn identifier(&self) -> Result<&'a [u8]> {
        slice(self.bytes, 4, 4, WHAT)
    }

    pub(crate) fn root<'b>(&'b self) -> Result<Table<'b, 'a>> {
        self.table(0)
    }

    fn spend(&self, count: usize) -> Result<()> {
        let left = self.budget.get().checked_sub(count).ok_or_else(|| {
            Error::malformed(
                WHAT,
                "it describes far more data than it has bytes: its parts are referenced again and again",
            )
        })?;
        self.budget.set(left);
        Ok(())
    }

    /// Where the offset stored at `position` points.
    fn follow(&self, position: u64) -> Result<u64> {
        match u32_at(self.bytes, position, WHAT)? {
            0 => Err(Error::malformed(WHAT, format!("the offset at {position:#x} is null"))),
            offset => Ok(position + u64::from(offset)),
        }
    }

    /// The table that the offset stored at `position` points to.
    fn table<'b>(&'b self, position: u64) -> Result<Table<'b, 'a>> {
        self.spend(TABLE_COST)?;
        let position = self.follow(position)?;
        let vtable_offset = u32_at(self.bytes, position, WHAT)? as i32;
        let vtable = position.checked_add_signed(-i64::from(vtable_offset)).ok_or_else(|| {
            Error::malformed(WHAT, format!("the vtable of the table at {position:#x} is before the buffer"))
        })?;
        let vtable_size = u16_at(self.bytes, vtable, WHAT)?;
        let size = u64::from(u16_at(self.bytes, vtable + 2, WHAT)?);
        Ok(Table {
            buffer: self,
            position,
            bytes: slice(self.bytes, position, size, WHAT)?,
            vtable: slice(self.bytes, vtable, vtable_size.into(), WHAT)?,
        })
    }

    /// The elements of the vector that the offset stored at `position` points to: their position
    /// and their bytes.
    fn vector(&self, position: u64, element_size: u64) -> Result<(u64, &'a [u8])> {
        let position = self.follow(position)?;
        let count = u32_at(self.bytes, position, WHAT)?;
        let elements = slice(self.bytes, position + 4, u64::from(count) * element_size, WHAT)?;
        self.spend(elements.len())?;
        Ok((position + 4, elements))
    }
}

/// A table; fields are named by their index in the schema.
pub(crate) struct Table<'b, 'a> {
    buffer: &'b Buffer<'a>,
    position: u64,
    bytes: &'a [u8],
    vtable: &'a [u8],
}

impl<'b, 'a> Table<'b, 'a> {
    /// Offset in the table of a field of `size` bytes; `None` if absent.
    fn field(&self, index: u16, size: u64) -> Result<Option<u64>> {
        let entry = 4 + 2 * u64::from(index);
        if entry + 2 > self.vtable.len() as u64 {
            return Ok(None);
        }
        match u64::from(u16_at(self.vtable, entry, WHAT)?) {
            0 => Ok(None),
            offset => slice(self.bytes, offset, size, WHAT).map(|_| Some(offset)),
        }
    }

    /// A scalar; 0 if absent.
    pub(crate) fn u32(&self, index: u16) -> Result<u32> {
        self.field(index, 4)?.map_or(Ok(0), |offset| u32_at(self.bytes, offset, WHAT))
    }

    /// An inline struct's bytes.
    pub(crate) fn structure(&self, index: u16, size: u64) -> Result<Option<&'a [u8]>> {
        self.field(index, size)?.map(|offset| slice(self.bytes, offset, size, WHAT)).transpose()
    }

    /// A vector's bytes; empty if absent.
    pub(crate) fn vector(&self, index: u16, element_size: u64) -> Result<&'a [u8]> {
        match self.field(index, 4)? {
            None => Ok(&[]),
            Some(offset) => Ok(self.buffer.vector(self.position + offset, element_size)?.1),
        }
    }

    /// A string; empty if absent.
    pub(crate) fn string(&self, index: u16) -> Result<&'a str> {
        std::str::from_utf8(self.vector(index, 1)?).map_err(|_| Error::malformed(WHAT, "a string is not UTF-8"))
    }

    /// A table.
    pub(crate) fn table(&self, index: u16) -> Result<Option<Table<'b, 'a>>> {
        self.field(index, 4)?.map(|offset| self.buffer.table(self.position + offset)).transpose()
    }

    /// A vector of tables; empty if absent.
    pub(crate) fn tables(&self, index: u16) -> Result<Vec<Table<'b, 'a>>> {
        let Some(offset) = self.field(index, 4)? else { return Ok(Vec::new()) };
        let (start, elements) = self.buffer.vector(self.position + offset, 4)?;
        (0..elements.len() as u64 / 4).map(|i| self.buffer.table(start + 4 * i)).collect()
    }
}
