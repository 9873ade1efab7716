// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! ELF64 AMDGPU shared objects, as far as a loader needs them.
//!
//! Sources: System V gABI (ELF64 layouts) and LLVM's AMDGPUUsage ("ELF Code Object": header,
//! relocation records, note records, symbols).

use std::env;
use std::ffi::OsStr;
use std::ops::Range;

use crate::bytes::{slice, u16_at, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::target::TargetId;

/// First bytes of an ELF file.
pub(crate) const ELF_MAGIC: [u8; 4] = [0x7f, b'E', b'L', b'F'];
/// Size of the ELF64 file header in bytes.
pub(crate) const HEADER_SIZE: u64 = 64;

const PROGRAM_HEADER_SIZE: u64 = 56;
const SECTION_HEADER_SIZE: u64 = 64;
const SYMBOL_SIZE: u64 = 24;
const RELA_SIZE: u64 = 24;
/// Size of the kernel descriptor that a `.kd` symbol names, in bytes.
const KERNEL_DESCRIPTOR_SIZE: u64 = 64;
/// Largest span of load addresses accepted, in bytes: a loader allocates it in one piece.
const MAX_LOAD_SIZE: u64 = 4 << 30;
/// Most program headers accepted; linkers make about ten.
const MAX_PROGRAM_HEADERS: u64 = 256;
/// Longest symbol name accepted, in bytes.
const MAX_NAME_SIZE: usize = 4096;
/// Maximum total length of the names of a table for each byte of the file. Names may share bytes, but a small file must
/// not have endless names.
const SHARING: usize = 16;

/// A parsed code object; borrows from the ELF bytes.
#[derive(Debug, Clone)]
pub struct CodeObject<'a> {
    /// The ELF file, exactly as long as its headers say.
    pub bytes: &'a [u8],
    /// Target ID of the code, e.g. `gfx942:sramecc+`.
    pub target: TargetId,
    /// Code object version, 3 to 6.
    pub version: u8,
    /// `PT_LOAD` segments in ascending address order, not overlapping; at least one.
    pub segments: Vec<Segment<'a>>,
    /// Symbols that HSA finds by name: those of `names_from` that are not local, in file order.
    pub symbols: Vec<Symbol<'a>>,
    /// Section of `symbols`; `None` if the file lacks that section, and thus has no names.
    pub names_from: Option<SymbolTable>,
    /// Symbols that relocations refer to: all of `.dynsym` in file order, without the null symbol.
    pub dynamic_symbols: Vec<Symbol<'a>>,
    /// Dynamic relocations in file order.
    pub relocations: Vec<Relocation>,
    /// True if kernels may write to a part of it: a writable segment is not as a whole for relocations only
    /// (`PT_GNU_RELRO`).
    pub has_writable_data: bool,
    metadata_note: Option<&'a [u8]>,
}

/// One `PT_LOAD` segment. Addresses are relative to the load base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// First address.
    pub address: u64,
    /// Size in memory in bytes; bytes past `data` are zero.
    pub memory_size: u64,
    /// Alignment in bytes, a power of two.
    pub alignment: u64,
    /// May be written.
    pub writable: bool,
    /// Holds code.
    pub executable: bool,
    /// Initial contents, at most `memory_size` bytes.
    pub data: &'a [u8],
}

/// The two symbol tables of a linked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolTable {
    /// `.symtab`, which tools that strip files remove.
    Static,
    /// `.dynsym`.
    Dynamic,
}

impl SymbolTable {
    /// The table in which ROCR's loader looks names up: `.symtab`, or `.dynsym` where the environment variable
    /// `LOADER_USE_DYNSYM` is set to a text that does not begin with `0`
    /// (`GElfImage::getSymbolTable` in ROCR's `libamdhsacode/amd_elf_image.cpp`; the same from ROCm 6.2 to 7.0).
    pub fn of_names() -> Self {
        Self::chosen_by(env::var_os("LOADER_USE_DYNSYM").as_deref())
    }

    fn chosen_by(variable: Option<&OsStr>) -> Self {
        match variable {
            Some(text) if !text.as_encoded_bytes().starts_with(b"0") => Self::Dynamic,
            _ => Self::Static,
        }
    }

