// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Channels and collectives in command buffers, through IREE's C API: ranks are devices of this process.

mod support;

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, Result, WHOLE_BUFFER, iree, raw, status, strings};
use support::recording::{Mode, Recording, direct, indirect};
use support::{BufferRef, Rig, SemaphoreRef, failure, passes_alone, wait};

/// Bytes around each receive buffer, which nothing may write.
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xee;

struct Channel(*mut raw::iree_hal_channel_t);

// SAFETY: channels are used from any thread.
unsafe impl Sync for Channel {}
// SAFETY: and released on any.
unsafe impl Send for Channel {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: owned; null is ignored.
        unsafe { raw::iree_hal_channel_release(self.0) };
    }
}

impl Channel {
    fn create(rig: &Rig, id: &str, rank: i32, count: i32) -> Result<Self> {
        let params = raw::iree_hal_channel_params_t {
            flags: 0,
            id: raw::iree_const_byte_span_t { data: id.as_ptr(), data_length: id.len() },
            group: strings::view(""),
            rank,
            count,
        };
        let mut channel = std::ptr::null_mut();
        // SAFETY: a live device, parameters that live during the call, and a place for the result.
        unsafe {
            iree!(raw::iree_hal_channel_create(rig.device.as_ptr(), QUEUE_AFFINITY_ANY, params, &raw mut channel))
        }?;
        Ok(Self(channel))
    }

    fn split(&self, color: i32, key: i32) -> Self {
        let mut channel = std::ptr::null_mut();
        // SAFETY: a live channel and a place for the result.
        unsafe { iree!(raw::iree_hal_channel_split(self.0, color, key, 0, &raw mut channel)) }.expect("a split");
        Self(channel)
    }

    fn rank_and_count(&self) -> (i32, i32) {
        let (mut rank, mut count) = (0, 0);
        // SAFETY: a live channel and places for the results.
        unsafe { raw::iree_hal_channel_query_rank_and_count(self.0, &raw mut rank, &raw mut count) };
        (rank, count)
    }
}

/// The packed word of an operation.
fn op(kind: u32, reduction: u32, element: u32) -> raw::iree_hal_collective_op_t {
    raw::iree_hal_collective_op_t { packed: kind | reduction << 8 | element << 16 }
}

fn sum_of_words() -> raw::iree_hal_collective_op_t {
    op(
        raw::IREE_HAL_COLLECTIVE_KIND_ALL_REDUCE,
        raw::IREE_HAL_COLLECTIVE_REDUCTION_SUM,
        raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_32,
    )
}

fn collective(
    recording: &Recording,
    channel: &Channel,
    (op, param): (raw::iree_hal_collective_op_t, u32),
    send: raw::iree_hal_buffer_ref_t,
    receive: raw::iree_hal_buffer_ref_t,
    count: usize,
) -> Result<()> {
    // SAFETY: live objects.
    unsafe {
        iree!(raw::iree_hal_command_buffer_collective(recording.as_ptr(), channel.0, op, param, send, receive, count))
    }
}

