// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Operations of random kernels: the same on a GPU and on the host, bit for bit. Nothing here is undefined in C:
// shifts are masked, divisors and conversions guarded, signed arithmetic is done on unsigned types, and a NaN whose
// bits are looked at is always the same one.
//
// The functions of instructions that C has no operator for are given twice: by clang's builtin, where the target has
// the instruction, and in C, from AMD's ISA documents.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef _Float16 f16;
typedef float f32;
typedef double f64;
#define VECTOR(type, count) typedef type type##x##count __attribute__((ext_vector_type(count)))
VECTOR(u8, 4);
VECTOR(i8, 4);
VECTOR(u16, 2);
VECTOR(i16, 2);
VECTOR(u16, 4);
VECTOR(i16, 4);
VECTOR(u32, 2);
VECTOR(i32, 2);
VECTOR(u32, 4);
VECTOR(i32, 4);
VECTOR(u64, 2);
VECTOR(i64, 2);
VECTOR(f16, 2);
VECTOR(f16, 4);
VECTOR(f32, 2);
VECTOR(f32, 4);
VECTOR(f64, 2);

#define INLINE static inline __attribute__((always_inline, unused))
#define NOINLINE static __attribute__((noinline, unused))
#ifdef __AMDGCN__
#define DEVICE 1
#define GLOBAL __attribute__((address_space(1)))
#define LDS __attribute__((address_space(3)))
#else
#define DEVICE 0
#define GLOBAL
#define LDS
#endif

#ifdef __HIP__
#include "old.h"
#pragma clang force_cuda_host_device begin
#endif

// 64-bit words: of input; that each work-item writes, at random and at its end; for atomics, in global memory and in
// LDS.
enum { INPUTS = 1024, SCRATCH = 8, ROW = SCRATCH + 58, CELLS = 16 };

// A work-item's memory, its numbers, and the kernel's arguments.
typedef struct {
  const GLOBAL u64* in;
  GLOBAL u64* row;
  GLOBAL u64* cells;
  LDS u64* lds_cells;
  // The words of the last phase, which all read, and of this one, of which each work-item writes its own.
  const LDS u32* seen;
  LDS u32* shown;
  u32 item, local, group;
  // The number of the wave in its workgroup.
  u32 wave;
  u32 arg32;
  u64 arg64;
  f32 argf;
} env;

// Integers.

// Hides the origin of a value from the compiler.
#if DEVICE
#define HIDE(x) __asm__("" : "+v"(x))
#else
#define HIDE(x)
#endif
// From clang 14, which divides numbers without a sign that are extended from ones with a sign as if they were short,
// and makes x of x | ~0.
#ifdef __HIP__
#define HIDE_OLD(x) if (sizeof(x) >= 4) HIDE(x)
#else
#define HIDE_OLD(x)
#endif
#define DIVISION(type, smallest)                                             \
  INLINE type div_##type(type a, type b) {                                   \
    HIDE_OLD(a);                                                             \
    return b == 0 || (smallest && b == (type)-1) ? (type)(a ^ 1) : (type)(a / b); \
  }                                                                          \
  INLINE type rem_##type(type a, type b) {                                   \
    HIDE_OLD(a);                                                             \
    return b == 0 || (smallest && b == (type)-1) ? a : (type)(a % b);        \
  }
DIVISION(u8, 0)
DIVISION(u16, 0)
DIVISION(u32, 0)
DIVISION(u64, 0)
DIVISION(i8, 1)
DIVISION(i16, 1)
DIVISION(i32, 1)
DIVISION(i64, 1)

