// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Profiles as text, and as JSON, one object a line.

use std::fmt::Write as _;

use sim_wave::Figures;

use super::{Key, Profiled};
use crate::machine::report::findings::quoted;

/// A table for each kernel.
pub fn text(kernels: &[(&Key, &Profiled)]) -> String {
    let mut text = String::new();
    for ((name, target, hash), profiled) in kernels {
        let _ = writeln!(text, "kernel {name} on {target}, code {hash:016x}: {}\n", summary(profiled));
        let _ = writeln!(
            text,
            "{:>10} {:>6} {:>9} {:>12} {:>12} {:>12} {:>8}  instruction",
            "times", "lanes", "divergent", "bytes", "lines", "LDS", "offset"
        );
        for (line, figures, source) in profiled.lines() {
            let Cells { lanes, divergent, bytes, lines, passes } = cells(&figures);
            let (times, offset) = (figures.times, format!("+{:#x}", line.offset));
            let _ = writeln!(
                text,
                "{times:>10} {lanes:>6} {divergent:>9} {bytes:>12} {lines:>12} {passes:>12} {offset:>8}  {}{}{source}",
                line.text,
                if source.is_empty() { "" } else { "  ; " }
            );
        }
        text.push('\n');
    }
    text
}

/// Total figures of a kernel, in a sentence.
pub fn summary(profiled: &Profiled) -> String {
    let some = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {}, {}, {}, {:.3} ms in the simulator",
        some(profiled.dispatches, "dispatch").replace("dispatchs", "dispatches"),
        some(profiled.workgroups, "workgroup"),
        some(profiled.waves, "wave"),
        some(profiled.instructions(), "instruction"),
        1e3 * profiled.time.as_secs_f64()
    )
}

/// Formatted figures of an instruction. A cell is empty if there is nothing to show.
pub struct Cells {
    /// Average number of active lanes of an execution.
    pub lanes: String,
    /// Divergent executions, in percent.
    pub divergent: String,
    /// Bytes in total.
    pub bytes: String,
    /// Average number of cache lines of an execution, and the minimum possible.
    pub lines: String,
    /// Average number of passes of an execution, and the minimum possible.
    pub passes: String,
}

/// Formats the figures of an instruction.
pub fn cells(figures: &Figures) -> Cells {
    let per_time = |count: u64| format!("{:.1}", count as f64 / figures.times as f64);
    let of_fewest = |count: u64, fewest: u64| match count {
        0 => String::new(),
        _ => format!("{}/{}", per_time(count), per_time(fewest)),
    };
    let unless_zero = |count: u64, text: String| if count == 0 { String::new() } else { text };
    Cells {
        lanes: unless_zero(figures.times, per_time(figures.lanes)),
        divergent: unless_zero(
            figures.divergent,
            format!("{:.0}%", 100.0 * figures.divergent as f64 / figures.times as f64),
        ),
        bytes: unless_zero(figures.bytes, figures.bytes.to_string()),
        lines: of_fewest(figures.lines, figures.fewest_lines),
        passes: of_fewest(figures.passes, figures.fewest_passes),
    }
}

/// Formats JSON: an object for each kernel, followed by one for each of its instructions.
pub fn json(kernels: &[(&Key, &Profiled)]) -> String {
    let mut json = String::new();
    for ((name, target, hash), profiled) in kernels {
        let kernel = format!("\"kernel\":{},\"target\":\"{target}\",\"code\":\"{hash:016x}\"", quoted(name));
        let Profiled { dispatches, workgroups, waves, time, .. } = profiled;
        let _ = writeln!(
            json,
            "{{{kernel},\"dispatches\":{dispatches},\"workgroups\":{workgroups},\"waves\":{waves},\"execute_ns\":{}}}",
            time.as_nanos()
        );
        for (line, figures, source) in profiled.lines() {
            let Figures { offset, times, lanes, divergent, bytes, lines, fewest_lines, passes, fewest_passes } =
                figures;
            let _ = writeln!(
                json,
                "{{{kernel},\"offset\":{offset},\"text\":{},\"times\":{times},\"lanes\":{lanes},\
                 \"divergent\":{divergent},\"bytes\":{bytes},\"lines\":{lines},\"fewest_lines\":{fewest_lines},\
                 \"passes\":{passes},\"fewest_passes\":{fewest_passes},\"source\":{}}}",
                quoted(&line.text),
                if source.is_empty() { "null".to_owned() } else { quoted(source) }
            );
        }
    }
    json
}
