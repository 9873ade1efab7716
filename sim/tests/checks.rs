// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Effects of `HSA_SIM_CHECK` and related variables on a process. Each case runs in a process of its own; the tests
//! check its standard error.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::code::*;
use common::pm4::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::{
    hsa_memory_copy, hsa_sim_memory_part_begin, hsa_sim_memory_part_end, hsa_sim_memory_part_gap,
};

/// Environment variable with the case, in the processes of the cases.
const CASE: &str = "CHECKS_CASE";

/// Code object whose kernel `fill` has `s_nop n` instead of the wait for its arguments.
fn without_wait(n: u32) -> Vec<u8> {
    // s_waitcnt lgkmcnt(0), of which the kernel has one.
    let (wait, nop) = (0xbf89_fc07_u32.to_le_bytes(), (0xbf80_0000_u32 + n).to_le_bytes());
    let mut code = GFX11.to_vec();
    let at = code.windows(4).position(|bytes| bytes == wait).unwrap();
    code[at..at + 4].copy_from_slice(&nop);
    code
}

/// Fills memory twice with a kernel that does not wait for its arguments, or with one that does.
fn act(case: &str) {
    let hsa = Hsa::new();
    if case.starts_with("bounds") {
        return overrun_part(&hsa, case == "bounds");
    }
    if let Some(written) = case.strip_prefix("init-") {
        return count_numbers(&hsa, written);
    }
    if let Some(order) = case.strip_prefix("beside-") {
        return fill_beside(&hsa, order);
    }
    if let Some(between) = case.strip_prefix("commands-") {
        return fill_by_commands(&hsa, between);
    }
    if let Some(scope) = case.strip_prefix("scope-") {
        return count_in_memory(&hsa, scope);
    }
    let code = if case == "right" { GFX11.to_vec() } else { without_wait(0) };
    // Another kernel of the same name.
    let again = if case == "two" { without_wait(1) } else { code.clone() };
    let code = [code, again].map(|code| load_code(hsa.gpu(), &code).unwrap());
    let queue = Queue::new(hsa.gpu(), 64);
    let out = hsa.host_memory::<u32>(1000);
    let args = kernargs(&hsa, FillArgs { out, value: 7, count: 1000 });
    let done = signal(2);
    for code in &code {
        queue.submit(&code.packet("fill", 16, args, done));
    }
    if case == "fatal" {
        assert_eq!(queue.wait_error(), HsaStatus::ERROR_EXCEPTION);
    } else {
        wait_for(done, 0);
    }
}

/// Fills 64 dwords of a suballocation of 63. With the check `bounds` the queue stops there.
fn overrun_part(hsa: &Hsa, is_checked: bool) {
    hsa.handle_faults();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let out = hsa.host_memory::<u32>(1024);
    assert_eq!(hsa_sim_memory_part_gap() != 0, is_checked);
    // SAFETY: the memory stays allocated.
    unsafe {
        assert_eq!(hsa_sim_memory_part_begin(out.cast(), 252), HsaStatus::SUCCESS);
        let last = hsa_sim_memory_part_begin(out.add(64).cast(), 4096);
        assert_eq!(last, if is_checked { HsaStatus::ERROR_INVALID_ARGUMENT } else { HsaStatus::SUCCESS });
    }
    let done = signal(1);
    queue.submit(&code.packet("fill", 1, kernargs(hsa, FillArgs { out, value: 7, count: 63 }), done));
    wait_for(done, 0);
    let args = kernargs(hsa, FillArgs { out, value: 7, count: 64 });
    let again = signal(1);
    queue.submit(&code.packet("fill", 1, args, again));
    if is_checked {
        queue.wait_stopped(HsaStatus::ERROR_MEMORY_FAULT);
        let text = queue.fault();
        let place = "byte 252 of an allocation of 4096 bytes, 0 bytes past the end of a suballocation of 252 bytes";
        assert!(text.contains(place), "{text}");
    } else {
        wait_for(again, 0);
    }
    // SAFETY: the call takes any address.
    let end = || unsafe { hsa_sim_memory_part_end(out.cast_const().cast()) };
    assert_eq!(end(), HsaStatus::SUCCESS);
    assert_eq!(end(), if is_checked { HsaStatus::ERROR_INVALID_ALLOCATION } else { HsaStatus::SUCCESS });
}

