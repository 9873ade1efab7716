// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Source lines of instructions, from a code object's debug information.

use std::path::Path;

use addr2line::{Context, gimli};
use gimli::{Dwarf, EndianSlice, LittleEndian};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// Debug information of a loaded code object.
pub struct Sources {
    elf: Vec<u8>,
    /// Loaded address less address in the file.
    delta: i64,
}

impl Sources {
    /// Creates the sources of the code object `elf`, which is loaded `delta` bytes behind its file addresses.
    pub fn new(elf: &[u8], delta: i64) -> Self {
        Self { elf: elf.to_vec(), delta }
    }

    /// Returns the file name and line of each instruction at these addresses. Malformed debug information gives no
    /// lines.
    pub fn locate(&self, addresses: impl Iterator<Item = u64>) -> Vec<Option<String>> {
        let named = |(file, line): (String, u32)| {
            let file = Path::new(&file).file_name()?.to_string_lossy().into_owned();
            Some(format!("{file}:{line}"))
        };
        self.positions(addresses).into_iter().map(|position| position.and_then(named)).collect()
    }

    /// Returns the path and line of each instruction at these addresses, as [`Sources::locate`] does.
    pub fn positions(&self, addresses: impl Iterator<Item = u64>) -> Vec<Option<(String, u32)>> {
        let context = self.context();
        let locate = |address: u64| {
            let location = context.as_ref()?.find_location(address.wrapping_add_signed(-self.delta)).ok()??;
            // Line 0 is code without a line (DWARF 5, 6.2.2).
            Some((location.file?.to_owned(), location.line.filter(|line| *line != 0)?))
        };
        addresses.map(locate).collect()
    }

    fn context(&self) -> Option<Context<EndianSlice<'_, LittleEndian>>> {
        let elf = ElfFile64::<object::LittleEndian>::parse(self.elf.as_slice()).ok()?;
        let section = |id: gimli::SectionId| {
            let data = elf.section_by_name(id.name()).and_then(|section| section.data().ok()).unwrap_or_default();
            Ok::<_, gimli::Error>(EndianSlice::new(data, LittleEndian))
        };
        Context::from_dwarf(Dwarf::load(section).ok()?).ok()
    }
}
