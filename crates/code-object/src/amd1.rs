// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's AMD1 executable: a file header, then a flatbuffer that carries one ELF code object and
//! the HAL's view of each kernel.
//!
//! Sources: IREE's `schemas/amdgpu_executable_def.fbs` and `schemas/executable_debug_info.fbs`
//! (fields in declaration order), and the flatbuffer file header of `base/internal/flatcc`.

use crate::bytes::{slice, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::flatbuffer::{Buffer, Table};

/// The file header's magic number, and the flatbuffer's identifier.
pub(crate) const AMD1_MAGIC: [u8; 4] = *b"AMD1";
/// Size of the file header in bytes: magic, version u32, content size u64, six reserved u64.
pub(crate) const HEADER_SIZE: u64 = 64;

/// An AMD1 executable; borrows from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutableDef<'a> {
    /// Target id as the producer wrote it; what counts is the ELF header's.
    pub isa: &'a str,
    /// Functions in ordinal order.
    pub exports: Vec<ExportDef<'a>>,
    /// The ELF code object, not empty.
    pub image: &'a [u8],
    /// Source files that the producer embedded.
    pub source_files: Vec<SourceFile<'a>>,
}

/// One function as the HAL calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportDef<'a> {
    /// Symbol of the kernel descriptor, such as `name.kd`; not empty.
    pub symbol_name: &'a str,
    /// Work-items of a workgroup, each at least 1.
    pub workgroup_size: [u32; 3],
    /// Number of 32-bit constants.
    pub constant_count: u32,
    /// Flags of each binding: bit 0 read-only, bit 1 indirect.
    pub binding_flags: Vec<u64>,
    /// Where the function came from.
    pub debug_info: DebugInfo<'a>,
}

/// Where a function came from; all parts may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DebugInfo<'a> {
    /// Name in the producer.
    pub name: &'a str,
    /// The location to show.
    pub location: Option<Location<'a>>,
    /// A location for each compilation stage.
    pub stage_locations: Vec<StageLocation<'a>>,
}

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location<'a> {
    /// File name, not empty.
    pub file: &'a str,
    /// Line number as the producer wrote it.
    pub line: i32,
}

/// A location at one compilation stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLocation<'a> {
    /// The stage's name, not empty.
    pub stage: &'a str,
    /// The location, where known.
    pub location: Option<Location<'a>>,
}

/// An embedded source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceFile<'a> {
    /// Its path.
    pub path: &'a str,
    /// Its contents.
    pub content: &'a [u8],
}

/// Size of the flatbuffer after the file header, in bytes. Reads the header only.
pub(crate) fn content_size(bytes: &[u8]) -> Result<u64> {
    let what = "AMD1 file header";
    let header = slice(bytes, 0, HEADER_SIZE, what)?;
    match u32_at(header, 4, what)? {
        0 => {}
        version => {
            let problem = format!("its version is {version}, this build reads version 0; recompile the module");
            return Err(Error::unsupported(what, problem));
        }
    }
    match u64_at(header, 8, what)? {
        0 => Err(Error::malformed(what, "its content size is 0")),
        size => Ok(size),
    }
}

impl<'a> ExecutableDef<'a> {
    /// Parses the file header and the flatbuffer. Bytes after it are ignored.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        if !bytes.starts_with(&AMD1_MAGIC) {
            return Err(Error::UnknownFormat { found: bytes.iter().take(4).copied().collect() });
        }
        let content = slice(bytes, HEADER_SIZE, content_size(bytes)?, "AMD1 flatbuffer")?;
        let buffer = Buffer::new(content);
        if buffer.identifier()? != AMD1_MAGIC {
            return Err(Error::malformed("AMD1 flatbuffer", "its file identifier is not `AMD1`"));
        }
        let root = buffer.root()?;
        let exports = root.tables(1)?;
        Ok(Self {
            isa: root.string(0)?,
            exports: exports.iter().enumerate().map(|(i, table)| parse_export(i, table)).collect::<Result<_>>()?,
            image: parse_image(&root)?,
            source_files: root.tables(3)?.iter().map(parse_source_file).collect::<Result<_>>()?,
        })
    }
}

fn parse_image<'a>(root: &Table<'_, 'a>) -> Result<&'a [u8]> {
    let modules = root.tables(2)?;
    let [module] = modules.as_slice() else {
        let problem = format!("it has {} module images; exactly one is supported", modules.len());
        return Err(Error::unsupported("AMD1 flatbuffer", problem));
    };
    // The schema calls the image a string, but its bytes are an ELF file.
    match module.vector(0, 1)? {
        [] => Err(Error::malformed("AMD1 flatbuffer", "its module image is empty")),
        image => Ok(image),
    }
}

fn parse_export<'a>(index: usize, table: &Table<'_, 'a>) -> Result<ExportDef<'a>> {
    let bad = |problem: &str| Error::malformed(format!("AMD1 flatbuffer, export {index}"), problem);
    let symbol_name = table.string(0)?;
    if symbol_name.is_empty() {
        return Err(bad("it has no symbol name"));
    }
    let dims = table.structure(1, 12)?.ok_or_else(|| bad("it has no workgroup size"))?;
    let dim = |offset| u32_at(dims, offset, "AMD1 workgroup size");
    let workgroup_size = [dim(0)?, dim(4)?, dim(8)?];
    if workgroup_size.contains(&0) {
        return Err(bad(&format!("its workgroup size is {workgroup_size:?}; no dimension may be 0")));
    }
    let flags = table.vector(3, 8)?.chunks_exact(8).map(|word| u64_at(word, 0, "AMD1 binding flags"));
    Ok(ExportDef {
        symbol_name,
        workgroup_size,
        constant_count: table.u32(2)?,
        binding_flags: flags.collect::<Result<_>>()?,
        debug_info: table.table(4)?.map_or_else(|| Ok(DebugInfo::default()), |debug| parse_debug_info(&debug))?,
    })
}

fn parse_debug_info<'a>(table: &Table<'_, 'a>) -> Result<DebugInfo<'a>> {
    Ok(DebugInfo {
        name: table.string(0)?,
        location: parse_location(table, 1)?,
        stage_locations: table.tables(2)?.iter().map(parse_stage_location).collect::<Result<_>>()?,
    })
}

fn parse_location<'a>(parent: &Table<'_, 'a>, index: u16) -> Result<Option<Location<'a>>> {
    let Some(table) = parent.table(index)? else { return Ok(None) };
    let file = table.string(0)?;
    if file.is_empty() {
        return Err(Error::malformed("AMD1 debug information", "a location has no file name"));
    }
    Ok(Some(Location { file, line: table.u32(1)? as i32 }))
}

fn parse_stage_location<'a>(table: &Table<'_, 'a>) -> Result<StageLocation<'a>> {
    let stage = table.string(0)?;
    if stage.is_empty() {
        return Err(Error::malformed("AMD1 debug information", "a stage location has no stage name"));
    }
    Ok(StageLocation { stage, location: parse_location(table, 1)? })
}

fn parse_source_file<'a>(table: &Table<'_, 'a>) -> Result<SourceFile<'a>> {
    Ok(SourceFile { path: table.string(0)?, content: table.vector(1, 1)? })
}
