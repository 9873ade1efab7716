// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Runs a kernel dispatch packet.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hsa_abi::{HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT, HSA_AMD_MEMORY_FAULT_READ_ONLY, HsaStatus, KernelDispatchPacket};
use sim_isa::Target;
use sim_wave::{Caches, Fault, FaultKind, Finding, Launch, Memory, Observers, Region, Sink, Watch};

use crate::machine::Machine;
use crate::machine::agent_id::AgentIndex;
use crate::machine::code::kernel::Kernel;
use crate::machine::memory::caches::Cached;
use crate::machine::memory::hdp::{self, Accesses};
use crate::machine::memory::map::MemoryMap;
use crate::machine::processor::scratch;
use crate::machine::product::occupancy;
use crate::machine::product::performance::Instructions;
use crate::machine::queue::Queue;
use crate::machine::queue::packet::Failure;
use crate::machine::queue::pm4::PlacedCommand;
use crate::machine::report::counters::Counters;
use crate::machine::report::debugger;
use crate::machine::report::findings::DispatchChecks;
use crate::machine::report::race::Place;

/// Properties of a dispatch by a PM4 command.
#[derive(Clone, Copy, Debug)]
pub struct Commanded {
    /// Number of dispatch commands before it in the buffer.
    pub before: u64,
    /// Number of waits for preceding kernels among the commands before it.
    pub waits: u32,
    /// Initial user SGPRs that the commands have set.
    pub user_registers: [u32; 16],
    /// Position of the command.
    pub command: PlacedCommand,
}

/// The memory map as one agent sees it.
struct AgentMemory<'a> {
    map: &'a MemoryMap,
    accesses: Accesses<'a>,
    agent: AgentIndex,
    caches: Option<Cached<'a>>,
}

impl Memory for AgentMemory<'_> {
    fn region(&self, address: u64) -> Option<Region> {
        let range = self.map.reachable(address).filter(|range| range.access.has(self.agent))?;
        let (readable, writable) = (!range.write_only.has(self.agent), !range.read_only.has(self.agent));
        let bytes = self.accesses.flushed(&range, address)?;
        let part = self.map.parts.around(address, range.base..range.base + range.size)?;
        let bytes = bytes.start.max(part.start)..bytes.end.min(part.end);
        let (base, size) = (bytes.start, bytes.end - bytes.start);
        Some(Region { base, size, host: range.host + (base - range.base), readable, writable })
    }

    fn generation(&self) -> &AtomicU64 {
        self.map.generation()
    }

    fn caches(&self) -> Option<&dyn Caches> {
        self.caches.as_ref().map(|caches| caches as _)
    }
}

