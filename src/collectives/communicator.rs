// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Communicators: groups of ranks, the order of their operations, and splits.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use super::algorithms::Round;
use super::line::Line;
use super::operation::{Kind, Plan};
use super::rccl::{ABORT, Device, DeviceOperation, Entry, Group, ID_BYTES, LOOK, Others, Turn, start_watch};
use super::world::{Lane, World, hash};
use amdgpu_ffi::{Result, Status, status};

/// One rank's view of a group of ranks.
///
/// Operations run in the order of their [tickets](Ticket), on a thread of the communicator, so that ranks which make
/// the same calls in the same order run the same operation at the same time. Splits have an order and a thread of their
/// own: a split waits for the other ranks' splits only, never for operations. A communicator that has failed on one
/// rank fails on all, and stays failed. Dropping the last reference ends the threads.
pub struct Communicator {
    world: Arc<World>,
    context: u64,
    /// The members, as ranks of the world, by their rank here.
    members: Vec<u32>,
    rank: u32,
    operations: Arc<Line>,
    splits: Arc<Line>,
    counters: Mutex<Counters>,
    children: Mutex<Children>,
    /// RCCL's group of these ranks, if RCCL is the engine.
    rccl: OnceLock<Group>,
}

/// The numbers of the next operations.
#[derive(Default)]
struct Counters {
    collective: u64,
    split: u64,
    /// Messages sent to ranks.
    sent: HashMap<u32, u64>,
    /// Messages received from ranks.
    received: HashMap<u32, u64>,
}

/// The groups made by splits, by the colours and keys of all ranks. Equal splits return the same group, so that
/// programs which split at every call make no new ones.
#[derive(Default)]
struct Children {
    groups: HashMap<Vec<(i32, i32)>, Option<Arc<Communicator>>>,
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank)
            .field("count", &self.members.len())
            .finish_non_exhaustive()
    }
}

impl Communicator {
    pub(super) fn new(world: Arc<World>, context: u64, members: Vec<u32>, rank: u32) -> Arc<Self> {
        Arc::new(Self {
            world,
            context,
            members,
            rank,
            operations: Arc::default(),
            splits: Arc::default(),
            counters: Mutex::default(),
            children: Mutex::default(),
            rccl: OnceLock::new(),
        })
    }

