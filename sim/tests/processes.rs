// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The process around the machine: its memory after many executables, and its children.

mod common;

use std::time::Instant;

use common::code::*;
use common::*;
use hsa_abi::*;

/// Pages of the process that are in memory, and executable mappings without a file.
fn footprint() -> (usize, usize) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let code = maps.lines().filter(|line| line.contains(" r-xp 00000000 00:00 0")).count();
    (statm.split(' ').nth(1).unwrap().parse().unwrap(), code)
}

#[cfg(target_os = "linux")]
#[test]
fn executables_leave_no_memory_behind() {
    const NAME: &str = "executables_leave_no_memory_behind";
    let ended = alone_with(NAME, &[("HSA_SIM_AGENTS", "gfx1100"), ("HSA_SIM_JIT", "always")], || {
        let hsa = Hsa::new();
        let queue = Queue::new(hsa.gpu(), 64);
        let out = hsa.host_memory::<u32>(1000);
        let args = kernargs(&hsa, FillArgs { out, value: 7, count: 1000 });
        let mut most_code = 0;
        let mut load_and_run = |times: usize| {
            for _ in 0..times {
                let done = signal(1);
                let code = load_code(hsa.gpu(), GFX11).unwrap();
                queue.submit(&code.packet("fill", 16, args, done));
                wait_for(done, 0);
                most_code = most_code.max(footprint().1);
                destroy(&[done]);
            }
        };
        load_and_run(100);
        let before = footprint();
        load_and_run(1000);
        let after = footprint();
        assert_eq!(after.1, before.1, "mappings with code");
        if cfg!(target_arch = "x86_64") && std::is_x86_feature_detected!("avx2") {
            assert_eq!(most_code, before.1 + 1, "the kernel is compiled");
        }
        let grown = 4 * after.0.saturating_sub(before.0);
        assert!(grown < 1000, "{grown} KiB more are in memory after 1,000 executables");
        assert_eq!(free(args), HsaStatus::SUCCESS);
    });
    if let Some((status, text)) = ended {
        assert!(status.success(), "{text}");
    }
}

/// Way in which a child process goes on.
#[derive(Clone, Copy, Debug)]
enum Child {
    /// Ends at once.
    Ends,
    /// Ends as a program does, by way of the functions that were registered for that.
    Exits,
    /// Becomes another program.
    Becomes,
}

/// Forks, and returns the child's exit status.
fn fork(child: Child) -> i32 {
    // SAFETY: the child calls functions that a child of a process with threads may call; `exit` calls the simulator's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: the arguments are C strings, and the list ends with null.
        unsafe {
            match child {
                Child::Ends => libc::_exit(7),
                Child::Exits => libc::exit(7),
                Child::Becomes => {
                    let (shell, option, command) = (c"/bin/sh".as_ptr(), c"-c".as_ptr(), c"exit 7".as_ptr());
                    libc::execv(shell, [shell, option, command, std::ptr::null()].as_ptr());
                    libc::_exit(1);
                }
            }
        }
    }
    let (mut status, start) = (0, Instant::now());
    loop {
        // SAFETY: the child is this process' own, the status a valid place.
        match unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } {
            0 if start.elapsed() > TIMEOUT => {
                // SAFETY: as above.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                panic!("a child that {child:?} does not end");
            }
            0 => std::thread::yield_now(),
            waited => {
                assert_eq!(waited, pid);
                assert!(libc::WIFEXITED(status), "{child:?}: status {status:#x}");
                return libc::WEXITSTATUS(status);
            }
        }
    }
}

/// A fork copies the thread that calls it alone: none that runs packets, polls or reports. With ROCR the child can end
/// or become another program, too, and tells nothing of its parent's.
#[test]
fn a_forked_child_can_end_or_become_another_program() {
    const NAME: &str = "a_forked_child_can_end_or_become_another_program";
    let variables = [("HSA_SIM_AGENTS", "gfx1100"), ("HSA_SIM_JIT", "always"), ("HSA_SIM_LEAKS", "1")];
    let ended = alone_with(NAME, &variables, || {
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), GFX11).unwrap();
        let queues = [Queue::new(hsa.gpu(), 64), Queue::new(hsa.gpu(), 64)];
        let done = signal(2);
        let flag = hsa.host_memory::<u32>(1);
        let spins = kernargs(&hsa, flag);
        // It runs while the process forks.
        queues[0].submit(&code.packet("spin", 4, spins, done));
        for child in [Child::Ends, Child::Exits, Child::Becomes] {
            assert_eq!(fork(child), 7, "{child:?}");
        }
        let fills = kernargs(&hsa, FillArgs { out: flag, value: 1, count: 1 });
        queues[1].submit(&code.packet("fill", 1, fills, done));
        wait_for(done, 0);
        for memory in [flag.cast(), spins, fills] {
            assert_eq!(free(memory), HsaStatus::SUCCESS);
        }
        destroy(&[done]);
    });
    if let Some((status, text)) = ended {
        assert!(status.success(), "{text}");
        assert!(!text.contains("hsa-sim: exit"), "a child reports its parent's objects: {text}");
    }
}
