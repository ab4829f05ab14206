// Which files a data source names: "FILE", "FOLDER", "ORG/NAME", each with "@SPLIT" or without; or
// "exec:COMMAND".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct DataSource {
  std::string path;  // of a command: the command
  std::string split = "train";
  bool is_command = false;
};

// "path@split", or "exec:" and a command, which may hold any '@'. The path may hold some too, where
// it is there; a name of the hub has its revision before the split, "ORG/NAME@REV@SPLIT". kUsage
// for an empty part, and for more than one '@' of anything else.
Result<DataSource> ParseDataSource(std::string_view text);

// Whether a file is read by pyarrow: .parquet, .arrow.
bool IsTable(const std::string& path);

// The files of the source, .jsonl, .json, .parquet and .arrow, in the order of their names. A name
// of the hub is the data set in the hub's cache (formats/hf/hub_cache.h).
//
// A file has one split, "train". A folder has its own files, else those of the folders in it. Where
// its README.md says which files a split has (the hub's `configs`), those are taken. Else, where
// file or folder names tell splits ("test.jsonl", "data/train-00000-of-00001.parquet"; "val",
// "valid", "dev" and "validation" are one), those of the split are taken; where none does, all of
// them are "train".
//
// kNotFound when nothing is there or nothing is of the split, kUnsupported for other kinds of
// files.
Result<std::vector<std::string>> ResolveFiles(const DataSource& source);

}  // namespace nxdkit::trainer