    /// The name of the section.
    pub fn section_name(self) -> &'static str {
        match self {
            Self::Static => ".symtab",
            Self::Dynamic => ".dynsym",
        }
    }

    fn section_kind(self) -> u32 {
        match self {
            Self::Static => 2,
            Self::Dynamic => 11,
        }
    }
}

/// Kind of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolKind {
    /// A 64-byte kernel descriptor (`name.kd`).
    Kernel,
    /// A variable.
    Variable,
    /// Machine code.
    Function,
    /// Anything else, such as an absolute value.
    Other,
}

/// One symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name; a kernel's ends in `.kd`.
    pub name: &'a str,
    /// Kind of the symbol.
    pub kind: SymbolKind,
    /// Address relative to the load base; meaningless if not `defined`.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// True if the code object defines it; if not, the loader's user must.
    pub defined: bool,
    /// Seen by the linker only; HSA finds no such symbol by name.
    pub local: bool,
}

/// How a relocation computes its value (S: symbol, A: addend, B: load base).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelocationKind {
    /// `R_AMDGPU_ABS32_LO`: low half of S + A.
    Abs32Low,
    /// `R_AMDGPU_ABS32_HI`: high half of S + A.
    Abs32High,
    /// `R_AMDGPU_ABS64`: S + A.
    Abs64,
    /// `R_AMDGPU_ABS32`: S + A, in 32 bits.
    Abs32,
    /// `R_AMDGPU_RELATIVE64`: B + A.
    Relative64,
}

/// One dynamic relocation; its bytes lie inside a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// Address to patch, relative to the load base.
    pub address: u64,
    /// How to compute the value.
    pub kind: RelocationKind,
    /// Index in [`CodeObject::dynamic_symbols`]; `None` where the relocation uses none.
    pub symbol: Option<usize>,
    /// Addend in bytes.
    pub addend: i64,
}

/// Value to store at a relocation's address, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patch {
    /// Four bytes.
    U32(u32),
    /// Eight bytes.
    U64(u64),
}

impl Relocation {
    /// The value to store, given the base that addresses are relative to and the absolute address
    /// of the relocation's symbol (ignored where it has none).
    pub fn patch(&self, load_base: u64, symbol_address: u64) -> Patch {
        let absolute = symbol_address.wrapping_add_signed(self.addend);
        match self.kind {
            RelocationKind::Abs32Low | RelocationKind::Abs32 => Patch::U32(absolute as u32),
            RelocationKind::Abs32High => Patch::U32((absolute >> 32) as u32),
            RelocationKind::Abs64 => Patch::U64(absolute),
            RelocationKind::Relative64 => Patch::U64(load_base.wrapping_add_signed(self.addend)),
        }
    }
}

