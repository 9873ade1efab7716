// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The packet processor: one thread for each queue (HSA SysArch 2.8 and 2.9).
//!
//! Packets run one after another in the order of their ids, as AMD's hardware does for barrier packets. With strict
//! memory or a seed, packets that HSA leaves unordered run at the same time, up to the next packet with the barrier
//! bit. Only their launch stays ordered: a packet's acquire fence comes before the packets behind it are active
//! (`hsa.h`, `HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE`; HSA SysArch 2.9, "Launch"). A seed delays some packets and some
//! completions.
//!
//! The first packet that fails stops the queue at once, and cancels the packets that run beside it.
//!
//! Completion of a packet, in this order: its slot is marked INVALID, the read index passes it, its completion signal
//! is stamped and decremented with release order, and waiters are woken.
//!
//! A processor looks for packets when its doorbell was rung, and never before the first ring. It runs all packets that
//! are published by then, whichever packet the doorbell was rung for. A processor that was held looks again on release.
//! An idle processor polls its doorbell for about a millisecond, with longer and longer sleeps. Then the
//! [`crate::machine::processor::doorbell_watcher`] polls it.

pub mod create;
mod decode;
pub mod dispatch;
pub mod doorbell_watcher;
pub mod pm4_execute;
pub mod scratch;
mod window;

use std::collections::{HashMap, HashSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope, Thread};
use std::time::{Duration, Instant};

use hsa_abi::{HsaStatus, PacketHeader};

use crate::machine::clock::now;
use crate::machine::config::trace::Detail;
use crate::machine::memory::map::DispatchGuard;
use crate::machine::processor::window::{START, WINDOW, pause};
use crate::machine::product::random::Random;
use crate::machine::queue::packet::{Failure, Packet, Work};
use crate::machine::queue::{Queue, eviction};
use crate::machine::report::costs::Cost;
use crate::machine::report::counters::Counters;
use crate::machine::signal::Waiting;
use crate::machine::{Machine, signal};

const COMPLETION: (usize, usize) = (4, 64);
/// Time that a processor with concurrent packets waits for a barrier before it looks for new packets.
const BARRIER_WAIT: Duration = Duration::from_micros(100);
/// Time that it runs packets before it looks for new ones.
const MEANWHILE: Duration = Duration::from_micros(50);
/// Maximum lag of a late read index, in packets and in time, so that completion is always seen long before.
const LATE_PACKETS: u64 = 64;
const LATE_TIME: Duration = Duration::from_micros(200);
/// Time that an idle processor yields to other threads before it begins to sleep.
const YIELD: Duration = Duration::from_micros(20);
/// Sleeps of an idle processor: the first and the last, doubling in between.
const SLEEP: (Duration, Duration) = (Duration::from_micros(5), Duration::from_micros(50));
/// Time that an idle processor polls its doorbell before the watcher takes over.
const LINGER: Duration = Duration::from_millis(1);

/// Body of the thread of `queue`'s processor.
pub fn run(machine: &Machine, queue: &Arc<Queue>) {
    doorbell_watcher::precise_sleep();
    let (send, ended) = mpsc::channel();
    let mut processor = Processor {
        machine,
        queue,
        done: HashSet::new(),
        was_held: false,
        runs_together: machine.config.strict || machine.config.seed.is_some(),
        running: HashMap::new(),
        send,
        ended,
        is_late: machine.agents[queue.agent.0].gpu.as_ref().is_some_and(|gpu| gpu.late_read_index),
        random: machine.config.seed.map(|seed| Random::new(seed ^ queue.id << 32)),
    };
    while !queue.stopping() {
        if !queue.active() || machine.costs.is_held() {
            thread::park();
            continue;
        }
        // Threads may ring out of order: for a later packet before the one that it was rung for last.
        if !std::mem::take(&mut processor.was_held) {
            idle(machine, queue);
        }
        queue.see_doorbell();
        let in_progress = queue.in_progress.lock();
        thread::scope(|scope| {
            let result = panic::catch_unwind(AssertUnwindSafe(|| processor.process(scope)));
            // A packet that was cancelled because its queue is destroyed or inactivated has not failed.
            if let Err(failure) = result.unwrap_or_else(|_| Err(internal_error()))
                && !queue.stopping()
                && queue.active()
            {
                fail(machine, queue, &failure);
            }
            processor.end();
        });
        drop(in_progress);
        if queue.active() && processor.is_late {
            thread::sleep(LATE_TIME);
            processor.publish();
        }
    }
}

