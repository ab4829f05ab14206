// kill -9 at any moment of neuron-cache compile, collect and warm, of a compiler that they started,
// and of the program whose graphs are collected. By design only this remains after a kill of the
// command itself: files under our names for unpublished results, until they are ten minutes old,
// and locks of entries that the next compilation takes over.
#include <sys/syscall.h>

#include <chrono>
#include <thread>

#include "formats/compile_cache/leftovers.h"
#include "lib/system/descriptor.h"
#include "tests/tools/precompile_workshop.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using ::testing::Each;
using ::testing::Ge;
using ::testing::IsEmpty;

const std::string kKillKeys = "abcdef";  // of the graphs
constexpr std::string_view kSlowKillKeys = "ab";

enum class Victim { kCommand, kCompiler, kProgram };
struct CompileKill {
  const char* name;
  const char* command;
  Victim victim;
};
const CompileKill kCompileKills[] = {{"CompileItself", "compile", Victim::kCommand},
                                     {"CompilersOfCompile", "compile", Victim::kCompiler},
                                     {"CollectItself", "collect", Victim::kCommand},
                                     {"ProgramOfCollect", "collect", Victim::kProgram},
                                     {"WarmItself", "warm", Victim::kCommand},
                                     {"CompilersOfWarm", "warm", Victim::kCompiler},
                                     {"ProgramOfWarm", "warm", Victim::kProgram}};

bool IsBuiltAside(const std::string& name) {
  const std::optional<neff::Leftover> leftover = neff::ParseLeftover(name);
  return leftover && neff::IsOurs(*leftover);
}

class KillShop : public PrecompileWorkshop {
 public:
  explicit KillShop(const std::string& keys = kKillKeys) : keys_(keys) {
    for (const char key : keys_) AddGraph(key, 0, "graphs");
  }

  // A cache without results, with all graphs or none. Unpublished files of earlier kills stay.
  void Renew(bool with_graphs) const {
    fs::create_directories(Cache());
    for (const auto& each : fs::directory_iterator(Cache()))
      if (!IsBuiltAside(each.path().filename())) fs::remove_all(each.path());
    for (const char* name : {"begun", "compiled", "compilers", "programs", "words"})
      fs::remove(*this / name);
    for (const char key : with_graphs ? keys_ : "") AddGraph(key);
  }

  std::string Done() const {
    std::string done;
    for (const char key : keys_)
      if (Has(key, "model.done")) done += key;
    return done;
  }

  // Whether all processes started for this workshop end, in time.
  bool NobodyIsLeft() const {
    const std::string mark = "NEURON_STANDIN=" + path();
    return testing_util::Eventually([&] {
      return std::ranges::none_of(fs::directory_iterator("/proc"), [&](const auto& process) {
        return testing_util::ProcText(process.path(), "environ").find(mark) != std::string::npos;
      });
    });
  }

  // Sends SIGKILL to the process noted last, if it still runs.
  bool KillLast(const std::string& file) const {
    pid_t last = 0;
    std::ifstream lines(*this / file);
    for (pid_t pid = 0; lines >> pid;) last = pid;
    if (last == 0) return false;
    // Held by the handle, so that its number cannot be reused before the signal.
    const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, last, 0)));
    const std::string environment =
        testing_util::ProcText("/proc/" + std::to_string(last), "environ");
    if (!handle.is_open() || environment.find("NEURON_STANDIN=" + path()) == std::string::npos)
      return false;
    return ::syscall(SYS_pidfd_send_signal, handle.fd(), SIGKILL, nullptr, 0) == 0;
  }

  // Facts that hold whenever nobody works on the cache.
  void ExpectSound() const {
    ExpectNoFalseResults();
    for (const std::string& neff : Ending("/model.neff"))
      EXPECT_EQ(ReadFile(neff), testing_util::ToyNeff()) << neff;
    for (const char key : keys_) {
      if (!Has(key, "model.hlo_module.pb")) continue;
      EXPECT_EQ(ReadFile(Entry(key) + "/model.hlo_module.pb"), GraphText(key)) << key;
      EXPECT_EQ(ReadFile(Entry(key) + "/compile_flags.json"), Flags()) << key;
    }
  }

  // Locks in entries, and files next to them without the name of an unpublished result.
  std::vector<std::string> Left(bool aside_too) const {
    std::vector<std::string> left;
    for (const std::string& folder : {Cache(), *this / "work"})
      for (const auto& each : fs::directory_iterator(folder)) {
        const std::string name = each.path().filename();
        if (!name.starts_with("neuronxcc-") && (aside_too || !IsBuiltAside(name)))
          left.push_back(each.path());
      }
    for (const char key : keys_)
      for (const auto& each : fs::directory_iterator(Entry(key)))
        if (each.path().extension() == ".lock") left.push_back(each.path());
    return left;
  }

  // Everything is compiled and whole, and nothing of ours is left.
  void ExpectFinished(bool aside_too) const {
    EXPECT_EQ(Done(), keys_);
    ExpectSound();
    EXPECT_THAT(Left(aside_too), IsEmpty());
    const ProcessResult verified = CacheTool("verify");
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }

  // Ages it, as if it had been left eleven minutes ago.
  void Age() const {
    const auto then = fs::file_time_type::clock::now() - std::chrono::minutes(11);
    for (const std::string& folder : {Cache(), *this / "work"})
      for (const auto& each : fs::recursive_directory_iterator(folder))
        fs::last_write_time(each.path(), then);
  }

 private:
  std::string keys_;
};

