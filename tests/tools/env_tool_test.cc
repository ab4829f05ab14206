// nxdkit-env: its report where everything is missing, on an invented machine, and on captures; and
// --instance auto of the commands that plan memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/grpo_workshop.h"
#include "tests/tools/json_schema.h"
#include "tests/tools/man_page.h"

namespace nxdkit::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string CaptureOf(const std::string& name) {
  return NXDKIT_TESTDATA "/neuron_ls/" + name + ".json";
}

// A machine of our own: a neuron-ls in PATH, and a folder in place of "/".
class FakeMachine {
 public:
  explicit FakeMachine(const Workshop& shop) : shop_(shop) {
    fs::create_directories(shop_ / "bin");
    fs::create_directories(shop_ / "root");
  }
  void NeuronLs(const std::string& body) const {
    const std::string path = shop_.Write("bin/neuron-ls", "#!/bin/bash\n" + body + "\n");
    fs::permissions(path, fs::perms::owner_all);
  }
  void Kernel(const std::string& product, int devices) const {
    shop_.Write("root/sys/devices/virtual/dmi/id/product_name", product + "\n");
    for (int i = 0; i < devices; ++i) shop_.Write("root/dev/neuron" + std::to_string(i), "");
  }
  Words Environment(const Words& more = {}) const {
    Words environment = {"PATH=" + shop_ / "bin:/usr/bin:/bin",
                         "NXDKIT_MACHINE_ROOT=" + (shop_ / "root")};
    environment.insert(environment.end(), more.begin(), more.end());
    return environment;
  }

 private:
  const Workshop& shop_;
};

class EnvTool : public ::testing::Test {
 protected:
  ProcessResult Call(const Words& words, const Words& environment = {}) const {
    Words command = {Workshop::Tool("nxdkit-env")};
    command.insert(command.end(), words.begin(), words.end());
    return RunProcess(command, machine_.Environment(environment));
  }
  // Its document, which must match the page and the schema.
  Json Ask(Words words, const Words& environment = {}) const {
    words.emplace_back("--json");
    const ProcessResult result = Call(words, environment);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const Json json = Json::parse(result.out);
    EXPECT_THAT(SourceSchemas().Faults("nxdkit-env.json", json), IsEmpty()) << result.out;
    EXPECT_THAT(
        UndocumentedPaths(json, ManJsonPaths(ReadFile(NXDKIT_SOURCE_DIR "/man/nxdkit-env.1"))),
        IsEmpty());
    return json;
  }

  const Workshop shop_;
  const FakeMachine machine_{shop_};
};

TEST_F(EnvTool, WhatIsMissingIsToldAndNoFailure) {
  const Json json = Ask({});
  EXPECT_EQ(json["machine"]["devices"]["value"], Json());
  EXPECT_THAT(
      json["machine"]["asked"].get<Words>(),
      ElementsAre("neuron-ls: not in PATH", HasSubstr("/opt/aws/neuron/bin/neuron-ls: not there"),
                  HasSubstr("product_name: says nothing"), HasSubstr("/dev/neuron*: 0 devices")));
  EXPECT_EQ(json["software"]["compiler"], Json());
  EXPECT_EQ(json["fits"], Json());
  EXPECT_GT(json["system"]["memory_bytes"].get<uint64_t>(), 0u);
  EXPECT_GE(json["system"]["cpus"], json["system"]["usable_cpus"]);
  EXPECT_THAT(json["libraries"]["zlib"].get<std::string>(), HasSubstr("1."));
  const ProcessResult text = Call({});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("\nmachine       no Neuron devices\n"),
                              HasSubstr("\npackages      none of Neuron's\n")));
  EXPECT_EQ(text.err, "");
  EXPECT_LE(std::ranges::count(text.out, '\n'), 40);
}

