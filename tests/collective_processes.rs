// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Collectives among processes: operations in a row, several communicators at once, and a process that dies before, in
//! or after an operation. They run by TCP and with a stand-in for RCCL, `testdata/rccl.c`. `cargo xtask collectives
//! --engine rccl` runs them with RCCL.

#[path = "support/rccl.rs"]
mod rccl;
mod support;

use std::ffi::{CStr, c_char, c_void};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, iree, raw, strings};
use support::recording::{Mode, Recording, direct};
use support::{Rig, SemaphoreRef, failure, wait};

/// Names the engine to test, in place of TCP.
const ENGINE: &str = "AMDGPU_RS_TEST_COLLECTIVE_ENGINE";

/// The number of ranks with RCCL, each of which takes a GPU.
const RANKS: &str = "AMDGPU_RS_TEST_COLLECTIVE_RANKS";

/// Seconds for which ranks wait for each other, in place of the time that RCCL needs for its start.
const TIMEOUT: &str = "AMDGPU_RS_TEST_COLLECTIVE_TIMEOUT";

/// The number of [`calls`], in place of a few.
const CALLS: &str = "AMDGPU_RS_TEST_CALLS";

/// Calls before those in which nothing may grow.
const WARM: u32 = 20;

/// The number of hardware queues that HIP has for streams.
const HIP_QUEUES: &str = "GPU_MAX_HW_QUEUES";

/// The rank that dies.
const DYING: u32 = 1;

/// Tells a process of a test from the test itself, and the moment of the death: before, in or after an operation.
const VARIABLE: &str = "AMDGPU_RS_TEST_RANK_DIES";

/// Executions in a row. With RCCL they have more operations than it has gates for the device to order.
const ROW: u32 = 12;

/// Elements of an operation in a row, and bytes around them, which nothing may write.
const ELEMENTS: usize = 5000;
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xee;

/// Elements of the operation in which a rank dies: enough to take longer than dying does.
const MANY: usize = 4 << 20;

/// The time in which the other ranks must have failed, as `docs/using/distributed.md` states it.
const LIMIT: Duration = Duration::from_secs(20);

fn engine() -> String {
    std::env::var(ENGINE).unwrap_or_else(|_| "tcp".to_owned())
}

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// The processes of a test.
struct Ranks {
    count: u32,
    variables: Vec<(&'static str, String)>,
}

impl Ranks {
    /// Of the engine that the environment names.
    fn new() -> Self {
        let count = if engine() == "rccl" { number(RANKS).unwrap_or(2) } else { 3 };
        Self { count, variables: Vec::new() }
    }

    /// Of a stand-in for RCCL.
    fn with(stand_in: &rccl::StandIn) -> Self {
        let agents = ("HSA_SIM_AGENTS", "gfx1100,gfx1100".to_owned());
        let timeout = (TIMEOUT, "40".to_owned());
        Self { count: 2, variables: vec![agents, (ENGINE, "rccl".to_owned()), stand_in.variable(), timeout] }
    }

    fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// The outputs of the processes, each of which runs `test`.
    fn run(&self, test: &str, moment: &str) -> Vec<Output> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let start = |rank: u32| {
            let (rank, count) = (rank.to_string(), self.count.to_string());
            Command::new(std::env::current_exe().expect("a test has a file"))
                .args(["--exact", test, "--nocapture"])
                .envs([(VARIABLE, moment), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port.to_string())])
                .envs([("RANK", &rank), ("LOCAL_RANK", &rank), ("WORLD_SIZE", &count)])
                .envs(self.variables.iter().map(|(name, value)| (name, value)))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("a process of its own")
        };
        let processes: Vec<_> = (0..self.count).map(start).collect();
        processes.into_iter().map(|process| process.wait_with_output().expect("a process ends")).collect()
    }

    /// Runs `test`, which passes, in each process. Returns their output.
    fn pass(&self, test: &str, moment: &str) -> String {
        let mut all = String::new();
        for (rank, output) in self.run(test, moment).iter().enumerate() {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "rank {rank}: {}: {said}", output.status);
            all += &said;
        }
        all
    }

    /// A rank dies before, in and after an operation; the others fail in good order.
    fn lose_one(&self) {
        for moment in ["before", "in", "after"] {
            for (rank, output) in self.run(DEATH, moment).iter().enumerate() {
                let said = String::from_utf8_lossy(&output.stderr);
                let is_well = output.status.success() == (rank as u32 != DYING);
                assert!(is_well, "{moment}, rank {rank}: {}: {said}", output.status);
                assert!(!said.to_lowercase().contains("fault"), "{moment}, rank {rank}: {said}");
            }
        }
    }
}