class PrecompileKill : public ::testing::TestWithParam<CompileKill> {
 protected:
  PrecompileKill() {
    for (const char key : kSlowKillKeys) shop_.Plan(key, "slow");
  }

  static std::string Options(std::string_view command) {
    const std::string compiler = " -q -j 2 --memory-per-job 1M --target trn1";
    std::string options(command);
    if (command != "collect") options += compiler;
    if (command == "compile") return options;
    options += " -- trace";
    for (const char key : kKillKeys) options += std::string(" ") + key;
    return options;
  }
  void Renew() const { shop_.Renew(std::string_view(GetParam().command) == "compile"); }

  bool VictimIsTheCommand() const { return GetParam().victim == Victim::kCommand; }
  // The file that notes the processes to kill.
  const char* Victims() const {
    return GetParam().victim == Victim::kCompiler ? "compilers" : "programs";
  }

  // Whether the signal reached a process. The delay counts from the first victim, so that a moment
  // can only be too late, which KillMoments corrects.
  bool KillAfter(microseconds delay, pid_t command) const {
    if (!VictimIsTheCommand() && !WaitFor(shop_ / Victims())) return false;
    std::this_thread::sleep_for(delay);  // a random moment
    return VictimIsTheCommand() ? kill(command, SIGKILL) == 0 : shop_.KillLast(Victims());
  }

  void Round(KillMoments& moments) {
    Renew();
    const microseconds delay = moments.Next();
    SCOPED_TRACE("killed after " + std::to_string(delay.count()) + " us");
    const pid_t command = shop_.Start(Options(GetParam().command));
    const bool found = KillAfter(delay, command);
    const int code = WaitProcess(command);
    const bool ours = VictimIsTheCommand();
    moments.Note(found && (!ours || code == 128 + SIGKILL));
    ASSERT_TRUE(shop_.NobodyIsLeft());
    shop_.ExpectSound();
    if (GetParam().victim == Victim::kCompiler) {
      EXPECT_EQ(code, 0);
      ExpectOneSuccessEach();
    }
    if (!ours) {
      EXPECT_THAT(Beside(), IsEmpty());
    }
    Finish();
  }

  // One success for each, except for one whose compiler was killed at its very end.
  void ExpectOneSuccessEach() const {
    int more = 0;
    for (const auto& [key, count] : shop_.Compiled()) more += count - 1;
    EXPECT_LE(more, 1);
    int tries = 0;
    for (const auto& [key, count] : shop_.Begun()) tries += count - 1;
    EXPECT_LE(tries, 1);
    EXPECT_THAT(shop_.Left(true), IsEmpty());
  }

  // The files next to entries: nothing was killed, so there must be none.
  std::vector<std::string> Beside() const {
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(shop_.Cache()))
      if (const std::string name = each.path().filename(); !name.starts_with("neuronxcc-"))
        names.push_back(name);
    return names;
  }

  // A plain run compiles the graphs without a result, once, and nothing else.
  void Finish() const {
    const std::string done = shop_.Done();
    const std::map<char, int> before = shop_.Begun();
    const bool has_graphs = std::string_view(GetParam().command) == "compile";
    const ProcessResult plain = shop_.Cc(Options(has_graphs ? "compile" : "warm"));
    ASSERT_EQ(plain.exit_code, 0) << plain.out << plain.err;
    const std::map<char, int> after = shop_.Begun();
    for (const char key : kKillKeys) {
      const int begun = before.contains(key) ? before.at(key) : 0;
      const bool was_done = done.find(key) != std::string::npos;
      EXPECT_EQ(after.contains(key) ? after.at(key) : 0, begun + (was_done ? 0 : 1)) << key;
    }
    shop_.ExpectFinished(GetParam().victim != Victim::kCommand);
  }

  void KillAtRandom(int times, uint32_t seed) {
    Renew();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(shop_.Cc(Options(GetParam().command)).exit_code, 0);
    const auto took =
        std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - start);
    KillMoments moments(took * 11 / 10, seed);
    for (int i = 0; moments.GoesOn(i, times) && !HasFatalFailure(); ++i) Round(moments);
    EXPECT_GT(moments.killed(), 0) << "no kill came in time";
    // The files that remain by design are removed when they are ten minutes old.
    shop_.Age();
    EXPECT_EQ(shop_.CacheTool("prune").exit_code, 0);
    EXPECT_EQ(shop_.Cc(Options("compile")).exit_code, 0);
    shop_.ExpectFinished(true);
  }

  const KillShop shop_;
};