/// A device for each rank, and its channel.
fn ranks(id: &str, count: i32, options: &[(&str, &str)]) -> Vec<(Rig, Channel)> {
    let each = |rank| {
        let rig = Rig::with(options);
        let channel = Channel::create(&rig, id, rank, count).unwrap();
        (rig, channel)
    };
    (0..count).map(each).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Memory of the GPU that the host cannot map, filled with [`UNTOUCHED`].
fn device_buffer(rig: &Rig, size: usize) -> BufferRef {
    let ready = rig.semaphore();
    let usage = raw::IREE_HAL_BUFFER_USAGE_DISPATCH_STORAGE | raw::IREE_HAL_BUFFER_USAGE_TRANSFER;
    let buffer = rig.try_buffer(raw::IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, usage, size).unwrap();
    rig.fill(1, &[], &[(&ready, 1)], &buffer, (0, size), &[UNTOUCHED]).unwrap();
    wait(&ready, 1).unwrap();
    buffer
}

/// The bytes of memory that the host cannot map.
fn fetch(rig: &Rig, buffer: &BufferRef, size: usize) -> Vec<u8> {
    let (host, copied) = (rig.buffer(size), rig.semaphore());
    rig.copy(1, &[], &[(&copied, 1)], (buffer, 0), (&host, 0), size).unwrap();
    wait(&copied, 1).unwrap();
    rig.read(&host, 0, size)
}

/// Commands before, between and behind two reductions, of which each depends on the last, in memory of the GPU;
/// executed three times in a row without waits on the host, with the result of one execution as the input of the next.
fn reduce_between_commands(options: &[(&str, &str)], id: &str, mode: Mode, affinity: u64) {
    const COUNT: usize = 1000;
    const BYTES: usize = 4 * COUNT;
    let ranks = ranks(id, 3, options);
    let run = |(rig, channel): &(Rig, Channel)| {
        let (input, output) = (device_buffer(rig, BYTES), device_buffer(rig, BYTES + 2 * GUARD));
        let recording = Recording::begin_on(rig, affinity, mode, 2);
        let output_range = indirect(1, GUARD, BYTES);
        recording.fill(indirect(0, 0, BYTES), 1 + channel.rank_and_count().0 as u8).unwrap();
        recording.barrier();
        collective(&recording, channel, (sum_of_words(), 0), indirect(0, 0, BYTES), output_range, COUNT).unwrap();
        recording.barrier();
        recording.copy(output_range, indirect(0, 0, BYTES)).unwrap();
        recording.barrier();
        // In place.
        collective(&recording, channel, (sum_of_words(), 0), indirect(0, 0, BYTES), indirect(0, 0, BYTES), COUNT)
            .unwrap();
        recording.barrier();
        recording.copy(indirect(0, 0, BYTES), output_range).unwrap();
        recording.end();
        let done = rig.semaphore();
        let executions = if mode == Mode::OneShot { 1 } else { 3 };
        for value in 1..=executions {
            let bindings = [(&input, 0, BYTES), (&output, 0, BYTES + 2 * GUARD)];
            recording.execute(rig, affinity, &[(&done, value - 1)], &[(&done, value)], &bindings).unwrap();
        }
        if mode == Mode::OneShot {
            let bindings = [(&input, 0, BYTES), (&output, 0, BYTES + 2 * GUARD)];
            let again = recording.execute(rig, affinity, &[], &[], &bindings);
            assert_eq!(again.unwrap_err().code(), Code::FAILED_PRECONDITION);
        }
        (done, executions, output)
    };
    let started: Vec<_> = ranks.iter().map(run).collect();
    for ((rig, _), (done, value, output)) in ranks.iter().zip(&started) {
        wait(done, *value).unwrap();
        let bytes = fetch(rig, output, BYTES + 2 * GUARD);
        let (before, rest) = bytes.split_at(GUARD);
        let (result, after) = rest.split_at(BYTES);
        // 1 + 2 + 3 in each byte, three times.
        assert!(result.iter().all(|byte| *byte == 18), "{result:?}");
        assert!(before.iter().chain(after).all(|byte| *byte == UNTOUCHED), "bytes around the buffer are written");
    }
}

#[test]
fn reductions_are_ordered_among_commands() {
    reduce_between_commands(&[], "ordered", Mode::Reusable, 1);
    reduce_between_commands(&[], "ordered once", Mode::OneShot, QUEUE_AFFINITY_ANY);
    let four = [("hardware_queues_per_gpu", "4")];
    reduce_between_commands(&four, "ordered on four queues", Mode::Unvalidated, QUEUE_AFFINITY_ANY);
    let streams = [("command_buffer_mode", "pm4"), ("force_wait_barrier_defer", "true")];
    reduce_between_commands(&streams, "ordered streams", Mode::Unretained, 2);
}

/// Where caches are modelled and packets that nothing orders are held back, a missing fence or wait gives wrong
/// results.
#[test]
fn reductions_are_ordered_with_caches_on() {
    for seed in 1..=4 {
        let output = std::process::Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", "reductions_are_ordered_among_commands"])
            .envs([("HSA_SIM_MEMORY", "strict"), ("HSA_SIM_SEED", &seed.to_string())])
            .output()
            .expect("a process of its own");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "seed {seed}: {said}");
    }
}

