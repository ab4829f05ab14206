// tools/deploy/PRECOMPILE.md: its walks, typed from the page with stand-ins for the cluster, the
// compiler and the devices, print the page's output.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "tests/tools/precompile_workshop.h"
#include "tests/tools/trainium_workshop.h"
#include "tests/tools/typed_page.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDeploy[] = NXDKIT_SOURCE_DIR "/tools/deploy";
constexpr char kShared[] = "/fsx";  // the page's shared file system

std::string Page() { return ReadFile(std::string(kDeploy) + "/PRECOMPILE.md"); }

TypedWalk PageWalk(const std::string& section) { return WalkOf(SectionOf(Page(), section)); }

// A cluster of one node: sbatch runs the script at once and counts jobs from 101.
constexpr char kSbatch[] = R"sh(
parsable= after=
while [[ ${1:-} == -* ]]; do case $1 in
  --parsable) parsable=1 ;;
  --dependency=afterok:*) after=${1##*:} ;;
  --kill-on-invalid-dep=yes|--partition=*|--nodes=*) ;;
  *) echo "sbatch: unrecognized option '$1'" >&2; exit 1 ;;
esac; shift; done
script=$1; shift
job=$(($(cat "$NEURON_STANDIN/job" 2>/dev/null || echo 100) + 1))
echo $job >"$NEURON_STANDIN/job"
if [ -n "$parsable" ]; then echo $job; else echo "Submitted batch job $job"; fi
if [ -n "$after" ] && [ "$(cat "$NEURON_STANDIN/ended.$after")" != 0 ]; then exit 0; fi
log=$(sed -n 's/^#SBATCH --output=//p' "$script"); log=${log:-slurm-%j.out}
code=0
SLURM_JOB_ID=$job bash "$script" "$@" >"${log//%j/$job}" 2>&1 </dev/null || code=$?
echo $code >"$NEURON_STANDIN/ended.$job"
)sh";

// The program of the run: it traces three graphs, or looks each up and compiles the missing ones.
constexpr char kTorchrun[] = R"sh(
graphs=$(cd "$NEURON_STANDIN/graphs" && ls -d neuronxcc-*/*)
if [ "${NEURON_EXTRACT_GRAPHS_ONLY:-}" = 1 ]; then
  exec trace $(for each in $graphs; do each=${each#*/MODULE_}; echo "${each%+*}"; done)
fi
for each in $graphs; do
  if [ -e "$NEURON_COMPILE_CACHE_URL/$each/model.done" ]; then
    echo "[INFO]: Using a cached neff at $NEURON_COMPILE_CACHE_URL/$each/model.neff"
  else
    echo "[INFO]: Compilation Started for ${each#*/}"
  fi
done
echo "step 10 of 10"
)sh";

class WalkPlace {
 public:
  explicit WalkPlace(const PrecompileWorkshop& shop) : shop_(shop) {
    fs::create_directories(Shared());
    shop_.Script("sbatch", kSbatch);
    shop_.Script("srun", "while [[ $1 == --* ]]; do shift; done\nexec \"$@\"\n");
    shop_.Script("neuron-ls", "cat " NXDKIT_TESTDATA "/neuron_ls/trn1.32xlarge.json\n");
    for (const char* name : {"precompile.sbatch", "export.sbatch", "train.sbatch"})
      fs::copy(std::string(kDeploy) + "/" + name, Shared());
  }
  std::string Shared() const { return shop_ / "fsx"; }
  std::string Here(const std::string& text) const { return Replaced(text, kShared, Shared()); }

  // Both streams, as on a terminal.
  ProcessResult Run(const std::string& commands) const {
    return RunProcess(
        {"bash", shop_.Write("typed.sh", "cd " + Shared() + "\nexec 2>&1\n" + Here(commands))},
        Environment());
  }
  void WriteFiles(const TypedWalk& walk) const {
    for (const auto& [name, text] : walk.files) shop_.Write("fsx/" + name, Here(text));
  }

  // Types the whole walk into one shell and compares its output with the page.
  void Type(const TypedWalk& walk) const {
    WriteFiles(walk);
    const std::string mark = "\001\n";
    std::string script;
    for (const Typed& typed : walk.typed) script += typed.command + "\nprintf '\\001\\n'\n";
    const ProcessResult result = Run(script);
    size_t at = 0;
    for (const Typed& typed : walk.typed) {
      const size_t end = result.out.find(mark, at);
      ASSERT_NE(end, std::string::npos) << typed.command;
      const std::string said = Replaced(result.out.substr(at, end - at), Shared(), kShared);
      EXPECT_EQ(Steady(said), Steady(typed.output)) << "$ " << typed.command << "\n" << said;
      at = end + mark.size();
    }
  }

 private:
  Words Environment() const {
    const char* path = std::getenv("PATH");
    // The page names the cache; commands that ignore it must not find that of this machine.
    return {"NEURON_STANDIN=" + shop_.path(),
            "TMPDIR=" + shop_ / "work",
            "NEURON_CC_FLAGS=",
            "NEURON_COMPILE_CACHE_URL=" + shop_ / "elsewhere",
            "HOME=" + shop_.path(),
            "PATH=" + shop_ / "bin" + ":" NXDKIT_TOOLS ":" + (path == nullptr ? "" : path)};
  }
  const PrecompileWorkshop& shop_;
};