TEST_F(EnvTool, TellsTheMachineAndWhoHoldsIt) {
  machine_.NeuronLs("cat " + CaptureOf("trn1.32xlarge"));
  const Json machine = Ask({}, {"NEURON_RT_VISIBLE_CORES=0-3"})["machine"];
  EXPECT_EQ(machine["instance"], (Json{{"value", "trn1.32xlarge"}, {"by", "neuron-ls"}}));
  EXPECT_EQ(machine["cores"], 32);
  EXPECT_EQ(machine["core_bytes"], uint64_t{16} << 30);
  EXPECT_EQ(machine["processes"][0]["pid"], 4711);
  EXPECT_EQ(machine["processes"][0]["devices"], (Json{0, 1, 2, 3}));
  EXPECT_EQ(machine["given"]["count"], 4);
  EXPECT_THAT(Call({}).out,
              AllOf(HasSubstr("trn1.32xlarge (neuron-ls): 16 devices, 32 cores, 16.00 GiB a core"),
                    HasSubstr("held          devices 0, 1, 2, 3 by pid 4711: "),
                    HasSubstr("device 5 by pid 4712: vllm serve model")));
}

TEST_F(EnvTool, AProgramThatFailsIsToldWithItsWords) {
  machine_.NeuronLs("echo 'no driver is loaded' >&2; exit 1");
  machine_.Kernel("trn2.48xlarge", 16);
  const Json machine = Ask({})["machine"];
  EXPECT_THAT(machine["asked"][0].get<std::string>(),
              HasSubstr("it exited with 1; its standard error: no driver is loaded"));
  EXPECT_EQ(machine["instance"]["by"], "dmi");
  EXPECT_EQ(machine["cores"], 64);
  EXPECT_EQ(machine["processes"], Json()) << "the kernel does not tell them";
}

TEST_F(EnvTool, AMachineWithoutDevicesKeepsItsName) {
  machine_.Kernel("trn2.48xlarge", 0);
  EXPECT_THAT(Call({}).out, HasSubstr("\nmachine       trn2.48xlarge (dmi): no Neuron devices\n"));
}

TEST_F(EnvTool, CoresThatAreNotThereAreANote) {
  machine_.NeuronLs("cat " + CaptureOf("trn1.32xlarge"));
  const char* const note =
      "NEURON_RT_VISIBLE_CORES=0-99 names core 99, and the cores here are 0 to 31";
  EXPECT_THAT(Ask({}, {"NEURON_RT_VISIBLE_CORES=0-99"})["machine"]["notes"].get<Words>(),
              ElementsAre(note));
  EXPECT_THAT(Call({}, {"NEURON_RT_VISIBLE_CORES=0-99"}).out, HasSubstr(note));
  EXPECT_THAT(Ask({}, {"NEURON_RT_NUM_CORES=33"})["machine"]["notes"].get<Words>(),
              ElementsAre("NEURON_RT_NUM_CORES=33 asks for more cores than the 32 here"));
  EXPECT_THAT(Ask({}, {"NEURON_RT_NUM_CORES=32"})["machine"]["notes"].get<Words>(), IsEmpty());
}

TEST_F(EnvTool, FactsThatAreNotToldAreNotMadeUp) {
  EXPECT_THAT(Call({"--neuron-ls", CaptureOf("odd_values")}).out,
              AllOf(HasSubstr("trn1.32xlarge (neuron-ls): 4 devices, 8 cores (the table of "
                              "instances), 16.00 GiB a core (the table of instances)"),
                    HasSubstr("device 3 by a process of an unknown pid\n"),
                    HasSubstr("16 devices in the table of instances, 4 seen (a container, or "
                              "failed devices)")));
}

TEST_F(EnvTool, ReadsACaptureOfAPipe) {
  const std::string tool = Workshop::Tool("nxdkit-env") + " --neuron-ls ";
  const auto call = [&](const std::string& line) {
    return RunProcess({"/bin/bash", "-c", tool + line}, machine_.Environment());
  };
  const ProcessResult piped = call("<(cat " + CaptureOf("trn1.2xlarge") + ")");
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_THAT(piped.out, HasSubstr("trn1.2xlarge (neuron-ls): 1 device, 2 cores"));
  const ProcessResult endless = call("<(exec yes)");
  EXPECT_EQ(endless.exit_code, 3) << endless.out;
  EXPECT_THAT(endless.err, HasSubstr("it has more than 4194304 bytes"));
}

