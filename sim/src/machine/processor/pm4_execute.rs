// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Executes the PM4 commands that a PM4-IB packet calls, one after another. A kernel has ended when the next command
//! runs. With strict memory or a seed, kernels run concurrently with the commands behind them, up to a command that
//! waits for them. A buffer that ends without such a wait is refused: the packet could complete before its kernels.
//!
//! On a queue of several dies, each die's packet processor runs the commands and its part of each dispatch, and waits
//! for that part only. Kernels there also run concurrently with commands behind a wait.
//!
//! Shader registers keep their values until the end of the buffer, except for those that enable counters
//! (`performance.rs`) or traces (`thread_trace.rs`) of a queue's kernels. The kernel that the registers describe must
//! be one of a frozen executable, with the registers that its descriptor requires.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};

use hsa_abi::compute::{
    COMPUTE_NUM_THREAD_X, COMPUTE_PGM_HI, COMPUTE_PGM_LO, COMPUTE_PGM_RSRC1, COMPUTE_PGM_RSRC2, COMPUTE_RESTART_X,
    COMPUTE_SHADER_EN, COMPUTE_START_X, COMPUTE_USER_DATA_0, CS_W32_EN, FORCE_START_AT_000, ORDER_MODE,
    USE_THREAD_DIMENSIONS,
};
use hsa_abi::performance::{COMPUTE_PERFCOUNT_ENABLE, GRBM_GFX_INDEX};
use hsa_abi::thread_trace::COMPUTE_THREAD_TRACE_ENABLE;
use hsa_abi::{
    HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT, HsaFenceScope, HsaPacketType, HsaSignal, HsaStatus, KernelCodeProperties,
    KernelDispatchPacket, PacketHeader,
};
use sim_wave::{Access, Control};

use crate::machine::Machine;
use crate::machine::clock::device_ticks;
use crate::machine::code::kernel::Kernel;
use crate::machine::memory::hdp::{self, Accesses};
use crate::machine::processor::dispatch::{self, Commanded};
use crate::machine::processor::window::{START, WINDOW, pause};
use crate::machine::product::performance::Performance;
use crate::machine::product::random::Random;
use crate::machine::product::thread_trace::{Finished, ThreadTrace};
use crate::machine::queue::Queue;
use crate::machine::queue::packet::Failure;
use crate::machine::queue::pm4::{self, Command, IndirectBuffer, PlacedCommand, RegisterWait, Source, Wait};
use crate::machine::report::costs::Cost;
use crate::machine::report::counters::Counters;
use crate::machine::signal::{self, Condition, Waiting};

/// Upper half of the value of a user register that no command has set.
const NOBODYS: u32 = 0xdead_0000;

/// Mask of all dies.
const ALL_DIES: u32 = u32::MAX;

/// Field of `COMPUTE_PGM_RSRC2` with the LDS of a workgroup, in granules.
const LDS_SIZE_MASK: u32 = 0x1ff << 15;
const LDS_GRANULE: u32 = 512;

/// Bits of `COMPUTE_PGM_RSRC2` that the packet processor fills in (AMDGPUUsage): presence of a trap handler, and LDS.
const FILLED_IN: u32 = 1 << 6 | LDS_SIZE_MASK;

