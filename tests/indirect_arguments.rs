// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Dispatches whose arguments are in a buffer, in queues and in command buffers, with workgroup counts known and in a
//! buffer too.

#[path = "support/hold.rs"]
mod hold;
mod support;

use amdgpu_rs::ffi::{Code, QUEUE_AFFINITY_ANY, WHOLE_BUFFER, raw};
use hold::{Hold, pass_time};
use support::recording::{Mode, Recording, direct, indirect};
use support::{BufferRef, ExecutableRef, Rig, wait, workgroups};

/// A kernel that reports its launch; `testdata/kernels.c` has the command that built it.
const ARGUMENTS: &[u8] = include_bytes!("testdata/kernels.gfx1100.co");

const DYNAMIC: u32 = raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_ARGUMENTS;
const STATIC: u32 = raw::IREE_HAL_DISPATCH_FLAG_STATIC_INDIRECT_ARGUMENTS;
const DYNAMIC_COUNT: u32 = raw::IREE_HAL_DISPATCH_FLAG_DYNAMIC_INDIRECT_PARAMETERS;

/// Bytes of the kernargs of `report`: a pointer, an int, padding and 256 bytes of implicit arguments.
const SIZE: usize = 272;

/// Where its implicit arguments begin, with the number of workgroups in x.
const IMPLICIT: usize = 16;

/// Values that a workgroup of `report` stores.
type Report = [u32; 2];

struct Setup {
    rig: Rig,
    executable: ExecutableRef,
    /// Target of the kernel, with room for eight workgroups.
    target: BufferRef,
}

impl Setup {
    fn new() -> Self {
        let rig = Rig::new();
        let executable = rig.executable(ARGUMENTS).unwrap();
        let target = rig.buffer(8 * size_of::<Report>());
        rig.write(&target, 0, &[0xEE; 8 * size_of::<Report>()]);
        Self { rig, executable, target }
    }

    fn kernel(&self) -> (&ExecutableRef, &str) {
        (&self.executable, "report")
    }

    /// A buffer that kernels may take parameters from.
    fn parameters(&self, size: usize) -> BufferRef {
        self.rig.buffer_for(
            raw::IREE_HAL_BUFFER_USAGE_DEFAULT | raw::IREE_HAL_BUFFER_USAGE_DISPATCH_INDIRECT_PARAMETERS,
            size,
        )
    }

    /// The kernargs of a launch that reports `report`, the second of which is the implicit argument's value.
    fn kernargs(&self, [value, count]: Report) -> [u8; SIZE] {
        let mut kernargs = [0; SIZE];
        kernargs[..8].copy_from_slice(&self.rig.device_address(&self.target).to_le_bytes());
        kernargs[8..12].copy_from_slice(&value.to_le_bytes());
        kernargs[IMPLICIT..IMPLICIT + 4].copy_from_slice(&count.to_le_bytes());
        kernargs
    }

    /// Reports of the first `groups` workgroups. The others must not have reported.
    fn reports(&self, groups: usize) -> Vec<Report> {
        let bytes = self.rig.read(&self.target, 0, 8 * size_of::<Report>());
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let reports: Vec<Report> = bytes.chunks(8).map(|pair| [word(&pair[..4]), word(&pair[4..])]).collect();
        assert!(reports[groups..].iter().all(|report| *report == [0xEEEE_EEEE; 2]), "{reports:x?}");
        reports[..groups].to_vec()
    }
}

/// Workgroup counts where `reference` says.
fn counts_in(reference: raw::iree_hal_buffer_ref_t) -> raw::iree_hal_dispatch_config_t {
    let mut config = workgroups(0);
    config.workgroup_count_ref = reference;
    config
}

