// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The GPU, used through HSA's API as by any other program.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_void};
use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use amdgpu_code_object::{Kernel, PrintfFormat};
use hsa_abi::*;
use hsa_runtime64::hsa::*;
use hsa_runtime64::machine;
use hsa_runtime64::machine::exports::hsa_sim_findings;

use crate::hostcall::{self, HostCalls, PRINT_BUFFER};
use crate::kernargs::{Host, Shape};

/// Handle of the last launch's completion signal, by which the callbacks for errors wake the waiting thread.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Value of the completion signal after a failure of the kernel.
const FAILED: i64 = -1;

/// The first GPU agent of the HSA runtime. One thread at a time runs kernels.
pub struct Gpu {
    agent: HsaAgent,
    memory: HsaMemoryPool,
    kernargs: HsaMemoryPool,
    /// The queue and the completion signal of the launches, made by the first one; a fault ends both.
    lane: Cell<Option<(*mut HsaQueue, HsaSignal)>>,
}

// SAFETY: HSA's functions may be called from any thread, and the queue is used by one launch at a time.
unsafe impl Send for Gpu {}

/// Memory of the GPU, until it is [freed](Gpu::free) or the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Address of the memory.
    pub address: u64,
    /// Size in bytes.
    pub size: usize,
}

/// One run of a kernel.
pub struct Run<'a, F> {
    /// Handle of the kernel, of [`Gpu::load`].
    pub object: u64,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Bytes of scratch for each work-item.
    pub scratch: u32,
    /// Grid, block and dynamic LDS of the launch.
    pub shape: &'a Shape,
    /// Formats of OpenCL's `printf`.
    pub printf: &'a [PrintfFormat],
    /// Returns the kernel arguments, with these values of the hidden ones.
    pub kernargs: F,
}

fn check(what: &str, status: HsaStatus) -> Result<(), String> {
    if status == HsaStatus::SUCCESS {
        return Ok(());
    }
    let mut text = ptr::null();
    // SAFETY: the output is a valid place.
    let known = unsafe { hsa_status_string(status, &mut text) }.is_ok();
    // SAFETY: texts of statuses are C strings that stay.
    let text = if known { unsafe { CStr::from_ptr(text) }.to_string_lossy() } else { "an error".into() };
    Err(format!("{what}: {text}"))
}

/// Callback of HSA's iterations that collects handles into a `Vec<T>`.
unsafe extern "C" fn push<T>(item: T, data: *mut c_void) -> HsaStatus {
    // SAFETY: each iteration passes a vector of this type.
    unsafe { (*data.cast::<Vec<T>>()).push(item) };
    HsaStatus::SUCCESS
}

fn fail() {
    // SAFETY: the signal is never destroyed.
    unsafe { hsa_signal_store_screlease(HsaSignal { handle: DONE.load(Ordering::Acquire) }, FAILED) };
}

unsafe extern "C" fn on_queue_error(_: HsaStatus, _: *mut HsaQueue, _: *mut c_void) {
    fail();
}

unsafe extern "C" fn on_event(_: *const HsaAmdEvent, _: *mut c_void) -> HsaStatus {
    fail();
    HsaStatus::SUCCESS
}

/// Memory pools of the agent.
fn pools(agent: HsaAgent) -> Result<Vec<HsaMemoryPool>, String> {
    let mut pools: Vec<HsaMemoryPool> = Vec::new();
    let data = ptr::from_mut(&mut pools).cast();
    // SAFETY: the callback gets the vector it expects.
    let status = unsafe { hsa_amd_agent_iterate_memory_pools(agent, Some(push::<HsaMemoryPool>), data) };
    check("looking for memory", status)?;
    Ok(pools)
}

