// PRIVATE to tests. The base of the tests of precompiling: a compiler of a few lines of shell that
// fails, is killed or hangs by name, and a program that only writes graphs, like libneuronxla's
// mode.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "lib/hash/digest.h"
#include "tests/formats/compile_cache/lite_workshop.h"
#include "tests/tools/export_workshop.h"
#include "tests/tools/json_schema.h"
#include "tests/tools/kill.h"

namespace nxdkit::test {

class PrecompileWorkshop : public ExportWorkshop {
 public:
  static constexpr char kVersion[] = "2.21.33363.0+82129205";

  PrecompileWorkshop() {
    Write("made/toy.neff", testing_util::ToyNeff());
    std::filesystem::create_directories(*this / "plan");
    std::filesystem::create_directories(*this / "work");
    Write("version", kVersion);
    Script("neuronx-cc", CompilerScript());
    Script("trace", TraceScript());
  }

  static std::string Flags() { return "[\"--auto-cast=none\"]"; }
  static std::string Module(char key, const std::string& flags = Flags()) {
    return "MODULE_" + std::string(20, key) + "+" + Md5Hex(flags).substr(0, 8);
  }
  static std::string Name(char key) {
    return std::string("neuronxcc-") + kVersion + "/" + Module(key);
  }
  static std::string GraphText(char key, size_t bytes = 0) {
    return testing_util::GraphOf({std::string(1, key) + std::string(bytes, '.')});
  }
  std::string Entry(char key) const { return Cache() + "/" + Name(key); }
  bool Has(char key, const std::string& file) const {
    return std::filesystem::exists(Entry(key) + "/" + file);
  }

  // An entry with a graph but no result.
  void AddGraph(char key, size_t bytes = 0, const std::string& root = "cache",
                const std::string& flags = Flags(), const std::string& version = kVersion) const {
    const std::string folder = root + "/neuronxcc-" + version + "/" + Module(key, flags);
    Write(folder + "/compile_flags.json", flags);
    Write(folder + "/model.hlo_module.pb", GraphText(key, bytes));
  }
  void AddResult(char key) const {
    Write("cache/" + Name(key) + "/model.neff", testing_util::ToyNeff());
    Write("cache/" + Name(key) + "/model.done", "");
  }
  // The compiler's behaviour for the graph: "fail", "255", "70", "70 once", "kill once", "kill",
  // "hang", "F137", "full", "quota", "cut", "nothing", "slow".
  void Plan(char key, const std::string& what) const {
    Write("plan/model." + Module(key), what + "\n");
  }

  // Options are split at spaces. `here`: in the workshop's folder.
  ProcessResult Cc(const std::string& options, Words environment = {}, bool here = false) const {
    Words words = {Tool("neuron-cache")};
    if (here) words = {"/usr/bin/env", "-C", path(), Tool("neuron-cache")};
    for (const std::string& word : Split(options)) words.push_back(word);
    for (const std::string& entry : Environment()) environment.push_back(entry);
    return RunProcess(words, environment);
  }
  // Runs in a mount namespace of its own, with the name of another machine: a script of bash for
  // which "$@" is the command.
  ProcessResult CcInNamespace(const std::string& script, const std::string& options) const {
    Words words = InNamespace(script);
    words.push_back(Tool("neuron-cache"));
    for (const std::string& word : Split(options)) words.push_back(word);
    return RunProcess(words, Environment());
  }
  static Words InNamespace(const std::string& script) {
    return {"/usr/bin/unshare", "-Urmu", "/bin/bash", "-c", script, "bash"};
  }
  // Like Cc, but not waited for; after the words of another command.
  pid_t Start(const std::string& options, Words words = {}) const {
    words.emplace_back("/usr/bin/env");
    for (const std::string& entry : Environment()) words.push_back(entry);
    words.push_back(Tool("neuron-cache"));
    for (const std::string& word : Split(options)) words.push_back(word);
    return StartProcess(std::move(words));
  }
  // Runs with --json; returns the document, which must match its schema.
  Json CcJson(int exit_code, const std::string& command, const std::string& options = "",
              const Words& environment = {}) const {
    const ProcessResult result = Cc(command + " --json " + options, environment);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    const Json json = JsonOf(result);
    EXPECT_THAT(SourceSchemas().Faults("neuron-cache.json", json), ::testing::IsEmpty())
        << result.out;
    return json;
  }

  // How often the compiler succeeded for each graph, by the key's character.
  std::map<char, int> Compiled() const { return Counted("compiled"); }
  std::map<char, int> Begun() const { return Counted("begun"); }

