// BERT as it is pre-trained, for training sets. NxD's BERT example has parallel layers in the
// attention only; all the rest is whole on every rank. Source: transformers BertForPreTraining
// state dict.
#include "formats/models/family.h"

namespace nxdkit::models {
namespace {

constexpr ParamRow kRows[] = {
    {"bert.embeddings.word_embeddings.weight", Role::kReplicated, Dim::kVocab, Dim::kHidden},
    {"bert.embeddings.position_embeddings.weight", Role::kReplicated, Dim::kPositions,
     Dim::kHidden},
    {"bert.embeddings.token_type_embeddings.weight", Role::kReplicated, Dim::kTokenTypes,
     Dim::kHidden},
    {"bert.embeddings.LayerNorm.weight", Role::kReplicated, Dim::kHidden},
    {"bert.embeddings.LayerNorm.bias", Role::kReplicated, Dim::kHidden},
    {"bert.encoder.layer.{}.attention.self.query.weight", Role::kColumn, Dim::kQueryRows,
     Dim::kHidden},
    {"bert.encoder.layer.{}.attention.self.query.bias", Role::kColumn, Dim::kQueryRows},
    {"bert.encoder.layer.{}.attention.self.key.weight", Role::kColumn, Dim::kQueryRows,
     Dim::kHidden},
    {"bert.encoder.layer.{}.attention.self.key.bias", Role::kColumn, Dim::kQueryRows},
    {"bert.encoder.layer.{}.attention.self.value.weight", Role::kColumn, Dim::kQueryRows,
     Dim::kHidden},
    {"bert.encoder.layer.{}.attention.self.value.bias", Role::kColumn, Dim::kQueryRows},
    {"bert.encoder.layer.{}.attention.output.dense.weight", Role::kRow, Dim::kHidden,
     Dim::kQueryRows},
    {"bert.encoder.layer.{}.attention.output.dense.bias", Role::kRow, Dim::kHidden},
    {"bert.encoder.layer.{}.attention.output.LayerNorm.weight", Role::kReplicated, Dim::kHidden},
    {"bert.encoder.layer.{}.attention.output.LayerNorm.bias", Role::kReplicated, Dim::kHidden},
    {"bert.encoder.layer.{}.intermediate.dense.weight", Role::kReplicated, Dim::kIntermediate,
     Dim::kHidden},
    {"bert.encoder.layer.{}.intermediate.dense.bias", Role::kReplicated, Dim::kIntermediate},
    {"bert.encoder.layer.{}.output.dense.weight", Role::kReplicated, Dim::kHidden,
     Dim::kIntermediate},
    {"bert.encoder.layer.{}.output.dense.bias", Role::kReplicated, Dim::kHidden},
    {"bert.encoder.layer.{}.output.LayerNorm.weight", Role::kReplicated, Dim::kHidden},
    {"bert.encoder.layer.{}.output.LayerNorm.bias", Role::kReplicated, Dim::kHidden},
    {"bert.pooler.dense.weight", Role::kReplicated, Dim::kHidden, Dim::kHidden},
    {"bert.pooler.dense.bias", Role::kReplicated, Dim::kHidden},
    {"cls.predictions.bias", Role::kReplicated, Dim::kVocab},
    {"cls.predictions.transform.dense.weight", Role::kReplicated, Dim::kHidden, Dim::kHidden},
    {"cls.predictions.transform.dense.bias", Role::kReplicated, Dim::kHidden},
    {"cls.predictions.transform.LayerNorm.weight", Role::kReplicated, Dim::kHidden},
    {"cls.predictions.transform.LayerNorm.bias", Role::kReplicated, Dim::kHidden},
    {"cls.predictions.decoder.weight", Role::kReplicated, Dim::kVocab, Dim::kHidden, When::kUntied},
    {"cls.seq_relationship.weight", Role::kReplicated, Dim::kTwo, Dim::kHidden},
    {"cls.seq_relationship.bias", Role::kReplicated, Dim::kTwo},
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
};

}  // namespace nxdkit::models