#[test]
fn queue_allocated_and_mapped_memory_is_exchanged() {
    let ranks = ranks("memory", 2, &[]);
    let run = |(rig, channel): &(Rig, Channel)| {
        let (allocated, filled, done) = (rig.semaphore(), rig.semaphore(), rig.semaphore());
        let size = 9 << 20;
        let input = rig.alloca(1, &[], &[(&allocated, 1)], size).unwrap();
        let output = rig.buffer(size);
        rig.fill(1, &[(&allocated, 1)], &[(&filled, 1)], &input, (0, size), &[channel.rank_and_count().0 as u8 + 1])
            .unwrap();
        let recording = Recording::begin(rig, Mode::OneShot, 0);
        // The other rank's bytes: to it and from it.
        let other = 1 - channel.rank_and_count().0 as u32;
        let exchange = op(raw::IREE_HAL_COLLECTIVE_KIND_SEND_RECV, 0, raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_8);
        let (send, receive) = (direct(&input, 0, size), direct(&output, 0, WHOLE_BUFFER));
        collective(&recording, channel, (exchange, other | other << 16), send, receive, size).unwrap();
        recording.end();
        recording.execute(rig, 1, &[(&filled, 1)], &[(&done, 1)], &[]).unwrap();
        (done, output, input)
    };
    let started: Vec<_> = ranks.iter().map(run).collect();
    for (rank, ((rig, _), (done, output, _))) in ranks.iter().zip(&started).enumerate() {
        wait(done, 1).unwrap();
        let bytes = rig.read(output, 0, 9 << 20);
        assert!(bytes.iter().all(|byte| *byte == 2 - rank as u8), "of more than one piece of staging memory");
    }
}

#[test]
fn a_group_has_several_operations_and_channels() {
    let ranks = ranks("group", 4, &[]);
    let halves: Vec<_> =
        ranks.iter().enumerate().map(|(rank, (_, channel))| channel.split(rank as i32 / 2, -(rank as i32))).collect();
    assert_eq!(halves[1].rank_and_count(), (0, 2), "the higher rank has the lower key");
    let run = |(rank, (rig, channel)): (usize, &(Rig, Channel))| {
        let (buffer, done) = (rig.buffer(64), rig.semaphore());
        rig.write(&buffer, 0, &[(1 << rank) as u8; 64]);
        let recording = Recording::begin(rig, Mode::Unvalidated, 0);
        let range = |offset| direct(&buffer, offset, 4);
        collective(&recording, channel, (sum_of_words(), 0), range(0), range(0), 1).unwrap();
        collective(&recording, &halves[rank], (sum_of_words(), 0), range(4), range(4), 1).unwrap();
        collective(&recording, channel, (sum_of_words(), 0), range(8), range(8), 1).unwrap();
        // A message from rank 0 to rank 1 of each half, which validation would refuse: it wants both buffers.
        let own = halves[rank].rank_and_count().0;
        let kind = if own == 0 { raw::IREE_HAL_COLLECTIVE_KIND_SEND } else { raw::IREE_HAL_COLLECTIVE_KIND_RECV };
        let none = indirect(0, 0, 0);
        let (send, receive) = if own == 0 { (range(12), none) } else { (none, range(16)) };
        let message = op(kind, 0, raw::IREE_HAL_COLLECTIVE_ELEMENT_TYPE_UINT_32);
        collective(&recording, &halves[rank], (message, 1 - own as u32), send, receive, 1).unwrap();
        recording.end();
        recording.execute(rig, 1, &[], &[(&done, 1)], &[]).unwrap();
        (buffer, done)
    };
    let started: Vec<_> = ranks.iter().enumerate().map(run).collect();
    for (rank, ((rig, _), (buffer, done))) in ranks.iter().zip(&started).enumerate() {
        wait(done, 1).unwrap();
        let half = if rank < 2 { 0x0303_0303 } else { 0x0c0c_0c0c };
        let own = 0x0101_0101 << rank;
        // Rank 0 of a half is its higher rank.
        let received = if rank % 2 == 0 { own << 1 } else { own };
        assert_eq!(
            words(&rig.read(buffer, 0, 24)),
            [0x0f0f_0f0f, half, 0x0f0f_0f0f, own, received, own],
            "rank {rank}"
        );
    }
}

