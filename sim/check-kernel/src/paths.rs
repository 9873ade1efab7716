// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Waits and wait states on all paths of kernels, which are not run.

use std::ptr;

use amdgpu_code_object::{CodeObject, Kernel};
use hsa_abi::KernelDescriptor;
use hsa_runtime64::machine::code::source::Sources;
use sim_isa::Target;
use sim_wave::PathReport;

use crate::code::{self, Code};

/// Checks the kernel of this name, or all kernels that GPUs of the sim run, on `agent` alone if it is given. Without
/// it, code for a generic target is checked once for each instruction set of its members, whose hazards differ. `say`
/// gets the findings. Returns true if there are none.
///
/// # Errors
/// When there is no such kernel, or the simulator cannot decode it.
pub fn check(codes: &[Code<'_>], name: Option<&str>, agent: Option<&str>, say: impl Fn(&str)) -> Result<bool, String> {
    let only = name.map(|name| code::find(codes, name, agent)).transpose()?;
    let mut is_clean = true;
    let mut is_any = false;
    for code in codes {
        let kernels = code.metadata.kernels.iter();
        for kernel in kernels.filter(|kernel| only.as_ref().is_none_or(|only| ptr::eq(only.kernel, *kernel))) {
            let mut seen = Vec::new();
            for of in code.agents.iter().filter(|of| agent.is_none_or(|agent| agent == **of)) {
                let target = Target::from_processor(of).ok_or("the instructions of its GPU are not known")?;
                if seen.contains(&target) {
                    continue;
                }
                seen.push(target);
                let report = of_kernel(code.bytes, kernel, target);
                let report = report.map_err(|error| format!("{} on {of}: {error}", kernel.name))?;
                (is_any, is_clean) = (true, is_clean && report.findings.is_empty());
                tell(&report, of, &say);
            }
        }
    }
    if is_any { Ok(is_clean) } else { Err(code::not_for(codes, agent)) }
}

fn tell(report: &PathReport, agent: &str, say: impl Fn(&str)) {
    let PathReport { kernel, findings, unknown, instructions, blocks } = report;
    for finding in findings {
        say(&format!("{}: kernel {kernel}: {}\n{finding}", finding.check, finding.what));
    }
    for (line, why) in unknown {
        say(&format!("not followed: kernel {kernel}: {why}\n    {line}"));
    }
    let found = match findings.len() {
        0 => "nothing found".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    say(&format!("kernel {kernel} on {agent}: {found} on all paths of {instructions} instructions in {blocks} blocks"));
}

fn of_kernel(bytes: &[u8], kernel: &Kernel, target: Target) -> Result<PathReport, String> {
    let code = CodeObject::parse(bytes).map_err(|error| error.to_string())?;
    let symbol = code.symbol(&kernel.symbol).ok_or("it has no descriptor")?;
    let descriptor = code.data_at(symbol.address, size_of::<KernelDescriptor>() as u64);
    let descriptor = descriptor.ok_or("its descriptor is not in the file")?;
    // SAFETY: there are as many bytes, and a descriptor is made of integers.
    let descriptor: KernelDescriptor = unsafe { descriptor.as_ptr().cast::<KernelDescriptor>().read_unaligned() };
    let entry = symbol.address.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let holds = |address: u64, size: usize| (address..address + size as u64).contains(&entry);
    let segment = code.segments.iter().find(|segment| segment.executable && holds(segment.address, segment.data.len()));
    let segment = segment.ok_or("its code is not in the file")?;
    let loaded =
        sim_wave::Kernel::load(target, segment.address, segment.data, &descriptor, symbol.address, &kernel.name);
    let mut report = loaded.map_err(|fault| fault.to_string())?.check_paths();
    let addresses: Vec<u64> = report.lines_mut().map(|line| line.pc).collect();
    let sources = Sources::new(bytes, 0).locate(addresses.into_iter());
    report.lines_mut().zip(sources).for_each(|(line, source)| line.source = source);
    Ok(report)
}
