// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Atomic read-modify-writes of host memory, LDS and scratch.
//!
//! Lanes take their turns in lane order. On host memory each is one sequentially consistent compare-and-swap loop, so
//! that other threads and the host see it as an atomic.

use super::access::{check_host, load_local, store_local};
use super::address::{Lanes, Space, addresses};
use super::float::{bf16_to_f32, f32_to_bf16, f32_to_half, half_to_f32};
use super::lanes::each_lane;
use crate::fault::{Access, FaultKind};
use crate::micro_op::{Handler, MicroOp, Step, Stop};
use crate::wave::{Group, Wave};
use sim_isa::Op;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// New value of memory, from the old value, the data and (compare-and-swap only) the comparand.
/// On gfx12 the least and greatest float of a NaN and a number are the number; before, the comparison is false and
/// memory keeps its value.
pub(super) trait Rmw {
    type T: Word;
    /// Compare value follows the data.
    const COMPARES: bool = false;
    fn apply(old: Self::T, data: Self::T, compare: Self::T, gfx12: bool) -> Self::T;
}

/// An [`Rmw`], for code that all with the same operand share.
#[derive(Clone, Copy)]
pub(super) struct Operation<T> {
    pub compares: bool,
    pub apply: fn(T, T, T, bool) -> T,
}

impl<T> Operation<T> {
    pub fn of<R: Rmw<T = T>>() -> Self {
        Operation { compares: R::COMPARES, apply: R::apply }
    }
}

/// An atomic's operand.
pub(super) trait Word: Copy + PartialEq {
    const DWORDS: usize;
    fn from_dwords(dwords: &[u32]) -> Self;
    fn dword(self, i: usize) -> u32;
    fn from_bytes(bytes: &[u8]) -> Self;

    /// Updates host memory; returns the old value.
    ///
    /// # Safety
    /// `address` is aligned to the size, mapped, readable and writable.
    unsafe fn update(address: u64, apply: impl Fn(Self) -> Self) -> Self;
}

macro_rules! words {
    ($($ty:ty, $atomic:ty, $dwords:literal, |$d:ident| $from:expr);*) => {$(
        impl Word for $ty {
            const DWORDS: usize = $dwords;
            fn from_dwords($d: &[u32]) -> Self {
                $from
            }
            fn dword(self, i: usize) -> u32 {
                (u64::from(self) >> (32 * i)) as u32
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                bytes.iter().rev().fold(0, |value, byte| (u64::from(value) << 8) as $ty | <$ty>::from(*byte))
            }
            unsafe fn update(address: u64, apply: impl Fn(Self) -> Self) -> Self {
                // SAFETY: by this function's contract; concurrent accesses by kernels are atomic or race on the device
                // too.
                let atomic = unsafe { <$atomic>::from_ptr(address as *mut $ty) };
                let mut old = atomic.load(Ordering::SeqCst);
                while let Err(found) = atomic.compare_exchange_weak(old, apply(old), Ordering::SeqCst, Ordering::SeqCst) {
                    old = found;
                }
                old
            }
        }
    )*};
}

words!(u32, AtomicU32, 1, |d| d[0]; u64, AtomicU64, 2, |d| u64::from(d[0]) | u64::from(d[1]) << 32);

macro_rules! operations {
    ($($name:ident<$t:ty> [$compares:literal] |$old:ident, $data:ident, $compare:ident $(, $gfx12:ident)?| $body:expr;)*) => {$(
        pub(super) struct $name;
        impl Rmw for $name {
            type T = $t;
            const COMPARES: bool = $compares;
            fn apply($old: $t, $data: $t, $compare: $t, operations!(@arg $($gfx12)?): bool) -> $t {
                $body
            }
        }
    )*};
    (@arg) => { _ };
    (@arg $arg:ident) => { $arg };
}

