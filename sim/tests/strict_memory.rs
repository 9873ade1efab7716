// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Visibility of memory through caches (`HSA_SIM_MEMORY=strict`), with fences of packets and of kernels. One test
//! function, because the environment is the process's.

mod common;

use common::code::*;
use common::pm4::{ACQUIRE_MEM, Commands, RELEASE_MEM};
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

const CODE: [(&str, &[u8]); 5] = [
    ("gfx1100", include_bytes!("kernels/caches.gfx1100.co")),
    ("gfx1201", include_bytes!("kernels/caches.gfx1201.co")),
    ("gfx90a", include_bytes!("kernels/caches.gfx90a.co")),
    ("gfx942", include_bytes!("kernels/caches.gfx942.co")),
    ("gfx1030", include_bytes!("kernels/caches.gfx1030.co")),
];

const NONE: HsaFenceScope = HsaFenceScope::NONE;
const AGENT: HsaFenceScope = HsaFenceScope::AGENT;
const SYSTEM: HsaFenceScope = HsaFenceScope::SYSTEM;

/// A GPU, with the queue and code for its kernels.
struct Gpu {
    code: Executable,
    queue: Queue,
    done: HsaSignal,
    hsa: Hsa,
}

/// Arguments of all kernels here.
#[repr(C)]
struct Args<const N: usize> {
    pointers: [*mut u32; N],
    value: u32,
}

impl Gpu {
    fn new(agent: &str, code: &[u8], settings: &[(&str, &str)]) -> Self {
        for (name, value) in [("HSA_SIM_AGENTS", agent), ("HSA_SIM_MEMORY", "strict")].iter().chain(settings) {
            // SAFETY: the only test of this binary, and no other thread of it looks at the environment.
            unsafe { std::env::set_var(name, value) };
        }
        let hsa = Hsa::new();
        let code = load_code(hsa.gpu(), code).unwrap();
        let queue = Queue::new(hsa.gpu(), 64);
        Self { hsa, code, queue, done: signal(0) }
    }

    /// Allocates zeroed memory that the host and the GPU share.
    fn memory(&self, is_fine: bool) -> *mut u32 {
        let flags = if is_fine { HSA_GLOBAL_FLAG_FINE_GRAINED } else { HSA_GLOBAL_FLAG_COARSE_GRAINED };
        let owner = if is_fine { self.hsa.cpu } else { self.hsa.gpu() };
        let memory = allocate(self.hsa.pool(owner, flags), 4096).unwrap();
        allow_access(memory, &[self.hsa.cpu, self.hsa.gpu()]);
        // SAFETY: the allocation, which no kernel uses yet.
        unsafe { memory.write_bytes(0, 4096) };
        memory.cast()
    }

    /// Packet of a kernel with workgroups of 32 between fences of these scopes.
    fn packet<const N: usize>(
        &self,
        kernel: &str,
        groups: u32,
        (pointers, value): ([*mut u32; N], u32),
        (acquire, release): (HsaFenceScope, HsaFenceScope),
    ) -> KernelDispatchPacket {
        KernelDispatchPacket {
            header: PacketHeader::new(HsaPacketType::KERNEL_DISPATCH, true, acquire, release),
            workgroup_size: [32, 1, 1],
            grid_size: [32 * groups, 1, 1],
            ..self.code.packet(kernel, groups, kernargs(&self.hsa, Args { pointers, value }), self.done)
        }
    }

    /// Runs packets and waits for them.
    fn run_packets(&self, packets: &[KernelDispatchPacket]) {
        store(self.done, packets.len() as i64);
        let ids: Vec<_> = packets.iter().map(|_| self.queue.reserve()).collect();
        ids.iter().zip(packets).for_each(|(&id, packet)| self.queue.publish(id, packet));
        self.queue.ring(ids[ids.len() - 1]);
        wait_for(self.done, 0);
    }

    /// Runs one kernel and waits for it.
    fn run<const N: usize>(
        &self,
        kernel: &str,
        groups: u32,
        args: ([*mut u32; N], u32),
        scopes: (HsaFenceScope, HsaFenceScope),
    ) {
        self.run_packets(&[self.packet(kernel, groups, args, scopes)]);
    }

