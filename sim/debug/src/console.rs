// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Text commands, with the names that they have in gdb.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{fs, iter};

use sim_wave::{Progresses, Stopped};

use crate::breakpoint::{self, Breakpoint, Place};
use crate::session::{Core, Debugger, Frontend, Motion, Reason, Unit};
use crate::values::{Expression, Form, number};
use crate::views;

const HELP: &str = "\
break PLACE [workgroup=X:Y:Z] [wave=N] [if CONDITION]
                        stops at KERNEL, LINE, FILE:LINE, *ADDRESS, +OFFSET, or at a `finding`; tbreak: once
info breakpoints, delete [N]
run, continue (c)       until a breakpoint; reverse-continue (rc): back to the one before
stepi [N] (si)          one instruction of the chosen wave; reverse-stepi (rsi): back
step [N] (s)            one source line; reverse-step (rs): back
next [N] (n)            one source line, over calls
workgroup X:Y:Z         until this workgroup begins
wave N, lane N          chooses a wave of the stopped workgroup, and a lane
info waves, info registers [NAME …], info sgprs, info vgprs
print[/FORM] EXPRESSION of numbers and registers: $v3, $v3[LANE], $v[2:3], $a3, $s4, $s[4:5], $exec, $vcc, $scc, $m0,
                        $mode, $pc, with + and -; FORM x (hex), u, d, f (f32, f64), h (pairs of f16), b (bf16)
x/[COUNT][FORM][b|s|w|g] ADDRESS
                        memory; lds:ADDRESS and scratch:ADDRESS are the workgroup's and the lane's; x/Ni: code
disassemble [ADDRESS] [COUNT], list [LINE], where
detach, quit            goes on without the debugger; ends the kernel with a fault
Names may be shortened as far as they are unique.";

/// Names of the commands; a shorter one that begins several is the first of them.
const COMMANDS: [&str; 28] = [
    "step",
    "continue",
    "next",
    "run",
    "print",
    "break",
    "info",
    "list",
    "delete",
    "disassemble",
    "detach",
    "where",
    "wave",
    "workgroup",
    "lane",
    "quit",
    "help",
    "x",
    "stepi",
    "nexti",
    "si",
    "ni",
    "c",
    "tbreak",
    "reverse-continue",
    "reverse-stepi",
    "reverse-step",
    "backtrace",
];

fn command(word: &str) -> Result<&'static str, String> {
    let full = match word {
        "rc" => "reverse-continue",
        "rsi" => "reverse-stepi",
        "rs" => "reverse-step",
        "bt" | "frame" => "where",
        "kill" | "exit" => "quit",
        word => word,
    };
    let exact = COMMANDS.into_iter().find(|name| *name == full);
    exact
        .or_else(|| COMMANDS.into_iter().find(|name| !full.is_empty() && name.starts_with(full)))
        .ok_or_else(|| format!("no command {word:?}; `help` lists them"))
}

/// Where commands come from and texts go.
struct Console<R, W> {
    input: R,
    output: W,
    /// Commands are typed: there is a prompt, and an empty line repeats a step.
    is_terminal: bool,
    last: String,
}

/// Result of a command.
enum Done {
    Text(String),
    Go(Motion),
}

/// Creates a debugger with commands from standard input, and texts on standard error.
pub fn on_terminal() -> Debugger {
    let is_terminal = io::stdin().is_terminal();
    debugger(Console { input: Lines(io::stdin()), output: io::stderr(), is_terminal, last: String::new() })
}

/// Creates a debugger with the commands of a file, and texts on standard error.
///
/// # Errors
/// When the file cannot be read.
pub fn by_script(path: &Path) -> io::Result<Debugger> {
    let commands = io::Cursor::new(fs::read(path)?);
    Ok(debugger(Console { input: commands, output: io::stderr(), is_terminal: false, last: String::new() }))
}

fn debugger(frontend: impl Frontend + 'static) -> Debugger {
    Debugger::new(Box::new(frontend), Core::default(), true, Arc::new(AtomicBool::new(false)))
}

/// Lines of standard input, which is locked for one line at a time.
struct Lines(io::Stdin);

/// Source of lines.
trait Commands: Send {
    /// The next line; `None` at the end.
    fn line(&mut self) -> Option<String>;
}

