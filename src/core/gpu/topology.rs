// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The GPUs and CPUs of the system, and the GPUs that make up a logical device.
//!
//! [`Topology::new`] asks the runtime once; the answers do not change while it is up. A device path selects GPUs:
//!
//! * empty or `*`: every visible GPU that is of the same kind as the first (`ROCR_VISIBLE_DEVICES` filters and orders
//!   them);
//! * a list, separated by commas, of ordinals (`0`) and UUIDs (`GPU-0e12865a3bf5b7ab`, in any case), in this order;
//! * `local`, alone or in a list: the ordinal that is the process's rank on its machine, by a launcher's variables,
//!   modulo the number of GPUs.
//!
//! A device id is a bit mask of ordinals; 0 is the same as an empty path.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use amdgpu_code_object::{self as code_object, TargetId};
use hsa_abi::{HsaAmdSegment, HsaLinkType, HsaMemoryPoolAccess};

use crate::options::{Options, cut};
use amdgpu_collectives::bootstrap::{LOCAL_RANKS, local_rank};
use amdgpu_ffi::{Result, fallible, status};
use amdgpu_hsa::{Agent, HdpFlush, Library, MemoryPool};

/// Bits in a device id and in IREE's queue affinity (`iree_hal_queue_affinity_t`).
const MASK_BITS: usize = 64;

/// The path of the GPU that the launcher of a distributed program gives to a process.
const LOCAL: &str = "local";

/// Every agent that the runtime shows.
#[derive(Clone, Debug)]
pub struct Topology {
    library: Arc<Library>,
    cpus: Vec<Cpu>,
    gpus: Vec<Gpu>,
}

/// A CPU agent with the pools that the driver allocates from. All are accessible to every agent.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// The agent.
    pub agent: Agent,
    /// Coherent while kernels run.
    pub fine: MemoryPool,
    /// For kernel arguments; `fine` where there is no separate pool.
    pub kernarg: MemoryPool,
}

/// A GPU agent with the pools that the driver allocates from.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Place of the GPU among the visible ones.
    pub ordinal: usize,
    /// The agent.
    pub agent: Agent,
    /// Targets that it executes, best first, from the names of its ISAs.
    pub targets: Vec<TargetId>,
    /// Index of the CPU it is attached to, in the list of CPUs that goes with this GPU.
    pub cpu: usize,
    /// Device-local memory, coherent at kernel boundaries.
    pub coarse: MemoryPool,
    /// The host's access to `coarse`.
    pub host_access: HostAccess,
    /// Device-local memory, coherent while kernels run; not every GPU has it.
    pub fine: Option<MemoryPool>,
    /// Every CPU can be given access to `fine`.
    pub fine_is_host_visible: bool,
    /// Bytes of LDS of a workgroup; the most that can be requested if the runtime has no pool of LDS.
    pub lds_size: usize,
}

/// The host's access to a GPU's memory.
#[derive(Clone, Copy, Debug)]
pub enum HostAccess {
    /// None, or without a guarantee that the GPU sees the host's writes.
    None,
    /// Through the PCI aperture: writes reach the GPU with a flush and the acquire fence of a later submission.
    Flushed(HdpFlush),
    /// Over XGMI: writes reach the GPU with the acquire fence of a later submission.
    Direct,
}

impl HostAccess {
    /// True if the host has access.
    pub fn is_some(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// GPUs of one logical device, all of a kind, and the CPUs they are attached to.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The runtime.
    pub library: Arc<Library>,
    /// At least one GPU; [`Gpu::cpu`] indexes `cpus`.
    pub gpus: Vec<Gpu>,
    /// Each CPU that is nearest to one of the GPUs, once.
    pub cpus: Vec<Cpu>,
}

/// A device in the driver's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Bit mask of ordinals; 0 for all visible GPUs.
    pub id: u64,
    /// A device path that selects it.
    pub path: String,
    /// The name for people.
    pub name: String,
}