INLINE u64 not_u64(u64 a) {
  HIDE_OLD(a);
  return ~a;
}
INLINE u32 mulhi_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
INLINE i32 mulhi_i32(i32 a, i32 b) { return (i32)((i64)a * b >> 32); }
INLINE u64 mulhi_u64(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
INLINE i64 mulhi_i64(i64 a, i64 b) { return (i64)((__int128)a * b >> 64); }
INLINE u64 widemul_u32(u32 a, u32 b, u64 c) { return (u64)a * b + c; }
INLINE i64 widemul_i32(i32 a, i32 b, i64 c) { return (i64)((u64)((i64)a * b) + (u64)c); }
INLINE u32 mul24_u32(u32 a, u32 b, u32 c) { return (a & 0xffffff) * (b & 0xffffff) + c; }
INLINE i32 mul24_i32(i32 a, i32 b, i32 c) {
  return (i32)((u32)((i32)((u32)a << 8) >> 8) * (u32)((i32)((u32)b << 8) >> 8) + (u32)c);
}
INLINE u32 carry_u32(u32 a, u32 b, u32 c) {
  u32 sum;
  u32 carry = __builtin_add_overflow(a, b, &sum);
  return sum + c + carry;
}
INLINE u64 borrow_u64(u64 a, u64 b, u64 c) {
  u64 difference;
  u64 borrow = __builtin_sub_overflow(a, b, &difference);
  return borrow ? c - difference : c ^ difference;
}
INLINE i32 overflow_i32(i32 a, i32 b, i32 c) {
  i32 product;
  return __builtin_mul_overflow(a, b, &product) ? c : product;
}
// clang 22 takes the carry of one sum of 64 bits for another's where a product is one of the operands: it may not see
// where they are from.
#define SATURATING(type)                                                                                         \
  INLINE type add_sat_##type(type a, type b) { HIDE(a); HIDE(b); return __builtin_elementwise_add_sat(a, b); } \
  INLINE type sub_sat_##type(type a, type b) { HIDE(a); HIDE(b); return __builtin_elementwise_sub_sat(a, b); }
SATURATING(u64)
SATURATING(i64)
SATURATING(u64x2)
SATURATING(i64x2)
INLINE u32 field_u32(u32 a, u32 offset, u32 width) { return a >> (offset & 31) & ((1u << (width & 31)) - 1); }
INLINE u32 insert_u32(u32 mask, u32 a, u32 b) { return (mask & a) | (~mask & b); }
INLINE u64 rotate_u64(u64 a, u32 n) { return a << (n & 63) | a >> (-n & 63); }
INLINE u32 swap_u32(u32 a) { return __builtin_bswap32(a); }
// Not __builtin_bswap64: for gfx1100 clang 22 without optimisation loses half of it.
INLINE u64 swap_u64(u64 a) { return (u64)swap_u32((u32)a) << 32 | swap_u32((u32)(a >> 32)); }
INLINE u32 med3_u32(u32 a, u32 b, u32 c) {
  return __builtin_elementwise_max(__builtin_elementwise_min(a, b), __builtin_elementwise_min(__builtin_elementwise_max(a, b), c));
}
INLINE i32 med3_i32(i32 a, i32 b, i32 c) {
  return __builtin_elementwise_max(__builtin_elementwise_min(a, b), __builtin_elementwise_min(__builtin_elementwise_max(a, b), c));
}

// Instructions on bytes and dot products, as the ISA documents have them.

INLINE u32 byte_of(u32 a, u32 n) { return a >> 8 * n & 255; }
INLINE u32 sad_u8(u32 a, u32 b, u32 c) {
#if DEVICE
  return __builtin_amdgcn_sad_u8(a, b, c);
#else
  for (u32 n = 0; n < 4; ++n) c += byte_of(a, n) > byte_of(b, n) ? byte_of(a, n) - byte_of(b, n) : byte_of(b, n) - byte_of(a, n);
  return c;
#endif
}
INLINE u32 msad_u8(u32 a, u32 b, u32 c) {
#if DEVICE
  return __builtin_amdgcn_msad_u8(a, b, c);
#else
  for (u32 n = 0; n < 4; ++n) {
    if (byte_of(b, n)) c += byte_of(a, n) > byte_of(b, n) ? byte_of(a, n) - byte_of(b, n) : byte_of(b, n) - byte_of(a, n);
  }
  return c;
#endif
}
INLINE u32 sad_u16(u32 a, u32 b, u32 c) {
#if DEVICE
  return __builtin_amdgcn_sad_u16(a, b, c);
#else
  for (u32 n = 0; n < 32; n += 16) {
    u32 x = a >> n & 65535, y = b >> n & 65535;
    c += x > y ? x - y : y - x;
  }
  return c;
#endif
}
INLINE u32 lerp_u8(u32 a, u32 b, u32 c) {
#if DEVICE
  return __builtin_amdgcn_lerp(a, b, c);
#else
  u32 result = 0;
  for (u32 n = 0; n < 4; ++n) result |= (byte_of(a, n) + byte_of(b, n) + (byte_of(c, n) & 1)) >> 1 << 8 * n;
  return result;
#endif
}
INLINE u32 perm_b32(u32 a, u32 b, u32 selector) {
#if DEVICE
  return __builtin_amdgcn_perm(a, b, selector);
#else
  u64 data = (u64)a << 32 | b;
  u32 result = 0;
  for (u32 n = 0; n < 4; ++n) {
    u32 s = byte_of(selector, n), byte = 255;
    if (s < 8) byte = (u32)(data >> 8 * s) & 255;
    else if (s < 12) byte = data >> (16 * (s - 8) + 15) & 1 ? 255 : 0;
    else if (s == 12) byte = 0;
    result |= byte << 8 * n;
  }
  return result;
#endif
}
INLINE u32 alignbit_b32(u32 a, u32 b, u32 n) {
#if DEVICE
  return __builtin_amdgcn_alignbit(a, b, n);
#else
  return (u32)(((u64)a << 32 | b) >> (n & 31));
#endif
}
INLINE u32 alignbyte_b32(u32 a, u32 b, u32 n) {
#if DEVICE
  return __builtin_amdgcn_alignbyte(a, b, n);
#else
  return (u32)(((u64)a << 32 | b) >> 8 * (n & 3));
#endif
}
INLINE u32 ubfe_u32(u32 a, u32 offset, u32 width) {
#if DEVICE
  return __builtin_amdgcn_ubfe(a, offset, width);
#else
  return field_u32(a, offset, width);
#endif
}
INLINE i32 sbfe_i32(i32 a, u32 offset, u32 width) {
#if DEVICE
  return __builtin_amdgcn_sbfe(a, offset, width);
#else
  u32 bits = field_u32((u32)a, offset, width);
  // Bits past bit 31 are the sign.
  u32 there = (offset & 31) + (width & 31) > 32 ? 32 - (offset & 31) : width & 31;
  return there == 0 ? 0 : (i32)(bits << (32 - there)) >> (32 - there);
#endif
}
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || \
    defined(__gfx950__) || defined(__gfx1030__)
#define HAS_SDOT 1
#endif
#if defined(HAS_SDOT) || defined(__GFX11__) || defined(__gfx1201__)
#define HAS_UDOT 1
#endif
INLINE u32 dot4_u8(u32 a, u32 b, u32 c) {
#ifdef HAS_UDOT
  return __builtin_amdgcn_udot4(a, b, c, 0);
#else
  for (u32 n = 0; n < 4; ++n) c += byte_of(a, n) * byte_of(b, n);
  return c;
#endif
}
INLINE u32 dot8_u4(u32 a, u32 b, u32 c) {
#ifdef HAS_UDOT
  return __builtin_amdgcn_udot8(a, b, c, 0);
#else
  for (u32 n = 0; n < 32; n += 4) c += (a >> n & 15) * (b >> n & 15);
  return c;
#endif
}
INLINE i32 dot4_i8(i32 a, i32 b, i32 c) {
#if defined(HAS_SDOT)
  return __builtin_amdgcn_sdot4(a, b, c, 0);
#elif defined(HAS_UDOT)
  return __builtin_amdgcn_sudot4(1, a, 1, b, c, 0);
#else
  u32 sum = (u32)c;
  for (u32 n = 0; n < 4; ++n) sum += (u32)((i8)byte_of((u32)a, n) * (i8)byte_of((u32)b, n));
  return (i32)sum;
#endif
}
INLINE i32 dot2_i16(i16x2 a, i16x2 b, i32 c) {
#ifdef HAS_SDOT
  return __builtin_amdgcn_sdot2(a, b, c, 0);
#else
  return (i32)((u32)(a.x * b.x) + (u32)(a.y * b.y) + (u32)c);
#endif
}

// Floats. A NaN becomes the one with no sign and only the quiet bit, before its bits are looked at.

#define FLOAT(type, bits, quiet)                                 \
  INLINE bits bits_##type(type x) {                              \
    union {                                                      \
      type value;                                                \
      bits raw;                                                  \
    } u = {x};                                                   \
    return x == x ? u.raw : (bits)(quiet);                       \
  }                                                              \
  INLINE type of_bits_##type(bits raw) {                         \
    union {                                                      \
      bits raw;                                                  \
      type value;                                                \
    } u = {raw};                                                 \
    if (u.value != u.value) u.raw = (bits)(quiet);               \
    return u.value;                                              \
  }                                                              \
  INLINE type norm_##type(type x) { return x == x ? x : of_bits_##type(quiet); } \
  INLINE i32 to_i32_##type(type x) {                             \
    return x > (type)-30000 && x < (type)30000 ? (i32)x : x != x; \
  }                                                              \
  INLINE u32 to_u32_##type(type x) { return x >= 0 && x < (type)60000 ? (u32)x : x != x; }
