// The files of a data source: "FILE", "FOLDER", "ORG/NAME", each with or without "@SPLIT"; or
// "exec:COMMAND".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::trainer {

struct DataSource {
  std::string path;  // for a command: the command
  std::string split = "train";
  bool is_command = false;
};

// "path@split", or "exec:" and a command, which may contain any '@'. So may the path, if it exists;
// a hub name has its revision before the split, "ORG/NAME@REV@SPLIT". kUsage for an empty part, and
// for more than one '@' in anything else.
Result<DataSource> ParseDataSource(std::string_view text);

// Whether a file is read by pyarrow: .parquet, .arrow.
bool IsTable(const std::string& path);

// The files of the source, .jsonl, .json, .parquet and .arrow, sorted by name. A hub name stands
// for the data set in the hub's cache (formats/hf/hub_cache.h).
//
// A file has one split, "train". A folder has its own files, else those of its subfolders. If its
// README.md lists the files of a split (the hub's `configs`), those are taken. Else, if file or
// folder names contain splits ("test.jsonl", "data/train-00000-of-00001.parquet"; "val", "valid",
// "dev" and "validation" are one), the files of that split are taken; if none does, all files are
// "train".
//
// kNotFound when there are no files or none of the split, kUnsupported for other kinds of files.
Result<std::vector<std::string>> ResolveFiles(const DataSource& source);

}  // namespace nxdkit::trainer
