// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The `NT_AMDGPU_METADATA` note: a MessagePack map that describes each kernel.
//!
//! Source: LLVM's AMDGPUUsage, "Code Object Metadata" (versions 3 to 6 differ only in optional
//! fields). Fields that nothing here uses are skipped.

use std::collections::{BTreeMap, HashSet};

use rmpv::ValueRef;

use crate::error::{Error, Result};

/// Largest note accepted, in bytes; decoding takes up to 40 times as much memory.
const MAX_NOTE_SIZE: usize = 8 << 20;
/// Deepest nesting accepted by the decoder, which counts two for each map or array.
const MAX_DEPTH: usize = 32;

/// A code object's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// `amdhsa.target`, where present. Its spelling differs between LLVM versions:
    /// identify the target from [`crate::CodeObject::target`].
    pub target: Option<String>,
    /// The kernels in file order; symbols are distinct.
    pub kernels: Vec<Kernel>,
    /// `amdhsa.printf`: formats of calls of OpenCL's `printf`.
    pub printf: Vec<PrintfFormat>,
}

/// A format of OpenCL's `printf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintfFormat {
    /// Number of the format, which kernels write in front of the arguments.
    pub id: u32,
    /// Sizes of the arguments in bytes.
    pub sizes: Vec<u32>,
    /// The format string.
    pub text: Vec<u8>,
}

impl PrintfFormat {
    /// Parses `ID:N:S1:…:SN:FORMAT`. Control characters and colons of the format are escaped (LLVM,
    /// `AMDGPUPrintfRuntimeBinding.cpp`).
    fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.split_once(':')?;
        let (count, mut rest) = rest.split_once(':')?;
        let mut sizes = Vec::new();
        for _ in 0..count.parse::<u32>().ok()? {
            let (size, after) = rest.split_once(':')?;
            sizes.push(size.parse().ok()?);
            rest = after;
        }
        Some(Self { id: id.parse().ok()?, sizes, text: unescaped(rest.as_bytes()) })
    }
}

fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&byte, after)) = text.split_first() {
        text = after;
        let (byte, length) = match (byte, after) {
            (b'\\', [b'7', b'2', ..]) => (b':', 2),
            (b'\\', [b'a', ..]) => (0x07, 1),
            (b'\\', [b'b', ..]) => (0x08, 1),
            (b'\\', [b'f', ..]) => (0x0c, 1),
            (b'\\', [b'n', ..]) => (b'\n', 1),
            (b'\\', [b'r', ..]) => (b'\r', 1),
            (b'\\', [b'v', ..]) => (0x0b, 1),
            _ => (byte, 0),
        };
        out.push(byte);
        text = &text[length..];
    }
    out
}

/// Metadata of one kernel. Sizes and alignments are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Name in the source.
    pub name: String,
    /// Symbol of the kernel descriptor, usually the name and `.kd`.
    pub symbol: String,
    /// Size of the kernarg segment, hidden arguments included.
    pub kernarg_size: u32,
    /// Alignment of the kernarg segment, a power of two.
    pub kernarg_alignment: u32,
    /// Static LDS of a workgroup.
    pub group_segment_size: u32,
    /// Static scratch of a work-item.
    pub private_segment_size: u32,
    /// 32 or 64 lanes.
    pub wavefront_size: u32,
    /// Largest number of work-items in a workgroup.
    pub max_flat_workgroup_size: u32,
    /// Workgroup size that the kernel was compiled for, if it was for one.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// Scalar registers of a wavefront.
    pub sgpr_count: u32,
    /// Vector registers of a work-item, accumulation registers included.
    pub vgpr_count: u32,
    /// True if scratch beyond `private_segment_size` may be needed.
    pub uses_dynamic_stack: bool,
    /// Arguments in ascending offset order, not overlapping, inside the kernarg segment.
    pub arguments: Vec<Argument>,
}

/// One kernel argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Name in the source; empty where the compiler dropped it.
    pub name: String,
    /// Offset in the kernarg segment in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Meaning of the bytes.
    pub value_kind: ValueKind,
    /// `.type_name`, the type in the source; empty where not stated.
    pub type_name: String,
    /// `.address_space` of a pointer, such as `global`; empty where not stated.
    pub address_space: String,
}

