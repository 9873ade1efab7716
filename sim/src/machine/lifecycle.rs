// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Start and stop of machines, and the one that `hsa_init` starts.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};

use hsa_abi::HsaStatus;
use parking_lot::{Mutex, RwLock};
use sim_wave::Gws;

use crate::inject;
use crate::machine::agent::{self, Agent};
use crate::machine::agent_id::{AgentIndex, CPU};
use crate::machine::code::executable::Executables;
use crate::machine::code::foreign::Code;
use crate::machine::config::Config;
use crate::machine::config::checks::CheckConfig;
use crate::machine::config::debug::DebugConfig;
use crate::machine::events::{self, Events};
use crate::machine::handlers::Handlers;
use crate::machine::leaks::Leaks;
use crate::machine::memory::allocation::PAGE;
use crate::machine::memory::caches::AgentCaches;
use crate::machine::memory::hdp::{self, HostWrites};
use crate::machine::memory::ipc::SharedFiles;
use crate::machine::memory::map::MemoryMap;
use crate::machine::memory::vmem::Vmem;
use crate::machine::processor::doorbell_watcher;
use crate::machine::product::gpu::Bar;
use crate::machine::product::performance::Performance;
use crate::machine::product::rocr;
use crate::machine::product::thread_trace::ThreadTrace;
use crate::machine::report::costs::Costs;
use crate::machine::report::counters::Counters;
use crate::machine::report::findings::Findings;
use crate::machine::report::profile::Profiles;
use crate::machine::report::race::RaceDetector;
use crate::machine::signal::Signals;
use crate::machine::worker::Worker;
use crate::machine::{Driver, Machine};

struct Initialized {
    references: usize,
    /// The process that has the machine's threads. A child that it forks has a copy of its memory alone.
    process: u32,
    machine: Arc<Machine>,
}

static MACHINE: RwLock<Option<Initialized>> = RwLock::new(None);

/// The machine, if HSA is initialized.
pub fn machine() -> Result<Arc<Machine>, HsaStatus> {
    let initialized = MACHINE.read();
    let initialized = initialized.as_ref().ok_or(HsaStatus::ERROR_NOT_INITIALIZED)?;
    Ok(Arc::clone(&initialized.machine))
}

/// Takes a reference to the machine. The first one starts it.
pub fn init() -> Result<(), HsaStatus> {
    let mut initialized = MACHINE.write();
    if let Some(initialized) = &mut *initialized {
        initialized.references = initialized.references.checked_add(1).ok_or(HsaStatus::ERROR_REFCOUNT_OVERFLOW)?;
        return Ok(());
    }
    let config = Config::from_env().map_err(|message| {
        eprintln!("hsa-sim: hsa_init failed: {message}");
        HsaStatus::ERROR_INVALID_ARGUMENT
    })?;
    let machine = Machine::start(config, None).map_err(|error| {
        eprintln!("hsa-sim: hsa_init failed: {error}");
        HsaStatus::ERROR_OUT_OF_RESOURCES
    })?;
    let config = &machine.config;
    if config.leaks || config.checks != CheckConfig::default() || config.profile.is_some() {
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| {
            // SAFETY: the function has the type that is wanted and lives as long as this library. Should
            // there be no room for it, leaks and counts of a process that does not shut down go unreported.
            let _ = unsafe { libc::atexit(report_at_exit) };
        });
    }
    *initialized = Some(Initialized { references: 1, process: std::process::id(), machine });
    Ok(())
}

/// Reports leaks of a machine that was not shut down, and the findings in its kernels.
extern "C" fn report_at_exit() {
    // Another thread may be ending the machine, or end with the process while it does.
    let Some(initialized) = MACHINE.try_read() else { return };
    // A forked child has nothing to report, and locks in it may be those of threads that it lacks.
    if let Some(Initialized { references, process, machine }) = &*initialized
        && *process == std::process::id()
    {
        machine.findings.report();
        machine.profiles.write();
        if machine.config.leaks {
            eprintln!("hsa-sim: exit: {references} references on HSA left");
            Leaks::find(machine).report("exit");
        }
    }
}

/// Drops a reference to the machine. The last one stops it.
pub fn shut_down() -> Result<(), HsaStatus> {
    let machine = {
        let mut guard = MACHINE.write();
        let initialized = guard.as_mut().ok_or(HsaStatus::ERROR_NOT_INITIALIZED)?;
        initialized.references -= 1;
        if initialized.references > 0 {
            return Ok(());
        }
        guard.take().map(|initialized| initialized.machine)
    };
    if let Some(machine) = machine {
        machine.stop();
    }
    Ok(())
}

