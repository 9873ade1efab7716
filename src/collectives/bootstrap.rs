// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The rendezvous of a channel: which world its parameters and the environment name.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::communicator::Communicator;
use super::rccl::{Device, GpuPlace};
use super::world::World;
use super::{local, mpi, tcp};
use amdgpu_ffi::{Result, status};

/// The transport of ranks in different processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// MPI where the process has initialised it for several threads, otherwise TCP.
    Auto,
    /// TCP.
    Tcp,
    /// MPI; the driver initialises it if necessary.
    Mpi,
    /// RCCL moves the data; the ranks meet as with [`Self::Auto`].
    Rccl,
}

/// The options of collectives.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The transport.
    pub engine: Engine,
    /// Longest wait for another rank.
    pub timeout: Duration,
    /// The GPU for RCCL; none if the device has several.
    pub gpu: Option<GpuPlace>,
}

/// The parameters of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Request {
    /// The rendezvous: `tcp://host:port`, or any bytes that the devices of one process agree on. Empty for the
    /// environment's.
    pub id: Vec<u8>,
    /// Tells several groups of one rendezvous apart.
    pub group: String,
    /// The rank, if given.
    pub rank: Option<u32>,
    /// The number of ranks, if given.
    pub count: Option<u32>,
}

/// The embedder's provider of defaults.
pub trait Provider {
    /// The rank and the number of ranks, as far as it knows them.
    ///
    /// # Errors
    /// The provider's.
    fn rank_and_count(&self) -> Result<(Option<u32>, Option<u32>)>;

    /// Gives the bytes of rank 0 to all ranks.
    ///
    /// # Errors
    /// The provider's.
    fn exchange(&self, id: &mut [u8]) -> Result<()>;
}

/// Bytes of the id that a provider exchanges, as many as NCCL's.
const ID_BYTES: usize = 128;

/// The default of `MASTER_PORT`, as in PyTorch.
const DEFAULT_PORT: u16 = 29500;

/// The start of an id that is an address.
const SCHEME: &[u8] = b"tcp://";

/// Variables with the rank and the number of ranks: of PyTorch, Slurm, Open MPI, and the launchers of MPICH.
const RANKS: [(&str, &str); 4] = [
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
];

/// Variables with the rank among the processes of a machine.
pub const LOCAL_RANKS: [&str; 4] = ["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"];

/// Worlds by the address of the store and the rank. MPI's has no address. A world's lock is held while it is made.
type Worlds = HashMap<(String, u32), Arc<Mutex<Weak<World>>>>;

/// The worlds of processes that are alive.
static WORLDS: Mutex<Option<Worlds>> = Mutex::new(None);

/// Makes the group of all ranks that `request` names, for a device. Waits for the other processes at the first call for
/// a world. Ranks of one process exchange by its memory, whatever the engine.
///
/// # Errors
/// FAILED_PRECONDITION if neither the parameters nor the environment name rank and number of ranks; those of the
/// transports and of RCCL.
pub fn connect(request: &Request, settings: &Settings, provider: Option<&dyn Provider>) -> Result<Arc<Communicator>> {
    let is_local = !request.id.is_empty() && !request.id.starts_with(SCHEME);
    if settings.engine != Engine::Rccl || is_local {
        return meet(request, settings, provider);
    }
    // First, so that a missing library is told before other ranks are waited for.
    let Some(gpu) = &settings.gpu else {
        return Err(status!(
            INVALID_ARGUMENT,
            "collective_engine=rccl takes devices of one GPU, and this one has several; make a device for each GPU, or \
             use tcp"
        ));
    };
    let device = Device::find(gpu)?;
    let communicator = meet(request, settings, provider)?;
    communicator.use_rccl(&device, device.begin_turn(|| ()).0)?;
    Ok(communicator)
}

/// Makes the group of all ranks by frames.
fn meet(request: &Request, settings: &Settings, provider: Option<&dyn Provider>) -> Result<Arc<Communicator>> {
    let group = request.group.as_str();
    if !request.id.is_empty() {
        let (Some(rank), Some(count)) = (request.rank, request.count) else {
            return Err(status!(INVALID_ARGUMENT, "a channel with an id needs its rank and count"));
        };
        check(rank, count)?;
        let id = request.id.strip_prefix(SCHEME).map(text_of);
        let world = match id {
            Some(address) => world_at(&address, rank, || tcp::join(&address, None, (rank, count), settings.timeout)),
            None => local::join(&request.id, (rank, count), settings.timeout),
        }?;
        return world.root(group, true);
    }
    let is_mpi = match settings.engine {
        Engine::Mpi => true,
        Engine::Tcp => false,
        Engine::Auto | Engine::Rccl => request.rank.is_none() && mpi::is_ready(),
    };
    if is_mpi {
        let world = world_at("", 0, || mpi::join(settings.timeout))?;
        return world.root(group, false);
    }
    let provided = provider.map_or(Ok((None, None)), Provider::rank_and_count)?;
    let provider = provider.filter(|_| provided.0.is_some() && provided.1.is_some());
    let found = Environment::read(|name| std::env::var(name).ok())?;
    let rank = request.rank.or(provided.0).or(found.rank);
    let count = request.count.or(provided.1).or(found.count);
    let (Some(rank), Some(count)) = (rank, count) else {
        return Err(status!(
            FAILED_PRECONDITION,
            "a channel without a rank: start the program by mpirun or torchrun, set RANK, WORLD_SIZE, MASTER_ADDR and \
             MASTER_PORT, or give the channel id, rank and count"
        ));
    };
    check(rank, count)?;
    if found.has_store {
        let address = found.address;
        return world_at(&address, rank, || tcp::join(&address, None, (rank, count), settings.timeout))?
            .root(group, false);
    }
    let Some(provider) = provider else {
        if count == 1 {
            return local::join(b"alone", (rank, count), settings.timeout)?.root(group, false);
        }
        return Err(status!(
            FAILED_PRECONDITION,
            "rank {rank} of {count} does not know where to meet the others: set MASTER_ADDR, and MASTER_PORT (default \
             {DEFAULT_PORT}), to a free port of rank 0's machine"
        ));
    };
    // The exchange is a collective call itself: once for each process.
    let world = world_at("provider", rank, || {
        let store = if rank == 0 { Some(tcp::Store::open()?) } else { None };
        let mut id = [0; ID_BYTES];
        if let Some(store) = &store {
            let text = [SCHEME, store.address.as_bytes()].concat();
            id[..text.len()].copy_from_slice(&text);
        }
        provider.exchange(&mut id)?;
        let address = id.strip_prefix(SCHEME).map(text_of);
        let address =
            address.ok_or_else(|| status!(INTERNAL, "the channel provider did not exchange rank 0's address"))?;
        tcp::join(&address, store, (rank, count), settings.timeout)
    })?;
    world.root(group, false)
}

