#include "tools/conversions/volcano.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

constexpr std::string_view kPrefix = "VC_";
constexpr std::string_view kNum = "_NUM";

struct Task {
  std::string name;  // in capitals, with "_": "TRAINER_3"
  int pods = 0;
  std::vector<std::string> hosts;  // first labels
};

std::vector<std::string> FirstLabels(const std::string& list) {
  std::vector<std::string> labels;
  std::istringstream words(list);
  for (std::string host; std::getline(words, host, ',');)
    labels.push_back(host.substr(0, host.find('.')));
  return labels;
}

std::vector<Task> TasksOf(const Environment& environment) {
  std::vector<Task> tasks;
  for (const auto& [name, value] : environment) {
    const bool is_num = name.starts_with(kPrefix) && name.ends_with(kNum) &&
                        name.size() > kPrefix.size() + kNum.size();
    const std::optional<int> pods = is_num ? ParseNumber<int>(value) : std::nullopt;
    if (!pods) continue;
    Task task{name.substr(kPrefix.size(), name.size() - kPrefix.size() - kNum.size()), *pods, {}};
    const auto hosts = environment.find("VC_" + task.name + "_HOSTS");
    if (hosts != environment.end()) task.hosts = FirstLabels(hosts->second);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

const Task* TaskOfHost(const std::vector<Task>& tasks, const std::string& host) {
  for (const Task& task : tasks)
    if (std::ranges::count(task.hosts, host) > 0) return &task;
  return nullptr;
}

// TRAINER_0 .. TRAINER_7, one pod each: replica 3 of 8.
std::optional<ops::Part> ReplicaOf(const std::vector<Task>& tasks, const Task& own) {
  const size_t bar = own.name.rfind('_');
  if (bar == std::string::npos) return std::nullopt;
  const std::string role = own.name.substr(0, bar + 1);
  const std::optional<int> index = ParseNumber<int>(std::string_view(own.name).substr(bar + 1));
  int count = 0;
  const auto has = [&](int replica) {
    return std::ranges::any_of(tasks, [&](const Task& task) {
      return task.name == role + std::to_string(replica) && task.pods == 1;
    });
  };
  while (has(count)) ++count;
  if (!index || *index < 0 || *index >= count || count < 2) return std::nullopt;
  return ops::Part{.index = *index, .count = count, .numbered = true};
}

}  // namespace

bool NamesTasks(const Environment& environment) { return !TasksOf(environment).empty(); }

Result<ops::Part> VolcanoPart(const Environment& environment, const std::string& host) {
  const std::optional<int> index = ParseNumber<int>(environment.at("VC_TASK_INDEX"));
  if (!index) return BadUsage("VC_TASK_INDEX={} is not a number", environment.at("VC_TASK_INDEX"));
  const std::vector<Task> tasks = TasksOf(environment);
  const Task* own = TaskOfHost(tasks, host);
  if (own)
    if (const auto replica = ReplicaOf(tasks, *own)) return *replica;
  if (!own && tasks.size() == 1) own = &tasks.front();
  // A task of one pod among several tasks is one of several writers, each counting on its own.
  const bool alone = own && own->pods == 1 && tasks.size() > 1;
  if (alone)
    return BadUsage("the job has {} tasks, and VC_TASK_INDEX={} counts the one pod of {} alone",
                    tasks.size(), *index, own->name)
        .hint("say --part I/N, or 0/1 if the other tasks convert nothing");
  if (own) return ops::Part{.index = *index, .count = own->pods, .numbered = true};
  if (tasks.empty() && environment.contains("TORCHX_IMAGE"))
    return BadUsage("TorchX makes a task of each replica: VC_TASK_INDEX={} is 0 in all pods",
                    *index)
        .hint("say --part I/N, with torchx's macro replica_id for I");
  if (tasks.empty())
    return BadUsage("PART_COUNT is not set, and VC_TASK_INDEX={} alone does not say of how many",
                    *index)
        .hint("set PART_COUNT, use the job plugin svc, or say --part I/N");
  return BadUsage(
             "the job has {} tasks, and none of them has the host {}: VC_TASK_INDEX={} would be "
             "the same part in several pods",
             tasks.size(), host, *index)
      .hint("say --part I/N, with torchx's macro replica_id for I");
}

}  // namespace nxdkit::tool
