// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Executables in either container, and the format of a file without a format string.

use std::collections::{HashMap, HashSet};

use crate::amd1::{self, Container, ExecutableDef, SourceFile};
use crate::elf::{self, CodeObject, ELF_MAGIC, Header, SymbolKind, SymbolTable};
use crate::error::{Error, Result};
use crate::function::Function;
use crate::metadata::Kernel;
use crate::target::TargetId;

/// A parsed executable; the code object borrows from its bytes.
#[derive(Debug, Clone)]
pub struct Executable<'a> {
    /// The ELF file to load.
    pub code_object: CodeObject<'a>,
    /// Functions in ordinal order: the flatbuffer's exports, or a bare code object's kernels.
    pub functions: Vec<Function>,
    /// Source files that the producer embedded.
    pub source_files: Vec<SourceFile<'a>>,
    /// The flatbuffer's schema; none for a bare code object.
    pub container: Option<Container>,
}

impl<'a> Executable<'a> {
    /// Parses an AMD1 or HIP1 flatbuffer or a bare ELF code object, told apart by their magic numbers.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        if bytes.starts_with(&ELF_MAGIC) { Self::parse_elf(bytes) } else { Self::parse_flatbuffer(bytes) }
    }

    fn parse_elf(bytes: &'a [u8]) -> Result<Self> {
        let code_object = CodeObject::parse(bytes)?;
        let metadata = code_object.metadata()?;
        let descriptors = Descriptors::new(&code_object);
        let function = |kernel: &Kernel| {
            descriptors.check(&kernel.symbol)?;
            Function::from_kernel(kernel)
        };
        let functions = metadata.kernels.iter().map(function).collect::<Result<_>>()?;
        Ok(Self { code_object, functions, source_files: Vec::new(), container: None })
    }

    fn parse_flatbuffer(bytes: &'a [u8]) -> Result<Self> {
        let definition = ExecutableDef::parse(bytes)?;
        let code_object = CodeObject::parse(definition.image)?;
        let metadata = code_object.metadata()?;
        let descriptors = Descriptors::new(&code_object);
        let kernels: HashMap<&str, &Kernel> =
            metadata.kernels.iter().map(|kernel| (kernel.symbol.as_str(), kernel)).collect();
        let function = |export: &amd1::ExportDef| {
            descriptors.check(&export.symbol_name)?;
            let kernel = kernels.get(&*export.symbol_name).ok_or_else(|| {
                let problem = "the code object's metadata has no kernel of that symbol";
                Error::malformed(format!("export `{}`", export.symbol_name), problem)
            })?;
            Function::from_export(export, kernel)
        };
        let functions = definition.exports.iter().map(function).collect::<Result<_>>()?;
        let ExecutableDef { source_files, container, .. } = definition;
        Ok(Self { code_object, functions, source_files, container: Some(container) })
    }
}

/// The kernel descriptors that HSA finds in a code object.
struct Descriptors<'a> {
    names: HashSet<&'a str>,
    names_from: Option<SymbolTable>,
}

impl<'a> Descriptors<'a> {
    fn new(code_object: &CodeObject<'a>) -> Self {
        let symbols = code_object.symbols.iter();
        let kernels = symbols.filter(|symbol| symbol.defined && symbol.kind == SymbolKind::Kernel);
        Self { names: kernels.map(|symbol| symbol.name).collect(), names_from: code_object.names_from }
    }

    fn check(&self, symbol: &str) -> Result<()> {
        let Some(table) = self.names_from else {
            return Err(Error::unsupported("ELF code object", no_names(symbol)));
        };
        if self.names.contains(symbol) {
            return Ok(());
        }
        let table = table.section_name();
        let problem = format!("its `{table}` defines no kernel descriptor `{symbol}`, which its description names");
        Err(Error::malformed("ELF code object", problem))
    }
}

/// Error text for a code object without the table that HSA looks names up in.
fn no_names(symbol: &str) -> String {
    match SymbolTable::of_names() {
        SymbolTable::Static => format!(
            "it is stripped: the section `.symtab` is missing, by which HSA finds kernels such as `{symbol}`; link it without \
             `--strip-all`, do not run `strip` on it (`--discard-all` does no harm), or set LOADER_USE_DYNSYM=1 in the environment"
        ),
        SymbolTable::Dynamic => format!(
            "the section `.dynsym` is missing, by which HSA finds kernels such as `{symbol}` because LOADER_USE_DYNSYM is set in the \
             environment; unset it or link the code object with `-shared`"
        ),
    }
}

/// Format and size of an executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InferredFormat {
    /// Target of the code object.
    pub target: TargetId,
    /// The flatbuffer's schema; none for a bare code object.
    pub container: Option<Container>,
    /// Size of the executable in bytes; the data may continue after it.
    pub size: u64,
}

/// Tells the format and the size of an executable at the start of `bytes`, from its headers.
pub fn infer_format(bytes: &[u8]) -> Result<InferredFormat> {
    let size = match probe_size(bytes)? {
        SizeProbe::Size(size) if size <= bytes.len() as u64 => size,
        SizeProbe::Size(size) | SizeProbe::NeedPrefix(size) => {
            return Err(Error::Truncated { what: "executable", offset: 0, size, available: bytes.len() as u64 });
        }
    };
    let container = Container::of(bytes);
    let image = if container.is_some() { ExecutableDef::parse(bytes)?.image } else { bytes };
    Ok(InferredFormat { target: Header::parse(image)?.target, container, size })
}

/// Result of a probe of the first bytes of an executable of unknown length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeProbe {
    /// The executable has this many bytes.
    Size(u64),
    /// Probe again with at least this many bytes, more than were given.
    NeedPrefix(u64),
}

/// Determines the size of an executable of unknown length, asking for no byte that a well-formed
/// one does not have: call with an empty slice first, then with the prefix that is asked for.
pub fn probe_size(prefix: &[u8]) -> Result<SizeProbe> {
    let available = prefix.len() as u64;
    if available < 4 {
        return Ok(SizeProbe::NeedPrefix(4));
    }
    let is_flatbuffer = Container::of(prefix).is_some();
    if !is_flatbuffer && !prefix.starts_with(&ELF_MAGIC) {
        return Err(Error::UnknownFormat { found: prefix[..4].to_vec() });
    }
    // Both headers have the same size.
    if available < amd1::HEADER_SIZE.max(elf::HEADER_SIZE) {
        return Ok(SizeProbe::NeedPrefix(amd1::HEADER_SIZE.max(elf::HEADER_SIZE)));
    }
    if is_flatbuffer {
        let size = amd1::content_size(prefix)?.checked_add(amd1::HEADER_SIZE);
        let size = size.ok_or_else(|| Error::malformed(amd1::HEADER, "its content size is out of range"))?;
        return Ok(SizeProbe::Size(size));
    }
    let header = Header::parse(prefix)?;
    match header.tables_end()? {
        end if end > available => Ok(SizeProbe::NeedPrefix(end)),
        _ => header.file_size(prefix).map(SizeProbe::Size),
    }
}