    /// Runs a PM4 command, in a packet without fences.
    fn run_command(&self, command: Vec<u32>) {
        self.run_command_between(command, (NONE, NONE));
    }

    fn run_command_between(&self, command: Vec<u32>, (acquire, release): (HsaFenceScope, HsaFenceScope)) {
        let commands = Commands::new(&self.hsa, &[command]);
        let mut packet = commands.packet(self.done);
        packet.header.header = PacketHeader::new(HsaPacketType::VENDOR_SPECIFIC, true, acquire, release);
        store(self.done, 1);
        self.queue.submit(&packet);
        wait_for(self.done, 0);
    }

    /// Returns the value that a kernel reads at `memory`.
    fn read(&self, kernel: &str, memory: *mut u32, acquire: HsaFenceScope) -> u32 {
        let out = self.memory(true);
        self.run(kernel, 1, ([out, memory], 0), (acquire, SYSTEM));
        let value = read(out, 1)[0];
        assert_eq!(free(out.cast()), HsaStatus::SUCCESS);
        value
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: destroyed once.
        assert_eq!(unsafe { hsa_signal_destroy(self.done) }, HsaStatus::SUCCESS);
    }
}

fn write(memory: *mut u32, value: u32) {
    // SAFETY: the tests' own memory, which no kernel is using.
    unsafe { memory.write_volatile(value) };
}

fn results_need_a_release(gpu: &Gpu) {
    let memory = gpu.memory(false);
    for (release, seen) in [(NONE, 0), (AGENT, 0), (SYSTEM, 7)] {
        gpu.run("store", 1, ([memory], 7), (SYSTEM, release));
        assert_eq!(read(memory, 1), [seen], "{release:?}");
    }
    assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    let memory = gpu.memory(true);
    gpu.run("store", 1, ([memory], 7), (SYSTEM, AGENT));
    assert_eq!(read(memory, 1), [7], "fine-grained");
    assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
}

fn changes_need_an_acquire(gpu: &Gpu) {
    for (is_fine, of_agent) in [(false, 1), (true, 2)] {
        for kernel in ["copy", "copy_first"] {
            let memory = gpu.memory(is_fine);
            write(memory, 1);
            // Packets run on one compute unit after the other.
            let seen = |acquire| [acquire, NONE, NONE, NONE].map(|acquire| gpu.read(kernel, memory, acquire));
            assert_eq!(seen(SYSTEM), [1; 4]);
            write(memory, 2);
            assert_eq!(seen(NONE), [1; 4], "{kernel}, fine-grained: {is_fine}");
            assert_eq!(seen(AGENT), [of_agent; 4], "{kernel}, fine-grained: {is_fine}");
            assert_eq!(seen(SYSTEM), [2; 4], "{kernel}, fine-grained: {is_fine}");
            assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
        }
    }
}

fn packets_pass_results_on_by_agent_scope(gpu: &Gpu) {
    // The scopes of a store's release and of the acquire of the packet after it, and the value that it reads.
    for (release, acquire, seen) in [(NONE, AGENT, 0), (AGENT, NONE, 0), (AGENT, AGENT, 7)] {
        let (memory, out) = (gpu.memory(false), gpu.memory(true));
        let copy = |acquire, release| gpu.packet("copy", 1, ([out, memory], 0), (acquire, release));
        let store = gpu.packet("store", 1, ([memory], 7), (NONE, release));
        // On one compute unit after the other, without a pause in which stores could leave theirs.
        gpu.run_packets(&[copy(SYSTEM, NONE), copy(NONE, NONE), copy(NONE, NONE), store, copy(acquire, AGENT)]);
        assert_eq!(read(out, 1), [seen], "{release:?}, {acquire:?}");
        for memory in [memory, out] {
            assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
        }
    }
}

fn atomics_of_fine_grained_memory_need_no_fence(gpu: &Gpu) {
    let counter = gpu.memory(true);
    write(counter, 5);
    gpu.run("count", 2, ([counter], 0), (NONE, NONE));
    assert_eq!(read(counter, 1), [5 + 64]);
    assert_eq!(free(counter.cast()), HsaStatus::SUCCESS);
}

