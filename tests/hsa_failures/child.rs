// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The process that runs the scenario, from both sides. It reports on standard error, line by line, between the
//! messages of the driver and of the software runtime.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use hsa_abi::{HsaStatus, HsaSystemInfo};

use crate::scenario::Fixtures;
use crate::{heap, host_memory, rust_memory, support};

/// Tells the test program that it is a child: `<function>:<first>:<last>`, or [`TRACE`].
const VARIABLE: &str = "AMDGPU_RS_HSA_FAILURES";
const TRACE: &str = "trace";

/// Runs of one failure, of which the last must leave nothing behind.
const RUNS: usize = 5;

/// The line before each run.
const BEGINS: &str = "begins";

/// A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// How a run ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Blocks of host memory that it left behind.
    pub growth: i64,
    /// Threads that it left behind.
    pub threads: i64,
    /// The runtime was not shut down.
    pub runtime_is_up: bool,
    pub error: Option<String>,
}

impl Ended {
    pub fn leaves_something(&self) -> bool {
        self.growth != 0 || self.threads != 0 || self.runtime_is_up
    }
}

/// One failure.
#[derive(Debug)]
pub struct Attempt {
    /// An error if it ended with a signal or a panic, or not at all.
    pub outcome: Result<Ended, String>,
    /// Standard error of the last run.
    pub said: Vec<String>,
}

/// Writes a line to standard error in one piece, past the test harness.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn spawn(what: &str) -> Child {
    Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, what)
        .env("HSA_SIM_AGENTS", "gfx1100,gfx1100")
        .env("HSA_SIM_LEAKS", "1")
        .env("RUST_BACKTRACE", "0")
        // The C library keeps thread-local memory of threads that ended with their stacks.
        .env("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child process")
}

/// How often each function is called when none fails, and how often host memory is allocated, that of Rust's in the
/// large scenario.
pub fn trace() -> BTreeMap<String, u64> {
    let output = spawn(TRACE).wait_with_output().expect("the child ends");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let calls = text.lines().filter_map(|line| line.strip_prefix("calls ")?.split_once(' '));
    calls.map(|(name, count)| (name.to_owned(), count.parse().expect("a number"))).collect()
}

/// Has the calls 1 to `uses` of `function` fail, each in runs of its own, and reports each.
pub fn fail_each(function: &str, uses: u64, mut report: impl FnMut(u64, Attempt)) {
    let mut next = 1;
    while next <= uses {
        let end = fail_from(function, next..=uses, |attempt| {
            report(next, attempt);
            next += 1;
        });
        if let Some(crashed) = end {
            report(next, crashed);
            next += 1;
        }
    }
}

/// Has `calls` of `function` fail in one child process and reports each, up to the first that leaves something behind.
/// One in which the child crashes or hangs is returned.
fn fail_from(function: &str, calls: RangeInclusive<u64>, mut report: impl FnMut(Attempt)) -> Option<Attempt> {
    let mut child = spawn(&format!("{function}:{}:{}", calls.start(), calls.end()));
    let stderr = child.stderr.take().expect("it is piped");
    let (send, lines) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines() {
            let _ = send.send(line.expect("a line of text"));
        }
    });
    let mut said = Vec::new();
    loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) if line == BEGINS => said.clear(),
            Ok(line) => match parse(&line) {
                Some(ended) => report(Attempt { outcome: Ok(ended), said: std::mem::take(&mut said) }),
                None => said.push(line),
            },
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                child.kill().expect("the child can be killed");
                said.push(format!("nothing happened for {LIMIT:?}"));
                break;
            }
        }
    }
    let status = child.wait().expect("the child ends");
    reader.join().expect("the reader ends");
    (!status.success()).then(|| Attempt { outcome: Err(format!("{status}: {}", said.join(" | "))), said })
}

/// The end that a line of the child tells.
fn parse(line: &str) -> Option<Ended> {
    let mut words = line.strip_prefix("ended ")?.splitn(4, ' ');
    let mut number = || words.next()?.parse::<i64>().ok();
    let (growth, threads, up) = (number()?, number()?, number()?);
    let error = Some(words.next()?).filter(|text| *text != "ok").map(str::to_owned);
    Some(Ended { growth, threads, runtime_is_up: up != 0, error })
}

/// The functions of the software runtime that only tests call.
struct Sim {
    fail: unsafe extern "C" fn(*const c_char, u64, HsaStatus),
    iterate_calls: unsafe extern "C" fn(unsafe extern "C" fn(*const c_char, u64, *mut c_void), *mut c_void),
    shut_down: hsa_abi::pfn::hsa_shut_down,
    get_info: hsa_abi::pfn::hsa_system_get_info,
}

