// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Signals: their memory, and threads that wait for them.
//!
//! A signal's value is a word in memory that the host, the packet processors and kernels change with plain atomics.
//! Code that changes it through this runtime then calls [`Signals::changed`], which wakes exactly the waiters whose
//! condition now holds. A bare store by a kernel or by the host does not call it. Polling threads see the store
//! nevertheless: packet processors, and host threads that wait actively or for a signal without interrupts; the
//! doorbell watcher re-checks these waiters. A sleeping host thread sees it only when something else wakes it, as under
//! ROCR: a device that changes a signal by itself stores the signal's event id to its mailbox, which the watcher polls.
//!
//! A signal for other processes has a page to itself, which they map, too. It has no interrupt. Each process has a
//! handle of its own and destroys the signal for itself. What another process does is a bare store here.
//!
//! No wake-up is lost: a waiter registers and then reads the value; a changer stores the value and then looks for
//! waiters. Both put a sequentially consistent fence in between.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use hsa_abi::{AmdSignal, AmdSignalKind, HsaIpcHandle, HsaSignal, HsaSignalCondition, HsaStatus};
use parking_lot::Mutex;

use crate::machine::clock::{device_ticks, system_ticks};
use crate::machine::memory::allocation::{Mapping, PAGE};
use crate::machine::memory::ipc::SharedPage;

/// Number of slots for signals in one mapping. The first slot has no signal, but the mailbox of the others.
const SLAB: usize = PAGE / size_of::<AmdSignal>();
/// Offset of a mapping's mailbox, chosen so that the first slot's kind stays zero.
const MAILBOX: usize = 56;
/// Word behind the signal of a shared page, which tells such a page from other shared memory.
const SHARED_MARK: u64 = 0x4d49_535f_4153_485f;

/// Condition of a wait: `(signal & mask) compare operand`.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// A live user signal.
    pub signal: HsaSignal,
    /// The comparison.
    compare: fn(i64, i64) -> bool,
    /// Right operand of the comparison.
    operand: i64,
    /// Mask of the value.
    mask: i64,
    /// True if the value belongs to a signal, false for a bare word.
    is_signal: bool,
}

impl Condition {
    /// Creates a condition of HSA. A condition that HSA does not define is never met.
    pub fn new(signal: HsaSignal, condition: HsaSignalCondition, operand: i64, mask: i64) -> Self {
        let compare = match condition {
            HsaSignalCondition::EQ => |value, operand| value == operand,
            HsaSignalCondition::NE => |value, operand| value != operand,
            HsaSignalCondition::LT => |value, operand| value < operand,
            HsaSignalCondition::GTE => |value, operand| value >= operand,
            _ => |_, _| false,
        };
        Self { signal, compare, operand, mask, is_signal: true }
    }

    /// Creates the condition of barrier packets: the signal is zero.
    pub fn zero(signal: HsaSignal) -> Self {
        Self::new(signal, HsaSignalCondition::EQ, 0, -1)
    }

    /// Creates a condition on the 64-bit word at `address`, a multiple of 8, which must be readable while the condition
    /// is in use. A thread that stores to it reports a change of `word_signal(address)`.
    pub fn word(address: u64, compare: fn(i64, i64) -> bool, operand: u64, mask: u64) -> Self {
        Self { signal: word_signal(address), compare, operand: operand as i64, mask: mask as i64, is_signal: false }
    }

    /// True if the condition's signal was destroyed.
    fn signal_is_gone(&self) -> bool {
        self.is_signal && kind(self.signal) == AmdSignalKind::INVALID
    }

    /// True if the condition holds now.
    pub fn holds(&self) -> bool {
        self.met().is_some()
    }

    /// The signal's value, if it meets the condition.
    pub(super) fn met(&self) -> Option<i64> {
        let value = value(self.signal).load(Ordering::Acquire);
        (self.compare)(value & self.mask, self.operand).then_some(value)
    }
}

