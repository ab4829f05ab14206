// Which files a data source names: "FILE", "FOLDER", each with "@SPLIT" or without.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct DataSource {
  std::string path;
  std::string split = "train";
};

// "path@split". kUsage for an empty part, and for more than one '@'.
Result<DataSource> ParseDataSource(std::string_view text);

// The files of the source, .jsonl and .json, in the order of their names.
//
// A file has one split, "train". In a folder where file names tell splits ("test.jsonl",
// "math-train-00001.jsonl"; "val", "valid", "dev" and "validation" are one), those of the split are
// taken; where none does, all of them are "train".
//
// kNotFound when nothing is there or nothing is of the split, kUnsupported for other kinds of
// files.
Result<std::vector<std::string>> ResolveFiles(const DataSource& source);

}  // namespace nxdkit::trainer
