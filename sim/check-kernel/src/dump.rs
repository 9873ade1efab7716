// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Buffers after a launch: output (`2:f32`, `2=FILE`, `2:f32=FILE.npy`), and comparison (`2:f32=1,2,3`,
//! `2:f32=npy:FILE`).

use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use crate::arguments::{Content, Given};
use crate::number::Type;

/// Numbers in a line of output.
const IN_LINE: usize = 8;

/// Differences to show of a buffer.
const SHOWN: usize = 8;

/// A buffer to print, or to write to a file.
#[derive(Clone, Debug)]
pub struct Dump {
    /// Index of the argument, counted from 0.
    pub argument: usize,
    to: To,
}

#[derive(Clone, Debug)]
enum To {
    Numbers(Type),
    File(PathBuf),
    Npy(Type, PathBuf),
}

fn argument(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text} is not the number of an argument"))
}

fn type_named(name: &str) -> Result<Type, String> {
    Type::named(name).map(|(_, ty)| ty).ok_or_else(|| format!("no type {name}; there are {}", Type::names()))
}

impl FromStr for Dump {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (of, path) = text.split_once('=').map_or((text, None), |(of, path)| (of, Some(PathBuf::from(path))));
        let (number, ty) = of.split_once(':').map_or((of, None), |(number, ty)| (number, Some(ty)));
        let argument = argument(number)?;
        let is_npy = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "npy");
        let to = match (ty.map(type_named).transpose()?, path) {
            (Some(ty), None) => To::Numbers(ty),
            (Some(ty), Some(path)) if is_npy(&path) => To::Npy(ty, path),
            (None, Some(path)) if !is_npy(&path) => To::File(path),
            (None, Some(_)) => return Err(format!("an .npy file has a type, e.g. {argument}:f32=out.npy")),
            _ => return Err("expected N:TYPE, N=FILE or N:TYPE=FILE.npy, e.g. 2:f32".into()),
        };
        Ok(Self { argument, to })
    }
}

/// Checks that an argument of an option is a buffer.
///
/// # Errors
/// When it is not.
pub fn check(option: &str, argument: usize, given: &[Given]) -> Result<(), String> {
    match given.get(argument) {
        Some(Given::Buffer { .. } | Given::Alias { .. }) => Ok(()),
        Some(_) => Err(format!("{option}: argument {argument} is not a buffer")),
        None => Err(format!("{option}: there is no argument {argument}")),
    }
}

impl Dump {
    /// Prints the buffer's bytes, or writes them to the file. Numbers with bytes in `unwritten` are printed as `-`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, bytes: &[u8], unwritten: &[Range<usize>]) -> Result<(), String> {
        let to_file =
            |path: &PathBuf, bytes| fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()));
        match &self.to {
            To::File(path) => to_file(path, bytes),
            To::Npy(ty, path) => {
                let numbers = whole(*ty, bytes);
                to_file(path, &npy::file(ty.numpy(), &[numbers.len() / ty.size()], numbers))
            }
            To::Numbers(ty) => {
                let text = format!("argument {}:\n{}", self.argument, lines(*ty, bytes, unwritten));
                match io::stdout().write_all(text.as_bytes()) {
                    // A reader such as `head` has seen enough.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    result => result.map_err(|error| format!("standard output: {error}")),
                }
            }
        }
    }
}

/// The bytes without those at the end that are no whole number.
fn whole(ty: Type, bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() / ty.size() * ty.size()]
}

/// Formats numbers, eight in a line after the index of the first.
fn lines(ty: Type, bytes: &[u8], unwritten: &[Range<usize>]) -> String {
    let mut rest = unwritten.iter().peekable();
    let numbers = whole(ty, bytes).chunks_exact(ty.size()).enumerate().map(|(index, number)| {
        let at = index * ty.size();
        while rest.next_if(|range| range.end <= at).is_some() {}
        if rest.peek().is_some_and(|range| range.start < at + ty.size()) { "-".to_owned() } else { ty.show(number) }
    });
    let numbers: Vec<String> = numbers.collect();
    let line = |(at, numbers): (usize, &[String])| format!("{:>8}: {}\n", at * IN_LINE, numbers.join(" "));
    numbers.chunks(IN_LINE).enumerate().map(line).collect()
}

/// Describes the uninitialized bytes of an argument's buffer; `None` if there are none.
pub fn uninitialized(argument: usize, size: usize, unwritten: &[Range<usize>]) -> Option<String> {
    let first = unwritten.first()?;
    let count: usize = unwritten.iter().map(ExactSizeIterator::len).sum();
    let parts = if unwritten.len() > 1 { format!(", in {} parts", unwritten.len()) } else { String::new() };
    Some(format!(
        "result: argument {argument} has {count} uninitialized bytes of {size}, the first at {:#x}{parts}: never \
         written, or written with uninitialized data",
        first.start
    ))
}

