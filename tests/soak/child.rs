// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Child processes that run programs: the parent's side and the child's.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::edits::Edits;
use crate::generate;
use crate::program::Kind;
use crate::report::{MARK, Progress, begin, fail, say};
use crate::{execute, kernels};

/// Environment variable with a process's task: the words of [`Task::text`].
pub const VARIABLE: &str = "AMDGPU_RS_SOAK_CHILD";

/// Longest time without progress in a program. Shrinking uses a limit of its own.
const LIMIT: Duration = Duration::from_secs(120);

/// Leak report of the one HSA reference that the driver keeps after a GPU fault, so that the runtime never restarts.
const KEPT: &str = "hsa-sim: exit: 1 references on HSA left";

/// Start of the last line of a sanitizer's report, with its kind and place. The process may continue behind it.
const REPORT: &str = "SUMMARY: ";

/// Time that a hanging process has to report its hang.
const GRACE: Duration = Duration::from_secs(30);

/// Task of one process.
#[derive(Clone, Debug)]
pub struct Task {
    /// Seed of the first program.
    pub seed: u64,
    /// Number of programs with consecutive seeds, or of runs of one program.
    pub count: u64,
    /// Edits of the one program that runs `count` times; `None` for consecutive seeds.
    pub edits: Option<Edits>,
    /// Longest time without progress.
    pub limit: Duration,
    /// Value of `HSA_SIM_SEED`.
    pub sim_seed: u64,
    /// Compares with a model that is wrong on purpose.
    pub is_wrong: bool,
}

impl Task {
    pub fn new(seed: u64, count: u64, sim_seed: u64) -> Self {
        Self { seed, count, edits: None, limit: LIMIT, sim_seed, is_wrong: false }
    }

    fn text(&self) -> String {
        let edits = self.edits.as_ref().map_or_else(|| "-".to_owned(), Edits::text);
        format!("{} {} {} {} {edits}", self.seed, self.count, self.limit.as_millis(), u8::from(self.is_wrong))
    }

    fn parse(text: &str) -> Self {
        let mut words = text.splitn(5, ' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        let (seed, count, limit, is_wrong) = (number(), number(), number(), number() != 0);
        let edits = words.next().filter(|text| *text != "-").map(Edits::parse);
        Self { seed, count, edits, limit: Duration::from_millis(limit), sim_seed: 0, is_wrong }
    }
}

/// Result of a process.
#[derive(Debug, Default)]
pub struct Ended {
    /// Number of programs that passed.
    pub passed: u64,
    /// Numbers of operations by kind, of checked bytes, and of programs.
    pub counts: BTreeMap<String, u64>,
    /// Seed of the program that failed, with the reason.
    pub failure: Option<(u64, String)>,
}

/// Runs the task in a child process until `deadline` at the latest. The process ends after a program that loses the
/// GPU.
pub fn run(task: &Task, deadline: Option<Instant>, mut each: impl FnMut()) -> Ended {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command
        .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, task.text())
        .env("HSA_SIM_LEAKS", "1")
        .env("HSA_SIM_SEED", task.sim_seed.to_string())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if std::env::var_os("HSA_SIM_MEMORY").is_none() {
        command.env("HSA_SIM_MEMORY", "strict");
    }
    let mut child = command.spawn().expect("a child process");
    let mut told = Told { current: task.seed, ..Told::default() };
    let is_hanging = follow(&mut child, task.limit + GRACE, deadline, |line| {
        if told.line(line) {
            each();
        }
    });
    let status = child.wait().expect("the child ends");
    let Told { mut ended, current, said, .. } = told;
    if ended.failure.is_none() && is_hanging {
        ended.failure = Some((current, format!("no word for {:?}: {}", task.limit + GRACE, said.join(" | "))));
    } else if ended.failure.is_none() && !status.success() && !is_over(deadline) {
        ended.failure = Some((current, format!("the process ended with {status}: {}", said.join(" | "))));
    }
    ended
}

/// Output of a process, parsed so far.
#[derive(Default)]
struct Told {
    ended: Ended,
    /// Seed of the program that runs now. `said` has the unparsed lines that were printed during it.
    current: u64,
    said: Vec<String>,
    /// True after a GPU fault in the process.
    is_lost: bool,
}