// Graphs with names like those of libneuronxla.
void AddGraphs(const PrecompileWorkshop& shop) {
  size_t bytes = 0;
  for (const char* key : {"15821406539483107629", "04412967700823561188", "11273309458120047655"}) {
    const std::string flags = PrecompileWorkshop::Flags();
    const std::string folder =
        fmt::format("graphs/neuronxcc-{}/MODULE_{}+{}", PrecompileWorkshop::kVersion, key,
                    Md5Hex(flags).substr(0, 8));
    shop.Write(folder + "/compile_flags.json", flags);
    shop.Write(folder + "/model.hlo_module.pb",
               testing_util::GraphOf({key + std::string(bytes += 100, '.')}));
  }
}

// Names of all tests of this program: "Suite.Name".
std::set<std::string> AllTests() {
  std::set<std::string> names;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j)
      names.insert(fmt::format("{}.{}", suite.name(), suite.GetTestInfo(j)->name()));
  }
  return names;
}

TEST(PrecompilePage, NamesTestsAndFilesThatAreThere) {
  const std::string page = Page();
  const std::set<std::string> tests = AllTests();
  static const std::regex kTest("\\b(Precompile|Checks|Collects|Packs|\\w+Walk)\\.(\\w+)");
  size_t named = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), kTest), end; at != end; ++at, ++named)
    EXPECT_TRUE(tests.contains(at->str())) << at->str();
  EXPECT_GE(named, 9u);
  static const std::regex kFile("[a-z_-]+(-job|-mpijob)\\.yaml|[a-z_]+\\.py|[a-z_]+\\.sbatch");
  for (std::sregex_iterator at(page.begin(), page.end(), kFile), end; at != end; ++at) {
    const std::set<std::string> own = {"your-pytorchjob.yaml", "train.py", "run.sbatch"};
    if (!own.contains(at->str())) {
      EXPECT_TRUE(fs::exists(fmt::format("{}/{}", kDeploy, at->str()))) << at->str();
    }
  }
}

class TorchrunWalk : public ::testing::Test {
 protected:
  TorchrunWalk() {
    AddGraphs(shop_);
    shop_.Script("torchrun", kTorchrun);
  }
  const PrecompileWorkshop shop_;
  const WalkPlace place_{shop_};
};

TEST_F(TorchrunWalk, ComesOutAsThePageSays) {
  const TypedWalk walk = PageWalk("A torchrun program");
  ASSERT_GT(walk.typed.size(), 5u);
  ASSERT_TRUE(walk.files.contains("run.sbatch"));
  place_.Type(walk);
  // The job before it has compiled each graph once, and the training job none.
  EXPECT_THAT(ReadFile(place_.Shared() + "/run.102.log"), Not(HasSubstr("Compilation Started")));
  const std::string compiled = ReadFile(shop_ / "compiled");
  EXPECT_EQ(std::count(compiled.begin(), compiled.end(), '\n'), 3);
  const std::string traced = ReadFile(shop_ / "programs");
  EXPECT_EQ(std::count(traced.begin(), traced.end(), '\n'), 1) << "the guard runs no program";
}

TEST_F(TorchrunWalk, StartsNoTrainingWhereAGraphFailed) {
  const TypedWalk walk = PageWalk("A torchrun program");
  shop_.Write(
      "plan/model.MODULE_15821406539483107629+" + Md5Hex(PrecompileWorkshop::Flags()).substr(0, 8),
      "fail\n");
  place_.WriteFiles(walk);
  std::string commands;
  for (const Typed& typed : walk.typed)
    if (typed.command.find("sbatch") != std::string::npos || typed.command.starts_with("export "))
      commands += typed.command + "\n";
  const ProcessResult jobs = place_.Run(commands);
  EXPECT_EQ(jobs.exit_code, 0) << jobs.out;
  EXPECT_THAT(ReadFile(place_.Shared() + "/precompile.101.log"),
              HasSubstr("no such kernel\n  log: "));
  EXPECT_FALSE(fs::exists(place_.Shared() + "/run.102.log"));
  // The guard of the job itself, started by hand.
  const ProcessResult guard = place_.Run("bash run.sbatch");
  EXPECT_EQ(guard.exit_code, 1) << guard.out;
  EXPECT_THAT(guard.out, AllOf(HasSubstr("it failed before: "), Not(HasSubstr("step 10"))));
}

class GrpoWalk : public TrainiumPlace {
 protected:
  void SetUp() override {
    TrainiumPlace::SetUp();
    shop_.Compiler();
    fs::create_directory_symlink(model_, place_.Shared() + "/model");
    // The configuration of the page, with paths and programs of this test.
    Words print = Port({Peer(), "worker.actor.model.model_path=" + place_.Shared() + "/model",
                        "worker.rollout.model_path=" + place_.Shared() + "/bundle",
                        "trainer.val_freq=-1", "trainer.val_before_train=false", "--quiet",
                        "--instance", "trn1.32xlarge", "--print-config"});
    std::erase(print, "--json");
    const ProcessResult printed = RunProcess(print);
    ASSERT_EQ(printed.exit_code, 0) << printed.err;
    shop_.Write("fsx/run.yaml", printed.out);
  }
  const PrecompileWorkshop shop_;
  const WalkPlace place_{shop_};
};

TEST_F(GrpoWalk, ComesOutAsThePageSays) {
  const TypedWalk walk = PageWalk("A grpo-train run");
  ASSERT_GT(walk.typed.size(), 5u);
  place_.Type(walk);
  EXPECT_EQ(shop_.Runs(), 1u);
}

}  // namespace
}  // namespace nxdkit::test
