// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The packet processor: one thread for each queue (HSA SysArch 2.8 and 2.9).
//!
//! Packets run one after another in the order of their ids, as AMD's hardware does for barrier
//! packets; with strict memory, those that HSA leaves unordered run at the same time, but for their
//! launch: a packet's acquire fence comes before those behind it are active (`hsa.h`,
//! `HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE`; HSA SysArch 2.9, "Launch"). With a seed,
//! those are picked at random from a window that ends in front of the next packet with the barrier
//! bit, and some completions are delayed.
//!
//! When a packet is done its slot is marked INVALID, the read index passes it, its completion signal
//! is stamped and decremented with release order, and waiters are woken, in that order.
//!
//! An idle processor looks at its doorbell by itself for about a millisecond, with longer and longer
//! sleeps; then the [`super::watcher`] does it.

use std::collections::{HashMap, HashSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use hsa_abi::{HsaStatus, PacketHeader};

use super::counters::Counters;
use super::memory::DispatchGuard;
use super::packet::{self, Failure, Packet, Work};
use super::queue::Queue;
use super::random::Random;
use super::signal::Waiting;
use super::{Machine, events, execute, now, pm4_execute, signal, watcher};

/// Packets that a seeded processor looks ahead.
const WINDOW: u64 = 8;
/// How long a seeded processor waits for a barrier before it looks for new packets.
const SEEDED_WAIT: Duration = Duration::from_micros(100);
/// How long a processor of strict memory runs packets before it looks for new ones.
const MEANWHILE: Duration = Duration::from_micros(50);
/// Packets and time that a late read index is behind at most: so that completion is always seen long before.
const LATE_PACKETS: u64 = 64;
const LATE_TIME: Duration = Duration::from_micros(200);
/// How long an idle processor gives way to other threads before it begins to sleep.
const YIELD: Duration = Duration::from_micros(20);
/// Sleeps of an idle processor: from the first to the last, doubling.
const SLEEP: (Duration, Duration) = (Duration::from_micros(5), Duration::from_micros(50));
/// How long an idle processor looks at its doorbell before it leaves that to the watcher.
const LINGER: Duration = Duration::from_millis(1);

/// The thread of `queue`'s processor.
pub fn run(machine: &Machine, queue: &Arc<Queue>) {
    watcher::precise_sleep();
    let mut processor = Processor {
        machine,
        queue,
        done: HashSet::new(),
        is_late: machine.agents[queue.agent.0].gpu.as_ref().is_some_and(|gpu| gpu.late_read_index),
        random: machine.config.seed.map(|seed| Random::new(seed ^ queue.id << 32)),
    };
    while !queue.stopping() {
        if !queue.active() || machine.costs.is_held() {
            thread::park();
            continue;
        }
        queue.see_doorbell();
        let in_progress = queue.in_progress.lock();
        let result = panic::catch_unwind(AssertUnwindSafe(|| processor.process()));
        drop(in_progress);
        match result {
            Ok(Ok(())) => {
                if processor.is_late {
                    thread::sleep(LATE_TIME);
                    processor.publish();
                }
                idle(machine, queue);
            }
            // A kernel that was cancelled because its queue is destroyed or inactivated has not failed.
            Ok(Err(_)) if queue.stopping() || !queue.active() => {}
            Ok(Err(failure)) => fail(machine, queue, &failure),
            Err(_) => fail(
                machine,
                queue,
                &Failure::new(HsaStatus::ERROR, "internal error of the simulator (see the panic above)"),
            ),
        }
    }
}

fn fail(machine: &Machine, queue: &Arc<Queue>, failure: &Failure) {
    queue.fail(machine, &failure.text);
    match (machine.driver(), failure.memory_fault) {
        (Some(driver), _) => driver.fault(machine, queue, failure),
        (None, Some((address, reason))) => {
            machine.evict(queue.agent);
            machine.events.memory_fault(queue.agent, address, reason);
        }
        (None, None) => machine.events.queue_error(Arc::clone(queue), failure.status),
    }
}

/// Returns when the doorbell was rung, when a packet that it was rung for is published after all, or when
/// the processor is to stop.
fn idle(machine: &Machine, queue: &Queue) {
    queue.set_idle(true);
    let wanted = || queue.wanted() || !queue.active();
    let start = Instant::now();
    let mut sleep = SLEEP.0;
    let mut caches = machine.agents[queue.agent.0].caches.as_ref();
    while !wanted() {
        let idle = start.elapsed();
        if idle < YIELD {
            thread::yield_now();
        } else if idle < LINGER {
            thread::park_timeout(sleep);
            sleep = (sleep * 2).min(SLEEP.1);
        } else if let Some(caches) = caches.take() {
            caches.drain(machine);
        } else {
            thread::park();
        }
    }
    queue.set_idle(false);
}

struct Processor<'a> {
    machine: &'a Machine,
    queue: &'a Queue,
    /// Completed packets that the read index has not passed; only a seed makes any.
    done: HashSet<u64>,
    /// Whether the read index is published late.
    is_late: bool,
    random: Option<Random>,
}