#[test]
fn a_queue_dispatch_takes_its_arguments_from_a_buffer() {
    for (flags, value) in [(STATIC, 5), (DYNAMIC, 6), (STATIC | DYNAMIC, 7)] {
        let setup = Setup::new();
        let (rig, arguments, done) = (&setup.rig, setup.parameters(64 + SIZE), setup.rig.semaphore());
        rig.write(&arguments, 64, &setup.kernargs([value, 9]));
        // Constants are ignored, and the implicit arguments are not written: there are 2 workgroups, not 9.
        let reference = direct(&arguments, 64, SIZE);
        let constants = [0xFF; 4];
        rig.dispatch_with(1, &[], &[(&done, 1)], setup.kernel(), workgroups(2), &constants, &[reference], flags)
            .unwrap();
        wait(&done, 1).unwrap();
        assert_eq!(setup.reports(2), [[value, 9]; 2]);
        assert_eq!(rig.read(&arguments, 64, SIZE), setup.kernargs([value, 9]), "the buffer is the caller's");
    }
}

/// The arguments are read after the dispatch's wait for a copy, which was itself submitted behind a gate. They are
/// kept until then.
#[test]
fn arguments_are_those_that_an_earlier_copy_wrote() {
    for queue in [1, 2] {
        let setup = Setup::new();
        let (rig, arguments, source) = (&setup.rig, setup.parameters(SIZE), setup.rig.buffer(SIZE));
        let (gate, done) = (rig.semaphore(), rig.semaphore());
        rig.write(&arguments, 0, &setup.kernargs([1, 1]));
        rig.write(&source, 0, &setup.kernargs([2, 3]));
        rig.copy(queue, &[(&gate, 1)], &[(&done, 1)], (&source, 0), (&arguments, 0), SIZE).unwrap();
        let reference = direct(&arguments, 0, WHOLE_BUFFER);
        let (waits, signals) = ([(&done, 1)], [(&done, 2)]);
        rig.dispatch_with(1, &waits, &signals, setup.kernel(), workgroups(1), &[], &[reference], DYNAMIC).unwrap();
        drop((arguments, source));
        gate.borrow().signal(1).unwrap();
        wait(&done, 2).unwrap();
        assert_eq!(setup.reports(1), [[2, 3]]);
    }
}

/// Dynamic arguments and counts are those of the moment when the dispatch starts, not when it was submitted.
#[test]
fn dynamic_arguments_may_change_until_the_dispatch_starts() {
    let setup = Setup::new();
    let (rig, parameters, done) = (&setup.rig, setup.parameters(SIZE + 16), setup.rig.semaphore());
    let write = |report, count: u32| {
        let counts = [count, 1, 1].map(u32::to_le_bytes).concat();
        rig.write(&parameters, 0, &[setup.kernargs(report).as_slice(), &counts].concat());
    };
    write([1, 1], 1);
    let hold = Hold::new(rig, ARGUMENTS, 1, &[(&done, 1)]);
    let config = counts_in(direct(&parameters, SIZE, 12));
    let reference = direct(&parameters, 0, SIZE);
    let (waits, signals) = ([(&done, 1)], [(&done, 2)]);
    rig.dispatch_with(1, &waits, &signals, setup.kernel(), config, &[], &[reference], DYNAMIC | DYNAMIC_COUNT).unwrap();
    write([2, 3], 4);
    drop(hold);
    wait(&done, 2).unwrap();
    assert_eq!(setup.reports(4), [[2, 3]; 4]);
}

