#include "formats/ops/verify/exchange.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "formats/artifact/canonical.h"
#include "lib/plan/gather.h"

namespace nxdkit::ops {
namespace {

constexpr int64_t kColumns = 32;
constexpr int64_t kMostRows = 1 << 16;  // of a matrix that is looked at: heads, and small MLPs
constexpr int kMostParts = 4096;
constexpr size_t kMatrices = 3;
constexpr double kUnexplained = 0.1;  // of the difference, at the most
constexpr uint64_t kStagingBytes = 1 << 20;

// The first columns of each row, [rows, columns].
struct Strip {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;
};

class Reader {
 public:
  static Result<Reader> Make(const BoundArtifact& artifact) {
    NXDKIT_ASSIGN(CanonicalPlan plan, PlanCanonical(artifact));
    return Reader(artifact, std::move(plan));
  }

  Result<Strip> Read(uint32_t param) {
    const OutputTensor& output = plan_.outputs[param];
    const CanonicalReader reader(artifact_.bound, plan_);
    const int64_t width = ElementBytes(output.dtype);
    Strip strip{output.shape[0], std::min(output.shape[1], kColumns), {}};
    std::vector<std::byte> bytes(static_cast<size_t>(strip.columns * width));
    for (int64_t row = 0; row < strip.rows; ++row) {
      const auto at = static_cast<uint64_t>(row * output.shape[1] * width);
      NXDKIT_TRY(reader.Read(param, at, bytes, gatherer_));
      for (int64_t c = 0; c < strip.columns; ++c)
        strip.values.push_back(ElementAsDouble(output.dtype, bytes.data() + c * width));
    }
    return strip;
  }

 private:
  Reader(const BoundArtifact& artifact, CanonicalPlan plan)
      : artifact_(artifact), plan_(std::move(plan)) {}

  const BoundArtifact& artifact_;
  CanonicalPlan plan_;
  Gatherer gatherer_{kStagingBytes};
};

// What is left of the difference when row r of `actual` is a row of `right`.
template <typename RowOf>
double Distance(const Strip& right, const Strip& actual, RowOf row_of) {
  double sum = 0;
  for (int64_t r = 0; r < actual.rows; ++r)
    for (int64_t c = 0; c < actual.columns; ++c) {
      const double difference =
          actual.values[r * actual.columns + c] - right.values[row_of(r) * right.columns + c];
      sum += difference * difference;
    }
  return sum;
}

double DistanceBy(const RowExchange& exchange, const Strip& right, const Strip& actual) {
  const int64_t part = actual.rows / exchange.parts();
  return Distance(right, actual, [&](int64_t r) {
    return exchange.PartAt(static_cast<int>(r / part)) * part + r % part;
  });
}

struct Pair {
  Strip right;
  Strip actual;
  double in_place = 0;  // the difference of the rows as they lie
};

bool Explains(const RowExchange& exchange, const Pair& pair) {
  if (pair.actual.rows % exchange.parts() != 0) return false;
  return DistanceBy(exchange, pair.right, pair.actual) <= kUnexplained * pair.in_place;
}

// The matrices of the first layer that has them, the one with the fewest rows first.
std::vector<uint32_t> MatricesToLookAt(const models::Model& model) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < model.params.size(); ++i) {
    const models::Param& param = model.params[i];
    const bool fits = param.shape.size() == 2 && param.shape[0] <= kMostRows;
    if (fits && param.layer == 0 && artifact::IsCutTwice(param)) found.push_back(i);
  }
  std::ranges::stable_sort(found, {}, [&](uint32_t i) { return model.params[i].shape[0]; });
  if (found.size() > kMatrices) found.resize(kMatrices);
  return found;
}

Result<std::vector<Pair>> ReadPairs(const BoundArtifact& right, const BoundArtifact& actual) {
  std::vector<Pair> pairs;
  NXDKIT_ASSIGN(Reader right_reader, Reader::Make(right));
  NXDKIT_ASSIGN(Reader actual_reader, Reader::Make(actual));
  for (const uint32_t i : MatricesToLookAt(*right.model)) {
    const auto other = actual.model->Find(right.model->params[i].name);
    if (!other || actual.model->params[*other].shape != right.model->params[i].shape) continue;
    Pair pair;
    NXDKIT_TRY(right_reader.Read(i).To(pair.right));
    NXDKIT_TRY(actual_reader.Read(*other).To(pair.actual));
    pair.in_place = Distance(pair.right, pair.actual, [](int64_t r) { return r; });
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace

Result<std::optional<RowExchange>> FindExchange(const BoundArtifact& right,
                                                const BoundArtifact& actual) {
  std::optional<RowExchange> none;
  if (!right.model || !actual.model || right.lora || actual.lora) return none;
  if (right.quantised || actual.quantised) return none;
  NXDKIT_ASSIGN(const std::vector<Pair> pairs, ReadPairs(right, actual));
  // A NaN or an infinity on the way, or nothing to explain.
  const auto differs = [](const Pair& pair) {
    return pair.in_place > 0 && pair.in_place < std::numeric_limits<double>::infinity();
  };
  if (pairs.empty() || !std::ranges::all_of(pairs, differs)) return none;
  const auto most = static_cast<int>(std::min<int64_t>(pairs.front().actual.rows, kMostParts));
  for (int parts = 4; parts <= most; ++parts)
    for (int tp = 2; tp <= parts / 2; ++tp) {
      const RowExchange exchange{parts / tp, tp};
      if (exchange.parts() != parts) continue;
      const auto explains = [&](const Pair& pair) { return Explains(exchange, pair); };
      if (std::ranges::all_of(pairs, explains)) return std::optional(exchange);
    }
  return none;
}

}  // namespace nxdkit::ops
