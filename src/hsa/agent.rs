// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Agents: the CPUs and GPUs of the system (HSA Runtime 2.2).

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use hsa_abi::{
    HsaAgent, HsaAgentInfo, HsaDeviceType, HsaFloatRoundingMode, HsaIsa, HsaIsaInfo, HsaMemoryPool, HsaProfile,
};

use super::Library;
use super::error::{Result, optional};
use super::memory::{MemoryPool, PoolAccess};
use super::value::{Value, collect};

/// An agent and its properties, which do not change. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Agent {
    library: Arc<Library>,
    handle: HsaAgent,
    info: Arc<AgentInfo>,
}

/// Properties of an agent. Those that a runtime does not report are `None`, zero or empty, as documented for each.
#[derive(Clone, Debug)]
pub struct AgentInfo {
    /// CPU, GPU, or something else.
    pub device: HsaDeviceType,
    /// `gfx1100` and such on GPUs, the processor's name on CPUs.
    pub name: String,
    /// The vendor's name.
    pub vendor: String,
    /// The marketing name; as `name` if there is none.
    pub product: String,
    /// `GPU-` and 16 hexadecimal digits; `None` where the hardware has no unique id.
    pub uuid: Option<String>,
    /// NUMA node of the system.
    pub node: u32,
    /// Profile of HSA it supports.
    pub profile: HsaProfile,
    /// Rounding mode that executables are made with.
    pub float_rounding_mode: HsaFloatRoundingMode,
    /// Lanes of a wavefront; 0 on CPUs.
    pub wavefront_size: u32,
    /// Most work-items in a workgroup; 0 on CPUs.
    pub workgroup_max_size: u32,
    /// Most work-items in a workgroup in each dimension; zeros on CPUs.
    pub workgroup_max_dim: [u16; 3],
    /// Compute units, or cores.
    pub compute_units: u32,
    /// Accelerator dies (XCCs), each with a packet processor that runs its part of every queue; 1 if the runtime does
    /// not report it.
    pub dies: u32,
    /// PCI device id; 0 on CPUs.
    pub chip_id: u32,
    /// Location on the PCI bus; all 0 on CPUs.
    pub pci: PciAddress,
    /// The kernel driver's id of the agent (`KFDGpuID`); `None` on CPUs and old runtimes.
    pub driver_uid: Option<u32>,
    /// The CPU it is attached to; `None` on CPUs and old runtimes.
    pub nearest_cpu: Option<HsaAgent>,
    /// Register that flushes host writes to device memory; none if the host cannot use it.
    pub hdp_mem_flush: Option<HdpFlush>,
    /// Address of the register that flushes register writes; 0 where none is needed.
    pub hdp_reg_flush: usize,
    /// The host can access this agent's memory directly.
    pub svm_direct_host_access: bool,
    /// The most queues it can have; 0 if it takes none.
    pub queues_max: u32,
    /// Least packets of a queue.
    pub queue_min_size: u32,
    /// Most packets of a queue.
    pub queue_max_size: u32,
    /// Highest clock in MHz; 0 if unknown.
    pub clock_mhz: u32,
    /// The instruction sets that it executes, best first; empty on CPUs.
    pub isas: Vec<Isa>,
}

/// An instruction set that an agent executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isa {
    /// Name of the instruction set, `amdgcn-amd-amdhsa--gfx1100` and such.
    pub name: String,
}

/// A place on the PCI bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciAddress {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device.
    pub device: u8,
    /// Function.
    pub function: u8,
}

/// The register of a GPU's host data path (HDP) that flushes host writes to the GPU's memory (`HDP_MEM_FLUSH_CNTL`).
#[derive(Clone, Copy, Debug)]
pub struct HdpFlush(NonNull<u32>);

// SAFETY: the register is only written, always with the same value, and any thread may.
unsafe impl Send for HdpFlush {}
// SAFETY: several threads may write the register at once, as all write the same value.
unsafe impl Sync for HdpFlush {}

impl HdpFlush {
    /// The register at `address`, which stays mapped while the runtime is up. None for 0, and for host processors
    /// without a known way to drain their write-combining buffers.
    fn new(address: usize) -> Option<Self> {
        let register = NonNull::new(std::ptr::with_exposed_provenance_mut(address))?;
        cfg!(target_arch = "x86_64").then_some(Self(register))
    }