/// The signal whose value would be the word at `address`.
pub fn word_signal(address: u64) -> HsaSignal {
    HsaSignal { handle: address.wrapping_sub(std::mem::offset_of!(AmdSignal, value) as u64) }
}

/// The value word of a signal.
///
/// Signal memory is never unmapped while the machine exists, so a handle of a destroyed signal can be read. Any other
/// value is the caller's error, as with ROCR. Signals that packets name are checked first. They may lie in the
/// program's own memory.
pub fn value(signal: HsaSignal) -> &'static AtomicI64 {
    // SAFETY: the handle is the address of an `AmdSignal` in a slab that lives as long as the machine
    // (contract of every HSA function that takes a signal), or a checked one in memory that stays mapped
    // while the packet is in progress; the word is aligned and only accessed atomically.
    unsafe { AtomicI64::from_ptr(&raw mut (*signal.as_ptr()).value) }
}

/// The kind of a signal.
pub fn kind(signal: HsaSignal) -> AmdSignalKind {
    // SAFETY: the handle is that of a live signal, by the caller's contract; its kind does not change while it lives.
    unsafe { (&raw const (*signal.as_ptr()).kind).read_volatile() }
}

/// Mailbox and event id (`event_mailbox_ptr` and `event_id`) that a device stores after a change of the signal, if host
/// threads want an interrupt.
pub fn mailbox(signal: HsaSignal) -> Option<(&'static AtomicU64, u32)> {
    let signal = signal.as_ptr();
    // SAFETY: the handle is that of a live signal, by the caller's contract; the runtime that made the signal keeps
    // the mailbox as long as the process lives.
    unsafe {
        let mailbox = (&raw const (*signal).event_mailbox_ptr).read_volatile();
        let mailbox = std::ptr::with_exposed_provenance_mut::<u64>(mailbox as usize);
        let id = (&raw const (*signal).event_id).read_volatile();
        (!mailbox.is_null()).then(|| (AtomicU64::from_ptr(mailbox), id))
    }
}

/// Kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The thread sees every store.
    Polling,
    /// The thread sleeps until the runtime changes the signal or a device raises its interrupt.
    Sleeping,
}

struct Waiter {
    thread: Thread,
    how: Waiting,
    conditions: Vec<Condition>,
}

#[derive(Default)]
struct Slabs {
    mappings: Vec<Mapping>,
    free: VecDeque<u64>,
    /// Pages of the signals for other processes, by handle, which is the page's address.
    shared: HashMap<u64, SharedPage>,
    /// Pages of destroyed signals for other processes.
    left: Vec<Mapping>,
    /// Signals that handlers keep: the number of handlers, and whether the program has destroyed the signal.
    kept: HashMap<u64, (usize, bool)>,
    /// Signals of timed copies.
    timed: HashSet<u64>,
}

/// All signals of the machine and the threads that wait for them.
#[derive(Default)]
pub struct Signals {
    slabs: Mutex<Slabs>,
    waiters: Mutex<Vec<Waiter>>,
    waiter_count: AtomicUsize,
}

impl Signals {
    /// Creates a signal, with an interrupt or without. Calls `new_slab` with newly mapped memory.
    pub fn create(
        &self,
        kind: AmdSignalKind,
        initial: i64,
        interrupt: bool,
        new_slab: impl FnOnce(&Mapping),
    ) -> Result<HsaSignal, HsaStatus> {
        let mut slabs = self.slabs.lock();
        if slabs.free.is_empty() {
            let mapping = Mapping::new(PAGE).map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
            new_slab(&mapping);
            let base = mapping.base() as u64;
            slabs.free.extend((1..SLAB as u64).map(|i| base + i * size_of::<AmdSignal>() as u64));
            slabs.mappings.push(mapping);
        }
        let handle = slabs.free.pop_front().ok_or(HsaStatus::ERROR_OUT_OF_RESOURCES)?;
        let signal = HsaSignal { handle };
        let slab = handle - handle % PAGE as u64;
        let (mailbox, event) = if interrupt { (slab + MAILBOX as u64, handle as u32) } else { (0, 0) };
        // SAFETY: the slot is free, so nothing else accesses it; it is aligned to its 64 bytes.
        unsafe { signal.as_ptr().write(contents(kind, initial, mailbox, event)) };
        Ok(signal)
    }

