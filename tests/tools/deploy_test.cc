// tools/deploy: the files that users copy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "lib/yaml/yaml.h"
#include "tests/tools/kill.h"
#include "tests/tools/process.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kFolder = NXDKIT_SOURCE_DIR "/tools/deploy";

Value Yaml(const std::string& name) {
  const Result<Value> value = ParseYaml(ReadFile(kFolder + "/" + name));
  EXPECT_TRUE(value.ok()) << name << ": " << value.error().ToString();
  return value.ok() ? *value : Value();
}

// "spec.template.spec.containers.0.env": keys, and numbers of items.
const Value* At(const Value& root, const std::string& path) {
  const Value* at = &root;
  std::istringstream words(path);
  for (std::string word; at && std::getline(words, word, '.');) {
    const bool index = word.find_first_not_of("0123456789") == std::string::npos;
    if (!index)
      at = at->Find(word);
    else
      at = std::stoul(word) < at->items.size() ? &at->items[std::stoul(word)] : nullptr;
  }
  return at;
}

std::string Text(const Value& root, const std::string& path) {
  const Value* value = At(root, path);
  EXPECT_NE(value, nullptr) << path;
  return value ? value->text : "";
}

std::string CommandOf(const Value& root, const std::string& path) {
  const Value* command = At(root, path);
  EXPECT_NE(command, nullptr) << path;
  std::string text;
  if (command)
    for (const Value& word : command->items) text += word.text + " ";
  return text;
}

// The fields that the batch/v1 Job of the Kubernetes API requires in an Indexed Job.
TEST(Deploy, TheIndexedJobIsOne) {
  const Value job = Yaml("indexed-job.yaml");
  EXPECT_EQ(Text(job, "apiVersion"), "batch/v1");
  EXPECT_EQ(Text(job, "kind"), "Job");
  EXPECT_EQ(Text(job, "spec.completionMode"), "Indexed");
  EXPECT_EQ(Text(job, "spec.template.spec.restartPolicy"), "OnFailure");
  EXPECT_EQ(Text(job, "spec.template.spec.containers.0.env.0.name"), "PART_COUNT");
  EXPECT_EQ(Text(job, "spec.template.spec.containers.0.env.0.value"),
            Text(job, "spec.completions"));
  EXPECT_THAT(CommandOf(job, "spec.template.spec.containers.0.command"),
              HasSubstr("nxd-convert --part auto"));
}

TEST(Deploy, TheVolcanoJobSaysOfHowManyItIs) {
  const Value job = Yaml("volcano-job.yaml");
  EXPECT_EQ(Text(job, "apiVersion"), "batch.volcano.sh/v1alpha1");
  EXPECT_NE(At(job, "spec.plugins.env"), nullptr);
  EXPECT_NE(At(job, "spec.plugins.svc"), nullptr) << "it sets VC_CONVERT_NUM";
  EXPECT_EQ(Text(job, "spec.tasks.0.name"), "convert");
  EXPECT_THAT(CommandOf(job, "spec.tasks.0.template.spec.containers.0.command"),
              HasSubstr("nxd-convert --part auto"));
}