/// Applies a float function to bits.
fn float32(a: u32, b: u32, f: fn(f32, f32) -> f32) -> u32 {
    f(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

fn float64(a: u64, b: u64, f: fn(f64, f64) -> f64) -> u64 {
    f(f64::from_bits(a), f64::from_bits(b)).to_bits()
}

/// Applies a function of 16-bit floats to both halves.
fn halves(a: u32, b: u32, f: fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

operations! {
    Swap32<u32> [false] |_old, data, _c| data;
    Cmpswap32<u32> [true] |old, data, compare| if old == compare { data } else { old };
    Add32<u32> [false] |old, data, _c| old.wrapping_add(data);
    Sub32<u32> [false] |old, data, _c| old.wrapping_sub(data);
    Rsub32<u32> [false] |old, data, _c| data.wrapping_sub(old);
    Csub32<u32> [false] |old, data, _c| old.saturating_sub(data);
    CondSub32<u32> [false] |old, data, _c| if old >= data { old - data } else { old };
    MinI32<u32> [false] |old, data, _c| (old as i32).min(data as i32) as u32;
    MinU32<u32> [false] |old, data, _c| old.min(data);
    MaxI32<u32> [false] |old, data, _c| (old as i32).max(data as i32) as u32;
    MaxU32<u32> [false] |old, data, _c| old.max(data);
    And32<u32> [false] |old, data, _c| old & data;
    Or32<u32> [false] |old, data, _c| old | data;
    Xor32<u32> [false] |old, data, _c| old ^ data;
    Inc32<u32> [false] |old, data, _c| if old >= data { 0 } else { old + 1 };
    Dec32<u32> [false] |old, data, _c| if old == 0 || old > data { data } else { old - 1 };
    Mskor32<u32> [true] |old, mask, data| old & !mask | data;
    Wrap32<u32> [true] |old, data, data2| if old >= data { old - data } else { old.wrapping_add(data2) };
    CmpswapF32<u32> [true] |old, data, compare| if f32::from_bits(old) == f32::from_bits(compare) { data } else { old };
    MinF32<u32> [false] |old, data, _c, gfx12| match gfx12 {
        true => float32(old, data, super::float::min32),
        false => float32(old, data, |old, data| if data < old { data } else { old }),
    };
    MaxF32<u32> [false] |old, data, _c, gfx12| match gfx12 {
        true => float32(old, data, super::float::max32),
        false => float32(old, data, |old, data| if data > old { data } else { old }),
    };
    AddF32<u32> [false] |old, data, _c| float32(old, data, |a, b| a + b);
    PkAddF16<u32> [false] |old, data, _c| halves(old, data, |a, b| f32_to_half(half_to_f32(a) + half_to_f32(b)));
    PkAddBf16<u32> [false] |old, data, _c| halves(old, data, |a, b| f32_to_bf16(bf16_to_f32(a) + bf16_to_f32(b)));
    Swap64<u64> [false] |_old, data, _c| data;
    Cmpswap64<u64> [true] |old, data, compare| if old == compare { data } else { old };
    Add64<u64> [false] |old, data, _c| old.wrapping_add(data);
    Sub64<u64> [false] |old, data, _c| old.wrapping_sub(data);
    Rsub64<u64> [false] |old, data, _c| data.wrapping_sub(old);
    MinI64<u64> [false] |old, data, _c| (old as i64).min(data as i64) as u64;
    MinU64<u64> [false] |old, data, _c| old.min(data);
    MaxI64<u64> [false] |old, data, _c| (old as i64).max(data as i64) as u64;
    MaxU64<u64> [false] |old, data, _c| old.max(data);
    And64<u64> [false] |old, data, _c| old & data;
    Or64<u64> [false] |old, data, _c| old | data;
    Xor64<u64> [false] |old, data, _c| old ^ data;
    Inc64<u64> [false] |old, data, _c| if old >= data { 0 } else { old + 1 };
    Dec64<u64> [false] |old, data, _c| if old == 0 || old > data { data } else { old - 1 };
    Mskor64<u64> [true] |old, mask, data| old & !mask | data;
    CmpswapF64<u64> [true] |old, data, compare| if f64::from_bits(old) == f64::from_bits(compare) { data } else { old };
    MinF64<u64> [false] |old, data, _c, gfx12| match gfx12 {
        true => float64(old, data, super::float::min64),
        false => float64(old, data, |old, data| if data < old { data } else { old }),
    };
    MaxF64<u64> [false] |old, data, _c, gfx12| match gfx12 {
        true => float64(old, data, super::float::max64),
        false => float64(old, data, |old, data| if data > old { data } else { old }),
    };
    AddF64<u64> [false] |old, data, _c| float64(old, data, |a, b| a + b);
}

/// A kind of instruction that performs atomics.
pub(super) trait Performs {
    fn run<R: Rmw, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step;
}

/// Handler of an atomic, by the part of its mnemonic after `atomic_`: one line serves all spaces that have it.
pub(super) fn handler<P: Performs, const L: usize>(op: Op) -> Option<Handler<L>> {
    let (_, what) = op.name().split_once("_atomic_")?;
    Some(match what {
        "swap_b32" => P::run::<Swap32, L>,
        "cmpswap_b32" => P::run::<Cmpswap32, L>,
        "add_u32" => P::run::<Add32, L>,
        "sub_u32" => P::run::<Sub32, L>,
        "csub_u32" => P::run::<Csub32, L>,
        "cond_sub_u32" => P::run::<CondSub32, L>,
        "min_i32" => P::run::<MinI32, L>,
        "min_u32" => P::run::<MinU32, L>,
        "max_i32" => P::run::<MaxI32, L>,
        "max_u32" => P::run::<MaxU32, L>,
        "and_b32" => P::run::<And32, L>,
        "or_b32" => P::run::<Or32, L>,
        "xor_b32" => P::run::<Xor32, L>,
        "inc_u32" => P::run::<Inc32, L>,
        "dec_u32" => P::run::<Dec32, L>,
        "swap_b64" => P::run::<Swap64, L>,
        "cmpswap_b64" => P::run::<Cmpswap64, L>,
        "add_u64" => P::run::<Add64, L>,
        "sub_u64" => P::run::<Sub64, L>,
        "min_i64" => P::run::<MinI64, L>,
        "min_u64" => P::run::<MinU64, L>,
        "max_i64" => P::run::<MaxI64, L>,
        "max_u64" => P::run::<MaxU64, L>,
        "and_b64" => P::run::<And64, L>,
        "or_b64" => P::run::<Or64, L>,
        "xor_b64" => P::run::<Xor64, L>,
        "inc_u64" => P::run::<Inc64, L>,
        "dec_u64" => P::run::<Dec64, L>,
        "cmpswap_f32" => P::run::<CmpswapF32, L>,
        "min_f32" => P::run::<MinF32, L>,
        "max_f32" => P::run::<MaxF32, L>,
        "add_f32" => P::run::<AddF32, L>,
        "pk_add_f16" => P::run::<PkAddF16, L>,
        "pk_add_bf16" => P::run::<PkAddBf16, L>,
        "add_f64" => P::run::<AddF64, L>,
        "cmpswap_f64" => P::run::<CmpswapF64, L>,
        "min_f64" => P::run::<MinF64, L>,
        "max_f64" => P::run::<MaxF64, L>,
        _ => return None,
    })
}

/// One lane's operand in consecutive registers.
pub(super) fn operand<T: Word, const L: usize>(wave: &Wave<L>, register: usize, lane: usize) -> T {
    let dwords: [u32; 2] = std::array::from_fn(|i| if i < T::DWORDS { wave.v[register + i].0[lane] } else { 0 });
    T::from_dwords(&dwords)
}

impl<S: Space> Performs for S {
    fn run<R: Rmw, const L: usize>(wave: &mut Wave<L>, group: &mut Group<'_>, op: &MicroOp<L>) -> Step {
        let size = 4 * R::T::DWORDS as u32;
        let lanes = addresses::<S, L>(wave, group, op, size)?;
        update(wave, group, op, &lanes, Operation::of::<R>())
    }
}

/// Part of an atomic that is common to all spaces.
#[inline(never)]
fn update<T: Word, const L: usize>(
    wave: &mut Wave<L>,
    group: &mut Group<'_>,
    op: &MicroOp<L>,
    lanes: &Lanes,
    operation: Operation<T>,
) -> Step {
    let size = 4 * T::DWORDS as u32;
    if lanes.host != 0 {
        check_host(wave, group, lanes, size, Access::Atomic)?;
    }
    let register = op.src[1].reg as usize;
    let gfx12 = group.target.is_gfx12();
    for lane in each_lane(lanes.host | lanes.local | lanes.beyond) {
        let data: T = operand(wave, register, lane);
        let compare = if operation.compares { operand(wave, register + T::DWORDS, lane) } else { data };
        let apply = |old| (operation.apply)(old, data, compare, gfx12);
        let address = wave.addresses[lane];
        if !address.is_multiple_of(u64::from(size)) && lanes.beyond >> lane & 1 == 0 {
            let kind = FaultKind::Misaligned { address, size, access: Access::Atomic, lane: lane as u32 };
            return Err(Stop::Fault(Box::new(kind)));
        }
        let old = if lanes.host >> lane & 1 != 0 {
            // SAFETY: `check_host` found the address readable and writable; its alignment is checked above.
            unsafe { T::update(address, apply) }
        } else if lanes.local >> lane & 1 != 0 {
            let mut bytes = [0; 8];
            let bytes = &mut bytes[..size as usize];
            load_local(wave, group, lane, bytes)?;
            let old = T::from_bytes(bytes);
            let new = apply(old);
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = (new.dword(i / 4) >> (8 * (i % 4))) as u8;
            }
            store_local(wave, group, lane, bytes)?;
            old
        } else {
            T::from_dwords(&[0, 0])
        };
        if op.mem.glc {
            for i in 0..T::DWORDS {
                wave.v[op.dst as usize + i].0[lane] = old.dword(i);
            }
        }
    }
    Ok(())
}
