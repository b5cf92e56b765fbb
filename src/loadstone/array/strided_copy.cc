#include "loadstone/array/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "loadstone/base/error.h"

// Byte shuffles are one instruction from SSSE3 on, which every x86-64 machine of the last fifteen years has; the rest
// of the library is built for the baseline.
#if defined(__x86_64__)
#define LOADSTONE_SHUFFLES __attribute__((target("ssse3")))
#else
#define LOADSTONE_SHUFFLES
#endif
#define LOADSTONE_INLINE inline __attribute__((always_inline))

namespace loadstone {

namespace {

bool fast_shuffles() {
#if defined(__x86_64__)
  static const bool supported = __builtin_cpu_supports("ssse3") != 0;
  return supported;
#else
  return true;
#endif
}

using V8 = std::uint8_t __attribute__((vector_size(16)));
using V16 = std::uint16_t __attribute__((vector_size(16)));
using V32 = std::uint32_t __attribute__((vector_size(16)));
using V64 = std::uint64_t __attribute__((vector_size(16)));

struct Bytes16 {
  std::uint64_t first, second;
};

template <typename T>
LOADSTONE_INLINE T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <typename T>
LOADSTONE_INLINE void store(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

/// Reverses each group of G bytes; G = 1 leaves them.
template <int G>
LOADSTONE_INLINE V8 swapped(V8 v) {
  if constexpr (G == 1) return v;
  return __builtin_shufflevector(v, v, 0 ^ (G - 1), 1 ^ (G - 1), 2 ^ (G - 1), 3 ^ (G - 1), 4 ^ (G - 1), 5 ^ (G - 1),
                                 6 ^ (G - 1), 7 ^ (G - 1), 8 ^ (G - 1), 9 ^ (G - 1), 10 ^ (G - 1), 11 ^ (G - 1),
                                 12 ^ (G - 1), 13 ^ (G - 1), 14 ^ (G - 1), 15 ^ (G - 1));
}

template <int G>
LOADSTONE_INLINE std::uint8_t swapped(std::uint8_t v) {
  return v;
}
template <int G>
LOADSTONE_INLINE std::uint16_t swapped(std::uint16_t v) {
  return G == 1 ? v : __builtin_bswap16(v);
}
template <int G>
LOADSTONE_INLINE std::uint32_t swapped(std::uint32_t v) {
  if constexpr (G == 1) return v;
  const std::uint32_t all = __builtin_bswap32(v);
  return G == 4 ? all : all << 16U | all >> 16U;
}
template <int G>
LOADSTONE_INLINE std::uint64_t swapped(std::uint64_t v) {
  if constexpr (G == 1) return v;
  const std::uint64_t all = __builtin_bswap64(v);
  if constexpr (G == 8) return all;
  if constexpr (G == 4) return all << 32U | all >> 32U;
  return (v & 0x00FF00FF00FF00FFU) << 8U | (v >> 8U & 0x00FF00FF00FF00FFU);
}
template <int G>
LOADSTONE_INLINE Bytes16 swapped(Bytes16 v) {
  if constexpr (G == 16) return {__builtin_bswap64(v.second), __builtin_bswap64(v.first)};
  return {swapped<G>(v.first), swapped<G>(v.second)};
}

template <typename T>
struct Interleave;
template <>
struct Interleave<std::uint8_t> {
  static LOADSTONE_INLINE V8 low(V8 a, V8 b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static LOADSTONE_INLINE V8 high(V8 a, V8 b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
};
template <>
struct Interleave<std::uint16_t> {
  static LOADSTONE_INLINE V8 low(V8 a, V8 b) {
    return reinterpret_cast<V8>(
        __builtin_shufflevector(reinterpret_cast<V16>(a), reinterpret_cast<V16>(b), 0, 8, 1, 9, 2, 10, 3, 11));
  }
  static LOADSTONE_INLINE V8 high(V8 a, V8 b) {
    return reinterpret_cast<V8>(
        __builtin_shufflevector(reinterpret_cast<V16>(a), reinterpret_cast<V16>(b), 4, 12, 5, 13, 6, 14, 7, 15));
  }
};
template <>
struct Interleave<std::uint32_t> {
  static LOADSTONE_INLINE V8 low(V8 a, V8 b) {
    return reinterpret_cast<V8>(
        __builtin_shufflevector(reinterpret_cast<V32>(a), reinterpret_cast<V32>(b), 0, 4, 1, 5));
  }
  static LOADSTONE_INLINE V8 high(V8 a, V8 b) {
    return reinterpret_cast<V8>(
        __builtin_shufflevector(reinterpret_cast<V32>(a), reinterpret_cast<V32>(b), 2, 6, 3, 7));
  }
};
template <>
struct Interleave<std::uint64_t> {
  static LOADSTONE_INLINE V8 low(V8 a, V8 b) {
    return reinterpret_cast<V8>(__builtin_shufflevector(reinterpret_cast<V64>(a), reinterpret_cast<V64>(b), 0, 2));
  }
  static LOADSTONE_INLINE V8 high(V8 a, V8 b) {
    return reinterpret_cast<V8>(__builtin_shufflevector(reinterpret_cast<V64>(a), reinterpret_cast<V64>(b), 1, 3));
  }
};

/// One dimension of a copy: n steps of d bytes in dst and s bytes in src.
struct Axis {
  std::int64_t n, d, s;
};

/// At most 62 dimensions have two elements or more, or the copy would never end.
struct Axes {
  std::array<Axis, 64> axis;
  int count = 0;

  Axis& inner() { return axis[static_cast<std::size_t>(count - 1)]; }
  Axis& operator[](int i) { return axis[static_cast<std::size_t>(i)]; }
  void push(Axis a) {
    if (count == 64) throw internal_error("a copy of more than 2^63 elements");
    axis[static_cast<std::size_t>(count++)] = a;
  }
  void remove(int at) {
    for (int i = at; i + 1 < count; ++i) (*this)[i] = (*this)[i + 1];
    --count;
  }
  /// Calls fn(dst, src) for each index of the axes.
  template <typename Fn>
  LOADSTONE_INLINE void walk(std::byte* d, const std::byte* s, const Fn& fn) const {
    std::array<std::int64_t, 64> index;
    std::fill_n(index.begin(), count, 0);
    for (;;) {
      fn(d, s);
      int i = count - 1;
      for (; i >= 0; --i) {
        const auto at = static_cast<std::size_t>(i);
        d += axis[at].d;
        s += axis[at].s;
        if (++index[at] < axis[at].n) break;
        d -= axis[at].n * axis[at].d;
        s -= axis[at].n * axis[at].s;
        index[at] = 0;
      }
      if (i < 0) return;
    }
  }
};

/// Slowest destination stride first, strides of dst positive, neighbours merged where both sides allow it.
void normalise(Axes& axes, std::byte*& d, const std::byte*& s) {
  for (int i = 0; i < axes.count; ++i) {
    Axis& a = axes[i];
    if (a.d > 0 || (a.d == 0 && a.s >= 0)) continue;
    d += (a.n - 1) * a.d;
    s += (a.n - 1) * a.s;
    a.d = -a.d;
    a.s = -a.s;
  }
  std::stable_sort(axes.axis.begin(), axes.axis.begin() + axes.count,
                   [](const Axis& a, const Axis& b) { return a.d != b.d ? a.d > b.d : std::abs(a.s) > std::abs(b.s); });
  for (int i = axes.count - 2; i >= 0; --i) {
    Axis& outer = axes[i];
    const Axis& inner = axes[i + 1];
    if (outer.d != inner.n * inner.d || outer.s != inner.n * inner.s) continue;
    outer = {outer.n * inner.n, inner.d, inner.s};
    axes.remove(i + 1);
  }
}

template <int G>
LOADSTONE_SHUFFLES void swap_run_vectors(std::byte* dst, const std::byte* src, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) {
    const V8 a = load<V8>(src + i);
    const V8 b = load<V8>(src + i + 16);
    const V8 c = load<V8>(src + i + 32);
    const V8 d = load<V8>(src + i + 48);
    store(dst + i, swapped<G>(a));
    store(dst + i + 16, swapped<G>(b));
    store(dst + i + 32, swapped<G>(c));
    store(dst + i + 48, swapped<G>(d));
  }
}

/// Copies and swaps a run; dst may be src.
template <typename T>
void swap_run(std::byte* dst, const std::byte* src, std::int64_t bytes) {
  constexpr int kGroup = sizeof(T);
  std::int64_t done = 0;
  if (fast_shuffles()) {
    done = bytes / 64 * 64;
    swap_run_vectors<kGroup>(dst, src, done);
  }
  for (; done < bytes; done += kGroup) store(dst + done, swapped<kGroup>(load<T>(src + done)));
}

void reverse_item(std::byte* dst, const std::byte* src, std::int64_t bytes, std::int64_t group) {
  for (std::int64_t at = 0; at < bytes; at += group) {
    for (std::int64_t i = 0; i < group; ++i) dst[at + i] = src[at + group - 1 - i];
  }
}

/// A contiguous run; swap 1 = as it is.
void copy_run(std::byte* dst, const std::byte* src, std::int64_t bytes, std::int64_t swap) {
  switch (swap) {
    case 1: std::memcpy(dst, src, static_cast<std::size_t>(bytes)); return;
    case 2: swap_run<std::uint16_t>(dst, src, bytes); return;
    case 4: swap_run<std::uint32_t>(dst, src, bytes); return;
    case 8: swap_run<std::uint64_t>(dst, src, bytes); return;
    case 16: swap_run<Bytes16>(dst, src, bytes); return;
    default: reverse_item(dst, src, bytes, swap);
  }
}

/// n copies of the element at `dst` behind it, by doubling up to a size that stays in the nearest cache.
void repeat_run(std::byte* dst, std::int64_t itemsize, std::int64_t n) {
  const std::int64_t bytes = itemsize * n;
  const std::int64_t block = std::max<std::int64_t>(4096 / itemsize, 1) * itemsize;
  for (std::int64_t done = itemsize; done < bytes;) {
    const std::int64_t step = std::min({done, block, bytes - done});
    std::memcpy(dst + done, dst, static_cast<std::size_t>(step));
    done += step;
  }
}

template <typename T, int G>
void copy_line(std::byte* d, const std::byte* s, std::int64_t n, std::int64_t step_d, std::int64_t step_s) {
  if (step_d == static_cast<std::int64_t>(sizeof(T))) {
    for (std::int64_t i = 0; i < n; ++i) {
      store(d + i * static_cast<std::int64_t>(sizeof(T)), swapped<G>(load<T>(s)));
      s += step_s;
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    store(d, swapped<G>(load<T>(s)));
    d += step_d;
    s += step_s;
  }
}

/// Bytes of a tile along each side: a tile of both sides stays in the first-level cache.
template <typename T>
constexpr std::int64_t tile_side() {
  return sizeof(T) <= 2 ? 64 : 256 / static_cast<std::int64_t>(sizeof(T));
}

/// A tile whose `a` is contiguous in dst and whose `b` is contiguous in src, as squares of 16 bytes a side turned in
/// registers. na and nb are multiples of 16 / sizeof(T).
template <typename T, int G>
LOADSTONE_SHUFFLES void turn_tile(std::byte* d, const std::byte* s, std::int64_t na, std::int64_t nb, std::int64_t b_d,
                                  std::int64_t a_s) {
  constexpr int kSide = 16 / sizeof(T);
  for (std::int64_t b = 0; b < nb; b += kSide) {
    for (std::int64_t a = 0; a < na; a += kSide) {
      std::array<V8, kSide> rows;
      std::array<V8, kSide> next;
      const std::byte* from = s + a * a_s + b * static_cast<std::int64_t>(sizeof(T));
#pragma GCC unroll 16
      for (int i = 0; i < kSide; ++i) rows[static_cast<std::size_t>(i)] = swapped<G>(load<V8>(from + i * a_s));
#pragma GCC unroll 4
      for (int round = 1; round < kSide; round *= 2) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < kSide / 2; ++i) {
          next[2 * i] = Interleave<T>::low(rows[i], rows[i + kSide / 2]);
          next[2 * i + 1] = Interleave<T>::high(rows[i], rows[i + kSide / 2]);
        }
        rows = next;
      }
      std::byte* to = d + b * b_d + a * static_cast<std::int64_t>(sizeof(T));
#pragma GCC unroll 16
      for (int i = 0; i < kSide; ++i) store(to + i * b_d, rows[static_cast<std::size_t>(i)]);
    }
  }
}

template <typename T, int G>
void copy_tile(std::byte* d, const std::byte* s, Axis a, Axis b) {
  if constexpr (sizeof(T) < 16) {
    constexpr std::int64_t kSide = 16 / sizeof(T);
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    if (a.d == kSize && b.s == kSize && fast_shuffles()) {
      const std::int64_t na = a.n / kSide * kSide;
      const std::int64_t nb = b.n / kSide * kSide;
      turn_tile<T, G>(d, s, na, nb, b.d, a.s);
      for (std::int64_t j = 0; j < b.n; ++j) {
        const std::int64_t from = j < nb ? na : 0;
        copy_line<T, G>(d + j * b.d + from * a.d, s + j * b.s + from * a.s, a.n - from, a.d, a.s);
      }
      return;
    }
  }
  for (std::int64_t j = 0; j < b.n; ++j) copy_line<T, G>(d + j * b.d, s + j * b.s, a.n, a.d, a.s);
}

/// Asks for the lines of dst that the next tile will write: rows far apart are nothing the machine would guess.
template <typename T>
LOADSTONE_INLINE void prefetch_tile(std::byte* d, std::int64_t row_d, std::int64_t rows) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::int64_t at = 0; at < tile_side<T>() * static_cast<std::int64_t>(sizeof(T)); at += kLine) {
      __builtin_prefetch(d + j * row_d + at, 1);
    }
  }
}

