#include "trainer/comm/reduce.h"

#include <algorithm>
#include <utility>

namespace nxdkit::trainer {
namespace {

// Below it, every rank gathers all values and adds them up: one collective. Above, each rank adds
// up its slice: two collectives of 1/size of the bytes each.
constexpr size_t kSmall = 4096;
// The block size for long arrays: a copy of a whole gradient would double its memory. Larger
// between processes: each message begins with a handshake that takes as long as megabytes do.
constexpr size_t kBlock = size_t{1} << 20, kRemoteBlock = size_t{4} << 20;
size_t BlockOf(const Comm& comm) { return comm.is_local() ? kBlock : kRemoteBlock; }

template <typename T>
Status SumSmall(Comm& comm, std::span<T> values) {
  std::vector<T> all(values.size() * static_cast<size_t>(comm.size()));
  NXDKIT_TRY(comm.AllGather(std::as_bytes(values), std::as_writable_bytes(std::span(all))));
  std::copy_n(all.begin(), values.size(), values.begin());
  for (size_t r = 1; r < static_cast<size_t>(comm.size()); ++r)
    for (size_t i = 0; i < values.size(); ++i) values[i] += all[r * values.size() + i];
  return OkStatus();
}

// `values` is a multiple of the number of ranks, so it can be sent from and received into in place.
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
  const size_t most = BlockOf(comm) / ranks * ranks;
  std::vector<T> parts;
  while (values.size() > std::max(kSmall, ranks)) {
    const size_t size = std::min(most, values.size() / ranks * ranks);
    NXDKIT_TRY(SumSlices(comm, values.first(size), parts));
    values = values.subspan(size);
  }
  return values.empty() ? OkStatus() : SumSmall(comm, values);
}

// The block of a part in the round that starts `done` elements into each part.
std::pair<size_t, size_t> BlockOf(const FlatCut& cut, int rank, size_t done, size_t most) {
  const size_t begin = std::min(cut.begin(rank) + done, cut.end(rank));
  return {begin, std::min(cut.end(rank) - begin, most)};
}

}  // namespace

Status AllReduceSum(Comm& comm, std::span<float> values) { return Sum(comm, values); }
Status AllReduceSum(Comm& comm, std::span<double> values) { return Sum(comm, values); }

Status ReduceScatterSum(Comm& comm, std::span<float> values, const FlatCut& cut) {
  if (comm.size() == 1) return OkStatus();
  const size_t ranks = static_cast<size_t>(comm.size());
  const size_t most = BlockOf(comm) / ranks;
  size_t longest = 0;
  for (int r = 0; r < comm.size(); ++r) longest = std::max(longest, cut.size(r));
  std::vector<float> parts(ranks * std::min(most, longest));
  std::vector<std::span<const std::byte>> in(ranks);
  std::vector<std::span<std::byte>> out(ranks);
  for (size_t done = 0; done < longest; done += most) {
    const auto [begin, count] = BlockOf(cut, comm.rank(), done, most);
    for (size_t r = 0; r < ranks; ++r) {
      const auto [from, size] = BlockOf(cut, static_cast<int>(r), done, most);
      in[r] = std::as_bytes(values.subspan(from, size));
      out[r] = std::as_writable_bytes(std::span(parts).subspan(r * count, count));
    }
    NXDKIT_TRY(comm.Exchange(in, out));
    std::copy_n(parts.begin(), count, values.begin() + static_cast<ptrdiff_t>(begin));
    for (size_t r = 1; r < ranks; ++r)
      for (size_t i = 0; i < count; ++i) values[begin + i] += parts[r * count + i];
  }
  return OkStatus();
}

Status AllGatherParts(Comm& comm, std::span<std::byte> bytes, size_t element, const FlatCut& cut) {
  if (comm.size() == 1) return OkStatus();
  std::vector<std::span<std::byte>> out;
  for (int r = 0; r < comm.size(); ++r)
    out.push_back(bytes.subspan(cut.begin(r) * element, cut.size(r) * element));
  const std::vector<std::span<const std::byte>> in(out.size(),
                                                   out[static_cast<size_t>(comm.rank())]);
  return comm.Exchange(in, out);
}

}  // namespace nxdkit::trainer
