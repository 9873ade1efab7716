// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Parser of a kernel's arguments on the command line: `i32:5`, `buffer:4096=zero`.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use random::Random;

/// One argument of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// Plain bytes; `of` is the type's name.
    Value { of: &'static str, bytes: Vec<u8> },
    /// Memory. The kernel gets its address.
    Buffer { size: usize, content: Content },
}

/// Initial contents of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Zero,
    /// 0, 1, 2 and so on.
    IotaF32,
    IotaU32,
    /// Numbers from -1 to 1 from a fixed seed.
    RandomF32,
    /// Bytes from a fixed seed.
    Random,
    /// Contents of a file, which must have the size of the buffer.
    File(PathBuf),
    /// Uninitialized.
    Undefined,
}

/// Types of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Type {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Type {
    const ALL: [(&'static str, Self, usize); 10] = [
        ("i8", Self::I8, 1),
        ("i16", Self::I16, 2),
        ("i32", Self::I32, 4),
        ("i64", Self::I64, 8),
        ("u8", Self::U8, 1),
        ("u16", Self::U16, 2),
        ("u32", Self::U32, 4),
        ("u64", Self::U64, 8),
        ("f32", Self::F32, 4),
        ("f64", Self::F64, 8),
    ];

    /// Returns the type of this name, with the name.
    pub fn named(name: &str) -> Option<(&'static str, Self)> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|&(name, ty, _)| (name, ty))
    }

    /// Names of the types, for messages.
    pub fn names() -> String {
        Self::ALL.map(|(name, ..)| name).join(", ")
    }

    /// Size in bytes.
    pub fn size(self) -> usize {
        Self::ALL.iter().find(|(_, ty, _)| *ty == self).map_or(0, |&(.., size)| size)
    }

    fn parse(self, text: &str) -> Option<Vec<u8>> {
        if matches!(self, Self::F32) {
            return Some(text.parse::<f32>().ok()?.to_le_bytes().to_vec());
        }
        if matches!(self, Self::F64) {
            return Some(text.parse::<f64>().ok()?.to_le_bytes().to_vec());
        }
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let number = sign * i128::from(unsigned(digits)?);
        let bits = 8 * self.size() as u32;
        let range = match self {
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => -(1_i128 << (bits - 1))..1_i128 << (bits - 1),
            _ => 0..1_i128 << bits,
        };
        range.contains(&number).then(|| number.to_le_bytes()[..self.size()].to_vec())
    }

    /// Formats the number that these bytes encode.
    pub fn show(self, bytes: &[u8]) -> String {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let number = u64::from_le_bytes(wide);
        match self {
            Self::I8 => (number as i8).to_string(),
            Self::I16 => (number as i16).to_string(),
            Self::I32 => (number as i32).to_string(),
            Self::I64 => (number as i64).to_string(),
            Self::F32 => f32::from_bits(number as u32).to_string(),
            Self::F64 => f64::from_bits(number).to_string(),
            _ => number.to_string(),
        }
    }
}

/// Parses a number, hexadecimal after `0x`.
fn unsigned(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').ok_or("expected TYPE:VALUE or buffer:SIZE, e.g. i32:5")?;
        if kind == "buffer" {
            return buffer(rest);
        }
        if kind == "bytes" {
            let pairs = rest.as_bytes().chunks(2).map(|pair| {
                let digits =
                    str::from_utf8(pair).ok().filter(|digits| digits.len() == 2 && !digits.starts_with('+'))?;
                u8::from_str_radix(digits, 16).ok()
            });
            let bytes = pairs.collect::<Option<Vec<u8>>>().ok_or("expected pairs of hexadecimal digits")?;
            return Ok(Self::Value { of: "bytes", bytes });
        }
        let (of, ty) = Type::named(kind)
            .ok_or_else(|| format!("no type {kind}; there are {}, bytes and buffer", Type::names()))?;
        let bytes = ty.parse(rest).ok_or_else(|| format!("{rest} is no {of}"))?;
        Ok(Self::Value { of, bytes })
    }
}