TEST_F(EnvTool, ReadsCaptures) {
  const Json old = Ask({"--neuron-ls", CaptureOf("older_release")})["machine"];
  EXPECT_EQ(old["instance"]["by"], "a guess");
  EXPECT_THAT(old["guessed_from"].get<std::string>(), HasSubstr("16 devices of 2 cores"));
  const Json odd = Ask({"--neuron-ls", CaptureOf("odd_values")})["machine"];
  EXPECT_THAT(odd["notes"].get<Words>(), Contains(HasSubstr("nc_count is a string")));
  const ProcessResult missing = Call({"--neuron-ls", "no/such.json"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("no/such.json"));
  const std::string cut = shop_.Write("cut.json", "[{\"neuron_device\": 0");
  EXPECT_EQ(Call({"--neuron-ls", cut}).exit_code, 3);
}

TEST_F(EnvTool, SaysWhichSizesOfAModelFit) {
  const std::string model = shop_.MakeModel("model", testing_util::TinyLlama());
  const Json fits = Ask({"--neuron-ls", CaptureOf("trn1.32xlarge"), "--model", model})["fits"];
  EXPECT_EQ(fits["batch"], 1);
  EXPECT_EQ(fits["sequence"], 4096);
  std::vector<int64_t> sizes;
  for (const Json& row : fits["sizes"]) sizes.push_back(row["tp"].get<int64_t>());
  EXPECT_THAT(sizes, ElementsAre(1, 2, 8, 16, 32));
  EXPECT_EQ(fits["sizes"][0]["fits"], true);
  EXPECT_EQ(fits["sizes"][1]["divides_heads"], true);
  EXPECT_EQ(fits["sizes"][4]["divides_heads"], false) << "8 heads";
  EXPECT_GT(fits["sizes"][0]["weight_bytes"], fits["sizes"][1]["weight_bytes"]);
  const Json large = Ask({"--instance", "trn1.2xlarge", "--bs", "100000", "--seq", "100000",
                          "--model", model + "/config.json"})["fits"];
  EXPECT_EQ(large["instance"], "trn1.2xlarge");
  EXPECT_EQ(large["sizes"][0]["fits"], false);
  EXPECT_THAT(large["sizes"][0]["problems"][0].get<std::string>(),
              HasSubstr("more than a core has"));
  // A machine in no table: powers of two, by cores and memory.
  const Json unknown = Ask({"--neuron-ls", CaptureOf("trn3"), "--model", model})["fits"];
  EXPECT_EQ(unknown["sizes_known"], false);
  EXPECT_EQ(unknown["sizes"].size(), 5u) << "1, 2, 4, 8, 16";
}

TEST_F(EnvTool, AModelNeedsAMachine) {
  const std::string model = shop_.MakeModel("model", testing_util::TinyLlama());
  const Json json = Ask({"--model", model});
  EXPECT_EQ(json["fits"], Json());
  EXPECT_THAT(json["warnings"].get<Words>(),
              ElementsAre("--model: there are no Neuron devices here; --instance NAME selects "
                          "another machine"));
  for (const Words& alone :
       {Words{"--instance", "trn1.2xlarge"}, Words{"--bs", "1"}, Words{"--seq", "4096"}}) {
    const ProcessResult refused = Call(alone);
    EXPECT_EQ(refused.exit_code, 2) << alone[0];
    EXPECT_THAT(refused.err, HasSubstr(alone[0] + " applies to --model, which is missing"));
  }
  const Words wrong = {"--model", model, "--instance", "trn1.33xlarge"};
  EXPECT_EQ(Call(wrong).exit_code, 2);
  EXPECT_EQ(Call({"--model", shop_ / "none", "--instance", "trn1.2xlarge"}).exit_code, 3);
  shop_.Write("other/config.json", "{\"model_type\": \"of_nobody\"}");
  const Json other = Ask({"--model", shop_ / "other", "--instance", "trn1.2xlarge"})["fits"];
  EXPECT_THAT(other["unknown"].get<std::string>(), HasSubstr("of_nobody"));
}

TEST_F(EnvTool, AutoIsTheMachineThatIsToldOf) {
  const std::string model = shop_.MakeModel("model", testing_util::TinyLlama());
  machine_.NeuronLs("echo run >>" + (shop_ / "asked") + "; cat " + CaptureOf("trn1.32xlarge"));
  const Words words = {"--model", model, "--instance", "auto"};
  EXPECT_EQ(Ask(words)["fits"]["instance"], "trn1.32xlarge");
  EXPECT_EQ(ReadFile(shop_ / "asked"), "run\n") << "neuron-ls is asked once";
  Words captured = words;
  captured.insert(captured.end(), {"--neuron-ls", CaptureOf("trn2.3xlarge")});
  EXPECT_EQ(Ask(captured)["fits"]["instance"], "trn2.3xlarge");
  EXPECT_EQ(ReadFile(shop_ / "asked"), "run\n");
}

TEST_F(EnvTool, FindsPackagesWithoutPython) {
  const std::string site = "venv/lib/python3.10/site-packages/";
  for (const char* name : {"neuronx_cc-2.21.33363.0+82129205", "optimum_neuron-0.4.6.dev4",
                           "vllm-0.11.0", "requests-2.32.0"})
    fs::create_directories(shop_ / (site + name + ".dist-info"));
  const Json software = Ask({}, {"VIRTUAL_ENV=" + (shop_ / "venv")})["software"];
  std::vector<std::string> found;
  for (const Json& package : software["packages"])
    if (package["environment"] == shop_ / "venv")
      found.push_back(package["name"].get<std::string>() + " " +
                      package["version"].get<std::string>());
  EXPECT_THAT(found, ElementsAre("neuronx_cc 2.21.33363.0+82129205", "optimum_neuron 0.4.6.dev4",
                                 "vllm 0.11.0"));
}

TEST_F(EnvTool, AsksTheCompilerForItsVersion) {
  const std::string path = shop_.Write(
      "bin/neuronx-cc", "#!/bin/sh\necho 'NeuronX Compiler version 2.21.33363.0+82129205'\n");
  fs::permissions(path, fs::perms::owner_all);
  const Json software = Ask({})["software"];
  EXPECT_EQ(software["compiler"], "2.21.33363.0+82129205");
  EXPECT_EQ(software["compiler_problem"], Json());
}

TEST_F(EnvTool, SaysWhyTheCompilerSaysNoVersion) {
  EXPECT_THAT(Call({}).out, HasSubstr("\nneuronx-cc    not in PATH\n"));
  const std::string path = shop_.Write("bin/neuronx-cc", "");
  const auto problem = [&](const std::string& body) {
    shop_.Write("bin/neuronx-cc", "#!/bin/sh\n" + body + "\n");
    fs::permissions(path, fs::perms::owner_all);
    const Json software = Ask({})["software"];
    EXPECT_EQ(software["compiler"], Json());
    return software["compiler_problem"].get<std::string>();
  };
  EXPECT_EQ(problem("echo 'No module named neuronxcc' >&2; exit 1"),
            path + ": it exited with 1; its standard error: No module named neuronxcc");
  EXPECT_EQ(problem("echo hello"), path + ": it reports no version: 'hello'");
  EXPECT_EQ(problem("exit 0"), path + ": it reports no version: ''");
}

TEST_F(EnvTool, HidesWhatMayBeSecret) {
  machine_.NeuronLs(
      "echo '[{\"neuron_device\":0,\"nc_count\":2,\"memory_size\":34359738368,"
      "\"neuron_processes\":[{\"pid\":7,\"command\":\"serve --api-key hunter2\"}]}]'");
  const Words secrets = {
      "NEURON_AUTH_TOKEN=hunter2", "NEURON_COMPILE_CACHE_URL=https://me:hunter2@host/cache",
      "NEURON_CC_FLAGS=--x=AKIAHUNTER2HUNTER2", "VLLM_API_KEY=hunter2", "NEURON_RT_LOG_LEVEL=INFO"};
  const ProcessResult text = Call({}, secrets);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(Not(HasSubstr("hunter2")), Not(HasSubstr("HUNTER2")),
                              HasSubstr("NEURON_AUTH_TOKEN=(hidden)"),
                              HasSubstr("NEURON_RT_LOG_LEVEL=INFO")));
  EXPECT_THAT(Ask({}, secrets).dump(), Not(HasSubstr("hunter2")));
}