impl<'a> CodeObject<'a> {
    /// Parses and checks everything a loader relies on. Bytes after the ELF file are ignored.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = Header::parse(bytes)?;
        let bytes = slice(bytes, 0, header.file_size(bytes)?, "ELF file")?;
        const ET_DYN: u16 = 3;
        let elf_type = u16_at(bytes, 16, "ELF header")?;
        if elf_type != ET_DYN {
            let problem = format!("e_type is {elf_type}, not a shared object; link it with ld.lld -shared");
            return Err(Error::unsupported("ELF header", problem));
        }
        let program_headers = header.program_headers(bytes)?;
        let segments = parse_segments(bytes, &program_headers)?;
        let mut object = Self {
            bytes,
            target: header.target,
            version: header.version,
            segments,
            symbols: Vec::new(),
            names_from: None,
            dynamic_symbols: Vec::new(),
            relocations: Vec::new(),
            has_writable_data: has_writable_data(&program_headers),
            metadata_note: find_metadata_note(bytes, &program_headers)?,
        };
        let sections = header.sections(bytes)?;
        let table = SymbolTable::of_names();
        if let Some(mut symbols) = object.parse_symbols(table, &sections)? {
            symbols.retain(|symbol| !symbol.local);
            object.symbols = symbols;
            object.names_from = Some(table);
        }
        object.dynamic_symbols = object.parse_symbols(SymbolTable::Dynamic, &sections)?.unwrap_or_default();
        object.parse_relocations(&sections)?;
        Ok(object)
    }

    /// Decodes the metadata note.
    pub fn metadata(&self) -> Result<Metadata> {
        let note = self.metadata_note.ok_or_else(|| {
            Error::malformed("ELF code object", "it has no NT_AMDGPU_METADATA note, so its kernels are unknown")
        })?;
        Metadata::parse(note)
    }

    /// Addresses from the first segment's start to the last one's end, relative to the load base.
    pub fn load_range(&self) -> Range<u64> {
        let end = self.segments.last().map_or(0, |last| last.address + last.memory_size);
        self.segments.first().map_or(0, |first| first.address)..end
    }

    /// The defined symbol that HSA finds by that name.
    pub fn symbol(&self, name: &str) -> Option<&Symbol<'a>> {
        self.symbols.iter().find(|symbol| symbol.defined && symbol.name == name)
    }

    /// The initial contents of `size` bytes at `address` (relative to the load base); `None` where
    /// a part is not backed by the file.
    pub fn data_at(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        self.segments.iter().find_map(|segment| {
            let offset = address.checked_sub(segment.address)?;
            slice(segment.data, offset, size, "segment").ok()
        })
    }

    fn is_loaded(&self, address: u64, size: u64) -> bool {
        self.segments.iter().any(|segment| {
            let offset = address.checked_sub(segment.address);
            offset.and_then(|o| o.checked_add(size)).is_some_and(|end| end <= segment.memory_size)
        })
    }

    /// The symbols of a table without the null symbol; `None` where the file has no such table.
    fn parse_symbols(&self, table: SymbolTable, sections: &[Section]) -> Result<Option<Vec<Symbol<'a>>>> {
        // Of several of one kind, which no linker makes, ROCR takes the last.
        let Some(section) = sections.iter().rfind(|section| section.kind == table.section_kind()) else {
            return Ok(None);
        };
        let strings = sections
            .get(section.link as usize)
            .ok_or_else(|| Error::malformed("ELF symbols", "their string table is not a section"))?;
        let strings = slice(self.bytes, strings.offset, strings.size, "ELF string table")?;
        let entries = slice(self.bytes, section.offset, section.size, "ELF symbols")?;
        let mut names = SHARING.saturating_mul(self.bytes.len());
        let symbol = |entry: &[u8]| {
            let symbol = parse_symbol(entry, strings)?;
            names = names.checked_sub(symbol.name.len()).ok_or_else(|| {
                Error::malformed(
                    "ELF symbols",
                    format!("their names are more than {SHARING} times as long as the file"),
                )
            })?;
            if !symbol.local {
                self.check_symbol(&symbol)?;
            }
            Ok(symbol)
        };
        entries.chunks_exact(SYMBOL_SIZE as usize).skip(1).map(symbol).collect::<Result<_>>().map(Some)
    }

    fn check_symbol(&self, symbol: &Symbol) -> Result<()> {
        let Symbol { name, address, size, .. } = *symbol;
        let fits = match symbol.kind {
            SymbolKind::Kernel if size != KERNEL_DESCRIPTOR_SIZE => false,
            SymbolKind::Kernel => self.data_at(address, size).is_some(),
            SymbolKind::Variable | SymbolKind::Function => self.is_loaded(address, size),
            SymbolKind::Other => true,
        };
        if fits || !symbol.defined {
            return Ok(());
        }
        let problem = format!("its {size} bytes at address {address:#x} are not inside a segment of the right kind");
        Err(Error::malformed(format!("ELF symbol `{name}`"), problem))
    }

    fn parse_relocations(&mut self, sections: &[Section]) -> Result<()> {
        // Sections may overlap in the file: bound the sum of many views of the same bytes.
        let mut budget = self.bytes.len();
        const SHT_RELA: u32 = 4;
        const SHT_REL: u32 = 9;
        const SHF_ALLOC: u64 = 2;
        for section in sections.iter().filter(|section| section.flags & SHF_ALLOC != 0) {
            if section.kind == SHT_REL {
                return Err(Error::unsupported("ELF relocations", "SHT_REL sections; SHT_RELA is supported"));
            }
            if section.kind == SHT_RELA {
                let table = slice(self.bytes, section.offset, section.size, "ELF relocations")?;
                budget = budget.checked_sub(table.len()).ok_or_else(|| {
                    Error::malformed("ELF relocations", "their sections together are larger than the file")
                })?;
                for entry in table.chunks_exact(RELA_SIZE as usize) {
                    let relocation = self.parse_relocation(entry)?;
                    self.relocations.extend(relocation);
                }
            }
        }
        Ok(())
    }

    /// `None` for `R_AMDGPU_NONE`.
    fn parse_relocation(&self, entry: &[u8]) -> Result<Option<Relocation>> {
        let what = "ELF relocation";
        let (address, info) = (u64_at(entry, 0, what)?, u64_at(entry, 8, what)?);
        let (kind, size) = match info as u32 {
            0 => return Ok(None),
            1 => (RelocationKind::Abs32Low, 4),
            2 => (RelocationKind::Abs32High, 4),
            3 => (RelocationKind::Abs64, 8),
            6 => (RelocationKind::Abs32, 4),
            13 => (RelocationKind::Relative64, 8),
            other => {
                let problem = format!("type {other}; ABS32_LO, ABS32_HI, ABS32, ABS64 and RELATIVE64 are supported");
                return Err(Error::unsupported(what, problem));
            }
        };
        if !self.is_loaded(address, size) {
            return Err(Error::malformed(what, format!("its address {address:#x} is not inside a segment")));
        }
        let symbol = ((info >> 32) as usize).checked_sub(1);
        let needs_symbol = kind != RelocationKind::Relative64;
        if symbol.map_or(needs_symbol, |index| index >= self.dynamic_symbols.len()) {
            let problem = format!("at {address:#x} it names symbol {} of {}", info >> 32, self.dynamic_symbols.len());
            return Err(Error::malformed(what, problem));
        }
        Ok(Some(Relocation { address, kind, symbol, addend: u64_at(entry, 16, what)? as i64 }))
    }
}

