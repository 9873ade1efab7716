// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A software HSA runtime: `libhsa-runtime64.so.1` for machines without a GPU.
//!
//! Programs load it exactly as they load ROCR. [`hsa`] holds the exported functions, which check their arguments and
//! call [`machine`]: agents, memory, signals, queues, packet processors, loader. The machine executes kernels with the
//! crate `sim-wave`.
//!
//! # Environment
//!
//! Variables are read at the first `hsa_init`. Variables that count or fail calls are read at the first call of any
//! function. `docs/sim/variables.md` lists the variables, the settings of agents, the checks and the counters; `cargo
//! xtask check` compares it with the sources.

/// Prints a line to standard error. A line that cannot be written, to a pipe that its reader has closed, is dropped:
/// the macro of the same name in `std` panics, which ends the program where C calls.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

pub mod hsa;
pub mod inject;
pub mod machine;