impl Topology {
    /// Asks the runtime for its agents and their pools.
    ///
    /// # Errors
    /// The error of the runtime; NOT_FOUND if there is no CPU with fine-grained memory, or a GPU without memory.
    pub fn new(library: &Arc<Library>) -> Result<Self> {
        let agents = library.agents()?;
        let mut cpus = Vec::new();
        for agent in agents.iter().filter(|agent| agent.is_cpu()) {
            cpus.extend(Cpu::new(agent)?);
        }
        if cpus.is_empty() {
            let path = library.path().display();
            return Err(status!(
                NOT_FOUND,
                "the HSA runtime {path} has no CPU agent with fine-grained memory accessible to all"
            ));
        }
        let gpus: Vec<_> = agents.iter().filter(|agent| agent.is_gpu()).collect();
        if gpus.len() > MASK_BITS {
            let count = gpus.len();
            return Err(status!(
                OUT_OF_RANGE,
                "{count} GPUs are visible, and at most {MASK_BITS} can be told apart; restrict them with \
                 ROCR_VISIBLE_DEVICES"
            ));
        }
        let gpus = gpus.iter().enumerate().map(|(ordinal, agent)| Gpu::new(ordinal, agent, &cpus));
        let gpus = gpus.collect::<Result<_>>()?;
        Ok(Self { library: library.clone(), cpus, gpus })
    }

    /// The GPUs that a device path names (see the module's head).
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a malformed path; NOT_FOUND for a missing device, with a list of the devices; INCOMPATIBLE
    /// for GPUs that cannot be one logical device.
    pub fn select(&self, path: &str) -> Result<Selection> {
        let path = path.trim();
        if path.is_empty() || path == "*" {
            return self.select_default();
        }
        let mut ordinals = Vec::new();
        for part in path.split(',') {
            let ordinal = self.ordinal_of(part.trim())?;
            if !ordinals.contains(&ordinal) {
                ordinals.push(ordinal);
            }
        }
        self.selection(&ordinals)
    }

    /// The GPUs that a device id names.
    ///
    /// # Errors
    /// As for [`select`](Self::select).
    pub fn select_mask(&self, id: u64) -> Result<Selection> {
        if id == 0 {
            return self.select_default();
        }
        self.selection(&self.ordinals_of(id)?)
    }

    fn ordinals_of(&self, id: u64) -> Result<Vec<usize>> {
        let ordinals: Vec<_> = (0..MASK_BITS).filter(|bit| id >> bit & 1 != 0).collect();
        match ordinals.iter().find(|ordinal| **ordinal >= self.gpus.len()) {
            Some(absent) => {
                let visible = self.visible();
                Err(status!(NOT_FOUND, "device id {id:#x} names GPU {absent}, which is not there; {visible}"))
            }
            None => Ok(ordinals),
        }
    }

    /// Selects every GPU of the same kind as the first.
    fn select_default(&self) -> Result<Selection> {
        self.selection(&self.default_ordinals())
    }

    fn default_ordinals(&self) -> Vec<usize> {
        let same = |gpu: &&Gpu| self.gpus[0].difference(gpu).is_none();
        self.gpus.iter().filter(same).map(|gpu| gpu.ordinal).collect()
    }

