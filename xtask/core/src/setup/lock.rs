// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Lock that allows one set-up at a time in a checkout. Two would delete each other's folders in `build/`.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};

use crate::error::{Context, Result};
use crate::layout::Layout;
use crate::steps::Steps;

/// Lock of `build/`, held until it is dropped or the process ends.
pub struct Lock(#[expect(dead_code, reason = "closing it gives the lock back")] File);

/// Takes the lock. If another process holds it, prints which one and waits.
///
/// # Errors
/// When the lock's file cannot be created or locked.
pub fn take(layout: &Layout, steps: &Steps) -> Result<Lock> {
    let path = layout.build.join("lock");
    let shown = || format!("locking {}", path.display());
    fs::create_dir_all(&layout.build).context(|| format!("making {}", layout.build.display()))?;
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&path).context(shown)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).context(shown)?;
            let holder = if holder.is_empty() { "another process" } else { holder.trim_end() };
            steps.say(&format!("Waiting for {holder} to finish its set-up in {}", layout.build.display()));
            file.lock().context(shown)?;
        }
        Err(TryLockError::Error(error)) => return Err(error).context(shown),
    }
    let command: Vec<_> = std::env::args().skip(1).collect();
    file.rewind().and_then(|()| file.set_len(0)).context(shown)?;
    writeln!(file, "`cargo xtask {}` (process {})", command.join(" "), std::process::id()).context(shown)?;
    Ok(Lock(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flavor::Flavor;

    #[test]
    fn the_lock_is_one_holders_at_a_time_and_says_whose() {
        let build = std::env::temp_dir().join(format!("xtask-lock-{}", std::process::id()));
        let layout = Layout { root: build.clone(), build: build.clone(), user_tree: None, flavor: Flavor::Plain };
        let steps = Steps::new(build.join("logs"));
        let held = take(&layout, &steps).unwrap();
        let text = fs::read_to_string(build.join("lock")).unwrap();
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        let other = File::open(build.join("lock")).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(held);
        assert!(other.try_lock().is_ok());
        fs::remove_dir_all(build).unwrap();
    }
}