TEST_F(EnvTool, TellsTheFileSystemOfAPath) {
  const Json places = Ask({shop_.path(), shop_ / "not/there"})["places"];
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0]["exists"], true);
  EXPECT_GT(places[0]["bytes"].get<uint64_t>(), 0u);
  EXPECT_NE(places[0]["type"], Json());
  EXPECT_EQ(places[1]["exists"], false);
  EXPECT_EQ(places[1]["type"], places[0]["type"]);
  const ProcessResult text = Call({shop_.path(), shop_ / "not/there"});
  EXPECT_THAT(text.out,
              AllOf(HasSubstr(shop_.path() + ": " + places[0]["type"].get<std::string>() + " of "),
                    HasSubstr(shop_ / "not/there: missing; for its nearest folder " + shop_.path() +
                              ": " + places[0]["type"].get<std::string>())));
  std::vector<std::string> whats;
  const Json unnamed = Ask({}, {"NEURON_COMPILE_CACHE_URL=" + (shop_ / "cache")})["places"];
  for (const Json& place : unnamed) whats.push_back(place["what"]);
  EXPECT_THAT(whats, ElementsAre("compile cache", "temporary", "current"));
  EXPECT_EQ(unnamed[0]["path"], shop_ / "cache");
}

// --- --instance auto

