// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Encodings, disassembled by iced-x86; and code that runs.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use sim_jit::{Assembler, Code, Condition, Gpr, Mask, Mem, Rm, Scalar, Shift, Width, vector};

/// Features of CPUID that code may need: of x86-64 and of the level for AVX2. The level for AVX-512 has AVX512F, too,
/// for which alone the simulator asks.
const FEATURES: [CpuidFeature; 10] = [
    CpuidFeature::INTEL8086,
    CpuidFeature::INTEL386,
    CpuidFeature::X64,
    CpuidFeature::CMOV,
    CpuidFeature::SSE,
    CpuidFeature::SSE2,
    CpuidFeature::AVX,
    CpuidFeature::AVX2,
    CpuidFeature::FMA,
    CpuidFeature::BMI1,
];

/// The text of the instructions, each of which needs the features of the width alone.
fn disassembled(width: Width, build: impl FnOnce(&mut Assembler)) -> Vec<String> {
    let mut assembler = Assembler::new(width);
    build(&mut assembler);
    let bytes = assembler.finish();
    let mut formatter = IntelFormatter::new();
    let decoder = Decoder::new(64, &bytes, DecoderOptions::NONE);
    let text = |instruction: Instruction| {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let needed = instruction.cpuid_features();
        let is_allowed = |feature: &CpuidFeature| match feature {
            CpuidFeature::AVX512F => width == Width::Zmm,
            feature => FEATURES.contains(feature),
        };
        assert!(needed.iter().all(is_allowed), "{text}: {needed:?}");
        text
    };
    decoder.into_iter().map(text).collect()
}

/// Registers of all halves and quarters of the files, and bases with and without a SIB byte.
#[test]
fn vector_instructions_have_their_registers() {
    let mem = |base| Mem { base, displacement: 0x1234 };
    let found = disassembled(Width::Zmm, |a| {
        let width = Width::Zmm;
        a.vector(width, vector::FMADD231_PS, 31, 15, Rm::Reg(16));
        a.vector(width, vector::ADD_PS, 1, 17, Rm::Mem(mem(Gpr::R13)));
        a.vector(width, vector::AND, 8, 9, Rm::Broadcast(mem(Gpr::Rbx)));
        a.load_vector(width, 24, mem(Gpr::R13));
        a.store_vector_masked(Mask(2), mem(Gpr::R13), 17);
        a.move_vector(width, 5, 30);
        a.blend(Mask(3), 7, 29);
        a.broadcast(width, 19, mem(Gpr::Rbx));
        a.broadcast_quad(width, 18, mem(Gpr::Rax), None);
        a.broadcast_quad(width, 8, mem(Gpr::Rax), Some(Mask(7)));
        a.shuffle_two(width, 16, 30, 9, 0x44);
        a.vector(width, vector::UNPACK_HIGH_PS, 1, 2, Rm::Reg(3));
        a.shuffle(width, 17, 31, 0xaa);
        a.shift_vector(width, Shift::Left, 20, 21, 7);
        a.ones(width, 26);
        a.compare(vector::COMPARE_PS, Mask(2), 18, Rm::Mem(mem(Gpr::R13)), 1);
        a.compare(vector::COMPARE_UNSIGNED_D, Mask(5), 3, Rm::Reg(28), 6);
        a.vector(width, vector::SHIFT_LEFT_D, 4, 5, Rm::Reg(6));
        a.load_mask(Mask(1), mem(Gpr::Rbx));
        a.mask_to(Gpr::Rdx, Mask(6));
        a.gather(Mask(7), 8, mem(Gpr::Rax), 31);
        a.gather(Mask(1), 17, mem(Gpr::R13), 9);
        a.gather_wide(Mask(7), 30, mem(Gpr::R12), 2);
        a.shuffle_quads(19, 28, 0xee);
        a.vector(width, vector::PERMUTE_TWO_D, 3, 17, Rm::Reg(31));
        // Displacements of 8 bits, which EVEX scales, and none.
        let near = |base, displacement| Mem { base, displacement };
        a.load_vector(width, 1, near(Gpr::R13, -128 * 64));
        a.load_vector(width, 1, near(Gpr::R13, 127 * 64));
        a.load_vector(width, 1, near(Gpr::R13, 128 * 64));
        a.load_vector(width, 1, near(Gpr::Rbx, 65));
        a.load_vector(width, 1, near(Gpr::R13, 0));
        a.load_vector(width, 1, near(Gpr::R12, 0));
        a.broadcast(width, 1, near(Gpr::Rbx, 12));
        a.broadcast_quad(width, 1, near(Gpr::Rbx, 48), None);
        a.vector(width, vector::ADD_PS, 1, 2, Rm::Broadcast(near(Gpr::Rbx, 508)));
        a.zero_upper();
    });
    let expected = [
        "vfmadd231ps zmm31,zmm15,zmm16",
        "vaddps zmm1,zmm17,[r13+1234h]",
        "vpandd zmm8,zmm9,[rbx+1234h]{1to16}",
        "vmovups zmm24,[r13+1234h]",
        "vmovups [r13+1234h]{k2},zmm17",
        "vmovaps zmm5,zmm30",
        "vmovaps zmm7{k3},zmm29",
        "vbroadcastss zmm19,[rbx+1234h]",
        "vbroadcasti32x4 zmm18,[rax+1234h]",
        "vbroadcasti32x4 zmm8{k7},[rax+1234h]",
        "vshufps zmm16,zmm30,zmm9,44h",
        "vunpckhps zmm1,zmm2,zmm3",
        "vpshufd zmm17,zmm31,0AAh",
        "vpslld zmm20,zmm21,7",
        "vpternlogd zmm26,zmm26,zmm26,0FFh",
        "vcmpltps k2,zmm18,[r13+1234h]",
        "vpcmpnleud k5,zmm3,zmm28",
        "vpsllvd zmm4,zmm5,zmm6",
        "kmovw k1,[rbx+1234h]",
        "kmovw edx,k6",
        "vpgatherdd zmm8,k7,[rax+zmm31+1234h]",
        "vpgatherdd zmm17,k1,[r13+zmm9+1234h]",
        "vpgatherdq zmm30,k7,[r12+ymm2+1234h]",
        "vshufi32x4 zmm19,zmm28,zmm28,0EEh",
        "vpermi2d zmm3,zmm17,zmm31",
        "vmovups zmm1,[r13-2000h]",
        "vmovups zmm1,[r13+1FC0h]",
        "vmovups zmm1,[r13+2000h]",
        "vmovups zmm1,[rbx+41h]",
        "vmovups zmm1,[r13]",
        "vmovups zmm1,[r12]",
        "vbroadcastss zmm1,[rbx+0Ch]",
        "vbroadcasti32x4 zmm1,[rbx+30h]",
        "vaddps zmm1,zmm2,[rbx+1FCh]{1to16}",
        "vzeroupper",
    ];
    assert_eq!(found, expected);
}

