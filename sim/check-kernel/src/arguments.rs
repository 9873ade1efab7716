// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Parser of a kernel's arguments on the command line: `i32:5`, `buffer:4096=zero`, `local:1024`, `@x+16`.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use random::Random;

use crate::number::{Type, unsigned};

/// One argument of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// Plain bytes; `of` is the type's name.
    Value {
        /// Name of the type.
        of: &'static str,
        /// The number, little-endian.
        bytes: Vec<u8>,
    },
    /// Memory. The kernel gets its address.
    Buffer {
        /// Name by which other arguments and launches refer to it.
        name: Option<String>,
        /// Size in bytes.
        size: usize,
        /// Initial contents.
        content: Content,
    },
    /// An address in a buffer that an argument before has named.
    Alias {
        /// The buffer's name.
        name: String,
        /// Offset in bytes.
        offset: usize,
    },
    /// LDS in addition to the kernel's own, for a pointer to it.
    Local {
        /// Size in bytes.
        size: u32,
    },
}

/// Initial contents of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Zeros.
    Zero,
    /// 0, 1, 2 and so on, as floating-point numbers.
    IotaF32,
    /// 0, 1, 2 and so on, as integers.
    IotaU32,
    /// Numbers from -1 to 1 from a fixed seed.
    RandomF32,
    /// Bytes from a fixed seed.
    Random,
    /// Contents of a file, which must have the size of the buffer.
    File(PathBuf),
    /// Elements of an `.npy` file, which must have the size of the buffer.
    Npy(PathBuf),
    /// Bytes that are repeated.
    Repeated(Vec<u8>),
    /// Uninitialized.
    Undefined,
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(named) = text.strip_prefix('@') {
            return named_buffer(named);
        }
        let (kind, rest) = text.split_once(':').ok_or("expected TYPE:VALUE or buffer:SIZE, e.g. i32:5")?;
        if matches!(kind, "buffer" | "npy") {
            return buffer(text, None);
        }
        if kind == "local" {
            let size = unsigned(rest).and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
            return size.map(|size| Self::Local { size }).ok_or("expected bytes of LDS, e.g. local:1024".into());
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
            .ok_or_else(|| format!("no type {kind}; there are {}, bytes, buffer, npy and local", Type::names()))?;
        let bytes = ty.parse(rest).ok_or_else(|| format!("{rest} is not of type {of}"))?;
        Ok(Self::Value { of, bytes })
    }
}

/// Parses `NAME=buffer:SIZE`, `NAME` or `NAME+OFFSET`, after the `@`.
fn named_buffer(text: &str) -> Result<Given, String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let wrong = "expected @NAME=buffer:SIZE, @NAME or @NAME+OFFSET";
    if let Some((name, of)) = text.split_once('=') {
        return if is_name(name) { buffer(of, Some(name.to_owned())) } else { Err(wrong.into()) };
    }
    let (name, offset) = text.split_once('+').unwrap_or((text, "0"));
    match unsigned(offset) {
        Some(offset) if is_name(name) => Ok(Given::Alias { name: name.to_owned(), offset: offset as usize }),
        _ => Err(wrong.into()),
    }
}

/// Parses `buffer:SIZE`, `buffer:SIZE=CONTENT` or `npy:PATH`. The file of the last is read for its size.
fn buffer(text: &str, name: Option<String>) -> Result<Given, String> {
    if let Some(path) = text.strip_prefix("npy:") {
        let content = Content::Npy(path.into());
        let size = read_npy(Path::new(path))?.len();
        return if size > 0 { Ok(Given::Buffer { name, size, content }) } else { Err(format!("{path} is empty")) };
    }
    let text = text.strip_prefix("buffer:").ok_or("expected buffer:SIZE or npy:PATH")?;
    let (size, content) = text.split_once('=').unwrap_or((text, "undefined"));
    let size = unsigned(size).filter(|&size| size > 0 && size <= isize::MAX as u64);
    let size = size.ok_or("expected a buffer's size in bytes, e.g. buffer:4096")? as usize;
    Ok(Given::Buffer { name, size, content: content.parse()? })
}

fn read_npy(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    npy::parse(&bytes).map(|array| array.elements.to_vec()).map_err(|error| format!("{}: {error}", path.display()))
}

impl FromStr for Content {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "zero" => Self::Zero,
            "iota-f32" => Self::IotaF32,
            "iota-u32" => Self::IotaU32,
            "random-f32" => Self::RandomF32,
            "random" => Self::Random,
            "undefined" => Self::Undefined,
            other => match other.split_once(':') {
                Some(("file", path)) => Self::File(path.into()),
                Some(("npy", path)) => Self::Npy(path.into()),
                Some((kind, numbers)) if Type::named(kind).is_some() => {
                    let (of, ty) = Type::named(kind).unwrap_or(("u8", Type::U8));
                    let parse = |text: &str| ty.parse(text).ok_or_else(|| format!("{text} is not of type {of}"));
                    Self::Repeated(numbers.split(',').map(parse).collect::<Result<Vec<_>, _>>()?.concat())
                }
                _ => {
                    return Err(format!(
                        "no content {other}; there are zero, iota-f32, iota-u32, random-f32, random, file:PATH, \
                         npy:PATH, TYPE:NUMBER,NUMBER… and undefined"
                    ));
                }
            },
        })
    }
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
            Self::Repeated(bytes) => bytes.iter().copied().cycle().take(size).collect(),
            Self::Npy(path) => {
                let bytes = read_npy(path)?;
                if bytes.len() != size {
                    return Err(format!("{} has {} bytes of elements, its buffer {size}", path.display(), bytes.len()));
                }
                bytes
            }
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
        assert_eq!(bytes("f16:-2"), Ok(vec![0, 0xc0]));
        assert_eq!(bytes("bf16:1"), Ok(vec![0x80, 0x3f]));
        for wrong in ["i8:128", "u8:-1", "i32:1.5", "f32:x", "bytes:0", "bytes:+1", "half:1", "5", "u32:"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn buffers_have_a_size_and_a_content() {
        let content = |text: &str| match text.parse().unwrap() {
            Given::Buffer { size, content, .. } => content.bytes(size).unwrap(),
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
        assert_eq!(content("buffer:5=u16:1,0x203"), Some(vec![1, 0, 3, 2, 1]));
        for wrong in ["buffer:", "buffer:0", "buffer:x", "buffer:8=ones", "buffer:8=u8:256", "npy:/nonexistent"] {
            assert!(wrong.parse::<Given>().is_err(), "{wrong}");
        }
        assert!(Content::File("/nonexistent".into()).bytes(4).is_err());
    }

    #[test]
    fn buffers_have_names() {
        let given = |text: &str| text.parse::<Given>();
        let content = Content::Undefined;
        assert_eq!(given("@x=buffer:16"), Ok(Given::Buffer { name: Some("x".into()), size: 16, content }));
        assert_eq!(given("@x+0x10"), Ok(Given::Alias { name: "x".into(), offset: 16 }));
        assert_eq!(given("@x"), Ok(Given::Alias { name: "x".into(), offset: 0 }));
        assert_eq!(given("local:64"), Ok(Given::Local { size: 64 }));
        for wrong in ["@", "@x+", "@=buffer:4", "@x=i32:4", "local:0", "local:x"] {
            assert!(given(wrong).is_err(), "{wrong}");
        }
    }
}