FLOAT(f16, u16, 0x7e00)
FLOAT(f32, u32, 0x7fc00000)
FLOAT(f64, u64, 0x7ff8000000000000)

INLINE i64 to_i64_f64(f64 x) { return x > -9e18 && x < 9e18 ? (i64)x : x != x; }
INLINE u64 to_u64_f64(f64 x) { return x >= 0 && x < 1.8e19 ? (u64)x : x != x; }
INLINE i64 to_i64_f32(f32 x) { return x > -9e18f && x < 9e18f ? (i64)x : x != x; }
INLINE u64 to_u64_f32(f32 x) { return x >= 0 && x < 1.8e19f ? (u64)x : x != x; }
INLINE i32 to_all_i32_f32(f32 x) { return x > -2147483520.0f && x < 2147483520.0f ? (i32)x : x != x; }
INLINE u32 to_all_u32_f64(f64 x) { return x > -1 && x < 4294967296.0 ? (u32)x : x != x; }

INLINE f32 fma_f32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
INLINE f64 fma_f64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
INLINE f16 fma_f16(f16 a, f16 b, f16 c) {
#if DEVICE
  return __builtin_fmaf16(a, b, c);
#else
  // The product, and its sum with any f16, have fewer than 113 bits.
  return (f16)((__float128)a * b + c);
#endif
}
INLINE f16x2 fma_f16x2(f16x2 a, f16x2 b, f16x2 c) {
#if DEVICE
  return __builtin_elementwise_fma(a, b, c);
#else
  return (f16x2){fma_f16(a.x, b.x, c.x), fma_f16(a.y, b.y, c.y)};
#endif
}
INLINE f16x4 fma_f16x4(f16x4 a, f16x4 b, f16x4 c) {
#if DEVICE
  return __builtin_elementwise_fma(a, b, c);
#else
  return (f16x4){fma_f16(a.x, b.x, c.x), fma_f16(a.y, b.y, c.y), fma_f16(a.z, b.z, c.z), fma_f16(a.w, b.w, c.w)};
#endif
}
INLINE f32x2 fma_f32x2(f32x2 a, f32x2 b, f32x2 c) { return __builtin_elementwise_fma(a, b, c); }
INLINE f32x4 fma_f32x4(f32x4 a, f32x4 b, f32x4 c) { return __builtin_elementwise_fma(a, b, c); }
INLINE f64x2 fma_f64x2(f64x2 a, f64x2 b, f64x2 c) { return __builtin_elementwise_fma(a, b, c); }
// An f16 times an f16 plus an f32, as the mixed instructions do it.
INLINE f32 mix_f32(f16 a, f16 b, f32 c) { return __builtin_fmaf((f32)a, (f32)b, c); }
INLINE f32 clamp_f32(f32 x) { return __builtin_fminf(__builtin_fmaxf(x, 0.0f) + 0.0f, 1.0f); }
// Denormal quotients may be rounded twice (docs/sim/numerics.md): those that are not exact are zero here.
INLINE f32 quotient_f32(f32 x, f32 y) {
  const f32 q = x / y;
  return __builtin_fabsf(q) < 0x1p-125f && (f64)q * y != x ? 0.0f : q;
}
INLINE f64 quotient_f64(f64 x, f64 y) {
  const f64 q = x / y;
  // Scaled, so that the remainder does not vanish.
  return __builtin_fabs(q) < 0x1p-1021 && __builtin_fma(q * 0x1p500, y, -x * 0x1p500) != 0 ? 0.0 : q;
}
INLINE f16 quotient_f16(f16 x, f16 y) { return (f16)(x / y); }
// Of a test for NaN and the root clang makes the root alone, whose NaN may have a sign: it may not see that the two
// belong together.
INLINE f32 sqrt_f32(f32 x) { f32 root = __builtin_sqrtf(x); HIDE(root); return root; }
INLINE f64 sqrt_f64(f64 x) { f64 root = __builtin_sqrt(x); HIDE(root); return root; }
INLINE f16 sqrt_f16(f16 x) { return (f16)__builtin_sqrtf((f32)x); }
INLINE f32 copysign_f32(f32 x, f32 y) { return __builtin_copysignf(x, norm_f32(y)); }
INLINE f64 copysign_f64(f64 x, f64 y) { return __builtin_copysign(x, norm_f64(y)); }
INLINE f16 copysign_f16(f16 x, f16 y) {
  return of_bits_f16((u16)((bits_f16(x) & 0x7fff) | (bits_f16(y) & 0x8000)));
}
INLINE f32 ldexp_f32(f32 x, i32 n) { return __builtin_ldexpf(x, n % 300); }
INLINE f64 ldexp_f64(f64 x, i32 n) { return __builtin_ldexp(x, n % 2200); }
INLINE i32 exponent_f32(f32 x) {
  i32 n = 0;
  if (__builtin_fabsf(x) < __builtin_inff()) (void)__builtin_frexpf(x, &n);
  return n;
}
INLINE f32 mantissa_f32(f32 x) {
  i32 n;
  return __builtin_fabsf(x) < __builtin_inff() ? __builtin_frexpf(x, &n) : 0.0f;
}
INLINE i32 exponent_f64(f64 x) {
  i32 n = 0;
  if (__builtin_fabs(x) < __builtin_inf()) (void)__builtin_frexp(x, &n);
  return n;
}
INLINE f64 mantissa_f64(f64 x) {
  i32 n;
  return __builtin_fabs(x) < __builtin_inf() ? __builtin_frexp(x, &n) : 0.0;
}
INLINE i32 class_f32(f32 x) {
  return __builtin_isnan(x) + 2 * __builtin_isinf(x) + 4 * __builtin_isnormal(x) + 8 * !!__builtin_signbit(norm_f32(x));
}
INLINE i32 class_f64(f64 x) {
  return __builtin_isnan(x) + 2 * __builtin_isinf(x) + 4 * __builtin_isnormal(x) + 8 * !!__builtin_signbit(norm_f64(x));
}