/// An argument's `.value_kind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueKind {
    /// Plain bytes.
    ByValue,
    /// A pointer to global memory.
    GlobalBuffer,
    /// A value that the runtime supplies (`hidden_block_count_x` and the like), by its full name.
    Hidden(String),
    /// Any other kind, by name: images, samplers, pipes, queues, dynamic LDS pointers.
    Other(String),
}

impl ValueKind {
    fn from_name(name: String) -> Self {
        match name.as_str() {
            "by_value" => Self::ByValue,
            "global_buffer" => Self::GlobalBuffer,
            hidden if hidden.starts_with("hidden_") => Self::Hidden(name),
            _ => Self::Other(name),
        }
    }

    /// Returns true if this is the hidden argument of the full name `name`.
    pub(crate) fn is_hidden(&self, name: &str) -> bool {
        matches!(self, Self::Hidden(own) if own == name)
    }
}

impl Metadata {
    /// Decodes a note's contents.
    pub fn parse(note: &[u8]) -> Result<Self> {
        if note.len() > MAX_NOTE_SIZE {
            let problem = format!("it has {} bytes; at most {MAX_NOTE_SIZE} are supported", note.len());
            return Err(Error::unsupported("AMDGPU metadata", problem));
        }
        let mut reader = note;
        let root = rmpv::decode::read_value_ref_with_max_depth(&mut reader, MAX_DEPTH)
            .map_err(|error| Error::malformed("AMDGPU metadata", format!("not MessagePack: {error}")))?;
        let root = Fields::new(&root, "AMDGPU metadata".into())?;
        let mut kernels = Vec::new();
        let mut symbols = HashSet::new();
        for (index, value) in root.array("amdhsa.kernels")?.iter().enumerate() {
            let kernel = parse_kernel(value, index)?;
            if !symbols.insert(kernel.symbol.clone()) {
                return Err(root.bad(&format!("two kernels have the symbol `{}`", kernel.symbol)));
            }
            kernels.push(kernel);
        }
        // A driver does not need them: invalid formats are left out.
        let format = |value: &ValueRef| match value {
            ValueRef::String(text) => PrintfFormat::parse(text.as_str()?),
            _ => None,
        };
        let printf = root.array("amdhsa.printf")?.iter().filter_map(format).collect();
        Ok(Self { target: root.string("amdhsa.target")?, kernels, printf })
    }
}

fn parse_kernel(value: &ValueRef, index: usize) -> Result<Kernel> {
    let mut fields = Fields::new(value, format!("AMDGPU metadata of kernel {index}"))?;
    let symbol = fields.required_string(".symbol")?;
    fields.what = format!("AMDGPU metadata of kernel `{}`", crate::target::quoted(&symbol));
    let name = fields.string(".name")?;
    let kernel = Kernel {
        name: name.unwrap_or_else(|| symbol.strip_suffix(".kd").unwrap_or(&symbol).to_owned()),
        symbol,
        kernarg_size: fields.required_u32(".kernarg_segment_size")?,
        kernarg_alignment: fields.required_u32(".kernarg_segment_align")?,
        group_segment_size: fields.required_u32(".group_segment_fixed_size")?,
        private_segment_size: fields.required_u32(".private_segment_fixed_size")?,
        wavefront_size: fields.required_u32(".wavefront_size")?,
        max_flat_workgroup_size: fields.required_u32(".max_flat_workgroup_size")?,
        required_workgroup_size: parse_workgroup_size(&fields)?,
        sgpr_count: fields.required_u32(".sgpr_count")?,
        vgpr_count: fields.required_u32(".vgpr_count")?,
        uses_dynamic_stack: fields.flag(".uses_dynamic_stack")?,
        arguments: fields.array(".args")?.iter().map(|arg| parse_argument(arg, &fields.what)).collect::<Result<_>>()?,
    };
    if !kernel.kernarg_alignment.is_power_of_two() {
        return Err(fields.bad(&format!("kernarg alignment {} is not a power of two", kernel.kernarg_alignment)));
    }
    if !matches!(kernel.wavefront_size, 32 | 64) {
        return Err(fields.bad(&format!("wavefront size {} is neither 32 nor 64", kernel.wavefront_size)));
    }
    let mut end = 0;
    for argument in &kernel.arguments {
        let (start, size) = (u64::from(argument.offset), u64::from(argument.size));
        if start < end || start + size > kernel.kernarg_size.into() {
            return Err(fields.bad(&format!(
                "the argument of {size} bytes at offset {start} overlaps another, is out of order or exceeds the \
                 kernarg segment of {} bytes",
                kernel.kernarg_size
            )));
        }
        end = start + size;
    }
    Ok(kernel)
}

