// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Texts and data of a stopped workgroup, for every frontend.

use std::fmt::Write as _;
use std::fs;

use sim_wave::{Progresses, Stopped};

use crate::code::{Code, Position};
use crate::session::{Core, Reason};
use crate::values::{Expression, Form, Value, number};

/// Text of a workgroup's id.
pub fn workgroup([x, y, z]: [u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

/// Text of a stop's reason.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Entry => "The first kernel begins".into(),
        Reason::Breakpoints(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            format!("Breakpoint {}", numbers.join(", "))
        }
        // The finding itself has been printed.
        Reason::Finding(text) => format!("Finding: {}", text.lines().next().unwrap_or_default()),
        Reason::Fault(text) => format!("Fault: {text}"),
        Reason::Step => "Step".into(),
        Reason::Pause => "Paused".into(),
        Reason::Told(text) => text.clone(),
    }
}

/// Text of a line of a source file; `None` if the file cannot be read.
pub fn source_line(position: &Position) -> Option<String> {
    let text = fs::read_to_string(&*position.file).ok()?;
    text.lines().nth(position.line.checked_sub(1)? as usize).map(str::to_owned)
}

/// Kernel, workgroup and wave, then the source line, then the instruction.
pub fn place(core: &Core, at: &dyn Stopped, wave: u32) -> String {
    let name = core.code.as_ref().map_or("?", |code| code.name.as_str());
    let mut text = format!("kernel {name}, workgroup {}, wave {wave}", workgroup(at.workgroup()));
    match at.progress(wave) {
        Progresses::Runs => {}
        Progresses::Waits => text.push_str(", which waits at a barrier"),
        Progresses::Ended => text.push_str(", which has ended"),
    }
    text.push('\n');
    text + &where_(core, at, wave)
}

/// The source line and the instruction of a wave.
pub fn where_(core: &Core, at: &dyn Stopped, wave: u32) -> String {
    let mut text = String::new();
    if let Some(position) = core.position(at, wave) {
        let line = source_line(position).unwrap_or_default();
        let _ = writeln!(text, "{}:{}\t{}", position.file_name(), position.line, line.trim_end());
    }
    let code = core.code.as_deref();
    text + &code.map_or(String::new(), |code| listing(code, at.pc(wave), at.pc(wave), 1))
}

/// So many instructions from an address on, with `=>` before the one at `pc`. Empty if no instruction is at `from`.
pub fn listing(code: &Code, pc: u64, from: u64, count: usize) -> String {
    let mut text = String::new();
    let Some(first) = code.find(from) else { return format!("   {from:#x}  no instruction is known here\n") };
    let mut line: Option<&Position> = None;
    for instruction in code.instructions[first..].iter().take(count) {
        if count > 1
            && let Some(position) = instruction.position.as_ref().filter(|position| line != Some(position))
        {
            let source = source_line(position).unwrap_or_default();
            let _ = writeln!(text, "{}:{}\t{}", position.file_name(), position.line, source.trim_end());
            line = Some(position);
        }
        let mark = if instruction.pc == pc { "=>" } else { "  " };
        let _ = writeln!(text, "{mark} {:#x} (+{:#x})  {}", instruction.pc, instruction.offset, instruction.text);
    }
    text
}

/// A value as text. `exec` marks the lanes of a vector register that are active.
pub fn value(value: &Value, form: Form, exec: u64) -> String {
    match value {
        Value::One(value, bits) => form.text(*value, *bits),
        Value::Lanes(values, bits) => {
            let cells: Vec<String> = values.iter().map(|value| form.text(*value, *bits)).collect();
            let width = cells.iter().map(String::len).max().unwrap_or_default();
            let mut text = String::new();
            for (row, cells) in cells.chunks(8).enumerate() {
                let first = 8 * row;
                let _ = write!(
                    text,
                    "{}  lanes {first:2}-{:2}:",
                    if row == 0 { "" } else { "\n" },
                    first + cells.len() - 1
                );
                for (at, cell) in cells.iter().enumerate() {
                    let mark = if exec >> (first + at) & 1 == 0 { '~' } else { ' ' };
                    let _ = write!(text, " {mark}{cell:>width$}");
                }
            }
            text
        }
    }
}

/// Active lanes of a wave.
pub fn exec(at: &dyn Stopped, wave: u32) -> u64 {
    let dword = |register| at.scalar(wave, register).map(u64::from).unwrap_or_default();
    dword(126) | if at.lanes() > 32 { dword(127) << 32 } else { 0 }
}