/// Runs the kernel of packet `id` over its grid, or only checks the packet if kernels do not run. `commanded` is set
/// for a dispatch by a PM4 command, with an equivalent `packet`. The caller keeps memory mapped until the kernel ends.
pub fn dispatch(
    machine: &Machine,
    queue: &Queue,
    id: u64,
    packet: &KernelDispatchPacket,
    commanded: Option<Commanded>,
) -> Result<(), Failure> {
    let kernel = match machine.driver() {
        None => machine.executables.kernel(packet.kernel_object),
        Some(_) => machine.code.kernel(&machine.memory, queue.agent, packet.kernel_object),
    };
    let kernel = kernel.ok_or_else(|| {
        Failure::new(
            HsaStatus::ERROR_INVALID_CODE_OBJECT,
            format!("packet {id}: kernel object {:#x} is not a kernel of a frozen executable", packet.kernel_object),
        )
    })?;
    check(machine, queue, packet, &kernel)?;
    if !machine.config.execute || packet.grid_size.contains(&0) {
        return Ok(());
    }
    let agent = machine.agents[queue.agent.0].target().map_or("cpu", |target| target.name);
    let target = Target::from_processor(agent).ok_or_else(|| {
        let text = format!("dispatch of kernel {}: {agent} cannot be executed yet", kernel.name);
        Failure::new(HsaStatus::ERROR_INVALID_ISA, text)
    })?;
    let asks = packet.private_segment_size > 0;
    if asks {
        scratch::acquire(machine, queue, packet, kernel.lanes(target))?;
    }
    let caches = machine.agents[queue.agent.0].caches.as_ref();
    let memory = AgentMemory {
        map: &machine.memory,
        accesses: Accesses::new(&machine.host_writes),
        agent: queue.agent,
        caches: caches.map(|caches| Cached {
            caches,
            backing: machine.backing(),
            first_unit: id.wrapping_add(queue.id).wrapping_add(commanded.map_or(0, |commanded| commanded.before)),
            has_two_units: kernel.has_two_units(target),
        }),
    };
    let decoded = kernel.decode(target, commanded.is_some()).map_err(|fault| failure(&memory, &kernel, fault))?;
    let running = queue.watchdog.begin(&kernel);
    let order = &machine.race;
    let (waits, command) = commanded.map_or((0, None), |commanded| (commanded.waits, Some(commanded.command)));
    let number = machine
        .config
        .checks
        .set
        .race
        .then(|| order.begin(machine.queues.read().clone(), queue, Place { packet: id, waits }, &kernel, command));
    let arguments = packet.kernarg_address..packet.kernarg_address + u64::from(kernel.descriptor.kernarg_size);
    let (loaded, race) = (&*kernel, OnceLock::new());
    let debugged = machine.debugger.as_ref().map(|debugger| {
        let code = kernel.for_debugger.get_or_init(|| Arc::new(debugger::code(&kernel, decoded)));
        debugger.begin(Arc::clone(code))
    });
    let debug = debugged.as_ref();
    let findings = DispatchChecks {
        debug,
        findings: &machine.findings,
        memory: &machine.memory,
        signals: &machine.signals,
        races: &machine.race,
        queue,
        dispatch: id,
        command,
        number,
        kernel: decoded,
        loaded,
        arguments,
        race,
    };
    let profile = machine.profiles.begin();
    let source = |pc| loaded.source(pc);
    let trace = machine.config.trace.as_ref().and_then(|asked| {
        let of = format!("dispatch {id} of {}", queue.describe());
        asked.begin((&loaded.name, &source), packet, &of)
    });
    let performance = &machine.agents[queue.agent.0].performance;
    let instructions = performance.wants_instructions(queue.id).then(Instructions::default);
    let traces = &machine.agents[queue.agent.0].thread_trace;
    let follower = traces.follow(queue.id, packet);
    let watch = match &debugged {
        Some(_) if instructions.is_some() || follower.is_some() => {
            let text = "hardware counters and thread traces have no instructions beside HSA_SIM_DEBUG";
            return Err(Failure::new(HsaStatus::ERROR, text.to_owned()));
        }
        Some(debugged) => Some(Watch::Debug(debugged, findings.checks())),
        None => Observers {
            checks: findings.checks(),
            profile: profile.as_ref().map(|profile| profile as _),
            trace: trace.as_ref().and_then(|trace| trace.listener()),
            count: instructions.as_ref().map(|instructions| instructions as _),
            steps: follower.as_ref().map(|follower| follower as _),
        }
        .watch(),
    };
    let gpu = machine.agents[queue.agent.0].gpu.as_ref();
    let demand = occupancy::Demand {
        lanes: kernel.lanes(target),
        registers: decoded.vector_registers() as u32,
        has_two_units: kernel.has_two_units(target),
    };
    let launch = Launch {
        packet: *packet,
        packet_addr: queue.slot(id),
        queue_addr: queue.address(),
        dispatch_id: id,
        user_registers: commanded.map(|commanded| commanded.user_registers),
        threads: machine.config.threads,
        resident: gpu.map_or(1, |gpu| occupancy::resident(gpu, target, packet, demand)),
        gws: Some(&machine.agents[queue.agent.0].gws),
        cancel: Some(running.flag()),
        jit: machine.config.jit,
        watch,
    };
    let start = Instant::now();
    let counters =
        sim_wave::run(decoded, &launch, &memory).map_err(|fault| match (&fault.kind, machine.config.timeout) {
            (&FaultKind::Cancelled { begun, workgroups, .. }, Some(limit)) => {
                // With fewer, the GPU has room for more, and the host was slow to begin them.
                let is_full = begun >= launch.resident;
                if machine.config.checks.set.sync && is_full && begun < workgroups {
                    findings.found(&waiting(&kernel, decoded, &fault, begun, workgroups));
                }
                let source = kernel.source(fault.pc).map_or(String::new(), |source| format!("; {source}"));
                let text = format!("longer than HSA_SIM_TIMEOUT={} in one kernel: {fault}{source}", limit.as_secs());
                Failure::new(HsaStatus::ERROR_EXCEPTION, text)
            }
            _ => failure(&memory, &kernel, &fault),
        })?;
    drop(running);
    if let Some(number) = number {
        order.end(number);
    }
    if let (Some(text), true) = (findings.race.get(), machine.config.checks.fatal) {
        return Err(Failure::new(HsaStatus::ERROR_EXCEPTION, text.clone()));
    }
    let totals = &machine.counters;
    let time = start.elapsed();
    let nanoseconds = time.as_nanos() as u64;
    let counted = machine.config.counts_instructions.then_some(counters.wave_instructions);
    counted.into_iter().for_each(|instructions| queue.counted_time.add(instructions));
    performance.add(queue.id, packet, kernel.lanes(target), counted.unwrap_or(nanoseconds), instructions.as_ref());
    traces.add(queue.id, packet, (kernel.entry(), &kernel.descriptor), kernel.lanes(target), follower);
    Counters::add(&totals.execute_ns, nanoseconds);
    Counters::add(&totals.wave_instructions, counters.wave_instructions);
    Counters::add(&totals.global_accesses, counters.global_accesses);
    Counters::add(&totals.workgroups, counters.workgroups);
    Counters::add(&totals.waves, counters.waves);
    if let Some(trace) = trace {
        trace.end(&counters, time);
    }
    if let Some(profile) = profile {
        machine.profiles.add(profile, &kernel, decoded, agent, &counters, time);
    }
    if asks { scratch::release(machine, queue) } else { Ok(()) }
}