impl Sim {
    fn load() -> Self {
        let path = support::library_path();
        // SAFETY: the software runtime, which stays loaded, and the types of its functions.
        unsafe {
            let library = std::mem::ManuallyDrop::new(libloading::Library::new(path).expect("the software runtime"));
            Self {
                fail: *library.get(b"hsa_sim_fail\0").expect("the software runtime"),
                iterate_calls: *library.get(b"hsa_sim_iterate_calls\0").expect("the software runtime"),
                shut_down: *library.get(b"hsa_shut_down\0").expect("an HSA runtime"),
                get_info: *library.get(b"hsa_system_get_info\0").expect("an HSA runtime"),
            }
        }
    }

    fn fail(&self, function: &str, call: u64) {
        let function = CString::new(function).expect("a name");
        // SAFETY: a NUL-terminated name.
        unsafe { (self.fail)(function.as_ptr(), call, HsaStatus::ERROR_OUT_OF_RESOURCES) };
    }

    fn print_calls(&self) {
        unsafe extern "C" fn print(name: *const c_char, calls: u64, _data: *mut c_void) {
            // SAFETY: the runtime gives a NUL-terminated name.
            say(&format!("calls {} {calls}", unsafe { CStr::from_ptr(name) }.to_string_lossy()));
        }
        // SAFETY: the callback ignores its data.
        unsafe { (self.iterate_calls)(print, std::ptr::null_mut()) };
    }

    fn is_up(&self) -> bool {
        let mut major = 0_u16;
        // SAFETY: a place for the attribute.
        unsafe { (self.get_info)(HsaSystemInfo::VERSION_MAJOR, (&raw mut major).cast()) == HsaStatus::SUCCESS }
    }
}

/// The child's part.
pub fn main() {
    let Ok(what) = std::env::var(VARIABLE) else { return };
    let sim = Sim::load();
    let run = |is_large| {
        let ended = Fixtures::new(host_memory::allocator(), is_large).run();
        ended.map_err(|error| error.to_string().replace('\n', " | "))
    };
    sim.fail("", 0);
    host_memory::fail(0);
    run(false).expect("the scenario goes through when nothing fails");
    if what == TRACE {
        say(&format!("calls {} {}", host_memory::NAME, host_memory::calls()));
        sim.print_calls();
        rust_memory::fail(0);
        run(true).expect("the large scenario goes through when nothing fails");
        return say(&format!("calls {} {}", rust_memory::NAME, rust_memory::calls()));
    }
    let mut parts = what.split(':');
    let function = parts.next().expect("a function");
    let is_large = function == rust_memory::NAME;
    let [first, last] = [(); 2].map(|()| parts.next().and_then(|part| part.parse::<u64>().ok()).expect("a number"));
    for call in first..=last {
        // Tables that grow once and for all (in the C library, in locks) are no leak, and are complete after a few
        // runs.
        let mut ended = Ended::default();
        for _ in 0..RUNS {
            ended = fail_once(&sim, function, call, || run(is_large));
            if !ended.leaves_something() {
                break;
            }
        }
        let Ended { growth, threads, runtime_is_up, error } = &ended;
        let (up, text) = (i32::from(*runtime_is_up), error.as_deref().unwrap_or("ok"));
        say(&format!("ended {growth} {threads} {up} {text}"));
        if ended.leaves_something() {
            // Later runs would be blamed for it.
            return;
        }
    }
}

/// One run in which a call fails.
fn fail_once(sim: &Sim, function: &str, call: u64, run: impl Fn() -> Result<(), String>) -> Ended {
    say(BEGINS);
    let (threads, blocks) = (threads_now(), heap::live());
    match function {
        host_memory::NAME => host_memory::fail(call),
        rust_memory::NAME => rust_memory::fail(call),
        function => sim.fail(function, call),
    }
    let error = run().err();
    host_memory::fail(0);
    rust_memory::fail(0);
    sim.fail("", 0);
    if function == "hsa_shut_down" {
        // SAFETY: makes up for the call that failed; nothing of the runtime is in use.
        let _ = unsafe { (sim.shut_down)() };
    }
    let runtime_is_up = sim.is_up();
    // Forgets the calls that were counted.
    sim.fail("", 0);
    let growth = heap::live() - blocks - i64::from(error.is_some());
    Ended { growth, threads: threads_now() - threads, runtime_is_up, error }
}

/// Threads of this process.
fn threads_now() -> i64 {
    std::fs::read_dir("/proc/self/task").expect("the process's threads").count() as i64
}