impl Machine {
    /// Starts a machine, which runs until it is stopped.
    ///
    /// # Errors
    /// When a thread cannot be started, or there is no memory for registers.
    pub fn start(config: Config, driver: Option<Arc<dyn Driver>>) -> io::Result<Arc<Self>> {
        let uuids: Vec<_> = config.gpus.iter().map(|gpu| gpu.target.uuid(gpu.device)).collect();
        // Someone else's runtime chooses by itself.
        let list = config.visible.as_deref().filter(|_| driver.is_none());
        let visible = rocr::visible(list, &uuids);
        let gpus = visible.into_iter().enumerate().map(|(i, ordinal)| {
            let gpu = &config.gpus[ordinal];
            let hdp = if gpu.bar == Bar::None { None } else { Some(hdp::Registers::new()?) };
            // MI300A's memory is all its own to give; the kernel driver lets other APUs have half of the host's.
            let memory = gpu.memory.unwrap_or_else(|| host_memory() / if gpu.target.in_hive() { 1 } else { 2 });
            let index = AgentIndex(i + 1);
            let global_pools = gpu.pools.clone();
            Ok(Agent {
                index,
                ordinal,
                gpu: Some(gpu.clone()),
                memory,
                global_pools,
                hdp,
                gws: Gws::default(),
                scalar_cache: Mutex::default(),
                performance: Performance::new(Some(gpu)),
                thread_trace: ThreadTrace::new(Some(gpu)),
                caches: config
                    .strict
                    .then(|| AgentCaches::new(gpu, config.seed.map(|seed| seed ^ (index.0 as u64) << 48))),
            })
        });
        let cpu = Agent {
            index: CPU,
            ordinal: 0,
            gpu: None,
            memory: host_memory(),
            global_pools: agent::cpu_pools(config.rocr),
            hdp: None,
            gws: Gws::default(),
            scalar_cache: Mutex::default(),
            performance: Performance::new(None),
            thread_trace: ThreadTrace::new(None),
            caches: None,
        };
        let events = Events::new(config.interrupts);
        let (ipc, race) = (Arc::<SharedFiles>::default(), Arc::<RaceDetector>::default());
        let machine = Arc::new(Self {
            agents: std::iter::once(Ok(cpu)).chain(gpus).collect::<io::Result<_>>()?,
            costs: Costs::new(config.stats.is_some()),
            findings: Findings::new(config.checks.clone(), config.seed)?,
            profiles: Profiles::new(config.profile.clone())?,
            debugger: config.debug.as_ref().map(DebugConfig::open).transpose()?,
            config,
            memory: MemoryMap::new(vec![ipc.clone(), race.clone()]),
            ipc,
            race,
            vmem: Vmem::default(),
            signals: Signals::default(),
            queues: RwLock::default(),
            host_writes: HostWrites::default(),
            executables: Executables::default(),
            code: Code::default(),
            driver,
            counters: Counters::default(),
            events,
            handlers: Handlers::default(),
            copy_profiling: AtomicBool::new(false),
            next_queue_id: AtomicU64::new(0),
            last_fault: Mutex::default(),
            faults_are_shown: AtomicBool::new(false),
            watcher: Worker::default(),
            copies: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        machine.events.start()?;
        machine.watcher.start("hsa-sim-watch", {
            let machine = Arc::clone(&machine);
            move || doorbell_watcher::watch(&machine)
        })?;
        Ok(machine)
    }

    /// Stops every thread, writes statistics and reports leaks.
    pub fn stop(&self) {
        let leaks = if self.config.leaks { Leaks::find(self) } else { Leaks::default() };
        let queues = std::mem::take(&mut *self.queues.write());
        if self.driver.is_none() && events::is_calling_back() {
            eprintln!("hsa-sim: HSA is shut down in a callback, where ROCR waits forever; the process is ended");
            std::process::abort();
        }
        self.stopping.store(true, Ordering::SeqCst);
        for queue in &queues {
            queue.stop();
        }
        self.signals.wake_all();
        for copy in std::mem::take(&mut *self.copies.lock()) {
            // A copy that panicked has nothing left to stop.
            let _ = copy.join();
        }
        self.handlers.stop();
        self.watcher.stop();
        self.events.stop();
        if let Some(path) = &self.config.stats {
            let agents = self.config.gpus.iter().map(|gpu| gpu.target.name);
            self.counters.write(path, agents, &inject::calls(), &self.costs);
        }
        self.findings.report();
        self.profiles.write();
        if let Some(debugger) = &self.debugger {
            debugger.end();
        }
        leaks.report("hsa_shut_down");
        inject::report_unused();
    }
}

/// Size of the host's memory in bytes.
fn host_memory() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    pages.max(1) as u64 * PAGE as u64
}