class InstanceAuto : public EnvTool {
 protected:
  ProcessResult Convert(const Words& options, int tp) const {
    Words words = {Workshop::Tool("nxd-convert"),
                   "--dry-run",
                   "--json",
                   "--to",
                   "rollout",
                   "--tp",
                   std::to_string(tp)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {model_, shop_ / "out"});
    return RunProcess(words, machine_.Environment());
  }
  const std::string model_ = shop_.MakeModel("model", testing_util::TinyLlama());
};

TEST_F(InstanceAuto, IsThisMachine) {
  machine_.NeuronLs("cat " + CaptureOf("trn1.2xlarge"));
  const ProcessResult fits = Convert({"--instance", "auto"}, 2);
  ASSERT_EQ(fits.exit_code, 0) << fits.out;
  const Json json = Json::parse(fits.out);
  EXPECT_EQ(json["fit"]["instance"], "trn1.2xlarge");
  EXPECT_THAT(
      json["notes"].get<Words>(),
      Contains("--instance: trn1.2xlarge (neuron-ls): 1 device, 2 cores, 16.00 GiB a core"));
  const ProcessResult refused = Convert({"--instance", "auto"}, 4);
  EXPECT_EQ(refused.exit_code, 1) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("4 ranks, and trn1.2xlarge has 2 cores"));
}

TEST_F(InstanceAuto, WithoutDevicesListsWhatWasAsked) {
  const ProcessResult refused = Convert({"--instance", "auto"}, 2);
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_THAT(refused.out, AllOf(HasSubstr("there are no Neuron devices here; neuron-ls: not in"),
                                 HasSubstr("/dev/neuron*: 0 devices")));
  const ProcessResult exported =
      RunProcess({Workshop::Tool("neuron-export"), "--dry-run", "--no-blob", "--tp", "2",
                  "--instance", "auto", model_, shop_ / "out"},
                 machine_.Environment());
  EXPECT_EQ(exported.exit_code, 2) << exported.err;
  EXPECT_THAT(exported.err, HasSubstr("there are no Neuron devices here"));
}

