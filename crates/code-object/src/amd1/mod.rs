// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! IREE's executables for AMD GPUs, AMD1 of its target `amdgpu` and HIP1 of its target `hip`: a file header, then a
//! flatbuffer that carries one ELF code object and the HAL's view of each kernel.
//!
//! Sources: the schemas that [`schema`] names, and the flatbuffer file header of IREE's `base/internal/flatcc`.

#[allow(unsafe_code)]
mod schema;

use std::borrow::Cow;

use flatbuffers::{Follow, ForwardsUOffset, Vector};

use self::schema::{DebugExportDef, FileLineLocDef, StageLocationDef};
use crate::bytes::{slice, u32_at, u64_at};
use crate::error::{Error, Result};

/// The schema of a flatbuffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// `amdgpu_executable_def.fbs`.
    Amd1,
    /// `hip_executable_def.fbs`.
    Hip1,
}

impl Container {
    const ALL: [Self; 2] = [Self::Amd1, Self::Hip1];

    /// The file header's magic number, and the flatbuffer's identifier.
    const fn magic(self) -> [u8; 4] {
        match self {
            Self::Amd1 => *b"AMD1",
            Self::Hip1 => *b"HIP1",
        }
    }

    /// The container format whose magic number `bytes` begin with.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|container| bytes.starts_with(&container.magic()))
    }

    /// The container's name in error messages.
    const fn name(self) -> &'static str {
        match self {
            Self::Amd1 => "AMD1 flatbuffer",
            Self::Hip1 => "HIP1 flatbuffer",
        }
    }
}

/// The file header's name in error messages.
pub(crate) const HEADER: &str = "AMD1 or HIP1 file header";
/// Size of the file header in bytes: magic, version u32, content size u64, six reserved u64.
pub(crate) const HEADER_SIZE: u64 = 64;

/// An AMD1 or HIP1 executable; borrows from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutableDef<'a> {
    /// The schema of the executable.
    pub container: Container,
    /// Target id as the producer wrote it, empty in HIP1. Only the ELF header's is used.
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
    pub symbol_name: Cow<'a, str>,
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
    /// Path of the file.
    pub path: &'a str,
    /// Contents of the file.
    pub content: &'a [u8],
}

/// Size of the flatbuffer after the file header, in bytes. Reads the header only.
pub(crate) fn content_size(bytes: &[u8]) -> Result<u64> {
    let what = HEADER;
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
        let unknown = || Error::UnknownFormat { found: bytes.iter().take(4).copied().collect() };
        let container = Container::of(bytes).ok_or_else(unknown)?;
        let what = container.name();
        let content = slice(bytes, HEADER_SIZE, content_size(bytes)?, what)?;
        // After the offset of the root table.
        if slice(content, 4, 4, what)? != container.magic() {
            let magic = container.magic();
            let problem = format!("its file identifier is not `{}`", magic.escape_ascii());
            return Err(Error::malformed(what, problem));
        }
        match container {
            Container::Amd1 => {
                let root: schema::ExecutableDef = schema::root(content, what)?;
                Ok(Self {
                    container,
                    isa: root.isa().unwrap_or_default(),
                    exports: exports(what, root.exports(), export)?,
                    image: image(what, root.modules())?,
                    source_files: root.source_files().iter().flatten().map(source_file).collect(),
                })
            }
            Container::Hip1 => {
                let root: schema::HipExecutableDef = schema::root(content, what)?;
                Ok(Self {
                    container,
                    isa: "",
                    exports: exports(what, root.exports(), hip_export)?,
                    image: image(what, root.modules())?,
                    source_files: root.source_files().iter().flatten().map(source_file).collect(),
                })
            }
        }
    }
}

/// A vector of tables.
type Elements<'a, T> = Option<Vector<'a, ForwardsUOffset<T>>>;

fn image<'a>(what: &'static str, modules: Elements<'a, schema::ModuleDef<'a>>) -> Result<&'a [u8]> {
    let count = modules.map_or(0, |modules| modules.len());
    let Some(modules) = modules.filter(|_| count == 1) else {
        return Err(Error::unsupported(what, format!("it has {count} module images; exactly one is supported")));
    };
    match modules.get(0).image() {
        Some(image) if !image.is_empty() => Ok(image.bytes()),
        _ => Err(Error::malformed(what, "its module image is empty")),
    }
}

