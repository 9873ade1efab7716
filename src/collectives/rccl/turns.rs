// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The order of a GPU's operations that the host orders, over all of its communicators.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use amdgpu_ffi::Result;

/// The turns of a GPU that have not ended. Locked alone, for short times, by any thread.
#[derive(Debug, Default)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    outstanding: BTreeSet<u64>,
}

impl State {
    /// True if a turn before `number` is outstanding.
    fn has_before(&self, number: u64) -> bool {
        self.outstanding.first().is_some_and(|first| *first < number)
    }
}

impl Turns {
    /// Begins a turn behind all earlier ones. `draw` is called before another turn begins.
    pub fn begin<R>(self: &Arc<Self>, draw: impl FnOnce() -> R) -> (Turn, R) {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.outstanding.insert(number);
        (Turn { turns: self.clone(), number }, draw())
    }

    /// True if no turn is outstanding.
    pub fn are_over(&self) -> bool {
        self.state.lock().outstanding.is_empty()
    }
}

/// Operations that the host orders, from their submission until they have ended, or a split, until the ranks of its new
/// group have joined. Dropping it ends the turn.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

impl Turn {
    /// Waits until all earlier turns have ended. Calls `check` at least once in `period`.
    ///
    /// # Errors
    /// The error of `check`.
    pub fn wait(&self, period: Duration, check: impl Fn() -> Result<()>) -> Result<()> {
        let mut state = self.turns.state.lock();
        while state.has_before(self.number) {
            drop(state);
            check()?;
            state = self.turns.state.lock();
            self.turns.changed.wait_while_for(&mut state, |state| state.has_before(self.number), period);
        }
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.state.lock().outstanding.remove(&self.number);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_ffi::status;

    #[test]
    fn a_turn_waits_for_earlier_ones_until_its_group_fails() {
        let turns = Arc::<Turns>::default();
        let (first, ()) = turns.begin(|| ());
        let (second, ()) = turns.begin(|| ());
        assert!(first.wait(Duration::MAX, || Err(status!(INTERNAL, "asked"))).is_ok(), "nothing is before it");
        let failed = second.wait(Duration::ZERO, || Err(status!(ABORTED, "the group has failed")));
        assert!(failed.unwrap_err().to_string().contains("the group has failed"));
        assert!(!turns.are_over());
        drop(first);
        assert!(second.wait(Duration::MAX, || Err(status!(INTERNAL, "asked"))).is_ok());
        drop(second);
        assert!(turns.are_over());
    }
}
