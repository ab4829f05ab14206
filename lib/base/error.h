// Errors are values. A library function that can fail for a reason outside the program returns
// Result<T> or Status; it never prints, exits or throws.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace nxdkit {

// The kind of failure, which decides the exit code of every tool (ExitCode below).
enum class Errc {
  kFindings,     // the answer is "no": differs, verification failed, plan refused   -> 1
  kUsage,        // wrong options                                                    -> 2
  kNotFound,     // input missing                                                    -> 3
  kCorrupt,      // input damaged or inconsistent                                    -> 3
  kUnsupported,  // valid, but this program cannot do it correctly                   -> 4
  kIo,           // the system refused: no space, no permission, read error          -> 5
  kLimit,        // a stated cap (--max-memory) cannot be met                        -> 6
  kInterrupted,  // SIGINT or SIGTERM arrived                                        -> 130/143
  kInternal,     // a bug of ours                                                    -> 70
  kLost,         // another process of the same run is gone: the same command again  -> 75
};

int ExitCode(Errc code);
std::string_view ErrcName(Errc code);  // stable snake_case word, for --json

// An error with the place where it was found. Built left to right:
//   return Error(Errc::kCorrupt, fmt::format("header length {} is over the limit of {}", n, max))
//       .in(path).at(0);
// A place that is already set is kept: the innermost caller knows best. By value, so that
// `error = std::move(error).in(path)` is right. Text too long to read is cut (ShortName and
// ShortText of text.h): a name from a file may have a megabyte.
//
// A pointer in size, with its special members in error.cc: every function returns a Result, and the
// code that moves and destroys it is compiled into each of them.
class [[nodiscard]] Error {
 public:
  Error(Errc code, std::string message);
  Error(const Error& other);
  Error(Error&& other) noexcept;
  Error& operator=(const Error& other);
  Error& operator=(Error&& other) noexcept;
  ~Error();

  Error in(std::string_view file) &&;        // file path
  Error member(std::string_view member) &&;  // record inside an archive, or JSON key
  Error on(std::string_view tensor) &&;      // tensor or parameter name
  Error at(uint64_t offset) &&;              // byte offset from the start of the file (or member)
  Error rank(int64_t rank) &&;               // tensor parallel rank
  Error hint(std::string_view hint) &&;      // what the user can do about it

  Errc code() const;
  const std::string& message() const;
  const std::string& file() const;
  const std::string& member() const;
  const std::string& tensor() const;
  const std::optional<uint64_t>& offset() const;
  const std::optional<int64_t>& rank() const;
  const std::string& hint() const;

  // One line: "file: member: tensor: rank 3: offset 17: message". The hint is not part of it.
  std::string ToString() const;

 private:
  struct Facts;
  std::unique_ptr<Facts> facts_;  // null only when moved from
};

// Error for the current errno: kNotFound for ENOENT/ENOTDIR, kCorrupt for ELOOP and ENAMETOOLONG,
// which are faults of links and names that were read, else kIo (with a hint on ENOSPC).
// `action` reads as a verb phrase: "open", "write 4096 bytes".
Error SystemError(std::string_view action, int saved_errno);
// The same for outputs, always kIo: a missing folder there is not a missing input.
Error OutputError(std::string_view action, int saved_errno);

// The part shared by Result and Status: an error is given its place where it is passed on.
//   NXDKIT_TRY(CheckShape(tensor).in(path).on(tensor.name));
template <typename Self>
class Placed {
 public:
  Self&& in(std::string_view file) && { return Place(&Error::in, file); }
  Self&& member(std::string_view member) && { return Place(&Error::member, member); }
  Self&& on(std::string_view tensor) && { return Place(&Error::on, tensor); }
  Self&& at(uint64_t offset) && { return Place(&Error::at, offset); }
  Self&& rank(int64_t rank) && { return Place(&Error::rank, rank); }

 private:
  template <typename Value>
  Self&& Place(Error (Error::*set)(Value) &&, Value value) {
    Self& self = static_cast<Self&>(*this);
    if (!self.ok()) self.error() = (std::move(self.error()).*set)(value);
    return std::move(self);
  }
};

// Success or an Error. Default-constructed: success.
class [[nodiscard]] Status : public Placed<Status> {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(explicit)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

inline Status OkStatus() { return Status(); }

// A value or an Error.
template <typename T>
class [[nodiscard]] Result : public Placed<Result<T>> {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(explicit)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(explicit)

  bool ok() const { return state_.index() == 0; }
  // Not for a Result<bool>, where a condition would test something else than the reader thinks.
  explicit operator bool() const requires(!std::is_same_v<T, bool>) { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  // Assigns to an existing variable:
  //   if (named) NXDKIT_TRY(ReadName(json).To(name));
  Status To(auto& out) && {
    if (!ok()) return std::move(error());
    out = std::move(value());
    return OkStatus();
  }

  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// Our own bugs only; aborts with file and line.
[[noreturn]] void CheckFailed(const char* file, int line, const char* what);

}  // namespace nxdkit

#define NXDKIT_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::nxdkit::CheckFailed(__FILE__, __LINE__, #condition))

// Propagate the error of a Status or Result expression.
#define NXDKIT_TRY(expression)                                          \
  do {                                                                  \
    auto nxdkit_status_ = (expression);                                 \
    if (!nxdkit_status_.ok()) return std::move(nxdkit_status_).error(); \
  } while (false)

#define NXDKIT_CONCAT_INNER_(a, b) a##b
#define NXDKIT_CONCAT_(a, b) NXDKIT_CONCAT_INNER_(a, b)
#define NXDKIT_ASSIGN_INNER_(result, declaration, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return std::move(result).error();         \
  declaration = std::move(result).value()

// NXDKIT_ASSIGN(File file, File::OpenRead(path));
#define NXDKIT_ASSIGN(declaration, ...) \
  NXDKIT_ASSIGN_INNER_(NXDKIT_CONCAT_(nxdkit_result_, __LINE__), declaration, (__VA_ARGS__))
