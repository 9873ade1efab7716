// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Instructions of a kernel, with their source lines.

use std::sync::Arc;

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Path of the file, as the compiler has recorded it.
    pub file: Arc<str>,
    /// Line, counted from 1.
    pub line: u32,
}

impl Position {
    /// Name of the file without its folders.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or_default()
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Address of the instruction.
    pub pc: u64,
    /// Offset from the beginning of the code.
    pub offset: u32,
    /// Assembly.
    pub text: String,
    /// Source line, if the code object has debug information for it.
    pub position: Option<Position>,
}

impl Instruction {
    /// True for calls, which store their return address.
    pub(crate) fn is_call(&self) -> bool {
        ["s_swappc_b64", "s_swap_pc_i64", "s_call_b64", "s_call_i64"].iter().any(|name| self.text.starts_with(name))
    }
}

/// A kernel's code, with that of the functions that it calls.
#[derive(Clone, Debug)]
pub struct Code {
    /// The kernel's name.
    pub name: String,
    /// Address of its first instruction.
    pub entry: u64,
    /// Instructions that can be reached, by address.
    pub instructions: Vec<Instruction>,
}

impl Code {
    /// The index of the instruction at an address.
    pub fn find(&self, pc: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&pc, |instruction| instruction.pc).ok()
    }

    /// The instruction at an address.
    pub fn at(&self, pc: u64) -> Option<&Instruction> {
        self.find(pc).map(|index| &self.instructions[index])
    }

    /// The source line of the instruction at an address.
    pub fn position(&self, pc: u64) -> Option<&Position> {
        self.at(pc)?.position.as_ref()
    }

    /// Address of the first instruction of a line, or of the next line that has one, and that line. `file` is a path or
    /// its end; `None` is the file of the first instruction that has one.
    pub fn line(&self, file: Option<&str>, line: u32) -> Option<(u64, Position)> {
        let first = self.at(self.entry).and_then(|entry| entry.position.as_ref());
        let first = first.or_else(|| self.instructions.iter().find_map(|it| it.position.as_ref()))?;
        let is_in = |position: &Position| match file {
            None => position.file == first.file,
            Some(file) => is_end_of(file, &position.file) || is_end_of(&position.file, file),
        };
        let positions = self.instructions.iter().filter_map(|it| Some((it.pc, it.position.as_ref()?)));
        let (pc, position) = positions
            .filter(|(_, position)| position.line >= line && is_in(position))
            .min_by_key(|(pc, position)| (position.line, *pc))?;
        Some((pc, position.clone()))
    }
}

/// True if a path is the end of another one: compilers record relative paths, users give names.
fn is_end_of(end: &str, path: &str) -> bool {
    let (end, path) = (end.trim_start_matches("./"), path.trim_start_matches("./"));
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Instructions of four bytes from 0x100 on, on these lines of `/src/a.c`.
    pub(crate) fn code(lines: &[Option<u32>]) -> Code {
        let file: Arc<str> = "/src/a.c".into();
        let instruction = |(index, line): (usize, &Option<u32>)| Instruction {
            pc: 0x100 + 4 * index as u64,
            offset: 4 * index as u32,
            text: "s_nop 0".into(),
            position: line.map(|line| Position { file: file.clone(), line }),
        };
        let instructions = lines.iter().enumerate().map(instruction).collect();
        Code { name: "kernel".into(), entry: 0x100, instructions }
    }

    #[test]
    fn a_line_without_code_stands_for_the_next_one_that_has_some() {
        let code = code(&[Some(3), Some(7), None, Some(5), Some(7)]);
        let find = |file, line| code.line(file, line).map(|(pc, position)| (pc, position.line));
        assert_eq!(find(None, 7), Some((0x104, 7)));
        assert_eq!(find(Some("a.c"), 4), Some((0x10c, 5)));
        assert_eq!(find(Some("/src/a.c"), 1), Some((0x100, 3)));
        assert_eq!(find(Some("src/a.c"), 8), None);
        assert_eq!(find(Some("/home/src/a.c"), 3), None);
        assert_eq!(find(Some("b.c"), 3), None);
        assert_eq!(find(Some(".c"), 3), None);
        assert!(is_end_of("./a.c", "/src/a.c") && !is_end_of("a.c", "/src/ba.c"));
    }
}
