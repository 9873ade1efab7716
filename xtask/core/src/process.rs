// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Child processes whose output is followed line by line.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How a followed process ended.
pub enum Ended {
    /// By itself or by a signal.
    Exit(ExitStatus),
    /// The program wrote nothing for the allowed time and was killed.
    Silent {
        /// True if it did not work either, false if it used up its CPU time.
        is_idle: bool,
    },
}

/// Time for processes that outlive their parent to write something, after which they are left alone.
const LEFT_BEHIND: Duration = Duration::from_secs(1);
/// Part of real time, as a divisor, below which CPU time is no work. The least share of a busy machine is more.
const IDLE: u32 = 500;
/// The sim's thread that polls doorbells, also in a program that hangs (`sim/src/machine/lifecycle.rs`).
const WATCHER: &str = "(hsa-sim-watch)";
/// Clock ticks a second in `/proc`, on all of Linux's architectures that are supported here.
const TICKS: u64 = 100;

/// Runs `command` and hands each line of its standard output and standard
/// error, in the order they arrive, to `each` (without the line end).
///
/// A process that writes nothing for `silence` is killed, if it and its children have worked for as much CPU time or
/// not at all. So a busy machine makes no process late. `None` waits for ever. When the process has ended, lines of
/// processes that it left behind are waited for no longer than a second.
///
/// # Errors
/// When the process cannot be started or waited for.
pub fn follow(mut command: Command, silence: Option<Duration>, mut each: impl FnMut(&str)) -> io::Result<Ended> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command keeps the pipe's write ends open until it is dropped.
    drop(command);

    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(1..)) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            if sender.send(line).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    let tick = silence.map_or(LEFT_BEHIND, |limit| limit.min(LEFT_BEHIND));
    let mut quiet = silence.map(Quiet::new);
    let mut status = None;
    loop {
        match lines.recv_timeout(tick) {
            Ok(line) => {
                each(&line);
                quiet = silence.map(Quiet::new);
            }
            Err(RecvTimeoutError::Disconnected) => return child.wait().map(Ended::Exit),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = status {
                    return Ok(Ended::Exit(status));
                }
                status = child.try_wait()?;
                let end = quiet.as_mut().filter(|_| status.is_none());
                if let Some(is_idle) = end.and_then(|quiet| quiet.tick(tick, cpu_time(child.id()))) {
                    child.kill()?;
                    child.wait()?;
                    return Ok(Ended::Silent { is_idle });
                }
            }
        }
    }
}

/// Time since the last line of a process.
struct Quiet {
    limit: Duration,
    real: Duration,
    /// CPU time of the process at the first look after the line.
    start: Option<Duration>,
    /// Real time and CPU time from which on an idle process is looked for.
    window: (Duration, Duration),
}

impl Quiet {
    fn new(limit: Duration) -> Self {
        Self { limit, real: Duration::ZERO, start: None, window: Default::default() }
    }

    /// Adds real time, at whose end the process has used the CPU time `cpu`. Returns `Ended::Silent::is_idle` once the
    /// process is to be killed.
    fn tick(&mut self, real: Duration, cpu: Duration) -> Option<bool> {
        self.real += real;
        let Some(start) = self.start else {
            self.start = Some(cpu);
            self.window = (self.real, cpu);
            return None;
        };
        if self.real < self.limit {
            return None;
        }
        if cpu.saturating_sub(start) >= self.limit {
            return Some(false);
        }
        if self.real - self.window.0 < self.limit {
            return None;
        }
        let worked = cpu.saturating_sub(self.window.1);
        self.window = (self.real, cpu);
        (worked < self.limit / IDLE).then_some(true)
    }
}

/// CPU time of a process and of all its children, without the sim's polls; zero if there is no such process.
fn cpu_time(process: u32) -> Duration {
    let all: Vec<_> = stats("/proc")
        .filter_map(|stat| {
            let (parent, times) = parent_and_times(&stat)?;
            Some((stat.split_once(' ')?.0.parse::<u32>().ok()?, parent, times.iter().sum::<u64>()))
        })
        .collect();
    let mut family = vec![process];
    let mut ticks = 0;
    while let Some(id) = family.pop() {
        let own = all.iter().find(|(known, ..)| *known == id).map_or(0, |(.., ticks)| *ticks);
        ticks += own.saturating_sub(polls(id));
        family.extend(all.iter().filter(|(_, parent, _)| *parent == id).map(|(child, ..)| *child));
    }
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// Clock ticks of the sim's polls in a process.
fn polls(process: u32) -> u64 {
    let watcher = stats(&format!("/proc/{process}/task")).find(|stat| stat.contains(WATCHER));
    let times = watcher.and_then(|stat| parent_and_times(&stat));
    // The others are of the process's children.
    times.map_or(0, |(_, [user, system, ..])| user + system)
}

/// Contents of all files `stat` of processes or threads.
fn stats(folder: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
}

/// Parses a file `stat`: the parent, and the clock ticks of the process and of its children that have ended.
fn parent_and_times(stat: &str) -> Option<(u32, [u64; 4])> {
    // The name before the last bracket may have spaces. The third field follows it.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let mut times = [0; 4];
    for (time, field) in times.iter_mut().zip(fields.get(11..15)?) {
        *time = field.parse().ok()?;
    }
    Some((fields.get(1)?.parse().ok()?, times))
}

/// The command as one would type it, for logs and messages.
pub fn display(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        text.push(' ');
        if argument.contains([' ', '*', '"', ';']) {
            text.push_str(&format!("'{argument}'"));
        } else {
            text.push_str(&argument);
        }
    }
    text
}