impl Processor<'_> {
    /// Runs packets until there is none that is published, or the queue is to stop.
    fn process(&mut self) -> Result<(), Failure> {
        while self.queue.active() && !self.machine.costs.is_held() {
            // What a packet names stays mapped from the check to its completion.
            let memory = self.machine.memory.dispatch();
            let mut candidates = self.candidates(&HashMap::new())?;
            if candidates.is_empty() {
                return Ok(());
            }
            if let Some(random) = &mut self.random {
                let first = random.below(candidates.len());
                candidates.rotate_left(first);
            }
            match candidates.iter().position(|(_, packet)| ready(packet)) {
                Some(_) if self.machine.config.strict => {
                    self.run_together(candidates)?;
                }
                Some(index) => {
                    let (id, packet) = candidates.swap_remove(index);
                    acquire(self.machine, self.queue, &packet);
                    let times = execute(self.machine, self.queue, id, &packet)?;
                    self.finish(id, &packet, times);
                }
                None => self.wait(&candidates, memory),
            }
        }
        Ok(())
    }

    /// The published packets that may run now beside those that are `running`, as far as their order goes.
    fn candidates(&self, running: &HashMap<u64, Thread>) -> Result<Vec<(u64, Packet)>, Failure> {
        let head = self.queue.head().load(Ordering::Relaxed);
        let window = if self.random.is_some() || self.machine.config.strict { WINDOW } else { 1 };
        let mut candidates = Vec::with_capacity(window as usize);
        for id in head..head + window {
            if self.done.contains(&id) || running.contains_key(&id) {
                continue;
            }
            match packet::published(self.queue, id) {
                None => break,
                Some(header) if header.barrier() && id != head => break,
                Some(_) => {
                    self.queue.note_late(&self.machine.costs, id);
                    candidates.push((id, packet::decode(self.machine, self.queue, id)?));
                }
            }
        }
        Ok(candidates)
    }

    /// Blocks until a signal that one of the barriers wants has changed.
    fn wait(&self, candidates: &[(u64, Packet)], memory: DispatchGuard<'_>) {
        let conditions: Vec<_> = candidates
            .iter()
            .flat_map(|(_, packet)| match &packet.work {
                Work::Dispatch(_) | Work::Pm4(_) => &[][..],
                Work::Barrier(_, conditions) => conditions,
            })
            .filter(|condition| !condition.holds())
            .copied()
            .collect();
        if conditions.is_empty() {
            // The last one came to hold since the caller looked.
            return;
        }
        // The machine's own signals need not be kept from being unmapped, and a wait can be long.
        let theirs = conditions.iter().any(|condition| !self.machine.signals.is_live(condition.signal));
        let _memory = theirs.then_some(memory);
        let deadline = self.random.is_some().then(|| Instant::now() + SEEDED_WAIT);
        self.machine.signals.wait_any(Waiting::Polling, &conditions, deadline, || {}, || !self.queue.active());
    }

    /// Runs packets at the same time, each of which completes when it is done, and what is published meanwhile.
    fn run_together(&mut self, first: Vec<(u64, Packet)>) -> Result<(), Failure> {
        let (machine, queue) = (self.machine, self.queue);
        let (send, done) = mpsc::channel();
        let mut running = HashMap::new();
        let mut more = Ok(first);
        let mut result = Ok(());
        thread::scope(|scope| {
            loop {
                let mut packets = more.unwrap_or_else(|failure| {
                    result = Err(failure);
                    Vec::new()
                });
                packets.retain(|(_, packet)| ready(packet));
                packets.sort_unstable_by_key(|(id, _)| *id);
                for (id, packet) in packets {
                    acquire(machine, queue, &packet);
                    let send = send.clone();
                    let worker = scope.spawn(move || {
                        let executed = panic::catch_unwind(AssertUnwindSafe(|| execute(machine, queue, id, &packet)));
                        // Whoever receives waits for all of them.
                        drop(send.send((id, packet, executed)));
                    });
                    running.insert(id, worker.thread().clone());
                }
                if running.is_empty() {
                    return;
                }
                if let Ok((id, packet, executed)) = done.recv_timeout(MEANWHILE) {
                    running.remove(&id);
                    match executed {
                        Ok(Ok(times)) => self.finish(id, &packet, times),
                        Ok(Err(failure)) => result = Err(failure),
                        Err(panicked) => panic::resume_unwind(panicked),
                    }
                }
                if !queue.active() {
                    // What waits for signals looks whether it is to stop.
                    running.values().for_each(Thread::unpark);
                }
                let goes_on = result.is_ok() && queue.active() && !machine.costs.is_held();
                more = if goes_on { self.candidates(&running) } else { Ok(Vec::new()) };
            }
        });
        result
    }

    /// Completes a packet that ran from one time to another; not if it was taken off the hardware half-way.
    fn finish(&mut self, id: u64, packet: &Packet, times: Option<(u64, u64)>) {
        let Some((start, end)) = times else { return };
        if let Some(random) = &mut self.random {
            delay(random);
        }
        self.free(id);
        Counters::add(&self.machine.counters.packets, 1);
        self.machine.costs.add_packet(packet);
        if !packet.completion.is_null() {
            if self.queue.profiling() {
                signal::stamp(packet.completion, start, end);
            }
            self.machine.complete(packet.completion);
        }
    }

    /// Gives the slot of packet `id` back to the producers.
    fn free(&mut self, id: u64) {
        self.queue.header(id).store(u32::from(PacketHeader::INVALID.0), Ordering::Relaxed);
        self.done.insert(id);
        let mut head = self.queue.head().load(Ordering::Relaxed);
        while self.done.remove(&head) {
            head += 1;
        }
        self.queue.head().store(head, Ordering::Relaxed);
        if !self.is_late || head - self.queue.read_index().load(Ordering::Relaxed) >= LATE_PACKETS {
            self.publish();
        }
    }

    /// Lets the read index pass all packets that are done.
    fn publish(&self) {
        self.queue.read_index().store(self.queue.head().load(Ordering::Relaxed), Ordering::Release);
    }
}