/// Finding about a kernel that hangs although some of its workgroups have not begun: the GPU runs only as many
/// workgroups at once as it holds, until they end.
fn waiting(kernel: &Kernel, decoded: &sim_wave::Kernel, fault: &Fault, begun: u64, workgroups: u64) -> Finding {
    let mut line = decoded.line((fault.pc - kernel.code.base) as u32);
    line.source = kernel.source(line.pc);
    Finding {
        check: "sync",
        what: format!(
            "no forward progress: the wave was stopped at the time limit; {} of {workgroups} workgroups have not begun, \
             because the GPU holds no more than the {begun} before them: a wait for a workgroup that has not begun is a \
             deadlock",
            workgroups - begun
        ),
        memory: None,
        kernel: kernel.name.clone(),
        code: decoded.code_hash(),
        pc: line.pc,
        line,
        around: [None, None],
        other: None,
        workgroup: fault.workgroup,
        wave: fault.wave,
        lanes: 0,
    }
}

/// Effect of a kernel's fault on its queue.
fn failure(memory: &AgentMemory<'_>, kernel: &Kernel, fault: &Fault) -> Failure {
    // A finding tells it itself.
    let source = kernel.source(fault.pc).filter(|_| !matches!(fault.kind, FaultKind::Found(_)));
    let told = source.map_or(fault.to_string(), |source| format!("{fault}; {source}"));
    let status = match &fault.kind {
        FaultKind::MemoryViolation { address, size, .. } => {
            let range = memory.map.reachable(*address);
            if let Some(range) = &range
                && let Some(unflushed) = memory.accesses.unflushed(range, *address..*address + u64::from(*size))
            {
                return Failure::new(HsaStatus::ERROR, format!("{told}; {}", hdp::complaint(&unflushed, range)));
            }
            let present = memory.region(*address).is_some();
            let reason = match present {
                true => HSA_AMD_MEMORY_FAULT_READ_ONLY,
                false => HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT,
            };
            let place = memory.map.describe(*address, memory.agent);
            return Failure {
                status: HsaStatus::ERROR_MEMORY_FAULT,
                text: format!("{told}; {place}"),
                memory_fault: Some((*address, reason)),
            };
        }
        FaultKind::LdsOutOfBounds { .. } | FaultKind::ScratchOutOfBounds { .. } => {
            HsaStatus::ERROR_MEMORY_APERTURE_VIOLATION
        }
        FaultKind::NotImplemented(_)
        | FaultKind::InvalidEncoding(_)
        | FaultKind::RegisterOutOfRange(_)
        | FaultKind::PcOutOfRange(_) => HsaStatus::ERROR_ILLEGAL_INSTRUCTION,
        _ => HsaStatus::ERROR_EXCEPTION,
    };
    Failure::new(status, told)
}

