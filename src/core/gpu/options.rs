// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The driver's knobs: one table from which flags, URI parameters and documentation are made.
//!
//! Each knob of [`KNOBS`] can be given as a flag, `--amdgpu_rs_<key>=<value>`, and as a parameter of a device URI,
//! `amdgpu_rs://0?<key>=<value>`; both go through [`Options::set`]. Keys, defaults and limits are those of IREE's C
//! driver (`registration/driver_module.c`, `api.h`) where it has the same knob; queue counts and capacities, which it
//! offers only to embedders, are knobs here, too. This driver has no pools of host blocks: their knobs bound, in units
//! of such blocks, the host memory that is kept for reuse, and set the memory that file transfers use.

use std::path::PathBuf;

use amdgpu_collectives::bootstrap::Engine;
use amdgpu_ffi::{Result, status};

/// Where queue operations are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePlacement {
    /// The best that is supported: the host.
    Any,
    /// By the host.
    Host,
    /// By the device. Not implemented.
    Device,
}

/// How command buffers are recorded and replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandBufferMode {
    /// As AQL packets.
    Aql,
    /// As PM4 streams, if they consist only of dispatches that streams support and may be executed several times;
    /// otherwise as AQL packets.
    Pm4,
    /// As `Pm4` if the recording is long enough to gain by it and the GPU is one where streams were tested.
    Auto,
}

/// The publication of a PM4 command buffer's commands. Kernel arguments are written in place, as for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pm4Publication {
    /// The host writes them to its own memory, and they stay there.
    Copy,
    /// One `hsa_amd_memory_async_copy` to the GPU's memory, waited for when recording ends.
    AsyncCopy,
    /// As `AsyncCopy`, but the host waits when an execution is about to be submitted.
    AsyncCopyNonblocking,
}

/// The location of kernel arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernargMemory {
    /// In the GPU's own memory if the host can access it, otherwise in host memory.
    Any,
    /// In host memory.
    Host,
}