fn internal_error() -> Failure {
    Failure::new(HsaStatus::ERROR, "internal error of the simulator (see the panic above)")
}

fn fail(machine: &Machine, queue: &Arc<Queue>, failure: &Failure) {
    queue.fail(&failure.text);
    machine.set_last_fault(&failure.text);
    if !machine.faults_are_shown() {
        eprintln!("hsa-sim: {}: {}", queue.describe(), failure.text);
    }
    match (machine.driver(), failure.memory_fault) {
        (Some(driver), _) => driver.fault(machine, queue, failure),
        (None, Some((address, reason))) => {
            machine.evict(queue.agent);
            machine.events.memory_fault(queue.agent, address, reason);
        }
        (None, None) => {
            let (queue, status) = (Arc::clone(queue), failure.status);
            machine.events.queue_error(move || queue.call_back(status));
        }
    }
}

/// Waits until the doorbell is rung, until a packet that it was rung for is published after all, or until the processor
/// is to stop.
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
            caches.drain(machine.backing());
        } else {
            thread::park();
        }
    }
    queue.set_idle(false);
}

/// Start and end of a packet, if they are needed.
type Times = Option<(u64, u64)>;

/// A packet that has run beside others, with the guard that keeps its memory mapped.
type Ended<'a> = (u64, Packet, Result<Option<Times>, Failure>, DispatchGuard<'a>);

struct Processor<'a> {
    machine: &'a Machine,
    queue: &'a Queue,
    /// Completed packets that the read index has not passed; empty unless packets run together.
    done: HashSet<u64>,
    /// True if it was held when it came to a packet.
    was_held: bool,
    /// True if unordered packets run at the same time.
    runs_together: bool,
    /// Packets that run now, with their threads, which send a message when they end.
    running: HashMap<u64, Thread>,
    send: Sender<Ended<'a>>,
    ended: Receiver<Ended<'a>>,
    /// True if the read index is published late.
    is_late: bool,
    random: Option<Random>,
}