/// Epochs of a queue are counted, so the first to be complete is the first that was submitted, whatever starts early.
#[test]
fn a_dispatch_that_nothing_orders_completes_after_what_is_before_it() {
    let setup = Setup::new();
    let (rig, parameters) = (&setup.rig, setup.parameters(12));
    let (held, done) = (rig.semaphore(), rig.semaphore());
    rig.write(&parameters, 0, &[2_u32, 1, 1].map(u32::to_le_bytes).concat());
    let hold = Hold::new(rig, ARGUMENTS, 1, &[(&held, 1)]);
    let (config, target) = (counts_in(direct(&parameters, 0, 12)), direct(&setup.target, 0, WHOLE_BUFFER));
    let (signals, constants) = ([(&done, 1)], 5_u32.to_le_bytes());
    rig.dispatch_with(1, &[], &signals, setup.kernel(), config, &constants, &[target], DYNAMIC_COUNT).unwrap();
    pass_time(rig, 2);
    assert_eq!(held.borrow().query().unwrap(), 0, "its kernel runs");
    drop(hold);
    wait(&done, 1).unwrap();
    wait(&held, 1).unwrap();
    assert_eq!(setup.reports(2), [[5, 2]; 2]);
}

#[test]
fn counts_and_arguments_both_come_from_buffers() {
    let setup = Setup::new();
    let (rig, parameters, done) = (&setup.rig, setup.parameters(SIZE + 16), setup.rig.semaphore());
    rig.write(&parameters, 0, &setup.kernargs([4, 11]));
    rig.write(&parameters, SIZE + 4, &[3_u32, 1, 1].map(u32::to_le_bytes).concat());
    let config = counts_in(direct(&parameters, SIZE + 4, 12));
    let reference = direct(&parameters, 0, SIZE);
    let signals = [(&done, 1)];
    rig.dispatch_with(1, &[], &signals, setup.kernel(), config, &[], &[reference], DYNAMIC | DYNAMIC_COUNT).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(setup.reports(3), [[4, 11]; 3]);
}

/// A copy, a barrier and the dispatch that takes the copied arguments, every way of recording and referring to the
/// buffer.
#[test]
fn a_recorded_dispatch_reads_its_arguments_after_the_barrier_before_it() {
    for mode in [Mode::OneShot, Mode::Reusable, Mode::Unvalidated] {
        for (is_slot, counted) in [(false, false), (true, false), (false, true), (true, true)] {
            let setup = Setup::new();
            let (rig, parameters, done) = (&setup.rig, setup.parameters(SIZE + 32), setup.rig.semaphore());
            let source = rig.buffer(SIZE + 16);
            rig.write(&parameters, 16, &setup.kernargs([1, 1]));
            let counts = [2_u32, 1, 1].map(u32::to_le_bytes).concat();
            rig.write(&source, 0, &[setup.kernargs([2, 3]).as_slice(), &counts].concat());
            // The slot is bound from byte 16 on.
            let place = |offset, length| match is_slot {
                true => indirect(0, offset, length),
                false => direct(&parameters, 16 + offset, length),
            };
            let recording = Recording::begin(rig, mode, 1);
            recording.copy(direct(&source, 0, SIZE + 12), place(0, SIZE + 12)).unwrap();
            recording.barrier();
            let (config, flags) =
                if counted { (counts_in(place(SIZE, 12)), DYNAMIC | DYNAMIC_COUNT) } else { (workgroups(2), DYNAMIC) };
            recording.dispatch(setup.kernel(), config, &[], &[place(0, SIZE)], flags).unwrap();
            recording.end();
            let table = [(&parameters, 16, SIZE + 16)];
            recording.execute(rig, QUEUE_AFFINITY_ANY, &[], &[(&done, 1)], &table).unwrap();
            drop((recording, source));
            wait(&done, 1).unwrap();
            assert_eq!(setup.reports(2), [[2, 3]; 2], "{mode:?}, slot: {is_slot}, counted: {counted}");
        }
    }
}

