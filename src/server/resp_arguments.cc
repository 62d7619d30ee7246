#include "server/resp_arguments.h"

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/saturating.h"
#include "server/format.h"

namespace weir::server {

namespace {

constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
constexpr std::string_view kSyntax = "ERR syntax error";

// Options of commands, as bits. Each may be given once.
enum KeyOption : unsigned { kNone = 0, kPermits = 1, kWait = 2, kReceipt = 4, kHolder = 8 };

KeyOption option_named(std::string_view word) {
  if (is_keyword(word, "PERMITS")) return kPermits;
  if (is_keyword(word, "WAIT")) return kWait;
  if (is_keyword(word, "RECEIPT")) return kReceipt;
  return is_keyword(word, "HOLDER") ? kHolder : kNone;
}

unsigned options_of(KeyCommand command) {
  switch (command) {
    case KeyCommand::take:
      return kPermits | kWait | kReceipt;
    case KeyCommand::settle:
      return kPermits | kReceipt;
    case KeyCommand::peek:
    case KeyCommand::explain:
      return kPermits;
    case KeyCommand::enter:
      return kPermits | kHolder;
    case KeyCommand::leave:
      return kHolder;
    case KeyCommand::reset:
      break;
  }
  return kNone;
}

// Reads arguments from left to right.
class ArgumentReader {
 public:
  ArgumentReader(KeyCommand command, RespArguments rest, Request& request, CommandOptions& options)
      : command_(command), rest_(rest), request_(request), options_(options) {}

  std::string_view with_key() {
    request_.key = next();
    switch (command_) {
      case KeyCommand::take:
        return done() ? std::string_view{} : permits_and_options();
      case KeyCommand::peek:
      case KeyCommand::explain:
        return done() ? std::string_view{} : last(permits());
      case KeyCommand::settle:
        return done() ? kNoDelta : permits_and_options();
      case KeyCommand::enter:
        if (!done()) options_.holder = next();
        return done() ? std::string_view{} : last(permits());
      case KeyCommand::leave:
        if (done()) return kNoHolder;
        options_.holder = next();
        break;
      case KeyCommand::reset:
        break;
    }
    return last({});
  }

  std::string_view with_parts() {
    while (!done() && !is_keyword(rest_.front(), "PARTS")) {
      const std::string_view error = option(options_of(command_));
      if (!error.empty()) return error;
    }
    if (done()) return "ERR PARTS is missing: it comes last, as PARTS name value …";
    if (command_ == KeyCommand::settle && (given_ & kPermits) == 0) return kNoDelta;
    if (command_ == KeyCommand::leave && (given_ & kHolder) == 0) return kNoHolder;
    (void)next();
    if (done() || rest_.size() % 2 != 0) return "ERR PARTS needs pairs of a name and a value";
    while (!done()) {
      const std::string_view name = next();
      request_.parts.add({name, next()});
    }
    return {};
  }

 private:
  static constexpr std::string_view kNoDelta = "ERR the number of permits to settle is missing";
  static constexpr std::string_view kNoHolder = "ERR the holder is missing";

  bool done() const { return rest_.empty(); }
  std::string_view next() {
    const std::string_view first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }

  // The error of the last argument, or the one for further arguments.
  std::string_view last(std::string_view error) const {
    return error.empty() && !done() ? kSyntax : error;
  }

  // Only a settle takes a negative number: it gives back.
  std::string_view permits() {
    const auto number = whole_number(next());
    if (!number) return kNotAnInteger;
    if (*number < 0 && command_ != KeyCommand::settle) return "ERR permits must not be negative";
    request_.permits = *number;
    return {};
  }

  // In the form with a key, permits and holder are positional, so they are no options there.
  std::string_view permits_and_options() {
    std::string_view error = permits();
    while (error.empty() && !done()) error = option(options_of(command_) & ~(kPermits | kHolder));
    return error;
  }

  std::string_view option(unsigned known) {
    const KeyOption option = option_named(next());
    if ((option & known) == 0) return kSyntax;
    if ((option & given_) != 0) return "ERR an option is given twice";
    given_ |= option;
    const bool has_no_value = option == kReceipt && command_ == KeyCommand::take;
    if (has_no_value) {
      options_.wants_receipt = true;
      return {};
    }
    if (done()) return kSyntax;
    if (option == kPermits) return permits();
    if (option == kWait) return wait();
    (option == kReceipt ? options_.receipt : options_.holder) = next();
    return {};
  }

  std::string_view wait() {
    const auto number = whole_number(next());
    if (!number || *number < 0) return kNotAnInteger;
    request_.max_wait = Nanos{to_int64(Int128{*number} * 1'000'000)};
    return {};
  }

  const KeyCommand command_;
  RespArguments rest_;
  Request& request_;
  CommandOptions& options_;
  unsigned given_ = kNone;  // options so far
};

// Tells the form with parts from a key that looks like an option. PERMITS starts the form with
// parts; another option does if PARTS follows, which would be a syntax error in the form with a
// key.
bool has_parts(KeyCommand command, RespArguments arguments) {
  const std::size_t behind = arguments.size() - 3;
  if (behind < 2) return false;
  if (is_keyword(arguments[2], "PERMITS")) return true;
  std::size_t at = 2;
  while (at + 2 < arguments.size()) {
    if (is_keyword(arguments[at], "PARTS")) return true;
    const KeyOption option = option_named(arguments[at]);
    if (option == kNone) return false;
    at += option == kReceipt && command == KeyCommand::take ? 1 : 2;
  }
  return false;
}

}  // namespace

std::string_view read_arguments(KeyCommand command, RespArguments arguments, Request& request,
                                CommandOptions& options) {
  request.policy = arguments[1];
  request.key = {};
  if (!request.parts.empty()) request.parts = {};
  request.permits = 1;
  request.max_wait.reset();
  ArgumentReader reader(command, arguments.subspan(2), request, options);
  return has_parts(command, arguments) ? reader.with_parts() : reader.with_key();
}

bool is_keyword(std::string_view word, std::string_view keyword) noexcept {
  if (word.size() != keyword.size()) return false;
  for (std::size_t i = 0; i < keyword.size(); ++i) {
    if (upper(word[i]) != keyword[i]) return false;
  }
  return true;
}

}  // namespace weir::server
