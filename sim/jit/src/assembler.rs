// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Encoder of x86-64 instructions (Intel's manual, volume 2: 2.2 prefixes, 2.3 VEX, 2.7 EVEX).
//!
//! Displacements have 8 bits where they fit: long straight code is as fast as it is decoded.

mod gather;

/// A general register, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Gpr {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

/// Memory at a register plus a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// Register with the address.
    pub base: Gpr,
    /// Added to it.
    pub displacement: i32,
}

/// Last source of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rm {
    /// A vector register.
    Reg(u8),
    /// As many bytes of memory as the register has.
    Mem(Mem),
    /// One dword of memory in all lanes; 512 bits only.
    Broadcast(Mem),
}

/// Size of vector registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 256 bits, VEX: AVX2 and FMA.
    Ymm,
    /// 512 bits, EVEX: AVX-512 F.
    Zmm,
}

impl Width {
    /// Dwords of a register.
    pub fn lanes(self) -> usize {
        match self {
            Width::Ymm => 8,
            Width::Zmm => 16,
        }
    }

    /// Number of registers.
    pub fn registers(self) -> usize {
        match self {
            Width::Ymm => 16,
            Width::Zmm => 32,
        }
    }
}

/// A mask register, 1 to 7: lanes whose bit is clear keep the destination's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub u8);

/// Opcode of a vector instruction on dwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Implied prefix: 0 none, 1 `66`, 2 `F3`, 3 `F2`.
    prefix: u8,
    /// Opcode map: 1 `0F`, 2 `0F38`, 3 `0F3A`.
    map: u8,
    code: u8,
}

/// Vector instructions. Logical ones are the integers' (`vpand`), whose opcodes EVEX has for dwords.
#[allow(missing_docs)]
pub mod vector {
    use super::Vector;

    const fn op(prefix: u8, map: u8, code: u8) -> Vector {
        Vector { prefix, map, code }
    }

    pub const ADD_PS: Vector = op(0, 1, 0x58);
    pub const MUL_PS: Vector = op(0, 1, 0x59);
    pub const SUB_PS: Vector = op(0, 1, 0x5c);
    pub const FMADD213_PS: Vector = op(1, 2, 0xa8);
    pub const FMADD231_PS: Vector = op(1, 2, 0xb8);
    pub const UNPACK_LOW_PS: Vector = op(0, 1, 0x14);
    pub const UNPACK_HIGH_PS: Vector = op(0, 1, 0x15);
    pub const AND: Vector = op(1, 1, 0xdb);
    pub const ANDN: Vector = op(1, 1, 0xdf);
    pub const OR: Vector = op(1, 1, 0xeb);
    pub const XOR: Vector = op(1, 1, 0xef);
    pub const ADD_D: Vector = op(1, 1, 0xfe);
    pub const SUB_D: Vector = op(1, 1, 0xfa);
    pub const MUL_LOW_D: Vector = op(1, 2, 0x40);
    pub const MIN_SIGNED_D: Vector = op(1, 2, 0x39);
    pub const MAX_SIGNED_D: Vector = op(1, 2, 0x3d);
    pub const MIN_UNSIGNED_D: Vector = op(1, 2, 0x3b);
    pub const MAX_UNSIGNED_D: Vector = op(1, 2, 0x3f);
    pub const SHIFT_LEFT_D: Vector = op(1, 2, 0x47);
    pub const SHIFT_RIGHT_D: Vector = op(1, 2, 0x45);
    pub const SHIFT_ARITHMETIC_D: Vector = op(1, 2, 0x46);
    /// Dwords of the two sources, by the numbers that the destination holds before; 512 bits only.
    pub const PERMUTE_TWO_D: Vector = op(1, 2, 0x76);
    /// To all bits of each lane; 256 bits only. The second one is of integers with a sign.
    pub const EQUAL_D: Vector = op(1, 1, 0x76);
    pub const GREATER_D: Vector = op(1, 1, 0x66);
    /// Into a mask register, or to all bits of each lane, by a predicate.
    pub const COMPARE_PS: Vector = op(0, 1, 0xc2);
    /// Comparison of integers into a mask register; 512 bits only.
    pub const COMPARE_D: Vector = op(1, 3, 0x1f);
    pub const COMPARE_UNSIGNED_D: Vector = op(1, 3, 0x1e);
}

