// PRIVATE to trainer/data. Rows that a program prints.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/data/row_reader.h"

namespace nxdkit::trainer {

struct RowCommand {
  std::vector<std::string> words;  // words[0]: a path, or a name to find in PATH
  std::string source;              // the source named in errors
  std::string_view what = "line";  // the word for a row of it
  // The longest time without output, and between closing its output and ending.
  std::chrono::milliseconds patience = std::chrono::hours(1);
};

// Runs the program with empty input, and calls `each` for every line of its output: JSON Lines. The
// program is killed when `each` fails, on Ctrl-C, and when we end. kNotFound if there is no such
// program, kIo with the end of its standard error when it fails or is silent for too long, kLimit
// for rows over kMaxRowBytes.
Status ReadCommandRows(const RowCommand& command, const EachRow& each);

// The columns to read from a table.
struct TableColumns {
  std::string prompt, answer;
  std::vector<std::string> media;   // tested only for being empty
  std::vector<std::string> others;  // read where the prompt or the answer is missing
};

// Rows of a parquet or arrow file, read by an embedded python3 program that needs pyarrow. Where
// the prompt or the answer is missing, all names are in the rows. kUnsupported without python3 or
// pyarrow, with the packages to install.
Status ReadTableRows(const std::string& path, const TableColumns& columns, const EachRow& each);

}  // namespace nxdkit::trainer