    fn ordinal_of(&self, part: &str) -> Result<usize> {
        // No ordinal or UUID is as long as the rest.
        let (part, visible) = (cut(part), self.visible());
        if part.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("GPU-")) {
            let same = |gpu: &&Gpu| gpu.uuid().is_some_and(|uuid| uuid.eq_ignore_ascii_case(part));
            let found: Vec<_> = self.gpus.iter().filter(same).map(|gpu| gpu.ordinal).collect();
            return match found[..] {
                [ordinal] => Ok(ordinal),
                [] => Err(status!(NOT_FOUND, "no GPU has the UUID '{part}'; {visible}")),
                _ => Err(status!(INVALID_ARGUMENT, "several GPUs have the UUID '{part}', use ordinals; {visible}")),
            };
        }
        if part == LOCAL {
            let rank = local_rank().ok_or_else(|| {
                let names = LOCAL_RANKS.join(", ");
                status!(INVALID_ARGUMENT, "the device '{LOCAL}' needs one of the launchers' variables {names}")
            })?;
            return Ok(rank as usize % self.gpus.len());
        }
        // Only digits: `parse` would also take a sign.
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match part.parse::<usize>() {
            _ if !digits => Err(status!(
                INVALID_ARGUMENT,
                "'{part}' is not a device: expected '*', '{LOCAL}', or ordinals (0) and UUIDs (GPU-0e12865a3bf5b7ab) \
                 separated by commas; {visible}"
            )),
            Ok(ordinal) if ordinal < self.gpus.len() => Ok(ordinal),
            _ => Err(status!(NOT_FOUND, "no GPU has the ordinal {part}; {visible}")),
        }
    }

    fn selection(&self, ordinals: &[usize]) -> Result<Selection> {
        let mut gpus: Vec<_> = ordinals.iter().map(|ordinal| self.gpus[*ordinal].clone()).collect();
        let Some(first) = gpus.first() else { return Err(self.no_gpus()) };
        for other in &gpus {
            if let Some(difference) = first.difference(other) {
                let (a, b) = (first.line(), other.line());
                return Err(status!(
                    INCOMPATIBLE,
                    "GPUs of one logical device must be of one kind, but their {difference}:\n  {a}\n  {b}\nMake a device of \
                     each, as with --device=amdgpu_rs://{} --device=amdgpu_rs://{}",
                    first.ordinal,
                    other.ordinal
                ));
            }
        }
        let mut used: Vec<usize> = Vec::new();
        for gpu in &mut gpus {
            let place = used.iter().position(|cpu| *cpu == gpu.cpu);
            let index = place.unwrap_or(used.len());
            if place.is_none() {
                used.push(gpu.cpu);
            }
            gpu.cpu = index;
        }
        let cpus = used.iter().map(|cpu| self.cpus[*cpu].clone()).collect();
        Ok(Selection { library: self.library.clone(), gpus, cpus })
    }

    fn no_gpus(&self) -> amdgpu_ffi::Status {
        let path = self.library.path().display();
        status!(
            NOT_FOUND,
            "the HSA runtime {path} shows no GPU; is one installed, supported by it, and not hidden by \
             ROCR_VISIBLE_DEVICES?"
        )
    }

    /// The visible GPUs, for messages.
    fn visible(&self) -> String {
        if self.gpus.is_empty() {
            return "no GPU is visible".to_owned();
        }
        let lines = self.gpus.iter().map(|gpu| format!("\n  {}", gpu.line()));
        format!("visible GPUs:{}", lines.collect::<String>())
    }

    /// The devices that the driver lists: all visible GPUs as one device, then each. Empty if there are none.
    pub fn device_infos(&self) -> Vec<DeviceInfo> {
        if self.gpus.is_empty() {
            return Vec::new();
        }
        let ordinals = self.default_ordinals();
        let nodes: Vec<_> = ordinals.iter().map(|i| self.gpus[*i].agent.info().node.to_string()).collect();
        let count = match (ordinals.len(), self.gpus.len()) {
            (1, 1) => "1 visible GPU".to_owned(),
            (all, visible) if all == visible => format!("all {all} visible GPUs"),
            (some, visible) => format!("{some} of {visible} visible GPUs"),
        };
        let plural = if nodes.len() == 1 { "" } else { "s" };
        let name = format!("{count} (node{plural} {})", nodes.join(", "));
        let all = DeviceInfo { id: 0, path: String::new(), name };
        let each = self.gpus.iter().map(|gpu| DeviceInfo {
            id: 1 << gpu.ordinal,
            path: self.path_of(gpu),
            name: format!("{} (node {})", gpu.agent.info().product, gpu.agent.info().node),
        });
        std::iter::once(all).chain(each).collect()
    }

    /// The path of a GPU: its UUID if that is unique, otherwise the ordinal.
    fn path_of(&self, gpu: &Gpu) -> String {
        let same = |other: &&Gpu| other.uuid() == gpu.uuid();
        match gpu.uuid() {
            Some(uuid) if self.gpus.iter().filter(same).count() == 1 => uuid.to_owned(),
            _ => gpu.ordinal.to_string(),
        }
    }

    /// Describes the GPUs that `id` names (all if 0), on several lines, each ended by a newline.
    ///
    /// # Errors
    /// NOT_FOUND for missing GPUs; the error of the runtime.
    pub fn dump(&self, id: u64) -> Result<String> {
        let ordinals = if id == 0 { (0..self.gpus.len()).collect() } else { self.ordinals_of(id)? };
        let mut text = String::new();
        let system = self.library.system();
        let (major, minor) = system.version;
        // Writing to a string does not fail.
        let _ = writeln!(text, "HSA {major}.{minor} runtime {}", self.library.path().display());
        let extension = system.amd_extension.map(|(major, minor)| format!("{major}.{minor}"));
        let unknown = || "unknown".to_owned();
        let _ = writeln!(text, "  build:                  {}", system.build.clone().unwrap_or_else(unknown));
        let _ = writeln!(text, "  AMD's extension:        {}", extension.unwrap_or_else(unknown));
        let _ = writeln!(text, "  memory faults reported: {}", yes(self.library.reports_faults()));
        let _ = writeln!(text, "  shared virtual memory:  {}", yes(system.svm_supported));
        let _ = writeln!(text, "  page faults retried:    {}", yes(system.xnack_enabled));
        for ordinal in ordinals {
            self.dump_gpu(&self.gpus[ordinal], &mut text)?;
        }
        Ok(text)
    }

    fn dump_gpu(&self, gpu: &Gpu, text: &mut String) -> Result<()> {
        let info = gpu.agent.info();
        let isas: Vec<_> = info.isas.iter().map(|isa| isa.name.as_str()).collect();
        let cpu = self.cpus[gpu.cpu].agent.info();
        // Writing to a string does not fail.
        let _ = writeln!(text, "\nGPU {}: {} ({})", gpu.ordinal, info.product, info.name);
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "  {what:<16}{value}");
        };
        line("path:", self.path_of(gpu));
        line("uuid:", info.uuid.clone().unwrap_or_else(|| "none".to_owned()));
        line("pci:", format!("{}, chip {:#06x}", info.pci, info.chip_id));
        line("node:", format!("{}, nearest CPU {} ({})", info.node, cpu.node, cpu.product));
        line("isas:", isas.join(", "));
        line(
            "compute units:",
            format!("{}, {} lanes a wavefront, {} MHz", info.compute_units, info.wavefront_size, info.clock_mhz),
        );
        let (least, most) = (info.queue_min_size, info.queue_max_size);
        line("queues:", format!("at most {}, of {least} to {most} packets", info.queues_max));
        line(
            "host access:",
            format!("coarse {}, fine {}", yes(gpu.host_access.is_some()), yes(gpu.fine_is_host_visible)),
        );
        if self.gpus.len() > 1 {
            line("peers:", self.peers_of(gpu)?);
        }
        for pool in gpu.agent.memory_pools()? {
            let pool = pool.info();
            let (size, granule) = (bytes(pool.size), bytes(pool.granule));
            line("memory pool:", format!("{}, {size}, granule {granule}", pool.describe()));
        }
        Ok(())
    }
}

