// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Missing fences. One test, because all queues of an agent share its caches.

mod common;

use common::code::*;
use common::*;
use hsa_abi::*;
use hsa_runtime64::hsa::*;

#[test]
fn rewritten_arguments_need_an_acquire_fence() {
    let hsa = Hsa::new();
    let code = load_code(hsa.gpu(), GFX11).unwrap();
    let queue = Queue::new(hsa.gpu(), 64);
    let done = signal(3);
    let counters = hsa.host_memory::<u32>(2);
    let args = kernargs(&hsa, counters);
    let acquire = code.packet("count_items", 1, args, done);
    let kind = HsaPacketType::KERNEL_DISPATCH;
    let none = PacketHeader::new(kind, true, HsaFenceScope::NONE, HsaFenceScope::SYSTEM);
    let no_acquire = KernelDispatchPacket { header: none, ..acquire };
    queue.submit(&acquire);
    queue.submit(&no_acquire);
    wait_for(done, 1);
    // SAFETY: no kernel is running.
    unsafe { args.cast::<*mut u32>().write(counters.add(1)) };
    queue.submit(&acquire);
    wait_for(done, 0);
    assert_eq!(read(counters, 2), [128, 64]);
    // SAFETY: no kernel is running.
    unsafe { args.cast::<*mut u32>().write(counters) };
    queue.submit(&no_acquire);
    assert_eq!(queue.wait_error(), HsaStatus::ERROR_INVALID_PACKET_FORMAT);
    assert!(queue.fault().contains("acquire fence"), "{}", queue.fault());
    // SAFETY: destroyed once.
    assert_eq!(unsafe { hsa_signal_destroy(done) }, HsaStatus::SUCCESS);
}