/// Functions of the tests, as the ranks' processes are told.
const DEATH: &str = "a_process_that_dies_ends_the_others_operations";
const ROWS: &str = "operations_in_a_row_are_ordered";
const COMMUNICATORS: &str = "communicators_are_ordered_together";
const REPEATED: &str = "calls_keep_nothing";

#[test]
fn a_process_that_dies_ends_the_others_operations() {
    match std::env::var(VARIABLE) {
        Ok(moment) => rank(&moment),
        Err(_) => Ranks::new().lose_one(),
    }
}

/// Each execution takes the results of the one before, without a wait on the host.
#[test]
fn operations_in_a_row_are_ordered() {
    match std::env::var(VARIABLE) {
        Ok(moment) => row(&moment),
        Err(_) => drop(Ranks::new().pass(ROWS, "row")),
    }
}

/// One hardware queue of HIP's holds the streams of all communicators: the worst case for their order.
#[test]
fn communicators_are_ordered_together() {
    match std::env::var_os(VARIABLE) {
        Some(_) => communicators(),
        None => drop(Ranks::new().variable(HIP_QUEUES, "1").pass(COMMUNICATORS, "together")),
    }
}

/// Programs create and split channels at every call.
#[test]
fn calls_keep_nothing() {
    match std::env::var_os(VARIABLE) {
        Some(_) => calls(),
        None => drop(Ranks::new().pass(REPEATED, "calls")),
    }
}

#[test]
fn the_device_orders_what_the_stand_in_for_rccl_performs() {
    let stand_in = rccl::StandIn::build(&[]);
    Ranks::with(&stand_in).pass(ROWS, "row");
    Ranks::with(&stand_in).variable(HIP_QUEUES, "1").pass(COMMUNICATORS, "together");
    Ranks::with(&stand_in).pass(REPEATED, "calls");
    Ranks::with(&stand_in).lose_one();
}

/// HIP refuses signal memory, or is older than it.
#[test]
fn the_host_orders_without_signal_memory() {
    let (refuses, lacks) = (rccl::StandIn::build(&[]), rccl::StandIn::build(&["-DNO_SIGNAL_MEMORY"]));
    let refusing = Ranks::with(&refuses).variable("RCCL_STAND_IN_SIGNAL_MEMORY", "none");
    for (ranks, reason) in [(refusing, "hipExtMallocWithFlags"), (Ranks::with(&lacks), "install HIP 4.2 or newer")] {
        let said = ranks.pass(ROWS, "row of the host");
        let told: Vec<_> = said.lines().filter(|line| line.contains("the host orders RCCL's collectives")).collect();
        assert_eq!(told.len(), 2, "once by each rank: {said}");
        assert!(told.iter().all(|line| line.contains(reason)), "{told:?}");
    }
}

/// Records the sum over all ranks.
fn record_sum(
    recording: &Recording,
    channel: *mut raw::iree_hal_channel_t,
    (send, receive): (raw::iree_hal_buffer_ref_t, raw::iree_hal_buffer_ref_t),
    count: usize,
) {
    let sum = raw::iree_hal_collective_op_t {
        packed: raw::IREE_HAL_COLLECTIVE_KIND_ALL_REDUCE
            | raw::IREE_HAL_COLLECTIVE_REDUCTION_SUM << 8
            | raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_32 << 16,
    };
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_command_buffer_collective(recording.as_ptr(), channel, sum, 0, send, receive, count))
    }
    .expect("it is recorded");
}

