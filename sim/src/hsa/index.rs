// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Indices of queues: words of the `amd_queue_t`, which programs may also access directly.

use std::sync::atomic::{AtomicU64, Ordering};

use hsa_abi::{AmdQueue, HsaQueue};

use super::check_signatures;
use crate::machine::lifecycle::machine;

fn write_index<'a>(queue: *const HsaQueue) -> &'a AtomicU64 {
    let queue = queue.cast_mut().cast::<AmdQueue>();
    // SAFETY: every queue of this runtime is an `AmdQueue`, which lives until the queue is destroyed, by
    // the caller's contract; the word is aligned and only accessed atomically.
    unsafe { AtomicU64::from_ptr(&raw mut (*queue).write_dispatch_id) }
}

fn read_index<'a>(queue: *const HsaQueue) -> &'a AtomicU64 {
    let queue = queue.cast_mut().cast::<AmdQueue>();
    // SAFETY: the queue is an `AmdQueue` of this runtime and lives, by the caller's contract; the word is aligned and
    // only accessed atomically.
    unsafe { AtomicU64::from_ptr(&raw mut (*queue).read_dispatch_id) }
}

/// Stores the read index of a queue whose packets the program processes. Other queues advance theirs themselves.
fn store_read_index(queue: *const HsaQueue, value: u64, order: Ordering) {
    let soft = machine().and_then(|machine| Ok(machine.queue(queue.addr() as u64)?.soft));
    if soft == Ok(true) {
        read_index(queue).store(value, order);
    }
}

macro_rules! indices {
    (
        load $($load:ident $load_index:ident $load_order:ident)*;
        store $($store:ident $store_order:ident)*;
        store_read $($store_read:ident $store_read_order:ident)*;
        add $($add:ident $add_order:ident)*;
        cas $($cas:ident $cas_order:ident $failure_order:ident)*;
    ) => {
        $(
            /// See HSA Runtime 2.5.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $load(queue: *const HsaQueue) -> u64 {
                $load_index(queue).load(Ordering::$load_order)
            }
            check_signatures! { $load }
        )*
        $(
            /// See HSA Runtime 2.5.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $store(queue: *const HsaQueue, value: u64) {
                write_index(queue).store(value, Ordering::$store_order);
            }
            check_signatures! { $store }
        )*
        $(
            /// See HSA Runtime 2.5. Does nothing for a queue of a GPU.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $store_read(queue: *const HsaQueue, value: u64) {
                store_read_index(queue, value, Ordering::$store_read_order);
            }
            check_signatures! { $store_read }
        )*
        $(
            /// See HSA Runtime 2.5.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $add(queue: *const HsaQueue, value: u64) -> u64 {
                write_index(queue).fetch_add(value, Ordering::$add_order)
            }
            check_signatures! { $add }
        )*
        $(
            /// See HSA Runtime 2.5.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $cas(queue: *const HsaQueue, expected: u64, value: u64) -> u64 {
                let index = write_index(queue);
                match index.compare_exchange(expected, value, Ordering::$cas_order, Ordering::$failure_order) {
                    Ok(before) | Err(before) => before,
                }
            }
            check_signatures! { $cas }
        )*
    };
}

indices! {
    load
        hsa_queue_load_read_index_scacquire read_index Acquire
        hsa_queue_load_read_index_relaxed read_index Relaxed
        hsa_queue_load_write_index_scacquire write_index Acquire
        hsa_queue_load_write_index_relaxed write_index Relaxed;
    store
        hsa_queue_store_write_index_relaxed Relaxed
        hsa_queue_store_write_index_screlease Release;
    store_read
        hsa_queue_store_read_index_relaxed Relaxed
        hsa_queue_store_read_index_screlease Release;
    add
        hsa_queue_add_write_index_scacq_screl AcqRel
        hsa_queue_add_write_index_scacquire Acquire
        hsa_queue_add_write_index_relaxed Relaxed
        hsa_queue_add_write_index_screlease Release;
    cas
        hsa_queue_cas_write_index_scacq_screl AcqRel Acquire
        hsa_queue_cas_write_index_scacquire Acquire Acquire
        hsa_queue_cas_write_index_relaxed Relaxed Relaxed
        hsa_queue_cas_write_index_screlease Release Relaxed;
}