/// All elements; the innermost axis has the smallest dst stride. When another axis is nearer in src, the two are walked
/// in tiles, so that each cache line is fetched once on either side.
template <typename T, int G>
void copy_elements(Axes axes, std::byte* d, const std::byte* s) {
  if (axes.count == 0) {
    store(d, swapped<G>(load<T>(s)));
    return;
  }
  const Axis a = axes.inner();
  axes.remove(axes.count - 1);
  int near = -1;
  for (int i = 0; i < axes.count; ++i) {
    const std::int64_t best = near < 0 ? std::abs(a.s) : std::abs(axes[near].s);
    if (axes[i].s != 0 && std::abs(axes[i].s) < best) near = i;
  }
  if (near < 0) {
    axes.walk(d, s, [&](std::byte* to, const std::byte* from) { copy_line<T, G>(to, from, a.n, a.d, a.s); });
    return;
  }
  const Axis b = axes[near];
  axes.remove(near);
  constexpr std::int64_t kTile = tile_side<T>();
  axes.walk(d, s, [&](std::byte* to, const std::byte* from) {
    for (std::int64_t j = 0; j < b.n; j += kTile) {
      const Axis tile_b{std::min(kTile, b.n - j), b.d, b.s};
      for (std::int64_t i = 0; i < a.n; i += kTile) {
        const Axis tile_a{std::min(kTile, a.n - i), a.d, a.s};
        prefetch_tile<T>(to + std::min(i + kTile, a.n - 1) * a.d + j * b.d, b.d, tile_b.n);
        copy_tile<T, G>(to + i * a.d + j * b.d, from + i * a.s + j * b.s, tile_a, tile_b);
      }
    }
  });
}

