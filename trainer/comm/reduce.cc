#include "trainer/comm/reduce.h"

#include <algorithm>
#include <vector>

namespace nxdkit::trainer {
namespace {

// Few values: every rank gathers all and reduces all, one collective. Many: each rank reduces its
// slice, two collectives of 1/size of the bytes each.
constexpr size_t kSmall = 4096;

template <typename T, typename Op>
Status ReduceSmall(Comm& comm, std::span<T> values, Op op) {
  std::vector<T> all(values.size() * static_cast<size_t>(comm.size()));
  NXDKIT_TRY(comm.AllGather(std::as_bytes(values), std::as_writable_bytes(std::span(all))));
  std::copy_n(all.begin(), values.size(), values.begin());
  for (size_t r = 1; r < static_cast<size_t>(comm.size()); ++r)
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = op(values[i], all[r * values.size() + i]);
  return OkStatus();
}

template <typename T, typename Op>
Status ReduceSlices(Comm& comm, std::span<T> values, Op op) {
  const size_t ranks = static_cast<size_t>(comm.size());
  const size_t slice = (values.size() + ranks - 1) / ranks;
  std::vector<T> in(slice * ranks), out(slice * ranks);
  std::copy(values.begin(), values.end(), in.begin());
  NXDKIT_TRY(comm.AllToAll(std::as_bytes(std::span(in)), std::as_writable_bytes(std::span(out))));
  for (size_t r = 1; r < ranks; ++r)
    for (size_t i = 0; i < slice; ++i) out[i] = op(out[i], out[r * slice + i]);
  NXDKIT_TRY(comm.AllGather(std::as_bytes(std::span(out).first(slice)),
                            std::as_writable_bytes(std::span(in))));
  std::copy_n(in.begin(), values.size(), values.begin());
  return OkStatus();
}

template <typename T, typename Op>
Status Reduce(Comm& comm, std::span<T> values, Op op) {
  if (comm.size() == 1 || values.empty()) return OkStatus();
  if (values.size() <= kSmall) return ReduceSmall(comm, values, op);
  return ReduceSlices(comm, values, op);
}

constexpr auto kSum = [](auto a, auto b) { return a + b; };

}  // namespace

Status AllReduceSum(Comm& comm, std::span<float> values) { return Reduce(comm, values, kSum); }
Status AllReduceSum(Comm& comm, std::span<double> values) { return Reduce(comm, values, kSum); }
Status AllReduceMax(Comm& comm, std::span<float> values) {
  return Reduce(comm, values, [](float a, float b) { return std::max(a, b); });
}

}  // namespace nxdkit::trainer
