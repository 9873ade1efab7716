// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Builtins of clang 22 in terms of clang 14's, for GPUs. clang 14 has no C kernels for them, but HIP's in C++: what is
// of one type in C is a template here.

#pragma clang force_cuda_host_device begin

namespace old {

template <typename T> struct parts {
  typedef T lane;
  enum { count = 1 };
};
template <typename T, int N> struct parts<T __attribute__((ext_vector_type(N)))> {
  typedef T lane;
  enum { count = N };
};
template <typename T> using lane = typename parts<T>::lane;

template <int bytes> struct unsigned_of;
template <> struct unsigned_of<1> { typedef u8 type; };
template <> struct unsigned_of<2> { typedef u16 type; };
template <> struct unsigned_of<4> { typedef u32 type; };
template <> struct unsigned_of<8> { typedef u64 type; };
template <typename T> using bits_of = typename unsigned_of<sizeof(T)>::type;

template <typename T> constexpr T greatest() { return T(-1) < T(0) ? T((1ul << (8 * sizeof(T) - 1)) - 1) : T(-1); }
template <typename T> constexpr T least() { return T(-1) < T(0) ? T(1ul << (8 * sizeof(T) - 1)) : T(0); }

// Functions of one lane.
#define OF_LANE template <typename T> INLINE T
OF_LANE add_sat_lane(T a, T b) {
  T sum;
  return !__builtin_add_overflow(a, b, &sum) ? sum : b < T(0) ? least<T>() : greatest<T>();
}
OF_LANE sub_sat_lane(T a, T b) {
  T difference;
  return !__builtin_sub_overflow(a, b, &difference) ? difference : b < T(0) ? greatest<T>() : least<T>();
}
OF_LANE fshl_lane(T a, T b, T by) {
  const u32 size = 8 * sizeof(T), n = bits_of<T>(by) % size;
  return n == 0 ? a : T(bits_of<T>(a) << n | bits_of<T>(b) >> (size - n));
}
OF_LANE fshr_lane(T a, T b, T by) {
  const u32 size = 8 * sizeof(T), n = bits_of<T>(by) % size;
  return n == 0 ? b : T(bits_of<T>(a) << (size - n) | bits_of<T>(b) >> n);
}
OF_LANE popcount_lane(T a) { return T(__builtin_popcountll(bits_of<T>(a))); }
INLINE u8 reversed(u8 a) { return __builtin_bitreverse8(a); }
INLINE u16 reversed(u16 a) { return __builtin_bitreverse16(a); }
INLINE u32 reversed(u32 a) { return __builtin_bitreverse32(a); }
INLINE u64 reversed(u64 a) { return __builtin_bitreverse64(a); }
OF_LANE bitreverse_lane(T a) { return T(reversed(bits_of<T>(a))); }
INLINE f16 fma_lane(f16 a, f16 b, f16 c) { return __builtin_fmaf16(a, b, c); }
INLINE f32 fma_lane(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
INLINE f64 fma_lane(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
// Of equal numbers the one with a sign is less.
OF_LANE lesser(T a, T b) { return a < b || (a == b && __builtin_signbit((f64)a)) ? a : b; }
OF_LANE greater(T a, T b) { return a > b || (a == b && !__builtin_signbit((f64)a)) ? a : b; }
OF_LANE minimum_lane(T a, T b) { return a != a ? a : b != b ? b : lesser(a, b); }
OF_LANE maximum_lane(T a, T b) { return a != a ? a : b != b ? b : greater(a, b); }
OF_LANE minimumnum_lane(T a, T b) { return a != a ? b : b != b ? a : lesser(a, b); }
OF_LANE maximumnum_lane(T a, T b) { return a != a ? b : b != b ? a : greater(a, b); }
INLINE f16 rint_lane(f16 a) { return (f16)__builtin_rintf((f32)a); }
INLINE f32 rint_lane(f32 a) { return __builtin_rintf(a); }
INLINE f64 rint_lane(f64 a) { return __builtin_rint(a); }
// Not __builtin_round, which loses the sign of a result of zero.
INLINE f64 round_lane(f64 a) {
  const f64 whole = __builtin_trunc(a);
  return __builtin_copysign(__builtin_fabs(a - whole) >= 0.5 ? __builtin_fabs(whole) + 1 : whole, a);
}
INLINE f32 round_lane(f32 a) { return (f32)round_lane((f64)a); }
INLINE f16 round_lane(f16 a) { return (f16)(f32)round_lane((f64)a); }

// The same of each lane, whose numbers are known: without optimisation clang 14 loses the high half of a lane of 64
// bits that is written by a number in a register.
#define EACH(name, parameters, whole, first, second, third, fourth)                                     \
  template <typename T> INLINE T name parameters {                                                      \
    if constexpr (parts<T>::count == 1) {                                                               \
      return name##_lane whole;                                                                         \
    } else if constexpr (parts<T>::count == 2) {                                                        \
      return (T){name##_lane first, name##_lane second};                                                \
    } else {                                                                                            \
      return (T){name##_lane first, name##_lane second, name##_lane third, name##_lane fourth};         \
    }                                                                                                   \
  }
// A lane as a value: a part of a vector is no type's.
#define L(x, n) lane<T>(x[n])
#define EACH1(name) EACH(name, (T a), (a), (L(a, 0)), (L(a, 1)), (L(a, 2)), (L(a, 3)))
#define EACH2(name) \
  EACH(name, (T a, T b), (a, b), (L(a, 0), L(b, 0)), (L(a, 1), L(b, 1)), (L(a, 2), L(b, 2)), (L(a, 3), L(b, 3)))
#define EACH3(name)                                                                                      \
  EACH(name, (T a, T b, T c), (a, b, c), (L(a, 0), L(b, 0), L(c, 0)), (L(a, 1), L(b, 1), L(c, 1)),       \
       (L(a, 2), L(b, 2), L(c, 2)), (L(a, 3), L(b, 3), L(c, 3)))
EACH1(popcount) EACH1(bitreverse) EACH1(rint) EACH1(round)
EACH2(add_sat) EACH2(sub_sat) EACH2(minimum) EACH2(maximum) EACH2(minimumnum) EACH2(maximumnum)
EACH3(fshl) EACH3(fshr) EACH3(fma)

#define REDUCE(name, expression)                                                                     \
  template <typename T> INLINE lane<T> reduce_##name(T x) {                                          \
    lane<T> a = x[0];                                                                                \
    for (int n = 1; n < parts<T>::count; ++n) {                                                      \
      const lane<T> b = x[n];                                                                        \
      a = lane<T>(expression);                                                                       \
    }                                                                                                \
    return a;                                                                                        \
  }
// Without a sign, so that nothing overflows.
REDUCE(add, (u64)a + (u64)b) REDUCE(mul, (u64)a * (u64)b) REDUCE(xor, a ^ b) REDUCE(or, a | b) REDUCE(and, a & b)
REDUCE(min, a < b ? a : b) REDUCE(max, a > b ? a : b)

template <typename T> INLINE i32 clz(T a, i32 none) {
  return a == 0 ? none : __builtin_clzll(a) - (64 - 8 * (i32)sizeof(T));
}
template <typename T> INLINE i32 ctz(T a, i32 none) { return a == 0 ? none : __builtin_ctzll(a); }


// Roots that are rounded, of the instructions' estimates: as later clangs make them.
INLINE f32 sqrtf(f32 x) {
  const bool small = x < 0x1p-96f;
  const f32 scaled = small ? x * 0x1p32f : x;
  f32 root = __builtin_sqrtf(scaled);
  union { f32 value; u32 bits; } at = {root}, below = {root}, above = {root};
  below.bits = at.bits - 1, above.bits = at.bits + 1;
  const f32 under = __builtin_fmaf(-below.value, root, scaled), over = __builtin_fmaf(-above.value, root, scaled);
  root = under <= 0 ? below.value : root;
  root = over > 0 ? above.value : root;
  root = small ? root * 0x1p-16f : root;
  return scaled == 0 || scaled == __builtin_inff() ? scaled : root;
}
INLINE f64 sqrt(f64 x) {
  const bool small = x < 0x1p-767;
  const f64 scaled = __builtin_amdgcn_ldexp(x, small ? 256 : 0);
  const f64 estimate = __builtin_amdgcn_rsq(scaled), half = 0.5 * estimate, root = scaled * estimate;
  const f64 r = __builtin_fma(-half, root, 0.5), h = __builtin_fma(half, r, half), g = __builtin_fma(root, r, root);
  const f64 better = __builtin_fma(__builtin_fma(-g, g, scaled), h, g);
  const f64 best = __builtin_fma(__builtin_fma(-better, better, scaled), h, better);
  return scaled == 0 || scaled == __builtin_inf() ? scaled : __builtin_amdgcn_ldexp(best, small ? -128 : 0);
}
INLINE f32 frexpf(f32 x, i32* n) { *n = __builtin_amdgcn_frexp_expf(x); return __builtin_amdgcn_frexp_mantf(x); }
INLINE f64 frexp(f64 x, i32* n) { *n = __builtin_amdgcn_frexp_exp(x); return __builtin_amdgcn_frexp_mant(x); }

}  // namespace old

#pragma clang force_cuda_host_device end

#define __builtin_elementwise_popcount old::popcount
#define __builtin_elementwise_bitreverse old::bitreverse
#define __builtin_elementwise_rint old::rint
#define __builtin_elementwise_roundeven old::rint
#define __builtin_elementwise_round old::round
#define __builtin_elementwise_add_sat old::add_sat
#define __builtin_elementwise_sub_sat old::sub_sat
#define __builtin_elementwise_minimum old::minimum
#define __builtin_elementwise_maximum old::maximum
#define __builtin_elementwise_minimumnum old::minimumnum
#define __builtin_elementwise_maximumnum old::maximumnum
#define __builtin_elementwise_fshl old::fshl
#define __builtin_elementwise_fshr old::fshr
#define __builtin_elementwise_fma old::fma
#define __builtin_reduce_add old::reduce_add
#define __builtin_reduce_mul old::reduce_mul
#define __builtin_reduce_xor old::reduce_xor
#define __builtin_reduce_or old::reduce_or
#define __builtin_reduce_and old::reduce_and
#define __builtin_reduce_min old::reduce_min
#define __builtin_reduce_max old::reduce_max
#define __builtin_sqrtf old::sqrtf
#define __builtin_sqrt old::sqrt
#define __builtin_frexpf old::frexpf
#define __builtin_frexp old::frexp
#define __builtin_ldexpf __builtin_amdgcn_ldexpf
#define __builtin_ldexp __builtin_amdgcn_ldexp
#define __builtin_clzg old::clz
#define __builtin_ctzg old::ctz
