// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Reduces a kernel that differs: leaves statements out as long as the results still differ.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::batch::{Batch, Finding};
use xtask_core::error::{Context, Result};
use xtask_core::layout::Layout;
use xtask_core::steps::Step;
use xtask_core::target::Target;

/// Maximum number of findings that are reduced for each target.
pub const MOST: usize = 5;

/// Reduces a finding. Returns the folder of its smallest form: `kernels.c`, `kernels.co` and `client`, and the client's
/// output in `differs.txt`.
///
/// # Errors
/// When a batch of the finding's kernel cannot be compiled or run.
pub fn reduce(layout: &Layout, step: &Step, target: &Target, finding: &Finding) -> Result<PathBuf> {
    let attempt = |dropped: &BTreeSet<u32>| -> Result<Option<String>> {
        let outcome = Batch::single(layout, target, finding, dropped)?.run()?;
        Ok(outcome.findings.into_iter().next().map(|finding| finding.what))
    };
    let all = Batch::single(layout, target, finding, &BTreeSet::new())?.statements();
    let mut dropped = BTreeSet::new();
    let mut size = all.div_ceil(2);
    while size > 0 {
        let mut first = 0;
        while first < all {
            step.note(&format!("{} of {all} statements", all as usize - dropped.len()));
            let mut more = dropped.clone();
            more.extend(first..(first + size).min(all));
            if more.len() > dropped.len() && attempt(&more)?.is_some() {
                dropped = more;
            }
            first += size;
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    let batch = Batch::single(layout, target, finding, &dropped)?;
    let what = batch.run()?.findings.into_iter().next().map_or_else(|| finding.what.clone(), |smaller| smaller.what);
    let path = batch.folder().join("differs.txt");
    fs::write(&path, what + "\n").context(|| format!("writing {}", path.display()))?;
    Ok(batch.folder().to_path_buf())
}
