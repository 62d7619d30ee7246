#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/arguments.h"
#include "store/redis/clockwork.h"
#include "store/redis/scripts.h"
#include "store/shared.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// One question from the first words to the answer. To be used again for the next one: it keeps its
// buffers, so that a question about buckets allocates nothing. Not thread-safe.
//
// The script decides and writes, and replies with the server's time and what it found. From that
// the core decides again: that is the answer, with all its times and receipts, and if it is another
// one than the script's, that is told as an error. What the script cannot know it asks for
// ("again"): what a debt at another price is worth, where in a calendar the server's time lies.
class Conversation {
 public:
  // The question, and what it borrows, must live until it is answered.
  void start(const SharedQuestion& question, const Clockwork& known);

  // The command to send: by the script's name, or with its source after NOSCRIPT.
  void append_command(std::string& out, bool with_source) const;

  enum class Next { answered, again };
  // What the reply means: an answer, or that the command, which has changed, has to be sent again.
  Next on_reply(std::span<const wire::RespValue> reply, SharedAnswer& answer);

 private:
  // What was learnt of an item in an earlier round.
  struct Learnt {
    std::string found{};    // if this is still what is there …
    std::string instead{};  // … it is to be taken for this, or exchanged for it
    std::int64_t rest_at = 0;
    bool exchanges = false;
    Instant around{};  // where in the calendar the question lies
  };
  struct Found;
  // What the script for most takes is told about a limit: numbers that are exact as doubles.
  struct Narrow {
    char letter = 'b';
    std::uint64_t stamp = 0;  // of a bucket
    std::uint8_t count = 0;   // of the numbers
    std::array<std::int64_t, 6> numbers{};
    friend bool operator==(const Narrow&, const Narrow&) = default;
  };

  void carry_over_receipt(std::size_t i);
  void write_command();
  bool is_narrow();
  std::optional<Narrow> narrow(std::size_t i) const;
  void write_narrow();
  void write_item(std::size_t i);
  void write_look(std::size_t i);
  void write_debit(std::size_t i);
  void write_refund(std::size_t i);
  void write_last_refund(std::size_t i);
  void write_untouched(std::size_t i);
  void write_record(std::size_t i);
  void write_terms(const core::Limit& limit, const core::Ask& ask, std::size_t i);
  void write_clock();
  void write_seat(std::size_t i);
  void write_start(std::size_t i);
  std::string_view text_of(const core::Limit& limit, const Remembered& remembered);
  Permits back_of(std::size_t i) const;

  Next learn(std::span<const wire::RespValue> reply, Instant now, SharedAnswer& answer);
  void learn_refund(std::size_t i, std::string_view text);
  void learn_exchange(std::size_t i, Remembered was, std::string_view text, Instant now);
  bool read_found(std::span<const wire::RespValue> reply, Found& found) const;
  void settle(Found& found, SharedAnswer& answer) const;
  void answer_take(Found& found, bool admitted, SharedAnswer& answer) const;
  const SharedItem& item(std::size_t i) const { return question_.items[i]; }

  SharedQuestion question_{};
  const Script* script_ = nullptr;
  int round_ = 0;
  std::uint64_t test_birth_ = 0;  // of keys that are made at a time that a test gives
  Instant test_time_{};           // which it is, as exactly as the limits can tell
  std::array<Learnt, core::kMaxLimits> learnt_{};
  Arguments keys_{};
  Arguments arguments_{};
  std::vector<Narrow> narrow_{};  // of the question
  std::vector<Narrow> said_{};    // what the arguments are about, if that is all they are about
  std::string scratch_{};
};

}  // namespace weir::store::redis