/// Values of all knobs. Sizes are in bytes unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Directories or files in which to look for the HSA runtime, and nowhere else; empty for the usual places.
    pub libhsa_search_path: Vec<PathBuf>,
    /// Largest vector that a queue keeps for reuse: a power of two of at least 4 KiB.
    pub host_block_pool_small_size: usize,
    /// A file transfer moves 64 times this at a time. Its staging memory is 128 times this, but at most twice the
    /// transfer. A power of two of at least 64 KiB.
    pub host_block_pool_large_size: usize,
    /// 1/32 of the most memory that is kept of a recording for reuse: a power of two from 256 to 2 GiB.
    pub host_block_pool_command_buffer_size: usize,
    /// Size of a small block of [`crate::kernargs`]: a power of two of at least 1 KiB.
    pub device_block_pool_small_size: u64,
    /// Small blocks of a slab; 0 is 1.
    pub device_block_pool_small_capacity: usize,
    /// Size of a large block: a power of two of at least 64 KiB.
    pub device_block_pool_large_size: u64,
    /// Large blocks of a slab; 0 is 1.
    pub device_block_pool_large_capacity: usize,
    /// Length of one range of the default queue-allocation pool of a GPU.
    pub default_pool_range_length: u64,
    /// Least alignment of the default pool's reservations: a power of two of at least 16.
    pub default_pool_alignment: u64,
    /// Death-frontier entries kept per free block of the default pool: 1 to 255.
    pub default_pool_frontier_capacity: u8,
    /// Scheduler of queue operations.
    pub queue_placement: QueuePlacement,
    /// How command buffers are recorded.
    pub command_buffer_mode: CommandBufferMode,
    /// How PM4 command buffers are published.
    pub pm4_command_buffer_publication_mode: Pm4Publication,
    /// Makes a slab of each block pool when the device is made.
    pub preallocate_pools: bool,
    /// Reserved by the C driver; not implemented.
    pub exclusive_execution: bool,
    /// Makes waits across queues always go through the host.
    pub force_wait_barrier_defer: bool,
    /// Makes devices answer to the id `hip`, by which modules compiled for IREE's target of that name look for one. Not
    /// a knob of the C driver.
    pub hip_device_id: bool,
    /// Makes [`CommandBufferMode::Auto`] use PM4 also on GPUs where streams were not tested.
    pub experimental_pm4_command_buffers: bool,
    /// Nanoseconds to spin before a wait blocks; not implemented, so 0.
    pub wait_active_for_ns: u64,
    /// Hardware queues made on each GPU: 1 to 255.
    pub hardware_queues_per_gpu: usize,
    /// Packets in the AQL ring of a hardware queue: a power of two.
    pub aql_queue_capacity: u32,
    /// Location of kernel arguments. Not a knob of the C driver, which does as [`KernargMemory::Any`].
    pub kernarg_memory: KernargMemory,
    /// 64-byte blocks in the kernarg ring of a hardware queue: a power of two of at least twice `aql_queue_capacity`.
    pub kernarg_capacity: u32,
    /// Entries of the notification ring of a hardware queue: a power of two.
    pub notification_capacity: u32,
    /// Transport of collectives between processes. Not a knob of the C driver, nor are those below.
    pub collective_engine: Engine,
    /// Seconds for which a collective waits for another rank.
    pub collective_timeout: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            libhsa_search_path: Vec::new(),
            host_block_pool_small_size: 8 << 10,
            host_block_pool_large_size: 64 << 10,
            host_block_pool_command_buffer_size: 128 << 10,
            device_block_pool_small_size: 32 << 10,
            device_block_pool_small_capacity: 128,
            device_block_pool_large_size: 256 << 10,
            device_block_pool_large_capacity: 16,
            default_pool_range_length: 64 << 20,
            default_pool_alignment: 256,
            default_pool_frontier_capacity: 8,
            queue_placement: QueuePlacement::Any,
            command_buffer_mode: CommandBufferMode::Aql,
            pm4_command_buffer_publication_mode: Pm4Publication::Copy,
            preallocate_pools: true,
            exclusive_execution: false,
            force_wait_barrier_defer: false,
            hip_device_id: true,
            experimental_pm4_command_buffers: false,
            wait_active_for_ns: 0,
            hardware_queues_per_gpu: 2,
            aql_queue_capacity: 64 << 10,
            kernarg_memory: KernargMemory::Any,
            kernarg_capacity: (16 << 20) / 64,
            notification_capacity: 1024,
            collective_engine: Engine::Auto,
            collective_timeout: 600,
        }
    }
}

/// One knob.
pub struct Knob {
    /// Key in URIs; the flag is `--amdgpu_rs_<key>`.
    pub key: &'static str,
    /// The values it takes, for help: `<bytes>`, `any|host|device`…
    pub values: &'static str,
    /// One or two sentences of help.
    pub help: &'static str,
    parse: fn(&mut Options, &str) -> std::result::Result<(), String>,
    show: fn(&Options) -> String,
}

impl Knob {
    /// The knob's value in `options` as text; empty if it is not set.
    pub fn value(&self, options: &Options) -> String {
        (self.show)(options)
    }

    /// The default as text; empty if there is none.
    pub fn default(&self) -> String {
        self.value(&Options::default())
    }
}

const BYTES: &str = "<bytes, 0 = default>";
const COUNT: &str = "<count, 0 = default>";
const SWITCH: &str = "true|false";

/// A knob that is a number, for which 0 stands for the default.
macro_rules! number {
    ($key:ident, $values:expr, $help:expr) => {
        Knob {
            key: stringify!($key),
            values: $values,
            help: $help,
            parse: |options, text| {
                options.$key = match number(text)? {
                    0 => Options::default().$key,
                    value => value.try_into().map_err(|_| format!("{value} is too large"))?,
                };
                Ok(())
            },
            show: |options| options.$key.to_string(),
        }
    };
}

/// A knob that is true or false.
macro_rules! switch {
    ($key:ident, $help:expr) => {
        Knob {
            key: stringify!($key),
            values: SWITCH,
            help: $help,
            parse: |options, text| {
                options.$key = choice(text, &SWITCHES)?;
                Ok(())
            },
            show: |options| options.$key.to_string(),
        }
    };
}