/// First global pool of the agent that has all of `flags`.
fn pool(agent: HsaAgent, flags: u32) -> Result<HsaMemoryPool, String> {
    let has = |pool: &HsaMemoryPool| {
        let (mut segment, mut of_pool) = (HsaAmdSegment::GLOBAL, 0_u32);
        // SAFETY: the outputs are of the attributes' types.
        let known = unsafe {
            let ask = |attribute, out| hsa_amd_memory_pool_get_info(*pool, attribute, out).is_ok();
            ask(HsaMemoryPoolInfo::SEGMENT, ptr::from_mut(&mut segment).cast())
                && segment == HsaAmdSegment::GLOBAL
                && ask(HsaMemoryPoolInfo::GLOBAL_FLAGS, ptr::from_mut(&mut of_pool).cast())
        };
        known && of_pool & flags == flags
    };
    pools(agent)?.into_iter().find(has).ok_or_else(|| format!("an agent has no memory pool with the flags {flags:#x}"))
}

impl Gpu {
    /// Initializes HSA. The environment selects the GPU.
    ///
    /// # Errors
    /// When the environment is wrong.
    pub fn new() -> Result<Self, String> {
        // SAFETY: no preconditions.
        check("hsa_init", unsafe { hsa_init() })?;
        // From this call on the program prints faults itself, and the runtime does not.
        last_fault();
        let mut agents: Vec<HsaAgent> = Vec::new();
        let data = ptr::from_mut(&mut agents).cast();
        // SAFETY: the callback gets the vector it expects.
        check("looking for GPUs", unsafe { hsa_iterate_agents(Some(push::<HsaAgent>), data) })?;
        let is_gpu = |agent: &HsaAgent| {
            let mut kind = HsaDeviceType::CPU;
            // SAFETY: the output is of the attribute's type.
            let status = unsafe { hsa_agent_get_info(*agent, HsaAgentInfo::DEVICE, ptr::from_mut(&mut kind).cast()) };
            status.is_ok() && kind == HsaDeviceType::GPU
        };
        let (gpus, cpus): (Vec<_>, Vec<_>) = agents.into_iter().partition(is_gpu);
        let (&[agent, ..], &[cpu, ..]) = (&gpus[..], &cpus[..]) else { return Err("there is no GPU".into()) };
        // SAFETY: the callback needs no data.
        let status = unsafe { hsa_amd_register_system_event_handler(Some(on_event), ptr::null_mut()) };
        check("asking for memory faults", status)?;
        let (memory, kernargs) = (pool(agent, HSA_GLOBAL_FLAG_COARSE_GRAINED)?, pool(cpu, HSA_GLOBAL_FLAG_KERNARG)?);
        Ok(Self { agent, memory, kernargs, lane: Cell::new(None) })
    }

    /// Allocates memory of the GPU, and fills it with the bytes that `bytes` returns; `None` leaves it uninitialized.
    ///
    /// # Errors
    /// When the allocation fails, or `bytes` does.
    pub fn buffer(
        &self,
        size: usize,
        bytes: impl FnOnce() -> Result<Option<Vec<u8>>, String>,
    ) -> Result<Buffer, String> {
        let mut address = ptr::null_mut();
        // SAFETY: the output is a valid place.
        let status = unsafe { hsa_amd_memory_pool_allocate(self.memory, size, 0, &mut address) };
        check(&format!("a buffer of {size} bytes"), status)?;
        if let Some(bytes) = bytes()? {
            // SAFETY: both have as many bytes.
            let status = unsafe { hsa_memory_copy(address, bytes.as_ptr().cast(), bytes.len().min(size)) };
            check("writing a buffer", status)?;
        }
        Ok(Buffer { address: address.expose_provenance() as u64, size })
    }

