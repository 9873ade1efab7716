// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Events, which host threads wait for (`kfd_events.c`).
//!
//! Setting an auto-reset event releases the threads that wait for it, or, if there are none, the next thread that
//! waits. A wait for any of several events takes all of them that are set. A device sets an event by its number, which
//! a signal holds next to the address of the event's mailbox.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hsa_runtime64::machine::agent_id::{AgentMask, CPU};
use hsa_runtime64::machine::memory::allocation::{Allocation, AllocationInfo, Mapping};
use parking_lot::{Condvar, Mutex};

use super::abi::*;
use super::{Kfd, guard, kfd, put, slice};

/// Maximum number of events of a process (`KFD_SIGNAL_EVENT_LIMIT`).
const LIMIT: u32 = 4096;
/// Timeout of a wait without limit.
const INFINITE: u32 = u32::MAX;

struct State {
    kind: u32,
    resets_itself: bool,
    signaled: bool,
    /// Number of waiting threads.
    waiters: usize,
    /// Number of times that the event was set.
    count: u64,
    fault: MemoryAccessFault,
}

#[derive(Default)]
struct Table {
    events: HashMap<u32, State>,
    next: u32,
    /// Address of the mailboxes, one word for each event.
    page: Option<u64>,
}

/// All events of the process.
#[derive(Default)]
pub struct Events {
    table: Mutex<Table>,
    changed: Condvar,
}

impl State {
    /// Releases the waiting threads, or, if there are none, the next thread that waits.
    fn set(&mut self) {
        self.count += 1;
        self.signaled = !self.resets_itself || self.waiters == 0;
    }
}

impl Events {
    /// Sets the event with this number, if it exists.
    pub fn set(&self, id: u32) {
        if let Some(state) = self.table.lock().events.get_mut(&id) {
            state.set();
            self.changed.notify_all();
        }
    }

    /// Sets all events of memory faults.
    pub fn set_memory(&self, fault: MemoryAccessFault) {
        for state in self.table.lock().events.values_mut().filter(|state| state.kind == EVENT_MEMORY) {
            state.fault = fault;
            state.set();
        }
        self.changed.notify_all();
    }

    fn wait(&self, ids: &[u32], all: bool, timeout: Option<Duration>) -> Result<(), Status> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut table = self.table.lock();
        // Whether each was set already, and how often before.
        let mut seen = Vec::with_capacity(ids.len());
        for id in ids {
            let state = table.events.get_mut(id).ok_or(Status::ERROR)?;
            seen.push((state.signaled, state.count));
            state.signaled &= !state.resets_itself;
        }
        // The thread waits only for events that are not set yet. A new set of another event is kept for the next wait.
        let missing = || ids.iter().zip(&seen).filter(|(_, (signaled, _))| !signaled).map(|(id, _)| id);
        let adjust = |table: &mut Table, by: isize| {
            for id in missing() {
                if let Some(state) = table.events.get_mut(id) {
                    state.waiters = state.waiters.saturating_add_signed(by);
                }
            }
        };
        adjust(&mut table, 1);
        let mut is_late = false;
        let result = loop {
            let mut set = ids.iter().zip(&seen).map(|(id, &(signaled, count))| match table.events.get(id) {
                Some(state) => Ok(signaled || state.count != count),
                None => Err(Status::ERROR),
            });
            let met = if all {
                set.try_fold(true, |met, set| set.map(|set| met && set))
            } else {
                set.try_fold(false, |met, set| set.map(|set| met || set))
            };
            match met {
                // A timeout counts only if nothing was set meanwhile.
                Ok(false) if is_late => break Err(Status::WAIT_TIMEOUT),
                Ok(false) => {}
                other => break other.map(drop),
            }
            match deadline {
                None => self.changed.wait(&mut table),
                Some(deadline) => is_late = self.changed.wait_until(&mut table, deadline).timed_out(),
            }
        };
        adjust(&mut table, -1);
        result
    }
}

