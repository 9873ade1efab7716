// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Output of buffers after the kernel's run: `2:f32`, `2=FILE`.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use crate::arguments::{Given, Type};

/// Numbers in a line of output.
const IN_LINE: usize = 8;

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
}

impl FromStr for Dump {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find([':', '=']).ok_or("expected N:TYPE or N=FILE, e.g. 2:f32")?;
        let (argument, rest) = (&text[..at], &text[at + 1..]);
        let argument = argument.parse().map_err(|_| format!("{argument} is no number of an argument"))?;
        let to = if text[at..].starts_with('=') {
            To::File(rest.into())
        } else {
            let (_, ty) = Type::named(rest).ok_or_else(|| format!("no type {rest}; there are {}", Type::names()))?;
            To::Numbers(ty)
        };
        Ok(Self { argument, to })
    }
}

impl Dump {
    /// Checks that the argument is a buffer.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self, given: &[Given]) -> Result<(), String> {
        match given.get(self.argument) {
            Some(Given::Buffer { .. }) => Ok(()),
            Some(Given::Value { .. }) => Err(format!("--dump: argument {} is no buffer", self.argument)),
            None => Err(format!("--dump: there is no argument {}", self.argument)),
        }
    }

    /// Prints the buffer's bytes, or writes them to the file.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, bytes: &[u8]) -> Result<(), String> {
        match &self.to {
            To::File(path) => fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display())),
            To::Numbers(ty) => {
                let text = format!("argument {}:\n{}", self.argument, lines(*ty, bytes));
                match io::stdout().write_all(text.as_bytes()) {
                    // Who reads has seen enough.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    result => result.map_err(|error| format!("standard output: {error}")),
                }
            }
        }
    }
}

/// Formats numbers, eight in a line after the index of the first. Ignores bytes at the end that are no whole number.
fn lines(ty: Type, bytes: &[u8]) -> String {
    let numbers: Vec<String> = bytes.chunks_exact(ty.size()).map(|bytes| ty.show(bytes)).collect();
    let line = |(at, numbers): (usize, &[String])| format!("{:>8}: {}\n", at * IN_LINE, numbers.join(" "));
    numbers.chunks(IN_LINE).enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_lines() {
        let bytes: Vec<u8> = (0..9_u32).flat_map(u32::to_le_bytes).chain([1]).collect();
        assert_eq!(lines(Type::U32, &bytes), "       0: 0 1 2 3 4 5 6 7\n       8: 8\n");
        assert_eq!(lines(Type::I8, &[255]), "       0: -1\n");
        assert_eq!(lines(Type::F32, &0.5_f32.to_le_bytes()), "       0: 0.5\n");
    }

    #[test]
    fn only_buffers_are_dumped() {
        let given = ["i32:1".parse().unwrap(), "buffer:4".parse().unwrap()];
        let check = |text: &str| text.parse::<Dump>()?.check(&given);
        assert_eq!([check("1:f32"), check("1=out.bin")], [Ok(()), Ok(())]);
        for wrong in ["0:f32", "2:f32", "1:half", "x:f32", "1"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