impl Commands for Lines {
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.0.read_line(&mut line).ok()? > 0).then_some(line)
    }
}

impl Commands for io::Cursor<Vec<u8>> {
    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        (self.read_until(b'\n', &mut line).ok()? > 0).then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

impl<R: Commands, W: Write + Send> Console<R, W> {
    /// Prints a text. A closed output does not matter.
    fn say(&mut self, text: &str) {
        let _ = writeln!(self.output, "{}", text.trim_end());
    }
}

impl<R: Commands, W: Write + Send> Frontend for Console<R, W> {
    fn stopped(&mut self, core: &mut Core, reason: &Reason, at: &mut dyn Stopped) -> Motion {
        if !core.is_again {
            let text = match reason {
                Reason::Step => views::where_(core, at, core.wave),
                reason => format!("{}, {}", views::reason(reason), views::place(core, at, core.wave)),
            };
            self.say(&text);
        }
        loop {
            let _ = write!(self.output, "(sim) ");
            let _ = self.output.flush();
            let Some(line) = self.input.line() else {
                self.say("end of the commands: the program goes on without the debugger");
                return Motion::Detach;
            };
            let mut line = line.trim().to_owned();
            if !self.is_terminal {
                self.say(&line);
            } else if line.is_empty() {
                line = self.last.clone();
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let done = execute(core, at, &line);
            self.last.clear();
            match done {
                Ok(Done::Text(text)) if text.is_empty() => {}
                Ok(Done::Text(text)) => self.say(&text),
                Ok(Done::Go(motion)) => {
                    self.last = line;
                    return motion;
                }
                Err(error) => self.say(&format!("error: {error}")),
            }
        }
    }

    fn refused(&mut self, text: &str) {
        self.say(&format!("error: {text}"));
    }
}

/// Executes a command that does not move a wave. The text of one that does is an error.
pub fn evaluate(core: &mut Core, at: &mut dyn Stopped, line: &str) -> Result<String, String> {
    match execute(core, at, line)? {
        Done::Text(text) => Ok(text),
        Done::Go(_) => Err("this command moves the wave; use the buttons".into()),
    }
}

/// Splits off the first word: up to a blank, or up to the `/` of a format.
fn split(line: &str) -> (&str, &str) {
    let end = line.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(line.len());
    (&line[..end], line[end..].trim())
}

fn execute(core: &mut Core, at: &mut dyn Stopped, line: &str) -> Result<Done, String> {
    let (word, rest) = split(line);
    let count = || match rest {
        "" => Ok(1),
        rest => number(rest)?
            .try_into()
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| format!("{rest}: expected 1 or more")),
    };
    let text = match command(word)? {
        "help" => HELP.to_owned(),
        "run" | "continue" | "c" => return Ok(Done::Go(Motion::Continue)),
        "stepi" | "si" | "nexti" | "ni" => return Ok(Done::Go(Motion::Step(Unit::Instruction, count()?))),
        "step" => return Ok(Done::Go(Motion::Step(Unit::Line, count()?))),
        "next" => return Ok(Done::Go(Motion::Step(Unit::LineOver, count()?))),
        "reverse-stepi" => return Ok(Done::Go(Motion::Back(Unit::Instruction, count()?))),
        "reverse-step" => return Ok(Done::Go(Motion::Back(Unit::Line, count()?))),
        "reverse-continue" => return Ok(Done::Go(Motion::ContinueBack)),
        "detach" => return Ok(Done::Go(Motion::Detach)),
        "quit" => return Ok(Done::Go(Motion::Kill)),
        "workgroup" if rest.is_empty() => format!("workgroup {}", views::workgroup(at.workgroup())),
        "workgroup" => return Ok(Done::Go(Motion::Workgroup(breakpoint::workgroup(rest)?))),
        "wave" => {
            if !rest.is_empty() {
                let chosen = number(rest)?;
                let chosen = u32::try_from(chosen).ok().filter(|wave| *wave < at.waves());
                core.wave = chosen.ok_or_else(|| format!("the workgroup has {} waves, from 0 on", at.waves()))?;
            }
            views::place(core, at, core.wave)
        }
        "lane" => {
            if !rest.is_empty() {
                let chosen = u32::try_from(number(rest)?).ok().filter(|lane| *lane < at.lanes());
                core.lane = chosen.ok_or_else(|| format!("a wave has {} lanes, from 0 on", at.lanes()))?;
            }
            let is_active = views::exec(at, core.wave) >> core.lane & 1 != 0;
            format!("lane {}, {}", core.lane, if is_active { "active" } else { "inactive" })
        }
        "where" | "backtrace" => views::place(core, at, core.wave),
        name @ ("break" | "tbreak") => {
            let breakpoint = Breakpoint { is_temporary: name == "tbreak", ..Breakpoint::parse(rest)? };
            let number = core.add(breakpoint);
            described(core, number)
        }
        "delete" => {
            match rest {
                "" => core.retain(|_| false),
                rest => {
                    let number = number(rest)?;
                    if !core.breakpoints.iter().any(|it| u64::from(it.number) == number) {
                        return Err(format!("no breakpoint {number}"));
                    }
                    core.retain(|it| u64::from(it.number) != number);
                }
            }
            String::new()
        }
        "info" => info(core, at, rest)?,
        "print" => print(core, at, rest)?,
        "x" => views::examine(core, at, rest)?,
        "disassemble" => disassemble(core, at, rest)?,
        "list" => list(core, at, rest)?,
        other => return Err(format!("no command {other}")),
    };
    Ok(Done::Text(text))
}

/// A breakpoint, and its instruction in the stopped kernel.
fn described(core: &Core, number: u32) -> String {
    let Some(breakpoint) = core.breakpoints.iter().find(|it| it.number == number) else { return String::new() };
    let mut text = format!("Breakpoint {number}: {breakpoint}");
    let Some(code) = core.code.as_deref() else { return text };
    match (&breakpoint.place, breakpoint.resolve(code).and_then(|pc| code.at(pc))) {
        (Place::Kernel(_) | Place::Finding, _) => {}
        (_, Some(instruction)) => {
            let _ = write!(text, ", +{:#x} of {}", instruction.offset, code.name);
            if let Some(position) = &instruction.position {
                let _ = write!(text, ", {}:{}", position.file_name(), position.line);
            }
        }
        (Place::Line(..), None) if code.instructions.iter().all(|it| it.position.is_none()) => {
            let _ = write!(text, "; {} has no debug information (compile it with -g)", code.name);
        }
        (_, None) => {
            let _ = write!(text, "; no instruction of {} is there", code.name);
        }
    }
    text
}

fn info(core: &Core, at: &mut dyn Stopped, words: &str) -> Result<String, String> {
    let (topic, rest) = words.split_once(' ').unwrap_or((words, ""));
    let topics = ["breakpoints", "registers", "sgprs", "vgprs", "waves"];
    let topic = topics.into_iter().find(|name| !topic.is_empty() && name.starts_with(topic));
    let topic = topic.ok_or_else(|| format!("info {}", topics.join(" | ")))?;
    let of_lane = |names: &mut dyn Iterator<Item = String>, at: &dyn Stopped| {
        let mut text = String::new();
        for name in names {
            text.push_str(&register(core, at, &name)?);
        }
        Ok::<_, String>(text)
    };
    match topic {
        "breakpoints" => {
            let lines =
                core.breakpoints.iter().map(|it| format!("{}, {} stops\n", described(core, it.number), it.hits));
            let text: String = lines.collect();
            Ok(if text.is_empty() { "no breakpoints".into() } else { text })
        }
        "sgprs" => of_lane(&mut views::scalars(), at),
        "vgprs" => of_lane(&mut views::vectors(at), at),
        "registers" if rest.is_empty() => of_lane(&mut views::scalars().chain(views::vectors(at)), at),
        "registers" => of_lane(&mut rest.split_whitespace().map(|name| name.trim_start_matches('$').to_owned()), at),
        _ => {
            let mut text = String::new();
            for wave in 0..at.waves() {
                let mark = if wave == core.wave { '*' } else { ' ' };
                let progress = match at.progress(wave) {
                    Progresses::Runs => "",
                    Progresses::Waits => "at a barrier, ",
                    Progresses::Ended => "ended, ",
                };
                let instruction = core.code.as_ref().and_then(|code| code.at(at.pc(wave)));
                let instruction = instruction.map_or(String::new(), |it| format!("+{:#x}  {}", it.offset, it.text));
                let line =
                    core.position(at, wave).map_or(String::new(), |it| format!("  ; {}:{}", it.file_name(), it.line));
                let _ = writeln!(
                    text,
                    "{mark} wave {wave}: {progress}lanes {:#x}, {instruction}{line}",
                    views::exec(at, wave)
                );
            }
            Ok(text)
        }
    }
}

/// A register in hexadecimal and as two types; of a vector register, the chosen lane.
fn register(core: &Core, at: &dyn Stopped, name: &str) -> Result<String, String> {
    let expression = Expression::parse(&format!("${name}"))?;
    let value = expression.number(at, core.wave, core.lane)?;
    let is_plain = name.starts_with(['s', 'v', 'a']) && !matches!(name, "scc" | "vcc") && !name.contains('[');
    let types = if is_plain {
        format!("{:<12} {}", Form::Signed.text(value, 32), Form::Float.text(value, 32))
    } else {
        String::new()
    };
    Ok(format!("{name:<6} {:<12} {types}", Form::Hex.text(value, 64)).trim_end().to_owned() + "\n")
}

fn print(core: &Core, at: &dyn Stopped, words: &str) -> Result<String, String> {
    let (form, text) = match words.strip_prefix('/') {
        Some(rest) => {
            let (form, text) = rest.split_once(' ').unwrap_or((rest, ""));
            (Some(Form::parse(form)?), text.trim())
        }
        None => (None, words),
    };
    if text.is_empty() {
        return Err("print[/FORM] EXPRESSION; for example print/f $v3, print $s[4:5] + 8".into());
    }
    let expression = Expression::parse(text)?;
    let value = expression.value(at, core.wave)?;
    let form = form.or(expression.form).unwrap_or(Form::Hex);
    let separator = if matches!(value, crate::values::Value::Lanes(..)) { "\n" } else { " " };
    Ok(format!("{text} ={separator}{}", views::value(&value, form, views::exec(at, core.wave))))
}

fn disassemble(core: &Core, at: &dyn Stopped, words: &str) -> Result<String, String> {
    let code = core.code.as_deref().ok_or("no kernel")?;
    let pc = at.pc(core.wave);
    let mut words = words.split_whitespace();
    let from = match words.next() {
        Some(word) => Expression::parse(word)?.number(at, core.wave, core.lane)?,
        // Some instructions before the next one.
        None => code.find(pc).map_or(pc, |index| code.instructions[index.saturating_sub(5)].pc),
    };
    let count = words.next().map_or(Ok(16), number)?;
    Ok(views::listing(code, pc, from, count.min(100_000) as usize))
}

fn list(core: &Core, at: &dyn Stopped, words: &str) -> Result<String, String> {
    let position = core.position(at, core.wave).ok_or("no source line is known here; compile with -g")?;
    let middle = if words.is_empty() { position.line } else { number(words)?.try_into().unwrap_or(u32::MAX) };
    let text = fs::read_to_string(&*position.file).map_err(|error| format!("{}: {error}", position.file))?;
    let first = middle.saturating_sub(5).max(1);
    let lines = text.lines().enumerate().skip(first as usize - 1).take(10);
    let lines = lines.map(|(index, text)| {
        let mark = if index as u32 + 1 == position.line { "=>" } else { "  " };
        format!("{mark} {:4}\t{text}\n", index + 1)
    });
    Ok(iter::once(format!("{}\n", position.file)).chain(lines).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_may_be_short() {
        for (short, long) in [("s", "step"), ("c", "c"), ("b", "break"), ("n", "next"), ("r", "run"), ("p", "print")] {
            assert_eq!(command(short), Ok(long));
        }
        assert_eq!(command("rsi"), Ok("reverse-stepi"));
        assert_eq!(command("disas"), Ok("disassemble"));
        assert_eq!(command("reverse-stepi"), Ok("reverse-stepi"));
        assert!(command("frobnicate").is_err() && command("").is_err());
    }

    #[test]
    fn a_format_is_behind_a_slash() {
        assert_eq!(split("x/8xw lds:0"), ("x", "/8xw lds:0"));
        assert_eq!(split("p/f $v3"), ("p", "/f $v3"));
        assert_eq!(split("step 3"), ("step", "3"));
    }
}