/// A knob that takes one of a few words.
macro_rules! choice {
    ($key:ident, $words:ident, $values:expr, $help:expr) => {
        Knob {
            key: stringify!($key),
            values: $values,
            help: $help,
            parse: |options, text| {
                options.$key = choice(text, &$words)?;
                Ok(())
            },
            show: |options| word(options.$key, &$words),
        }
    };
}

/// The spellings that IREE's boolean flags take; an empty value (`--flag`) is true.
const SWITCHES: [(&str, bool); 5] = [("true", true), ("false", false), ("1", true), ("0", false), ("", true)];
const PLACEMENTS: [(&str, QueuePlacement); 3] =
    [("any", QueuePlacement::Any), ("host", QueuePlacement::Host), ("device", QueuePlacement::Device)];
const MODES: [(&str, CommandBufferMode); 3] =
    [("aql", CommandBufferMode::Aql), ("pm4", CommandBufferMode::Pm4), ("auto", CommandBufferMode::Auto)];
const KERNARG_MEMORIES: [(&str, KernargMemory); 2] = [("any", KernargMemory::Any), ("host", KernargMemory::Host)];
const ENGINES: [(&str, Engine); 4] =
    [("auto", Engine::Auto), ("tcp", Engine::Tcp), ("mpi", Engine::Mpi), ("rccl", Engine::Rccl)];
const PUBLICATIONS: [(&str, Pm4Publication); 3] = [
    ("host-copy", Pm4Publication::Copy),
    ("host-async-copy", Pm4Publication::AsyncCopy),
    ("host-async-copy-nonblocking", Pm4Publication::AsyncCopyNonblocking),
];