/// A packet's acquire fence.
fn acquire(machine: &Machine, queue: &Queue, packet: &Packet) {
    let agent = &machine.agents[queue.agent.0];
    agent.scalar_cache.lock().acquire(packet.header.acquire_scope());
    if let Some(caches) = &agent.caches {
        caches.acquire(packet.header.acquire_scope());
    }
}

/// Does what a packet says behind its acquire fence. Returns when it began and ended; none if the agent was lost meanwhile.
fn execute(machine: &Machine, queue: &Queue, id: u64, packet: &Packet) -> Result<Option<(u64, u64)>, Failure> {
    let start = now();
    let agent = &machine.agents[queue.agent.0];
    machine.see_flushes();
    match &packet.work {
        Work::Dispatch(dispatch) => {
            execute::dispatch(machine, queue, id, dispatch)?;
            Counters::add(&machine.counters.dispatches, 1);
        }
        Work::Pm4(buffer) => pm4_execute::run(machine, queue, id, *buffer)?,
        Work::Barrier(..) => {}
    }
    if events::is_evicted(queue.agent) {
        return Ok(None);
    }
    if let Some(caches) = &agent.caches {
        caches.release(machine, packet.header.release_scope());
    }
    Ok(Some((start, now())))
}

/// Whether nothing but its place in the queue keeps the packet from running.
fn ready(packet: &Packet) -> bool {
    match &packet.work {
        Work::Dispatch(_) | Work::Pm4(_) => true,
        Work::Barrier(true, conditions) => conditions.iter().all(|condition| condition.holds()),
        Work::Barrier(false, conditions) => {
            conditions.is_empty() || conditions.iter().any(|condition| condition.holds())
        }
    }
}

/// Lets other threads run, for up to 64 us in one of four cases.
fn delay(random: &mut Random) {
    match random.below(4) {
        0 => thread::sleep(Duration::from_micros(random.below(64) as u64)),
        _ => thread::yield_now(),
    }
}
