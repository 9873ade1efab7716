// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Frames that have arrived at a rank and wait for the operation that takes them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::world::Key;
use amdgpu_ffi::{Result, Status, status};

/// The frames of one rank. Transports deliver on any thread; operations take. All state is behind one lock, under which
/// nothing else is called.
#[derive(Debug, Default)]
pub struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    frames: HashMap<Key, Vec<u8>>,
    /// The failure of the whole world.
    failure: Option<Status>,
    /// The failures of groups, by context.
    aborted: HashMap<u64, Status>,
    /// The ranks that have died.
    dead: HashMap<u32, Status>,
    /// The ranks that have left in good order and send nothing any more.
    left: HashMap<u32, Status>,
}

impl State {
    /// The reason for which a frame of `context` will not come, sent by a group with `members`.
    fn failure(&self, context: u64, members: &[u32]) -> Option<&Status> {
        let dead = || if self.dead.is_empty() { None } else { members.iter().find_map(|rank| self.dead.get(rank)) };
        self.failure.as_ref().or_else(|| self.aborted.get(&context)).or_else(dead)
    }
}

impl Mailbox {
    /// Adds a frame.
    pub fn deliver(&self, key: Key, payload: Vec<u8>) {
        self.state.lock().frames.insert(key, payload);
        self.changed.notify_all();
    }

    /// Ends all waits of the rank, now and later. The first failure stays.
    pub fn fail(&self, status: Status) {
        self.state.lock().failure.get_or_insert(status);
        self.changed.notify_all();
    }

    /// Ends all waits in the group `context`, now and later. The first failure stays.
    pub fn abort(&self, context: u64, status: Status) {
        self.state.lock().aborted.entry(context).or_insert(status);
        self.changed.notify_all();
    }

    /// Ends all waits in groups with `rank`, which has died, for frames that have not arrived. The first reason stays.
    pub fn lose(&self, rank: u32, status: Status) {
        self.state.lock().dead.entry(rank).or_insert(status);
        self.changed.notify_all();
    }

    /// Ends all waits for frames of `rank` that have not arrived: it has left in good order.
    pub fn leave(&self, rank: u32) {
        let status = status!(ABORTED, "rank {rank} has ended, and sends nothing any more");
        self.state.lock().left.entry(rank).or_insert(status);
        self.changed.notify_all();
    }

    /// The failure of the group, if it has failed, or the death of one of `members`.
    pub fn failure(&self, context: u64, members: &[u32]) -> Option<Status> {
        self.state.lock().failure(context, members).cloned()
    }

    /// The leave of one of `members` in good order.
    pub fn left(&self, members: &[u32]) -> Option<Status> {
        let state = self.state.lock();
        members.iter().find_map(|rank| state.left.get(rank)).cloned()
    }

    /// Takes the frame `key`, which a group with the world's ranks `members` sends, and waits for it.
    ///
    /// # Errors
    /// The failure of the world, of the group or of one of its members; DEADLINE_EXCEEDED after `timeout`.
    pub fn take(&self, key: &Key, members: &[u32], timeout: Duration) -> Result<Vec<u8>> {
        let mut state = self.state.lock();
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(payload) = state.frames.remove(key) {
                return Ok(payload);
            }
            let left = || state.left.get(&key.source);
            if let Some(failure) = state.failure(key.context, members).or_else(left) {
                return Err(failure.clone());
            }
            let Some(deadline) = deadline else {
                self.changed.wait(&mut state);
                continue;
            };
            if self.changed.wait_until(&mut state, deadline).timed_out() && !state.frames.contains_key(key) {
                return Err(status!(
                    DEADLINE_EXCEEDED,
                    "a collective waited {timeout:?} for rank {}: it has ended, hangs, or does not make the same \
                     calls in the same order (option collective_timeout)",
                    key.source
                ));
            }
        }
    }
}