using CopyElements = void (*)(Axes, std::byte*, const std::byte*);

/// The loop for elements of this size, or null for sizes without one.
CopyElements element_loop(std::int64_t itemsize, std::int64_t swap) {
  switch (itemsize * 100 + swap) {
    case 101: return copy_elements<std::uint8_t, 1>;
    case 201: return copy_elements<std::uint16_t, 1>;
    case 202: return copy_elements<std::uint16_t, 2>;
    case 401: return copy_elements<std::uint32_t, 1>;
    case 402: return copy_elements<std::uint32_t, 2>;
    case 404: return copy_elements<std::uint32_t, 4>;
    case 801: return copy_elements<std::uint64_t, 1>;
    case 802: return copy_elements<std::uint64_t, 2>;
    case 804: return copy_elements<std::uint64_t, 4>;
    case 808: return copy_elements<std::uint64_t, 8>;
    case 1601: return copy_elements<Bytes16, 1>;
    case 1602: return copy_elements<Bytes16, 2>;
    case 1604: return copy_elements<Bytes16, 4>;
    case 1608: return copy_elements<Bytes16, 8>;
    case 1616: return copy_elements<Bytes16, 16>;
    default: return nullptr;
  }
}

}  // namespace

void strided_copy(const StridedBytes& dst, const StridedBytes& src, const Dims& extents, std::int64_t itemsize,
                  std::int64_t swap_bytes) {
  const std::int64_t swap = swap_bytes > 1 ? swap_bytes : 1;
  if (itemsize <= 0 || itemsize % swap != 0) throw internal_error("strided_copy: groups do not fill the element");
  Axes axes;
  for (int i = 0; i < extents.size(); ++i) {
    if (extents[i] <= 0) return;
    if (extents[i] > 1) axes.push({extents[i], dst.strides_bytes[i], src.strides_bytes[i]});
  }
  std::byte* d = dst.data;
  const std::byte* s = src.data;
  normalise(axes, d, s);

  std::int64_t run = itemsize;
  if (axes.count > 0 && axes.inner().d == itemsize && axes.inner().s == itemsize) {
    run *= axes.inner().n;
    axes.remove(axes.count - 1);
  } else if (axes.count > 0 && axes.inner().d == itemsize && axes.inner().s == 0) {
    const std::int64_t n = axes.inner().n;
    axes.remove(axes.count - 1);
    axes.walk(d, s, [&](std::byte* to, const std::byte* from) {
      copy_run(to, from, itemsize, swap);
      repeat_run(to, itemsize, n);
    });
    return;
  }
  if (axes.count > 0) {
    // A short run is moved as one wide element.
    if (const CopyElements loop = run <= 16 ? element_loop(run, swap) : nullptr) {
      loop(axes, d, s);
      return;
    }
  }
  axes.walk(d, s, [&](std::byte* to, const std::byte* from) { copy_run(to, from, run, swap); });
}

void swap_in_place(std::byte* data, std::int64_t bytes, std::int64_t group) {
  if (group <= 1) return;
  if (bytes % group != 0 || (group != 2 && group != 4 && group != 8 && group != 16)) {
    throw internal_error("swap_in_place: not a whole number of groups of 2, 4, 8 or 16 bytes");
  }
  copy_run(data, data, bytes, group);
}

}  // namespace loadstone