/// A reduction of `count` elements of all ranks, of which the first is 1.
fn reduce(rig: &Rig, channel: *mut raw::iree_hal_channel_t, count: usize) -> (support::BufferRef, SemaphoreRef) {
    let (recording, buffer, done) = (Recording::begin(rig, Mode::OneShot, 0), rig.buffer(4 * count), rig.semaphore());
    rig.write(&buffer, 0, &[1, 0, 0, 0]);
    let range = direct(&buffer, 0, 4 * count);
    record_sum(&recording, channel, (range, range), count);
    recording.end();
    recording.execute(rig, 1, &[], &[(&done, 1)], &[]).expect("it is submitted");
    (buffer, done)
}

/// The device of a rank, and its channel, on two queues.
fn open() -> (Rig, *mut raw::iree_hal_channel_t) {
    let (engine, timeout) = (engine(), number(TIMEOUT).unwrap_or(240).to_string());
    let options = [("collective_engine", &*engine), ("collective_timeout", &timeout), ("hardware_queues_per_gpu", "2")];
    let rig = Rig::open("local", &options).expect("a device");
    let channel = channel(&rig);
    (rig, channel)
}

/// The channel of all ranks.
fn channel(rig: &Rig) -> *mut raw::iree_hal_channel_t {
    let params = raw::iree_hal_channel_params_t {
        flags: 0,
        id: raw::iree_const_byte_span_t { data: std::ptr::null(), data_length: 0 },
        group: strings::view(""),
        rank: -1,
        count: -1,
    };
    let mut channel = std::ptr::null_mut();
    // SAFETY: a live device, parameters that live during the call, and a place for the result.
    unsafe { iree!(raw::iree_hal_channel_create(rig.device.as_ptr(), QUEUE_AFFINITY_ANY, params, &raw mut channel)) }
        .expect("a channel");
    channel
}

/// The rank in a channel's group, and the number of ranks.
fn place(channel: *mut raw::iree_hal_channel_t) -> (u32, u32) {
    let (mut own, mut count) = (0, 0);
    // SAFETY: a live channel and places for the results.
    unsafe { raw::iree_hal_channel_query_rank_and_count(channel, &raw mut own, &raw mut count) };
    (own as u32, count as u32)
}

/// A rank of operations in a row.
fn row(moment: &str) {
    let (rig, channel) = open();
    let (own, count) = place(channel);
    let bytes = 4 * ELEMENTS;
    let buffers = [own + 1, 0].map(|value| {
        let buffer = rig.buffer(bytes + 2 * GUARD);
        rig.write(&buffer, 0, &[UNTOUCHED; GUARD]);
        rig.write(&buffer, GUARD, &value.to_le_bytes().repeat(ELEMENTS));
        rig.write(&buffer, GUARD + bytes, &[UNTOUCHED; GUARD]);
        buffer
    });
    let [x, y] = buffers.each_ref().map(|buffer| direct(buffer, GUARD, bytes));
    let done = rig.semaphore();
    for execution in 0..ROW {
        let recording = Recording::begin(&rig, Mode::OneShot, 0);
        record_sum(&recording, channel, (x, y), ELEMENTS);
        recording.barrier();
        recording.copy(y, x).expect("it is recorded");
        recording.barrier();
        record_sum(&recording, channel, (x, x), ELEMENTS);
        recording.end();
        let value = u64::from(execution);
        recording.execute(&rig, 1, &[(&done, value)], &[(&done, value + 1)], &[]).expect("it is submitted");
        if execution == 0 {
            // RCCL's ranks have found each other behind the first operation.
            wait(&done, 1).expect("all ranks are there");
        }
    }
    wait(&done, u64::from(ROW)).expect("they end");
    // A sum of 1, 2 and so on; each later reduction multiplies by the number of ranks.
    let expected = (count * (count + 1) / 2).wrapping_mul(count.wrapping_pow(2 * ROW - 1));
    for buffer in &buffers {
        let seen = rig.read(buffer, 0, bytes + 2 * GUARD);
        let around = seen[..GUARD].iter().chain(&seen[GUARD + bytes..]);
        assert!(around.clone().all(|byte| *byte == UNTOUCHED), "bytes around the buffer are written");
    }
    let words = rig.read(&buffers[0], GUARD, bytes);
    assert!(words.chunks_exact(4).all(|word| word == expected.to_le_bytes()), "{expected}: {:?}", &words[..32]);
    if engine() == "rccl" {
        assert_eq!(has_thread("amdgpu_rs-gates"), moment == "row", "the device orders operations");
    }
    // SAFETY: owned.
    unsafe { raw::iree_hal_channel_release(channel) };
}

