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

// The fields that the batch/v1 Job of the Kubernetes API asks for in an Indexed Job.
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

// With a module in the place of torchx that takes what it takes.
TEST(Deploy, TheTorchxComponentMakesAReplicaForEachPart) {
  const TempFolder folder;
  fs::create_directories(folder.path() + "/torchx");
  folder.Write("torchx/__init__.py", "");
  folder.Write("torchx/specs.py",
               "class macros: replica_id = '${replica_id}'\n"
               "class AppDef:\n  def __init__(self, name, roles): self.roles = roles\n"
               "class Resource:\n  def __init__(self, cpu, gpu, memMB): pass\n"
               "def parse_mounts(words): return ['+'.join(words)]\n"
               "class Role:\n"
               "  def __init__(self, name, image, entrypoint, args, num_replicas, max_retries,"
               " mounts, resource):\n"
               "    self.args, self.n, self.entrypoint = args, num_replicas, entrypoint\n"
               "    self.mounts = mounts\n");
  const ProcessResult result = RunProcess(
      {"python3", "-B", "-c",
       "import sys; sys.path[:0] = ['" + folder.path() + "', '" + kFolder +
           "']; import torchx_component as c; r = c.convert('--to', 'hf', 'a', 'b', parts=3, "
           "mounts=['src=x', 'dst=/data']).roles[0]; "
           "print(r.entrypoint, *r.args, r.n, *r.mounts)"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "nxd-convert --part ${replica_id}/3 --to hf a b 3 src=x+dst=/data\n");
}

// The packages of the image are those that the programs are linked with.
TEST(Deploy, TheImageHasTheLibraries) {
  const std::string text = ReadFile(kFolder + "/Dockerfile");
  std::set<std::string> libraries;
  for (const std::string& tool : BuiltTools()) {
    const ProcessResult needed = RunProcess({"objdump", "-p", tool});
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

// A folder of commands that stand in for Slurm's and for the trainer.
class TrainBatch : public ::testing::Test {
 protected:
  TrainBatch() {
    fs::create_directory(folder_.path() + "/out");
    Command("scontrol", "echo \"$@\" >> \"$OUT/scontrol\"");
    Command("grpo-train",
            "trap 'exit ${CODE:-143}' TERM\necho \"$@\" >> \"$OUT/started\"\n"
            "for i in $(seq 300); do sleep 0.1; done");
  }
  void Command(const std::string& name, const std::string& body) const {
    const std::string path = folder_.Write(name, "#!/bin/bash\n" + body + "\n");
    fs::permissions(path, fs::perms::owner_all);
  }
  // Its exit code after the signal.
  int Run(int signal, const std::string& environment = "") const {
    const pid_t child =
        StartProcess({"/bin/bash", "-c",
                      "export OUT=" + folder_.path() + "/out PATH=" + folder_.path() +
                          ":$PATH SLURM_JOB_ID=17 " + environment + "; exec bash " + kFolder +
                          "/train.sbatch --config run.yaml"});
    EXPECT_TRUE(WaitFor(folder_.path() + "/out/started"));
    kill(child, signal);
    return WaitProcess(child);
  }
  std::string Said(const std::string& name) const {
    const std::string path = folder_.path() + "/out/" + name;
    return fs::exists(path) ? ReadFile(path) : "";
  }
  const TempFolder folder_;
};

TEST_F(TrainBatch, IsRequeuedWhenTheTimeLimitComes) {
  EXPECT_EQ(Run(SIGUSR1), 143);
  EXPECT_EQ(Said("started"), "--config run.yaml\n");
  EXPECT_EQ(Said("scontrol"), "requeue 17\n");
}

TEST_F(TrainBatch, IsNotRequeuedWhenItIsCancelled) {
  EXPECT_EQ(Run(SIGTERM), 143);
  EXPECT_EQ(Said("scontrol"), "");
}

TEST_F(TrainBatch, IsNotRequeuedWhenTheTrainerFailsThen) {
  EXPECT_EQ(Run(SIGUSR1, "CODE=5"), 5);
  EXPECT_EQ(Said("scontrol"), "");
}

}  // namespace
}  // namespace nxdkit::test