/// Counts numbers in GPU memory, which are indices into LDS, after something has written them.
fn count_numbers(hsa: &Hsa, written: &str) {
    let shared = load_code(hsa.gpu(), include_bytes!("kernels/shared.gfx1100.co")).unwrap();
    let fill = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let numbers = allocate(hsa.pool(hsa.gpu(), HSA_GLOBAL_FLAG_COARSE_GRAINED), 1024).unwrap();
    let source = hsa.host_memory::<u32>(256);
    if written == "host" {
        allow_access(numbers, &[hsa.cpu]);
    }
    if matches!(written, "kernel" | "part") {
        let done = signal(1);
        let args = kernargs(hsa, FillArgs { out: numbers.cast(), value: 7, count: 256 });
        queue.submit(&fill.packet("fill", 4, args, done));
        wait_for(done, 0);
    }
    // SAFETY: both are as large, and no other code uses them.
    unsafe {
        if written == "copy" {
            assert_eq!(hsa_memory_copy(numbers, source.cast(), 1024), HsaStatus::SUCCESS);
        }
        if written == "part" {
            // It is somebody else's now.
            assert_eq!(hsa_sim_memory_part_begin(numbers.cast_const().byte_add(512), 512), HsaStatus::SUCCESS);
        }
    }
    let done = signal(1);
    let args = kernargs(hsa, [numbers.addr(), hsa.host_memory::<u32>(64).addr()]);
    let packet = shared.packet("histogram", 1, args, done);
    queue.submit(&KernelDispatchPacket { workgroup_size: [256, 1, 1], grid_size: [256, 1, 1], ..packet });
    wait_for(done, 0);
}

/// Makes gfx12's workgroups, of one dispatch or of two concurrent ones, count with atomics of the device's scope, or of
/// a compute unit's.
fn count_in_memory(hsa: &Hsa, case: &str) {
    let mut code = include_bytes!("kernels/shared.gfx1201.co").to_vec();
    if case.starts_with("unit") {
        // global_atomic_add_u32 v0, v1, s[2:3] scope:SCOPE_DEV, which the kernel has once; the scope is at bit 50.
        let add = [0xee0d_4002_u32, 0x0088_0000, 0].map(u32::to_le_bytes).concat();
        let at = code.windows(12).position(|bytes| bytes == add).unwrap();
        code[at + 6] &= !0xc;
    }
    let code = load_code(hsa.gpu(), &code).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let (numbers, counts) = (hsa.host_memory::<u32>(512), hsa.host_memory::<u32>(64));
    let args = kernargs(hsa, [numbers.addr(), counts.addr()]);
    let groups = if case.ends_with("two") { 1 } else { 2 };
    let done = signal(i64::from(3 - groups));
    for _ in 0..3 - groups {
        let packet = code.packet("histogram", 1, args, done);
        let header = header(HsaPacketType::KERNEL_DISPATCH, false);
        let (workgroup_size, grid_size) = ([256, 1, 1], [256 * groups, 1, 1]);
        let packet = KernelDispatchPacket { header, workgroup_size, grid_size, ..packet };
        queue.publish(queue.reserve(), &packet);
    }
    queue.ring(u64::from(2 - groups));
    wait_for(done, 0);
    assert_eq!(read(counts, 1), [512]);
}