const LOAD: Vector = Vector { prefix: 0, map: 1, code: 0x10 };
const STORE: Vector = Vector { prefix: 0, map: 1, code: 0x11 };
const MOVE: Vector = Vector { prefix: 0, map: 1, code: 0x28 };
const BROADCAST: Vector = Vector { prefix: 1, map: 2, code: 0x18 };
const SHIFT: Vector = Vector { prefix: 1, map: 1, code: 0x72 };
const BROADCAST_QUAD: Vector = Vector { prefix: 1, map: 2, code: 0x5a };
const INSERT_QUAD: Vector = Vector { prefix: 1, map: 3, code: 0x18 };
const SIGNS: Vector = Vector { prefix: 0, map: 1, code: 0x50 };
const BLEND: Vector = Vector { prefix: 1, map: 3, code: 0x4a };
const SHUFFLE_TWO: Vector = Vector { prefix: 0, map: 1, code: 0xc6 };
const SHUFFLE: Vector = Vector { prefix: 1, map: 1, code: 0x70 };
const TERNARY: Vector = Vector { prefix: 1, map: 3, code: 0x25 };

/// A shift of dwords by a constant: `/r` of opcode `72`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Shift {
    Right = 2,
    Arithmetic = 4,
    Left = 6,
}

/// An operation on general registers of 32 bits: the opcode whose destination is a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scalar {
    Add = 0x03,
    Or = 0x0b,
    Adc = 0x13,
    Sbb = 0x1b,
    And = 0x23,
    Sub = 0x2b,
    Xor = 0x33,
    Cmp = 0x3b,
    Mov = 0x8b,
}

/// Condition of a jump or of a byte's value: the low four bits of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Condition {
    Overflow = 0x0,
    Below = 0x2,
    AboveEqual = 0x3,
    Equal = 0x4,
    NotEqual = 0x5,
    BelowEqual = 0x6,
    Above = 0x7,
    Less = 0xc,
    GreaterEqual = 0xd,
    LessEqual = 0xe,
    Greater = 0xf,
}

/// A jump whose target is not known yet: where its displacement ends.
#[derive(Debug)]
#[must_use = "a jump without a target leads anywhere"]
pub struct Jump(usize);

/// Machine code under construction.
pub struct Assembler {
    code: Vec<u8>,
    width: Width,
}

impl Assembler {
    /// Code for a CPU whose vector registers have this size: it has no instructions of AVX-512 if this is 256 bits.
    pub fn new(width: Width) -> Self {
        Assembler { code: Vec::new(), width }
    }

    /// Bytes so far.
    pub fn offset(&self) -> usize {
        self.code.len()
    }

    /// Drops the code behind the first `offset` bytes.
    pub fn truncate(&mut self, offset: usize) {
        self.code.truncate(offset);
    }

    /// The code.
    pub fn finish(self) -> Vec<u8> {
        self.code
    }

    fn byte(&mut self, byte: u8) {
        self.code.push(byte);
    }

    fn dword(&mut self, value: u32) {
        self.code.extend(value.to_le_bytes());
    }

    /// ModRM, SIB and displacement for memory.
    fn memory(&mut self, field: u8, mem: Mem) {
        self.scaled(field, mem, 1);
    }

    /// [`Self::memory`], where displacements of 8 bits count so many bytes (Intel's manual, 2.7.5).
    fn scaled(&mut self, field: u8, Mem { base, displacement }: Mem, scale: i32) {
        let low = base as u8 & 7;
        let short = Some(displacement / scale).filter(|_| displacement % scale == 0).and_then(|n| i8::try_from(n).ok());
        // RBP and R13 have none without a displacement.
        let has_none = displacement == 0 && low != 5;
        let mode = match short {
            _ if has_none => 0,
            Some(_) => 0x40,
            None => 0x80,
        };
        self.byte(mode | (field & 7) << 3 | low);
        if low == 4 {
            // SIB without an index.
            self.byte(0x24);
        }
        match short {
            _ if has_none => {}
            Some(short) => self.byte(short as u8),
            None => self.dword(displacement as u32),
        }
    }

    fn direct(&mut self, field: u8, rm: u8) {
        self.byte(0xc0 | (field & 7) << 3 | rm & 7);
    }

    // ---- general registers