    /// Creates a signal that other processes can attach. Calls `new_page` with newly mapped memory.
    pub fn create_shared(&self, initial: i64, new_page: impl FnOnce(&Mapping)) -> Result<HsaSignal, HsaStatus> {
        let page = SharedPage::new().map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
        let signal = HsaSignal { handle: page.mapping().base() as u64 };
        // SAFETY: nothing else knows the page yet, which has room for both.
        unsafe {
            signal.as_ptr().write(contents(AmdSignalKind::USER, initial, 0, 0));
            signal.as_ptr().add(1).cast::<u64>().write(SHARED_MARK);
        }
        new_page(page.mapping());
        self.slabs.lock().shared.insert(signal.handle, page);
        Ok(signal)
    }

    /// The handle by which other processes attach a signal.
    pub fn share(&self, signal: HsaSignal) -> Result<HsaIpcHandle, HsaStatus> {
        if !self.is_live(signal) {
            return Err(HsaStatus::ERROR_INVALID_SIGNAL);
        }
        let slabs = self.slabs.lock();
        slabs.shared.get(&signal.handle).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?.handle()
    }

    /// Attaches the signal of a handle from [`share`](Self::share). Calls `new_page` with newly mapped memory.
    pub fn attach(&self, handle: &HsaIpcHandle, new_page: impl FnOnce(&Mapping)) -> Result<HsaSignal, HsaStatus> {
        let page = SharedPage::open(handle)?;
        let signal = HsaSignal { handle: page.mapping().base() as u64 };
        // SAFETY: the page has these bytes, which no process changes any more once they are the mark.
        let mark = unsafe { signal.as_ptr().add(1).cast::<u64>().read_volatile() };
        if mark != SHARED_MARK {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        new_page(page.mapping());
        self.slabs.lock().shared.insert(signal.handle, page);
        Ok(signal)
    }

    /// True if the handle is a live signal of this machine.
    pub fn is_live(&self, signal: HsaSignal) -> bool {
        let slabs = self.slabs.lock();
        let inside = slabs.mappings.iter().any(|slab| {
            let offset = signal.handle.wrapping_sub(slab.base() as u64);
            offset < PAGE as u64 && offset.is_multiple_of(size_of::<AmdSignal>() as u64)
        });
        (inside || slabs.shared.contains_key(&signal.handle)) && kind(signal) != AmdSignalKind::INVALID
    }

    /// True if an address is in the mailbox of signals.
    pub fn is_mailbox(&self, address: u64) -> bool {
        let slabs = self.slabs.lock();
        let offsets = slabs.mappings.iter().map(|slab| address.wrapping_sub(slab.base() as u64));
        offsets.into_iter().any(|offset| (MAILBOX as u64..MAILBOX as u64 + 8).contains(&offset))
    }

    /// Destroys a live signal.
    pub fn destroy(&self, signal: HsaSignal) -> Result<(), HsaStatus> {
        if !self.is_live(signal) {
            return Err(HsaStatus::ERROR_INVALID_SIGNAL);
        }
        let mut slabs = self.slabs.lock();
        if let Some((_, destroyed)) = slabs.kept.get_mut(&signal.handle) {
            *destroyed = true;
            return Ok(());
        }
        slabs.timed.remove(&signal.handle);
        if let Some(page) = slabs.shared.remove(&signal.handle) {
            // The kind of zeros is that of a destroyed signal.
            let page = page.leave().map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
            slabs.left.push(page);
        } else {
            // SAFETY: the signal lies in a slab (checked above), and slabs stay mapped.
            unsafe { (&raw mut (*signal.as_ptr()).kind).write_volatile(AmdSignalKind::INVALID) };
            // A destroyed signal is reused last, to make use after destruction likely to be seen.
            slabs.free.push_back(signal.handle);
        }
        drop(slabs);
        self.wake(|waiter| waiter.conditions.iter().any(|condition| condition.signal == signal));
        Ok(())
    }

    /// Keeps a live signal until it is [released](Self::release) as often, even if it is destroyed meanwhile.
    pub fn retain(&self, signal: HsaSignal) {
        self.slabs.lock().kept.entry(signal.handle).or_default().0 += 1;
    }

    /// Undoes one [`retain`](Self::retain).
    pub fn release(&self, signal: HsaSignal) {
        let is_destroyed = {
            let mut slabs = self.slabs.lock();
            let Some((count, destroyed)) = slabs.kept.get_mut(&signal.handle) else { return };
            *count -= 1;
            if *count > 0 {
                return;
            }
            let is_destroyed = *destroyed;
            slabs.kept.remove(&signal.handle);
            is_destroyed
        };
        if is_destroyed {
            // It was live when the program destroyed it.
            let _ = self.destroy(signal);
        }
    }

    /// Marks a signal as that of a timed copy.
    pub fn set_timed(&self, signal: HsaSignal) {
        self.slabs.lock().timed.insert(signal.handle);
    }

    /// True if the signal is that of a timed copy.
    pub fn is_timed(&self, signal: HsaSignal) -> bool {
        self.slabs.lock().timed.contains(&signal.handle)
    }

    /// Signals with a value that are not destroyed.
    pub fn live(&self) -> Vec<HsaSignal> {
        let slabs = self.slabs.lock();
        let bases = slabs.mappings.iter().map(|slab| slab.base() as u64);
        let slots = (0..SLAB as u64).map(|i| i * size_of::<AmdSignal>() as u64);
        let all = bases.flat_map(|base| slots.clone().map(move |slot| base + slot)).chain(slabs.shared.keys().copied());
        let all = all.map(|handle| HsaSignal { handle });
        all.filter(|&signal| kind(signal) == AmdSignalKind::USER).collect()
    }

    /// Wakes the threads whose condition on `signal` holds now. Called after a store to its value.
    pub fn changed(&self, signal: HsaSignal) {
        let met = |condition: &Condition| condition.signal == signal && condition.holds();
        self.wake(|waiter| waiter.conditions.iter().any(met));
    }

    /// Wakes the polling threads whose condition on `signal` holds now. Called after a device's store to its value.
    pub fn stored(&self, signal: HsaSignal) {
        let met = |condition: &Condition| condition.signal == signal && condition.holds();
        self.wake(|waiter| waiter.how == Waiting::Polling && waiter.conditions.iter().any(met));
    }

    /// Wakes the polling threads whose condition holds; after a device's interrupt also the sleeping ones. Returns true
    /// if there was one.
    pub fn recheck(&self) -> bool {
        let interrupted = self.take_interrupts();
        self.wake(|waiter| {
            (interrupted || waiter.how == Waiting::Polling) && waiter.conditions.iter().any(Condition::holds)
        })
    }

    /// Number of waiting threads.
    pub fn waiters(&self) -> usize {
        self.waiter_count.load(Ordering::Relaxed)
    }

    /// True if a device stored to a mailbox since the last call.
    fn take_interrupts(&self) -> bool {
        let slabs = self.slabs.lock();
        slabs.mappings.iter().fold(false, |any, slab| {
            let mailbox = std::ptr::with_exposed_provenance_mut(slab.base() + MAILBOX);
            // SAFETY: the word lies in the slab's first place, aligned, and is only accessed atomically.
            unsafe { AtomicU64::from_ptr(mailbox) }.swap(0, Ordering::AcqRel) != 0 || any
        })
    }

    /// Wakes every waiting thread to check its stop condition.
    pub fn wake_all(&self) {
        self.wake(|_| true);
    }

    /// Wakes threads. Returns true if there was one.
    fn wake(&self, wanted: impl Fn(&Waiter) -> bool) -> bool {
        fence(Ordering::SeqCst);
        if self.waiters() == 0 {
            return false;
        }
        let mut any = false;
        for waiter in &*self.waiters.lock() {
            if wanted(waiter) {
                waiter.thread.unpark();
                any = true;
            }
        }
        any
    }

    /// Blocks until one of `conditions` holds, and returns its index and the value that met it. Returns `None` at
    /// `deadline`, when one of the signals is destroyed, or when `stop` returns true. A thread that changes the result
    /// of `stop` must unpark the waiter. `before` is called before the thread blocks, after its registration.
    pub fn wait_any(
        &self,
        how: Waiting,
        conditions: &[Condition],
        deadline: Option<Instant>,
        before: impl FnOnce(),
        stop: impl Fn() -> bool,
    ) -> Option<(usize, i64)> {
        let first_met = || conditions.iter().enumerate().find_map(|(i, condition)| Some((i, condition.met()?)));
        if let Some(hit) = first_met() {
            return Some(hit);
        }
        let registration = self.register(how, conditions);
        before();
        fence(Ordering::SeqCst);
        let result = loop {
            if let Some(hit) = first_met() {
                break Some(hit);
            }
            if stop() || conditions.iter().any(|condition| condition.signal_is_gone()) {
                break None;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break None,
                Some(left) => thread::park_timeout(left),
                None => thread::park(),
            }
        };
        drop(registration);
        result
    }

    fn register(&self, how: Waiting, conditions: &[Condition]) -> Registration<'_> {
        let thread = thread::current();
        let id = thread.id();
        self.waiters.lock().push(Waiter { thread, how, conditions: conditions.to_vec() });
        self.waiter_count.fetch_add(1, Ordering::Relaxed);
        Registration { signals: self, id }
    }
}

