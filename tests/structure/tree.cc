#include "tests/structure/tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;

bool IsForeign(const std::string& name) {
  return name == "build" || name == ".git" || name == ".venv" || name == ".cache" ||
         name == "__pycache__";
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<SourceFile> ReadTree() {
  std::vector<SourceFile> files;
  const fs::path root = NXDKIT_SOURCE_DIR;
  for (fs::recursive_directory_iterator it(root), end; it != end; ++it) {
    if (it->is_directory() && IsForeign(it->path().filename().string()))
      it.disable_recursion_pending();
    if (!it->is_regular_file() || IsForeign(it->path().filename().string())) continue;
    std::ifstream in(it->path(), std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    if (text.find('\0') != std::string::npos) continue;
    files.push_back({it->path().lexically_relative(root).string(), std::move(text), {}});
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  for (SourceFile& file : files) file.lines = SplitLines(file.text);
  return files;
}

}  // namespace

const std::vector<SourceFile>& Tree() {
  static const std::vector<SourceFile> kTree = ReadTree();
  return kTree;
}

const SourceFile* Find(std::string_view path) {
  const auto found = std::ranges::find(Tree(), path, &SourceFile::path);
  return found == Tree().end() ? nullptr : &*found;
}

std::vector<const SourceFile*> FilesIn(std::string_view folder,
                                       const std::vector<std::string_view>& endings) {
  std::vector<const SourceFile*> files;
  for (const SourceFile& file : Tree()) {
    if (!file.path.starts_with(folder)) continue;
    for (const std::string_view ending : endings)
      if (file.path.ends_with(ending)) {
        files.push_back(&file);
        break;
      }
  }
  return files;
}

std::vector<Include> QuotedIncludes(const SourceFile& file) {
  constexpr std::string_view kStart = "#include \"";
  std::vector<Include> includes;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    std::string_view line = file.lines[i];
    if (!line.starts_with(kStart)) continue;
    line.remove_prefix(kStart.size());
    includes.push_back({std::string(line.substr(0, line.find('"'))), i + 1});
  }
  return includes;
}

std::vector<std::string> RootFolders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(NXDKIT_SOURCE_DIR)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && !name.starts_with('.')) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace nxdkit::test
