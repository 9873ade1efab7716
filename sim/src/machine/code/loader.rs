// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Loads a code object (AMDGPUUsage "Code Object"): maps its segments, applies dynamic relocations, lists its kernels
//! and variables. Malformed input gives an error.

use std::{env, fmt};

use hsa_abi::{HsaStatus, KernelDescriptor};
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym};

use crate::machine::memory::allocation::Mapping;
use crate::machine::product::rocr::Release;
use crate::machine::product::target::{self, TargetInfo};

// AMDGPUUsage "ELF Code Object", which the `object` crate has no names for.
const ELFOSABI_AMDGPU_HSA: u8 = 64;
const EF_AMDGPU_MACH: u32 = 0xff;
const ABI_V3: u8 = 1;
const ABI_V4: u8 = 2;
const ABI_V6: u8 = 4;
/// Machine numbers of gfx9, gfx10-1, gfx10-3, gfx11, gfx12, gfx12-5 and gfx9-4-generic.
const GENERIC_MACHINES: [u32; 7] = [0x51, 0x52, 0x53, 0x54, 0x59, 0x5b, 0x5f];
const R_AMDGPU_NONE: u32 = 0;
const R_AMDGPU_ABS32_LO: u32 = 1;
const R_AMDGPU_ABS32_HI: u32 = 2;
const R_AMDGPU_ABS64: u32 = 3;
const R_AMDGPU_RELATIVE64: u32 = 13;

const ENDIAN: LittleEndian = LittleEndian;

/// Maximum size of a loaded code object, as protection against hostile headers.
const MAX_SPAN: u64 = 1 << 30;

/// Maximum total length of symbol names for each byte of the file, as protection against many symbols that share one
/// long name, because each keeps its own copy.
const SHARING: usize = 16;

type Header = FileHeader64<LittleEndian>;
type Sections<'a> = SectionTable<'a, Header>;

/// Reason why a code object cannot be loaded.
#[derive(Debug)]
pub struct LoadError {
    /// Status for the caller of the HSA function.
    pub status: HsaStatus,
    /// Message.
    pub text: String,
}

impl LoadError {
    fn invalid(text: impl fmt::Display) -> Self {
        Self { status: HsaStatus::ERROR_INVALID_CODE_OBJECT, text: text.to_string() }
    }

    fn undefined(name: &str) -> Self {
        Self { status: HsaStatus::ERROR_VARIABLE_UNDEFINED, text: format!("symbol '{name}' is undefined") }
    }
}

impl From<object::Error> for LoadError {
    fn from(error: object::Error) -> Self {
        Self::invalid(error)
    }
}

/// A part of a loaded code object with uniform access rights.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Loaded address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// True if kernels may write it.
    pub writable: bool,
    /// True if it contains code.
    pub executable: bool,
}

/// Kind of a symbol.
#[derive(Clone, Copy, Debug)]
pub enum SymbolKind {
    /// A kernel, by its descriptor.
    Kernel(KernelDescriptor),
    /// A variable.
    Variable {
        /// Bytes.
        size: u64,
        /// True if its section is writable.
        writable: bool,
    },
}

/// A kernel or variable.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Name as in the symbol table; kernels end in `.kd`.
    pub name: String,
    /// Loaded address.
    pub address: u64,
    /// Kind.
    pub kind: SymbolKind,
}

/// A loaded code object.
#[derive(Debug)]
pub struct Image {
    /// Memory of the image.
    pub mapping: Mapping,
    /// Size in bytes, from the first to the last.
    pub size: u64,
    /// Loaded address less address in the file.
    pub delta: i64,
    /// Segments of the image, ascending and disjoint.
    pub segments: Vec<Segment>,
    /// Kernels and variables of the image.
    pub symbols: Vec<Symbol>,
}

/// Loads the code object `bytes` for `target` as a release of ROCR does. `external` gives the addresses of variables
/// that the code object only declares.
pub fn load(
    bytes: &[u8],
    target: &TargetInfo,
    release: Release,
    external: &dyn Fn(&str) -> Option<u64>,
) -> Result<Image, LoadError> {
    let header = Header::parse(bytes)?;
    check_header(header, target, release)?;
    let mut image = map_segments(header, bytes)?;
    let sections = header.sections(ENDIAN, bytes)?;
    image.symbols = symbols(&image, &sections, bytes, external)?;
    image.open_constants();
    relocate(&image, &sections, bytes, external)?;
    Ok(image)
}