/// Fills the same memory twice. Both packets are published before one of them begins, unless the host waits in between.
fn fill_beside(hsa: &Hsa, order: &str) {
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queues = [0; 2].map(|_| Queue::new(hsa.gpu(), 64));
    let out = hsa.host_memory::<u32>(2048);
    let [first, second] = [signal(1), signal(1)];
    let packet = |out: *mut u32, has_barrier_bit: bool, done: HsaSignal| KernelDispatchPacket {
        header: header(HsaPacketType::KERNEL_DISPATCH, has_barrier_bit),
        ..code.packet("fill", 16, kernargs(hsa, FillArgs { out, value: 7, count: 1000 }), done)
    };
    let other = if order == "elsewhere" { out.wrapping_add(1000) } else { out };
    let second_queue = if matches!(order, "queue" | "signal") { 1 } else { 0 };
    let publish = |queue: usize, packet: &KernelDispatchPacket| {
        let id = queues[queue].reserve();
        queues[queue].publish(id, packet);
    };
    publish(0, &packet(out, false, first));
    if order == "signal" {
        let id = queues[1].reserve();
        queues[1].publish(id, &barrier_and(&[first], HsaSignal::NULL));
    }
    if order == "host" {
        queues[0].ring(0);
        wait_for(first, 0);
    }
    publish(second_queue, &packet(other, order == "bit", second));
    queues[0].ring(if second_queue == 0 { 1 } else { 0 });
    if second_queue == 1 {
        queues[1].ring(if order == "signal" { 1 } else { 0 });
    }
    wait_for(first, 0);
    wait_for(second, 0);
}

/// Fills the same memory twice by the commands of one packet. Waits for the first kernel in between if requested.
fn fill_by_commands(hsa: &Hsa, between: &str) {
    const WAVE32: u32 = 1 | 1 << 2 | 1 << 15;
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let out = hsa.host_memory::<u32>(1000);
    let wait = packet(EVENT_WRITE, &[7 | 4 << 8]);
    let mut commands = registers(&code, "fill", kernargs(hsa, FillArgs { out, value: 7, count: 1000 }));
    commands.push(packet(DISPATCH_DIRECT, &[16, 1, 1, WAVE32]));
    if between == "wait" {
        commands.push(wait.clone());
    }
    commands.push(packet(DISPATCH_DIRECT, &[16, 1, 1, WAVE32]));
    commands.push(wait);
    let commands = Commands::new(hsa, &commands);
    let done = signal(1);
    queue.submit(&commands.packet(done));
    wait_for(done, 0);
}

/// Runs a case with these environment variables. Returns the sim's lines on standard error.
fn run(case: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "findings_are_told", "--nocapture"])
        .env(CASE, case)
        .env("HSA_SIM_AGENTS", "gfx1100")
        .env("HSA_SIM_THREADS", "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{case}: {text}");
    text
}

