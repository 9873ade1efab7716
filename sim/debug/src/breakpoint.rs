// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Breakpoints, and the instructions that they mean in a kernel.

use std::fmt;

use sim_wave::Event;

use crate::code::{Code, Position};
use crate::values::{Expression, number};

/// Place of a breakpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Beginning of each dispatch of a kernel whose name has this in it.
    Kernel(String),
    /// An address.
    Address(u64),
    /// An offset in the code.
    Offset(u32),
    /// A line of a file, or of the file that the kernel begins in.
    Line(Option<String>, u32),
    /// A finding of the checks.
    Finding,
}

/// A breakpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakpoint {
    /// Number of the breakpoint, from 1 on.
    pub number: u32,
    /// Place of the breakpoint.
    pub place: Place,
    /// Only waves of this workgroup stop.
    pub workgroup: Option<[u32; 3]>,
    /// Only waves of this number in their workgroups stop.
    pub wave: Option<u32>,
    /// Condition, and its text.
    pub condition: Option<(Expression, String)>,
    /// Deleted by the first stop.
    pub is_temporary: bool,
    /// Number of stops.
    pub hits: u64,
}

/// Parses `X:Y:Z`. Omitted numbers are 0.
pub fn workgroup(text: &str) -> Result<[u32; 3], String> {
    let wrong = || format!("{text:?}: expected X:Y:Z, the number of a workgroup in each dimension");
    let mut id = [0; 3];
    for (at, part) in text.split(':').enumerate() {
        *id.get_mut(at).ok_or_else(wrong)? = part.parse().map_err(|_| wrong())?;
    }
    Ok(id)
}

impl Breakpoint {
    /// Parses `PLACE [workgroup=X:Y:Z] [wave=N] [if EXPRESSION]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, condition) = match text.split_once(" if ") {
            Some((text, condition)) => (text, Some((Expression::parse(condition)?, condition.trim().to_owned()))),
            None => (text, None),
        };
        let (mut group, mut wave, mut place) = (None, None, None);
        for word in text.split_whitespace() {
            if let Some(id) = word.strip_prefix("workgroup=") {
                group = Some(workgroup(id)?);
            } else if let Some(number) = word.strip_prefix("wave=") {
                wave = Some(number.parse().map_err(|_| format!("{word}: expected wave=N"))?);
            } else if place.replace(Place::parse(word)?).is_some() {
                return Err(format!("{word:?}: a breakpoint has one place"));
            }
        }
        Ok(Self { workgroup: group, wave, condition, ..Self::new(place.ok_or(PLACES)?) })
    }

    /// A breakpoint without a number, for all waves.
    pub fn new(place: Place) -> Self {
        Self { number: 0, place, workgroup: None, wave: None, condition: None, is_temporary: false, hits: 0 }
    }

    /// Address of its instruction in a kernel; `None` if it has none there.
    pub fn resolve(&self, code: &Code) -> Option<u64> {
        match &self.place {
            Place::Kernel(_) | Place::Finding => None,
            Place::Address(pc) => code.find(*pc).map(|_| *pc),
            Place::Offset(offset) => code.instructions.iter().find(|it| it.offset == *offset).map(|it| it.pc),
            Place::Line(file, line) => code.line(file.as_deref(), *line).map(|(pc, _)| pc),
        }
    }

    /// The line at which it stops in a kernel.
    pub fn position(&self, code: &Code) -> Option<Position> {
        code.position(self.resolve(code)?).cloned()
    }

    /// True if it is for the wave of the event.
    pub fn is_for(&self, event: &Event) -> bool {
        self.workgroup.is_none_or(|group| group == event.workgroup) && self.wave.is_none_or(|wave| wave == event.wave)
    }
}

const PLACES: &str =
    "a place is KERNEL (part of its name), LINE, FILE:LINE, *ADDRESS, +OFFSET (in the code) or `finding`";

impl Place {
    fn parse(word: &str) -> Result<Self, String> {
        if let Some(address) = word.strip_prefix('*') {
            return Ok(Self::Address(number(address)?));
        }
        if let Some(offset) = word.strip_prefix('+') {
            return u32::try_from(number(offset)?).map(Self::Offset).map_err(|_| format!("{word}: no such offset"));
        }
        if word == "finding" {
            return Ok(Self::Finding);
        }
        if let Ok(line) = word.parse() {
            return Ok(Self::Line(None, line));
        }
        if let Some((file, line)) = word.rsplit_once(':')
            && let Ok(line) = line.parse()
        {
            return if file.is_empty() { Err(PLACES.into()) } else { Ok(Self::Line(Some(file.into()), line)) };
        }
        match word.chars().next() {
            Some(first) if first.is_alphabetic() || first == '_' => Ok(Self::Kernel(word.into())),
            _ => Err(format!("{word:?}: {PLACES}")),
        }
    }
}

impl fmt::Display for Breakpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Kernel(name) => write!(f, "kernel {name}")?,
            Place::Address(pc) => write!(f, "*{pc:#x}")?,
            Place::Offset(offset) => write!(f, "+{offset:#x}")?,
            Place::Line(Some(file), line) => write!(f, "{file}:{line}")?,
            Place::Line(None, line) => write!(f, "line {line}")?,
            Place::Finding => write!(f, "finding")?,
        }
        if let Some([x, y, z]) = self.workgroup {
            write!(f, " workgroup={x}:{y}:{z}")?;
        }
        if let Some(wave) = self.wave {
            write!(f, " wave={wave}")?;
        }
        self.condition.as_ref().map_or(Ok(()), |(_, text)| write!(f, " if {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_forms() {
        let place = |text: &str| Breakpoint::parse(text).map(|breakpoint| breakpoint.place);
        assert_eq!(place("fill"), Ok(Place::Kernel("fill".into())));
        assert_eq!(place("12"), Ok(Place::Line(None, 12)));
        assert_eq!(place("a/b.c:12"), Ok(Place::Line(Some("a/b.c".into()), 12)));
        assert_eq!(place("*0x40"), Ok(Place::Address(0x40)));
        assert_eq!(place("+0x40"), Ok(Place::Offset(0x40)));
        assert_eq!(place("finding"), Ok(Place::Finding));
        for wrong in
            ["", ":3", "*x", "a b", "-1", "a workgroup=x", "a wave=", "a if $q", "a workgroup=1:2:3:4", "\u{1f600}"]
        {
            assert!(Breakpoint::parse(wrong).is_err(), "{wrong}");
        }
        let all = "a.c:3 workgroup=1:0:2 wave=3 if $s4 == 2";
        assert_eq!(Breakpoint::parse(all).unwrap().to_string(), all);
    }
}