fn check_header(header: &Header, target: &TargetInfo, release: Release) -> Result<(), LoadError> {
    let ident = header.e_ident;
    if !header.is_little_endian() || header.e_machine(ENDIAN) != elf::EM_AMDGPU {
        return Err(LoadError::invalid("not a little-endian AMDGPU ELF file"));
    }
    if ident.os_abi != ELFOSABI_AMDGPU_HSA {
        return Err(LoadError::invalid(format!("OS ABI {} is not AMDGPU_HSA", ident.os_abi)));
    }
    if header.e_type(ENDIAN) != elf::ET_DYN {
        return Err(LoadError::invalid("not linked (ELF type is not DYN)"));
    }
    let code = Code::new(header)?;
    let name = target::isa_name(code.machine).map_or_else(|| format!("machine {:#x}", code.machine), str::to_owned);
    if !is_known(code.machine, release) {
        return Err(LoadError::invalid(format!("this release does not know {name}")));
    }
    let error = |status, text| Err(LoadError { status, text });
    if GENERIC_MACHINES.contains(&code.machine) && !release.generic_targets() {
        let text = format!("this release does not load code objects for generic targets such as {name}");
        return error(HsaStatus::ERROR_INVALID_ISA_NAME, text);
    }
    let isas = || target.isas.iter().map(|&(name, _)| name).collect::<Vec<_>>().join(" and ");
    let Some(&(isa, _)) = target.isas.iter().find(|&&(_, number)| number == code.machine) else {
        let text = format!("code object is for {name}, the agent runs {}", isas());
        return error(HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS, text);
    };
    if GENERIC_MACHINES.contains(&code.machine) && code.generic_version == 0 {
        let text = format!("a code object for {name} needs a generic version, which code object version 6 has");
        return error(HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS, text);
    }
    for (feature, wanted) in [("sramecc", code.sramecc), ("xnack", code.xnack)] {
        let Some(wanted) = wanted else { continue };
        let sign = if wanted { '+' } else { '-' };
        // Version 3 says "off" for processors without the feature, too.
        if !isa.contains(feature) && wanted {
            let text = format!("no target is called {name}:{feature}{sign}");
            return error(HsaStatus::ERROR_INVALID_ISA_NAME, text);
        }
        if isa.contains(feature) && !isa.contains(&format!("{feature}{sign}")) {
            let text = format!("code object is for {feature}{sign}, the agent runs {}", isas());
            return error(HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS, text);
        }
    }
    Ok(())
}

/// Target of a code object, from its header (AMDGPUUsage "ELF header e_flags").
struct Code {
    machine: u32,
    /// Required setting of the feature; `None` if the code runs with both, or the processor lacks it.
    sramecc: Option<bool>,
    xnack: Option<bool>,
    /// Zero before code object version 6.
    generic_version: u32,
}

impl Code {
    fn new(header: &Header) -> Result<Self, LoadError> {
        let flags = header.e_flags(ENDIAN);
        let machine = flags & EF_AMDGPU_MACH;
        // Off and on are 2 and 3 in fields of two bits, or a bit before version 4.
        let needs = |shift: u32| match flags >> shift & 3 {
            2 => Some(false),
            3 => Some(true),
            _ => None,
        };
        let abi = header.e_ident.abi_version;
        match abi {
            ABI_V3 => {
                let needs = |bit: u32| Some(flags & bit != 0);
                Ok(Self { machine, sramecc: needs(0x200), xnack: needs(0x100), generic_version: 0 })
            }
            ABI_V4..=ABI_V6 => {
                let generic_version = if abi == ABI_V6 { flags >> 24 } else { 0 };
                Ok(Self { machine, sramecc: needs(10), xnack: needs(8), generic_version })
            }
            other => Err(LoadError::invalid(format!("code object ABI version {other} is not one of 3 to 6"))),
        }
    }
}

/// True if a release of ROCR has the machine number in its table (`amd_hsa_code.cpp`, `GetMachInfo`). The newest
/// release here also accepts gfx1250 and its relatives, which came after it, because the sim supports one of them.
fn is_known(machine: u32, release: Release) -> bool {
    match release {
        Release::Rocm6_2 => {
            matches!(machine, 0x20..=0x21 | 0x23..=0x26 | 0x28..=0x48 | 0x4a..=0x4c | 0x4e | 0x51..=0x54)
        }
        Release::Rocm7_0 => matches!(
            machine,
            0x20..=0x26 | 0x28..=0x3f | 0x41..=0x48 | 0x4a | 0x4c | 0x4e..=0x4f | 0x49 | 0x51..=0x55 | 0x58..=0x5b | 0x5f
        ),
    }
}

