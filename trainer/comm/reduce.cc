#include "trainer/comm/reduce.h"

#include <algorithm>
#include <vector>

namespace nxdkit::trainer {
namespace {

// Few values: every rank gathers all and adds all, one collective. Many: each rank adds up its
// slice, two collectives of 1/size of the bytes each.
constexpr size_t kSmall = 4096;
// Of many, so many in one go: a copy of a whole gradient would take its memory again.
constexpr size_t kBlock = size_t{1} << 20;

template <typename T>
Status SumSmall(Comm& comm, std::span<T> values) {
  std::vector<T> all(values.size() * static_cast<size_t>(comm.size()));
  NXDKIT_TRY(comm.AllGather(std::as_bytes(values), std::as_writable_bytes(std::span(all))));
  std::copy_n(all.begin(), values.size(), values.begin());
  for (size_t r = 1; r < static_cast<size_t>(comm.size()); ++r)
    for (size_t i = 0; i < values.size(); ++i) values[i] += all[r * values.size() + i];
  return OkStatus();
}

// `values` is a multiple of the ranks, so that it can be sent from and received into in place.
template <typename T>
Status SumSlices(Comm& comm, std::span<T> values, std::vector<T>& parts) {
  const size_t ranks = static_cast<size_t>(comm.size());
  const size_t slice = values.size() / ranks;
  parts.resize(values.size());
  NXDKIT_TRY(comm.AllToAll(std::as_bytes(values), std::as_writable_bytes(std::span(parts))));
  for (size_t r = 1; r < ranks; ++r)
    for (size_t i = 0; i < slice; ++i) parts[i] += parts[r * slice + i];
  return comm.AllGather(std::as_bytes(std::span(parts).first(slice)),
                        std::as_writable_bytes(values));
}

template <typename T>
Status Sum(Comm& comm, std::span<T> values) {
  if (comm.size() == 1 || values.empty()) return OkStatus();
  const size_t ranks = static_cast<size_t>(comm.size());
  const size_t most = kBlock / ranks * ranks;
  std::vector<T> parts;
  while (values.size() > std::max(kSmall, ranks)) {
    const size_t size = std::min(most, values.size() / ranks * ranks);
    NXDKIT_TRY(SumSlices(comm, values.first(size), parts));
    values = values.subspan(size);
  }
  return values.empty() ? OkStatus() : SumSmall(comm, values);
}

}  // namespace

Status AllReduceSum(Comm& comm, std::span<float> values) { return Sum(comm, values); }
Status AllReduceSum(Comm& comm, std::span<double> values) { return Sum(comm, values); }

}  // namespace nxdkit::trainer
