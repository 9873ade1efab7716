// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Arrays in NumPy's `.npy` files, as far as IREE's tools read and write them: little-endian, row-major; of elements
//! `f4`, `i4`, `i8`, or of any type as bytes.

use std::fs;
use std::io::Write;
use std::path::Path;

use npyz::{AutoSerialize, DType, NpyHeader, Order, WriteOptions, WriterBuilder};

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
        let written = fs::File::create(path).map(std::io::BufWriter::new).and_then(|mut file| {
            match &self.data {
                Data::F32(elements) => write(&self.shape, elements, &mut file)?,
                Data::I32(elements) => write(&self.shape, elements, &mut file)?,
                Data::I64(elements) => write(&self.shape, elements, &mut file)?,
            }
            file.flush()
        });
        written.context(|| format!("writing {}", path.display()))
    }
}

fn write<T: AutoSerialize + Copy>(shape: &[usize], elements: &[T], file: impl Write) -> std::io::Result<()> {
    let shape: Vec<_> = shape.iter().map(|count| *count as u64).collect();
    let mut writer = WriteOptions::new().default_dtype().shape(&shape).writer(file).begin_nd()?;
    writer.extend(elements.iter().copied())?;
    writer.finish()
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
    let mut rest = bytes;
    let header = NpyHeader::from_reader(&mut rest).map_err(|error| error.to_string())?;
    let shape: Vec<_> = header.shape().iter().map(|count| *count as usize).collect();
    // Either order is both for an array of one dimension or none, which NumPy may write as column-major.
    if header.order() == Order::Fortran && shape.len() > 1 {
        return Err("only row-major arrays are read".to_owned());
    }
    let dtype = header.dtype();
    let unread = || format!("element type {} is not read", dtype.descr());
    let DType::Plain(element) = &dtype else { return Err(unread()) };
    let text = element.to_string();
    let kind = text.strip_prefix(['<', '|']).ok_or_else(unread)?;
    let width = element.num_bytes().ok_or_else(unread)?;
    let size = shape.iter().try_fold(width, |product, &n| product.checked_mul(n)).ok_or("a shape that overflows")?;
    let elements = rest.get(..size).ok_or("truncated elements")?;
    let raw = Raw { shape, kind: kind.to_owned(), bytes: elements.to_vec() };
    Ok((raw, bytes.len() - rest.len() + size))
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
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 2147483648,), }\n";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        assert_eq!(parse(&bytes).unwrap_err(), "a shape that overflows");
    }
}
