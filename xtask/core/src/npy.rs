// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Arrays in NumPy's `.npy` files, as far as IREE's tools read and write them: of elements `f4`, `i4`, `i8`, or of any
//! type as bytes.

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
        let npy::Array { shape, kind, elements, .. } = parse(&bytes, path)?;
        Ok(Self { shape, kind: kind.to_owned(), bytes: elements.to_vec() })
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
            let array = parse(rest, path)?;
            let data = match array.kind {
                "f4" => Data::F32(elements(array.elements, f32::from_le_bytes)),
                "i4" => Data::I32(elements(array.elements, i32::from_le_bytes)),
                "i8" => Data::I64(elements(array.elements, i64::from_le_bytes)),
                other => return Err(Error::setup(format!("{}: element type {other} is not read", path.display()))),
            };
            arrays.push(Self { shape: array.shape, data });
            rest = array.rest;
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
        let bytes = npy::file(dtype, &self.shape, &elements);
        fs::write(path, bytes).context(|| format!("writing {}", path.display()))
    }
}

fn parse<'a>(bytes: &'a [u8], path: &Path) -> Result<npy::Array<'a>> {
    npy::parse(bytes).map_err(|what| Error::setup(format!("{}: {what}", path.display())))
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
}