fn buffer(text: &str) -> Result<Given, String> {
    let (size, content) = text.split_once('=').unwrap_or((text, "undefined"));
    let size = unsigned(size).filter(|&size| size > 0 && size <= isize::MAX as u64);
    let size = size.ok_or("expected a buffer's size in bytes, e.g. buffer:4096")? as usize;
    let content = match content {
        "zero" => Content::Zero,
        "iota-f32" => Content::IotaF32,
        "iota-u32" => Content::IotaU32,
        "random-f32" => Content::RandomF32,
        "random" => Content::Random,
        "undefined" => Content::Undefined,
        other => match other.strip_prefix("file:") {
            Some(path) => Content::File(path.into()),
            None => {
                return Err(format!(
                    "no content {other}; there are zero, iota-f32, iota-u32, random-f32, random, file:PATH and undefined"
                ));
            }
        },
    };
    Ok(Given::Buffer { size, content })
}

impl Content {
    /// Returns the initial bytes of a buffer of this size; `None` if it stays uninitialized.
    ///
    /// # Errors
    /// When a file cannot be read, or has another size.
    pub fn bytes(&self, size: usize) -> Result<Option<Vec<u8>>, String> {
        let mut random = Random::new(1);
        let mut words = |word: &mut dyn FnMut(u32, &mut Random) -> u32| {
            let words = (0..size.div_ceil(4)).flat_map(|n| word(n as u32, &mut random).to_le_bytes());
            words.take(size).collect()
        };
        Ok(Some(match self {
            Self::Undefined => return Ok(None),
            Self::Zero => vec![0; size],
            Self::IotaF32 => words(&mut |n, _| (n as f32).to_bits()),
            Self::IotaU32 => words(&mut |n, _| n),
            Self::RandomF32 => {
                words(&mut |_, random| (random.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0).to_bits())
            }
            Self::Random => words(&mut |_, random| random.next()),
            Self::File(path) => {
                let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
                if bytes.len() != size {
                    return Err(format!("{} has {} bytes, its buffer {size}", path.display(), bytes.len()));
                }
                bytes
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_must_fit_their_type() {
        let bytes = |text: &str| match text.parse() {
            Ok(Given::Value { bytes, .. }) => Ok(bytes),
            Ok(buffer) => panic!("{buffer:?}"),
            Err(error) => Err(error),
        };
        assert_eq!(bytes("i32:-5"), Ok((-5_i32).to_le_bytes().to_vec()));
        assert_eq!(bytes("u16:0xffff"), Ok(vec![255, 255]));
        assert_eq!(bytes("i8:-128"), Ok(vec![128]));
        assert_eq!(bytes("u64:18446744073709551615"), Ok(vec![255; 8]));
        assert_eq!(bytes("f32:1.5"), Ok(1.5_f32.to_le_bytes().to_vec()));
        assert_eq!(bytes("bytes:00ff10"), Ok(vec![0, 255, 16]));
        for wrong in ["i8:128", "u8:-1", "i32:1.5", "f32:x", "bytes:0", "bytes:+1", "half:1", "5", "u32:"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn buffers_have_a_size_and_a_content() {
        let content = |text: &str| match text.parse().unwrap() {
            Given::Buffer { size, content } => content.bytes(size).unwrap(),
            value => panic!("{value:?}"),
        };
        assert_eq!(content("buffer:16"), None);
        assert_eq!(content("buffer:5=zero"), Some(vec![0; 5]));
        assert_eq!(content("buffer:8=iota-u32"), Some(vec![0, 0, 0, 0, 1, 0, 0, 0]));
        assert_eq!(content("buffer:8=iota-f32"), Some([[0; 4], 1_f32.to_le_bytes()].concat()));
        let numbers = content("buffer:4096=random-f32").unwrap();
        let numbers = numbers.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        assert!(numbers.clone().all(|number| (-1.0..1.0).contains(&number)));
        assert!(numbers.clone().any(|number| number < -0.9) && numbers.clone().any(|number| number > 0.9));
        for wrong in ["buffer:", "buffer:0", "buffer:x", "buffer:8=ones"] {
            assert!(wrong.parse::<Given>().is_err(), "{wrong}");
        }
        assert!(Content::File("/nonexistent".into()).bytes(4).is_err());
    }
}