/// Executions of one recording that are in flight together, each with arguments of its own.
#[test]
fn binding_tables_give_each_execution_its_arguments() {
    let setup = Setup::new();
    let (rig, done) = (&setup.rig, setup.rig.semaphore());
    let recording = Recording::begin(rig, Mode::Reusable, 2);
    recording.dispatch(setup.kernel(), workgroups(1), &[], &[indirect(1, 16, SIZE)], STATIC).unwrap();
    recording.barrier();
    recording.dispatch(setup.kernel(), workgroups(1), &[], &[indirect(0, 0, WHOLE_BUFFER)], STATIC).unwrap();
    recording.end();
    let (copies, empty) = (rig.buffer(8 * 8), setup.parameters(SIZE));
    rig.write(&empty, 0, &setup.kernargs([0, 0]));
    for value in 1..=8_u32 {
        let arguments = setup.parameters(SIZE + 32);
        rig.write(&arguments, 32, &setup.kernargs([value, 100 + value]));
        let point = 2 * u64::from(value) - 1;
        let waits = [(&done, point - 1)];
        let table = [(&arguments, 32, SIZE), (&empty, 0, SIZE + 16)];
        let refused = recording.execute(rig, 1, &waits, &[(&done, point)], &table).expect_err("an end past its buffer");
        assert_eq!(refused.code(), Code::OUT_OF_RANGE, "{refused}");
        let spare = setup.parameters(SIZE + 16);
        rig.write(&spare, 16, &setup.kernargs([0, 0]));
        recording.execute(rig, 1, &waits, &[(&done, point)], &[table[0], (&spare, 0, SIZE + 16)]).unwrap();
        let to = 8 * (value as usize - 1);
        rig.copy(1, &[(&done, point)], &[(&done, point + 1)], (&setup.target, 0), (&copies, to), 8).unwrap();
    }
    wait(&done, 16).unwrap();
    let expected: Vec<u8> = (1..=8_u32).flat_map(|value| [value, 100 + value]).flat_map(u32::to_le_bytes).collect();
    assert_eq!(rig.read(&copies, 0, 64), expected);
}

/// Arguments in memory that a queue allocates, which only the device sees.
#[test]
fn arguments_may_be_in_queue_allocated_memory() {
    let setup = Setup::new();
    let (rig, source, done) = (&setup.rig, setup.rig.buffer(SIZE), setup.rig.semaphore());
    rig.write(&source, 0, &setup.kernargs([21, 22]));
    let arguments = rig.alloca(1, &[], &[(&done, 1)], SIZE).unwrap();
    rig.copy(1, &[(&done, 1)], &[(&done, 2)], (&source, 0), (&arguments, 0), SIZE).unwrap();
    let reference = direct(&arguments, 0, SIZE);
    let (waits, signals) = ([(&done, 2)], [(&done, 3)]);
    rig.dispatch_with(1, &waits, &signals, setup.kernel(), workgroups(1), &[], &[reference], DYNAMIC).unwrap();
    wait(&done, 3).unwrap();
    assert_eq!(setup.reports(1), [[21, 22]]);
}