    /// The rank in the group.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    pub fn count(&self) -> u32 {
        self.members.len() as u32
    }

    /// The communicators of this one and of all splits below it.
    #[cfg(test)]
    pub fn tree_size(&self) -> usize {
        1 + self.children.lock().groups.values().flatten().map(|child| child.tree_size()).sum::<usize>()
    }

    /// Reserves the place of the next operations. With RCCL they have a turn among all that the host orders of the GPU:
    /// the device orders no later ones until it has ended.
    pub fn reserve(self: &Arc<Self>) -> (Ticket, Option<Turn>) {
        let draw = || Ticket { number: Some(self.operations.draw()), communicator: self.clone() };
        match self.rccl.get() {
            Some(group) => {
                let (turn, ticket) = group.device().begin_turn(draw);
                (ticket, Some(turn))
            }
            None => (draw(), None),
        }
    }

    /// Performs an operation from `send`, of the plan's length, and returns the bytes to receive. Only jobs of tickets
    /// call this, so that calls are in order.
    ///
    /// # Errors
    /// The failure of the group: the job must [abort](Self::abort) it.
    pub fn perform(&self, plan: &Plan, send: Vec<u8>) -> Result<Vec<u8>> {
        if let Some(failure) = self.world.mailbox.failure(self.context, &[]) {
            return Err(failure);
        }
        // Ranks that neither send nor receive do not know of a message.
        let is_direct =
            matches!(plan.operation.kind, Kind::Send { .. } | Kind::Receive { .. } | Kind::SendReceive { .. });
        self.round(if is_direct { Lane::Direct } else { Lane::Collective }).perform(plan, send)
    }

    /// Has RCCL move the data of operations on `device` from now on. The ranks join in `turn`. Does not wait for the
    /// other ranks.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED: the thread could not be started.
    pub(super) fn use_rccl(self: &Arc<Self>, device: &Arc<Device>, turn: Turn) -> Result<()> {
        let (group, ticket) = Group::new(device.clone());
        if self.count() < 2 || self.rccl.set(group).is_err() {
            return Ok(());
        }
        let communicator = self.clone();
        let job = move || match communicator.exchange_id() {
            Ok(id) => {
                let failed = Arc::downgrade(&communicator);
                let report = move |status| {
                    if let Some(communicator) = failed.upgrade() {
                        communicator.abort(&status);
                    }
                };
                let member = Arc::downgrade(&communicator);
                let check = move || match member.upgrade() {
                    Some(member) => member.failure().map_or(Ok(()), Err),
                    None => Err(status!(CANCELLED, "the communicator was released before its ranks joined")),
                };
                ticket.join(&id, (communicator.rank, communicator.count()), turn, check, report);
            }
            Err(status) => communicator.abort(&status),
        };
        self.splits.run(self.splits.draw(), Box::new(job), "amdgpu_rs-split").map_err(no_thread)
    }

    /// Gives an id for RCCL of rank 0 to all ranks. It is the first operation of the lane of splits.
    fn exchange_id(&self) -> Result<Vec<u8>> {
        let own = self.rccl.get().filter(|_| self.rank == 0).map(|group| group.device().unique_id());
        self.round(Lane::Split).broadcast(0, own.transpose()?.unwrap_or_default(), ID_BYTES, 0)
    }

    /// True if RCCL moves the data of operations.
    pub fn has_rccl(&self) -> bool {
        self.rccl.get().is_some()
    }

    /// Performs operations on device memory by RCCL in their turn, and waits for their end. Calls are in order, as
    /// those of [`perform`](Self::perform).
    ///
    /// # Errors
    /// The failure of the group: the job must [abort](Self::abort) it, and [RCCL](Self::abort_rccl) behind it.
    pub fn perform_on_device(&self, operations: Vec<DeviceOperation>, turn: Option<&Turn>) -> Result<()> {
        let check = || self.failure().map_or(Ok(()), Err);
        check()?;
        let (Some(group), Some(turn)) = (self.rccl.get(), turn) else {
            return Err(status!(INTERNAL, "a communicator without RCCL"));
        };
        turn.wait(LOOK, check)?;
        group.perform(operations, self.world.timeout, self)
    }

    /// The right to have the device order operations of RCCL's: those whose waits are over or are packets of rings.
    /// None if the host is to order them.
    pub fn enter(self: &Arc<Self>, operations: &[DeviceOperation]) -> Option<Entry<'_>> {
        let group = self.rccl.get()?;
        let watched = self.clone();
        let watch = || start_watch(move || watched.watch());
        group.enter(operations, watch, || self.failure().is_none())
    }

    /// Looks for failures of operations that the device orders.
    fn watch(&self) {
        let Some(group) = self.rccl.get() else { return };
        let fail = |status: Status| {
            let status = status.annotate(&format!("rank {} of {} on the device", self.rank, self.count()));
            self.abort(&status);
            group.abort(&status, Box::new(()));
        };
        group.watch(self.world.timeout, self, fail);
    }

    /// True if RCCL may still use the memory of an operation that has failed.
    pub fn is_unfinished(&self) -> bool {
        self.rccl.get().is_some_and(Group::is_unfinished)
    }

    /// Has RCCL end the operation that has failed, as `Group::abort`. Semaphores must have failed before: RCCL's
    /// stream goes on with wrong data.
    pub fn abort_rccl(&self, status: &Status, retained: Box<dyn Send>) {
        if let Some(group) = self.rccl.get() {
            group.abort(status, retained);
        }
    }

    /// Ends the group: operations that run or follow fail on all ranks.
    pub fn abort(&self, status: &Status) {
        self.world.abort(self.context, &self.members, status);
    }

    /// Ends the group if operations are outstanding, as well as the groups split from it.
    pub fn cancel(&self) {
        let is_ordered_by_device = || self.rccl.get().is_some_and(Group::has_flights);
        if self.operations.is_busy() || self.splits.is_busy() || is_ordered_by_device() {
            self.abort(&status!(CANCELLED, "the device was destroyed while a collective waited for other ranks"));
        }
        let children: Vec<_> = self.children.lock().groups.values().flatten().cloned().collect();
        children.iter().for_each(|child| child.cancel());
    }

    /// Has RCCL release the group and those split from it, behind operations that have [failed](Self::cancel). Nothing
    /// follows.
    pub fn release_rccl(&self) {
        if let Some(group) = self.rccl.get() {
            self.operations.wait_until_idle(ABORT);
            let children: Vec<_> = self.children.lock().groups.values().flatten().cloned().collect();
            children.iter().for_each(|child| child.release_rccl());
            group.release();
        }
    }

    /// Splits the group by colour, ranks in the order of their keys. Does not wait for the other ranks.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED: the thread could not be started.
    pub fn split(self: &Arc<Self>, color: i32, key: i32) -> Result<Arc<Membership>> {
        let membership = Arc::<Membership>::default();
        let (communicator, result) = (self.clone(), membership.clone());
        let draw = || self.splits.draw();
        let (turn, number) = match self.rccl.get() {
            Some(group) => {
                let (turn, number) = group.device().begin_turn(draw);
                (Some(turn), number)
            }
            None => (None, draw()),
        };
        let job = Box::new(move || {
            let made = communicator.exchange_split(color, key, turn);
            if let Err(status) = &made {
                communicator.abort(status);
            }
            drop(communicator);
            result.resolve(made);
        });
        self.splits.run(number, job, "amdgpu_rs-split").map_err(no_thread)?;
        Ok(membership)
    }

    /// The group of this rank after a split in which it has `color` and `key`; none without a colour.
    /// A new one joins in `turn`.
    fn exchange_split(self: &Arc<Self>, color: i32, key: i32, turn: Option<Turn>) -> Result<Option<Arc<Self>>> {
        let own = [color.to_le_bytes(), key.to_le_bytes()].concat();
        let all = self.round(Lane::Split).all_gather_blocks(own)?;
        let word = |bytes: &[u8]| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let all: Vec<_> = all.chunks_exact(8).map(|pair| (word(pair), word(&pair[4..]))).collect();
        let mut children = self.children.lock();
        // Alike on all ranks, because all have made the same splits.
        let number = children.groups.len() as u64;
        let make = || {
            let mut members: Vec<_> = (0..self.count()).filter(|rank| all[*rank as usize].0 == color).collect();
            members.sort_by_key(|rank| all[*rank as usize].1);
            let rank = members.iter().position(|rank| *rank == self.rank)? as u32;
            let context = hash(&[b"split", &self.context.to_le_bytes(), &number.to_le_bytes(), &color.to_le_bytes()]);
            let members = members.iter().map(|rank| self.members[*rank as usize]).collect();
            (color >= 0).then(|| Self::new(self.world.clone(), context, members, rank))
        };
        if let Some(known) = children.groups.get(&all) {
            return Ok(known.clone());
        }
        let made = make();
        if let (Some(group), Some(child), Some(turn)) = (self.rccl.get(), &made, turn) {
            child.use_rccl(group.device(), turn)?;
        }
        children.groups.insert(all, made.clone());
        Ok(made)
    }

    /// Begins the next operation of a lane. Messages have numbers of their own.
    fn round(&self, lane: Lane) -> Round<'_> {
        let mut counters = self.counters.lock();
        let sequence = match lane {
            Lane::Split => next(&mut counters.split),
            Lane::Collective => next(&mut counters.collective),
            Lane::Direct | Lane::Abort | Lane::Leave => 0,
        };
        Round { communicator: self, lane, sequence }
    }

    /// The number of the next message to (`sent`) or from a rank.
    pub(super) fn next_message(&self, rank: u32, sent: bool) -> u64 {
        let mut counters = self.counters.lock();
        let counters = &mut *counters;
        next(if sent { &mut counters.sent } else { &mut counters.received }.entry(rank).or_default())
    }

    /// The parts that a round sends by: the world, the group's context, and its members.
    pub(super) fn route(&self) -> (&World, u64, &[u32]) {
        (&self.world, self.context, &self.members)
    }
}