/// Sums in a communicator, each of the last one's results, on a queue of the device.
struct Chain {
    channel: *mut raw::iree_hal_channel_t,
    queue: u64,
    x: support::BufferRef,
    y: support::BufferRef,
    done: SemaphoreRef,
    steps: u64,
}

impl Chain {
    /// A chain that begins with `value`.
    fn new(rig: &Rig, channel: *mut raw::iree_hal_channel_t, queue: u64, value: u32) -> Self {
        let [x, y] = [value, 0].map(|value| {
            let buffer = rig.buffer(4 * ELEMENTS);
            rig.write(&buffer, 0, &value.to_le_bytes().repeat(ELEMENTS));
            buffer
        });
        Self { channel, queue, x, y, done: rig.semaphore(), steps: 0 }
    }

    /// Submits the next sum, which waits for `semaphore` too.
    fn step(&mut self, rig: &Rig, semaphore: Option<&SemaphoreRef>) {
        let recording = Recording::begin_on(rig, self.queue, Mode::OneShot, 0);
        let [x, y] = [&self.x, &self.y].map(|buffer| direct(buffer, 0, 4 * ELEMENTS));
        record_sum(&recording, self.channel, (x, y), ELEMENTS);
        recording.barrier();
        recording.copy(y, x).expect("it is recorded");
        recording.end();
        let waits: Vec<_> = [(&self.done, self.steps)].into_iter().chain(semaphore.map(|other| (other, 1))).collect();
        self.steps += 1;
        recording.execute(rig, self.queue, &waits, &[(&self.done, self.steps)], &[]).expect("it is submitted");
    }

    fn wait(&self) {
        wait(&self.done, self.steps).expect("it ends");
    }
}

/// The part of a split with a rank's colour and key.
fn split(channel: *mut raw::iree_hal_channel_t, color: u32, key: i32) -> *mut raw::iree_hal_channel_t {
    let mut part = std::ptr::null_mut();
    // SAFETY: a live channel and a place for the result.
    unsafe { iree!(raw::iree_hal_channel_split(channel, color as i32, key, 0, &raw mut part)) }.expect("a split");
    part
}

/// A rank of chains in several communicators on two queues of its device.
fn communicators() {
    let (rig, world) = open();
    let (own, count) = place(world);
    // The colours of rank `rank` in each communicator.
    let colors = |rank: u32| [0, 0, rank / 2, 0];
    let [_, all, part, new] = colors(own);
    let channels = [world, split(world, all, -(own as i32)), split(world, part, own as i32)];
    let mut chains: Vec<_> = channels
        .into_iter()
        .enumerate()
        .map(|(index, channel)| Chain::new(&rig, channel, 1 << (index % 2), own + index as u32))
        .collect();
    // RCCL's ranks find each other behind the first operation.
    for chain in &mut chains {
        chain.step(&rig, None);
        chain.wait();
    }
    for _ in 0..4 {
        chains.iter_mut().for_each(|chain| chain.step(&rig, None));
    }
    // Another communicator, of which the ranks meet meanwhile.
    chains.push(Chain::new(&rig, split(world, new, own as i32 + 100), 2, own + 3));
    chains.iter_mut().for_each(|chain| chain.step(&rig, None));
    chains.iter().for_each(Chain::wait);
    // On rank 0 the first of them waits for the host, and the others do not.
    let late = rig.semaphore();
    for (index, chain) in chains.iter_mut().enumerate() {
        chain.step(&rig, (own == 0 && index == 0).then_some(&late));
    }
    late.borrow().signal(1).expect("it advances");
    chains.iter().for_each(Chain::wait);
    for _ in 0..2 {
        chains.iter_mut().for_each(|chain| chain.step(&rig, None));
    }
    chains.iter().for_each(Chain::wait);
    for (index, chain) in chains.iter().enumerate() {
        let members = || (0..count).filter(|rank| colors(*rank)[index] == colors(own)[index]);
        // A sum of the first values; each later one multiplies by the number of ranks.
        let first: u32 = members().map(|rank| rank + index as u32).sum();
        let expected = first.wrapping_mul((members().count() as u32).wrapping_pow(chain.steps as u32 - 1));
        let words = rig.read(&chain.x, 0, 4 * ELEMENTS);
        assert!(words.chunks_exact(4).all(|word| word == expected.to_le_bytes()), "{index}: {expected}");
    }
    if engine() == "rccl" {
        assert!(has_thread("amdgpu_rs-gates"), "the device orders operations");
    }
    for chain in chains {
        // SAFETY: owned.
        unsafe { raw::iree_hal_channel_release(chain.channel) };
    }
}

