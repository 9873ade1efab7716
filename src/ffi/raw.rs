// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! The bindings that bindgen makes of IREE's headers.
#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnecessary_transmutes,
    unsafe_op_in_unsafe_fn
)]
include!(concat!(env!("OUT_DIR"), "/iree.rs"));