// Result of a conversion to f16, with +0 for -0: clang 22 loses the sign where it rounds a product of f32. Hidden,
// since clang makes 0 - x of
// -x + 0, and -x of that where an instruction takes a sign.
#define CONVERTED(type) \
  INLINE type converted_##type(type x) { HIDE(x); return x + (f16)0; }
CONVERTED(f16)
CONVERTED(f16x2)
CONVERTED(f16x4)

// As a lane of a vector: of a constant -0 beside another value clang 22 makes +0.
INLINE f16 hidden_f16(f16 x) { HIDE(x); return x; }
#define NORM2(type, lane) \
  INLINE type##x2 norm_##type##x2(type##x2 x) { return (type##x2){lane(norm_##type(x.x)), lane(norm_##type(x.y))}; }
#define NORM4(type, lane)                                                       \
  INLINE type##x4 norm_##type##x4(type##x4 x) {                                  \
    return (type##x4){lane(norm_##type(x.x)), lane(norm_##type(x.y)),            \
                      lane(norm_##type(x.z)), lane(norm_##type(x.w))};           \
  }
NORM2(f16, hidden_f16)
NORM4(f16, hidden_f16)
NORM2(f32, )
NORM4(f32, )
NORM2(f64, )

// Atomics. None orders anything: each word has one operation, or one work-item.

#ifdef __HIP__
#define __MEMORY_SCOPE_WRKGRP __HIP_MEMORY_SCOPE_WORKGROUP
#define __MEMORY_SCOPE_DEVICE __HIP_MEMORY_SCOPE_AGENT
#define __MEMORY_SCOPE_SYSTEM __HIP_MEMORY_SCOPE_SYSTEM
#define __scoped_atomic_fetch_add __hip_atomic_fetch_add
#define __scoped_atomic_fetch_sub(place, value, order, scope) __hip_atomic_fetch_add(place, -(value), order, scope)
#define __scoped_atomic_fetch_and __hip_atomic_fetch_and
#define __scoped_atomic_fetch_or __hip_atomic_fetch_or
#define __scoped_atomic_fetch_xor __hip_atomic_fetch_xor
#define __scoped_atomic_fetch_min __hip_atomic_fetch_min
#define __scoped_atomic_fetch_max __hip_atomic_fetch_max
#define __scoped_atomic_fetch_nand(place, value, order, scope) __atomic_fetch_nand(place, value, order)
#define __scoped_atomic_exchange_n __hip_atomic_exchange
#define __scoped_atomic_compare_exchange_n(place, found, value, weak, order, other, scope) \
  __hip_atomic_compare_exchange_strong(place, found, value, order, other, scope)
#endif
#define ATOMIC(operation, place, value, reach) \
  __scoped_atomic_fetch_##operation(place, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_##reach)
// To 16 bits, which clang 14 has no instructions for.
#ifdef __HIP__
#define ADD_U16(space, place, value, reach)                                                                \
  ({                                                                                                       \
    u32 was = 0, more = (u16)(value);                                                                      \
    while (!__hip_atomic_compare_exchange_strong((space u32*)(place), &was, (was & 0xffff0000) | ((was + more) & 0xffff), \
                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED, __MEMORY_SCOPE_##reach)) { \
    }                                                                                                      \
  })
#else
#define ADD_U16(space, place, value, reach) \
  __scoped_atomic_fetch_add((space u16*)(place), value, __ATOMIC_RELAXED, __MEMORY_SCOPE_##reach)
#endif
#define EXCHANGE(place, value) __scoped_atomic_exchange_n(place, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
#define COMPARE_EXCHANGE(type, place, expected, value)                                             \
  ({                                                                                               \
    type found = (expected);                                                                       \
    (void)__scoped_atomic_compare_exchange_n(place, &found, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED, \
                                             __MEMORY_SCOPE_DEVICE);                               \
    found;                                                                                         \
  })

// The state of a work-item, without a gap: it lies in the work-item's row before and after.

#define TWO(type) type type##_0, type##_1;
typedef struct {
  TWO(u32x4) TWO(i32x4) TWO(f32x4) TWO(u64x2) TWO(i64x2) TWO(f64x2)
  TWO(u64) TWO(i64) TWO(f64) TWO(u32x2) TWO(i32x2) TWO(f32x2) TWO(u16x4) TWO(i16x4) TWO(f16x4)
  TWO(u32) TWO(i32) TWO(f32) TWO(u16x2) TWO(i16x2) TWO(f16x2) TWO(u8x4) TWO(i8x4)
  u32 words[8];
  TWO(u16) TWO(i16) TWO(f16)
  u16 shorts[8];
  TWO(u8) TWO(i8)
} state;
_Static_assert(sizeof(state) == 8 * (ROW - SCRATCH), "the state's size");

INLINE GLOBAL state* state_of(const env* e) { return (GLOBAL state*)(e->row + SCRATCH); }

#define PARAMETERS const GLOBAL u64 *in, GLOBAL u64 *out, GLOBAL u64 *cells, u32 arg32, u64 arg64, f32 argf

// Lanes exchange values between phases, where all of them are: `s.u32_1 = CROSS_kind(s.u32_0, argument)` on a GPU, and
// on the host `LANE_kind(argument)`, the work-item that the value is from, or -1 for a value of its own.

#define OUTSIDE 0x5eed5eed
// The lane of a row of 16 that a nibble selects.
#define SELECTED(lane, argument) \
  (((lane) & ~15u) | (((lane)&8 ? ~(u32)(argument) : (u32)(argument)) >> 4 * ((lane)&7) & 15))
// DPP's control, row mask and bank mask, and whether a lane without a source gets zero.
#define DPP_CONTROL(argument) ((argument)&0x1ff)
#define DPP_ROWS(argument) ((argument) >> 12 & 15)
#define DPP_BANKS(argument) ((argument) >> 16 & 15)
#define DPP_ZERO(argument) ((argument) >> 20 & 1)
// A lane of the same 32 for a permutation, and the lane that has it for its own.
#define PERMUTED(lane, argument) (((lane) & ~31u) | ((((lane) * ((argument) | 1)) + ((argument) >> 5)) & 31))

#if DEVICE

#define CROSS_swizzle(x, argument) __builtin_amdgcn_ds_swizzle(x, argument)
#define CROSS_dpp(x, argument) \
  __builtin_amdgcn_update_dpp(OUTSIDE, x, DPP_CONTROL(argument), DPP_ROWS(argument), DPP_BANKS(argument), DPP_ZERO(argument))
#define CROSS_bpermute(x, argument) __builtin_amdgcn_ds_bpermute((i32)(PERMUTED(local, argument) << 2), x)
#define CROSS_permute(x, argument) __builtin_amdgcn_ds_permute((i32)((((local) & ~31u) | ((local + (argument)) & 31)) << 2), x)
#define CROSS_readlane(x, argument) __builtin_amdgcn_readlane(x, (argument)&31)
#define CROSS_first(x, argument) __builtin_amdgcn_readfirstlane(x)
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define CROSS_permlane(x, argument) __builtin_amdgcn_permlane16(x, x, argument, ~(argument), 0, 0)
#define CROSS_permlanex(x, argument) __builtin_amdgcn_permlanex16(x, x, argument, ~(argument), 0, 0)
#else
#define CROSS_permlane(x, argument) __builtin_amdgcn_ds_bpermute((i32)(SELECTED(local, argument) << 2), x)
#define CROSS_permlanex(x, argument) __builtin_amdgcn_ds_bpermute((i32)((SELECTED(local, argument) ^ 16) << 2), x)
#endif
#ifdef __HIP__
// A comparison of all lanes, for not equal; there is no ballot yet.
#define __builtin_amdgcn_ballot_w32(x) ((u32)__builtin_amdgcn_uicmp(x, 0u, 33))
#define __builtin_amdgcn_ballot_w64(x) __builtin_amdgcn_uicmp(x, 0u, 33)
#endif
#if WAVE == 32
#define CROSS_ballot(x, argument) __builtin_amdgcn_ballot_w32((x) >> ((argument)&31) & 1)
#else
#define CROSS_ballot(x, argument) \
  ((u32)__builtin_amdgcn_ballot_w64((x) >> ((argument)&31) & 1) ^ (u32)(__builtin_amdgcn_ballot_w64((x) >> ((argument)&31) & 1) >> 32))
#endif
#define CROSS(kind, argument) s.u32_1 = (u32)CROSS_##kind(s.u32_0, argument);
// Uses the exchanged value once more, and makes another one for the next exchange.
#define MIX s.u32_0 = s.u32_0 * 5 + s.u32_1;

#else

INLINE i64 LANE_swizzle(u32 lane, u32 argument) {
  if (argument & 0x8000) return (lane & ~3u) | (argument >> 2 * (lane & 3) & 3);
  return (lane & ~31u) | ((((lane & 31) & argument) | (argument >> 5 & 31)) ^ (argument >> 10 & 31));
}
INLINE i64 LANE_bpermute(u32 lane, u32 argument) { return PERMUTED(lane, argument); }
INLINE i64 LANE_permute(u32 lane, u32 argument) { return (lane & ~31u) | ((lane - argument) & 31); }
INLINE i64 LANE_readlane(u32 lane, u32 argument) { return lane / WAVE * WAVE + (argument & 31); }
INLINE i64 LANE_first(u32 lane, u32 argument) { return lane / WAVE * WAVE; }
INLINE i64 LANE_permlane(u32 lane, u32 argument) { return SELECTED(lane, argument); }
INLINE i64 LANE_permlanex(u32 lane, u32 argument) { return SELECTED(lane, argument) ^ 16; }
// -1 for `OUTSIDE`, -2 for zero.
INLINE i64 LANE_dpp(u32 lane, u32 argument) {
  const u32 control = DPP_CONTROL(argument), in_row = lane & 15, n = control & 15;
  if (!(DPP_ROWS(argument) >> lane % WAVE / 16 & 1) || !(DPP_BANKS(argument) >> in_row / 4 & 1)) return -1;
  const i64 none = DPP_ZERO(argument) ? -2 : -1;
  switch (control >> 4) {
    case 0x10: return in_row + n > 15 ? none : lane + n;
    case 0x11: return in_row < n ? none : lane - n;
    case 0x12: return (lane & ~15u) | ((in_row - n) & 15);
    case 0x14: return n ? lane ^ 7 : lane ^ 15;
    default: return (lane & ~3u) | (control >> 2 * (lane & 3) & 3);
  }
}
#define CROSS_ALL(kind, argument)                                                   \
  for (u32 local = 0; local < COUNT; ++local) seen[local] = states[local].u32_0;    \
  for (u32 local = 0; local < COUNT; ++local) {                                     \
    const i64 from = LANE_##kind(local, argument);                                  \
    states[local].u32_1 = from >= 0 ? seen[from] : from == -1 ? OUTSIDE : 0;        \
  }
#define MIX_ALL \
  for (u32 local = 0; local < COUNT; ++local) states[local].u32_0 = states[local].u32_0 * 5 + states[local].u32_1;
#define CROSS_BALLOT(argument)                                                                \
  for (u32 first = 0; first < COUNT; first += WAVE) {                                         \
    u32 votes = 0, last = first + WAVE < COUNT ? first + WAVE : COUNT;                        \
    for (u32 local = first; local < last; ++local) votes ^= (states[local].u32_0 >> ((argument)&31) & 1) << local % 32; \
    for (u32 local = first; local < last; ++local) states[local].u32_1 = votes;               \
  }

#endif

#if DEVICE

INLINE void barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// A wave's number is in a register of gfx12.
#ifdef __GFX12__
u32 wave_id(void) __asm("llvm.amdgcn.wave.id");
#define WAVE_ID wave_id()
#else
#define WAVE_ID __builtin_amdgcn_readfirstlane(local / WAVE)
#endif

// HIP's kernels have parameters and variables in LDS with pointers of the generic address space.
#ifdef __HIP__
#define KERNEL(name, size)                                                                                               \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, size))) void name(                                    \
      const u64* in_generic, u64* out_generic, u64* cells_generic, u32 arg32, u64 arg64, f32 argf) {                     \
    static __attribute__((shared)) u32 shared_generic[2][size];                                                          \
    static __attribute__((shared)) u64 lds_cells_generic[CELLS];                                                         \
    const GLOBAL u64* in = (const GLOBAL u64*)in_generic;                                                                \
    GLOBAL u64 *out = (GLOBAL u64*)out_generic, *cells = (GLOBAL u64*)cells_generic;                                     \
    LDS u32(*shared)[size] = (LDS u32(*)[size])shared_generic;                                                           \
    LDS u64* lds_cells = (LDS u64*)lds_cells_generic;                                                                    \
    BEGIN_KERNEL(size)
// In parts, since clang 14 makes nothing of a large copy where it saves on size.
#define COPY_STATE(to, from)                                                                 \
  _Pragma("unroll") for (u32 n = 0; n < sizeof(state) / 16; ++n) ((u32x4*)(to))[n] = ((const u32x4*)(from))[n]
#else
#define KERNEL(name, size)                                                                                               \
  __attribute__((amdgpu_kernel, visibility("default"), amdgpu_flat_work_group_size(1, size))) void name(PARAMETERS) {    \
    static LDS __attribute__((loader_uninitialized)) u32 shared[2][size];                                                \
    static LDS __attribute__((loader_uninitialized)) u64 lds_cells[CELLS];                                               \
    BEGIN_KERNEL(size)
#define COPY_STATE(to, from) (void)(*(to) = *(from))
#endif
#define BEGIN_KERNEL(size)                                                                                               \
    const u32 local = __builtin_amdgcn_workitem_id_x(), group = __builtin_amdgcn_workgroup_id_x();                       \
    const u32 item = group * size + local;                                                                               \
    env e = {in, out + ROW * item, cells, lds_cells, shared[0], &shared[1][local],                                       \
             item, local, group, WAVE_ID, arg32, arg64, argf};                                                           \
    state s;                                                                                                             \
    COPY_STATE(&s, state_of(&e));                                                                                        \
    shared[0][local] = s.u32_0 ^ s.u32_1, shared[1][local] = s.u32_0;                                                    \
    if (local < CELLS) lds_cells[local] = cells[CELLS * (1 + group) + local];                                            \
    barrier();                                                                                                           \
    u32 turn = 0;
// `place` is the work-item's own.
#define NEXT_PHASE(place) barrier(), e.seen = shared[++turn & 1], e.shown = &shared[~turn & 1][place]
#define END_KERNEL                                                               \
  COPY_STATE(state_of(&e), &s);                                                  \
  if (local < CELLS) cells[CELLS * (1 + group) + local] = lds_cells[local];      \
  }

#else

#define HOST_KERNEL(name, size)                                                                                   \
  void name(PARAMETERS, u32 groups) {                                                                             \
    static u32 shared[2][size];                                                                                   \
    static env envs[size];                                                                                        \
    static state states[size];                                                                                    \
    static u32 seen[size];                                                                                        \
    for (u32 group = 0; group < groups; ++group) {                                                                \
      u64* lds_cells = cells + CELLS * (1 + group);                                                               \
      for (u32 local = 0; local < size; ++local) {                                                                \
        const u32 item = group * size + local;                                                                    \
        envs[local] = (env){in, out + ROW * item, cells, lds_cells, shared[0], &shared[1][local],                 \
                            item, local, group, local / WAVE, arg32, arg64, argf};                                \
        states[local] = *state_of(&envs[local]);                                                                  \
        shared[0][local] = states[local].u32_0 ^ states[local].u32_1, shared[1][local] = states[local].u32_0;     \
      }                                                                                                           \
      u32 turn = 0;
#define COUNT (sizeof(envs) / sizeof(envs[0]))
#define PHASE(function, place)                                                       \
  for (u32 local = 0; local < COUNT; ++local) function(&envs[local], &states[local]); \
  ++turn;                                                                            \
  for (u32 local = 0; local < COUNT; ++local) {             \
    envs[local].seen = shared[turn & 1], envs[local].shown = &shared[~turn & 1][place]; \
  }
#define END_HOST_KERNEL                                                                                    \
  for (u32 local = 0; local < COUNT; ++local) *state_of(&envs[local]) = states[local]; \
  }                                                                                                        \
  }

// A kernel that the client runs.
typedef struct {
  const char* name;
  void (*run)(PARAMETERS, u32 groups);
  u32 group_size, groups;
} kernel;

#endif