    fn rex(&mut self, wide: bool, field: u8, rm: u8) {
        let rex = 0x40 | u8::from(wide) << 3 | (field >> 3) << 2 | rm >> 3;
        if rex != 0x40 {
            self.byte(rex);
        }
    }

    /// `op dst, [mem]` of 32 bits.
    pub fn scalar_mem(&mut self, op: Scalar, dst: Gpr, mem: Mem) {
        self.rex(false, dst as u8, mem.base as u8);
        self.byte(op as u8);
        self.memory(dst as u8, mem);
    }

    /// `op dst, src` of 32 bits.
    pub fn scalar(&mut self, op: Scalar, dst: Gpr, src: Gpr) {
        self.rex(false, dst as u8, src as u8);
        self.byte(op as u8);
        self.direct(dst as u8, src as u8);
    }

    /// `op dst, value` of 32 bits.
    pub fn scalar_constant(&mut self, op: Scalar, dst: Gpr, value: u32) {
        self.rex(false, 0, dst as u8);
        if op == Scalar::Mov {
            self.byte(0xb8 | dst as u8 & 7);
        } else {
            self.byte(0x81);
            // The field is the opcode's middle bits.
            self.direct(op as u8 >> 3, dst as u8);
        }
        self.dword(value);
    }

    /// `mov dst, src` of 64 bits.
    pub fn move_wide(&mut self, dst: Gpr, src: Gpr) {
        self.rex(true, dst as u8, src as u8);
        self.byte(0x8b);
        self.direct(dst as u8, src as u8);
    }

    /// `mov dst, [mem]` of 64 bits.
    pub fn load_wide(&mut self, dst: Gpr, mem: Mem) {
        self.rex(true, dst as u8, mem.base as u8);
        self.byte(0x8b);
        self.memory(dst as u8, mem);
    }

    /// `mov dst, value` of 64 bits.
    pub fn constant_wide(&mut self, dst: Gpr, value: u64) {
        self.rex(true, 0, dst as u8);
        self.byte(0xb8 | dst as u8 & 7);
        self.code.extend(value.to_le_bytes());
    }

    /// `mov [mem], src` of 32 bits.
    pub fn store(&mut self, mem: Mem, src: Gpr) {
        self.rex(false, src as u8, mem.base as u8);
        self.byte(0x89);
        self.memory(src as u8, mem);
    }

    /// `mov dword [mem], value`.
    pub fn store_constant(&mut self, mem: Mem, value: u32) {
        self.rex(false, 0, mem.base as u8);
        self.byte(0xc7);
        self.memory(0, mem);
        self.dword(value);
    }

    /// `add qword [mem], value`, with a sign.
    pub fn add_wide(&mut self, mem: Mem, value: i32) {
        self.rex(true, 0, mem.base as u8);
        self.byte(0x81);
        self.memory(0, mem);
        self.dword(value as u32);
    }

    /// `add dst, src` of 64 bits.
    pub fn add(&mut self, dst: Gpr, src: Gpr) {
        self.rex(true, dst as u8, src as u8);
        self.byte(0x03);
        self.direct(dst as u8, src as u8);
    }

    /// `add dst, [mem]` of 64 bits.
    pub fn add_memory(&mut self, dst: Gpr, mem: Mem) {
        self.rex(true, dst as u8, mem.base as u8);
        self.byte(0x03);
        self.memory(dst as u8, mem);
    }

    /// `lea dst, [mem]` of 64 bits.
    pub fn load_address(&mut self, dst: Gpr, mem: Mem) {
        self.rex(true, dst as u8, mem.base as u8);
        self.byte(0x8d);
        self.memory(dst as u8, mem);
    }

    /// `cmp reg, [mem]` of 64 bits.
    pub fn compare_wide(&mut self, reg: Gpr, mem: Mem) {
        self.rex(true, reg as u8, mem.base as u8);
        self.byte(0x3b);
        self.memory(reg as u8, mem);
    }

    /// `cmp dword [mem], value`.
    pub fn compare_constant(&mut self, mem: Mem, value: i32) {
        self.rex(false, 0, mem.base as u8);
        self.byte(0x81);
        self.memory(7, mem);
        self.dword(value as u32);
    }

    /// `test dword [mem], value`.
    pub fn test_constant(&mut self, mem: Mem, value: u32) {
        self.rex(false, 0, mem.base as u8);
        self.byte(0xf7);
        self.memory(0, mem);
        self.dword(value);
    }

