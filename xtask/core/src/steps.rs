// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Named steps with progress and time: a spinner or bar on a terminal, plain lines without control codes otherwise. All
//! output goes to standard error, so that standard output has a tool's own output only.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{Context, Error, Result};
use crate::junit::{Record, Verdict};
use crate::process::{self, Ended};

/// Messages of apt, pip, cargo and Python without a network.
const NO_NETWORK: [&str; 9] = [
    "Temporary failure in name resolution",
    "Temporary failure resolving",
    "Name or service not known",
    "Could not resolve host",
    "Network is unreachable",
    "No route to host",
    "Failed to establish a new connection",
    "Unable to connect to ",
    "Could not connect to ",
];

/// Number of lines of a failed command's log to show.
const TAIL_LINES: usize = 25;

/// Factory of steps. It knows if standard error is a terminal, the folder of logs, and the results of all test cases.
pub struct Steps {
    terminal: bool,
    verbose: bool,
    logs: PathBuf,
    records: RefCell<Vec<Record>>,
}

/// One step in progress.
pub struct Step {
    bar: Option<ProgressBar>,
    verbose: bool,
    log_path: PathBuf,
    log: Mutex<Option<File>>,
}

impl Steps {
    /// Creates steps that log into the folder `logs`, which is created when needed.
    pub fn new(logs: PathBuf) -> Self {
        Self { terminal: std::io::stderr().is_terminal(), verbose: false, logs, records: RefCell::default() }
    }

    /// Sets the verbosity: with `verbose`, steps also print each line that they log.
    pub fn verbose(self, verbose: bool) -> Self {
        Self { terminal: self.terminal && !verbose, verbose, ..self }
    }

    /// Prints a line of text between steps.
    pub fn say(&self, text: &str) {
        eprintln!("{text}");
    }

    /// Records the result of a test case.
    pub fn record(&self, suite: &str, name: &str, verdict: Verdict, time: Option<Duration>) {
        let record = Record { suite: suite.to_owned(), name: name.to_owned(), verdict, time };
        self.records.borrow_mut().push(record);
    }

    /// Returns the results of all test cases so far.
    pub fn records(&self) -> Vec<Record> {
        self.records.borrow().clone()
    }

    /// Runs `work` as the step `name`, showing its progress and its time.
    ///
    /// # Errors
    /// The error of `work`.
    pub fn step<T>(&self, name: &str, work: impl FnOnce(&Step) -> Result<T>) -> Result<T> {
        let step = Step {
            bar: self.terminal.then(|| spinner(name)),
            verbose: self.verbose,
            log_path: self.logs.join(format!("{}.log", slug(name))),
            log: Mutex::new(None),
        };
        if !self.terminal {
            eprintln!("{name} ...");
        }
        let start = Instant::now();
        let result = work(&step);
        let seconds = seconds(start.elapsed());
        if let Some(bar) = &step.bar {
            bar.finish_and_clear();
            let mark = if result.is_ok() { '✓' } else { '✗' };
            eprintln!("{mark} {name} ({seconds})");
        } else {
            let outcome = if result.is_ok() { "done" } else { "failed" };
            eprintln!("{name}: {outcome} ({seconds})");
        }
        result
    }
}

impl Step {
    /// Shows `text` as the current activity. Does nothing when not on a terminal.
    pub fn note(&self, text: &str) {
        if let Some(bar) = &self.bar {
            let text: String = text.trim().chars().take(100).collect();
            bar.set_message(text);
        }
    }

    /// Shows a bar, `done` of `total`, and the last item `what`. Does nothing when not on a terminal.
    pub fn progress(&self, done: u64, total: u64, what: &str) {
        let Some(bar) = &self.bar else { return };
        if bar.length() != Some(total) {
            bar.set_style(style("{spinner} {prefix} [{bar:25}] {pos}/{len} {elapsed} {wide_msg}"));
            bar.set_length(total);
        }
        bar.set_position(done);
        self.note(what);
    }

    /// Appends a line to this step's log file, and prints it if verbose.
    ///
    /// # Errors
    /// When the file cannot be created or written.
    pub fn log(&self, line: &str) -> Result<()> {
        if self.verbose {
            eprintln!("{line}");
        }
        let mut log = self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let file = match &mut *log {
            Some(file) => file,
            None => {
                let folder = self.log_path.parent().unwrap_or(Path::new("."));
                fs::create_dir_all(folder).context(|| format!("making {}", folder.display()))?;
                let file = File::create(&self.log_path).context(|| format!("making {}", self.log_path.display()))?;
                log.insert(file)
            }
        };
        writeln!(file, "{line}").context(|| format!("writing {}", self.log_path.display()))
    }

    /// Path of this step's log.
    pub fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// Runs `command` to its end, logging its output and showing its progress (ninja's `[n/m]` as a bar, other lines as
    /// they come).
    ///
    /// # Errors
    /// When it cannot start or does not end with exit code 0. The message names the command, the log and its last
    /// lines.
    pub fn run(&self, command: Command) -> Result<()> {
        let shown = process::display(&command);
        match self.follow(command, None, |_| {})? {
            Ended::Exit(status) if status.success() => Ok(()),
            Ended::Exit(status) => Err(self.failure(&shown, &process::describe(status))),
            Ended::Silent { .. } => Err(self.failure(&shown, "no output")),
        }
    }

