// PRIVATE to trainer/kernels: code shared by attention's forward and backward passes. A task is a
// sequence together with those that continue it (a family), and one key head: different tasks write
// disjoint memory.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "trainer/base/lanes.h"
#include "trainer/base/parallel.h"
#include "trainer/kernels/attention.h"
#include "trainer/kernels/tile.h"

namespace nxdkit::trainer {

// One sequence of a family. Its keys have the columns [column, column + tokens) among those of the
// family; the columns of each sequence are rounded up to whole panels.
struct Member {
  int64_t start = 0;  // token
  int64_t tokens = 0;
  int64_t column = 0;
  // The columns that the parent adds to each row of scores, left of the own columns: 0 for the
  // parent itself.
  int64_t prefix = 0;
  int64_t prefix_columns() const { return RoundUp(prefix, kPanel); }
};

// The columns that a row sees: [prefix_from, prefix) of the parent and [own_from, own_end) of its
// own, which begin at `own`.
struct Seen {
  int64_t prefix_from = 0, prefix = 0;
  int64_t own = 0, own_from = 0, own_end = 0;

  Seen(const Member& member, int64_t row, int64_t window)
      : prefix(member.prefix), own(member.prefix_columns()), own_from(own), own_end(own + row + 1) {
    const int64_t hidden = window > 0 ? std::max<int64_t>(0, prefix + row + 1 - window) : 0;
    prefix_from = std::min(hidden, prefix);
    own_from += hidden - prefix_from;
  }
  // Calls body(from, to) for the ranges that are not seen, before column `end`.
  template <typename Body>
  void ForHidden(int64_t end, const Body& body) const {
    body(0, prefix_from);
    body(prefix, own_from);
    body(own_end, end);
  }
};

struct Family {
  std::vector<Member> members;
  int64_t columns = 0;

  void Add(int64_t start, int64_t end) {
    const int64_t prefix = members.empty() ? 0 : members.front().tokens;
    members.push_back({start, end - start, columns, prefix});
    columns += RoundUp(end - start, kPanel);
  }
};

std::vector<Family> Families(const Sequences& sequences);

// Arrays in one thread's memory, one after another on cache lines. The first pass only counts.
class Arena {
 public:
  explicit Arena(std::byte* memory) : memory_(memory) {}
  template <typename T>
  T* Take(int64_t count) {
    T* here = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += RoundUp(count * static_cast<int64_t>(sizeof(T)), kLine);
    return here;
  }
  int64_t used() const { return used_; }

  // Calls make(arena) with memory of `scratch` that is large enough.
  template <typename Make>
  static auto Fill(std::vector<std::byte>& scratch, const Make& make) {
    Arena count(nullptr);
    make(count);
    const size_t bytes = static_cast<size_t>(count.used() + kLine);
    if (scratch.size() < bytes) scratch.resize(bytes);
    void* first = scratch.data();
    size_t space = scratch.size();
    Arena arena(static_cast<std::byte*>(std::align(kLine, bytes - kLine, first, space)));
    return make(arena);
  }

 private:
  static constexpr int64_t kLine = 64;
  std::byte* memory_;
  int64_t used_ = 0;
};

// Converts `count` values to elements of a product.
void ToElements(const float* from, int64_t count, float* to);
void ToElements(const float* from, int64_t count, uint16_t* to);

// The keys (or values) of a family, as right-hand sides of products.
template <typename Type>
struct KeyPanels {
  using Element = typename Type::Element;
  Element* across = nullptr;  // [panel of 64 columns]: b [D, columns]
  Element* down = nullptr;    // [panel of 64 of D]: b [columns, D]
  Element* rows = nullptr;    // [columns, depth], during construction
  int64_t columns = 0;
  int64_t width = 0;
  int64_t depth() const { return RoundUp(width, Type::kStep); }
  int64_t wide() const { return RoundUp(width, kPanel); }

  static KeyPanels Take(Arena& arena, const Family& family, int64_t width, bool across, bool down) {
    KeyPanels panels;
    panels.columns = family.columns;
    panels.width = width;
    if (across) panels.across = arena.Take<Element>(panels.depth() * family.columns);
    if (down) panels.down = arena.Take<Element>(panels.wide() * family.columns);
    panels.rows = arena.Take<Element>(panels.depth() * family.columns);
    return panels;
  }

  void Make(const Family& family, const float* values, int64_t stride) {
    for (const Member& member : family.members) {
      for (int64_t t = 0; t < member.tokens; ++t)
        ToElements(values + (member.start + t) * stride, width,
                   rows + (member.column + t) * depth());
      const Element* from = rows + member.column * depth();
      for (int64_t first = 0; across && first < member.tokens; first += kPanel)
        PackTransposed<Type>(std::min(kPanel, member.tokens - first), width, from + first * depth(),
                             depth(), across + (member.column + first) * depth());
      for (int64_t first = 0; down && first < width; first += kPanel)
        PackStraight<Type>(std::min(kPanel, width - first), member.tokens, from + first, depth(),
                           down + first * columns + member.column * kPanel);
    }
  }

  // scores = a [rows, D] b, for the columns that the last of the rows sees.
  void Scores(const Member& member, int64_t rows_of_a, const Element* a, int64_t visible,
              float* scores, int64_t stride) const {
    const TileRows<Type> from{a, depth()};
    for (int64_t c = 0; c < member.prefix; c += kPanel)
      RunTile(Type(), rows_of_a, from, across + c * depth(), depth(), scores + c, stride, false);
    float* own = scores + member.prefix_columns();
    for (int64_t c = 0; c < visible; c += kPanel)
      RunTile(Type(), rows_of_a, from, across + (member.column + c) * depth(), depth(), own + c,
              stride, false);
  }

  // out [rows, wide] = weights [rows, columns] b, for the same columns.
  void Mix(const Member& member, int64_t rows_of_a, const Element* weights, int64_t stride,
           int64_t visible, float* out) const {
    const Element* own = weights + member.prefix_columns();
    for (int64_t first = 0; first < width; first += kPanel) {
      const Element* panel = down + first * columns;
      if (member.prefix > 0)
        RunTile(Type(), rows_of_a, {weights, stride}, panel, RoundUp(member.prefix, Type::kStep),
                out + first, wide(), false);
      RunTile(Type(), rows_of_a, {own, stride}, panel + member.column * kPanel,
              RoundUp(visible, Type::kStep), out + first, wide(), member.prefix > 0);
    }
  }
};

// Calls body(family, key head, this thread's memory) for all of them.
template <typename Body>
void ForEachTask(const AttentionShape& shape, const Sequences& sequences, AttentionScratch& scratch,
                 const Body& body) {
  const std::vector<Family> families = Families(sequences);
  const size_t threads = static_cast<size_t>(omp_get_max_threads());
  if (scratch.size() < threads) scratch.resize(threads);
  ParallelFor(static_cast<int64_t>(families.size()) * shape.kv_heads, 1, [&](int64_t task) {
    body(families[static_cast<size_t>(task / shape.kv_heads)], task % shape.kv_heads,
         scratch[static_cast<size_t>(LoopThread())]);
  });
}

}  // namespace nxdkit::trainer
