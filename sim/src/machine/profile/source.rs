// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Source lines of instructions, where a code object has them.

use std::path::Path;

use addr2line::{Context, gimli};
use gimli::{Dwarf, EndianSlice, LittleEndian};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// A code object that is loaded, for its debug information.
pub struct Sources {
    elf: Vec<u8>,
    /// Loaded address less address in the file.
    delta: i64,
}

impl Sources {
    /// Of the code object `elf`, which is loaded `delta` bytes behind where the file says.
    pub fn new(elf: &[u8], delta: i64) -> Self {
        Self { elf: elf.to_vec(), delta }
    }

    /// The name of the file and the line of each of the instructions at these addresses. The bytes are not trusted:
    /// where there is nothing to be made of them, there are no lines.
    pub fn locate(&self, addresses: impl Iterator<Item = u64>) -> Vec<Option<String>> {
        let context = self.context();
        let locate = |address: u64| {
            let location = context.as_ref()?.find_location(address.wrapping_add_signed(-self.delta)).ok()??;
            let file = Path::new(location.file?).file_name()?.to_string_lossy().into_owned();
            Some(format!("{file}:{}", location.line?))
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
