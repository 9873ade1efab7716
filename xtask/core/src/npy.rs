// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Arrays in NumPy's `.npy` files, as far as IREE's tools read and write them: little-endian, row-major; of elements
//! `f4`, `i4`, `i8`, or of any type as bytes. Format:
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
//!
//! IREE's reader takes no blank behind the last comma of a shape. The crate `npyz` writes one, so this is our own.

use std::fs;
use std::path::Path;

use crate::error::{Context, Error, Result};

/// The elements of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// `<f4`
    F32(Vec<f32>),
    /// `<i4`
    I32(Vec<i32>),
    /// `<i8`
    I64(Vec<i64>),
}

/// An array: its dimensions and its elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Dimensions, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// As many elements as the product of `shape`.
    pub data: Data,
}

/// An array whose elements are left as the file has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// As [`Array::shape`].
    pub shape: Vec<usize>,
    /// NumPy's name of the element type without the byte order, e.g. `f4`.
    pub kind: String,
    /// The elements, little-endian.
    pub bytes: Vec<u8>,
}

impl Raw {
    /// Reads the first array of a file.
    ///
    /// # Errors
    /// When the file cannot be read or is not of this kind.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).context(|| format!("reading {}", path.display()))?;
        let raw = parse_raw(&bytes).map_err(|what| Error::setup(format!("{}: {what}", path.display())))?;
        Ok(raw.0)
    }
}

impl Array {
    /// Reads a file that holds one array or several, one after the other.
    ///
    /// # Errors
    /// When the file cannot be read or is not of this kind.
    pub fn read_all(path: &Path) -> Result<Vec<Self>> {
        let bytes = fs::read(path).context(|| format!("reading {}", path.display()))?;
        let mut rest = bytes.as_slice();
        let mut arrays = Vec::new();
        while !rest.is_empty() {
            let (array, size) = parse(rest).map_err(|what| Error::setup(format!("{}: {what}", path.display())))?;
            arrays.push(array);
            rest = &rest[size..];
        }
        Ok(arrays)
    }

    /// Writes a file with this array.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let (dtype, elements) = match &self.data {
            Data::F32(v) => ("<f4", v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()),
            Data::I32(v) => ("<i4", v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Data::I64(v) => ("<i8", v.iter().flat_map(|x| x.to_le_bytes()).collect()),
        };
        let shape: String = self.shape.iter().map(|n| format!("{n},")).collect();
        let mut header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}), }}");
        // Magic, version and length take 10 bytes; the whole is a multiple of 64.
        let padding = 63 - (10 + header.len()) % 64;
        header.push_str(&" ".repeat(padding));
        header.push('\n');
        let length = u16::try_from(header.len()).map_err(|_| Error::setup("an array of too many dimensions"))?;
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(elements);
        fs::write(path, bytes).context(|| format!("writing {}", path.display()))
    }
}

/// The array at the start of `bytes` and how many bytes it takes.
fn parse(bytes: &[u8]) -> std::result::Result<(Array, usize), String> {
    let (Raw { shape, kind, bytes }, size) = parse_raw(bytes)?;
    let data = match kind.as_str() {
        "f4" => Data::F32(elements(&bytes, f32::from_le_bytes)),
        "i4" => Data::I32(elements(&bytes, i32::from_le_bytes)),
        "i8" => Data::I64(elements(&bytes, i64::from_le_bytes)),
        other => return Err(format!("element type {other} is not read")),
    };
    Ok((Array { shape, data }, size))
}

/// As [`parse`], for elements of any type.
fn parse_raw(bytes: &[u8]) -> std::result::Result<(Raw, usize), String> {
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("not an npy file")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or("truncated")?;
    let (header_size, rest) = match version[0] {
        1 => {
            let (size, rest) = rest.split_first_chunk().ok_or("truncated")?;
            (usize::from(u16::from_le_bytes(*size)), rest)
        }
        2 | 3 => {
            let (size, rest) = rest.split_first_chunk().ok_or("truncated")?;
            (u32::from_le_bytes(*size) as usize, rest)
        }
        other => return Err(format!("unknown npy version {other}")),
    };
    let header = rest.get(..header_size).ok_or("truncated header")?;
    let header = std::str::from_utf8(header).map_err(|error| error.to_string())?;
    let rest = &rest[header_size..];
    let shape = parse_shape(header)?;
    // Either order is both for an array of one dimension or none, which NumPy may write as column-major.
    if !header.contains("'fortran_order': False") && shape.len() > 1 {
        return Err("only row-major arrays are read".to_owned());
    }
    let descr = after(header, "'descr': '")?.split('\'').next().unwrap_or_default();
    let kind = descr.strip_prefix(['<', '|']).ok_or_else(|| format!("element type {descr} is not read"))?;
    let width = kind.get(1..).and_then(|digits| digits.parse::<usize>().ok());
    let width = width.ok_or_else(|| format!("element type {descr} is not read"))?;
    let size = shape.iter().try_fold(width, |product, &n| product.checked_mul(n)).ok_or("a shape that overflows")?;
    let elements = rest.get(..size).ok_or("truncated elements")?;
    let raw = Raw { shape, kind: kind.to_owned(), bytes: elements.to_vec() };
    Ok((raw, bytes.len() - rest.len() + size))
}

fn after<'a>(header: &'a str, key: &str) -> std::result::Result<&'a str, String> {
    let found = header.split_once(key).map(|(_, rest)| rest);
    found.ok_or_else(|| format!("the header lacks {key}"))
}

fn parse_shape(header: &str) -> std::result::Result<Vec<usize>, String> {
    let inside = after(header, "'shape': (")?.split(')').next().unwrap_or_default();
    let parts = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_err(|_| format!("shape ({inside})"))).collect()
}

/// Elements of `N` bytes each.
pub fn elements<T, const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| convert(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_survive_a_round_trip() {
        let path = std::env::temp_dir().join(format!("xtask-npy-{}.npy", std::process::id()));
        for array in [
            Array { shape: vec![2, 3], data: Data::F32(vec![0.0, -1.5, 2.0, f32::MAX, 1e-40, 7.0]) },
            Array { shape: vec![], data: Data::I32(vec![-5]) },
            Array { shape: vec![0, 4], data: Data::I64(vec![]) },
        ] {
            array.write(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap()[8..10], [118, 0], "the header is padded");
            assert_eq!(Array::read_all(&path).unwrap(), std::slice::from_ref(&array));
            assert_eq!(Raw::read(&path).unwrap().shape, array.shape);
            let twice = [fs::read(&path).unwrap(), fs::read(&path).unwrap()].concat();
            fs::write(&path, twice).unwrap();
            assert_eq!(Array::read_all(&path).unwrap(), [array.clone(), array]);
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn every_truncation_is_an_error() {
        let path = std::env::temp_dir().join(format!("xtask-npy-cut-{}.npy", std::process::id()));
        Array { shape: vec![3], data: Data::I32(vec![1, 2, 3]) }.write(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(path).unwrap();
        assert!(parse(&bytes).is_ok());
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_hostile_shape_is_an_error() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2,), }\n";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        assert_eq!(parse(&bytes).unwrap_err(), "a shape that overflows");
    }
}