/// Every knob, in the order in which help shows them.
pub const KNOBS: &[Knob] = &[
    Knob {
        key: "libhsa_search_path",
        values: "<directory or file>",
        help: "Directory or file of the HSA runtime (libhsa-runtime64.so.1). No other place is searched. Repeatable.",
        parse: |options, text| {
            if text.is_empty() {
                return Err("the path is empty".to_owned());
            }
            options.libhsa_search_path.push(PathBuf::from(text));
            Ok(())
        },
        show: |options| {
            let paths = options.libhsa_search_path.iter();
            paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(",")
        },
    },
    number!(
        host_block_pool_small_size,
        BYTES,
        "Size of the largest vector that a queue caches for reuse: a power of two of at least 4096."
    ),
    number!(
        host_block_pool_large_size,
        BYTES,
        "Size of staging blocks: a file transfer through staging memory moves 64 of them at a time. A power of two of \
         at least 65536."
    ),
    number!(
        host_block_pool_command_buffer_size,
        BYTES,
        "Size of blocks of recordings: a released command buffer's host memory is cached for reuse up to 32 of them, \
         and freed beyond that. A power of two of at least 256."
    ),
    number!(
        device_block_pool_small_size,
        BYTES,
        "Size of the blocks for kernel arguments of small command buffers: a power of two of at least 1024."
    ),
    number!(device_block_pool_small_capacity, COUNT, "Number of small blocks that are allocated at a time."),
    number!(
        device_block_pool_large_size,
        BYTES,
        "Size of the blocks for kernel arguments of larger command buffers: a power of two of at least 65536. \
         Arguments beyond that size have an allocation of their own."
    ),
    number!(device_block_pool_large_capacity, COUNT, "Number of large blocks that are allocated at a time."),
    number!(default_pool_range_length, BYTES, "Length of a range of the default queue-allocation pool of each GPU."),
    number!(default_pool_alignment, BYTES, "Least alignment in the default pool: a power of two of at least 16."),
    number!(
        default_pool_frontier_capacity,
        COUNT,
        "Death-frontier entries of each free block of the default pool, at least one for each queue: at most 255."
    ),
    choice!(
        queue_placement,
        PLACEMENTS,
        "any|host|device",
        "Scheduler of queue operations. 'any' is the host; 'device' is not implemented."
    ),
    choice!(
        command_buffer_mode,
        MODES,
        "aql|pm4|auto",
        "Form of recorded command buffers: AQL packets, or with 'pm4' resident streams of PM4 commands if they hold \
         dispatches alone. 'auto' is 'pm4' for long ones on gfx942 and gfx1100, otherwise 'aql'."
    ),
    choice!(
        pm4_command_buffer_publication_mode,
        PUBLICATIONS,
        "host-copy|host-async-copy|host-async-copy-nonblocking",
        "Memory of the commands of PM4 command buffers: host memory, or a copy in GPU memory. With 'host-async-copy' \
         the end of recording waits for the copy, with 'host-async-copy-nonblocking' the first execution does."
    ),
    switch!(preallocate_pools, "Fills the device block pools when a device is made, not at their first use."),
    switch!(exclusive_execution, "Exclusive queue scheduling. Not implemented."),
    switch!(force_wait_barrier_defer, "Sends every wait across queues through the host."),
    switch!(hip_device_id, "Also runs modules compiled for IREE's target 'hip': the device answers to that id."),
    switch!(
        experimental_pm4_command_buffers,
        "Lets command_buffer_mode=auto use PM4 on gfx90a, gfx11 and gfx12.0 too, where no run on hardware is known."
    ),
    Knob {
        key: "wait_active_for_ns",
        values: "<nanoseconds>",
        help: "Time to spin before a wait blocks. Not implemented: must be 0.",
        parse: |options, text| {
            options.wait_active_for_ns = number(text)?;
            Ok(())
        },
        show: |options| options.wait_active_for_ns.to_string(),
    },
    number!(
        hardware_queues_per_gpu,
        COUNT,
        "Number of hardware queues on each GPU: at most 255, and 64 over all GPUs."
    ),
    number!(aql_queue_capacity, COUNT, "Packets in the AQL ring of each hardware queue: a power of two."),
    choice!(
        kernarg_memory,
        KERNARG_MEMORIES,
        "any|host",
        "Memory of kernel arguments. 'any' is GPU memory if the host can access it, otherwise host memory."
    ),
    number!(
        kernarg_capacity,
        COUNT,
        "64-byte blocks in the kernarg ring of each queue: a power of two, at least twice aql_queue_capacity."
    ),
    number!(notification_capacity, COUNT, "Entries of the notification ring of each queue: a power of two."),
    choice!(
        collective_engine,
        ENGINES,
        "auto|tcp|mpi|rccl",
        "Transport of collectives between processes. 'auto' is MPI if the process has initialised it for threads, \
         otherwise TCP. 'mpi' initialises MPI if necessary. 'rccl' moves the data by RCCL."
    ),
    number!(collective_timeout, "<seconds, 0 = default>", "Longest wait of a collective for another rank."),
];