/// Contents that a buffer must have.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Index of the argument, counted from 0.
    pub argument: usize,
    ty: Type,
    content: Content,
}

impl FromStr for Expect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(of, wanted)| Some((of.split_once(':')?, wanted)));
        let Some(((number, name), wanted)) = parts else {
            return Err("expected N:TYPE=CONTENT, e.g. 2:f32=1,2,3 or 2:f32=npy:PATH".into());
        };
        let (argument, ty) = (argument(number)?, type_named(name)?);
        // A list of numbers, else a content as that of a buffer.
        let content = format!("{name}:{wanted}").parse().or_else(|_| wanted.parse::<Content>())?;
        if content == Content::Undefined {
            return Err("undefined contents cannot be expected".into());
        }
        Ok(Self { argument, ty, content })
    }
}

impl Expect {
    /// Compares a buffer's bytes. Returns the description of the differences; `None` if there are none.
    ///
    /// # Errors
    /// When a file cannot be read, or has another size.
    pub fn differences(&self, bytes: &[u8], tolerance: f64) -> Result<Option<String>, String> {
        let Some(wanted) = self.content.bytes(bytes.len())? else { return Ok(None) };
        let size = self.ty.size();
        let pairs = bytes.chunks_exact(size).zip(wanted.chunks_exact(size)).enumerate();
        let differing: Vec<_> = pairs.filter(|(_, (got, wanted))| self.ty.differ(got, wanted, tolerance)).collect();
        if differing.is_empty() {
            return Ok(None);
        }
        let (count, all) = (differing.len(), bytes.len() / size);
        let mut text = format!("expected: argument {}: {count} of {all} numbers differ", self.argument);
        for (index, (got, wanted)) in differing.into_iter().take(SHOWN) {
            text += &format!("\n  [{index}] is {}, expected {}", self.ty.show(got), self.ty.show(wanted));
        }
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_lines() {
        let bytes: Vec<u8> = (0..9_u32).flat_map(u32::to_le_bytes).chain([1]).collect();
        assert_eq!(lines(Type::U32, &bytes, &[]), "       0: 0 1 2 3 4 5 6 7\n       8: 8\n");
        assert_eq!(lines(Type::I8, &[255], &[]), "       0: -1\n");
        assert_eq!(lines(Type::F32, &0.5_f32.to_le_bytes(), &[]), "       0: 0.5\n");
        assert_eq!(lines(Type::F16, &[0, 0x38], &[]), "       0: 0.5\n");
        assert_eq!(lines(Type::U32, &bytes, &[3..5, 8..9, 32..37]), "       0: - - - 3 4 5 6 7\n       8: -\n");
    }

    #[test]
    fn only_buffers_are_dumped() {
        let given = ["i32:1".parse().unwrap(), "buffer:4".parse().unwrap(), "local:4".parse().unwrap()];
        let check = |text: &str| check("--dump", text.parse::<Dump>()?.argument, &given);
        assert_eq!([check("1:f32"), check("1=out.bin"), check("1:f16=out.npy")], [Ok(()), Ok(()), Ok(())]);
        for wrong in ["0:f32", "2:f32", "3:f32", "1:half", "x:f32", "1", "1=out.npy", "1:f32=out.bin"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn differences_are_shown() {
        let differences = |text: &str, bytes: &[u8]| text.parse::<Expect>().unwrap().differences(bytes, 0.0);
        assert_eq!(differences("1:u16=1,2", &[1, 0, 2, 0, 1, 0]), Ok(None));
        assert_eq!(differences("1:u32=iota-u32", &[0, 0, 0, 0, 1, 0, 0, 0]), Ok(None));
        let text = "expected: argument 1: 2 of 3 numbers differ\n  [0] is 1, expected 0\n  [2] is 3, expected 0";
        assert_eq!(differences("1:u8=zero", &[1, 0, 3]), Ok(Some(text.into())));
        assert!(differences("1:u8=file:/nonexistent", &[1]).is_err());
        for wrong in ["1:u8", "1=zero", "x:u8=1", "1:u8=256", "1:u8=undefined"] {
            assert!(wrong.parse::<Expect>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn uninitialized_bytes_are_counted() {
        let text = uninitialized(2, 100, &[4..8, 96..100]).unwrap();
        assert!(text.contains("argument 2 has 8 uninitialized bytes of 100, the first at 0x4, in 2 parts"), "{text}");
        assert_eq!(uninitialized(2, 100, &[]), None);
    }
}
