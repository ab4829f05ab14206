// The functions of nxdkit.h with requests, numbers and boxes that a caller may get wrong, on a
// model in memory: there is always an answer.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzzing.h"
#include "tools/library/nxdkit.h"

using nxdkit::Require;

namespace {

// Numbers are taken from the input's end, texts from its front, up to the next line feed.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  int64_t Number() {
    int64_t number = 0;
    const size_t bytes = rest_.size() < sizeof number ? rest_.size() : sizeof number;
    if (bytes > 0) std::memcpy(&number, rest_.data() + rest_.size() - bytes, bytes);
    rest_.remove_suffix(bytes);
    // Small ones find more.
    return number % 3 == 0 ? number : number % 100;
  }
  std::string Text() {
    const size_t end = rest_.find('\n');
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return text;
  }

 private:
  std::string_view rest_;
};

// Takes `reply` by address, so that it is read after the call.
void Done(int code, char** reply) {
  Require(code == 0 || *reply != nullptr, "no failure without a reason");
  nxdkit_free(*reply);
  *reply = nullptr;
}

void ReadBoxes(nxdkit_source* source, Input& input) {
  for (int i = 0; i < 4; ++i) {
    const uint64_t tensor = static_cast<uint64_t>(input.Number());
    const int64_t begin[8] = {input.Number(), input.Number()};
    const int64_t end[8] = {input.Number(), input.Number()};
    const int64_t step[8] = {input.Number(), input.Number(), 1, 1, 1, 1, 1, 1};
    // Exactly as large as declared: the sanitizer sees a write past it.
    std::vector<char> to(static_cast<size_t>(input.Number() & 0xfff));
    char* reply = nullptr;
    Done(nxdkit_read(source, tensor, begin, end, step, to.data(), to.size(), &reply), &reply);
    char* text = nullptr;
    Done(nxdkit_explain(source, tensor, &text, &reply), &reply);
    nxdkit_free(text);
  }
}

constexpr size_t kBytes = 1 << 16;  // of every tensor: none in the model below is larger
const std::vector<char>& Bytes() {
  static const std::vector<char> bytes(kBytes, 7);
  return bytes;
}

nxdkit_source* OpenMemory(const std::string& request) {
  // As many pointers as a request of this length can name tensors.
  const std::vector<const void*> data(request.size() + 1, Bytes().data());
  nxdkit_source* source = nullptr;
  char* reply = nullptr;
  Done(nxdkit_open_memory(request.c_str(), data.data(), &source, &reply), &reply);
  return source;
}

// Tensors without a table, of every kind of shape.
constexpr const char* kModel =
    R"({"tensors": [{"name": "scalar", "dtype": "F32", "shape": []},
        {"name": "row", "dtype": "BF16", "shape": [64]},
        {"name": "empty", "dtype": "I64", "shape": [0, 4]},
        {"name": "turned", "dtype": "F16", "shape": [8, 16], "strides": [1, 8]},
        {"name": "table", "dtype": "BF16", "shape": [16, 64]}]})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  // It may declare more than its memory holds; only reading it would show that.
  nxdkit_close(OpenMemory(input.Text()));
  nxdkit_source* const memory = OpenMemory(kModel);
  Require(memory != nullptr, "the model opens");
  nxdkit_source* rank = nullptr;
  char* reply = nullptr;
  Done(nxdkit_open_rank(memory, input.Text().c_str(), &rank, &reply), &reply);
  nxdkit_source* const sources[] = {memory, rank};
  // Commands that write nothing unless a file is named.
  const std::string options = input.Text();
  for (const char* command : {"digest", "inspect", "diff"}) {
    const std::string request = std::string(R"({"command": ")") + command +
                                R"(", "arguments": [{"source": 0}, {"source": 1}], "options": )" +
                                options + "}";
    Done(nxdkit_run(request.c_str(), sources, 2, nullptr, nullptr, &reply), &reply);
  }
  ReadBoxes(memory, input);
  if (rank != nullptr) ReadBoxes(rank, input);
  nxdkit_close(rank);
  nxdkit_close(memory);
  return 0;
}