fn map_segments(header: &Header, bytes: &[u8]) -> Result<Image, LoadError> {
    let loads: Vec<_> = header
        .program_headers(ENDIAN, bytes)?
        .iter()
        .filter(|segment| segment.p_type(ENDIAN) == elf::PT_LOAD && segment.p_memsz(ENDIAN) > 0)
        .collect();
    let mut end = 0;
    for segment in &loads {
        let address = segment.p_vaddr(ENDIAN);
        if address < end {
            return Err(LoadError::invalid("segments overlap or are out of order"));
        }
        end = address
            .checked_add(segment.p_memsz(ENDIAN))
            .filter(|&end| end <= MAX_SPAN)
            .ok_or_else(|| LoadError::invalid("a segment ends beyond what can be loaded"))?;
    }
    if loads.is_empty() {
        return Err(LoadError::invalid("nothing to load"));
    }
    let mapping = Mapping::new(end as usize)
        .map_err(|error| LoadError { status: HsaStatus::ERROR_OUT_OF_RESOURCES, text: error.to_string() })?;
    let mut image = Image {
        delta: mapping.base() as i64,
        mapping,
        size: end,
        segments: Vec::with_capacity(loads.len()),
        symbols: Vec::new(),
    };
    for segment in loads {
        let data =
            segment.data(ENDIAN, bytes).map_err(|()| LoadError::invalid("a segment lies outside of the file"))?;
        let (address, size) = (segment.p_vaddr(ENDIAN), segment.p_memsz(ENDIAN));
        if data.len() as u64 > size {
            return Err(LoadError::invalid("a segment has more bytes in the file than in memory"));
        }
        image.write(address, data)?;
        image.segments.push(Segment {
            base: image.mapping.base() as u64 + address,
            size,
            writable: segment.p_flags(ENDIAN) & elf::PF_W != 0,
            executable: segment.p_flags(ENDIAN) & elf::PF_X != 0,
        });
    }
    Ok(image)
}

impl Image {
    /// Lets kernels write read-only data with a variable in it. ROCR protects no part of a code object
    /// (`amd_loader_context.cpp`), and LLVM places HIP's `__constant__` variables, which copy kernels fill, there.
    fn open_constants(&mut self) {
        for symbol in self.symbols.iter().filter(|symbol| matches!(symbol.kind, SymbolKind::Variable { .. })) {
            for segment in self.segments.iter_mut().filter(|segment| !segment.executable) {
                segment.writable |= symbol.address.wrapping_sub(segment.base) < segment.size;
            }
        }
    }