/// Code for AVX2 has nothing of AVX-512.
#[test]
fn vector_instructions_of_256_bits_have_their_registers() {
    let mem = |base| Mem { base, displacement: 0x1234 };
    let found = disassembled(Width::Ymm, |a| {
        let width = Width::Ymm;
        a.vector(width, vector::FMADD213_PS, 15, 1, Rm::Reg(9));
        a.vector(width, vector::XOR, 2, 14, Rm::Mem(mem(Gpr::R12)));
        a.vector(width, vector::MUL_LOW_D, 4, 5, Rm::Reg(6));
        a.vector(width, vector::EQUAL_D, 4, 13, Rm::Reg(6));
        a.vector(width, vector::GREATER_D, 14, 5, Rm::Mem(mem(Gpr::R13)));
        a.load_vector(width, 1, Mem { base: Gpr::Rbx, displacement: 65 });
        a.store_vector(width, mem(Gpr::Rbx), 12);
        a.broadcast(width, 9, mem(Gpr::Rbx));
        a.broadcast_quad(width, 11, mem(Gpr::Rax), None);
        a.insert_quad(3, 12, mem(Gpr::R13));
        a.shuffle_two(width, 6, 13, 9, 0x44);
        a.shuffle(width, 7, 15, 0xaa);
        a.shift_vector(width, Shift::Arithmetic, 3, 11, 31);
        a.ones(width, 10);
        a.compare_floats(8, 7, Rm::Reg(14), 0x1e);
        a.signs(Gpr::Rcx, 9);
        a.blend_by(2, 13, 4, 15);
        a.zero_upper();
    });
    let expected = [
        "vfmadd213ps ymm15,ymm1,ymm9",
        "vpxor ymm2,ymm14,[r12+1234h]",
        "vpmulld ymm4,ymm5,ymm6",
        "vpcmpeqd ymm4,ymm13,ymm6",
        "vpcmpgtd ymm14,ymm5,[r13+1234h]",
        "vmovups ymm1,[rbx+41h]",
        "vmovups [rbx+1234h],ymm12",
        "vbroadcastss ymm9,[rbx+1234h]",
        "vbroadcasti128 ymm11,[rax+1234h]",
        "vinsertf128 ymm3,ymm12,[r13+1234h],1",
        "vshufps ymm6,ymm13,ymm9,44h",
        "vpshufd ymm7,ymm15,0AAh",
        "vpsrad ymm3,ymm11,1Fh",
        "vpcmpeqd ymm10,ymm10,ymm10",
        "vcmpgt_oqps ymm8,ymm7,ymm14",
        "vmovmskps ecx,ymm9",
        "vblendvps ymm2,ymm13,ymm4,ymm15",
        "vzeroupper",
    ];
    assert_eq!(found, expected);
}

