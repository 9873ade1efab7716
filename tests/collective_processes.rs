// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Collectives among processes, of which one dies before, in or after an operation. `cargo xtask collectives --engine
//! rccl` runs this with RCCL, too.

mod support;

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, iree, raw, strings};
use support::recording::{Mode, Recording, direct};
use support::{Rig, SemaphoreRef, failure, wait};

/// Names the engine to test, in place of TCP.
const ENGINE: &str = "AMDGPU_RS_TEST_COLLECTIVE_ENGINE";

/// The rank that dies.
const DYING: u32 = 1;

/// Tells a process of the test from the test itself, and the moment of the death: before, in or after an operation.
const VARIABLE: &str = "AMDGPU_RS_TEST_RANK_DIES";

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
        Err(_) => ["before", "in", "after"].into_iter().for_each(ranks),
    }
}

fn ranks(moment: &str) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let start = |rank: u32| {
        Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", "a_process_that_dies_ends_the_others_operations", "--nocapture"])
            .envs([(VARIABLE, moment), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port.to_string())])
            .envs([("RANK", rank.to_string()), ("LOCAL_RANK", rank.to_string()), ("WORLD_SIZE", count().to_string())])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process of its own")
    };
    let processes: Vec<_> = (0..count()).map(start).collect();
    for (rank, process) in processes.into_iter().enumerate() {
        let output = process.wait_with_output().expect("a process ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), rank as u32 != DYING, "{moment}, rank {rank}: {}: {said}", output.status);
        assert!(!said.to_lowercase().contains("fault"), "{moment}, rank {rank}: {said}");
    }
}

/// A reduction of `count` elements of all ranks, of which the first is 1.
fn reduce(rig: &Rig, channel: *mut raw::iree_hal_channel_t, count: usize) -> (support::BufferRef, SemaphoreRef) {
    let (recording, buffer, done) = (Recording::begin(rig, Mode::OneShot, 0), rig.buffer(4 * count), rig.semaphore());
    rig.write(&buffer, 0, &[1, 0, 0, 0]);
    let sum = raw::iree_hal_collective_op_t {
        packed: raw::IREE_HAL_COLLECTIVE_KIND_ALL_REDUCE
            | raw::IREE_HAL_COLLECTIVE_REDUCTION_SUM << 8
            | raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_32 << 16,
    };
    let range = direct(&buffer, 0, 4 * count);
    // SAFETY: live objects.
    unsafe { iree!(raw::iree_hal_command_buffer_collective(recording.as_ptr(), channel, sum, 0, range, range, count)) }
        .expect("it is recorded");
    recording.end();
    recording.execute(rig, 1, &[], &[(&done, 1)], &[]).expect("it is submitted");
    (buffer, done)
}

fn rank(moment: &str) {
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
    if moment == "after" || (moment == "in" && engine() == "rccl") {
        // RCCL's ranks have found each other behind the first operation.
        let (buffer, done) = reduce(&rig, channel, 1);
        wait(&done, 1).expect("all ranks are there");
        assert_eq!(rig.read(&buffer, 0, 4), [count() as u8, 0, 0, 0]);
    }
    let (mut own, mut count) = (0, 0);
    // SAFETY: a live channel and places for the results.
    unsafe { raw::iree_hal_channel_query_rank_and_count(channel, &raw mut own, &raw mut count) };
    if own as u32 == DYING {
        let _running = (moment == "in").then(|| reduce(&rig, channel, MANY));
        // As a kill does: nothing is closed in good order.
        std::process::abort();
    }
    let start = Instant::now();
    let (_buffer, done) = reduce(&rig, channel, MANY);
    let status = failure(&done, 1);
    // The other rank may have failed first, and told.
    assert!(matches!(status.code(), Code::UNAVAILABLE | Code::ABORTED), "{status}");
    // So may it have ended, which a rank that sends to it notices.
    let text = status.to_string();
    assert!(text.contains(&format!("rank {DYING}")) || text.contains("sending to rank"), "{text}");
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    // SAFETY: owned.
    unsafe { raw::iree_hal_channel_release(channel) };
}