impl Topology {
    /// The ordinals of the other GPUs that can be given access to the memory of `owner`.
    fn peers_of(&self, owner: &Gpu) -> Result<String> {
        let mut peers = Vec::new();
        for gpu in self.gpus.iter().filter(|gpu| gpu.ordinal != owner.ordinal) {
            if owner.is_accessible_to(&gpu.agent)? {
                peers.push(gpu.ordinal.to_string());
            }
        }
        Ok(if peers.is_empty() { "none".to_owned() } else { peers.join(", ") })
    }
}

impl Cpu {
    /// A CPU with its pools; none if it has no fine-grained memory that every agent can access.
    fn new(agent: &Agent) -> Result<Option<Self>> {
        let pools = agent.memory_pools()?;
        let usable = || pools.iter().filter(|pool| pool.info().is_allocatable() && pool.info().accessible_by_all);
        // Plain fine-grained memory is preferred to that for kernel arguments.
        let fine = usable().filter(|pool| pool.info().is_fine_grained());
        let Some(fine) = fine.min_by_key(|pool| pool.info().is_kernarg()).cloned() else { return Ok(None) };
        let kernarg = usable().find(|pool| pool.info().is_kernarg());
        Ok(Some(Self { agent: agent.clone(), kernarg: kernarg.unwrap_or(&fine).clone(), fine }))
    }
}

