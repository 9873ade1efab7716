// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The program `check-kernel`; see [`check_kernel::command`].

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(check_kernel::command::main(std::env::args_os()))
}
