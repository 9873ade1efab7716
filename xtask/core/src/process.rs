// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Child processes whose output is followed line by line.

use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How a followed process ended.
pub enum Ended {
    /// By itself or by a signal.
    Exit(ExitStatus),
    /// The program wrote nothing for the allowed time and was killed.
    Silent,
}

/// Time for processes that outlive their parent to write something, after which they are left alone.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// Runs `command` and hands each line of its standard output and standard
/// error, in the order they arrive, to `each` (without the line end).
///
/// A process that writes nothing for `silence` is killed; `None` waits for ever. When the process has ended, lines of
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
    let (mut quiet, mut status) = (Duration::ZERO, None);
    loop {
        match lines.recv_timeout(tick) {
            Ok(line) => {
                each(&line);
                quiet = Duration::ZERO;
            }
            Err(RecvTimeoutError::Disconnected) => return child.wait().map(Ended::Exit),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = status {
                    return Ok(Ended::Exit(status));
                }
                status = child.try_wait()?;
                quiet += tick;
                if status.is_none() && silence.is_some_and(|limit| quiet >= limit) {
                    child.kill()?;
                    child.wait()?;
                    return Ok(Ended::Silent);
                }
            }
        }
    }
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
        assert!(matches!(ended, Ok(Ended::Silent)));
        assert_eq!(lines, ["started"]);
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