impl<'a> Processor<'a> {
    /// Runs packets until none is published, one has failed, or the queue is to stop. In the latter two cases, some
    /// packets may still run.
    fn process<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>) -> Result<(), Failure> {
        let (machine, queue) = (self.machine, self.queue);
        while queue.active() {
            // Memory that a packet names stays mapped from the check to its completion.
            let memory = machine.memory.dispatch();
            let is_held = machine.costs.is_held();
            // Nearly all, without a list.
            if !is_held
                && !self.runs_together
                && let Some(packet) = self.candidate(queue.head().load(Ordering::Relaxed))?
                && ready(&packet)
            {
                self.run(queue.head().load(Ordering::Relaxed), &packet)?;
                continue;
            }
            let candidates = if is_held { Vec::new() } else { self.candidates()? };
            let (ready, waiting): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|(_, packet)| ready(packet));
            let is_idle = ready.is_empty() && self.running.is_empty();
            for (id, packet) in ready {
                if self.runs_together {
                    acquire(machine, queue, &packet);
                    self.start(scope, id, packet);
                } else {
                    self.run(id, &packet)?;
                }
            }
            if !self.running.is_empty() {
                self.receive()?;
            } else if is_idle && waiting.is_empty() {
                self.was_held = is_held && queue.published(queue.head().load(Ordering::Relaxed)).is_some();
                return Ok(());
            } else if is_idle {
                self.wait(&waiting, memory);
            }
        }
        Ok(())
    }

    /// Published packets that may run now beside the running ones, as far as their order allows.
    fn candidates(&self) -> Result<Vec<(u64, Packet)>, Failure> {
        let head = self.queue.head().load(Ordering::Relaxed);
        let window = if self.runs_together { WINDOW } else { 1 };
        let mut candidates = Vec::with_capacity(window as usize);
        for id in head..head + window {
            if self.done.contains(&id) || self.running.contains_key(&id) {
                continue;
            }
            match self.candidate(id)? {
                Some(packet) => candidates.push((id, packet)),
                None => break,
            }
        }
        Ok(candidates)
    }

    /// Packet `id`, if it is published and may run beside those before it that are not complete.
    fn candidate(&self, id: u64) -> Result<Option<Packet>, Failure> {
        let Some(header) = self.queue.published(id) else { return Ok(None) };
        if header.barrier() && id != self.queue.head().load(Ordering::Relaxed) {
            return Ok(None);
        }
        if self.queue.begins_round_trip(id) {
            self.machine.costs.add(Cost::HostRoundTrips, 1);
        }
        if self.machine.config.checks.set.race {
            self.machine.race.see(self.queue, id, header.barrier());
        }
        decode::decode(self.machine, self.queue, id).map(Some)
    }

    /// Runs and completes a packet.
    fn run(&mut self, id: u64, packet: &Packet) -> Result<(), Failure> {
        acquire(self.machine, self.queue, packet);
        let times = execute(self.machine, self.queue, id, packet)?;
        self.finish(id, packet, times);
        Ok(())
    }

    /// Blocks until a signal of one of the barriers has changed.
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
        let deadline = self.runs_together.then(|| Instant::now() + BARRIER_WAIT);
        self.machine.signals.wait_any(Waiting::Polling, &conditions, deadline, || {}, || !self.queue.active());
    }

    /// Performs a packet's acquire fence, and runs the packet on a thread of its own.
    fn start<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>, id: u64, packet: Packet) {
        let (machine, queue, send) = (self.machine, self.queue, self.send.clone());
        let memory = machine.memory.dispatch();
        let pause = self.random.as_mut().map(|random| pause(random, START));
        let worker = scope.spawn(move || {
            pause.into_iter().for_each(thread::sleep);
            let executed = panic::catch_unwind(AssertUnwindSafe(|| execute(machine, queue, id, &packet)));
            let executed = executed.unwrap_or_else(|_| Err(internal_error()));
            // The processor waits for all of them.
            drop(send.send((id, packet, executed, memory)));
        });
        self.running.insert(id, worker.thread().clone());
    }

    /// Completes a packet that has run beside others, if one ends soon.
    fn receive(&mut self) -> Result<(), Failure> {
        if let Ok((id, packet, executed, _memory)) = self.ended.recv_timeout(MEANWHILE) {
            self.running.remove(&id);
            self.finish(id, &packet, executed?);
        }
        Ok(())
    }

    /// Waits for the running packets when the queue is to stop.
    fn end(&mut self) {
        while !self.running.is_empty() {
            // Packets that wait for signals check whether they have to stop.
            self.running.values().for_each(Thread::unpark);
            // Only the first failure is told.
            drop(self.receive());
        }
    }

    /// Completes a packet, if it has run to its end.
    fn finish(&mut self, id: u64, packet: &Packet, times: Option<Times>) {
        let Some(times) = times else { return };
        let pause = self.random.as_mut().map(|random| pause(random, COMPLETION));
        pause.into_iter().for_each(thread::sleep);
        self.free(id);
        Counters::add(&self.machine.counters.packets, 1);
        self.machine.costs.add_packet(packet);
        if !packet.completion.is_null() {
            if let Some((start, end)) = times {
                signal::stamp(packet.completion, start, end);
            }
            self.machine.complete(packet.completion);
        }
    }

    /// Returns the slot of packet `id` to the producers.
    fn free(&mut self, id: u64) {
        self.queue.header(id).store(u32::from(PacketHeader::INVALID.0), Ordering::Relaxed);
        let mut head = self.queue.head().load(Ordering::Relaxed);
        if id == head {
            head += 1;
        } else {
            self.done.insert(id);
        }
        while self.done.remove(&head) {
            head += 1;
        }
        self.queue.head().store(head, Ordering::Relaxed);
        if !self.is_late || head - self.queue.read_index().load(Ordering::Relaxed) >= LATE_PACKETS {
            self.publish();
        }
    }

    /// Publishes the read index behind all completed packets.
    fn publish(&self) {
        self.queue.read_index().store(self.queue.head().load(Ordering::Relaxed), Ordering::Release);
    }
}