  // Names of files and folders below the cache with this suffix.
  std::vector<std::string> Ending(const std::string& suffix) const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::recursive_directory_iterator(Cache()))
      if (each.path().string().ends_with(suffix)) names.push_back(each.path());
    return names;
  }
  // Every entry that libneuronxla would take for done has a whole NEFF.
  void ExpectNoFalseResults() const {
    for (const std::string& done : Ending("model.done")) {
      const std::string neff = std::filesystem::path(done).parent_path().string() + "/model.neff";
      EXPECT_EQ(ReadFile(neff), testing_util::ToyNeff()) << neff;
    }
  }

 private:
  Words Environment() const {
    const char* path = std::getenv("PATH");
    return {"NEURON_STANDIN=" + this->path(), "NEURON_COMPILE_CACHE_URL=" + Cache(),
            "TMPDIR=" + *this / "work",
            "PATH=" + *this / "bin" + ":" + (path == nullptr ? "" : path)};
  }

  std::map<char, int> Counted(const std::string& file) const {
    std::map<char, int> counts;
    std::ifstream lines(*this / file);
    for (std::string line; std::getline(lines, line);)
      ++counts[line[std::string("model.MODULE_").size()]];
    return counts;
  }

  static std::string CompilerScript() {
    return R"sh(
unset LD_PRELOAD  # faults of calls are for the command
here=$NEURON_STANDIN
if [ "$1" = --version ]; then
  echo "NeuronX Compiler version $(cat $here/version)"
  exit 0
fi
[ "$1" = compile ]; shift
out= graph= log=/dev/null
words="$*"
while [ $# -gt 0 ]; do case $1 in
  --output) out=$2; shift ;;
  --logfile) log=$2; shift ;;
  -*) ;;
  *) graph=$1 ;;
esac; shift; done
name=$(basename "$graph" .hlo_module.pb)
echo "$name" >>$here/begun
echo $$ >>$here/compilers
echo "$words" >>$here/words
plan=$(cat "$here/plan/$name" 2>/dev/null || true)
once() { [ ! -e "$here/once.$name" ] && touch "$here/once.$name"; }
case $plan in
  fail)
    echo "INFO: begin"
    echo "2026-11-26 ERROR [NCC_EVRF059] no such kernel"
    echo bye
    exit 1 ;;
  255) echo "ERROR: in the middle"; exit 255 ;;
  70) echo "2026-11-26 ERROR: [NCC_IXTP002] too many instructions" >>"$log"; exit 70 ;;
  "70 once") if once; then exit 70; fi ;;
  kill) kill -9 $$ ;;
  "kill once") if once; then kill -9 $$; fi ;;
  hang) sleep 1000 ;;
  F137) echo "[F137] neuronx-cc was forcibly killed"; exit 70 ;;
  full) echo "OSError: [Errno 28] No space left on device"; exit 1 ;;
  quota) echo "OSError: [Errno 122] Disk quota exceeded"; exit 1 ;;
  cut) head -c 1200 $here/made/toy.neff >"$out"; exit 0 ;;
  nothing) exit 0 ;;
  slow) sleep 0.3 ;;
esac
cp $here/made/toy.neff "$out"
echo "$name" >>$here/compiled
)sh";
  }

  // trace KEY...: writes the graphs of graphs/, each from two processes at once; "crash", "kill",
  // "cut", "hang", and "deaf": the same for all signals but one.
  static std::string TraceScript() {
    return R"sh(
here=$NEURON_STANDIN
echo $$ >>$here/programs
[ "$NEURON_EXTRACT_GRAPHS_ONLY" = 1 ]
[ "$NEURON_PARALLEL_COMPILE" = 1 ]
root=$NEURON_COMPILE_CACHE_URL
case ${NEURON_CC_FLAGS:-} in
  *--cache_dir=*) root=${NEURON_CC_FLAGS##*--cache_dir=}; root=${root%% *} ;;
esac
write() {
  for folder in $here/graphs/neuronxcc-*/MODULE_$1*; do
    to=$root/$(basename $(dirname $folder))/$(basename $folder)
    mkdir -p $to
    touch $to/model.hlo_module.pb.lock
    cp $folder/compile_flags.json $to/compile_flags.json.$BASHPID
    mv $to/compile_flags.json.$BASHPID $to/compile_flags.json
    cp $folder/model.hlo_module.pb $to/x.$BASHPID
    mv $to/x.$BASHPID $to/model.hlo_module.pb
  done
}
for word in "$@"; do case $word in
  crash) echo "Traceback: it crashed" >&2; exit 3 ;;
  cut)
    for each in $root/neuronxcc-*/MODULE_a*/model.hlo_module.pb; do
      head -c 20 $each >$each.y; mv $each.y $each
    done ;;
  kill) kill -9 $$ ;;
  hang) touch $here/hangs; sleep 1000 ;;
  deaf) trap '' TERM; (trap '' TERM; setsid sleep 1000) & touch $here/hangs; sleep 1000 ;;
  *) write $word & write $word; wait ;;
esac; done
)sh";
  }
};

}  // namespace nxdkit::test