/// Runs the commands of packet `id` of the queue. It reads them before it calls `acquire`. The caller keeps memory from
/// being unmapped.
pub fn run(
    machine: &Machine,
    queue: &Queue,
    id: u64,
    buffer: IndirectBuffer,
    acquire: impl FnOnce(),
) -> Result<(), Failure> {
    let name = machine.agents[queue.agent.0].target().map_or("", |target| target.name);
    let gfx9 = name.starts_with("gfx9");
    let (registers, accesses) = (HashMap::new(), Accesses::new(&machine.host_writes));
    let mut executor = Executor {
        machine,
        queue,
        gfx9,
        has_rsrc3: !matches!(name, "gfx906" | "gfx908"),
        registers,
        accesses,
        dies: ALL_DIES,
        covered: 0,
        dispatches: 0,
        waits: 0,
        command: PlacedCommand { opcode: 0, dword: 0 },
        place: String::new(),
    };
    executor.place = format!("packet {id}: PM4 commands");
    let dwords = executor.load(buffer.address, buffer.dwords as usize)?;
    acquire();
    // Someone else's runtime has its memory from elsewhere.
    if machine.driver().is_none() && !machine.memory.reachable(buffer.address).is_some_and(|range| range.executable) {
        return Err(
            executor.malformed("the buffer is in memory that is not executable (HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG)")
        );
    }
    let present = machine.agents[queue.agent.0].gpu.as_ref().map_or(1, |gpu| (1 << gpu.xcc) - 1);
    let runs_together = machine.config.strict || machine.config.seed.is_some();
    let mut random = machine.config.seed.map(|seed| Random::new(seed ^ queue.id << 32 ^ id));
    let mut is_waited_for = true;
    thread::scope(|scope| {
        let mut running = Running(VecDeque::new());
        let mut at = 0;
        while at < dwords.len() {
            let address = buffer.address + at as u64 * 4;
            executor.command = PlacedCommand { opcode: dwords[at] >> 8 & 0xff, dword: at };
            let opcode = pm4::name(executor.command.opcode);
            executor.place = format!("packet {id}: PM4 command at {address:#x} (dword {at}, {opcode})");
            let (command, length) = pm4::decode(&dwords[at..], gfx9).map_err(|what| executor.malformed(&what))?;
            if let Some(trace) = &machine.config.trace {
                trace.command(id, at, || pm4::describe(&command, &dwords[at..at + length], gfx9));
            }
            if executor.covered == 0 {
                executor.dies = ALL_DIES;
            }
            executor.covered = executor.covered.saturating_sub(length);
            machine.costs.add(Cost::Pm4Commands, 1);
            at += length;
            if executor.dies & present == 0 {
                continue;
            }
            if matches!(command, Command::Flush | Command::Release(..)) {
                is_waited_for = true;
                executor.waits += 1;
                if present == 1 {
                    running.end()?;
                }
            }
            let Some((packet, commanded)) = executor.execute(command)? else { continue };
            is_waited_for = false;
            let dispatch = move || {
                dispatch::dispatch(machine, queue, id, &packet, Some(commanded))?;
                Counters::add(&machine.counters.dispatches, 1);
                Ok(())
            };
            if !runs_together {
                dispatch()?;
                continue;
            }
            if running.0.len() as u64 >= WINDOW {
                running.end_first()?;
            }
            let held_back = random.as_mut().map(|random| pause(random, START));
            running.0.push_back(scope.spawn(move || {
                held_back.into_iter().for_each(thread::sleep);
                dispatch()
            }));
        }
        running.end()
    })?;
    if is_waited_for {
        return Ok(());
    }
    Err(executor.malformed("the commands end, and none waits for the dispatches before it (CS_PARTIAL_FLUSH)"))
}

/// Kernels that run concurrently with the commands behind them.
struct Running<'scope>(VecDeque<ScopedJoinHandle<'scope, Result<(), Failure>>>);

impl Running<'_> {
    /// Waits for the kernel that began first.
    fn end_first(&mut self) -> Result<(), Failure> {
        let internal = |_| Failure::new(HsaStatus::ERROR, "internal error of the simulator (see the panic above)");
        self.0.pop_front().map_or(Ok(()), |first| first.join().map_err(internal)?)
    }

    /// Waits for all kernels.
    fn end(&mut self) -> Result<(), Failure> {
        while !self.0.is_empty() {
            self.end_first()?;
        }
        Ok(())
    }
}

struct Executor<'a> {
    machine: &'a Machine,
    queue: &'a Queue,
    gfx9: bool,
    /// True if the GPU has `COMPUTE_PGM_RSRC3`. gfx9 before gfx90a does not.
    has_rsrc3: bool,
    registers: HashMap<u32, u32>,
    accesses: Accesses<'a>,
    /// Mask of the dies that execute commands, and the number of further dwords that it applies to.
    dies: u32,
    covered: usize,
    /// Number of kernels that commands have started.
    dispatches: u64,
    /// Number of commands that have waited for all kernels before them.
    waits: u32,
    /// Current command, for messages.
    place: String,
    command: PlacedCommand,
}

