// The source tree as the structure tests see it: text files by their path from the root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nxdkit::test {

struct SourceFile {
  std::string path;  // "lib/base/error.h"
  std::string text;
  std::vector<std::string_view> lines;  // views into text, without line feeds
};

// Every text file of the project's own folders and of its root, sorted by path. Other files (build,
// version control, virtual environments) are left out, and so are files with a NUL byte.
const std::vector<SourceFile>& Tree();

// The file of Tree() with that path; null when there is none.
const SourceFile* Find(std::string_view path);

// The files of Tree() whose path begins with `folder` and ends with one of `endings`.
std::vector<const SourceFile*> FilesIn(std::string_view folder,
                                       const std::vector<std::string_view>& endings);

// The paths that a file includes in quotes, with their line numbers from 1.
struct Include {
  std::string path;
  size_t line = 0;
};
std::vector<Include> QuotedIncludes(const SourceFile& file);

// Names of the folders directly in the root, without hidden ones.
std::vector<std::string> RootFolders();

}  // namespace nxdkit::test