    /// Runs `command` as [`run`](Self::run) does, but returns how it ended, and passes each line to `each`. For
    /// `silence`, see [`process::follow`].
    ///
    /// # Errors
    /// When it cannot start or the log cannot be written.
    pub fn follow(&self, command: Command, silence: Option<Duration>, mut each: impl FnMut(&str)) -> Result<Ended> {
        let shown = process::display(&command);
        self.log(&format!("$ {shown}"))?;
        let mut log_result = Ok(());
        let ended = process::follow(command, silence, |line| {
            if log_result.is_ok() {
                log_result = self.log(line);
            }
            self.show_progress(line);
            each(line);
        })
        .context(|| format!("running `{shown}`"))?;
        log_result?;
        match &ended {
            Ended::Exit(status) if status.success() => {}
            Ended::Exit(status) => self.log(&format!("(ended with {})", process::describe(*status)))?,
            Ended::Silent { .. } => self.log("(killed: no output)")?,
        }
        Ok(ended)
    }

    /// Runs `command` and returns its standard output; standard error goes to the log.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn capture(&self, mut command: Command) -> Result<Vec<u8>> {
        let shown = process::display(&command);
        self.log(&format!("$ {shown}"))?;
        let output = command.stdin(Stdio::null()).output().context(|| format!("running `{shown}`"))?;
        self.log(&String::from_utf8_lossy(&output.stderr))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(self.failure(&shown, &process::describe(output.status)))
        }
    }

    /// Creates a set-up error for the command `shown` that ended with `outcome`.
    pub fn failure(&self, shown: &str, outcome: &str) -> Error {
        let log = fs::read_to_string(&self.log_path).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n  ");
        // The commands are in the log, too.
        let is_network = |line: &&&str| !line.starts_with("$ ") && NO_NETWORK.iter().any(|words| line.contains(words));
        let network = lines.iter().find(is_network).map_or_else(String::new, |line| {
            format!("this needs the network, and a server cannot be reached: {}\n", line.trim())
        });
        Error::setup(format!(
            "{network}`{shown}` ended with {outcome}. The last lines of {}:\n  {tail}",
            self.log_path.display()
        ))
    }

    fn show_progress(&self, line: &str) {
        match ninja_progress(line) {
            Some((done, total, what)) => self.progress(done, total, what),
            None => self.note(line),
        }
    }
}

fn spinner(name: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner()
        .with_style(style("{spinner} {prefix} {elapsed} {wide_msg:.dim}"))
        .with_prefix(name.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Parses ninja's `[done/total] what`.
fn ninja_progress(line: &str) -> Option<(u64, u64, &str)> {
    let (counts, what) = line.strip_prefix('[')?.split_once("] ")?;
    let (done, total) = counts.split_once('/')?;
    Some((done.parse().ok()?, total.parse().ok()?, what))
}

/// Runs `work`, and returns its result and duration.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Formats a duration: `0.4 s`, `73 s`.
pub fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

fn slug(name: &str) -> String {
    let text: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    text.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(name: &str) -> Steps {
        let logs = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        Steps::new(logs)
    }

    #[test]
    fn a_failure_shows_the_log_and_its_last_lines() {
        let steps = steps("failure");
        let error = steps
            .step("Some work (now)", |step| {
                let mut command = Command::new("sh");
                command.args(["-c", "echo first; echo last words >&2; exit 7"]);
                step.run(command)
            })
            .unwrap_err()
            .to_string();
        assert!(error.contains("exit code 7"), "{error}");
        assert!(error.contains("some-work-now.log"), "{error}");
        assert!(error.contains("last words"), "{error}");
        fs::remove_dir_all(&steps.logs).unwrap();
    }

    #[test]
    fn a_missing_network_is_named_first() {
        let steps = steps("network");
        let error = steps
            .step("pip", |step| {
                let mut command = Command::new("sh");
                command
                    .args(["-c", "echo 'WARNING: Retrying: [Errno -3] Temporary failure in name resolution'; exit 1"]);
                step.run(command)
            })
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("this needs the network, and a server cannot be reached: WARNING: Retrying"),
            "{error}"
        );
        fs::remove_dir_all(&steps.logs).unwrap();
    }

    #[test]
    fn captured_output_is_standard_output_only() {
        let steps = steps("capture");
        let output = steps.step("capture", |step| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo out; echo err >&2"]);
            step.capture(command)
        });
        assert_eq!(output.unwrap(), b"out\n");
        fs::remove_dir_all(&steps.logs).unwrap();
    }

    #[test]
    fn ninja_lines_are_understood() {
        assert_eq!(ninja_progress("[3/40] Building C object a.o"), Some((3, 40, "Building C object a.o")));
        assert_eq!(ninja_progress("[x/40] what"), None);
        assert_eq!(ninja_progress("ninja: no work to do."), None);
    }
}