/// Between workgroups. A die's writes need a release, too.
fn workgroups_need_fences(gpu: &Gpu, agent: &str) {
    let kernels = [
        ("handshake", 4),
        ("handshake_without_acquire", 3),
        ("handshake_of_workgroup", 3),
        ("handshake_without_release", if agent == "gfx942:hdp=trusted" { 3 } else { 4 }),
        ("handshake_of_gl1", 3),
    ];
    let has = |kernel: &str| {
        kernel != "handshake_of_gl1" || ["gfx1030", "gfx1100"].iter().any(|target| agent.starts_with(target))
    };
    for (kernel, seen) in kernels.into_iter().filter(|(kernel, _)| has(kernel)) {
        let expected = [3, seen];
        let [data, flags, out] = [(); 3].map(|()| gpu.memory(false));
        (0..32).for_each(|i| write(data.wrapping_add(i), 3));
        gpu.run(kernel, 2, ([data, flags, out], 4), (SYSTEM, SYSTEM));
        assert_eq!([read(out, 1)[0], read(out.wrapping_add(32), 1)[0]], expected, "{kernel}");
        for memory in [data, flags, out] {
            assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
        }
    }
}

/// Between waves of a workgroup, if they run on two compute units.
fn waves_need_fences(gpu: &Gpu, agent: &str) {
    let unseen = if agent.starts_with("gfx1") { 3 } else { 4 };
    for (kernel, seen) in [("neighbours", 4), ("neighbours_without_acquire", unseen)] {
        let [data, out] = [(); 2].map(|()| gpu.memory(false));
        (0..64).for_each(|i| write(data.wrapping_add(i), 3));
        let packet = gpu.packet(kernel, 4, ([data, out], 4), (SYSTEM, SYSTEM));
        gpu.run_packets(&[KernelDispatchPacket { workgroup_size: [128, 1, 1], ..packet }]);
        assert_eq!(read(out, 128), [[3; 64], [seen; 64]].concat(), "{kernel}");
        for memory in [data, out] {
            assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
        }
    }
}

/// Cache operations of `CP_COHER_CNTL`, `GCR_CNTL` and the flags of `RELEASE_MEM`, and no others.
fn commands_do_what_their_flags_say(gpu: &Gpu, agent: &str) {
    let gfx9 = agent.starts_with("gfx9");
    let acquire = |flags| match gfx9 {
        true => pm4::packet(ACQUIRE_MEM, &[flags, u32::MAX, 0xff_ffff, 0, 0, 10]),
        false => pm4::packet(ACQUIRE_MEM, &[0, u32::MAX, 0x1ff_ffff, 0, 0, 10, flags]),
    };
    let release = |flags| pm4::packet(RELEASE_MEM, &[0x14 | 5 << 8 | flags, 0, 0, 0, 0, 0, 0]);
    // Vector, array, scalar and L2 read anew; L2 written back, also by RELEASE_MEM.
    let [vector, array, scalar, l2, back, release_back] = match gfx9 {
        true => [1 << 22, 0, 1 << 27, 1 << 23, 1 << 18, 1 << 15],
        false => [1 << 8, 1 << 9, 1 << 7, 1 << 14, 1 << 15, 1 << 21],
    };
    for write_back in [acquire(back), release(release_back)] {
        let memory = gpu.memory(false);
        gpu.run("store", 1, ([memory], 7), (SYSTEM, NONE));
        gpu.run_command(acquire(0));
        gpu.run_command(release(0));
        assert_eq!(read(memory, 1), [0]);
        gpu.run_command(write_back);
        assert_eq!(read(memory, 1), [7]);
        assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    }
    for (kernel, of_kernel) in [("copy", vector), ("copy_first", scalar)] {
        let memory = gpu.memory(false);
        let seen = |acquire| [acquire, NONE, NONE, NONE].map(|acquire| gpu.read(kernel, memory, acquire));
        let all = of_kernel | array | l2;
        // gfx9 has no array.
        let cases = [(all, 1), (of_kernel, 1), (array, 1), (l2, 1), (0, 2)];
        for (missing, expected) in cases.into_iter().filter(|&(missing, expected)| (missing == 0) == (expected == 2)) {
            write(memory, 1);
            assert_eq!(seen(SYSTEM), [1; 4]);
            write(memory, 2);
            gpu.run_command(acquire(all & !missing));
            assert_eq!(seen(NONE), [expected; 4], "{kernel} without {missing:#x}");
        }
        assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    }
}