// With a module in place of torchx that accepts the same arguments.
TEST(Deploy, TheTorchxComponentMakesAReplicaForEachPart) {
  const TempFolder folder;
  fs::create_directories(folder.path() + "/torchx");
  folder.Write("torchx/__init__.py", "");
  folder.Write("torchx/specs.py",
               "class macros: replica_id = '${replica_id}'\n"
               "class AppDef:\n  def __init__(self, name, roles): self.roles = roles\n"
               "class Resource:\n"
               "  def __init__(self, cpu, gpu, memMB, devices={}): self.devices = devices\n"
               "def parse_mounts(words): return ['+'.join(words)]\n"
               "class Role:\n"
               "  def __init__(self, name, image, entrypoint, args, num_replicas, max_retries,"
               " mounts, resource, env={}):\n"
               "    self.args, self.n, self.entrypoint = args, num_replicas, entrypoint\n"
               "    self.mounts, self.env, self.resource = mounts, env, resource\n");
  const ProcessResult result = RunProcess(
      {"python3", "-B", "-c",
       "import sys; sys.path[:0] = ['" + folder.path() + "', '" + kFolder +
           "']; import torchx_component as c; r = c.convert('--to', 'hf', 'a', 'b', parts=3, "
           "mounts=['src=x', 'dst=/data']).roles[0]; "
           "print(r.entrypoint, *r.args, r.n, *r.mounts); "
           "r = c.train('--config', 'run.yaml').roles[0]; print(r.entrypoint, *r.args, r.n); "
           "rs = [c.collect('torchrun', '/data/train.py', devices=2), "
           "c.compile(target='trn1', replicas=4), c.export('--tp', '8', 'a', 'b')]; "
           "[print(r.roles[0].entrypoint, *r.roles[0].args, r.roles[0].n, "
           "r.roles[0].resource.devices, *r.roles[0].env.items()) for r in rs]"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out,
            "nxd-convert --part ${replica_id}/3 --to hf a b 3 src=x+dst=/data\n"
            "grpo-train --config run.yaml 1\n"
            "neuron-cache collect -- torchrun /data/train.py 1 {'aws.amazon.com/neuron': 2} "
            "('NEURON_COMPILE_CACHE_URL', '/data/neuron-cache')\n"
            "neuron-cache compile --target trn1 4 {} "
            "('NEURON_COMPILE_CACHE_URL', '/data/neuron-cache')\n"
            "neuron-export --tp 8 a b 1 {} ('NEURON_COMPILE_CACHE_URL', '/data/neuron-cache')\n");
}

// The packages of the image are those that the programs link with.
TEST(Deploy, TheImageHasTheLibraries) {
  const std::string text = ReadFile(kFolder + "/Dockerfile");
  std::set<std::string> libraries;
  std::vector<std::string> programs = BuiltTools();
  programs.push_back(NXDKIT_TOOLS "/libnxdkit.so.1");
  for (const std::string& program : programs) {
    const ProcessResult needed = RunProcess({"objdump", "-p", program});
    std::istringstream words(needed.out);
    for (std::string word; words >> word;)
      if (word == "NEEDED" && words >> word) libraries.insert(word);
  }
  ASSERT_GT(libraries.size(), 5u);
  std::set<std::string> missing;
  for (const std::string& library : libraries) {
    const ProcessResult owner = RunProcess({"dpkg-query", "-S", "*/x86_64-linux-gnu/" + library});
    const std::string package = owner.out.substr(0, owner.out.find(':'));
    const std::set<std::string> base = {"", "libc6", "libgcc-s1", "libstdc++6"};
    if (!base.contains(package) && text.find(package) == std::string::npos) missing.insert(package);
  }
  EXPECT_EQ(missing, std::set<std::string>());
}

// Fields that make Kubeflow's MPI operator and Volcano start, and restart, one process on each
// machine.
TEST(Deploy, TheTrainingJobsStartOneProcessOnEachMachine) {
  const Value mpi = Yaml("train-mpijob.yaml");
  EXPECT_EQ(Text(mpi, "apiVersion"), "kubeflow.org/v2beta1");
  EXPECT_EQ(Text(mpi, "kind"), "MPIJob");
  EXPECT_EQ(Text(mpi, "spec.slotsPerWorker"), "1");
  const std::string launcher = "spec.mpiReplicaSpecs.Launcher.";
  EXPECT_EQ(Text(mpi, launcher + "replicas"), "1");
  EXPECT_EQ(Text(mpi, launcher + "template.spec.containers.0.args.1"),
            Text(mpi, "spec.mpiReplicaSpecs.Worker.replicas"));

  const Value volcano = Yaml("train-volcano.yaml");
  EXPECT_EQ(Text(volcano, "apiVersion"), "batch.volcano.sh/v1alpha1");
  for (const char* plugin : {"ssh", "svc", "mpi"})
    EXPECT_NE(At(volcano, std::string("spec.plugins.") + plugin), nullptr) << plugin;
  EXPECT_EQ(Text(volcano, "spec.tasks.0.name"), "master");
  EXPECT_EQ(Text(volcano, "spec.tasks.1.name"), "worker");
  const std::string workers = Text(volcano, "spec.tasks.1.replicas");
  EXPECT_EQ(Text(volcano, "spec.tasks.0.template.spec.containers.0.args.1"), workers);
  EXPECT_EQ(Text(volcano, "spec.minAvailable"), std::to_string(std::stoi(workers) + 1)) << "a gang";
  for (const auto& [job, path] :
       {std::pair(&mpi, launcher + "template.spec.containers.0.command"),
        std::pair(&volcano, std::string("spec.tasks.0.template.spec.containers.0.command"))})
    EXPECT_EQ(CommandOf(*job, path), "train-mpirun.sh ");
  EXPECT_THAT(ReadFile(kFolder + "/Dockerfile.mpi"), HasSubstr("COPY train-mpirun.sh "));
}

// The value of a variable in a Job's only container.
std::string VariableOf(const Value& job, const std::string& name) {
  const Value* list = At(job, "spec.template.spec.containers.0.env");
  if (list)
    for (const Value& each : list->items)
      if (Text(each, "name") == name) return Text(each, "value");
  return "";
}

// The first jobs put their results where the training jobs look: one claim, one cache.
TEST(Deploy, TheJobsBeforeTheTrainingShareItsVolume) {
  const Value mpi = Yaml("train-mpijob.yaml");
  const std::string pod = "spec.mpiReplicaSpecs.Worker.template.spec.";
  const std::string claim = "volumes.0.persistentVolumeClaim.claimName";
  const std::string mount = "containers.0.volumeMounts.0.mountPath";
  for (const char* name : {"collect-job.yaml", "compile-job.yaml", "export-job.yaml"}) {
    SCOPED_TRACE(name);
    const Value job = Yaml(name);
    EXPECT_EQ(Text(job, "apiVersion"), "batch/v1");
    EXPECT_EQ(Text(job, "kind"), "Job");
    EXPECT_EQ(Text(job, "spec.template.spec.restartPolicy"), "Never");
    EXPECT_EQ(Text(job, "spec.template.spec." + claim), Text(mpi, pod + claim));
    EXPECT_EQ(Text(job, "spec.template.spec." + mount), Text(mpi, pod + mount));
    EXPECT_EQ(VariableOf(job, "NEURON_COMPILE_CACHE_URL"), "/data/neuron-cache");
    EXPECT_EQ(VariableOf(job, "NEURON_PLATFORM_TARGET_OVERRIDE"), "") << "the options say it";
    // The page waits for each job by name.
    EXPECT_THAT(ReadFile(kFolder + "/PRECOMPILE.md"),
                HasSubstr("kubectl apply -f " + std::string(name) +
                          " &&\n    kubectl wait --for=condition=complete --timeout="));
    EXPECT_THAT(ReadFile(kFolder + "/PRECOMPILE.md"),
                HasSubstr(" job/" + Text(job, "metadata.name") + " &&\n"));
  }
  const std::string command = "spec.template.spec.containers.0.command";
  EXPECT_THAT(CommandOf(Yaml("collect-job.yaml"), command),
              HasSubstr("neuron-cache collect -- torchrun "));
  const Value compile = Yaml("compile-job.yaml");
  EXPECT_EQ(CommandOf(compile, command), "neuron-cache compile --target trn1 ");
  EXPECT_EQ(Text(compile, "spec.completions"), Text(compile, "spec.parallelism"));
  EXPECT_EQ(VariableOf(compile, "TMPDIR"),
            Text(compile, "spec.template.spec.containers.0.volumeMounts.1.mountPath"));
}

// A finished Job of the same name is "unchanged" for apply, and complete for wait: each is deleted
// first.
TEST(Deploy, ThePageAppliesNoJobOfTheLastRun) {
  std::istringstream words(ReadFile(kFolder + "/PRECOMPILE.md"));
  std::vector<std::string> last(8);
  size_t applied = 0;
  for (std::string word; words >> word;) {
    last.push_back(word);
    if (last[last.size() - 3] != "apply" || last[last.size() - 2] != "-f") continue;
    ++applied;
    std::string before;
    for (size_t i = last.size() - 10; i < last.size() - 4; ++i) before += last[i] + " ";
    EXPECT_EQ(before, "kubectl delete --ignore-not-found -f " + word + " && ");
  }
  EXPECT_EQ(applied, 5u);
}

// neuron-cache's verdicts end the Job; a lost or killed pod is restarted.
TEST(Deploy, TheCompileJobRepeatsNoFailure) {
  const Value job = Yaml("compile-job.yaml");
  EXPECT_EQ(Text(job, "spec.template.spec.restartPolicy"), "Never");
  const std::string rule = "spec.podFailurePolicy.rules.0.";
  EXPECT_EQ(Text(job, rule + "action"), "FailJob");
  EXPECT_EQ(Text(job, rule + "onExitCodes.operator"), "In");
  EXPECT_EQ(Text(job, rule + "onExitCodes.containerName"),
            Text(job, "spec.template.spec.containers.0.name"));
  EXPECT_EQ(CommandOf(job, rule + "onExitCodes.values"), "1 2 3 4 ");
  EXPECT_EQ(At(job, "spec.podFailurePolicy.rules.1"), nullptr);
}

// Nothing is compiled after a failed collection.
TEST(Deploy, ThePagesOfTorchxStartNothingBehindAFailure) {
  for (const char* name : {"PRECOMPILE.md", "torchx_component.py"}) {
    const std::string text = ReadFile(kFolder + "/" + name);
    const size_t collect = text.find("torchx_component.py:collect ");
    const size_t compile = text.find("torchx_component.py:compile ");
    ASSERT_NE(collect, std::string::npos) << name;
    ASSERT_LT(collect, compile) << name;
    EXPECT_THAT(text.substr(collect, compile - collect),
                HasSubstr("--max_steps=10 &&\n    torchx run --wait --workspace=\"\" -s kubernetes "
                          "-cfg queue=default "))
        << name;
  }
}

// The examples show the two lines of the page.
TEST(Deploy, TheExamplesPrecompileAsThePageDoes) {
  const std::string readme = ReadFile(NXDKIT_SOURCE_DIR "/tools/EXAMPLES.md");
  const std::string page = ReadFile(kFolder + "/PRECOMPILE.md");
  size_t lines = 0;
  std::istringstream all(readme);
  for (std::string line; std::getline(all, line);) {
    if (line.find("precompile.sbatch") == std::string::npos &&
        line.find("run.sbatch") == std::string::npos)
      continue;
    ++lines;
    line.erase(0, line.find_first_not_of(' '));
    if (const size_t at = line.find("tools/deploy/"); at != std::string::npos) line.erase(at, 13);
    EXPECT_THAT(page, HasSubstr(line + "\n"));
  }
  EXPECT_EQ(lines, 2u);
}

// A faulty job is not restarted forever: the first matching policy of Volcano applies.
TEST(Deploy, VolcanoEndsAJobThatWouldFailAgain) {
  const Value volcano = Yaml("train-volcano.yaml");
  const Value* policies = At(volcano, "spec.tasks.0.policies");
  ASSERT_NE(policies, nullptr);
  std::set<std::string> aborted;
  for (const Value& policy : policies->items) {
    if (Text(policy, "action") == "RestartJob") break;
    if (Text(policy, "action") == "AbortJob") aborted.insert(Text(policy, "exitCode"));
  }
  EXPECT_EQ(aborted, (std::set<std::string>{"1", "2", "3", "4", "5"}));
}

// A folder of stand-ins for the commands of a launcher and for the trainer. Real launchers are
// tested in tests/cluster.
class StandIns : public ::testing::Test {
 protected:
  StandIns() {
    fs::create_directories(folder_.path() + "/out/run");
    Command("scontrol", "echo \"$@\" >> \"$OUT/scontrol\"");
    Command("scancel", "kill -TERM \"$(cat \"$OUT/process\")\"");
    Command("srun", "while [[ $1 == --* ]]; do shift; done\nexec \"$@\"");
    Command("mpirun", "while [[ $1 != grpo-train ]]; do shift; done\nexec \"$@\"");
    Command("grpo-train",
            "[[ $* != *--dry-run ]] || exit \"${DRY_CODE:-0}\"\n"
            "trap 'exit ${CODE:-143}' TERM\necho \"$@\" >> \"$OUT/started\"\n"
            "[ -z \"${MARKS:-}\" ] || touch \"$OUT/run/DONE\"\n"
            "[ -z \"${ENDS:-}\" ] || exit \"$ENDS\"\n"
            "echo $$ > \"$OUT/process.new\"\nmv \"$OUT/process.new\" \"$OUT/process\"\n"
            "for ((i = 0; i < 300; ++i)); do sleep 0.1; done");
  }
  void Command(const std::string& name, const std::string& body) const {
    const std::string path = folder_.Write(name, "#!/bin/bash\n" + body + "\n");
    fs::permissions(path, fs::perms::owner_all);
  }
  std::string Out(const std::string& name) const { return folder_.path() + "/out/" + name; }
  std::vector<std::string> Script(const std::string& command, const std::string& environment) {
    return {"/bin/bash", "-c",
            "export OUT=" + folder_.path() + "/out PATH=" + folder_.path() +
                ":$PATH SLURM_JOB_ID=17 " + environment + "; exec bash " + kFolder + "/" + command};
  }
  std::vector<std::string> Batch(const std::string& environment) {
    return Script("train.sbatch " + Out("run") + " --config run.yaml", environment);
  }
  // The exit code of the batch script after the signal, which Slurm also sends to the trainer at
  // the end.
  int RunBatch(int signal, const std::string& environment = "") {
    const pid_t child = StartProcess(Batch(environment));
    EXPECT_TRUE(WaitFor(Out("process")));
    kill(child, signal);
    if (signal == SIGTERM) kill(std::stoi(ReadFile(Out("process"))), signal);
    return WaitProcess(child);
  }
  std::string Said(const std::string& name) const {
    return fs::exists(Out(name)) ? ReadFile(Out(name)) : "";
  }
  const TempFolder folder_;
};
using TrainBatch = StandIns;
using TrainMpirun = StandIns;

TEST_F(TrainBatch, IsRequeuedWhenTheTimeLimitComes) {
  EXPECT_EQ(RunBatch(SIGUSR1), 75);
  EXPECT_EQ(Said("started"),
            "--config run.yaml trainer.save_checkpoint_path=" + Out("run") + " trainer.nnodes=1\n");
  EXPECT_EQ(Said("scontrol"), "requeue 17\n");
}

TEST_F(TrainBatch, IsNotRequeuedWhenItIsCancelled) {
  EXPECT_EQ(RunBatch(SIGTERM), 143);
  EXPECT_EQ(Said("scontrol"), "");
}

TEST_F(TrainBatch, IsNotRequeuedWhenTheTrainerFailsThen) {
  EXPECT_EQ(RunBatch(SIGUSR1, "CODE=5"), 5);
  EXPECT_EQ(Said("scontrol"), "");
}

TEST_F(TrainBatch, IsRequeuedWhenSomethingWasLost) {
  const struct {
    const char* ends;
    int exit_code;
    bool requeued;
  } rows[] = {{"75", 75, true}, {"137", 75, true}, {"0", 75, true}, {"5", 5, false}};
  for (const auto& row : rows) {
    fs::remove(Out("scontrol"));
    const ProcessResult result = RunProcess(Batch(std::string("ENDS=") + row.ends));
    EXPECT_EQ(result.exit_code, row.exit_code) << row.ends << result.err;
    EXPECT_EQ(Said("scontrol"), row.requeued ? "requeue 17\n" : "") << row.ends;
  }
  // The run's marker shows that it is done, whatever srun reports; an earlier run's does not count.
  folder_.Write("out/run/DONE", "{}");
  EXPECT_EQ(RunProcess(Batch("ENDS=0")).exit_code, 75);
  fs::remove(Out("scontrol"));
  EXPECT_EQ(RunProcess(Batch("ENDS=0 MARKS=1")).exit_code, 0);
  EXPECT_EQ(Said("scontrol"), "");
}

TEST_F(TrainBatch, StartsNothingThatCannotRun) {
  EXPECT_EQ(RunProcess(Batch("DRY_CODE=2")).exit_code, 2);
  EXPECT_EQ(RunProcess(Batch("SLURM_RESTART_COUNT=50")).exit_code, 1);
  EXPECT_EQ(RunProcess(Script("train.sbatch --config run.yaml", "")).exit_code, 2);
  EXPECT_EQ(Said("started"), "");
}

TEST_F(TrainMpirun, SaysWhetherToStartItAgain) {
  const std::string command = "train-mpirun.sh " + Out("run") + " 2 --config run.yaml";
  const auto code = [&](const std::string& environment) {
    return RunProcess(Script(command, environment)).exit_code;
  };
  EXPECT_EQ(code("ENDS=75"), 75);
  EXPECT_EQ(code("ENDS=205"), 75);
  EXPECT_EQ(code("ENDS=137"), 75);
  EXPECT_EQ(code("ENDS=0"), 75);
  EXPECT_EQ(code("ENDS=5"), 5);
  EXPECT_EQ(code("DRY_CODE=2"), 2);
  folder_.Write("out/run/DONE", "{}");
  EXPECT_EQ(code("ENDS=0"), 75) << "of an earlier run";
  EXPECT_EQ(code("ENDS=0 MARKS=1"), 0);
  EXPECT_THAT(Said("started"), ::testing::EndsWith(" trainer.nnodes=2\n"));
}

using PrecompileBatch = StandIns;

TEST_F(PrecompileBatch, SaysWhetherTheTrainingJobMayStart) {
  Command("neuron-cache",
          "echo \"$NEURON_COMPILE_CACHE_URL $*\" >> \"$OUT/started\"\n"
          "[ \"$1\" != collect ] || echo '{\"entries\": []}'\n"
          "[ \"$1\" != \"${FAILS:-}\" ]");
  const std::string used = Out("used.json");
  std::string log;
  const auto code = [&](const std::string& words, const std::string& environment) {
    fs::remove(Out("started"));
    fs::remove(used);
    const ProcessResult result =
        RunProcess(Script("precompile.sbatch " + words, "USED_BY=" + used + " " + environment));
    log = result.out + result.err;
    return result.exit_code;
  };
  const std::string run = "trn1 torchrun train.py --max_steps=10";
  EXPECT_EQ(code(run, ""), 0);
  EXPECT_EQ(Said("started"),
            "/fsx/neuron-cache collect --json -- torchrun train.py --max_steps=10\n"
            "/fsx/neuron-cache compile --target trn1\n");
  EXPECT_EQ(Said("used.json"), "{\"entries\": []}\n");
  EXPECT_EQ(code(run, "FAILS=collect"), 1);
  EXPECT_EQ(log, "{\"entries\": []}\n") << "why, in the log";
  EXPECT_EQ(std::distance(fs::directory_iterator(Out("")), fs::directory_iterator()), 2)
      << "run and started";
  EXPECT_THAT(Said("started"), ::testing::Not(HasSubstr("compile --target")));
  EXPECT_EQ(code(run, "FAILS=compile"), 1);
  EXPECT_EQ(code("trn2", "NEURON_COMPILE_CACHE_URL=/data/cache"), 0);
  EXPECT_EQ(Said("started"), "/data/cache compile --target trn2\n");
  EXPECT_EQ(code("", ""), 2);
  for (const char* words : {"--target trn1", "torchrun --nproc_per_node=32 train.py",
                            "trn1.32xlarge torchrun train.py", "trn torchrun train.py"}) {
    EXPECT_EQ(code(words, ""), 2) << words;
    EXPECT_THAT(log, HasSubstr("precompile.sbatch TARGET [PROGRAM...], where TARGET is trn1"));
    EXPECT_EQ(Said("started"), "") << words;
  }
}

TEST_F(PrecompileBatch, MakesABundleThatIsNotThere) {
  Command("neuron-export",
          "echo \"${NEURON_PLATFORM_TARGET_OVERRIDE:-unset} $*\" >> \"$OUT/started\"");
  const std::string bundle = Out("bundle");
  const std::string command = "export.sbatch --tp 8 model " + bundle;
  EXPECT_EQ(RunProcess(Script(command, "NEURON_PLATFORM_TARGET_OVERRIDE=trn2")).exit_code, 0);
  EXPECT_EQ(Said("started"), "trn2 --tp 8 model " + bundle + "\n");
  fs::remove(Out("started"));
  EXPECT_EQ(RunProcess(Script(command, "")).exit_code, 0);
  EXPECT_EQ(Said("started"), "unset --tp 8 model " + bundle + "\n") << "--instance says it";
  fs::remove(Out("started"));
  fs::create_directories(bundle);
  EXPECT_EQ(RunProcess(Script(command, "")).exit_code, 0);
  EXPECT_EQ(RunProcess(Script("export.sbatch model", "")).exit_code, 2);
  EXPECT_EQ(Said("started"), "");
}

}  // namespace
}  // namespace nxdkit::test