/// Pages of memory that the process uses.
fn resident_pages() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("the system tells");
    text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages")
}

/// In a process of its own, whose memory no other test uses.
#[test]
fn programs_may_make_channels_at_every_call() {
    passes_alone("programs_may_make_channels_at_every_call", "gfx1100", make_channels_at_every_call);
}

fn make_channels_at_every_call() {
    let ranks = ranks("calls", 2, &[]);
    let mut pages = 0;
    for call in 0..200 {
        if call == 50 {
            pages = resident_pages();
        }
        let each = |(rank, (rig, _)): (usize, &(Rig, Channel))| {
            let channel = Channel::create(rig, "calls", rank as i32, 2).unwrap();
            let part = channel.split(0, 1 - rank as i32);
            let (buffer, done) = (rig.buffer(4), rig.semaphore());
            rig.write(&buffer, 0, &[call as u8 + rank as u8, 0, 0, 0]);
            (part, buffer, done)
        };
        let made: Vec<_> = ranks.iter().enumerate().map(each).collect();
        for ((rig, _), (part, buffer, done)) in ranks.iter().zip(&made) {
            let recording = Recording::begin(rig, Mode::OneShot, 0);
            let range = direct(buffer, 0, 4);
            collective(&recording, part, (sum_of_words(), 0), range, range, 1).unwrap();
            recording.end();
            recording.execute(rig, 1, &[], &[(done, 1)], &[]).unwrap();
        }
        for ((rig, _), (_, buffer, done)) in ranks.iter().zip(&made) {
            wait(done, 1).unwrap();
            assert_eq!(rig.read(buffer, 0, 1), [(2 * call + 1) as u8]);
        }
    }
    // Each communicator has a thread for operations and one for splits; 200 of them would show.
    let threads = std::fs::read_dir("/proc/self/task").expect("threads are listed");
    let ours = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    let ours = ours.filter(|name| name.starts_with("amdgpu_rs-coll") || name.starts_with("amdgpu_rs-split")).count();
    assert!(ours <= 8, "{ours} threads of collectives");
    let growth = resident_pages() - pages;
    println!("{growth} pages more, {ours} threads");
    assert!(growth < 256, "150 calls have kept {growth} pages of memory");
}

/// Each of two threads makes a rank on the same device, and both wait for each other.
#[test]
fn two_ranks_of_one_device_meet() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    let id = format!("tcp://{address}");
    let rig = Rig::with(&[("collective_timeout", "20")]);
    let channels = std::thread::scope(|scope| {
        let connect = |rank| {
            scope.spawn({
                let (rig, id) = (&rig, &id);
                move || Channel::create(rig, id, rank, 2).unwrap()
            })
        };
        [0, 1].map(connect).map(|rank| rank.join().expect("a channel"))
    });
    let buffers = [1, 2].map(|value| {
        let buffer = rig.buffer(4);
        rig.write(&buffer, 0, &[value, 0, 0, 0]);
        buffer
    });
    let done = [0, 1].map(|rank| reduce(&rig, &channels[rank], &buffers[rank], &[]));
    done.iter().for_each(|done| wait(done, 1).unwrap());
    assert_eq!(buffers.map(|buffer| rig.read(&buffer, 0, 1)), [[3], [3]]);
}

/// Executes one reduction on a rank.
fn reduce(rig: &Rig, channel: &Channel, buffer: &BufferRef, waits: &[(&SemaphoreRef, u64)]) -> SemaphoreRef {
    let (recording, done) = (Recording::begin(rig, Mode::OneShot, 0), rig.semaphore());
    let range = direct(buffer, 0, 4);
    collective(&recording, channel, (sum_of_words(), 0), range, range, 1).unwrap();
    recording.end();
    recording.execute(rig, 1, waits, &[(&done, 1)], &[]).unwrap();
    done
}