/// The parts of the ELF file header that are used later.
pub(crate) struct Header {
    pub(crate) target: TargetId,
    version: u8,
    program_headers: (u64, u64),
    sections: (u64, u64),
}

impl Header {
    /// Checks the file header; reads the first [`HEADER_SIZE`] bytes and no others.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let what = "ELF header";
        let header = slice(bytes, 0, HEADER_SIZE, what)?;
        let expect = |field: &str, found: u64, expected: u64| {
            let problem =
                format!("{field} is {found}, expected {expected} (64-bit little-endian AMDGPU HSA code object)");
            if found == expected { Ok(()) } else { Err(Error::unsupported(what, problem)) }
        };
        if header[..4] != ELF_MAGIC {
            return Err(Error::UnknownFormat { found: header[..4].to_vec() });
        }
        expect("EI_CLASS", header[4].into(), 2)?;
        expect("EI_DATA", header[5].into(), 1)?;
        expect("EI_VERSION", header[6].into(), 1)?;
        expect("EI_OSABI", header[7].into(), 64)?;
        expect("e_machine", u16_at(header, 18, what)?.into(), 224)?;
        expect("e_version", u32_at(header, 20, what)?.into(), 1)?;
        let abi_version = header[8];
        let table = |offset, entry_size_at, expected, name| -> Result<(u64, u64)> {
            let count = u16_at(header, entry_size_at + 2, what)?.into();
            if count != 0 {
                expect(name, u16_at(header, entry_size_at, what)?.into(), expected)?;
            }
            Ok((u64_at(header, offset, what)?, count))
        };
        let program_headers = table(32, 54, PROGRAM_HEADER_SIZE, "e_phentsize")?;
        if program_headers.1 > MAX_PROGRAM_HEADERS {
            let problem = format!("e_phnum is {}; at most {MAX_PROGRAM_HEADERS} are supported", program_headers.1);
            return Err(Error::unsupported(what, problem));
        }
        Ok(Self {
            target: TargetId::from_elf(u32_at(header, 48, what)?, abi_version)?,
            version: abi_version + 2,
            program_headers,
            sections: table(40, 58, SECTION_HEADER_SIZE, "e_shentsize")?,
        })
    }

    /// End of the tables that [`Header::file_size`] reads, in bytes from the file's start.
    pub(crate) fn tables_end(&self) -> Result<u64> {
        let end = |(offset, count): (u64, u64), size| {
            if count == 0 { Some(HEADER_SIZE) } else { offset.checked_add(count * size) }
        };
        end(self.program_headers, PROGRAM_HEADER_SIZE)
            .zip(end(self.sections, SECTION_HEADER_SIZE))
            .map(|(programs, sections)| programs.max(sections).max(HEADER_SIZE))
            .ok_or_else(|| Error::malformed("ELF header", "a table's offset is out of range"))
    }

    /// Size of the file in bytes: the end of its last table, segment or section.
    pub(crate) fn file_size(&self, bytes: &[u8]) -> Result<u64> {
        const SHT_NOBITS: u32 = 8;
        let segments = self.program_headers(bytes)?.into_iter().map(|p| (p.offset, p.file_size));
        let sections = self.sections(bytes)?.into_iter().filter(|s| s.kind != SHT_NOBITS);
        let mut size = self.tables_end()?;
        for (offset, length) in segments.chain(sections.map(|s| (s.offset, s.size))) {
            let end = offset.checked_add(length).ok_or_else(|| {
                Error::malformed("ELF file", format!("a segment or section at offset {offset:#x} is out of range"))
            })?;
            size = size.max(end);
        }
        Ok(size)
    }

    fn program_headers(&self, bytes: &[u8]) -> Result<Vec<ProgramHeader>> {
        let what = "ELF program headers";
        let (offset, count) = self.program_headers;
        let table = slice(bytes, if count == 0 { 0 } else { offset }, count * PROGRAM_HEADER_SIZE, what)?;
        let entries = table.chunks_exact(PROGRAM_HEADER_SIZE as usize);
        entries.map(|entry| ProgramHeader::parse(entry, what)).collect()
    }

    fn sections(&self, bytes: &[u8]) -> Result<Vec<Section>> {
        let what = "ELF section headers";
        let (offset, count) = self.sections;
        let table = slice(bytes, if count == 0 { 0 } else { offset }, count * SECTION_HEADER_SIZE, what)?;
        let entries = table.chunks_exact(SECTION_HEADER_SIZE as usize);
        entries.map(|entry| Section::parse(entry, what)).collect()
    }
}

struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
    alignment: u64,
}

impl ProgramHeader {
    fn parse(entry: &[u8], what: &'static str) -> Result<Self> {
        Ok(Self {
            kind: u32_at(entry, 0, what)?,
            flags: u32_at(entry, 4, what)?,
            offset: u64_at(entry, 8, what)?,
            address: u64_at(entry, 16, what)?,
            file_size: u64_at(entry, 32, what)?,
            memory_size: u64_at(entry, 40, what)?,
            alignment: u64_at(entry, 48, what)?,
        })
    }
}

struct Section {
    kind: u32,
    flags: u64,
    offset: u64,
    size: u64,
    link: u32,
}

impl Section {
    fn parse(entry: &[u8], what: &'static str) -> Result<Self> {
        Ok(Self {
            kind: u32_at(entry, 4, what)?,
            flags: u64_at(entry, 8, what)?,
            offset: u64_at(entry, 24, what)?,
            size: u64_at(entry, 32, what)?,
            link: u32_at(entry, 40, what)?,
        })
    }
}

fn parse_segments<'a>(bytes: &'a [u8], headers: &[ProgramHeader]) -> Result<Vec<Segment<'a>>> {
    const PT_LOAD: u32 = 1;
    let (writable, executable) = (2, 1);
    let mut segments = Vec::new();
    let mut previous_end = 0;
    for header in headers.iter().filter(|header| header.kind == PT_LOAD) {
        let ProgramHeader { address, memory_size, file_size, .. } = *header;
        let bad = |problem: &str| {
            Error::malformed(format!("ELF segment of {memory_size} bytes at address {address:#x}"), problem)
        };
        let end = address.checked_add(memory_size).ok_or_else(|| bad("it exceeds the address space"))?;
        if address < previous_end {
            return Err(bad("it is out of order or overlaps the segment before it"));
        }
        if file_size > memory_size {
            return Err(bad("it has more bytes in the file than in memory"));
        }
        let alignment = header.alignment.max(1);
        if !alignment.is_power_of_two() {
            return Err(bad("its alignment is not a power of two"));
        }
        segments.push(Segment {
            address,
            memory_size,
            alignment,
            writable: header.flags & writable != 0,
            executable: header.flags & executable != 0,
            data: slice(bytes, header.offset, file_size, "ELF segment")?,
        });
        previous_end = end;
    }
    let first = segments
        .first()
        .map(|segment| segment.address)
        .ok_or_else(|| Error::malformed("ELF code object", "it has no PT_LOAD segment, so there is nothing to load"))?;
    if previous_end - first > MAX_LOAD_SIZE {
        let problem =
            format!("its segments span {} bytes; at most {MAX_LOAD_SIZE} are supported", previous_end - first);
        return Err(Error::unsupported("ELF code object", problem));
    }
    Ok(segments)
}