/// The dword at an address that `Executor::accessible` or a cache returned.
fn word<'a>(address: u64) -> &'a AtomicU32 {
    let pointer = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the dword lies in memory of the machine's map, is aligned, and stays mapped while the packet
    // is executed, or in a cache whose lock is held; devices and the host share it, so that it is only accessed
    // atomically.
    unsafe { AtomicU32::from_ptr(pointer) }
}

/// The 64-bit word at an address that `Executor::accessible` or a cache returned.
fn wide_word<'a>(address: u64) -> &'a AtomicU64 {
    let pointer = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the caller has found these 8 bytes as `word`'s 4 are found; aligned, and only accessed atomically.
    unsafe { AtomicU64::from_ptr(pointer) }
}

impl Executor<'_> {
    /// Executes a command. Returns the kernel that it starts, for the caller to run.
    fn execute(&mut self, command: Command) -> Result<Option<(KernelDispatchPacket, Commanded)>, Failure> {
        match command {
            Command::Dispatch(groups, initiator) => self.dispatch(groups, initiator).map(Some),
            Command::DispatchIndirect(address, initiator) => {
                let groups = self.load(address, 3)?;
                self.dispatch([groups[0], groups[1], groups[2]], initiator).map(Some)
            }
            command => self.execute_at_once(command).map(|()| None),
        }
    }

    fn execute_at_once(&mut self, command: Command) -> Result<(), Failure> {
        match command {
            Command::Nothing | Command::Dispatch(..) | Command::DispatchIndirect(..) => Ok(()),
            Command::Flush => {
                self.control(Control { write_back: true, ..Control::default() });
                Ok(())
            }
            Command::Write(address, data) => {
                let size = data.len() as u64 * 4;
                self.access(address, size, Access::Write, |start| {
                    for (target, value) in (start..).step_by(4).zip(data) {
                        word(target).store(value, Ordering::Release);
                        self.stored(target);
                    }
                })
            }
            Command::Copy(source, target, wide) => self.copy(source, target, wide),
            Command::Wait(wait) => self.wait(&wait),
            Command::WaitRegister(wait) => self.wait_register(&wait),
            Command::Caches(control) => {
                self.control(control);
                Ok(())
            }
            Command::Release(control, copy) => {
                self.control(control);
                copy.map_or(Ok(()), |(source, target, wide)| self.copy(source, target, wide))
            }
            Command::Registers(first, values) => {
                for (register, value) in (first..).zip(values) {
                    if register == COMPUTE_PERFCOUNT_ENABLE {
                        self.performance().queues.enable(self.queue.id, value & 1 != 0);
                    }
                    if register == COMPUTE_THREAD_TRACE_ENABLE {
                        self.thread_trace().queues.enable(self.queue.id, value & 1 != 0);
                    }
                    self.registers.insert(register, value);
                }
                Ok(())
            }
            Command::Configure(first, values) => {
                (first..).zip(values).try_for_each(|(register, value)| self.configure(register, value))
            }
            Command::Predicate(dies, covered) => {
                (self.dies, self.covered) = (dies, covered);
                Ok(())
            }
        }
    }

    fn configure(&self, register: u32, value: u32) -> Result<(), Failure> {
        let malformed = |what: String| self.malformed(&format!("SET_UCONFIG_REG: {what}"));
        let traces = self.thread_trace();
        if !traces.has(register) {
            self.performance().write(self.dies, register, value).map_err(malformed)?;
        }
        if traces.has(register) || register == GRBM_GFX_INDEX {
            for Finished { address, bytes } in traces.write(self.dies, register, value).map_err(malformed)? {
                self.access(address, bytes.len() as u64, Access::Write, |start| {
                    for (target, bytes) in (start..).step_by(4).zip(bytes.as_chunks().0) {
                        word(target).store(u32::from_le_bytes(*bytes), Ordering::Release);
                    }
                })?;
            }
        }
        Ok(())
    }

    fn read(&self, register: u32) -> Result<u32, String> {
        match self.thread_trace().has(register) {
            true => self.thread_trace().read(self.dies, register),
            false => self.performance().read(self.dies, register),
        }
    }

    fn thread_trace(&self) -> &ThreadTrace {
        &self.machine.agents[self.queue.agent.0].thread_trace
    }

    fn performance(&self) -> &Performance {
        &self.machine.agents[self.queue.agent.0].performance
    }

    fn control(&self, control: Control) {
        let agent = &self.machine.agents[self.queue.agent.0];
        if control.invalidate_scalar {
            agent.scalar_cache.lock().invalidate();
        }
        if let Some(caches) = &agent.caches {
            caches.control(self.machine.backing(), control);
        }
    }

    fn copy(&self, source: Source, target: u64, wide: bool) -> Result<(), Failure> {
        let size = if wide { 8 } else { 4 };
        let mut value = 0;
        match source {
            Source::Immediate(immediate) => value = immediate,
            Source::Clock => value = device_ticks(super::time(self.machine, self.queue)),
            Source::Register(register) => {
                value = self.read(register).map_err(|what| self.malformed(&format!("COPY_DATA: {what}")))?.into();
            }
            Source::Memory(address) => self.access(address, size, Access::Read, |from| {
                value = match wide {
                    true => wide_word(from).load(Ordering::Acquire),
                    false => u64::from(word(from).load(Ordering::Acquire)),
                }
            })?,
        }
        self.access(target, size, Access::Write, |target| {
            match wide {
                true => wide_word(target).store(value, Ordering::Release),
                false => word(target).store(value as u32, Ordering::Release),
            }
            self.stored(target);
        })
    }

    /// Wakes threads that poll the stored word, if it is a signal's value.
    fn stored(&self, address: u64) {
        self.machine.signals.stored(signal::word_signal(address & !7));
    }

    fn wait_register(
        &self,
        &RegisterWait { register, compare, reference, mask }: &RegisterWait,
    ) -> Result<(), Failure> {
        let value = self.read(register).map_err(|what| self.malformed(&format!("WAIT_REG_MEM: {what}")))?;
        if compare(u64::from(value) & mask, reference) {
            return Ok(());
        }
        Err(self.malformed(&format!("a wait for register {register:#x}, which is {value:#x} and stays so")))
    }

    fn wait(&self, &Wait { address, compare, reference, mask, wide }: &Wait) -> Result<(), Failure> {
        let host = self.polled(address, if wide { 8 } else { 4 })?;
        let met = || match wide {
            true => compare(wide_word(host).load(Ordering::Acquire) & mask, reference),
            false => compare(u64::from(word(host).load(Ordering::Acquire)) & mask, reference),
        };
        // A store to the word's 64 bits wakes this thread, which checks its condition here.
        while !met() {
            let (around, seen) = match self.polled(address & !7, 8) {
                Ok(around) => (around, wide_word(around).load(Ordering::Acquire)),
                Err(_) => return Err(self.malformed("WAIT_REG_MEM for half a word at the edge of memory")),
            };
            if met() {
                break;
            }
            let changed = [Condition::word(around, |value, seen| value != seen, seen, u64::MAX)];
            let signals = &self.machine.signals;
            if signals
                .wait_any(Waiting::Polling, &changed, None, || self.machine.watch(), || !self.queue.active())
                .is_none()
            {
                return Err(Failure::new(HsaStatus::ERROR, "cancelled: the queue is destroyed or inactivated"));
            }
        }
        Ok(())
    }

    /// Returns a packet for the kernel that the registers describe.
    fn dispatch(&mut self, groups: [u32; 3], initiator: u32) -> Result<(KernelDispatchPacket, Commanded), Failure> {
        let known = COMPUTE_SHADER_EN | FORCE_START_AT_000 | USE_THREAD_DIMENSIONS | ORDER_MODE | CS_W32_EN;
        if initiator & COMPUTE_SHADER_EN == 0 || initiator & !known != 0 {
            return Err(self.malformed(&format!("dispatch initiator {initiator:#x} is not supported")));
        }
        let starts = (0..3).map(|i| self.registers.get(&(COMPUTE_START_X + i)).copied().unwrap_or(0));
        if initiator & FORCE_START_AT_000 == 0 && starts.into_iter().any(|start| start != 0) {
            return Err(self.malformed("a dispatch that starts at another workgroup than the first is not supported"));
        }
        if (0..3).any(|i| self.registers.get(&(COMPUTE_RESTART_X + i)).is_some_and(|restart| *restart != 0)) {
            return Err(self.malformed("a dispatch that goes on in the middle (COMPUTE_RESTART_X) is not supported"));
        }
        let entry =
            u64::from(self.register(COMPUTE_PGM_HI)? & 0xff) << 40 | u64::from(self.register(COMPUTE_PGM_LO)?) << 8;
        let kernel = self.machine.executables.kernel_at(self.queue.agent, entry).ok_or_else(|| {
            let text = format!("{}: no kernel of a frozen executable begins at {entry:#x}", self.place);
            Failure::new(HsaStatus::ERROR_INVALID_CODE_OBJECT, text)
        })?;
        self.check(&kernel, initiator)?;
        let mut workgroup_size = [0_u16; 3];
        for (i, size) in workgroup_size.iter_mut().enumerate() {
            let threads = self.register(COMPUTE_NUM_THREAD_X + i as u32)?;
            *size = u16::try_from(threads).map_err(|_| self.malformed("partial workgroups are not supported"))?;
        }
        let items: u64 = workgroup_size.iter().map(|&size| u64::from(size)).product();
        let most = sim_wave::MAX_WORKGROUP;
        if items == 0 || items > u64::from(most) {
            return Err(self.malformed(&format!("workgroup size {workgroup_size:?} is not 1 to {most} work-items")));
        }
        let mut grid_size = groups;
        if initiator & USE_THREAD_DIMENSIONS == 0 {
            for (grid, size) in grid_size.iter_mut().zip(workgroup_size) {
                *grid = grid
                    .checked_mul(u32::from(size))
                    .ok_or_else(|| self.malformed(&format!("grid of {groups:?} workgroups is too large")))?;
            }
        }
        let kernarg_address = self.kernarg_address(&kernel)?;
        let packet = KernelDispatchPacket {
            header: PacketHeader::new(HsaPacketType::KERNEL_DISPATCH, false, HsaFenceScope::NONE, HsaFenceScope::NONE),
            setup: 3,
            workgroup_size,
            reserved0: 0,
            grid_size,
            private_segment_size: 0,
            group_segment_size: ((self.register(COMPUTE_PGM_RSRC2)? & LDS_SIZE_MASK) >> 15) * LDS_GRANULE,
            kernel_object: kernel.descriptor_address,
            kernarg_address,
            reserved2: 0,
            completion_signal: HsaSignal::NULL,
        };
        let user_registers = std::array::from_fn(|i| {
            let register = self.registers.get(&(COMPUTE_USER_DATA_0 + i as u32)).copied();
            register.unwrap_or(NOBODYS + i as u32)
        });
        let (before, waits, command) = (self.dispatches, self.waits, self.command);
        let commanded = Commanded { before, waits, user_registers, command };
        self.dispatches += 1;
        Ok((packet, commanded))
    }

    /// Checks the registers against the kernel's descriptor, and that the kernel needs nothing that only an AQL packet
    /// has.
    fn check(&self, kernel: &Kernel, initiator: u32) -> Result<(), Failure> {
        let descriptor = &kernel.descriptor;
        let wrong = |what: &str| Err(self.malformed(&format!("dispatch of kernel {}: {what}", kernel.name)));
        if descriptor.compute_pgm_rsrc1.0 != self.register(COMPUTE_PGM_RSRC1)?
            || descriptor.compute_pgm_rsrc2.0 & !FILLED_IN != self.register(COMPUTE_PGM_RSRC2)? & !FILLED_IN
            || self.has_rsrc3 && descriptor.compute_pgm_rsrc3 != self.register(pm4::pgm_rsrc3(self.gfx9))?
        {
            return wrong("COMPUTE_PGM_RSRC1 to 3 are not those of its descriptor");
        }
        let properties = descriptor.kernel_code_properties;
        if (properties.enable_wavefront_size32() != 0) != (initiator & CS_W32_EN != 0) {
            return wrong("the dispatch initiator has another wave size than its descriptor");
        }
        let KernelCodeProperties(bits) = properties;
        // Without scratch the buffer for it is four user registers that no code reads.
        let supported = 1 | 1 << 3 | 1 << 10;
        if bits & !supported != 0 || descriptor.private_segment_fixed_size != 0 {
            return wrong(&format!("it wants scratch or more than its arguments (properties {bits:#06x})"));
        }
        Ok(())
    }

    /// Address of the arguments. User registers hold it behind the registers for a scratch buffer. A kernel with
    /// preloaded arguments begins with code that loads them.
    fn kernarg_address(&self, kernel: &Kernel) -> Result<u64, Failure> {
        let properties = kernel.descriptor.kernel_code_properties;
        if properties.enable_sgpr_kernarg_segment_ptr() == 0 {
            return Ok(0);
        }
        let first = COMPUTE_USER_DATA_0 + 4 * u32::from(properties.enable_sgpr_private_segment_buffer());
        Ok(u64::from(self.register(first + 1)?) << 32 | u64::from(self.register(first)?))
    }

    /// A register that a command of this buffer has set.
    fn register(&self, register: u32) -> Result<u32, Failure> {
        let value = self.registers.get(&register).copied();
        value.ok_or_else(|| self.malformed(&format!("a dispatch needs register {register:#x}, which was not set")))
    }

    fn malformed(&self, what: &str) -> Failure {
        Failure::new(HsaStatus::ERROR_INVALID_PACKET_FORMAT, format!("{}: {what}", self.place))
    }

    /// Reads dwords from `address` on.
    fn load(&self, address: u64, count: usize) -> Result<Vec<u32>, Failure> {
        let mut dwords = Vec::new();
        self.access(address, count as u64 * 4, Access::Read, |start| {
            dwords = (start..).step_by(4).take(count).map(|at| word(at).load(Ordering::Acquire)).collect();
        })?;
        Ok(dwords)
    }

    /// Accesses a range of dwords through the L2. Calls `act` with their address.
    fn access(&self, address: u64, size: u64, access: Access, act: impl FnOnce(u64)) -> Result<(), Failure> {
        let host = self.accessible(address, size, if access == Access::Read { "read" } else { "write" })?;
        if access != Access::Read {
            self.machine.memory.unwritten.written(address..address + size);
        }
        match &self.machine.agents[self.queue.agent.0].caches {
            Some(caches) => caches.through(self.machine.backing(), (address, host, size), access, act),
            None => act(host),
        }
        Ok(())
    }

    /// Host address of a range that is polled or only inspected.
    fn polled(&self, address: u64, size: u64) -> Result<u64, Failure> {
        let host = self.accessible(address, size, "read")?;
        if let Some(caches) = &self.machine.agents[self.queue.agent.0].caches {
            caches.pass(self.machine.backing(), address, size);
        }
        Ok(host)
    }

    /// Checks that the queue's agent may read or write all of a range of dwords. Returns its host address.
    fn accessible(&self, address: u64, size: u64, how: &str) -> Result<u64, Failure> {
        let agent = self.queue.agent;
        let range = self.machine.memory.reachable(address).filter(|range| {
            let denied = if how == "read" { range.write_only } else { range.read_only };
            let inside = range.base + range.size - address >= size;
            inside && address.is_multiple_of(4) && range.access.has(agent) && !denied.has(agent)
        });
        if let Some(range) = range {
            return match self.accesses.unflushed(&range, address..address + size) {
                None => Ok(address - range.base + range.host),
                Some(bytes) => {
                    let text = format!("{}: {how} at {address:#x}: {}", self.place, hdp::complaint(&bytes, &range));
                    Err(Failure::new(HsaStatus::ERROR, text))
                }
            };
        }
        let place = self.machine.memory.describe(address, agent);
        Err(Failure {
            status: HsaStatus::ERROR_MEMORY_FAULT,
            text: format!("{}: {how} of {size} bytes at {address:#x}: {place}", self.place),
            memory_fault: Some((address, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT)),
        })
    }
}