impl Options {
    /// Sets the knob `key` from its text.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an unknown key (the message lists the known ones) or a value that the knob does not take.
    /// Combinations of values are checked by [`verify`](Self::verify).
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let Some(knob) = KNOBS.iter().find(|knob| knob.key == key) else {
            return Err(status!(INVALID_ARGUMENT, "{}", unknown(key)));
        };
        (knob.parse)(self, value.trim()).map_err(|reason| {
            let (value, values, default, help) = (cut(value), knob.values, knob.default(), knob.help);
            status!(
                INVALID_ARGUMENT,
                "option {key}='{value}': {reason}; it takes {values}, default '{default}': {help}"
            )
        })
    }

    /// Checks all that needs no device.
    ///
    /// # Errors
    /// UNIMPLEMENTED for unsupported values, OUT_OF_RANGE for values out of their limits.
    pub fn verify(&self) -> Result<()> {
        self.verify_supported()?;
        self.verify_block_pools()?;
        self.verify_default_pool()?;
        self.verify_queues()
    }

    fn verify_supported(&self) -> Result<()> {
        let unsupported = [
            (
                self.queue_placement == QueuePlacement::Device,
                "queue_placement=device is not implemented; use any or host",
            ),
            (self.exclusive_execution, "exclusive_execution is not implemented"),
            (self.wait_active_for_ns != 0, "wait_active_for_ns is not implemented; use 0"),
        ];
        match unsupported.iter().find(|(asked, _)| *asked) {
            Some((_, text)) => Err(status!(UNIMPLEMENTED, "option {text}")),
            None => Ok(()),
        }
    }

    fn verify_block_pools(&self) -> Result<()> {
        power_of_two("host_block_pool_small_size", self.host_block_pool_small_size as u64, 4 << 10)?;
        power_of_two("host_block_pool_large_size", self.host_block_pool_large_size as u64, 64 << 10)?;
        let recording = self.host_block_pool_command_buffer_size as u64;
        power_of_two("host_block_pool_command_buffer_size", recording, 256)?;
        if recording > u64::from(u32::MAX) {
            return Err(status!(
                OUT_OF_RANGE,
                "option host_block_pool_command_buffer_size={recording} must fit in 32 bits"
            ));
        }
        power_of_two("device_block_pool_small_size", self.device_block_pool_small_size, 1 << 10)?;
        power_of_two("device_block_pool_large_size", self.device_block_pool_large_size, 64 << 10)
    }

    fn verify_default_pool(&self) -> Result<()> {
        let (length, alignment) = (self.default_pool_range_length, self.default_pool_alignment);
        power_of_two("default_pool_alignment", alignment, 16)?;
        if length < alignment {
            return Err(status!(
                OUT_OF_RANGE,
                "option default_pool_range_length={length} must be at least default_pool_alignment={alignment}"
            ));
        }
        Ok(())
    }

    fn verify_queues(&self) -> Result<()> {
        if !(1..=255).contains(&self.hardware_queues_per_gpu) {
            let count = self.hardware_queues_per_gpu;
            return Err(status!(OUT_OF_RANGE, "option hardware_queues_per_gpu={count} must be 1 to 255"));
        }
        let (aql, kernarg) = (self.aql_queue_capacity, self.kernarg_capacity);
        power_of_two("aql_queue_capacity", aql.into(), 1)?;
        power_of_two("kernarg_capacity", kernarg.into(), 1)?;
        power_of_two("notification_capacity", self.notification_capacity.into(), 1)?;
        // Each packet may take a block, and the ring may skip as many again at its end.
        if kernarg / 2 < aql {
            return Err(status!(
                OUT_OF_RANGE,
                "option kernarg_capacity={kernarg} (64-byte blocks) must be at least twice \
                 aql_queue_capacity={aql} (packets)"
            ));
        }
        Ok(())
    }
}

fn number(text: &str) -> std::result::Result<u64, String> {
    match text.parse::<i128>() {
        Ok(value) if value < 0 => Err("it must not be negative".to_owned()),
        Ok(value) => u64::try_from(value).map_err(|_| format!("{value} is too large")),
        Err(_) => Err("it is not a whole number".to_owned()),
    }
}

fn choice<T: Copy>(text: &str, words: &[(&str, T)]) -> std::result::Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| "unknown value".to_owned())
}

fn word<T: PartialEq>(value: T, words: &[(&str, T)]) -> String {
    words.iter().find(|(_, other)| *other == value).map_or_else(String::new, |(word, _)| (*word).to_owned())
}

fn power_of_two(key: &str, value: u64, least: u64) -> Result<()> {
    if value >= least && value.is_power_of_two() {
        return Ok(());
    }
    Err(status!(OUT_OF_RANGE, "option {key}={value} must be a power of two of at least {least}"))
}

/// The start of a text from outside, short enough for a message.
pub(crate) fn cut(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end])
}

/// The message for an unknown key: the nearest known key, if one is near, and all known ones.
fn unknown(key: &str) -> String {
    let key = cut(key);
    let keys: Vec<_> = KNOBS.iter().map(|knob| knob.key).collect();
    let (nearest, distance) = keys
        .iter()
        .map(|known| (*known, edit_distance(key, known)))
        .min_by_key(|(_, distance)| *distance)
        .unwrap_or_default();
    let hint = if distance <= key.len().max(nearest.len()) / 3 {
        format!(" (did you mean '{nearest}'?)")
    } else {
        String::new()
    };
    format!("unknown option '{key}'{hint}; known options: {}", keys.join(", "))
}

/// The Levenshtein distance in bytes.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[path = "options_test.rs"]
mod tests;