    /// Pointer to `size` bytes at the file's address `address`, if the image has them.
    fn at(&self, address: u64, size: usize) -> Result<*mut u8, LoadError> {
        let inside = address.checked_add(size as u64).is_some_and(|end| end <= self.size);
        if !inside {
            return Err(LoadError::invalid(format!("address {address:#x} lies outside of the segments")));
        }
        let base: *mut u8 = std::ptr::with_exposed_provenance_mut(self.mapping.base());
        Ok(base.wrapping_add(address as usize))
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), LoadError> {
        let target = self.at(address, bytes.len())?;
        // SAFETY: `at` checked that the range lies in the mapping, which no other code knows of yet.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Loaded address of the file's address `address`.
    fn loaded(&self, address: u64) -> u64 {
        (self.mapping.base() as u64).wrapping_add(address)
    }
}

fn relocate(
    image: &Image,
    sections: &Sections<'_>,
    bytes: &[u8],
    external: &dyn Fn(&str) -> Option<u64>,
) -> Result<(), LoadError> {
    for section in sections.iter() {
        // Only dynamic relocations are still to be done in a linked file.
        if section.sh_flags(ENDIAN) & u64::from(elf::SHF_ALLOC) == 0 {
            continue;
        }
        let Some((relocations, symbol_section)) = section.rela(ENDIAN, bytes)? else { continue };
        let symbols = sections.symbol_table_by_index(ENDIAN, bytes, symbol_section)?;
        for relocation in relocations {
            let addend = relocation.r_addend(ENDIAN) as u64;
            let place = relocation.r_offset(ENDIAN);
            let symbol = || -> Result<u64, LoadError> {
                let index = object::SymbolIndex(relocation.r_sym(ENDIAN, false) as usize);
                let symbol = symbols.symbol(index)?;
                if symbol.is_undefined(ENDIAN) {
                    let name = symbols.symbol_name(ENDIAN, symbol)?;
                    let name = String::from_utf8_lossy(name).into_owned();
                    let address = external(&name).ok_or_else(|| LoadError::undefined(&name))?;
                    return Ok(address.wrapping_add(addend));
                }
                Ok(image.loaded(symbol.st_value(ENDIAN)).wrapping_add(addend))
            };
            match relocation.r_type(ENDIAN, false) {
                R_AMDGPU_NONE => {}
                R_AMDGPU_RELATIVE64 => image.write(place, &image.loaded(addend).to_le_bytes())?,
                R_AMDGPU_ABS64 => image.write(place, &symbol()?.to_le_bytes())?,
                R_AMDGPU_ABS32_LO => image.write(place, &symbol()?.to_le_bytes()[..4])?,
                R_AMDGPU_ABS32_HI => image.write(place, &symbol()?.to_le_bytes()[4..])?,
                other => {
                    return Err(LoadError::invalid(format!("unsupported relocation type {other}")));
                }
            }
        }
    }
    Ok(())
}

/// Section type of the symbol table for look-ups, as in ROCR (`GElfImage::getSymbolTable` of `amd_elf_image.cpp`, 6.2
/// to 7.0): `.symtab`, or `.dynsym` if the environment variable `LOADER_USE_DYNSYM` is set to a text that does not
/// begin with `0`.
fn symbol_table() -> u32 {
    match env::var_os("LOADER_USE_DYNSYM") {
        Some(text) if !text.as_encoded_bytes().starts_with(b"0") => elf::SHT_DYNSYM,
        _ => elf::SHT_SYMTAB,
    }
}

/// Reads the symbols. Without the table there are none, which is no error: look-ups then find nothing.
fn symbols(
    image: &Image,
    sections: &Sections<'_>,
    bytes: &[u8],
    external: &dyn Fn(&str) -> Option<u64>,
) -> Result<Vec<Symbol>, LoadError> {
    let table = sections.symbols(ENDIAN, bytes, symbol_table())?;
    let mut symbols = Vec::new();
    let mut names = SHARING.saturating_mul(bytes.len());
    for symbol in table.iter() {
        let kind = symbol.st_type();
        if symbol.st_bind() == elf::STB_LOCAL || kind != elf::STT_OBJECT && kind != elf::STT_COMMON {
            continue;
        }
        let name = std::str::from_utf8(table.symbol_name(ENDIAN, symbol)?)
            .map_err(|_| LoadError::invalid("a symbol's name is not UTF-8"))?;
        names = names.checked_sub(name.len()).ok_or_else(|| {
            LoadError::invalid(format!("the names of symbols are more than {SHARING} times as long as the file"))
        })?;
        if symbol.is_undefined(ENDIAN) && external(name).is_some() {
            continue;
        }
        if symbol.is_undefined(ENDIAN) || kind == elf::STT_COMMON {
            return Err(LoadError::undefined(name));
        }
        let (address, size) = (symbol.st_value(ENDIAN), symbol.st_size(ENDIAN));
        let kind = if name.ends_with(".kd") {
            let descriptor = image.at(address, size_of::<KernelDescriptor>())?;
            if !image.loaded(address).is_multiple_of(align_of::<KernelDescriptor>() as u64) {
                return Err(LoadError::invalid(format!("kernel descriptor '{name}' is misaligned")));
            }
            // SAFETY: `at` checked the range, the address is aligned, any bytes are a descriptor, and
            // no other code knows of the image yet.
            SymbolKind::Kernel(unsafe { descriptor.cast::<KernelDescriptor>().read() })
        } else {
            image.at(address, usize::try_from(size).map_err(LoadError::invalid)?)?;
            let section = sections.section(object::SectionIndex(symbol.st_shndx(ENDIAN).into())).ok();
            let writable = section.is_some_and(|section| section.sh_flags(ENDIAN) & u64::from(elf::SHF_WRITE) != 0);
            SymbolKind::Variable { size, writable }
        };
        symbols.push(Symbol { name: name.to_owned(), address: image.loaded(address), kind });
    }
    Ok(symbols)
}