    /// `and dword [mem], value`.
    pub fn and_constant(&mut self, mem: Mem, value: u32) {
        self.rex(false, 0, mem.base as u8);
        self.byte(0x81);
        self.memory(4, mem);
        self.dword(value);
    }

    /// `sub dword [mem], value`.
    pub fn subtract_constant(&mut self, mem: Mem, value: i32) {
        self.rex(false, 0, mem.base as u8);
        self.byte(0x81);
        self.memory(5, mem);
        self.dword(value as u32);
    }

    /// `imul dst, src` of 32 bits.
    pub fn multiply(&mut self, dst: Gpr, src: Gpr) {
        self.rex(false, dst as u8, src as u8);
        self.code.extend([0x0f, 0xaf]);
        self.direct(dst as u8, src as u8);
    }

    /// `shl`, `shr` or `sar dst, count` of 32 bits.
    pub fn shift(&mut self, how: Shift, dst: Gpr, count: u8) {
        self.rex(false, 0, dst as u8);
        self.byte(0xc1);
        self.direct(Self::shift_field(how), dst as u8);
        self.byte(count);
    }

    /// `shl`, `shr` or `sar dst, cl` of 32 bits.
    pub fn shift_by_cl(&mut self, how: Shift, dst: Gpr) {
        self.rex(false, 0, dst as u8);
        self.byte(0xd3);
        self.direct(Self::shift_field(how), dst as u8);
    }

    fn shift_field(how: Shift) -> u8 {
        match how {
            Shift::Left => 4,
            Shift::Right => 5,
            Shift::Arithmetic => 7,
        }
    }

    /// `cmc`.
    pub fn complement_carry(&mut self) {
        self.byte(0xf5);
    }

    /// `test reg, reg` of 32 bits.
    pub fn test(&mut self, reg: Gpr) {
        self.rex(false, reg as u8, reg as u8);
        self.byte(0x85);
        self.direct(reg as u8, reg as u8);
    }

    /// `cmp byte [mem], value`.
    pub fn compare_byte(&mut self, mem: Mem, value: u8) {
        self.rex(false, 0, mem.base as u8);
        self.byte(0x80);
        self.memory(7, mem);
        self.byte(value);
    }

    /// `setcc byte [mem]`.
    pub fn set(&mut self, condition: Condition, mem: Mem) {
        self.rex(false, 0, mem.base as u8);
        self.code.extend([0x0f, 0x90 | condition as u8]);
        self.memory(0, mem);
    }

    /// `cmovcc dst, src` of 32 bits.
    pub fn move_if(&mut self, condition: Condition, dst: Gpr, src: Gpr) {
        self.rex(false, dst as u8, src as u8);
        self.code.extend([0x0f, 0x40 | condition as u8]);
        self.direct(dst as u8, src as u8);
    }

    /// `push reg`.
    pub fn push(&mut self, reg: Gpr) {
        self.rex(false, 0, reg as u8);
        self.byte(0x50 | reg as u8 & 7);
    }

    /// `pop reg`.
    pub fn pop(&mut self, reg: Gpr) {
        self.rex(false, 0, reg as u8);
        self.byte(0x58 | reg as u8 & 7);
    }

    /// `add reg, value` of 64 bits.
    pub fn adjust(&mut self, reg: Gpr, value: i32) {
        self.rex(true, 0, reg as u8);
        self.byte(0x81);
        self.direct(0, reg as u8);
        self.dword(value as u32);
    }

    /// `call reg`.
    pub fn call(&mut self, reg: Gpr) {
        self.rex(false, 0, reg as u8);
        self.byte(0xff);
        self.direct(2, reg as u8);
    }

    /// `call [mem]`.
    pub fn call_memory(&mut self, mem: Mem) {
        self.rex(false, 0, mem.base as u8);
        self.byte(0xff);
        self.memory(2, mem);
    }

    /// `ret`.
    pub fn ret(&mut self) {
        self.byte(0xc3);
    }

    /// `jcc`, to a target that [`Self::land`] sets.
    pub fn jump_if(&mut self, condition: Condition) -> Jump {
        self.code.extend([0x0f, 0x80 | condition as u8]);
        self.dword(0);
        Jump(self.code.len())
    }

