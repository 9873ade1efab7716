// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! ROCR's behaviour, entry by entry of `docs/sim/rocr.md`, which names these tests. Each test starts the runtime anew,
//! as one release or another.

mod code;
#[path = "../common/mod.rs"]
mod common;
mod dmabuf;
mod environment;
mod hip;
mod memory;
mod page;
mod queues;
mod runtime;
mod signals;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::{env, thread};

use common::Hsa;
use parking_lot::Mutex;

/// Lock of the environment and of the runtime's reference count, which are the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// Supported releases, oldest first.
const RELEASES: [&str; 2] = ["6.2", "7.0"];

/// Runs `body` with environment variables set, while no other test uses the runtime.
fn alone<R>(variables: &[(&str, &str)], body: impl FnOnce() -> R) -> R {
    let _alone = ALONE.lock();
    // SAFETY: the tests that look at the environment run one after another, and the runtime is not initialised.
    variables.iter().for_each(|(name, value)| unsafe { env::set_var(name, value) });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    // SAFETY: no test that looks at the environment runs beside this, and the runtime is shut down.
    variables.iter().for_each(|(name, _)| unsafe { env::remove_var(name) });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs `body` with a runtime of its own in an environment of its own.
fn in_environment<R>(variables: &[(&str, &str)], body: impl FnOnce(&Hsa) -> R) -> R {
    alone(variables, || body(&Hsa::new()))
}

/// Runs `body` with the runtime in a release's behaviour.
fn release<R>(name: &str, body: impl FnOnce(&Hsa) -> R) -> R {
    in_environment(&[("HSA_SIM_ROCR", name)], body)
}

/// Runs `body` with each release.
fn every_release(body: impl Fn(&Hsa)) {
    RELEASES.iter().for_each(|name| release(name, &body));
}

/// Runs `body`, which must abort, in a process of its own. Returns its standard error.
fn abort_of(body: impl FnOnce(&Hsa)) -> String {
    const CHILD: &str = "SIM_TEST_CHILD";
    let name = thread::current().name().expect("tests have names").to_owned();
    if env::var(CHILD).as_deref() == Ok(&name) {
        in_environment(&[], body);
        std::process::exit(0);
    }
    // The child inherits the environment.
    let _alone = ALONE.lock();
    let mut child = Command::new(env::current_exe().unwrap());
    let output = child.args([&name, "--exact", "--nocapture"]).env(CHILD, &name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    text
}
