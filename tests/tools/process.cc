#include "tests/tools/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/lib/rest_of.h"

namespace nxdkit::test {
namespace {

struct Channel {
  int read_fd = -1;
  int write_fd = -1;
};

Channel OpenPipe() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {fds[0], fds[1]};
}

Channel OpenTerminal() {
  Channel channel;
  EXPECT_EQ(openpty(&channel.read_fd, &channel.write_fd, nullptr, nullptr, nullptr), 0);
  fcntl(channel.read_fd, F_SETFD, FD_CLOEXEC);
  return channel;
}

[[noreturn]] void Become(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment, int out_fd, int err_fd) {
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out_fd, STDOUT_FILENO);
  dup2(err_fd, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

using Watch = std::function<void(const std::string&)>;

// Reads both channels until both are closed. A terminal ends with an error (EIO) instead of 0.
void Drain(int out_fd, std::string* out, int err_fd, std::string* err, const Watch& watch) {
  pollfd fds[2] = {{out_fd, POLLIN, 0}, {err_fd, POLLIN, 0}};
  std::string* const to[2] = {out, err};
  char buffer[65536];
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds, 2, -1) < 0) break;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      const ssize_t got = read(fds[i].fd, buffer, sizeof buffer);
      if (got > 0)
        to[i]->append(buffer, static_cast<size_t>(got));
      else
        fds[i].fd = -1;
      if (watch) watch(*err);
    }
  }
}

ProcessResult RunOn(const std::vector<std::string>& command,
                    const std::vector<std::string>& environment, Channel err,
                    const Watch& watch = nullptr) {
  const Channel out = OpenPipe();
  ProcessResult result;
  const pid_t child = fork();
  if (child == 0) Become(command, environment, out.write_fd, err.write_fd);
  EXPECT_GT(child, 0) << "cannot start " << command[0];
  close(out.write_fd);
  close(err.write_fd);
  Drain(out.read_fd, &result.out, err.read_fd, &result.err, watch);
  close(out.read_fd);
  close(err.read_fd);
  int status = 0;
  waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  EXPECT_NE(result.exit_code, 127) << "cannot start " << command[0];
  return result;
}

}  // namespace

ProcessResult RunProcess(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment) {
  return RunOn(command, environment, OpenPipe());
}

ProcessResult RunOnTerminal(const std::vector<std::string>& command,
                            const std::vector<std::string>& environment, const Watch& watch) {
  return RunOn(command, environment, OpenTerminal(), watch);
}

std::string MountsMissing() {
  const ProcessResult tried =
      RunProcess({"unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/tmp"});
  return tried.exit_code == 0 ? "" : "nothing can be mounted here: " + tried.err;
}

std::vector<std::string> BuiltTools() {
  std::vector<std::string> tools{NXDKIT_TOOLS "/nxdkit"};
  for (const auto& entry : std::filesystem::directory_iterator(NXDKIT_SOURCE_DIR "/tools")) {
    if (entry.path().extension() != ".cc") continue;
    std::string name = entry.path().stem().string();
    std::ranges::replace(name, '_', '-');
    tools.push_back(NXDKIT_TOOLS "/" + name);
  }
  std::ranges::sort(tools);
  return tools;
}

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "nxdkit-test-XXXXXX").string();
  const char* made = mkdtemp(pattern.data());
  EXPECT_NE(made, nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::Write(const std::string& name, const std::string& contents) const {
  const std::string path = path_ + "/" + name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return testing_util::RestOf(in);
}

}  // namespace nxdkit::test