/// Packet processors read and write memory through the L2. Fences of system scope synchronize the L2 with the host.
fn commands_access_memory_through_the_l2(gpu: &Gpu) {
    const WRITE_DATA: u32 = 0x37;
    const COPY_DATA: u32 = 0x40;
    let (memory, out) = (gpu.memory(false), gpu.memory(true));
    let copied = |acquire| {
        let (from, to) = (memory, out);
        let body = [2 | 2 << 8 | 1 << 20, pm4::low(from), pm4::high(from), pm4::low(to), pm4::high(to)];
        gpu.run_command_between(pm4::packet(COPY_DATA, &body), (acquire, NONE));
        read(out, 1)[0]
    };
    write(memory, 1);
    assert_eq!(copied(SYSTEM), 1);
    write(memory, 2);
    assert_eq!([copied(NONE), copied(AGENT), copied(SYSTEM)], [1, 1, 2]);
    let written = |release| {
        let body = [2 << 8 | 1 << 20, pm4::low(memory), pm4::high(memory), 7];
        gpu.run_command_between(pm4::packet(WRITE_DATA, &body), (NONE, release));
        read(memory, 1)[0]
    };
    assert_eq!([written(NONE), written(AGENT), written(SYSTEM)], [2, 2, 7]);
    gpu.run("store", 1, ([memory], 8), (SYSTEM, AGENT));
    assert_eq!(copied(AGENT), 8, "what a kernel has written and released to the agent");
    for memory in [memory, out] {
        assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    }
}

/// Without the barrier bit, a packet runs beside the packets in front of it, even if it is published while they run.
fn packets_start_beside_running_ones(gpu: &Gpu) {
    let code = load_code(gpu.hsa.gpu(), GFX11).unwrap();
    let [counter, flag] = [(); 2].map(|()| gpu.memory(true));
    let unordered = |kernel, args, done| KernelDispatchPacket {
        header: PacketHeader::new(HsaPacketType::KERNEL_DISPATCH, false, SYSTEM, SYSTEM),
        ..code.packet(kernel, 1, args, done)
    };
    let [counted, filled] = [(); 2].map(|()| signal(1));
    store(gpu.done, 1);
    let ids = [(); 2].map(|()| gpu.queue.reserve());
    gpu.queue.publish(ids[1], &unordered("spin", kernargs(&gpu.hsa, flag), gpu.done));
    gpu.queue.publish(ids[0], &unordered("count_items", kernargs(&gpu.hsa, counter), counted));
    gpu.queue.ring(ids[1]);
    wait_for(counted, 0);
    gpu.queue.submit(&unordered("fill", kernargs(&gpu.hsa, FillArgs { out: flag, value: 1, count: 1 }), filled));
    for signal in [filled, gpu.done] {
        wait_for(signal, 0);
    }
    for signal in [counted, filled] {
        // SAFETY: destroyed once.
        assert_eq!(unsafe { hsa_signal_destroy(signal) }, HsaStatus::SUCCESS);
    }
    for memory in [counter, flag] {
        assert_eq!(free(memory.cast()), HsaStatus::SUCCESS);
    }
}

#[test]
fn memory_is_seen_as_fences_say() {
    let one_die = ("gfx942:partitions=8,hdp=trusted".to_owned(), CODE[3].1);
    let agents = CODE.map(|(target, code)| (format!("{target}:hdp=trusted"), code));
    for (agent, code) in agents.iter().chain([&one_die]) {
        println!("{agent}");
        let gpu = Gpu::new(agent, code, &[("HSA_SIM_THREADS", "2")]);
        results_need_a_release(&gpu);
        changes_need_an_acquire(&gpu);
        packets_pass_results_on_by_agent_scope(&gpu);
        atomics_of_fine_grained_memory_need_no_fence(&gpu);
        workgroups_need_fences(&gpu, agent);
        waves_need_fences(&gpu, agent);
        commands_do_what_their_flags_say(&gpu, agent);
        commands_access_memory_through_the_l2(&gpu);
    }
    packets_start_beside_running_ones(&Gpu::new(&agents[0].0, CODE[0].1, &[]));
}
