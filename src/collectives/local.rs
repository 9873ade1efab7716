// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Worlds whose ranks are devices of one process.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::mailbox::Mailbox;
use super::world::{Frame, Transport, World, arrive};
use amdgpu_ffi::{Result, status};

/// The ranks of one id. It lives as long as one of them.
#[derive(Debug)]
struct Hub {
    count: u32,
    ranks: Mutex<HashMap<u32, Rank>>,
}

/// A rank, possibly one that has not joined yet and already gets frames.
#[derive(Debug, Default)]
struct Rank {
    mailbox: Arc<Mailbox>,
    world: Weak<World>,
    has_left: bool,
}

/// Hubs by id.
type Hubs = Vec<(Vec<u8>, Weak<Hub>)>;

/// The hubs of the process.
static HUBS: Mutex<Hubs> = Mutex::new(Vec::new());

/// Joins the world `id` as rank `rank` of `count`. Does not wait for the other ranks.
///
/// # Errors
/// INVALID_ARGUMENT if ranks of the id disagree on their number; FAILED_PRECONDITION for a rank that has left.
pub fn join(id: &[u8], (rank, count): (u32, u32), timeout: Duration) -> Result<Arc<World>> {
    let hub = {
        let mut hubs = HUBS.lock();
        hubs.retain(|(_, hub)| hub.strong_count() > 0);
        let known = hubs.iter().find(|(known, _)| known == id).and_then(|(_, hub)| hub.upgrade());
        known.unwrap_or_else(|| {
            let hub = Arc::new(Hub { count, ranks: Mutex::default() });
            hubs.push((id.to_vec(), Arc::downgrade(&hub)));
            hub
        })
    };
    if hub.count != count {
        let other = hub.count;
        return Err(status!(INVALID_ARGUMENT, "channels of one id are of {count} ranks and of {other}"));
    }
    let mut ranks = hub.ranks.lock();
    let entry = ranks.entry(rank).or_default();
    if let Some(world) = entry.world.upgrade() {
        return Ok(world);
    }
    if entry.has_left {
        return Err(status!(
            FAILED_PRECONDITION,
            "rank {rank} of the channel's id has ended while others go on; use another id for new channels"
        ));
    }
    let transport = Local { hub: hub.clone(), rank };
    let world = World::new((rank, count), timeout, entry.mailbox.clone(), Box::new(transport));
    entry.world = Arc::downgrade(&world);
    Ok(world)
}

struct Local {
    hub: Arc<Hub>,
    rank: u32,
}

impl Transport for Local {
    fn send(&self, target: u32, frame: Frame) -> Result<()> {
        let mailbox = self.hub.ranks.lock().entry(target).or_default().mailbox.clone();
        arrive(&mailbox, frame.key, frame.payload);
        Ok(())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let mut ranks = self.hub.ranks.lock();
        ranks.entry(self.rank).or_default().has_left = true;
        for target in (0..self.hub.count).filter(|target| *target != self.rank) {
            ranks.entry(target).or_default().mailbox.leave(self.rank);
        }
    }
}
