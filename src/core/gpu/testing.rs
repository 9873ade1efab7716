// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A GPU and a proactor, for unit tests of this crate and of the crates above.

use std::ptr::{null, null_mut};
use std::sync::Arc;

use amdgpu_ffi::{Allocator, Borrowed, HalRef, Result, iree, raw};
use amdgpu_hsa::testing::library;

use crate::Gpu;
use crate::options::Options;
use crate::topology::Topology;

/// The first GPU of the library under test.
pub fn gpu(options: &Options) -> Arc<Gpu> {
    try_gpu(options).expect("a GPU")
}

/// As [`gpu`].
///
/// # Errors
/// As for [`Gpu::new`].
pub fn try_gpu(options: &Options) -> Result<Arc<Gpu>> {
    let selection = Topology::new(&library())?.select("")?;
    let info = &selection.gpus[0];
    Gpu::new(0, info, &selection.cpus[info.cpu], options)
}

/// A proactor of IREE, and its pool, which polls it.
pub fn proactor() -> (HalRef<raw::iree_async_proactor_pool_t>, HalRef<raw::iree_async_proactor_t>) {
    let (mut pool, mut proactor) = (null_mut(), null_mut());
    // SAFETY: valid arguments; the pool is owned at once, and the proactor is the pool's until it is retained.
    unsafe {
        let (options, allocator) = (raw::iree_async_proactor_pool_options_default(), Allocator::system().to_raw());
        iree!(raw::iree_async_proactor_pool_create(1, null(), options, allocator, &raw mut pool)).expect("a pool");
        let pool = HalRef::from_owned(pool).expect("a pool that was made");
        iree!(raw::iree_async_proactor_pool_get(pool.as_ptr(), 0, &raw mut proactor)).expect("a proactor");
        let proactor = Borrowed::from_raw(proactor).expect("a proactor of the pool").retain();
        (pool, proactor)
    }
}