/// Performs a packet's acquire fence at its start. The fence of a packet with PM4 commands follows the reading of the
/// commands: no source says that packet processors perform it earlier.
fn acquire(machine: &Machine, queue: &Queue, packet: &Packet) {
    if !matches!(packet.work, Work::Pm4(_)) {
        fence(machine, queue, packet);
    }
}

fn fence(machine: &Machine, queue: &Queue, packet: &Packet) {
    let agent = &machine.agents[queue.agent.0];
    agent.scalar_cache.lock().acquire(packet.header.acquire_scope());
    if let Some(caches) = &agent.caches {
        caches.acquire(machine.backing(), packet.header.acquire_scope());
    }
}

/// Runs a packet after its acquire fence. Returns its start and end; `None` if the agent was lost meanwhile.
fn execute(machine: &Machine, queue: &Queue, id: u64, packet: &Packet) -> Result<Option<Times>, Failure> {
    if machine.config.counts_instructions {
        queue.counted_time.begin();
    }
    let start = (queue.profiling() && !packet.completion.is_null()).then(|| time(machine, queue));
    let agent = &machine.agents[queue.agent.0];
    machine.see_flushes();
    if let Some(asked) = machine.config.trace.as_ref().filter(|asked| asked.detail == Detail::Packet) {
        asked.packet(packet, id, &queue.describe());
    }
    match &packet.work {
        Work::Dispatch(dispatch) => {
            dispatch::dispatch(machine, queue, id, dispatch, None)?;
            Counters::add(&machine.counters.dispatches, 1);
        }
        Work::Pm4(buffer) => pm4_execute::run(machine, queue, id, *buffer, || fence(machine, queue, packet))?,
        Work::Barrier(..) => {}
    }
    let waits = match &packet.work {
        Work::Dispatch(_) => false,
        Work::Barrier(_, conditions) => !conditions.is_empty(),
        Work::Pm4(_) => true,
    };
    if machine.config.checks.set.race && waits {
        machine.race.waited(queue);
    }
    if eviction::is_evicted(queue.agent) {
        return Ok(None);
    }
    if let Some(caches) = &agent.caches {
        caches.release(machine.backing(), packet.header.release_scope());
    }
    Ok(Some(start.map(|start| (start, time(machine, queue)))))
}

/// Time of the GPU's clock during a packet of the queue, in ticks of the system's.
fn time(machine: &Machine, queue: &Queue) -> u64 {
    if machine.config.counts_instructions { queue.counted_time.get() } else { now() }
}

/// True if only its position in the queue keeps the packet from running.
fn ready(packet: &Packet) -> bool {
    match &packet.work {
        Work::Dispatch(_) | Work::Pm4(_) => true,
        Work::Barrier(true, conditions) => conditions.iter().all(|condition| condition.holds()),
        Work::Barrier(false, conditions) => {
            conditions.is_empty() || conditions.iter().any(|condition| condition.holds())
        }
    }
}
