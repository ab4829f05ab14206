// The time to list the parameters of DeepSeek-V3, 44,544 of them experts', against reading its
// index with the JSON parser alone.
//   families_bench
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/models/view.h"
#include "lib/json/json_parse.h"

namespace nxdkit {
namespace {

constexpr int kRuns = 9;

constexpr std::string_view kConfig = R"({"architectures": ["DeepseekV3ForCausalLM"],
"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
"num_hidden_layers": 61, "vocab_size": 129280, "num_attention_heads": 128,
"num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
"qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1,
"moe_intermediate_size": 2048, "first_k_dense_replace": 3, "num_nextn_predict_layers": 1,
"tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

Result<std::string> IndexText() {
  NXDKIT_ASSIGN(const models::ModelConfig config, models::ParseConfig(kConfig, "config.json"));
  NXDKIT_ASSIGN(const models::Model model, models::MakeModel(config));
  std::string text = "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {";
  for (size_t i = 0; i < model.params.size(); ++i)
    text += fmt::format("{}\"{}\": \"model-{:05}-of-000163.safetensors\"", i == 0 ? "" : ",\n",
                        model.params[i].name, i / 300 + 1);
  return text + "}}";
}

// The use of the family when a model is opened: the config, the parameters, and their names, by
// which stored tensors are found.
Result<size_t> Know() {
  NXDKIT_ASSIGN(const models::ModelConfig config, models::ParseConfig(kConfig, "config.json"));
  NXDKIT_ASSIGN(const models::Model model, models::MakeModel(config));
  NXDKIT_ASSIGN(std::vector<TensorLayout> tensors, models::SpelledTensors(model, ""));
  std::unordered_map<std::string, TensorLayout> names;
  names.reserve(tensors.size());
  for (TensorLayout& tensor : tensors) {
    std::string name = tensor.name;
    names.emplace(std::move(name), std::move(tensor));
  }
  return names.size();
}

double Milliseconds(const auto& run) {
  std::vector<double> all;
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    all.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::ranges::nth_element(all, all.begin() + kRuns / 2);
  return all[kRuns / 2];
}

Status Run() {
  NXDKIT_ASSIGN(const std::string index, IndexText());
  NXDKIT_ASSIGN(const size_t names, Know());
  const double json = Milliseconds([&] { return ParseJson(index).ok(); });
  const double ours = Milliseconds([] { return Know().ok(); });
  fmt::print("{} names: {:.1f} ms; its index of {:.1f} MB, JSON alone: {:.1f} ms; ratio {:.2f}\n",
             names, ours, static_cast<double>(index.size()) / 1e6, json, ours / json);
  return OkStatus();
}

}  // namespace
}  // namespace nxdkit

int main() {
  const nxdkit::Status status = nxdkit::Run();
  if (!status.ok()) fmt::print(stderr, "families_bench: {}\n", status.error().ToString());
  return status.ok() ? 0 : 1;
}