/// Registration of a waiting thread. A thread waits in one place at a time.
struct Registration<'a> {
    signals: &'a Signals,
    id: thread::ThreadId,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.signals.waiter_count.fetch_sub(1, Ordering::Relaxed);
        let mut waiters = self.signals.waiters.lock();
        if let Some(index) = waiters.iter().position(|waiter| waiter.thread.id() == self.id) {
            waiters.swap_remove(index);
        }
    }
}

/// Contents of a new signal.
fn contents(kind: AmdSignalKind, value: i64, event_mailbox_ptr: u64, event_id: u32) -> AmdSignal {
    AmdSignal {
        kind,
        value,
        event_mailbox_ptr,
        event_id,
        reserved1: 0,
        start_ts: 0,
        end_ts: 0,
        queue_ptr: 0,
        reserved3: [0; 2],
    }
}

/// Stores the start and end of the packet that completes `signal`, given in ticks of the system's clock, as ticks of
/// the GPU's.
pub fn stamp(signal: HsaSignal, start: u64, end: u64) {
    let (start, end) = (device_ticks(start), device_ticks(end));
    let signal = signal.as_ptr();
    // SAFETY: the signal is live (the packet processor checks it), the fields are aligned, and
    // readers look at them after the value's release store that follows.
    unsafe {
        AtomicU64::from_ptr(&raw mut (*signal).start_ts).store(start, Ordering::Relaxed);
        AtomicU64::from_ptr(&raw mut (*signal).end_ts).store(end, Ordering::Relaxed);
    }
}

/// Start and end of the packet that completed `signal`, in ticks of the system's clock; meaningless values if no such
/// packet did.
pub fn stamps(signal: HsaSignal) -> (u64, u64) {
    let signal = signal.as_ptr();
    // SAFETY: the handle is that of a live signal, by the caller's contract; the fields are aligned and only accessed
    // atomically.
    unsafe {
        (
            system_ticks(AtomicU64::from_ptr(&raw mut (*signal).start_ts).load(Ordering::Relaxed)),
            system_ticks(AtomicU64::from_ptr(&raw mut (*signal).end_ts).load(Ordering::Relaxed)),
        )
    }
}