TEST_P(PrecompileKill, LosesNothingAndCompilesNothingTwice) { KillAtRandom(2, 1); }

using SlowPrecompileKill = PrecompileKill;
TEST_P(SlowPrecompileKill, LosesNothingAndCompilesNothingTwice) { KillAtRandom(29, 2); }

std::string CompileKillName(const ::testing::TestParamInfo<CompileKill>& row) {
  return row.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, PrecompileKill, ::testing::ValuesIn(kCompileKills), CompileKillName);
INSTANTIATE_TEST_SUITE_P(All, SlowPrecompileKill, ::testing::ValuesIn(kCompileKills),
                         CompileKillName);

// --- two machines: namespaces where one folder has two paths

class TwoMachines {
 public:
  // `name` is the machine's name.
  pid_t Start(const std::string& name) const {
    const std::string mount = shop_ / name;
    fs::create_directories(mount);
    const std::string script = "hostname " + name + " && mount --bind '" + shop_.Cache() + "' '" +
                               mount + "' && exec \"$@\"";
    return shop_.Start("compile -q -j 2 --memory-per-job 1M --target trn1 --cache-dir " + mount +
                           " --work-dir " + shop_ / name + ".work",
                       PrecompileWorkshop::InNamespace(script));
  }
  // How often it began to compile each graph: by the paths of its compilers.
  std::map<char, int> BegunBy(const std::string& name) const {
    const std::string work = "/" + name + ".work/";
    const std::string module = "/model.MODULE_";
    std::map<char, int> counts;
    std::ifstream lines(shop_ / "words");
    for (std::string line; std::getline(lines, line);)
      if (line.find(work) != std::string::npos) ++counts[line[line.find(module) + module.size()]];
    return counts;
  }

  // One is killed at the moment; the other finishes. Returns whether the kill came in time.
  bool Round(microseconds delay) const {
    SCOPED_TRACE("killed after " + std::to_string(delay.count()) + " us");
    shop_.Renew(true);
    const pid_t first = Start("first");
    const pid_t second = Start("second");
    std::this_thread::sleep_for(delay);  // a random moment
    kill(first, SIGKILL);
    const bool in_time = WaitProcess(first) == 128 + SIGKILL;
    const std::string done = shop_.Done();
    const std::map<char, int> theirs = BegunBy("first");
    EXPECT_EQ(WaitProcess(second), 0);
    EXPECT_TRUE(shop_.NobodyIsLeft());
    const std::map<char, int> ours = BegunBy("second");
    for (const auto& [key, count] : theirs) EXPECT_EQ(count, 1) << key;
    for (const auto& [key, count] : ours) {
      EXPECT_EQ(count, 1) << key;
      if (theirs.contains(key)) {
        EXPECT_EQ(done.find(key), std::string::npos) << key;
      }
    }
    shop_.ExpectFinished(false);
    return in_time;
  }
  void Rounds(int times, uint32_t seed) const {
    KillMoments moments(std::chrono::milliseconds(900), seed);
    for (int i = 0; moments.GoesOn(i, times); ++i) moments.Note(Round(moments.Next()));
    EXPECT_GT(moments.killed(), 0) << "no kill came in time";
  }

  const KillShop shop_{"0123456789"};
};

TEST(PrecompileMachines, ShareTheWorkAndOneTakesOver) {
  if (const std::string missing = MountsMissing(); !missing.empty()) GTEST_SKIP() << missing;
  const TwoMachines machines;
  for (const char key : {'0', '1', '2'}) machines.shop_.Plan(key, "slow");
  machines.Rounds(2, 1);
}

TEST(SlowPrecompileMachines, ShareTheWorkAndOneTakesOver) {
  if (const std::string missing = MountsMissing(); !missing.empty()) GTEST_SKIP() << missing;
  const TwoMachines machines;
  for (const char key : {'0', '1', '2'}) machines.shop_.Plan(key, "slow");
  machines.Rounds(30, 2);
}

// --- a program that hangs

void ExpectEndsHanging(const std::string& how, int signal) {
  const KillShop shop("ab");
  fs::create_directories(shop.Cache());
  const pid_t command = shop.Start("collect -- trace a b " + how);
  ASSERT_TRUE(WaitFor(shop / "hangs"));
  kill(command, signal);
  EXPECT_EQ(WaitProcess(command), 128 + signal);
  EXPECT_TRUE(shop.NobodyIsLeft());
  // All graphs traced by then are kept, whole, and nothing else.
  for (const char key : {'a', 'b'}) EXPECT_TRUE(shop.Has(key, "model.hlo_module.pb")) << key;
  shop.ExpectSound();
  EXPECT_THAT(shop.Left(true), IsEmpty());
}

TEST(Collects, EndsAProgramThatHangsWhenItIsInterrupted) {
  for (const int signal : {SIGINT, SIGTERM}) ExpectEndsHanging("hang", signal);
}

TEST(SlowCollects, EndsAProgramThatDoesNotListen) { ExpectEndsHanging("deaf", SIGINT); }

}  // namespace
}  // namespace nxdkit::test