fn parse_workgroup_size(fields: &Fields) -> Result<Option<[u32; 3]>> {
    let key = ".reqd_workgroup_size";
    let Some(value) = fields.get(key) else { return Ok(None) };
    let sizes = value.as_array().map(|array| array.iter().map(as_u32).collect::<Option<Vec<u32>>>());
    match sizes.flatten().as_deref() {
        Some(&[x, y, z]) if x != 0 && y != 0 && z != 0 => Ok(Some([x, y, z])),
        _ => Err(fields.bad(&format!("`{key}` is not an array of three positive numbers"))),
    }
}

fn parse_argument(value: &ValueRef, kernel: &str) -> Result<Argument> {
    let fields = Fields::new(value, format!("argument in {kernel}"))?;
    Ok(Argument {
        name: fields.string(".name")?.unwrap_or_default(),
        offset: fields.required_u32(".offset")?,
        size: fields.required_u32(".size")?,
        value_kind: ValueKind::from_name(fields.required_string(".value_kind")?),
        type_name: fields.string(".type_name")?.unwrap_or_default(),
        address_space: fields.string(".address_space")?.unwrap_or_default(),
    })
}

fn as_u32(value: &ValueRef) -> Option<u32> {
    value.as_u64().and_then(|number| number.try_into().ok())
}

/// A map with string keys, and its name in errors.
struct Fields<'v> {
    values: BTreeMap<&'v str, &'v ValueRef<'v>>,
    what: String,
}

impl<'v> Fields<'v> {
    fn new(value: &'v ValueRef<'v>, what: String) -> Result<Self> {
        let mut fields = Self { values: BTreeMap::new(), what };
        let ValueRef::Map(entries) = value else { return Err(fields.bad("not a map")) };
        for (key, value) in entries {
            let ValueRef::String(key) = key else { return Err(fields.bad("a key is not a string")) };
            let key = key.as_str().ok_or_else(|| fields.bad("a key is not UTF-8"))?;
            if fields.values.insert(key, value).is_some() {
                return Err(fields.bad(&format!("field `{}` is repeated", crate::target::quoted(key))));
            }
        }
        Ok(fields)
    }

    fn bad(&self, problem: &str) -> Error {
        Error::malformed(&*self.what, problem)
    }

    fn get(&self, key: &str) -> Option<&'v ValueRef<'v>> {
        self.values.get(key).copied()
    }

    /// The array of that name; empty if absent.
    fn array(&self, key: &str) -> Result<&'v [ValueRef<'v>]> {
        match self.get(key) {
            None => Ok(&[]),
            Some(ValueRef::Array(values)) => Ok(values),
            Some(_) => Err(self.bad(&format!("`{key}` is not an array"))),
        }
    }

    fn string(&self, key: &str) -> Result<Option<String>> {
        match self.get(key) {
            None => Ok(None),
            Some(ValueRef::String(text)) if text.is_str() => Ok(text.as_str().map(str::to_owned)),
            Some(_) => Err(self.bad(&format!("`{key}` is not a UTF-8 string"))),
        }
    }

    fn required_string(&self, key: &str) -> Result<String> {
        self.string(key)?
            .filter(|text| !text.is_empty())
            .ok_or_else(|| self.bad(&format!("`{key}` is missing or empty")))
    }

    fn required_u32(&self, key: &str) -> Result<u32> {
        self.get(key).and_then(as_u32).ok_or_else(|| self.bad(&format!("`{key}` is missing or not a 32-bit number")))
    }

    fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(ValueRef::Boolean(value)) => Ok(*value),
            Some(_) => Err(self.bad(&format!("`{key}` is not a boolean"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PrintfFormat;

    #[test]
    fn formats_have_sizes_and_escapes() {
        assert_eq!(
            PrintfFormat::parse(r"3:2:4:8:%d\72 %s\n"),
            Some(PrintfFormat { id: 3, sizes: vec![4, 8], text: b"%d: %s\n".to_vec() })
        );
        assert_eq!(PrintfFormat::parse("1:0:a:b").unwrap().text, b"a:b");
        for wrong in ["", "1", "1:1:4", "x:0:", "1:4294967295:4:a"] {
            assert_eq!(PrintfFormat::parse(wrong), None, "{wrong}");
        }
    }
}