#[test]
fn unusable_arguments_are_refused() {
    let setup = Setup::new();
    let (rig, done) = (&setup.rig, setup.rig.semaphore());
    let (arguments, short) = (setup.parameters(SIZE + 64), setup.parameters(SIZE - 8));
    let storage = rig.buffer(SIZE);
    let nothing = indirect(0, 0, SIZE);
    let fine = direct(&arguments, 0, SIZE);
    const DIRECT: u32 = raw::IREE_HAL_DISPATCH_FLAG_CUSTOM_DIRECT_ARGUMENTS;
    let cases: &[(&str, &[raw::iree_hal_buffer_ref_t], u32, Code)] = &[
        ("misaligned", &[direct(&arguments, 8, SIZE)], DYNAMIC, Code::INVALID_ARGUMENT),
        ("too short", &[direct(&arguments, 0, SIZE - 1)], STATIC, Code::INVALID_ARGUMENT),
        ("a short buffer", &[direct(&short, 0, WHOLE_BUFFER)], DYNAMIC, Code::INVALID_ARGUMENT),
        ("past the end", &[direct(&arguments, 80, SIZE)], DYNAMIC, Code::OUT_OF_RANGE),
        ("not for parameters", &[direct(&storage, 0, SIZE)], DYNAMIC, Code::PERMISSION_DENIED),
        ("none", &[], STATIC, Code::INVALID_ARGUMENT),
        ("two", &[fine, fine], STATIC, Code::INVALID_ARGUMENT),
        ("direct and indirect", &[fine], DYNAMIC | DIRECT, Code::INVALID_ARGUMENT),
    ];
    for mode in [Mode::Reusable, Mode::Unvalidated] {
        let recording = Recording::begin(rig, mode, 0);
        for (what, bindings, flags, code) in cases {
            let refused = recording.dispatch(setup.kernel(), workgroups(1), &[], bindings, *flags).expect_err(what);
            assert_eq!(refused.code(), *code, "{what}: {refused}");
        }
        recording.end();
    }
    for (what, bindings, flags, code) in
        cases.iter().chain([&("no buffer", [nothing].as_slice(), DYNAMIC, Code::INVALID_ARGUMENT)])
    {
        let signals = [(&done, 1)];
        let refused =
            rig.dispatch_with(1, &[], &signals, setup.kernel(), workgroups(1), &[], bindings, *flags).expect_err(what);
        assert_eq!(refused.code(), *code, "{what}: {refused}");
    }
    // Properties that only the binding table gives.
    let recording = Recording::begin(rig, Mode::Reusable, 1);
    recording.dispatch(setup.kernel(), workgroups(1), &[], &[indirect(0, 0, WHOLE_BUFFER)], DYNAMIC).unwrap();
    recording.end();
    let tables = [
        (&arguments, 8, SIZE, Code::INVALID_ARGUMENT),
        (&arguments, 0, SIZE - 1, Code::OUT_OF_RANGE),
        (&short, 0, WHOLE_BUFFER, Code::OUT_OF_RANGE),
        (&storage, 0, SIZE, Code::PERMISSION_DENIED),
    ];
    for (buffer, offset, length, code) in tables {
        let refused = recording.execute(rig, 1, &[], &[(&done, 1)], &[(buffer, offset, length)]).expect_err("unusable");
        assert_eq!(refused.code(), code, "{refused}");
    }
    assert_eq!(done.borrow().query().unwrap(), 0, "refused calls leave their semaphores alone");
    assert_eq!(setup.reports(0), [[0; 2]; 0]);
}

/// Workgroup counts in a buffer that is not for them.
#[test]
fn counts_in_a_buffer_that_is_not_for_parameters_are_refused() {
    let setup = Setup::new();
    let (rig, done, counts) = (&setup.rig, setup.rig.semaphore(), setup.rig.buffer(12));
    let target = direct(&setup.target, 0, WHOLE_BUFFER);
    let (constants, config) = (7_u32.to_le_bytes(), counts_in(direct(&counts, 0, 12)));
    let signals = [(&done, 1)];
    let refused = rig
        .dispatch_with(1, &[], &signals, setup.kernel(), config, &constants, &[target], DYNAMIC_COUNT)
        .expect_err("not for parameters");
    assert_eq!(refused.code(), Code::PERMISSION_DENIED, "{refused}");
}

/// Direct arguments: the constants are the kernargs, and bindings are ignored.
#[test]
fn direct_arguments_ignore_bindings() {
    let setup = Setup::new();
    let (rig, done) = (&setup.rig, setup.rig.semaphore());
    let ignored = direct(&setup.target, 1 << 20, WHOLE_BUFFER);
    let kernargs = setup.kernargs([31, 32]);
    let flags = raw::IREE_HAL_DISPATCH_FLAG_CUSTOM_DIRECT_ARGUMENTS;
    let signals = [(&done, 1)];
    rig.dispatch_with(1, &[], &signals, setup.kernel(), workgroups(1), &kernargs, &[ignored], flags).unwrap();
    wait(&done, 1).unwrap();
    assert_eq!(setup.reports(1), [[31, 32]]);
}
