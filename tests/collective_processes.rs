// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Collectives among processes: operations in a row, and a process that dies before, in or after an operation. `cargo
//! xtask collectives --engine rccl` runs this with RCCL, too.

mod support;

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, iree, raw, strings};
use support::recording::{Mode, Recording, direct};
use support::{Rig, SemaphoreRef, failure, wait};

/// Names the engine to test, in place of TCP.
const ENGINE: &str = "AMDGPU_RS_TEST_COLLECTIVE_ENGINE";

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

/// RCCL takes a GPU for each rank.
fn count() -> u32 {
    if engine() == "rccl" { 2 } else { 3 }
}

#[test]
fn a_process_that_dies_ends_the_others_operations() {
    match std::env::var(VARIABLE) {
        Ok(moment) => rank(&moment),
        Err(_) => ["before", "in", "after"].into_iter().for_each(|moment| {
            for (rank, output) in ranks("a_process_that_dies_ends_the_others_operations", moment).iter().enumerate() {
                let said = String::from_utf8_lossy(&output.stderr);
                let is_well = output.status.success() == (rank as u32 != DYING);
                assert!(is_well, "{moment}, rank {rank}: {}: {said}", output.status);
                assert!(!said.to_lowercase().contains("fault"), "{moment}, rank {rank}: {said}");
            }
        }),
    }
}

/// Each execution takes the results of the one before, without a wait on the host.
#[test]
fn operations_in_a_row_are_ordered() {
    if std::env::var_os(VARIABLE).is_some() {
        return row();
    }
    for (rank, output) in ranks("operations_in_a_row_are_ordered", "row").iter().enumerate() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rank {rank}: {}: {said}", output.status);
    }
}

/// The outputs of the ranks' processes, each of which runs `test`.
fn ranks(test: &str, moment: &str) -> Vec<Output> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let start = |rank: u32| {
        Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", test, "--nocapture"])
            .envs([(VARIABLE, moment), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port.to_string())])
            .envs([("RANK", rank.to_string()), ("LOCAL_RANK", rank.to_string()), ("WORLD_SIZE", count().to_string())])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process of its own")
    };
    let processes: Vec<_> = (0..count()).map(start).collect();
    processes.into_iter().map(|process| process.wait_with_output().expect("a process ends")).collect()
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

/// The device of a rank, and its channel.
fn open() -> (Rig, *mut raw::iree_hal_channel_t) {
    let rig = Rig::open("local", &[("collective_engine", &engine())]).expect("a device");
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
    (rig, channel)
}

/// The rank in a channel's group, and the number of ranks.
fn place(channel: *mut raw::iree_hal_channel_t) -> (u32, u32) {
    let (mut own, mut count) = (0, 0);
    // SAFETY: a live channel and places for the results.
    unsafe { raw::iree_hal_channel_query_rank_and_count(channel, &raw mut own, &raw mut count) };
    (own as u32, count as u32)
}

/// A rank of operations in a row.
fn row() {
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
        assert!(has_thread("amdgpu_rs-gates"), "the device orders operations");
    }
    // SAFETY: owned.
    unsafe { raw::iree_hal_channel_release(channel) };
}

/// True if a thread of the process has this name.
fn has_thread(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads are listed");
    let mut names = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|found| found.trim_end() == name)
}

/// A rank of which another one dies.
fn rank(moment: &str) {
    let (rig, channel) = open();
    if moment == "after" || (moment == "in" && engine() == "rccl") {
        // RCCL's ranks have found each other behind the first operation.
        let (buffer, done) = reduce(&rig, channel, 1);
        wait(&done, 1).expect("all ranks are there");
        assert_eq!(rig.read(&buffer, 0, 4), [count() as u8, 0, 0, 0]);
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