    /// The mapped address.
    pub fn address(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// Returns when this thread's writes to the GPU's memory are visible to all packets submitted afterwards. Writes of
    /// other threads are, too, if they happened before and were fenced.
    ///
    /// It takes a round trip to the GPU: a microsecond or two.
    #[inline]
    pub fn flush(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the instruction.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
        // SAFETY: the runtime's register; reading it back waits until the write has arrived.
        unsafe {
            self.0.write_volatile(1);
            self.0.read_volatile();
        }
    }
}

impl PciAddress {
    /// From a domain and the runtime's packing of the rest: bus in bits 8–15, device in 3–7, function in 0–2.
    fn new(domain: u32, bdfid: u32) -> Self {
        Self { domain, bus: (bdfid >> 8) as u8, device: (bdfid >> 3 & 0x1f) as u8, function: (bdfid & 7) as u8 }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

impl Agent {
    pub(super) fn new(library: &Arc<Library>, handle: HsaAgent) -> Result<Self> {
        let info = Arc::new(Query { library, handle }.info()?);
        Ok(Self { library: library.clone(), handle, info })
    }

    /// The runtime of the agent.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// The HSA handle.
    pub fn handle(&self) -> HsaAgent {
        self.handle
    }

    /// The properties.
    pub fn info(&self) -> &AgentInfo {
        &self.info
    }

    /// True for a GPU.
    pub fn is_gpu(&self) -> bool {
        self.info.device == HsaDeviceType::GPU
    }

    /// True for a CPU.
    pub fn is_cpu(&self) -> bool {
        self.info.device == HsaDeviceType::CPU
    }

    /// The memory pools, in the runtime's order.
    pub fn memory_pools(&self) -> Result<Vec<MemoryPool>> {
        let handles: Vec<HsaMemoryPool> = collect("hsa_amd_agent_iterate_memory_pools", |callback, data| {
            // SAFETY: `collect` gives a callback and data that go together, for the length of this call.
            unsafe { (self.library.symbols.hsa_amd_agent_iterate_memory_pools)(self.handle, Some(callback), data) }
        })?;
        handles.into_iter().map(|handle| MemoryPool::new(&self.library, handle)).collect()
    }

    /// Bytes of its own memory that no process has allocated; none if the runtime does not report it.
    ///
    /// # Errors
    /// The status of the query.
    pub fn available_memory(&self) -> Result<Option<u64>> {
        let query = Query { library: &self.library, handle: self.handle };
        Ok(query.optional(HsaAgentInfo::AMD_MEMORY_AVAIL)?.map(|value| value.u64()))
    }

    /// The agent's access to memory of `pool`.
    pub fn access_to(&self, pool: &MemoryPool) -> Result<PoolAccess> {
        PoolAccess::query(&self.library, self.handle, pool)
    }
}

/// Reads an agent's properties.
struct Query<'a> {
    library: &'a Library,
    handle: HsaAgent,
}

impl Query<'_> {
    fn info(&self) -> Result<AgentInfo> {
        type A = HsaAgentInfo;
        let name = self.value(A::NAME)?.text(64);
        let product = self.optional(A::AMD_PRODUCT_NAME)?.map(|value| value.text(64));
        let uuid = self.optional(A::AMD_UUID)?.map(|value| value.text(21));
        let device = HsaDeviceType(self.value(A::DEVICE)?.u32());
        let is_gpu = device == HsaDeviceType::GPU;
        let number = |attribute| Ok(self.optional(attribute)?.map_or(0, |value| value.u32()));
        let pci = match is_gpu {
            true => PciAddress::new(number(A::AMD_DOMAIN)?, number(A::AMD_BDFID)?),
            false => PciAddress::default(),
        };
        let on_gpu = |attribute| if is_gpu { self.optional(attribute) } else { Ok(None) };
        // `hsa_amd_hdp_flush_t`: the addresses of two registers.
        let hdp_flush = on_gpu(A::AMD_HDP_FLUSH)?;
        let register = |i| hdp_flush.as_ref().map_or(0, |value| value.usize_at(i));
        Ok(AgentInfo {
            device,
            vendor: self.value(A::VENDOR_NAME)?.text(64),
            product: product.filter(|text| !text.is_empty()).unwrap_or_else(|| name.clone()),
            name,
            uuid: uuid.filter(|text| is_gpu && is_unique(text)),
            node: self.value(A::NODE)?.u32(),
            profile: HsaProfile(self.value(A::PROFILE)?.u32()),
            float_rounding_mode: HsaFloatRoundingMode(self.value(A::DEFAULT_FLOAT_ROUNDING_MODE)?.u32()),
            wavefront_size: self.value(A::WAVEFRONT_SIZE)?.u32(),
            workgroup_max_size: self.value(A::WORKGROUP_MAX_SIZE)?.u32(),
            workgroup_max_dim: dimensions(self.value(A::WORKGROUP_MAX_DIM)?),
            compute_units: number(A::AMD_COMPUTE_UNIT_COUNT)?,
            dies: number(A::AMD_NUM_XCC)?.max(1),
            chip_id: number(A::AMD_CHIP_ID)?,
            pci,
            driver_uid: on_gpu(A::AMD_DRIVER_UID)?.map(|value| value.u32()),
            nearest_cpu: on_gpu(A::AMD_NEAREST_CPU)?.map(|value| value.agent()),
            hdp_mem_flush: HdpFlush::new(register(0)),
            hdp_reg_flush: register(1),
            svm_direct_host_access: on_gpu(A::AMD_SVM_DIRECT_HOST_ACCESS)?.is_some_and(|value| value.bool()),
            queues_max: self.value(A::QUEUES_MAX)?.u32(),
            queue_min_size: self.value(A::QUEUE_MIN_SIZE)?.u32(),
            queue_max_size: self.value(A::QUEUE_MAX_SIZE)?.u32(),
            clock_mhz: number(A::AMD_MAX_CLOCK_FREQUENCY)?,
            isas: if is_gpu { self.isas()? } else { Vec::new() },
        })
    }

