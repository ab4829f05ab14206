// The output of a conversion: the options, and the layout that follows from them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/artifact/bound.h"
#include "formats/hardware/fit.h"

namespace nxdkit::kinds {

class OutputBuilder;  // formats/kinds/builder.h
struct OutputPlan;

// The user's options for the output; absent: decided from the source. The arguments are those of
// its kind: "tp", "bs".
struct OutputOptions : Arguments {
  std::optional<Dtype> dtype;  // nullopt: keep
  bool downcast = false;       // Downcast() instead of `dtype`
};

// The form in which an optimizer's state is written.
struct StateLayout {
  nxd::OptimizerStyle style = nxd::OptimizerStyle::kZero1;
  int dp = 1;
};

// An instance that the output must fit, and how a model is to be trained there; values that follow
// from the layout are filled in.
struct FitQuestion {
  const hardware::Instance& instance;
  hardware::TrainingUse training;
  const OutputPlan& plan;
};

// The output's layout, fully decided; each kind has its own.
class Output {
 public:
  explicit Output(const OutputOptions& options)
      : dtype(options.dtype), downcast(options.downcast) {}
  virtual ~Output() = default;

  // Lays out and encodes all files.
  virtual Status Plan(OutputBuilder& builder) const = 0;
  // Adds the decisions that cannot be read from the output alone, for opening it.
  virtual void Tell(InputHints& hints) const { (void)hints; }
  // kUsage for a name that the output cannot have.
  virtual Status CheckName(const std::string& path) const {
    (void)path;
    return OkStatus();
  }
  // The modules of an adapter that share one A; nullopt: each has its own.
  virtual std::optional<nxd::LoraSharing> Sharing() const { return std::nullopt; }
  virtual StateLayout State() const { return {}; }
  // Whether it fits; nullopt if it is not laid out for an instance.
  virtual Result<std::optional<hardware::Fit>> FitOn(const BoundArtifact& source,
                                                     const FitQuestion& question) const {
    (void)source, (void)question;
    return std::optional<hardware::Fit>();
  }

  std::optional<Dtype> dtype;      // nullopt: each keeps its own
  std::vector<Dtype> own_dtypes;   // instead: per model parameter, or empty
  bool downcast = false;           // lowered by Downcast()
  std::string config_text;         // config.json if it cannot be copied as it is; else ""
  std::string source_digest;       // to be recorded; "" if not asked for
  std::vector<std::string> notes;  // decisions, and advice for the user
  std::vector<std::string> warnings;
};

}  // namespace nxdkit::kinds
