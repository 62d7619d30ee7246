#include "server/resp_arguments.h"

#include <fmt/format.h>

#include "base/saturating.h"
#include "server/texts.h"

namespace weir::server {

namespace {

constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
constexpr std::string_view kSyntax = "ERR syntax error";

// Reads arguments from left to right.
class Reader {
 public:
  Reader(KeyCommand command, Arguments rest, Request& request, Asked& asked)
      : command_(command), rest_(rest), request_(request), asked_(asked) {}

  std::string_view with_key() {
    request_.key = next();
    switch (command_) {
      case KeyCommand::take:
        if (!done() && !permits()) return kNotAnInteger;
        return options();
      case KeyCommand::peek:
      case KeyCommand::explain:
        if (!done() && !permits()) return kNotAnInteger;
        break;
      case KeyCommand::settle:
        if (done()) return "ERR how much to settle by is missing";
        if (!permits()) return kNotAnInteger;
        return options();
      case KeyCommand::enter:
        if (!done()) asked_.holder = next();
        if (!done() && !permits()) return kNotAnInteger;
        break;
      case KeyCommand::leave:
        if (done()) return "ERR the holder is missing";
        asked_.holder = next();
        break;
      case KeyCommand::reset:
        break;
    }
    return done() ? std::string_view{} : kSyntax;
  }

  std::string_view with_parts() {
    while (!done() && !is_word(rest_.front(), "PARTS")) {
      if (const std::string_view error = option(); !error.empty()) return error;
    }
    if (done()) return "ERR PARTS is missing: they come last, as PARTS name value …";
    (void)next();
    if (done() || rest_.size() % 2 != 0) return "ERR PARTS are pairs of a name and a value";
    while (!done()) {
      const std::string_view name = next();
      request_.parts.add({name, next()});
    }
    return {};
  }

 private:
  bool done() const { return rest_.empty(); }
  std::string_view next() {
    const std::string_view first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }

  bool permits() {
    const auto number = whole_number(next());
    if (number) request_.permits = *number;
    return number.has_value();
  }

  std::string_view options() {
    while (!done()) {
      if (const std::string_view error = option(); !error.empty()) return error;
    }
    return {};
  }

  std::string_view option() {
    const std::string_view word = next();
    if (is_word(word, "RECEIPT") && command_ == KeyCommand::take) {
      asked_.wants_receipt = true;
      return {};
    }
    if (done()) return kSyntax;
    if (is_word(word, "PERMITS") && request_.key.empty()) {
      return permits() ? std::string_view{} : kNotAnInteger;
    }
    if (is_word(word, "WAIT") && command_ == KeyCommand::take) return wait();
    if (is_word(word, "RECEIPT") && command_ == KeyCommand::settle) {
      asked_.receipt = next();
      return {};
    }
    const bool has_holder = command_ == KeyCommand::enter || command_ == KeyCommand::leave;
    if (is_word(word, "HOLDER") && has_holder && request_.key.empty()) {
      asked_.holder = next();
      return {};
    }
    return kSyntax;
  }

  std::string_view wait() {
    const auto number = whole_number(next());
    if (!number || *number < 0) return kNotAnInteger;
    request_.max_wait = Nanos{to_int64(Int128{*number} * 1'000'000)};
    return {};
  }

  const KeyCommand command_;
  Arguments rest_;
  Request& request_;
  Asked& asked_;
};

// Whether the third argument starts the form with parts, or is a key that happens to look like it.
bool has_parts(Arguments arguments) {
  const std::size_t behind = arguments.size() - 3;
  if (behind < 2) return false;
  if (is_word(arguments[2], "PARTS") || is_word(arguments[2], "PERMITS")) return true;
  return is_word(arguments[2], "HOLDER") && behind >= 4 && is_word(arguments[4], "PARTS");
}

}  // namespace

std::string_view read_arguments(KeyCommand command, Arguments arguments, Request& request,
                                Asked& asked) {
  request.policy = arguments[1];
  request.key = {};
  if (!request.parts.empty()) request.parts = {};
  request.permits = 1;
  request.max_wait.reset();
  Reader reader(command, arguments.subspan(2), request, asked);
  return has_parts(arguments) ? reader.with_parts() : reader.with_key();
}

bool is_word(std::string_view given, std::string_view word) noexcept {
  if (given.size() != word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = given[i];
    if ((c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c) != word[i]) return false;
  }
  return true;
}

}  // namespace weir::server