impl Gpu {
    fn new(ordinal: usize, agent: &Agent, cpus: &[Cpu]) -> Result<Self> {
        let pools = agent.memory_pools()?;
        let usable = || pools.iter().filter(|pool| pool.info().is_allocatable());
        let fine = usable().find(|pool| pool.info().is_fine_grained());
        let Some(coarse) = usable().find(|pool| pool.info().is_coarse_grained()).or(fine) else {
            let product = &agent.info().product;
            return Err(status!(
                NOT_FOUND,
                "GPU {ordinal} ({product}) has no memory pool to allocate from; hide it with ROCR_VISIBLE_DEVICES"
            ));
        };
        let host_visible = |pool: &MemoryPool| -> Result<bool> {
            for cpu in cpus {
                if cpu.agent.access_to(pool)?.access == HsaMemoryPoolAccess::NEVER_ALLOWED {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        Ok(Self {
            ordinal,
            agent: agent.clone(),
            // Names of a form that is not known cannot match any code object; `dump` still shows them.
            targets: agent.info().isas.iter().filter_map(|isa| isa.name.parse().ok()).collect(),
            cpu: nearest(agent, cpus),
            host_access: if host_visible(coarse)? { host_access(agent, coarse, cpus)? } else { HostAccess::None },
            fine_is_host_visible: fine.map(host_visible).transpose()?.unwrap_or(false),
            fine: fine.cloned(),
            coarse: coarse.clone(),
            lds_size: pools
                .iter()
                .find(|pool| pool.info().segment == HsaAmdSegment::GROUP)
                .map_or(usize::MAX, |pool| pool.info().size),
        })
    }

    /// The code object `elf` in a form that the GPU's runtime loads, which may not know generic targets.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if `elf` is not a code object; RESOURCE_EXHAUSTED.
    pub fn loadable<'a>(&self, elf: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        code_object::for_agent(elf, &self.targets).map_err(|error| match error {
            code_object::Error::NoMemory { bytes } => fallible::exhausted(bytes),
            error => status!(INVALID_ARGUMENT, "reading a code object: {error}"),
        })
    }

    /// The UUID; none if the hardware has none.
    pub fn uuid(&self) -> Option<&str> {
        self.agent.info().uuid.as_deref()
    }

    /// The UUID as bytes: the values of its digits in order, padded with zeros. None if there is none, or if it does
    /// not have the form of `GPU-` and 16 digits, which ROCR makes of the hardware's 64-bit unique id
    /// (`HSA_AMD_AGENT_INFO_UUID`).
    pub fn uuid_bytes(&self) -> Option<[u8; 16]> {
        let digits = self.uuid()?.strip_prefix("GPU-").filter(|digits| digits.len() == 16)?;
        let id = u64::from_str_radix(digits, 16).ok()?;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&id.to_be_bytes());
        Some(bytes)
    }

    /// Names of the ISAs that it executes, best first (`amdgcn-amd-amdhsa--gfx1100`).
    pub fn isas(&self) -> impl Iterator<Item = &str> {
        self.agent.info().isas.iter().map(|isa| isa.name.as_str())
    }

    /// True if `other` can be given access to this GPU's memory.
    ///
    /// # Errors
    /// The error of the runtime.
    pub fn is_accessible_to(&self, other: &Agent) -> Result<bool> {
        Ok(other.access_to(&self.coarse)?.access != HsaMemoryPoolAccess::NEVER_ALLOWED)
    }

    /// Returns true if this GPU has fine memory and `other` can be given access to it.
    ///
    /// # Errors
    /// The errors of the HSA runtime's query.
    pub fn fine_is_accessible_to(&self, other: &Agent) -> Result<bool> {
        let Some(fine) = &self.fine else { return Ok(false) };
        Ok(other.access_to(fine)?.access != HsaMemoryPoolAccess::NEVER_ALLOWED)
    }

    /// The difference in kind from `other`; none if they are of one kind.
    fn difference(&self, other: &Self) -> Option<String> {
        let (a, b) = (self.agent.info(), other.agent.info());
        let isa = |gpu: &Self| gpu.isas().next().unwrap_or("none").to_owned();
        let differ = |what: &str, a: &dyn ToString, b: &dyn ToString| {
            let (a, b) = (a.to_string(), b.to_string());
            (a != b).then(|| format!("{what} differ ({a} and {b})"))
        };
        differ("vendors", &a.vendor, &b.vendor)
            .or_else(|| differ("names", &a.name, &b.name))
            .or_else(|| differ("instruction sets", &isa(self), &isa(other)))
            .or_else(|| differ("chips", &format!("{:#06x}", a.chip_id), &format!("{:#06x}", b.chip_id)))
    }

    /// The line for lists of GPUs.
    fn line(&self) -> String {
        let info = self.agent.info();
        let uuid = self.uuid().unwrap_or("no UUID");
        format!("{}: {uuid} {} ({}, node {})", self.ordinal, info.product, info.name, info.node)
    }
}