impl Kfd {
    /// Returns the address of the mailboxes' page, which every GPU may write.
    fn mailboxes(&self, table: &mut Table) -> Result<u64, Status> {
        if let Some(page) = table.page {
            return Ok(page);
        }
        let size = u64::from(LIMIT) * 8;
        let mapping = Mapping::new(size as usize).map_err(|_| Status::NO_MEMORY)?;
        let base = mapping.base() as u64;
        self.machine.memory.insert(Allocation {
            mapping: Some(mapping),
            ..AllocationInfo::new(base, size, CPU, AgentMask::ALL).into()
        });
        Ok(*table.page.insert(base))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtCreateEvent(
    descriptor: *const EventDescriptor,
    manual_reset: bool,
    is_signaled: bool,
    event: *mut *mut Event,
) -> Status {
    guard(|| {
        let kfd = kfd()?;
        // SAFETY: the caller's contract; the structure is packed.
        let descriptor = unsafe { slice(descriptor, 1)? }[0];
        if descriptor.kind >= EVENT_TYPES {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut table = kfd.interrupts.events.table.lock();
        if table.events.len() as u32 >= LIMIT {
            return Err(Status::ERROR);
        }
        // Numbers are slots of the page; 0 would not be seen in a mailbox.
        let id = loop {
            table.next = table.next % (LIMIT - 1) + 1;
            if !table.events.contains_key(&table.next) {
                break table.next;
            }
        };
        let mailbox = kfd.mailboxes(&mut table)? + 8 * u64::from(id);
        table.events.insert(
            id,
            State {
                kind: descriptor.kind,
                resets_itself: !manual_reset,
                signaled: is_signaled && !is_system(descriptor.kind),
                waiters: 0,
                count: 0,
                fault: MemoryAccessFault::default(),
            },
        );
        let detail = EventDetail { sync_var: descriptor.sync_var };
        let made = Event { id, kind: descriptor.kind, detail, handle: id.into(), mailbox, trigger: id };
        let made = Box::into_raw(Box::new(made));
        // SAFETY: `event` is null or the caller's place for the result.
        unsafe { put(event, made) }
    })
}

/// True if only the driver sets events of this type.
fn is_system(kind: u32) -> bool {
    kind != EVENT_SIGNAL && kind != EVENT_DEBUG
}

/// Number of an event.
///
/// # Safety
/// The event is null, or was created and is not destroyed.
unsafe fn number(event: *mut Event) -> Result<u32, Status> {
    // SAFETY: the caller's contract.
    unsafe { slice(event.cast_const(), 1) }.map(|event| event[0].id).map_err(|_| Status::INVALID_HANDLE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtDestroyEvent(event: *mut Event) -> Status {
    guard(|| {
        let kfd = kfd()?;
        // SAFETY: `event` is null or one of the caller's.
        let id = unsafe { number(event)? };
        kfd.interrupts.events.table.lock().events.remove(&id).ok_or(Status::ERROR)?;
        kfd.interrupts.events.changed.notify_all();
        // SAFETY: made by `hsaKmtCreateEvent` and, as the table had it, not destroyed yet.
        drop(unsafe { Box::from_raw(event) });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtSetEvent(event: *mut Event) -> Status {
    guard(|| {
        let kfd = kfd()?;
        // SAFETY: `event` is null or one of the caller's.
        let id = unsafe { number(event)? };
        // SAFETY: `number` has found an event there.
        if is_system(unsafe { (*event).kind }) {
            return Err(Status::ERROR);
        }
        kfd.interrupts.events.set(id);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtWaitOnEvent(event: *mut Event, milliseconds: u32) -> Status {
    // SAFETY: one event, and the caller's contract.
    unsafe { hsaKmtWaitOnMultipleEvents(&event, 1, true, milliseconds) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsaKmtWaitOnMultipleEvents(
    events: *const *mut Event,
    count: u32,
    all: bool,
    milliseconds: u32,
) -> Status {
    guard(|| {
        let kfd = kfd()?;
        // SAFETY: `events` is null or the caller's `count` elements, which do not change meanwhile.
        let events = unsafe { slice(events, count as usize)? };
        // SAFETY: each is null or an event of the caller's.
        let ids = events.iter().map(|&event| unsafe { number(event) }).collect::<Result<Vec<_>, _>>()?;
        let timeout = (milliseconds != INFINITE).then(|| Duration::from_millis(milliseconds.into()));
        kfd.interrupts.events.wait(&ids, all, timeout)?;
        let table = kfd.interrupts.events.table.lock();
        for (id, &event) in ids.iter().zip(events) {
            if let Some(state) = table.events.get(id).filter(|state| state.kind == EVENT_MEMORY) {
                // SAFETY: an event of the table, which its owner only reads after a wait.
                unsafe { (*event).detail = EventDetail { memory_fault: state.fault } };
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread::{self, JoinHandle};

    use super::*;

    const SOON: Option<Duration> = Some(Duration::ZERO);

    fn events(resets_itself: &[bool]) -> Events {
        let events = Events::default();
        for (id, &resets_itself) in (1..).zip(resets_itself) {
            let (kind, fault) = (EVENT_SIGNAL, MemoryAccessFault::default());
            let state = State { kind, resets_itself, signaled: false, waiters: 0, count: 0, fault };
            events.table.lock().events.insert(id, state);
        }
        events
    }

    #[test]
    fn an_event_that_resets_itself_lets_one_later_wait_go() {
        let events = events(&[true, false]);
        assert_eq!(events.wait(&[1], true, SOON), Err(Status::WAIT_TIMEOUT));
        events.set(1);
        events.set(2);
        assert_eq!(events.wait(&[1], true, SOON), Ok(()));
        assert_eq!(events.wait(&[1], true, SOON), Err(Status::WAIT_TIMEOUT));
        assert_eq!(events.wait(&[2], true, SOON), Ok(()));
        assert_eq!(events.wait(&[2], true, SOON), Ok(()), "it stays set");
    }

    #[test]
    fn a_wait_for_all_needs_all() {
        let events = events(&[true, false]);
        events.set(2);
        assert_eq!(events.wait(&[1, 2], true, SOON), Err(Status::WAIT_TIMEOUT));
        assert_eq!(events.wait(&[1, 2], false, SOON), Ok(()));
        events.set(1);
        assert_eq!(events.wait(&[1, 2], true, SOON), Ok(()));
    }

    /// ROCR 5.2.3 has one event for all queues, so that another thread may take it (`docs/status/findings.md`).
    #[test]
    fn a_wait_for_any_takes_all_that_are_set() {
        let events = events(&[true, true, false]);
        (1..=3).for_each(|id| events.set(id));
        assert_eq!(events.wait(&[1, 2, 3], false, SOON), Ok(()));
        assert_eq!(events.wait(&[1], true, SOON), Err(Status::WAIT_TIMEOUT));
        assert_eq!(events.wait(&[2], true, SOON), Err(Status::WAIT_TIMEOUT));
        assert_eq!(events.wait(&[3], true, SOON), Ok(()));
    }

    /// Starts a wait for all of `ids`, and returns once it waits for event 1.
    fn start(events: &Arc<Events>, ids: &'static [u32], timeout: Option<Duration>) -> JoinHandle<Result<(), Status>> {
        let thread = thread::spawn({
            let events = Arc::clone(events);
            move || events.wait(ids, true, timeout)
        });
        while events.table.lock().events[&1].waiters < 1 {
            thread::yield_now();
        }
        thread
    }

    #[test]
    fn an_event_set_again_during_a_wait_for_others_lets_the_next_wait_go() {
        let events = Arc::new(events(&[true, true]));
        events.set(2);
        let thread = start(&events, &[1, 2], None);
        events.set(2);
        events.set(1);
        assert_eq!(thread.join().unwrap(), Ok(()));
        assert_eq!(events.wait(&[1], true, SOON), Err(Status::WAIT_TIMEOUT));
        assert_eq!(events.wait(&[2], true, SOON), Ok(()));
    }

    #[test]
    fn an_event_set_as_the_time_is_up_is_not_lost() {
        let events = Arc::new(events(&[true]));
        let timeout = Duration::from_millis(100);
        let thread = start(&events, &[1], Some(timeout));
        let mut table = events.table.lock();
        // The thread cannot leave its wait without the lock, so its time is up before the event is set.
        let held = Instant::now();
        while held.elapsed() <= timeout {
            thread::yield_now();
        }
        if table.events[&1].waiters == 1 {
            table.events.get_mut(&1).unwrap().set();
            drop(table);
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
    }

    #[test]
    fn every_thread_that_waits_is_let_go() {
        let events = Arc::new(events(&[true]));
        let wait = || {
            let events = Arc::clone(&events);
            thread::spawn(move || events.wait(&[1], true, None))
        };
        let threads = [wait(), wait()];
        while events.table.lock().events[&1].waiters < 2 {
            thread::yield_now();
        }
        events.set(1);
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
        assert_eq!(events.wait(&[1], true, SOON), Err(Status::WAIT_TIMEOUT), "nothing is left of it");
    }

    #[test]
    fn the_wait_for_an_event_that_is_destroyed_fails() {
        let events = Arc::new(events(&[true]));
        let thread = start(&events, &[1], None);
        events.table.lock().events.clear();
        events.changed.notify_all();
        assert_eq!(thread.join().unwrap(), Err(Status::ERROR));
        assert_eq!(events.wait(&[1], true, SOON), Err(Status::ERROR));
    }
}
