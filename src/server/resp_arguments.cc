#include "server/resp_arguments.h"

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/saturating.h"
#include "server/texts.h"

namespace weir::server {

namespace {

constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
constexpr std::string_view kSyntax = "ERR syntax error";

// Words that say what follows them. Each may be given once.
enum Option : unsigned { kNone = 0, kPermits = 1, kWait = 2, kReceipt = 4, kHolder = 8 };

Option option_called(std::string_view word) {
  if (is_word(word, "PERMITS")) return kPermits;
  if (is_word(word, "WAIT")) return kWait;
  if (is_word(word, "RECEIPT")) return kReceipt;
  return is_word(word, "HOLDER") ? kHolder : kNone;
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
class Reader {
 public:
  Reader(KeyCommand command, Arguments rest, Request& request, Asked& asked)
      : command_(command), rest_(rest), request_(request), asked_(asked) {}

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
        if (!done()) asked_.holder = next();
        return done() ? std::string_view{} : last(permits());
      case KeyCommand::leave:
        if (done()) return kNoHolder;
        asked_.holder = next();
        break;
      case KeyCommand::reset:
        break;
    }
    return last({});
  }

  std::string_view with_parts() {
    while (!done() && !is_word(rest_.front(), "PARTS")) {
      const std::string_view error = option(options_of(command_));
      if (!error.empty()) return error;
    }
    if (done()) return "ERR PARTS is missing: they come last, as PARTS name value …";
    if (command_ == KeyCommand::settle && (given_ & kPermits) == 0) return kNoDelta;
    if (command_ == KeyCommand::leave && (given_ & kHolder) == 0) return kNoHolder;
    (void)next();
    if (done() || rest_.size() % 2 != 0) return "ERR PARTS are pairs of a name and a value";
    while (!done()) {
      const std::string_view name = next();
      request_.parts.add({name, next()});
    }
    return {};
  }

 private:
  static constexpr std::string_view kNoDelta = "ERR how much to settle by is missing";
  static constexpr std::string_view kNoHolder = "ERR the holder is missing";

  bool done() const { return rest_.empty(); }
  std::string_view next() {
    const std::string_view first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }

  // What is wrong with what was read, or that more follows.
  std::string_view last(std::string_view error) const {
    return error.empty() && !done() ? kSyntax : error;
  }

  // Below zero gives back, which only a settle does.
  std::string_view permits() {
    const auto number = whole_number(next());
    if (!number) return kNotAnInteger;
    if (*number < 0 && command_ != KeyCommand::settle) return "ERR permits are not below zero";
    request_.permits = *number;
    return {};
  }

  // Behind a key, how many and who holds them are known by their place.
  std::string_view permits_and_options() {
    std::string_view error = permits();
    while (error.empty() && !done()) error = option(options_of(command_) & ~(kPermits | kHolder));
    return error;
  }

  std::string_view option(unsigned known) {
    const Option option = option_called(next());
    if ((option & known) == 0) return kSyntax;
    if ((option & given_) != 0) return "ERR an option is given twice";
    given_ |= option;
    const bool stands_alone = option == kReceipt && command_ == KeyCommand::take;
    if (stands_alone) {
      asked_.wants_receipt = true;
      return {};
    }
    if (done()) return kSyntax;
    if (option == kPermits) return permits();
    if (option == kWait) return wait();
    (option == kReceipt ? asked_.receipt : asked_.holder) = next();
    return {};
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
  unsigned given_ = kNone;  // options
};

// Whether the third argument starts the form with parts, or is a key that happens to look like it.
// Other options than PERMITS do if PARTS follows them, where a key's command would be wrong.
bool has_parts(KeyCommand command, Arguments arguments) {
  const std::size_t behind = arguments.size() - 3;
  if (behind < 2) return false;
  if (is_word(arguments[2], "PERMITS")) return true;
  std::size_t at = 2;
  while (at + 2 < arguments.size()) {
    if (is_word(arguments[at], "PARTS")) return true;
    const Option option = option_called(arguments[at]);
    if (option == kNone) return false;
    at += option == kReceipt && command == KeyCommand::take ? 1 : 2;
  }
  return false;
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
  return has_parts(command, arguments) ? reader.with_parts() : reader.with_key();
}

bool is_word(std::string_view given, std::string_view word) noexcept {
  if (given.size() != word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (upper(given[i]) != word[i]) return false;
  }
  return true;
}

}  // namespace weir::server