/// Describes an exit status, e.g. `exit code 1` or `signal 11 (SIGSEGV)`.
pub fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match signal {
            4 => "signal 4 (SIGILL)".to_owned(),
            6 => "signal 6 (SIGABRT)".to_owned(),
            7 => "signal 7 (SIGBUS)".to_owned(),
            8 => "signal 8 (SIGFPE)".to_owned(),
            9 => "signal 9 (SIGKILL)".to_owned(),
            11 => "signal 11 (SIGSEGV)".to_owned(),
            other => format!("signal {other}"),
        },
        (None, None) => "an unknown status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_arrive_in_order() {
        let mut lines = Vec::new();
        let ended = follow(shell("echo a; echo b >&2; printf c; exit 3"), None, |line| {
            lines.push(line.to_owned());
        });
        assert_eq!(lines, ["a", "b", "c"]);
        assert!(matches!(ended, Ok(Ended::Exit(status)) if describe(status) == "exit code 3"));
    }

    #[test]
    fn a_silent_process_is_killed() {
        let mut lines = Vec::new();
        let ended = follow(shell("echo started; exec sleep 600"), Some(Duration::from_millis(200)), |line| {
            lines.push(line.to_owned())
        });
        assert!(matches!(ended, Ok(Ended::Silent { is_idle: true })));
        assert_eq!(lines, ["started"]);
    }

    #[test]
    fn a_silent_process_that_works_has_its_limit_of_cpu_time() {
        let ended = follow(shell("while :; do :; done"), Some(Duration::from_millis(200)), |_| {});
        assert!(matches!(ended, Ok(Ended::Silent { is_idle: false })));
    }

    #[test]
    fn a_starved_process_is_not_late() {
        let seconds = Duration::from_secs;
        let mut quiet = Quiet::new(seconds(600));
        // It gets a hundredth of a processor. Its CPU time before the last line does not count.
        let mut ticks = (1..).map(|at| (at, quiet.tick(seconds(1), seconds(7000) + seconds(at) / 100)));
        let (at, is_idle) = ticks.find_map(|(at, end)| Some((at, end?))).unwrap();
        assert_eq!((at, is_idle), (60_001, false));
    }

    #[test]
    fn a_process_that_stops_working_hangs() {
        let seconds = Duration::from_secs;
        let mut quiet = Quiet::new(seconds(600));
        let mut ticks = (1..).map(|at| (at, quiet.tick(seconds(1), seconds(at.min(100)))));
        let (at, is_idle) = ticks.find_map(|(at, end)| Some((at, end?))).unwrap();
        assert_eq!((at, is_idle), (1201, true));
    }

    #[test]
    fn cpu_time_has_that_of_children() {
        let stat = "7 (a) b) (c) S 3 7 7 0 -1 4 8 9 0 0 100 20 3000 4 20 0 1 0 5";
        assert_eq!(parent_and_times(stat), Some((3, [100, 20, 3000, 4])));
        assert_eq!(parent_and_times("7 (a"), None);
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        let mut child =
            shell(&format!("sh -c '{work}; echo; exec sleep 600'; :")).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(cpu_time(child.id()) > Duration::ZERO);
        // The shell's child has the pipe no more.
        let inner = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = Command::new("kill").arg(inner.trim()).status();
        assert!(killed.is_ok_and(|status| status.success()));
    }

    #[test]
    fn a_process_left_behind_is_not_waited_for() {
        let mut lines = Vec::new();
        let ended = follow(shell("sleep 600 & echo $!; exit 3"), None, |line| lines.push(line.to_owned()));
        assert!(matches!(ended, Ok(Ended::Exit(status)) if describe(status) == "exit code 3"));
        let killed = Command::new("kill").arg(&lines[0]).status();
        assert!(killed.is_ok_and(|status| status.success()), "the process still ran");
    }

    #[test]
    fn a_signal_is_named() {
        let ended = follow(shell("kill -SEGV $$"), None, |_| {});
        assert!(matches!(ended, Ok(Ended::Exit(status)) if describe(status) == "signal 11 (SIGSEGV)"));
    }

    #[test]
    fn a_missing_program_is_an_error() {
        assert!(follow(Command::new("/nonexistent/program"), None, |_| {}).is_err());
    }
}