impl Told {
    /// Parses the next line. Returns true if it reports a program that passed.
    fn line(&mut self, line: String) -> bool {
        let Some(told) = line.strip_prefix(MARK) else {
            if line.starts_with("hsa-sim: ") && line.ends_with(" left") && !(self.is_lost && line == KEPT) {
                self.fails(line.clone());
            }
            if let Some(summary) = line.strip_prefix(REPORT) {
                self.fails(format!("{summary}\n{}", self.said.join("\n")));
            }
            self.said.push(line);
            return false;
        };
        let (what, rest) = told.split_once(' ').unwrap_or((told, ""));
        match what {
            "begins" => {
                self.said.clear();
                self.current = rest.parse().expect("a seed");
            }
            "lost" => self.is_lost = true,
            "passed" if self.ended.failure.is_none() => {
                self.ended.passed += 1;
                for (name, count) in rest.split(' ').filter_map(|pair| pair.split_once('=')) {
                    *self.ended.counts.entry(name.to_owned()).or_default() += count.parse::<u64>().expect("a number");
                }
                return true;
            }
            "failed" => self.fails(rest.split_once(' ').map_or(rest, |(_, what)| what).to_owned()),
            _ => {}
        }
        false
    }

    /// Records a failure of the current program, unless an earlier one is recorded.
    fn fails(&mut self, what: String) {
        self.ended.failure.get_or_insert((self.current, what));
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

/// Passes the child's lines to `each` until it ends. Returns true if it was killed after `limit` without a line.
fn follow(child: &mut Child, limit: Duration, deadline: Option<Instant>, mut each: impl FnMut(String)) -> bool {
    let stderr = child.stderr.take().expect("it is piped");
    let (send, lines) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n') {
            let Ok(line) = line else { return };
            let _ = send.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    let mut last = Instant::now();
    let is_hanging = loop {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => {
                last = Instant::now();
                each(line);
            }
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) if last.elapsed() > limit => break true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if is_over(deadline) {
            break false;
        }
    };
    // The child may have ended already: then this fails, harmlessly.
    let _ = child.kill();
    lines.iter().for_each(each);
    reader.join().expect("the reader ends");
    is_hanging
}

/// Runs the task of a child process; returns at once in the parent.
pub fn main() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let task = Task::parse(&text);
    std::panic::set_hook(Box::new(|panic| fail(&format!("a panic: {panic}"))));
    let progress = Arc::new(Progress::default());
    progress.watch(task.limit);
    let kernels = kernels::of_first_agent();
    for number in 0..task.count {
        let seed = if task.edits.is_some() { task.seed } else { task.seed + number };
        begin(seed);
        let edits = task.edits.clone().unwrap_or_default();
        let program = edits.apply(generate::program(seed));
        let bytes = execute::run(&program, kernels, task.is_wrong, &progress);
        let mut counts: BTreeMap<&str, u64> = [("bytes-checked", bytes), ("programs", 1)].into();
        for op in &program.ops {
            *counts.entry(op.kind.name()).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{name}={count}")).collect();
        say(&format!("{MARK}passed {}", counts.join(" ")));
        if program.ops.iter().any(|op| matches!(op.kind, Kind::MemoryFault { .. })) {
            // The GPU is lost for this process.
            say(&format!("{MARK}lost"));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_a_sanitizer_is_a_failure_of_the_program_under_way() {
        let mut told = Told::default();
        let lines = [
            "soak: begins 6",
            "a warning",
            "soak: passed fills=2",
            "soak: begins 7",
            "WARNING: ThreadSanitizer: data race",
            "    #0 somewhere",
            "SUMMARY: ThreadSanitizer: data race in somewhere",
            "soak: passed fills=3",
        ];
        for line in lines {
            told.line(line.to_owned());
        }
        let (seed, what) = told.ended.failure.expect("a report");
        assert_eq!((seed, told.ended.passed, told.ended.counts["fills"]), (7, 1, 2));
        let report = "ThreadSanitizer: data race in somewhere\nWARNING: ThreadSanitizer: data race\n    #0 somewhere";
        assert_eq!(what, report);
    }
}