    /// Reads the buffer's current contents.
    ///
    /// # Errors
    /// When HSA fails.
    pub fn read(&self, buffer: &Buffer) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; buffer.size];
        let from = ptr::with_exposed_provenance(buffer.address as usize);
        // SAFETY: both have as many bytes.
        check("reading a buffer", unsafe { hsa_memory_copy(bytes.as_mut_ptr().cast(), from, buffer.size) })?;
        Ok(bytes)
    }

    /// Ends HSA, with all memory and loaded kernels.
    ///
    /// # Errors
    /// When HSA fails.
    pub fn shut_down(self) -> Result<(), String> {
        // SAFETY: no call of HSA is under way, because each of them borrows `self`.
        check("hsa_shut_down", unsafe { hsa_shut_down() })?;
        machine::queue::eviction::readmit();
        Ok(())
    }

    /// Writes the beginning of the buffer.
    ///
    /// # Errors
    /// When HSA fails.
    pub fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), String> {
        let to = ptr::with_exposed_provenance_mut(buffer.address as usize);
        let size = bytes.len().min(buffer.size);
        // SAFETY: both have as many bytes.
        check("writing a buffer", unsafe { hsa_memory_copy(to, bytes.as_ptr().cast(), size) })
    }

    /// Frees a buffer, which no kernel uses any more.
    ///
    /// # Errors
    /// When HSA fails.
    pub fn free(&self, buffer: Buffer) -> Result<(), String> {
        // SAFETY: `Buffer` is of an allocation. A copy of it may have been freed, which HSA refuses.
        check("freeing a buffer", unsafe {
            hsa_amd_memory_pool_free(ptr::with_exposed_provenance_mut(buffer.address as usize))
        })
    }

    /// Uninitialized bytes of the buffer, as ranges of offsets: those that neither the host nor a kernel has written,
    /// and those that a kernel has written with uninitialized data. Empty without the check `init`.
    pub fn unwritten(&self, buffer: &Buffer) -> Vec<Range<usize>> {
        let Ok(machine) = machine::lifecycle::machine() else { return Vec::new() };
        if !machine.config.checks.set.init {
            return Vec::new();
        }
        let ranges = machine.memory.unwritten.ranges(buffer.address..buffer.address + buffer.size as u64);
        let offset = |address: u64| (address - buffer.address) as usize;
        ranges.into_iter().map(|range| offset(range.start)..offset(range.end)).collect()
    }

    /// Maximum LDS of a workgroup in bytes.
    fn lds(&self) -> Result<usize, String> {
        let size = |pool: HsaMemoryPool| {
            let (mut segment, mut size) = (HsaAmdSegment::GLOBAL, 0_usize);
            // SAFETY: the outputs are of the attributes' types.
            let known = unsafe {
                let ask = |attribute, out| hsa_amd_memory_pool_get_info(pool, attribute, out).is_ok();
                ask(HsaMemoryPoolInfo::SEGMENT, ptr::from_mut(&mut segment).cast())
                    && ask(HsaMemoryPoolInfo::SIZE, ptr::from_mut(&mut size).cast())
            };
            (known && segment == HsaAmdSegment::GROUP).then_some(size)
        };
        pools(self.agent)?.into_iter().find_map(size).ok_or_else(|| "the GPU has no LDS".to_owned())
    }

    /// Tells the debugger, if there is one, that the program ends.
    pub fn end_debugger(&self) {
        if let Ok(machine) = machine::lifecycle::machine()
            && let Some(debugger) = &machine.debugger
        {
            debugger.end();
        }
    }

    /// Number of different findings.
    pub fn findings(&self) -> u64 {
        hsa_sim_findings()
    }

    /// Copies the kernel arguments to memory that the kernel can read.
    fn put_kernargs(&self, image: &[u8]) -> Result<u64, String> {
        let address = self.host_memory(image.len().max(1))?;
        // SAFETY: the memory is new, and has the image's size.
        unsafe {
            ptr::with_exposed_provenance_mut::<u8>(address as usize)
                .copy_from_nonoverlapping(image.as_ptr(), image.len());
        }
        Ok(address)
    }

    /// Loads the code object for the life of the process, and returns the handle of the kernel with this symbol.
    ///
    /// # Errors
    /// When HSA refuses it, or it has no such kernel.
    pub fn load(&self, code: &[u8], symbol: &str) -> Result<u64, String> {
        let name = CString::new(symbol).map_err(|_| "the kernel's name has a NUL".to_owned())?;
        let (mut executable, mut reader) = (HsaExecutable::NULL, HsaCodeObjectReader::NULL);
        let (mut found, mut object) = (HsaExecutableSymbol::NULL, 0_u64);
        // SAFETY: outputs are valid places; the code stays until the reader is gone.
        unsafe {
            let load = "loading the code object";
            check(load, hsa_code_object_reader_create_from_memory(code.as_ptr().cast(), code.len(), &mut reader))?;
            let (profile, rounding) = (HsaProfile::BASE, HsaFloatRoundingMode::NEAR);
            check(load, hsa_executable_create_alt(profile, rounding, ptr::null(), &mut executable))?;
            let loaded = ptr::null_mut();
            check(load, hsa_executable_load_agent_code_object(executable, self.agent, reader, ptr::null(), loaded))?;
            check(load, hsa_code_object_reader_destroy(reader))?;
            check(load, hsa_executable_freeze(executable, ptr::null()))?;
            let by_name = hsa_executable_get_symbol_by_name(executable, name.as_ptr(), &self.agent, &mut found);
            check(&format!("looking for {symbol}"), by_name)?;
            let attribute = HsaExecutableSymbolInfo::KERNEL_OBJECT;
            check(symbol, hsa_executable_symbol_get_info(found, attribute, ptr::from_mut(&mut object).cast()))?;
        }
        Ok(object)
    }

    /// Runs the kernel. Returns the text of its fault, if any.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn run<F: Fn(Host) -> Vec<u8>>(&self, run: &Run<'_, F>) -> Result<Option<String>, String> {
        let Run { kernel, shape, scratch, .. } = run;
        let lds = kernel.group_segment_size.saturating_add(shape.dynamic_lds);
        let most = self.lds()?;
        if lds as usize > most {
            let (name, own, dynamic) = (&kernel.name, kernel.group_segment_size, shape.dynamic_lds);
            return Err(format!(
                "{name} has {own} bytes of LDS, and --dynamic-lds {dynamic} more; a workgroup has at most {most}"
            ));
        }
        let (queue, done) = self.lane()?;
        let mut host = Host { queue: queue.expose_provenance() as u64, ..Host::default() };
        let calls = if hostcall::calls_host(kernel) {
            let items: u32 = shape.block.iter().product();
            let workgroups: u64 = shape.grid.iter().map(|count| u64::from(*count)).product();
            let packets = hostcall::packets(workgroups.saturating_mul(items.div_ceil(kernel.wavefront_size).into()));
            host.hostcall = self.host_memory(hostcall::size(packets))?;
            // SAFETY: the memory is new, of this size, and is freed below.
            Some(unsafe { HostCalls::new(host.hostcall, packets) }?)
        } else {
            None
        };
        if hostcall::prints(kernel) {
            host.printf = self.host_memory(PRINT_BUFFER)?;
            self.write(&print_buffer(host.printf), &[[0; 4], (PRINT_BUFFER as u32 - 8).to_le_bytes()].concat())?;
        }
        let image = (run.kernargs)(host);
        let arguments = self.put_kernargs(&image)?;
        let packet = KernelDispatchPacket {
            header: PacketHeader::new(
                HsaPacketType::KERNEL_DISPATCH,
                true,
                HsaFenceScope::SYSTEM,
                HsaFenceScope::SYSTEM,
            ),
            setup: 3,
            workgroup_size: shape.block.map(|size| size as u16),
            reserved0: 0,
            grid_size: [0, 1, 2].map(|i| shape.grid[i] * shape.block[i]),
            private_segment_size: *scratch,
            group_segment_size: lds,
            kernel_object: run.object,
            kernarg_address: arguments,
            reserved2: 0,
            completion_signal: done,
        };
        let value = thread::scope(|scope| {
            if let Some(calls) = &calls {
                scope.spawn(|| calls.serve());
            }
            submit(queue, &packet);
            let (condition, state) = (HsaSignalCondition::LT, HsaWaitState::BLOCKED);
            // SAFETY: the signal is live.
            let value = unsafe { hsa_signal_wait_scacquire(done, condition, 1, u64::MAX, state) };
            if let Some(calls) = &calls {
                calls.end();
            }
            value
        });
        if host.printf != 0 {
            let bytes = self.read(&print_buffer(host.printf))?;
            // A closed standard output does not matter.
            let _ = io::stdout().write_all(&hostcall::print_buffer(&bytes, run.printf));
        }
        if value != 0 {
            // The queue has failed, and a callback may still come for the signal: the next launch has others. Waves may
            // still be there, too, so that their memory stays.
            self.lane.set(None);
            mem::forget(calls);
            return Ok(Some(last_fault()));
        }
        for address in [arguments, host.hostcall, host.printf].into_iter().filter(|address| *address != 0) {
            self.free(Buffer { address, size: 0 })?;
        }
        Ok(None)
    }

    /// Allocates memory of the host that the GPU may access.
    fn host_memory(&self, size: usize) -> Result<u64, String> {
        let mut memory = ptr::null_mut();
        // SAFETY: the output is a valid place, and there is one agent.
        let status = unsafe {
            let allocated = hsa_amd_memory_pool_allocate(self.kernargs, size, 0, &mut memory);
            if allocated.is_ok() { hsa_amd_agents_allow_access(1, &self.agent, ptr::null(), memory) } else { allocated }
        };
        check("memory of the host", status)?;
        Ok(memory.expose_provenance() as u64)
    }

    /// The queue and the completion signal, which is 1.
    fn lane(&self) -> Result<(*mut HsaQueue, HsaSignal), String> {
        if let Some((queue, done)) = self.lane.get() {
            // SAFETY: the signal is live.
            unsafe { hsa_signal_store_relaxed(done, 1) };
            return Ok((queue, done));
        }
        let mut queue = ptr::null_mut();
        // SAFETY: the callback needs no data, and the output is a valid place.
        let status = unsafe {
            let (kind, data) = (HsaQueueType::MULTI, ptr::null_mut());
            hsa_queue_create(self.agent, 64, kind, Some(on_queue_error), data, u32::MAX, u32::MAX, &mut queue)
        };
        check("making a queue", status)?;
        let mut done = HsaSignal::NULL;
        // SAFETY: no consumers, and the output is a valid place.
        check("making a signal", unsafe { hsa_amd_signal_create(1, 0, ptr::null(), 0, &mut done) })?;
        DONE.store(done.handle, Ordering::Release);
        self.lane.set(Some((queue, done)));
        Ok((queue, done))
    }
}