impl Others for Communicator {
    fn failure(&self) -> Option<Status> {
        self.world.mailbox.failure(self.context, &self.members)
    }

    fn left(&self) -> Option<Status> {
        self.world.mailbox.left(&self.members)
    }
}

/// The value of a counter, which advances.
fn next(counter: &mut u64) -> u64 {
    *counter += 1;
    *counter - 1
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.operations.close();
        self.splits.close();
    }
}

fn no_thread(error: std::io::Error) -> Status {
    status!(RESOURCE_EXHAUSTED, "starting a thread for collectives: {error}")
}

/// The place of an operation among those of its communicator. Dropped without [`Self::run`], it ends the group: the
/// other ranks would wait for this one.
#[derive(Debug)]
pub struct Ticket {
    communicator: Arc<Communicator>,
    /// None once it was used.
    number: Option<u64>,
}

impl Ticket {
    /// Runs `job` on the communicator's thread after all earlier operations.
    pub fn run(mut self, job: impl FnOnce(&Arc<Communicator>) + Send + 'static) {
        let Some(number) = self.number.take() else { return };
        let communicator = self.communicator.clone();
        let job = Box::new(move || job(&communicator));
        if let Err(error) = self.communicator.operations.run(number, job, "amdgpu_rs-collective") {
            self.communicator.abort(&no_thread(error));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(number) = self.number.take() else { return };
        let rank = self.communicator.rank;
        self.communicator.abort(&status!(CANCELLED, "a collective of rank {rank} was cancelled before it ran"));
        // Nothing is lost if the thread cannot be started.
        let _ = self.communicator.operations.run(number, Box::new(|| ()), "amdgpu_rs-collective");
    }
}

/// A communicator that may still be in the making, because other ranks have not split yet.
#[derive(Debug, Default)]
pub struct Membership {
    made: Mutex<Option<Result<Option<Arc<Communicator>>>>>,
    changed: Condvar,
}

impl From<Arc<Communicator>> for Membership {
    fn from(communicator: Arc<Communicator>) -> Self {
        Self { made: Mutex::new(Some(Ok(Some(communicator)))), changed: Condvar::new() }
    }
}

impl Membership {
    /// The communicator. Waits until it is made.
    ///
    /// # Errors
    /// The failure of the split; FAILED_PRECONDITION for a rank without a colour.
    pub fn communicator(&self) -> Result<Arc<Communicator>> {
        let mut made = self.made.lock();
        loop {
            match &*made {
                None => self.changed.wait(&mut made),
                Some(Ok(Some(communicator))) => return Ok(communicator.clone()),
                Some(Ok(None)) => return Err(status!(FAILED_PRECONDITION, "the rank is in no group of the split")),
                Some(Err(status)) => return Err(status.clone()),
            }
        }
    }

    fn resolve(&self, made: Result<Option<Arc<Communicator>>>) {
        *self.made.lock() = Some(made);
        self.changed.notify_all();
    }
}