/// Checks the packet against the kernel's descriptor.
fn check(machine: &Machine, queue: &Queue, packet: &KernelDispatchPacket, kernel: &Kernel) -> Result<(), Failure> {
    let descriptor = &kernel.descriptor;
    let malformed = |what: String| {
        let text = format!("dispatch of kernel {}: {what}", kernel.name);
        Err(Failure::new(HsaStatus::ERROR_INVALID_PACKET_FORMAT, text))
    };
    if kernel.agent != queue.agent {
        return malformed(format!(
            "it is loaded for agent {}, the queue is of agent {}",
            kernel.agent.0, queue.agent.0
        ));
    }
    if packet.group_segment_size < descriptor.group_segment_fixed_size {
        return malformed(format!(
            "group segment of {} bytes is less than the {} it uses",
            packet.group_segment_size, descriptor.group_segment_fixed_size
        ));
    }
    if packet.private_segment_size < descriptor.private_segment_fixed_size {
        return malformed(format!(
            "private segment of {} bytes is less than the {} it uses",
            packet.private_segment_size, descriptor.private_segment_fixed_size
        ));
    }
    check_arguments(machine, queue, packet, kernel)
}

/// Checks that the agent can read the kernel's arguments, and that host writes to them are flushed.
fn check_arguments(
    machine: &Machine,
    queue: &Queue,
    packet: &KernelDispatchPacket,
    kernel: &Kernel,
) -> Result<(), Failure> {
    let size = u64::from(kernel.descriptor.kernarg_size);
    let address = packet.kernarg_address;
    if size == 0 {
        return Ok(());
    }
    let dispatch = format_args!("dispatch of kernel {}", kernel.name);
    if !address.is_multiple_of(16) {
        return Err(Failure::new(
            HsaStatus::ERROR_INVALID_PACKET_FORMAT,
            format!("{dispatch}: kernel arguments at {address:#x} are not 16-byte aligned"),
        ));
    }
    let range = machine
        .memory
        .reachable(address)
        .filter(|range| range.access.has(queue.agent) && range.base + range.size - address >= size);
    let Some(range) = range else {
        return Err(Failure {
            status: HsaStatus::ERROR_MEMORY_FAULT,
            text: format!(
                "{dispatch}: {size} bytes of kernel arguments at {address:#x} are not memory that \
                 agent {} may access; {}",
                queue.agent.0,
                machine.memory.describe(address, queue.agent)
            ),
            memory_fault: Some((address, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT)),
        });
    };
    if machine.agents[range.owner.0].gpu.as_ref().is_none_or(|gpu| gpu.memory.is_none()) {
        machine.costs.add_kernargs(address, size);
    }
    let read = |start: u64, size: u64| {
        let start: *const u8 = std::ptr::with_exposed_provenance((start - range.base + range.host) as usize);
        let mut bytes = [0; _];
        if start.addr().is_multiple_of(8) && size == bytes.len() as u64 {
            for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                // SAFETY: the bytes lie in the allocation just found, which stays mapped while the dispatch
                // runs; volatile because the host may write neighbouring ones at the same time; aligned as just seen.
                *word = unsafe { start.cast::<u64>().add(i).read_volatile() }.to_ne_bytes();
            }
        } else {
            for (i, byte) in bytes.iter_mut().take(size as usize).enumerate() {
                // SAFETY: as the words, of which a byte needs no alignment: bytes of the allocation, mapped, volatile.
                *byte = unsafe { start.add(i).read_volatile() };
            }
        }
        bytes
    };
    let stale = machine.agents[queue.agent.0].scalar_cache.lock().read(
        (address, size),
        (range.base, range.base + range.size),
        read,
    );
    match stale {
        None => Ok(()),
        Some(byte) => Err(Failure::new(
            HsaStatus::ERROR_INVALID_PACKET_FORMAT,
            format!(
                "{dispatch}: byte {} of the kernel arguments at {address:#x} was rewritten since the \
                 agent last read it, and no packet with an acquire fence came after: the agent may \
                 see the old value",
                byte - address
            ),
        )),
    }
}