#[test]
fn findings_are_told() {
    if let Ok(case) = std::env::var(CASE) {
        return act(&case);
    }
    assert!(!run("wrong", &[]).contains("wait:"));
    assert!(!run("wrong", &[("HSA_SIM_CHECK", "sync")]).contains("wait:"));
    assert!(!run("right", &[("HSA_SIM_CHECK", "all")]).contains("hsa-sim"));
    assert!(!run("bounds-off", &[]).contains("hsa-sim"));
    run("bounds", &[("HSA_SIM_CHECK", "bounds")]);

    for written in ["kernel", "copy", "host"] {
        let text = run(&format!("init-{written}"), &[("HSA_SIM_CHECK", "all")]);
        assert!(!text.contains("hsa-sim"), "{text}");
    }
    assert!(!run("init-nobody", &[("HSA_SIM_CHECK", "wait,sync,race,bounds")]).contains("hsa-sim"));
    for written in ["nobody", "part"] {
        let text = run(&format!("init-{written}"), &[("HSA_SIM_CHECK", "init")]);
        assert!(text.contains("hsa-sim: init: kernel histogram: use of uninitialized memory byte 0x"), "{text}");
        let byte = if written == "part" { 512 } else { 0 };
        let pointer = format!("{byte} bytes past the pointer at byte 0 of the kernel arguments\n");
        let place = format!("is byte {byte} of an allocation of 1024 bytes, {pointer}");
        assert!(text.contains(&place), "{text}");
    }

    for order in ["bit", "signal", "host", "elsewhere"] {
        let text = run(&format!("beside-{order}"), &[("HSA_SIM_CHECK", "all")]);
        assert!(!text.contains("hsa-sim"), "{order}: {text}");
    }
    assert!(!run("beside-nothing", &[("HSA_SIM_CHECK", "wait")]).contains("hsa-sim"));
    for order in ["nothing", "queue"] {
        let text = run(&format!("beside-{order}"), &[("HSA_SIM_CHECK", "race")]);
        assert!(
            text.contains("hsa-sim: race: kernel fill: data race between dispatches on memory byte 0x"),
            "{order}: {text}"
        );
        assert!(text.contains(", previous write by dispatch 0 of ") && text.contains(", of kernel fill\n"), "{text}");
        let place =
            "is byte 0 of an allocation of 8192 bytes, 0 bytes past the pointer at byte 0 of the kernel arguments\n";
        assert!(text.contains(place), "{text}");
    }

    let text = run("commands-wait", &[("HSA_SIM_CHECK", "all")]);
    assert!(!text.contains("hsa-sim"), "{text}");
    let text = run("commands-nothing", &[("HSA_SIM_CHECK", "race")]);
    assert!(text.contains("hsa-sim: race: kernel fill: data race between dispatches on memory byte 0x"), "{text}");
    let told = ": write, previous write by dispatch 0 of queue 0, by DISPATCH_DIRECT at dword 23, of kernel fill\n";
    assert!(text.contains(told), "{text}");
    assert!(text.contains("; dispatch 0 of queue 0 on agent 1 (gfx1100), by DISPATCH_DIRECT at dword 28\n"), "{text}");

    let gfx12 = [("HSA_SIM_AGENTS", "gfx1201"), ("HSA_SIM_CHECK", "all")];
    for case in ["scope-device", "scope-device-two"] {
        let text = run(case, &gfx12);
        assert!(!text.contains("hsa-sim"), "{case}: {text}");
    }
    let text = run("scope-unit", &gfx12);
    let told = ": an atomic's SCOPE_CU does not reach the other wave\n";
    assert!(
        text.contains("hsa-sim: race: kernel histogram: data race on memory byte 0x") && text.contains(told),
        "{text}"
    );
    let text = run("scope-unit-two", &gfx12);
    assert!(text.contains(", of kernel histogram: an atomic's scope does not reach the other dispatch\n"), "{text}");

    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("findings.json");
    // Findings are appended.
    let _ = std::fs::remove_file(&output);
    let text = run("wrong", &[("HSA_SIM_CHECK", "wait"), ("HSA_SIM_CHECK_OUTPUT", output.to_str().unwrap())]);
    let told = text.matches("hsa-sim: wait: kernel fill: ").count();
    assert!(told > 0, "{text}");
    assert!(text.contains("is missing\n") && text.contains("; dispatch 0 of queue 0 on agent 1 (gfx1100)"), "{text}");
    // 1024 items are 32 waves, twice.
    assert!(text.contains(": 64 times"), "{text}");
    let json = std::fs::read_to_string(&output).unwrap();
    let lines: Vec<&str> = json.lines().collect();
    assert_eq!(lines.len(), 2 * told, "{json}");
    assert!(lines[0].starts_with("{\"check\":\"wait\",\"kernel\":\"fill\",\"code\":\""), "{json}");
    assert!(lines[0].contains("is missing\",\"memory\":null,\"at\":{\"pc\":"), "{json}");
    assert!(lines[0].contains("\"dispatch\":0,\"queue\":\"queue 0 on agent 1 (gfx1100)\"}"), "{json}");
    assert!(lines.last().unwrap().ends_with("\"times\":64}"), "{json}");

    let twice = run("two", &[("HSA_SIM_CHECK", "wait")]);
    assert_eq!(twice.matches("hsa-sim: wait: kernel fill: ").count(), 2 * told, "{twice}");

    let text = run("fatal", &[("HSA_SIM_CHECK", "wait"), ("HSA_SIM_CHECK_FATAL", "1")]);
    assert!(text.contains("is missing"), "{text}");
}
