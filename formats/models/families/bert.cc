// BERT as it is pre-trained, for training sets. NxD's BERT example has parallel layers in the
// attention only; all the rest is whole on every rank. Source: transformers BertForPreTraining
// state dict.
#include "formats/models/family.h"

namespace nxdkit::models {
namespace {

using enum Role;
using enum Dim;

constexpr ParamRow kRows[] = {
    {"bert.embeddings.word_embeddings.weight", kReplicated, kVocab, kHidden},
    {"bert.embeddings.position_embeddings.weight", kReplicated, kPositions, kHidden},
    {"bert.embeddings.token_type_embeddings.weight", kReplicated, kTokenTypes, kHidden},
    {"bert.embeddings.LayerNorm.weight", kReplicated, kHidden},
    {"bert.embeddings.LayerNorm.bias", kReplicated, kHidden},
    {"bert.encoder.layer.{}.attention.self.query.weight", kColumn, kQueryRows, kHidden},
    {"bert.encoder.layer.{}.attention.self.query.bias", kColumn, kQueryRows},
    {"bert.encoder.layer.{}.attention.self.key.weight", kColumn, kQueryRows, kHidden},
    {"bert.encoder.layer.{}.attention.self.key.bias", kColumn, kQueryRows},
    {"bert.encoder.layer.{}.attention.self.value.weight", kColumn, kQueryRows, kHidden},
    {"bert.encoder.layer.{}.attention.self.value.bias", kColumn, kQueryRows},
    {"bert.encoder.layer.{}.attention.output.dense.weight", kRow, kHidden, kQueryRows},
    {"bert.encoder.layer.{}.attention.output.dense.bias", kRow, kHidden},
    {"bert.encoder.layer.{}.attention.output.LayerNorm.weight", kReplicated, kHidden},
    {"bert.encoder.layer.{}.attention.output.LayerNorm.bias", kReplicated, kHidden},
    {"bert.encoder.layer.{}.intermediate.dense.weight", kReplicated, kIntermediate, kHidden},
    {"bert.encoder.layer.{}.intermediate.dense.bias", kReplicated, kIntermediate},
    {"bert.encoder.layer.{}.output.dense.weight", kReplicated, kHidden, kIntermediate},
    {"bert.encoder.layer.{}.output.dense.bias", kReplicated, kHidden},
    {"bert.encoder.layer.{}.output.LayerNorm.weight", kReplicated, kHidden},
    {"bert.encoder.layer.{}.output.LayerNorm.bias", kReplicated, kHidden},
    {"bert.pooler.dense.weight", kReplicated, kHidden, kHidden},
    {"bert.pooler.dense.bias", kReplicated, kHidden},
    {"cls.predictions.bias", kReplicated, kVocab},
    {"cls.predictions.transform.dense.weight", kReplicated, kHidden, kHidden},
    {"cls.predictions.transform.dense.bias", kReplicated, kHidden},
    {"cls.predictions.transform.LayerNorm.weight", kReplicated, kHidden},
    {"cls.predictions.transform.LayerNorm.bias", kReplicated, kHidden},
    {"cls.predictions.decoder.weight", kReplicated, kVocab, kHidden, When::kUntied},
    {"cls.seq_relationship.weight", kReplicated, kTwo, kHidden},
    {"cls.seq_relationship.bias", kReplicated, kTwo},
};

constexpr const char* kIgnorable[] = {"bert.embeddings.position_ids"};

// The decoder is the embedding again, and its bias that of the predictions.
constexpr Alias kAliases[] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias", false},
};

}  // namespace

extern const Family family_bert;
const Family family_bert = {
    .model_type = "bert",
    .architecture = "BertForPreTraining",
    .qkv_bias = Family::Bias::kAlways,
    .output_bias = Family::Bias::kAlways,
    .mlp_bias_key = false,
    .optimum_fuses_qkv = false,
    .rows = kRows,
    .ignorable = kIgnorable,
    .aliases = kAliases,
    .tied_by_default = true,
    .by_architecture = true,
    .nxd_stores_aliases = true,
    .nxd_pipelines = false,
    .optimizer_known = false,
    .has_bundles = false,
    .vllm_known = false,
};

}  // namespace nxdkit::models