/// OpenCL's print buffer at an address.
fn print_buffer(address: u64) -> Buffer {
    Buffer { address, size: PRINT_BUFFER }
}

/// Writes the next packet of the queue, in which no other is under way, and rings its doorbell.
fn submit(queue: *mut HsaQueue, packet: &KernelDispatchPacket) {
    let words: *const u32 = ptr::from_ref(packet).cast();
    // SAFETY: the queue is live and its packets have been processed, so that the place is free; the
    // packet processor reads its first word, which is therefore written last. The doorbell is HSA's to ring.
    unsafe {
        let index = hsa_queue_add_write_index_relaxed(queue, 1);
        let place = (index % u64::from((*queue).size)) as usize * AQL_PACKET_SIZE;
        let slot: *mut u32 = (*queue).base_address.cast::<u8>().add(place).cast();
        slot.add(1).copy_from_nonoverlapping(words.add(1), AQL_PACKET_SIZE / 4 - 1);
        AtomicU32::from_ptr(slot).store(*words, Ordering::Release);
        hsa_signal_store_screlease((*queue).doorbell_signal, index as i64);
    }
}

/// Text of the fault that stopped the kernel.
fn last_fault() -> String {
    let mut buffer = vec![0_u8; 4096];
    // SAFETY: the buffer has the length that is passed.
    let length = unsafe { hsa_sim_last_fault(ptr::null(), buffer.as_mut_ptr().cast(), buffer.len()) };
    buffer.truncate(length.min(4095));
    String::from_utf8_lossy(&buffer).into_owned()
}