#[test]
fn a_failed_wait_of_one_rank_fails_all() {
    let ranks = ranks("fails", 3, &[]);
    let buffers: Vec<_> = ranks.iter().map(|(rig, _)| rig.buffer(4)).collect();
    let broken = ranks[2].0.semaphore();
    let [first, second, third] = [0, 1, 2].map(|rank: usize| {
        let (rig, channel) = &ranks[rank];
        let waits: &[_] = if rank == 2 { &[(&broken, 1)] } else { &[] };
        reduce(rig, channel, &buffers[rank], waits)
    });
    broken.borrow().fail(status!(DATA_LOSS, "on purpose"));
    assert_eq!(failure(&third, 1).code(), Code::DATA_LOSS);
    for done in [&first, &second] {
        let said = failure(done, 1).to_string();
        assert!(said.contains("rank 2"), "{said}");
    }
    let later = reduce(&ranks[0].0, &ranks[0].1, &buffers[0], &[]);
    assert!(failure(&later, 1).to_string().contains("rank 2"), "the group stays failed");
}

#[test]
fn a_device_that_goes_ends_what_waits() {
    let mut ranks = ranks("goes", 2, &[]);
    let (buffers, [first, second]) = {
        let buffers = [ranks[0].0.buffer(4), ranks[1].0.buffer(4)];
        // The rank's own wait is reached; the other rank has not come.
        let first = reduce(&ranks[0].0, &ranks[0].1, &buffers[0], &[]);
        let gate = ranks[1].0.semaphore();
        let second = reduce(&ranks[1].0, &ranks[1].1, &buffers[1], &[(&gate, 1)]);
        (buffers, [first, second])
    };
    drop(ranks.pop());
    assert_eq!(failure(&second, 1).code(), Code::CANCELLED);
    let said = failure(&first, 1).to_string();
    assert!(said.contains("rank 1"), "{said}");
    drop(buffers);
}

#[test]
fn what_is_wrong_is_refused_by_name() {
    let rig = Rig::new();
    let refused = |result: Result<()>, code: Code, part: &str| {
        let status = result.expect_err("must be refused");
        assert!(status.code() == code && status.to_string().contains(part), "{status}");
    };
    refused(Channel::create(&rig, "", -1, -1).map(drop), Code::FAILED_PRECONDITION, "MASTER_ADDR");
    refused(Channel::create(&rig, "id", -1, 2).map(drop), Code::INVALID_ARGUMENT, "rank and count");
    refused(Channel::create(&rig, "id", 2, 2).map(drop), Code::INVALID_ARGUMENT, "rank 2 of 2");
    let channel = Channel::create(&rig, "wrong", 0, 2).unwrap();
    refused(Channel::create(&Rig::new(), "wrong", 0, 2).map(drop), Code::ALREADY_EXISTS, "taken by another device");
    refused(Channel::create(&Rig::new(), "wrong", 1, 3).map(drop), Code::INVALID_ARGUMENT, "3 ranks");

    let buffer = rig.buffer(64);
    let recording = Recording::begin(&rig, Mode::Unvalidated, 0);
    let word = direct(&buffer, 0, 4);
    let record = |op, param| collective(&recording, &channel, (op, param), word, word, 1);
    refused(record(op(9, 0, 0), 0), Code::INVALID_ARGUMENT, "kind 9");
    refused(record(op(0, 0, 12), 0), Code::INVALID_ARGUMENT, "element type 12");
    refused(record(op(1, 0, 0), 0), Code::INVALID_ARGUMENT, "AllReduce");
    refused(record(op(0, 1, 0), 0), Code::INVALID_ARGUMENT, "AllGather");
    // The element count needs more bytes than the buffer has: found when it is executed.
    collective(&recording, &channel, (sum_of_words(), 0), word, word, 2).unwrap();
    recording.end();
    let done = rig.semaphore();
    refused(recording.execute(&rig, 1, &[], &[(&done, 1)], &[]), Code::OUT_OF_RANGE, "needs 8 bytes");
    assert_eq!(done.borrow().query().unwrap(), 0, "nothing was submitted");
}