    /// `jmp`, to a target that [`Self::land`] sets.
    pub fn jump(&mut self) -> Jump {
        self.byte(0xe9);
        self.dword(0);
        Jump(self.code.len())
    }

    /// `jcc` to an earlier offset.
    pub fn jump_back_if(&mut self, condition: Condition, to: usize) {
        self.code.extend([0x0f, 0x80 | condition as u8]);
        let end = self.code.len() + 4;
        self.dword(to.wrapping_sub(end) as u32);
    }

    /// `jmp` to an earlier offset.
    pub fn jump_back(&mut self, to: usize) {
        self.byte(0xe9);
        let end = self.code.len() + 4;
        self.dword(to.wrapping_sub(end) as u32);
    }

    /// Makes this place the target of a jump.
    pub fn land(&mut self, Jump(end): Jump) {
        let distance = (self.code.len() - end) as u32;
        self.code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
    }

    // ---- vector registers

    /// An instruction with up to three registers: `dst`, `first` and `last`. `dst` may be an extension of the opcode.
    fn encode(&mut self, width: Width, op: Vector, dst: u8, first: u8, last: Rm, mask: Option<Mask>) {
        let (low, high, broadcast) = match last {
            Rm::Reg(reg) => (reg >> 3 & 1, reg >> 4, false),
            Rm::Mem(mem) => (mem.base as u8 >> 3, 0, false),
            Rm::Broadcast(mem) => (mem.base as u8 >> 3, 0, true),
        };
        assert!(width == self.width, "code for {:?} has an instruction for {width:?}", self.width);
        match width {
            Width::Zmm => {
                self.byte(0x62);
                self.byte((!dst >> 3 & 1) << 7 | (!high & 1) << 6 | (!low & 1) << 5 | (!dst >> 4 & 1) << 4 | op.map);
                self.byte((!first & 15) << 3 | 4 | op.prefix);
                let mask = mask.map_or(0, |mask| mask.0);
                self.byte(2 << 5 | u8::from(broadcast) << 4 | (!first >> 4 & 1) << 3 | mask);
            }
            Width::Ymm => {
                assert!(mask.is_none() && !broadcast && dst < 16 && first < 16 && high == 0, "VEX has no such operand");
                self.byte(0xc4);
                self.byte((!dst >> 3 & 1) << 7 | 1 << 6 | (!low & 1) << 5 | op.map);
                self.byte((!first & 15) << 3 | 1 << 2 | op.prefix);
            }
        }
        self.byte(op.code);
        match last {
            Rm::Reg(reg) => self.direct(dst, reg),
            Rm::Mem(mem) if width == Width::Ymm => self.memory(dst, mem),
            Rm::Mem(mem) => {
                let scale = match op {
                    BROADCAST => 4,
                    BROADCAST_QUAD => 16,
                    _ => 64,
                };
                self.scaled(dst, mem, scale);
            }
            Rm::Broadcast(mem) => self.scaled(dst, mem, 4),
        }
    }

    /// `vcmpps dst, first, last, predicate` of 256 bits: all bits of each lane where it holds.
    pub fn compare_floats(&mut self, dst: u8, first: u8, last: Rm, predicate: u8) {
        self.encode(Width::Ymm, vector::COMPARE_PS, dst, first, last, None);
        self.byte(predicate);
    }

    /// `vmovmskps dst, src` of 256 bits: the sign of each lane.
    pub fn signs(&mut self, dst: Gpr, src: u8) {
        self.encode(Width::Ymm, SIGNS, dst as u8, 0, Rm::Reg(src), None);
    }

    /// `vblendvps dst, no, yes, by` of 256 bits: lanes of `yes` where `by` has a sign.
    pub fn blend_by(&mut self, dst: u8, no: u8, yes: u8, by: u8) {
        self.encode(Width::Ymm, BLEND, dst, no, Rm::Reg(yes), None);
        self.byte(by << 4);
    }

    /// `op dst, first, last`.
    pub fn vector(&mut self, width: Width, op: Vector, dst: u8, first: u8, last: Rm) {
        self.encode(width, op, dst, first, last, None);
    }

    /// `op mask, first, last, predicate` of 512 bits.
    pub fn compare(&mut self, op: Vector, mask: Mask, first: u8, last: Rm, predicate: u8) {
        self.encode(Width::Zmm, op, mask.0, first, last, None);
        self.byte(predicate);
    }