TEST_F(InstanceAuto, ACaptureIsAnotherMachine) {
  const ProcessResult large = Convert({"--instance", CaptureOf("trn2.48xlarge_lnc1")}, 4);
  ASSERT_EQ(large.exit_code, 0) << large.out;
  EXPECT_EQ(Json::parse(large.out)["fit"]["cores"], 128);
  EXPECT_EQ(Convert({"--instance", CaptureOf("trn2.3xlarge")}, 8).exit_code, 1);
  EXPECT_EQ(Convert({"--instance", "no/such.json"}, 2).exit_code, 3);
}

// Still allowed, as before.
TEST_F(InstanceAuto, UnaskedTheMachineHereIsAWarning) {
  machine_.NeuronLs("cat " + CaptureOf("trn1.2xlarge"));
  EXPECT_THAT(Convert({}, 4).out, Not(HasSubstr("this machine")))
      << "the kernel tells of no devices: neuron-ls is not asked";
  machine_.Kernel("trn1.2xlarge", 1);
  const ProcessResult large = Convert({}, 4);
  EXPECT_EQ(large.exit_code, 0) << large.out;
  EXPECT_THAT(large.out, HasSubstr("this machine is trn1.2xlarge with 2 cores, and what is made "
                                   "does not fit it: 4 ranks"));
  EXPECT_THAT(Convert({}, 2).out, Not(HasSubstr("this machine")));
  EXPECT_THAT(Convert({"--instance", "trn1.32xlarge"}, 2).out, Not(HasSubstr("this machine")));
}

class GrpoInstance : public GrpoTrain {
 protected:
  ProcessResult DryRun(const Words& words, const Words& environment = {}) const {
    Words all = {"--dry-run"};
    all.insert(all.end(), words.begin(), words.end());
    return RunProcess(Command("run", all), machine_.Environment(environment));
  }
  const FakeMachine machine_{workshop_};
};

TEST_F(GrpoInstance, AutoGivesTheRunItsCores) {
  machine_.NeuronLs("cat " + CaptureOf("trn1.2xlarge"));
  const ProcessResult cores =
      DryRun({"--print-config", "--instance", "auto", "trainer.cores=null"});
  EXPECT_EQ(cores.exit_code, 0) << cores.err;
  EXPECT_THAT(cores.out, HasSubstr("cores: 2"));
  EXPECT_THAT(cores.err, HasSubstr("--instance: trn1.2xlarge (neuron-ls): 1 device, 2 cores"));
  const ProcessResult refused = DryRun({"--instance", "auto", "trainer.cores=8"});
  EXPECT_EQ(refused.exit_code, 1) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("and trn1.2xlarge has 2"));
}

TEST_F(GrpoInstance, WhereTheMachineIsAnotherIsSaidBeforeTheRun) {
  machine_.NeuronLs("cat " + CaptureOf("trn1.2xlarge"));
  const Words large = {"--instance", "trn1.32xlarge"};
  EXPECT_THAT(DryRun(large).out, Not(HasSubstr("was asked for")));
  machine_.Kernel("trn1.2xlarge", 1);
  const ProcessResult result = DryRun(large);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(
      Json::parse(result.out)["warnings"].get<Words>(),
      AllOf(Contains("trn1.32xlarge was requested, and this machine is trn1.2xlarge with 2 cores"),
            Contains(HasSubstr("cores, and trn1.2xlarge has 2"))));
  machine_.NeuronLs("cat " + CaptureOf("trn1.32xlarge"));
  EXPECT_THAT(Json::parse(DryRun(large).out)["warnings"].get<Words>(),
              Contains(HasSubstr("devices are held by other processes: pid 4711")));
  // A run on this machine's processors does not use its devices.
  EXPECT_THAT(DryRun({}).out, Not(HasSubstr("held by")));
}

}  // namespace
}  // namespace nxdkit::test
