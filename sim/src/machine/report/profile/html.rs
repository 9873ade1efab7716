// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! A profile as a self-contained HTML page: each kernel's code as a heat map.

use std::fmt::Write as _;

use super::text::{Cells, cells, summary};
use super::{Key, Profiled};

const HEAD: &str = include_str!("head.html");

/// The page.
pub fn page(kernels: &[(&Key, &Profiled)]) -> String {
    let mut page = HEAD.to_owned();
    let total: u64 = kernels.iter().map(|(_, profiled)| profiled.instructions()).sum();
    if kernels.is_empty() {
        page += "<p>No kernel ran.</p>\n";
    }
    for (at, ((name, target, hash), profiled)) in kernels.iter().enumerate() {
        let share = 100.0 * profiled.instructions() as f64 / total.max(1) as f64;
        let _ = write!(
            page,
            "<details{}><summary><b>{}</b> on {target} <span class=share>{share:.1}%</span></summary>\n\
             <p>{}; code {hash:016x}</p>\n<table>\n<tr><th>times<th>lanes<th>divergent<th>bytes\
             <th>lines<th>LDS<th>offset<th>instruction{}\n",
            if at == 0 { " open" } else { "" },
            escaped(name),
            summary(profiled),
            if profiled.has_sources() { "<th>source" } else { "" }
        );
        let hottest = profiled.lines().map(|(_, figures, _)| figures.times).max().unwrap_or(0).max(1);
        for (line, figures, source) in profiled.lines() {
            let Cells { lanes, divergent, bytes, lines, passes } = cells(&figures);
            let heat = figures.times as f64 / hottest as f64;
            let is_bad = |count: u64, fewest: u64| if count > fewest { " class=bad" } else { "" };
            let _ = writeln!(
                page,
                "<tr{} style=\"--heat:{heat:.3}\"><td class=heat>{}<td>{lanes}<td>{divergent}<td>{bytes}\
                 <td{}>{lines}<td{}>{passes}<td>+{:#x}<td class=code>{}{}{}",
                if figures.times == 0 { " class=cold" } else { "" },
                figures.times,
                is_bad(figures.lines, figures.fewest_lines),
                is_bad(figures.passes, figures.fewest_passes),
                line.offset,
                escaped(&line.text),
                if source.is_empty() { "" } else { "<td class=source>" },
                escaped(source)
            );
        }
        page += "</table></details>\n";
    }
    page
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