/// The number of threads of the process whose names begin with this.
fn threads(name: &str) -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads are listed");
    let names = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|found| found.starts_with(name)).count()
}

fn has_thread(name: &str) -> bool {
    threads(name) > 0
}

/// Counts of the resources that a call must give back.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    files: usize,
    /// Threads of communicators: one for operations and one for splits.
    operations: usize,
    splits: usize,
    rccl: usize,
}

impl Kept {
    fn now() -> Self {
        let files = std::fs::read_dir("/proc/self/fd").expect("files are listed").count();
        let [operations, splits, rccl] = ["amdgpu_rs-coll", "amdgpu_rs-split", "amdgpu_rs-rccl"].map(threads);
        Self { files, operations, splits, rccl }
    }
}

/// Pages of memory that the process uses.
fn resident_pages() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("the system tells");
    text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages")
}

/// Calls of HSA's functions that make something, less those that free it.
struct Balance(libloading::Library);

impl Balance {
    const PAIRS: [(&str, i64); 5] = [
        ("hsa_amd_signal_create", 1),
        ("hsa_signal_create", 1),
        ("hsa_signal_destroy", -1),
        ("hsa_amd_memory_pool_allocate", 1),
        ("hsa_amd_memory_pool_free", -1),
    ];

    /// Counts from now on. The device must be open, so that the library is loaded.
    fn begin() -> Self {
        // SAFETY: it is loaded already.
        let library = unsafe { libloading::Library::new(amdgpu_hsa::testing::library_path()) }.expect("it is loaded");
        // SAFETY: a function of this type; without a name it only begins to count.
        unsafe {
            type Fail = unsafe extern "C" fn(*const c_char, u64, u32);
            library.get::<Fail>(b"hsa_sim_fail\0").expect("the software runtime")(std::ptr::null(), 0, 0);
        }
        Self(library)
    }

    /// Of signals and of allocations.
    fn end(&self) -> [i64; 2] {
        unsafe extern "C" fn count(name: *const c_char, calls: u64, data: *mut c_void) {
            // SAFETY: a string, and the balance below, which nothing else uses.
            let (name, balance) = unsafe { (CStr::from_ptr(name).to_str(), &mut *data.cast::<[i64; 2]>()) };
            for (known, sign) in Balance::PAIRS {
                if name == Ok(known) {
                    balance[usize::from(known.contains("memory"))] += sign * calls as i64;
                }
            }
        }
        type Iterate = unsafe extern "C" fn(unsafe extern "C" fn(*const c_char, u64, *mut c_void), *mut c_void);
        let mut balance = [0; 2];
        // SAFETY: a function of this type, and a callback for this data.
        unsafe {
            let iterate = self.0.get::<Iterate>(b"hsa_sim_iterate_calls\0").expect("the software runtime");
            iterate(count, (&raw mut balance).cast());
        }
        balance
    }
}

