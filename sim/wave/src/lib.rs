// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Runs AMDGPU kernels on the CPU.
//!
//! [`Kernel::load`] decodes a kernel's machine code once into micro-operations; [`run`] executes them over a grid,
//! every instruction for all lanes of a wavefront at once: registers are arrays of lanes, so that the loops over lanes
//! become vector instructions of the host. The waves of a workgroup take turns on one thread, workgroups spread over
//! threads.
//!
//! Memory is the host's own, accessed through [`Memory`], and every access is checked. Undefined behaviour of a GPU
//! (accesses outside of an allocation, of LDS or of scratch; registers the kernel did not ask for) is a [`Fault`]. So
//! is any instruction or mode that is not implemented: a kernel never continues past it. "RDNA3 ISA" in comments is
//! AMD's "RDNA3 Instruction Set Architecture Reference Guide", "AMDGPUUsage" LLVM's "User Guide for AMDGPU Backend".
//!
//! Results are those of the hardware where its documents define them; transcendental functions are at least as exact as
//! its own.

mod caching;
mod check;
mod count;
mod debug;
mod dispatch;
mod exec;
mod fault;
mod flow;
mod gws;
mod hardware;
mod hwreg;
mod jit;
mod journal;
mod kernel;
mod launch;
mod memory;
mod micro_op;
mod observer;
mod operand;
mod probe;
mod profile;
mod program;
mod read_first;
mod sanitizer;
mod setup;
mod sources;
mod steps;
mod trace;
mod translate;
mod wave;

pub use count::{Kind, TakeTally, Tally};
pub use debug::{Debug, Event, Go, Progresses, Stopped};
pub use dispatch::run;
pub use exec::is_implemented;
pub use fault::{Access, Fault, FaultKind};
pub use gws::Gws;
pub use hardware::{PRIVATE_APERTURE, SHARED_APERTURE, lds_bytes};
pub use hwreg::hardware_register;
pub use jit::{Jit, TOTALS as COMPILED, Totals as Compiled};
pub use kernel::Kernel;
pub use launch::{Counters, Launch, MAX_WORKGROUP, Observers, Watch};
pub use memory::{Caches, Control, Memory, Path, Region, Turn};
pub use probe::{Probe, Run};
pub use profile::{Collect, Figures};
pub use sanitizer::{CheckSet, Checks, Finding, Line, PAGE, Page, PathFinding, PathReport, Sink, Touched, Unwritten};
pub use steps::{Class, Executed, TakeSteps};
pub use trace::Listener;