/// The rank of the process among those of its machine, from the launcher's variables.
pub fn local_rank() -> Option<u32> {
    LOCAL_RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// The world of an address and rank, made by `join` at the first call. Other calls for it wait meanwhile.
fn world_at(address: &str, rank: u32, join: impl FnOnce() -> Result<Arc<World>>) -> Result<Arc<World>> {
    let place = {
        let mut worlds = WORLDS.lock();
        let worlds = worlds.get_or_insert_default();
        // Drops worlds that are gone and that no thread is making.
        worlds.retain(|_, place| Arc::strong_count(place) > 1 || place.lock().strong_count() > 0);
        worlds.entry((address.to_owned(), rank)).or_default().clone()
    };
    let mut place = place.lock();
    if let Some(world) = place.upgrade() {
        return Ok(world);
    }
    let world = join()?;
    *place = Arc::downgrade(&world);
    Ok(world)
}

fn check(rank: u32, count: u32) -> Result<()> {
    if rank < count {
        return Ok(());
    }
    Err(status!(INVALID_ARGUMENT, "rank {rank} of {count} for a channel; ranks are from 0 on and below the count"))
}

/// The text up to the first zero byte.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The launcher's variables.
#[derive(Debug, Default, PartialEq, Eq)]
struct Environment {
    rank: Option<u32>,
    count: Option<u32>,
    /// `MASTER_ADDR` is set.
    has_store: bool,
    address: String,
}

impl Environment {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let number = |name: &str| -> Result<Option<u32>> {
            let Some(text) = variable(name) else { return Ok(None) };
            let number = text.trim().parse();
            number
                .map(Some)
                .map_err(|_| status!(INVALID_ARGUMENT, "the variable {name} is '{text}', which is not a number"))
        };
        let mut found = Self::default();
        for (rank, count) in RANKS {
            if let (Some(rank), Some(count)) = (number(rank)?, number(count)?) {
                (found.rank, found.count) = (Some(rank), Some(count));
                break;
            }
        }
        if let Some(host) = variable("MASTER_ADDR") {
            let port = number("MASTER_PORT")?.unwrap_or(DEFAULT_PORT.into());
            // Torchrun's own store has the port.
            let port = port + u32::from(variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|text| text == "True"));
            found.has_store = true;
            found.address = format!("{host}:{port}");
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Environment::read(find)
    }

    #[test]
    fn launchers_name_ranks_and_the_store() {
        let found = |rank, address: &str| Environment {
            rank: Some(rank),
            count: Some(4),
            has_store: !address.is_empty(),
            address: address.to_owned(),
        };
        let torch = [("RANK", "3"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "host"), ("MASTER_PORT", "1234")];
        assert_eq!(read(&torch).unwrap(), found(3, "host:1234"));
        let agent = [&torch[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert_eq!(read(&agent).unwrap(), found(3, "host:1235"), "torchrun listens at the port itself");
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4"), ("MASTER_ADDR", "::1")];
        assert_eq!(read(&slurm).unwrap(), found(1, "::1:29500"));
        let open = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(read(&open).unwrap(), found(2, ""));
        let both = [&open[..], &torch[..]].concat();
        assert_eq!(read(&both).unwrap(), found(3, "host:1234"), "the explicit ones first");
        assert_eq!(read(&[]).unwrap(), Environment::default());
        let wrong = read(&[("RANK", "x")]).unwrap_err().to_string();
        assert!(wrong.contains("RANK"), "{wrong}");
    }

    #[test]
    fn a_channel_without_a_rank_says_what_to_set() {
        let settings = Settings { engine: Engine::Tcp, timeout: Duration::from_secs(1), gpu: None };
        let request = Request { id: b"x".to_vec(), rank: Some(0), ..Request::default() };
        assert!(connect(&request, &settings, None).is_err(), "an id needs rank and count");
        let request = Request { rank: Some(4), count: Some(4), ..request };
        assert!(connect(&request, &settings, None).unwrap_err().to_string().contains("rank 4 of 4"));
    }
}