/// A rank of calls that each make channels and split them, as compiled programs do.
fn calls() {
    let (rig, first) = open();
    let (own, count) = place(first);
    // SAFETY: owned.
    unsafe { raw::iree_hal_channel_release(first) };
    let number = number(CALLS).unwrap_or(3 * WARM);
    let (mut before, mut after) = (None, None);
    for call in 0..number {
        if call + 1 == number {
            // The other ranks have not left yet.
            after = Some(Kept::now());
        }
        if call == WARM {
            before = Some((Kept::now(), resident_pages(), Balance::begin()));
        }
        let world = channel(&rig);
        let part = split(world, own / 2, own as i32);
        // Partial sums among all ranks, and then among those of the part.
        let (recording, x, done) =
            (Recording::begin(&rig, Mode::OneShot, 0), rig.buffer(4 * ELEMENTS), rig.semaphore());
        rig.write(&x, 0, &(own + call).to_le_bytes().repeat(ELEMENTS));
        let range = direct(&x, 0, 4 * ELEMENTS);
        record_sum(&recording, world, (range, range), ELEMENTS);
        recording.barrier();
        record_sum(&recording, part, (range, range), ELEMENTS);
        recording.end();
        recording.execute(&rig, 1, &[], &[(&done, 1)], &[]).expect("it is submitted");
        wait(&done, 1).expect("it ends");
        let members = (0..count).filter(|rank| rank / 2 == own / 2).count() as u32;
        let expected = members * (0..count).map(|rank| rank + call).sum::<u32>();
        let words = rig.read(&x, 0, 4 * ELEMENTS);
        assert!(words.chunks_exact(4).all(|word| word == expected.to_le_bytes()), "call {call}: {expected}");
        for channel in [part, world] {
            // SAFETY: owned.
            unsafe { raw::iree_hal_channel_release(channel) };
        }
    }
    let (kept, pages, balance) = before.expect("there are calls behind the first ones");
    let [signals, allocations] = balance.end();
    let growth = resident_pages() - pages;
    eprintln!("{} calls: {kept:?}; {growth} pages, {signals} signals, {allocations} allocations more", number - WARM);
    assert_eq!(after, Some(kept));
    assert!(growth < 256, "{} calls have kept {growth} pages of memory", number - WARM);
    assert!(signals <= 0 && allocations <= 0, "{signals} signals, {allocations} allocations more");
}

/// A rank of which another one dies.
fn rank(moment: &str) {
    let (rig, channel) = open();
    if moment == "after" || (moment == "in" && engine() == "rccl") {
        // RCCL's ranks have found each other behind the first operation.
        let (buffer, done) = reduce(&rig, channel, 1);
        wait(&done, 1).expect("all ranks are there");
        assert_eq!(rig.read(&buffer, 0, 4), [place(channel).1 as u8, 0, 0, 0]);
    }
    if place(channel).0 == DYING {
        let _running = (moment == "in").then(|| reduce(&rig, channel, MANY));
        // As a kill does: nothing is closed in good order.
        std::process::abort();
    }
    let start = Instant::now();
    let (buffer, done) = reduce(&rig, channel, MANY);
    // Behind the operation, in the ring if the device orders both.
    let (target, copied) = (rig.buffer(GUARD), rig.semaphore());
    rig.write(&target, 0, &[UNTOUCHED; GUARD]);
    let copy = rig.copy(1, &[(&done, 1)], &[(&copied, 1)], (&buffer, 0), (&target, 0), GUARD);
    let status = failure(&done, 1);
    // The other rank may have failed first, and told.
    assert!(matches!(status.code(), Code::UNAVAILABLE | Code::ABORTED), "{status}");
    // So may it have ended, which a rank that sends to it notices.
    let text = status.to_string();
    assert!(text.contains(&format!("rank {DYING}")) || text.contains("sending to rank"), "{text}");
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    // The device may have been lost before the copy was submitted.
    if copy.is_ok() {
        assert!(wait(&copied, 1).is_err(), "the operation before it has failed");
    }
    assert_eq!(rig.read(&target, 0, GUARD), [UNTOUCHED; GUARD], "work behind the operation has run");
    // SAFETY: owned.
    unsafe { raw::iree_hal_channel_release(channel) };
}
