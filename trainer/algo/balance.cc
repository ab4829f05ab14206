#include "trainer/algo/balance.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/base/errors.h"

namespace nxdkit::trainer {
namespace {

// Rows and the sum of their lengths, in the order in which they were combined.
struct RowSet {
  int64_t sum = 0;
  std::vector<int64_t> rows;

  bool operator<(const RowSet& other) const {
    if (sum != other.sum) return sum < other.sum;
    if (rows.size() != other.rows.size()) return rows.size() < other.rows.size();
    return rows < other.rows;
  }
};

// One partial solution: sets, largest first.
struct State {
  std::vector<RowSet> sets;

  void Sort() {
    std::ranges::stable_sort(sets, [](const RowSet& a, const RowSet& b) { return b < a; });
  }
  int64_t spread() const { return sets.front().sum - sets.back().sum; }
  // Whether `other` comes out of the queue first.
  bool operator<(const State& other) const {
    if (spread() != other.spread()) return spread() < other.spread();
    return sets.front() < other.sets.front();
  }
  // Gives the largest set here the smallest of the other, and so on.
  void Merge(State other) {
    for (size_t i = 0; i < sets.size(); ++i) {
      RowSet& from = other.sets[sets.size() - 1 - i];
      sets[i].sum += from.sum;
      sets[i].rows.insert(sets[i].rows.end(), from.rows.begin(), from.rows.end());
    }
    Sort();
  }
};

// Each run of `run` rows, by ascending length, begins as one state of singletons.
std::vector<Part> Partition(std::span<const int64_t> lengths, size_t parts, size_t run) {
  std::vector<int64_t> rows(lengths.size());
  std::iota(rows.begin(), rows.end(), int64_t{0});
  const auto length = [&](int64_t row) { return lengths[static_cast<size_t>(row)]; };
  std::ranges::stable_sort(rows, [&](int64_t a, int64_t b) { return length(a) < length(b); });
  std::vector<State> heap;
  for (size_t first = 0; first < rows.size(); first += run) {
    State state;
    state.sets.resize(parts);
    for (size_t i = 0; i < run; ++i) state.sets[i] = {length(rows[first + i]), {rows[first + i]}};
    state.Sort();
    heap.push_back(std::move(state));
  }
  std::ranges::make_heap(heap, std::less<>());
  const auto pop = [&] {
    std::ranges::pop_heap(heap, std::less<>());
    State state = std::move(heap.back());
    heap.pop_back();
    return state;
  };
  while (heap.size() > 1) {
    State state = pop();
    state.Merge(pop());
    heap.push_back(std::move(state));
    std::ranges::push_heap(heap, std::less<>());
  }
  std::vector<Part> out;
  for (RowSet& set : heap.front().sets) {
    std::ranges::sort(set.rows);
    out.push_back(std::move(set.rows));
  }
  return out;
}

}  // namespace

int64_t LengthOf(std::span<const int64_t> lengths, const Part& part) {
  int64_t sum = 0;
  for (const int64_t row : part) sum += lengths[static_cast<size_t>(row)];
  return sum;
}

Result<std::vector<Part>> PartitionEqual(std::span<const int64_t> lengths, int64_t parts) {
  const int64_t rows = std::ssize(lengths);
  if (parts < 1 || rows == 0 || rows % parts != 0)
    return BadUsage("{} rows cannot be divided into {} equal parts", rows, parts);
  return Partition(lengths, static_cast<size_t>(parts), static_cast<size_t>(parts));
}

Result<std::vector<Part>> PartitionAny(std::span<const int64_t> lengths, int64_t parts) {
  const int64_t rows = std::ssize(lengths);
  if (parts < 1 || rows < parts)
    return BadUsage("{} rows cannot be divided into {} parts of at least one row", rows, parts);
  return Partition(lengths, static_cast<size_t>(parts), 1);
}

Result<Balance> BalanceRows(std::span<const int64_t> lengths, int64_t workers) {
  NXDKIT_ASSIGN(const std::vector<Part> parts, PartitionEqual(lengths, workers));
  Balance balance;
  std::vector<int64_t> before, after;
  const size_t share = parts[0].size();
  for (size_t part = 0; part < parts.size(); ++part) {
    const auto old = lengths.subspan(part * share, share);
    before.push_back(std::accumulate(old.begin(), old.end(), int64_t{0}));
    after.push_back(LengthOf(lengths, parts[part]));
    balance.order.insert(balance.order.end(), parts[part].begin(), parts[part].end());
  }
  balance.min = std::ranges::min(before);
  balance.max = std::ranges::max(before);
  balance.balanced_min = std::ranges::min(after);
  balance.balanced_max = std::ranges::max(after);
  balance.mean = static_cast<double>(std::accumulate(after.begin(), after.end(), int64_t{0})) /
                 static_cast<double>(workers);
  return balance;
}

int64_t MicroBatchCount(std::span<const int64_t> lengths, int64_t max_tokens) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  max_tokens = std::max<int64_t>(1, max_tokens);
  const int64_t wanted = tokens / max_tokens + (tokens % max_tokens != 0);
  return std::min(std::ssize(lengths), std::max<int64_t>(1, wanted));
}

Result<std::vector<Part>> PackMicroBatches(std::span<const int64_t> lengths, int64_t count) {
  NXDKIT_ASSIGN(std::vector<Part> parts, PartitionAny(lengths, count));
  const auto cost = [&](const Part& part) {
    double squares = 0;  // exact: below 2^53 for all realistic lengths
    for (const int64_t row : part) {
      const double length = static_cast<double>(lengths[static_cast<size_t>(row)]);
      squares += length * length;
    }
    return squares;
  };
  // Same order as the reference: descending by cost, ties by the first row.
  std::ranges::sort(parts, [&](const Part& a, const Part& b) {
    return std::pair(cost(a), a.front()) > std::pair(cost(b), b.front());
  });
  return parts;
}

}  // namespace nxdkit::trainer