/// See [`CodeObject::has_writable_data`].
fn has_writable_data(headers: &[ProgramHeader]) -> bool {
    const PT_LOAD: u32 = 1;
    const PT_GNU_RELRO: u32 = 0x6474_e552;
    const WRITABLE: u32 = 2;
    let range = |header: &ProgramHeader| (header.address, header.address.saturating_add(header.memory_size));
    let mut written = headers.iter().filter(|header| header.kind == PT_LOAD && header.flags & WRITABLE != 0);
    written.any(|header| {
        let (start, end) = range(header);
        let mut relocated = headers.iter().filter(|header| header.kind == PT_GNU_RELRO).map(range);
        start < end && !relocated.any(|(first, last)| first <= start && end <= last)
    })
}

fn parse_symbol<'a>(entry: &[u8], strings: &'a [u8]) -> Result<Symbol<'a>> {
    const STT_OBJECT: u8 = 1;
    const STT_FUNC: u8 = 2;
    const SHN_UNDEF: u16 = 0;
    const SHN_ABS: u16 = 0xfff1;
    const STB_LOCAL: u8 = 0;
    let what = "ELF symbol";
    let name = string_at(strings, u32_at(entry, 0, what)?)?;
    let section = u16_at(entry, 6, what)?;
    let kind = match entry[4] & 0xf {
        _ if section == SHN_ABS => SymbolKind::Other,
        STT_OBJECT if name.ends_with(".kd") => SymbolKind::Kernel,
        STT_OBJECT => SymbolKind::Variable,
        STT_FUNC => SymbolKind::Function,
        _ => SymbolKind::Other,
    };
    let (address, size) = (u64_at(entry, 8, what)?, u64_at(entry, 16, what)?);
    Ok(Symbol { name, kind, address, size, defined: section != SHN_UNDEF, local: entry[4] >> 4 == STB_LOCAL })
}

/// The zero-terminated string at `offset` of a string table.
fn string_at(strings: &[u8], offset: u32) -> Result<&str> {
    let what = "ELF symbol name";
    let tail = slice(strings, offset.into(), 0, what).map(|_| &strings[offset as usize..])?;
    let tail = &tail[..tail.len().min(MAX_NAME_SIZE + 1)];
    let length = tail
        .iter()
        .position(|byte| *byte == 0)
        .ok_or_else(|| Error::malformed(what, format!("it does not end within {MAX_NAME_SIZE} bytes or its table")))?;
    std::str::from_utf8(&tail[..length]).map_err(|_| Error::malformed(what, "it is not UTF-8"))
}

/// The `NT_AMDGPU_METADATA` note's contents, if a `PT_NOTE` segment has one.
fn find_metadata_note<'a>(bytes: &'a [u8], headers: &[ProgramHeader]) -> Result<Option<&'a [u8]>> {
    const PT_NOTE: u32 = 4;
    const NT_AMDGPU_METADATA: u32 = 32;
    let what = "ELF note";
    for header in headers.iter().filter(|header| header.kind == PT_NOTE) {
        let notes = slice(bytes, header.offset, header.file_size, what)?;
        let mut offset = 0;
        while offset < notes.len() as u64 {
            let name_size = u64::from(u32_at(notes, offset, what)?);
            let size = u64::from(u32_at(notes, offset + 4, what)?);
            let kind = u32_at(notes, offset + 8, what)?;
            let name = slice(notes, offset + 12, name_size, what)?;
            // Name and contents are padded to 4 bytes; the last padding may be missing.
            let contents = offset + 12 + name_size.next_multiple_of(4);
            let data = slice(notes, contents, size, what)?;
            if kind == NT_AMDGPU_METADATA && matches!(name, b"AMDGPU" | b"AMDGPU\0") {
                return Ok(Some(data));
            }
            offset = contents + size.next_multiple_of(4);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_the_table_as_in_rocr() {
        let chosen = |text: &str| SymbolTable::chosen_by(Some(OsStr::new(text)));
        assert_eq!(SymbolTable::chosen_by(None), SymbolTable::Static);
        assert_eq!(["0", "0x1"].map(chosen), [SymbolTable::Static; 2]);
        assert_eq!(["", "1", "no"].map(chosen), [SymbolTable::Dynamic; 3]);
    }
}