/// Exports in the order of their tables. `read` reads a table, and gets a function that makes an error of a problem.
fn exports<'a, T: Follow<'a, Inner = T> + 'a>(
    what: &'static str,
    tables: Elements<'a, T>,
    read: impl Fn(T, &dyn Fn(&str) -> Error) -> Result<ExportDef<'a>>,
) -> Result<Vec<ExportDef<'a>>> {
    let export = |(index, table)| {
        let bad = |problem: &str| Error::malformed(format!("{what}, export {index}"), problem);
        let export = read(table, &bad)?;
        match export.workgroup_size {
            size if size.contains(&0) => Err(bad(&format!("its workgroup size is {size:?}; no dimension may be 0"))),
            _ => Ok(export),
        }
    };
    tables.iter().flatten().enumerate().map(export).collect()
}

fn export<'a>(table: schema::ExportDef<'a>, bad: &dyn Fn(&str) -> Error) -> Result<ExportDef<'a>> {
    let symbol_name = table.symbol_name().filter(|name| !name.is_empty());
    Ok(ExportDef {
        symbol_name: symbol_name.ok_or_else(|| bad("it has no symbol name"))?.into(),
        workgroup_size: table.workgroup_size().ok_or_else(|| bad("it has no workgroup size"))?,
        constant_count: table.constant_count().unwrap_or_default(),
        binding_flags: table.binding_flags().iter().flatten().collect(),
        debug_info: table.debug_info().map_or_else(|| Ok(DebugInfo::default()), debug_info)?,
    })
}

/// An export of HIP, whose kernels are named without the suffix of their descriptors' symbols.
fn hip_export<'a>(table: schema::HipExportDef<'a>, bad: &dyn Fn(&str) -> Error) -> Result<ExportDef<'a>> {
    let kernel_name = table.kernel_name().filter(|name| !name.is_empty());
    if let Some(ordinal) = table.module_ordinal().filter(|ordinal| *ordinal != 0) {
        return Err(bad(&format!("it is in module {ordinal}; exactly one is supported")));
    }
    // As IREE's HIP driver has it: a deprecated field.
    if let Some(size) = table.block_shared_memory_size().filter(|size| *size != 0) {
        return Err(bad(&format!("it has {size} bytes of shared memory beside the kernel's own, which must be 0")));
    }
    Ok(ExportDef {
        symbol_name: format!("{}.kd", kernel_name.ok_or_else(|| bad("it has no kernel name"))?).into(),
        workgroup_size: table.block_dims().ok_or_else(|| bad("it has no workgroup size"))?,
        constant_count: table.constant_count().unwrap_or_default(),
        binding_flags: table.binding_flags().iter().flatten().collect(),
        debug_info: table.debug_info().map_or_else(|| Ok(DebugInfo::default()), debug_info)?,
    })
}

fn debug_info(table: DebugExportDef<'_>) -> Result<DebugInfo<'_>> {
    Ok(DebugInfo {
        name: table.name().unwrap_or_default(),
        location: table.location().map(location).transpose()?,
        stage_locations: table.stage_locations().iter().flatten().map(stage_location).collect::<Result<_>>()?,
    })
}

fn location(table: FileLineLocDef<'_>) -> Result<Location<'_>> {
    match table.filename() {
        Some(file) if !file.is_empty() => Ok(Location { file, line: table.line().unwrap_or_default() }),
        _ => Err(Error::malformed("AMD1 debug information", "a location has no file name")),
    }
}

fn stage_location(table: StageLocationDef<'_>) -> Result<StageLocation<'_>> {
    match table.stage() {
        Some(stage) if !stage.is_empty() => {
            Ok(StageLocation { stage, location: table.location().map(location).transpose()? })
        }
        _ => Err(Error::malformed("AMD1 debug information", "a stage location has no stage name")),
    }
}

fn source_file(table: schema::SourceFileDef<'_>) -> SourceFile<'_> {
    SourceFile {
        path: table.path().unwrap_or_default(),
        content: table.content().map_or(&[], |content| content.bytes()),
    }
}