#[test]
#[should_panic(expected = "code for Ymm has an instruction for Zmm")]
fn code_for_avx2_refuses_instructions_of_avx512() {
    Assembler::new(Width::Ymm).blend(Mask(1), 2, 3);
}

#[test]
fn scalar_instructions_have_their_registers() {
    let mem = Mem { base: Gpr::R12, displacement: -8 };
    let found = disassembled(Width::Ymm, |a| {
        a.push(Gpr::R14);
        a.scalar_mem(Scalar::Mov, Gpr::R9, mem);
        a.scalar_mem(Scalar::Add, Gpr::Rax, Mem { base: Gpr::Rbx, displacement: 16 });
        a.scalar(Scalar::Xor, Gpr::Rcx, Gpr::R8);
        a.scalar_constant(Scalar::Sub, Gpr::R10, 5);
        a.scalar_constant(Scalar::Mov, Gpr::R11, 6);
        a.move_wide(Gpr::Rdi, Gpr::R12);
        a.load_wide(Gpr::R13, mem);
        a.constant_wide(Gpr::Rdx, 0x1234_5678_9abc_def0);
        a.store(mem, Gpr::R9);
        a.store_constant(mem, 7);
        a.add_wide(mem, 3);
        a.load_address(Gpr::Rdi, mem);
        a.compare_wide(Gpr::R9, mem);
        a.compare_constant(mem, -3);
        a.subtract_constant(mem, 1);
        a.test_constant(mem, 8);
        a.and_constant(mem, 9);
        a.add_memory(Gpr::R9, mem);
        a.add(Gpr::Rax, Gpr::R9);
        a.call_memory(mem);
        a.multiply(Gpr::Rax, Gpr::R9);
        a.shift(Shift::Left, Gpr::Rax, 4);
        a.shift_by_cl(Shift::Arithmetic, Gpr::R9);
        a.test(Gpr::Rax);
        a.compare_byte(mem, 1);
        a.set(Condition::Below, mem);
        a.move_if(Condition::NotEqual, Gpr::Rax, Gpr::R9);
        a.adjust(Gpr::Rsp, -8);
        a.call(Gpr::Rax);
        a.pop(Gpr::R14);
        a.ret();
    });
    let expected = [
        "push r14",
        "mov r9d,[r12-8]",
        "add eax,[rbx+10h]",
        "xor ecx,r8d",
        "sub r10d,5",
        "mov r11d,6",
        "mov rdi,r12",
        "mov r13,[r12-8]",
        "mov rdx,123456789ABCDEF0h",
        "mov [r12-8],r9d",
        "mov dword ptr [r12-8],7",
        "add qword ptr [r12-8],3",
        "lea rdi,[r12-8]",
        "cmp r9,[r12-8]",
        "cmp dword ptr [r12-8],0FFFFFFFDh",
        "sub dword ptr [r12-8],1",
        "test dword ptr [r12-8],8",
        "and dword ptr [r12-8],9",
        "add r9,[r12-8]",
        "add rax,r9",
        "call qword ptr [r12-8]",
        "imul eax,r9d",
        "shl eax,4",
        "sar r9d,cl",
        "test eax,eax",
        "cmp byte ptr [r12-8],1",
        "setb [r12-8]",
        "cmovne eax,r9d",
        "add rsp,0FFFFFFFFFFFFFFF8h",
        "call rax",
        "pop r14",
        "ret",
    ];
    assert_eq!(found, expected);
}

#[test]
fn code_runs_where_it_was_copied() {
    let mut a = Assembler::new(Width::Ymm);
    a.scalar_constant(Scalar::Mov, Gpr::Rax, 5);
    a.scalar_constant(Scalar::Cmp, Gpr::Rdi, 3);
    let jump = a.jump_if(Condition::Equal);
    a.scalar_constant(Scalar::Mov, Gpr::Rax, 9);
    a.land(jump);
    a.ret();
    let code = Code::new(&a.finish()).unwrap();
    // SAFETY: the code is a function of this type, which changes no register that it must keep.
    let run: extern "C" fn(u32) -> u32 = unsafe { std::mem::transmute(code.at(0)) };
    assert_eq!([run(3), run(4)], [5, 9]);
}

#[test]
fn jumps_lead_back() {
    let found = disassembled(Width::Ymm, |a| {
        a.ret();
        a.jump_back_if(Condition::NotEqual, 0);
        a.jump_back(1);
    });
    assert_eq!(found, ["ret", "jne 0", "jmp 1"]);
}