impl Selection {
    /// Checks options against the limits of these GPUs.
    ///
    /// # Errors
    /// OUT_OF_RANGE with the option, its value and the limit; those of [`Options::verify`].
    pub fn verify(&self, options: &Options) -> Result<()> {
        options.verify()?;
        let (gpus, queues) = (self.gpus.len(), options.hardware_queues_per_gpu);
        if gpus * queues > MASK_BITS {
            return Err(status!(
                OUT_OF_RANGE,
                "option hardware_queues_per_gpu={queues} on {gpus} GPUs makes {} queues, and a logical device has at most \
                 {MASK_BITS}",
                gpus * queues
            ));
        }
        for gpu in &self.gpus {
            let (info, packets) = (gpu.agent.info(), options.aql_queue_capacity);
            let (least, most) = (info.queue_min_size, info.queue_max_size);
            if !(least..=most).contains(&packets) {
                let gpu = gpu.line();
                return Err(status!(
                    OUT_OF_RANGE,
                    "option aql_queue_capacity={packets} must be {least} to {most} packets on GPU {gpu}"
                ));
            }
        }
        Ok(())
    }
}

/// The host's access to `pool` of `agent`. The host can be given access to it.
///
/// GPUs before gfx908 and gfx101x get none, as in IREE's C driver
/// (`iree_hal_amdgpu_gfxip_allows_hdp_kernarg_publication`), which follows CLR: there the flush is not known to
/// suffice.
fn host_access(agent: &Agent, pool: &MemoryPool, cpus: &[Cpu]) -> Result<HostAccess> {
    let mut is_direct = true;
    for cpu in cpus {
        let links = cpu.agent.access_to(pool)?.links;
        is_direct &= !links.is_empty() && links.iter().all(|link| link.link_type == HsaLinkType::XGMI);
    }
    let info = agent.info();
    let name = info.name.as_str();
    let is_left_out = matches!(name, "gfx900" | "gfx902" | "gfx904" | "gfx906") || name.starts_with("gfx101");
    Ok(match info.hdp_mem_flush {
        _ if is_direct => HostAccess::Direct,
        Some(flush) if !is_left_out => HostAccess::Flushed(flush),
        _ => HostAccess::None,
    })
}

/// The CPU a GPU is attached to: as the runtime says, else the first.
fn nearest(agent: &Agent, cpus: &[Cpu]) -> usize {
    let wanted = agent.info().nearest_cpu;
    cpus.iter().position(|cpu| Some(cpu.agent.handle()) == wanted).unwrap_or(0)
}

fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// Formats a number of bytes for people.
fn bytes(count: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| count >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", count as f64 / *unit as f64),
        None => format!("{count} B"),
    }
}

#[cfg(test)]
#[path = "topology_test.rs"]
mod tests;
