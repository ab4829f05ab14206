#include "formats/ops/verify/exchange.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "formats/artifact/canonical.h"
#include "lib/plan/gather.h"

namespace nxdkit::ops {
namespace {

using models::Role;

constexpr int64_t kColumns = 32;
constexpr int64_t kMostSamples = 512;  // rows of a matrix
constexpr int64_t kFirstLook = 16;     // of these, enough to rule most exchanges out
constexpr int kMostParts = 4096;
constexpr double kUnexplained = 0.1;  // at most this share of the difference
constexpr uint64_t kStagingBytes = 1 << 20;

using RowStart = std::vector<double>;  // the first columns of a row

// Rows of a model's parameters, each read once.
class RowReader {
 public:
  RowReader(const BoundArtifact& artifact, CanonicalPlan plan)
      : plan_(std::move(plan)), reader_(artifact.bound, plan_) {}

  Result<const RowStart*> Read(uint32_t param, int64_t row) {
    const auto [known, added] = rows_.try_emplace({param, row});
    if (!added) return &known->second;
    const OutputTensor& output = plan_.outputs[param];
    const int64_t width = ElementBytes(output.dtype);
    const int64_t all = output.shape.size() > 1 ? output.shape[1] : 1;
    const int64_t columns = std::min(all, kColumns);
    std::vector<std::byte> bytes(static_cast<size_t>(columns * width));
    NXDKIT_TRY(reader_.Read(param, static_cast<uint64_t>(row * all * width), bytes, gatherer_));
    for (int64_t c = 0; c < columns; ++c)
      known->second.push_back(ElementAsDouble(output.dtype, bytes.data() + c * width));
    return &known->second;
  }

 private:
  CanonicalPlan plan_;
  CanonicalReader reader_;
  Gatherer gatherer_{kStagingBytes};
  std::map<std::pair<uint32_t, int64_t>, RowStart> rows_;
};

double Distance(const RowStart& a, const RowStart& b) {
  double sum = 0;
  for (size_t c = 0; c < a.size(); ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

// A parameter of both models.
struct Pair {
  uint32_t right = 0;
  uint32_t actual = 0;
  int64_t rows = 0;
};

class Search : public ExchangeSearch {
 public:
  Search(const BoundArtifact& right, CanonicalPlan right_plan, const BoundArtifact& actual,
         CanonicalPlan actual_plan)
      : right_(right),
        actual_(actual),
        right_rows_(right, std::move(right_plan)),
        actual_rows_(actual, std::move(actual_plan)) {}

  Result<std::optional<RowExchange>> Find() override {
    std::optional<RowExchange> none;
    const std::vector<Pair> pairs = Witnesses();
    if (pairs.empty()) return none;
    const auto most = static_cast<int>(std::min<int64_t>(pairs.front().rows, kMostParts));
    for (int parts = 4; parts <= most; ++parts) {
      const auto divides = [&](const Pair& pair) { return pair.rows % parts == 0; };
      if (!std::ranges::all_of(pairs, divides)) continue;
      for (int tp = 2; tp <= parts / 2; ++tp) {
        if (parts % tp != 0) continue;
        const RowExchange exchange{parts / tp, tp};
        NXDKIT_ASSIGN(const bool explains, ExplainsAll(exchange, pairs));
        if (explains) return std::optional(exchange);
      }
    }
    return none;
  }

  Result<bool> Explains(const RowExchange& exchange, std::string_view param) override {
    const std::optional<Pair> pair = PairOf(param);
    if (!pair || pair->rows % exchange.parts() != 0) return false;
    return Explains(exchange, *pair, kMostSamples);
  }

 private:
  std::optional<Pair> PairOf(std::string_view name) const {
    const auto right = right_.model->Find(name);
    const auto actual = actual_.model->Find(name);
    if (!right || !actual) return std::nullopt;
    const models::Param& param = right_.model->params[*right];
    if (!artifact::IsCutTwice(*right_.model, param)) return std::nullopt;
    if (actual_.model->params[*actual].shape != param.shape) return std::nullopt;
    return Pair{*right, *actual, param.shape[0]};
  }

  // The parameters that an exchange has to explain; none if one is missing. The first layer of a
  // model of experts may have no MLP.
  std::vector<Pair> Witnesses() const {
    std::vector<Pair> pairs;
    for (const Role role : {Role::kKey, Role::kGate, Role::kEmbedding}) {
      const auto found = std::ranges::find_if(right_.model->params, [&](const models::Param& p) {
        return p.role == role && p.layer <= 0 && p.shape.size() == 2;
      });
      const bool there = found != right_.model->params.end();
      if (!there && role == Role::kGate) continue;
      const std::optional<Pair> pair = there ? PairOf(found->name) : std::nullopt;
      if (!pair) return {};
      pairs.push_back(*pair);
    }
    return pairs;
  }

  // A few rows of each first: they rule out a wrong exchange.
  Result<bool> ExplainsAll(const RowExchange& exchange, const std::vector<Pair>& pairs) {
    for (const int64_t samples : {kFirstLook, kMostSamples})
      for (const Pair& pair : pairs) {
        NXDKIT_ASSIGN(const bool explains, Explains(exchange, pair, samples));
        if (!explains) return false;
      }
    return true;
  }

  // Also false if rows do not differ in their places, and if one of them has a NaN or an infinity.
  Result<bool> Explains(const RowExchange& exchange, const Pair& pair, int64_t samples) {
    const int64_t count = std::min(pair.rows, samples);
    const int64_t part = pair.rows / exchange.parts();
    double in_place = 0;
    double exchanged = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = i * pair.rows / count;
      const int64_t from = exchange.PartAt(static_cast<int>(row / part)) * part + row % part;
      NXDKIT_ASSIGN(const RowStart* stored, actual_rows_.Read(pair.actual, row));
      NXDKIT_ASSIGN(const RowStart* there, right_rows_.Read(pair.right, row));
      NXDKIT_ASSIGN(const RowStart* meant, right_rows_.Read(pair.right, from));
      in_place += Distance(*stored, *there);
      exchanged += Distance(*stored, *meant);
    }
    return in_place > 0 && std::isfinite(in_place) && exchanged <= kUnexplained * in_place;
  }

  const BoundArtifact& right_;
  const BoundArtifact& actual_;
  RowReader right_rows_;
  RowReader actual_rows_;
};

}  // namespace

Result<std::unique_ptr<ExchangeSearch>> ExchangeSearch::Make(const BoundArtifact& right,
                                                             const BoundArtifact& actual) {
  std::unique_ptr<ExchangeSearch> search;
  const auto is_plain = [](const BoundArtifact& artifact) {
    return artifact.model && !artifact.lora && !artifact.quantised &&
           artifact.model->config.family->training.tp_rows;
  };
  if (!is_plain(right) || !is_plain(actual)) return search;
  NXDKIT_ASSIGN(CanonicalPlan right_plan, PlanCanonical(right));
  NXDKIT_ASSIGN(CanonicalPlan actual_plan, PlanCanonical(actual));
  search = std::make_unique<Search>(right, std::move(right_plan), actual, std::move(actual_plan));
  return search;
}

Result<std::optional<RowExchange>> FindExchange(const BoundArtifact& right,
                                                const BoundArtifact& actual) {
  NXDKIT_ASSIGN(const auto search, ExchangeSearch::Make(right, actual));
  return search ? search->Find() : Result<std::optional<RowExchange>>(std::nullopt);
}

}  // namespace nxdkit::ops