    fn value(&self, attribute: HsaAgentInfo) -> Result<Value> {
        Value::read(
            "hsa_agent_get_info",
            || format!("{attribute:?}"),
            |value| {
                // SAFETY: `value` has room for the largest attribute.
                unsafe { (self.library.symbols.hsa_agent_get_info)(self.handle, attribute, value) }
            },
        )
    }

    /// As `value`, for attributes that older runtimes refuse as invalid arguments.
    fn optional(&self, attribute: HsaAgentInfo) -> Result<Option<Value>> {
        optional(self.value(attribute))
    }

    fn isas(&self) -> Result<Vec<Isa>> {
        let handles: Vec<HsaIsa> = collect("hsa_agent_iterate_isas", |callback, data| {
            // SAFETY: `collect` gives a callback and data that go together, for the length of this call.
            unsafe { (self.library.symbols.hsa_agent_iterate_isas)(self.handle, Some(callback), data) }
        })?;
        handles.into_iter().map(|isa| self.isa(isa)).collect()
    }

    fn isa(&self, isa: HsaIsa) -> Result<Isa> {
        let read = |attribute: HsaIsaInfo| {
            Value::read(
                "hsa_isa_get_info_alt",
                || format!("{attribute:?}"),
                |value| {
                    // SAFETY: `value` has room for every fixed-size attribute, and the name is read only if it fits.
                    unsafe { (self.library.symbols.hsa_isa_get_info_alt)(isa, attribute, value) }
                },
            )
        };
        let length = read(HsaIsaInfo::NAME_LENGTH)?.u32() as usize;
        let name = if length <= Value::SIZE { read(HsaIsaInfo::NAME)?.text(length) } else { String::new() };
        Ok(Isa { name })
    }
}

/// A value of three `u16`.
fn dimensions(value: Value) -> [u16; 3] {
    let bits = value.u64();
    [bits as u16, (bits >> 16) as u16, (bits >> 32) as u16]
}

/// True if a UUID identifies one GPU. ROCR gives `GPU-XX` to hardware without a unique id.
fn is_unique(uuid: &str) -> bool {
    let digits = uuid.strip_prefix("GPU-").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_read_as_lspci_writes_them() {
        assert_eq!(PciAddress::new(0, 0x0300).to_string(), "0000:03:00.0");
        assert_eq!(PciAddress::new(1, 0xc3 << 8 | 0x1f << 3 | 7).to_string(), "0001:c3:1f.7");
    }

    #[test]
    fn the_uuid_of_hardware_without_one_is_not_unique() {
        assert!(is_unique("GPU-0e12865a3bf5b7ab"));
        assert!(!is_unique("GPU-XX"));
        assert!(!is_unique("GPU-"));
        assert!(!is_unique(""));
    }
}