    /// `vmovups dst, [mem]`.
    pub fn load_vector(&mut self, width: Width, dst: u8, mem: Mem) {
        self.encode(width, LOAD, dst, 0, Rm::Mem(mem), None);
    }

    /// `vmovups [mem], src`.
    pub fn store_vector(&mut self, width: Width, mem: Mem, src: u8) {
        self.encode(width, STORE, src, 0, Rm::Mem(mem), None);
    }

    /// `vmovups [mem] {mask}, src`.
    pub fn store_vector_masked(&mut self, mask: Mask, mem: Mem, src: u8) {
        self.encode(Width::Zmm, STORE, src, 0, Rm::Mem(mem), Some(mask));
    }

    /// `vmovaps dst, src`.
    pub fn move_vector(&mut self, width: Width, dst: u8, src: u8) {
        self.encode(width, MOVE, dst, 0, Rm::Reg(src), None);
    }

    /// `vmovaps dst {mask}, src`.
    pub fn blend(&mut self, mask: Mask, dst: u8, src: u8) {
        self.encode(Width::Zmm, MOVE, dst, 0, Rm::Reg(src), Some(mask));
    }

    /// `vbroadcastss dst, [mem]`.
    pub fn broadcast(&mut self, width: Width, dst: u8, mem: Mem) {
        self.encode(width, BROADCAST, dst, 0, Rm::Mem(mem), None);
    }

    /// `vbroadcasti128 dst, [mem]` or `vbroadcasti32x4 dst {mask}, [mem]`.
    pub fn broadcast_quad(&mut self, width: Width, dst: u8, mem: Mem, mask: Option<Mask>) {
        self.encode(width, BROADCAST_QUAD, dst, 0, Rm::Mem(mem), mask);
    }

    /// `vinsertf128 dst, src, [mem], 1`: the upper half from memory.
    pub fn insert_quad(&mut self, dst: u8, src: u8, mem: Mem) {
        self.encode(Width::Ymm, INSERT_QUAD, dst, src, Rm::Mem(mem), None);
        self.byte(1);
    }

    /// `vshufps dst, first, last, order`.
    pub fn shuffle_two(&mut self, width: Width, dst: u8, first: u8, last: u8, order: u8) {
        self.encode(width, SHUFFLE_TWO, dst, first, Rm::Reg(last), None);
        self.byte(order);
    }

    /// `vpshufd dst, src, order`: two bits for each dword of each four.
    pub fn shuffle(&mut self, width: Width, dst: u8, src: u8, order: u8) {
        self.encode(width, SHUFFLE, dst, 0, Rm::Reg(src), None);
        self.byte(order);
    }

    /// `vpsrld`, `vpsrad` or `vpslld dst, src, count`.
    pub fn shift_vector(&mut self, width: Width, how: Shift, dst: u8, src: u8, count: u8) {
        // The destination is where other forms have the first source.
        self.encode(width, SHIFT, how as u8, dst, Rm::Reg(src), None);
        self.byte(count);
    }

    /// All bits of `dst` set.
    pub fn ones(&mut self, width: Width, dst: u8) {
        match width {
            Width::Ymm => self.encode(width, vector::EQUAL_D, dst, dst, Rm::Reg(dst), None),
            Width::Zmm => {
                self.encode(width, TERNARY, dst, dst, Rm::Reg(dst), None);
                self.byte(0xff);
            }
        }
    }

    /// `kmovw mask, [mem]`.
    pub fn load_mask(&mut self, mask: Mask, mem: Mem) {
        assert!(self.width == Width::Zmm, "AVX2 has no mask registers");
        self.code.extend([0xc4, 1 << 7 | 1 << 6 | (!(mem.base as u8) >> 3 & 1) << 5 | 1, 0x78, 0x90]);
        self.memory(mask.0, mem);
    }

    /// `kmovw dst, mask`: 16 lanes.
    pub fn mask_to(&mut self, dst: Gpr, mask: Mask) {
        assert!(self.width == Width::Zmm && (dst as u8) < 8, "AVX2 has no mask registers");
        self.code.extend([0xc5, 0xf8, 0x93]);
        self.direct(dst as u8, mask.0);
    }

    /// `vzeroupper`.
    pub fn zero_upper(&mut self) {
        self.code.extend([0xc5, 0xf8, 0x77]);
    }
}
