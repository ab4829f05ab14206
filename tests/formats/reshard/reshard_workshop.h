// PRIVATE to tests. Training tags and their resharding, with the requests of nxd-reshard.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/ops/convert/convert.h"
#include "tests/formats/reshard/training_tag.h"
#include "tests/formats/scratch.h"
#include "tests/formats/words.h"

namespace nxdkit::testing_util {

class ReshardWorkshop {
 public:
  std::string operator/(const std::string& name) const { return scratch_.folder() + "/" + name; }

  std::string Make(const std::string& name, const TrainingTag& tag) const {
    WriteTrainingTag(*this / name, tag);
    return *this / name;
  }

  // A request for the geometry of `to`, whose other fields describe the input.
  static ops::ConvertRequest Request(const std::string& input, const std::string& output,
                                     const TrainingTag& to) {
    ops::ConvertRequest request;
    request.from = request.to = &ops::kNxd;
    request.input = input;
    request.output = output;
    request.hints.optimizer = true;
    request.sync = false;
    ops::OutputOptions& options = request.options;
    options.Set("training-tag", true);
    options.Set("tp", to.geometry.tp);
    options.Set("pp", to.geometry.pp);
    options.Set("vpp", to.geometry.vpp);
    options.Set("kv-multiplier", to.geometry.kv_multiplier);
    options.Set("qkv", Word(to.geometry.qkv));
    options.Set("hw", Word(to.geometry.hardware));
    options.Set("xser", to.xser);
    if (to.form == "zero1") options.Set("dp", to.dp);
    return request;
  }

  // The output's path; a failure reports the error.
  std::string Reshard(const std::string& input, const std::string& name, const TrainingTag& to,
                      bool verify = false) const {
    ops::ConvertRequest request = Request(input, *this / name, to);
    request.verify = verify;
    const Result<ops::ConvertReport> report = ops::Convert(request);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return request.output;
  }

  // The error of resharding this input.
  Error Refusal(const std::string& input, const TrainingTag& to) const {
    const Result<ops::ConvertReport> report = ops::Convert(Request(input, *this / "refused", to));
    if (!report.ok()) return report.error();
    return Error(Errc::kInternal, "it was not refused");
  }

 private:
  Scratch scratch_;
};

}  // namespace nxdkit::testing_util
