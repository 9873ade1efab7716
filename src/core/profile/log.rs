// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Bounded logs of events between two flushes.

use parking_lot::Mutex;

use amdgpu_ffi::Fallible;

/// Events in the order of their completion, at most `limit` at a time. Events that come when it is full, or when the
/// host has no memory, are dropped and counted.
#[derive(Debug)]
pub struct EventLog<T> {
    limit: usize,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    events: Vec<T>,
    /// The memory of events that were taken before.
    spare: Vec<T>,
    next_id: u64,
    dropped: u64,
}

/// The contents of a log.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken<T> {
    /// The events.
    pub events: Vec<T>,
    /// Events lost since the log was emptied last.
    pub dropped: u64,
}

impl<T> EventLog<T> {
    /// An empty log. Memory follows with the events.
    pub fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::new(State { events: Vec::new(), spare: Vec::new(), next_id: 1, dropped: 0 }) }
    }

    /// Appends the event that `make` makes for its identifier, which counts from 1. Returns false if the event is lost.
    pub fn push(&self, make: impl FnOnce(u64) -> T) -> bool {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        if state.events.len() == self.limit || state.events.make_room(1).is_err() {
            state.dropped += 1;
            return false;
        }
        state.events.push(make(id));
        true
    }

    /// Empties the log.
    pub fn take(&self) -> Taken<T> {
        let mut state = self.state.lock();
        let spare = std::mem::take(&mut state.spare);
        let events = std::mem::replace(&mut state.events, spare);
        Taken { events, dropped: std::mem::take(&mut state.dropped) }
    }

    /// Takes back the memory of taken events.
    pub fn give(&self, mut events: Vec<T>) {
        events.clear();
        self.state.lock().spare = events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_loses_and_counts_what_comes() {
        let log = EventLog::new(2);
        assert!(log.push(|id| id));
        assert!(log.push(|id| id));
        assert!(!log.push(|id| id));
        assert_eq!(log.take(), Taken { events: vec![1, 2], dropped: 1 });
        assert!(log.push(|id| id));
        assert_eq!(log.take(), Taken { events: vec![4], dropped: 0 });
        assert_eq!(log.take(), Taken { events: vec![], dropped: 0 });
    }

    #[test]
    fn memory_of_events_is_used_again() {
        let log = EventLog::new(100);
        log.push(|id| id);
        let mut events = log.take().events;
        events.reserve(100);
        let memory = events.as_ptr();
        log.give(events);
        assert_eq!(log.take(), Taken { events: vec![], dropped: 0 });
        log.push(|id| id);
        let taken = log.take();
        assert_eq!((taken.events.as_ptr(), &taken.events[..]), (memory, &[2][..]));
    }
}
