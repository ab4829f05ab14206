// Runs a command and captures its output: the base of every test of a tool.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace nxdkit::test {

struct ProcessResult {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// `command[0]` is a path, or a name looked up in PATH. `environment` entries ("NO_COLOR=1") are
// added to ours. stdin is empty. A command that cannot be started fails the running test.
ProcessResult RunProcess(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment = {});

// The same with stderr on a pseudo terminal, so that the command takes it for a person's screen.
// `watch` is called with the whole text so far whenever there is more.
ProcessResult RunOnTerminal(const std::vector<std::string>& command,
                            const std::vector<std::string>& environment = {},
                            const std::function<void(const std::string&)>& watch = nullptr);

// Why nothing can be mounted in a namespace of our own; "" when it is possible.
std::string MountsMissing();

// Paths of the built commands, sorted: one for each .cc file of tools/.
std::vector<std::string> BuiltTools();

// A fresh folder that is removed with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& contents) const;

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);

}  // namespace nxdkit::test
