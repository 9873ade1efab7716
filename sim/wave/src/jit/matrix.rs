// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Templates of matrix instructions: calls of functions that hold all sums in vector registers.

use super::emit::Emitter;
use crate::micro_op::MicroOp;
use crate::operand::SrcKind;
use sim_isa::{Matrix, Op};
use sim_jit::{Gpr, Width};
use std::arch::x86_64::*;

/// Compiles an op if there is a template for what it does. Else nothing has been emitted.
pub(super) fn template<const L: usize>(e: &mut Emitter<'_, L>, code: Op, op: &MicroOp<L>) -> bool {
    let is_plain = !op.clamp && op.matrix == Matrix::default();
    let in_registers = op.src[..3].iter().all(|src| src.kind == SrcKind::Vgpr);
    // These ops write all lanes, active or not.
    if code != Op::VMfmaF3216x16x4F32 || e.width != Width::Zmm || e.is_masked || L != 64 || !is_plain || !in_registers {
        return false;
    }
    let rows = [op.dst, op.src[2].reg, op.src[0].reg, op.src[1].reg];
    for (to, row) in [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx, Gpr::Rcx].into_iter().zip(rows) {
        e.asm.load_address(to, e.row_memory(row, 0));
    }
    let function: unsafe extern "sysv64" fn(*mut f32, *const f32, *const f32, *const f32) = f32_16x16x4;
    e.asm.constant_wide(Gpr::Rax, function as usize as u64);
    e.asm.call(Gpr::Rax);
    e.forget_rows();
    e.overwritten(op.dst, 4);
    true
}

/// `v_mfma_f32_16x16x4_f32`: D = A·B + C. Row *i* of C and D is 16 lanes of register *i* mod 4 from lane 16 ⌊*i* / 4⌋
/// on; element *k* of row *i* of A, or of column *i* of B, is in lane 16 *k* + *i*.
///
/// # Safety
/// The CPU has AVX-512 F. C and D are four rows of 64 lanes, A and B one.
#[target_feature(enable = "avx512f")]
unsafe extern "sysv64" fn f32_16x16x4(d: *mut f32, c: *const f32, a: *const f32, b: *const f32) {
    let place = |i: usize| 64 * (i % 4) + 16 * (i / 4);
    // SAFETY: by this function's contract. D is written last: it may overlap the others.
    unsafe {
        let mut sums: [__m512; 16] = std::array::from_fn(|i| _mm512_loadu_ps(c.add(place(i))));
        for k in 0..4 {
            let row = _mm512_loadu_ps(b.add(16 * k));
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_fmadd_ps(_mm512_set1_ps(*a.add(16 * k + i)), row, *sum);
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            _mm512_storeu_ps(d.add(place(i)), sum);
        }
    }
}
