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
  std::string source;              // what errors are about
  std::string_view what = "line";  // what a row is there
  // The time that it may say nothing, or take to end once it has closed its output.
  std::chrono::milliseconds patience = std::chrono::hours(1);
};

// Runs the program with nothing to read, and calls `each` for every line of its output: JSON Lines.
// It is ended when `each` fails, on Ctrl-C, and with us. kNotFound where there is no such program,
// kIo with the end of its standard error when it fails or is silent for too long, kLimit for rows
// of over kMaxRowBytes.
Status ReadCommandRows(const RowCommand& command, const EachRow& each);

// The columns of a table that are asked for.
struct TableColumns {
  std::string prompt, answer;
  std::vector<std::string> media;   // of these only whether they hold something
  std::vector<std::string> others;  // read where the prompt or the answer is missing
};

// Rows of a parquet or arrow file: a program of ours for python3, which has to have pyarrow. Where
// the prompt or the answer is missing, all names stand in the rows. kUnsupported without python3 or
// pyarrow, with what to install.
Status ReadTableRows(const std::string& path, const TableColumns& columns, const EachRow& each);

}  // namespace nxdkit::trainer