/// Names of the scalar registers in order, with their expressions: special ones, then SGPRs.
pub fn scalars() -> impl Iterator<Item = String> {
    let special = ["pc", "exec", "vcc", "scc", "m0", "mode"].into_iter().map(str::to_owned);
    special.chain((0..106).map(|number| format!("s{number}")))
}

/// Names of the vector registers.
pub fn vectors(at: &dyn Stopped) -> impl Iterator<Item = String> + use<> {
    let (vectors, accumulations) = at.vector_registers();
    (0..vectors).map(|number| format!("v{number}")).chain((0..accumulations).map(|number| format!("a{number}")))
}

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Global memory.
    Global,
    /// The workgroup's LDS.
    Lds,
    /// Private memory of the chosen lane.
    Scratch,
}

impl Space {
    /// Prefix of the space before an address.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Global => "",
            Self::Lds => "lds:",
            Self::Scratch => "scratch:",
        }
    }
}

/// Evaluates an address: an expression, with `lds:` or `scratch:` before it for these.
pub fn address(core: &Core, at: &dyn Stopped, text: &str) -> Result<(Space, u64), String> {
    let spaces = [Space::Lds, Space::Scratch];
    let found = spaces.into_iter().find_map(|space| Some((space, text.strip_prefix(space.prefix())?)));
    let (space, text) = found.unwrap_or((Space::Global, text));
    Ok((space, Expression::parse(text)?.number(at, core.wave, core.lane)?))
}

/// Most bytes that are read at once.
const MOST: u64 = 1 << 20;

/// Reads memory.
pub fn read(core: &Core, at: &mut dyn Stopped, (space, address): (Space, u64), size: u64) -> Result<Vec<u8>, String> {
    if size > MOST {
        return Err(format!("{size} bytes are more than the {MOST} that are read at once"));
    }
    let part = |bytes: &[u8], name: &str| {
        let range = usize::try_from(address).ok().and_then(|start| Some(start..start.checked_add(size as usize)?));
        let part = range.and_then(|range| bytes.get(range)).map(<[u8]>::to_vec);
        part.ok_or_else(|| format!("{name} has {} bytes; {size} at {address:#x} are not in it", bytes.len()))
    };
    match space {
        Space::Global => at.read(address, size as u32),
        Space::Lds => part(at.lds(), "LDS of the workgroup"),
        Space::Scratch => part(&at.scratch(core.wave, core.lane), "scratch of the lane"),
    }
}

/// Numbers of memory as text, as `x/COUNT FORM UNIT ADDRESS` asks for. `words` are those behind the `x`.
pub fn examine(core: &Core, at: &mut dyn Stopped, words: &str) -> Result<String, String> {
    let (format, place) = match words.strip_prefix('/') {
        Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
        None => ("", words),
    };
    if place.trim().is_empty() {
        return Err("x/[COUNT][x|d|u|f|h|i][b|s|w|g] ADDRESS; for example x/8fw $s[4:5], x/16xw lds:0".into());
    }
    let digits = format.find(|c: char| !c.is_ascii_digit()).unwrap_or(format.len());
    let count = if digits == 0 { 1 } else { number(&format[..digits])? };
    let (mut form, mut size, mut is_code) = (Form::Hex, 4, false);
    for letter in format[digits..].chars() {
        match letter {
            'b' => size = 1,
            's' => size = 2,
            'w' => size = 4,
            'g' => size = 8,
            'i' => is_code = true,
            letter => form = Form::parse(&letter.to_string())?,
        }
    }
    let (space, address) = address(core, at, place.trim())?;
    if is_code {
        let code = core.code.as_deref().ok_or("no kernel")?;
        return Ok(listing(code, at.pc(core.wave), address, count.min(MOST) as usize));
    }
    let bytes = read(core, at, (space, address), count.checked_mul(size).ok_or("too many")?)?;
    let mut text = String::new();
    let per_line = (16 / size).max(1) as usize;
    for (line, numbers) in bytes.chunks(per_line * size as usize).enumerate() {
        let _ = write!(text, "{}{:#x}:", space.prefix(), address + 16 * line as u64);
        for bytes in numbers.chunks(size as usize) {
            let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            let _ = write!(text, "  {}", form.text(value, 8 * size as u32));
        }
        text.push('\n');
    }
    Ok(text)
}
