#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/command_arguments.h"
#include "store/redis/script_time.h"
#include "store/redis/scripts.h"
#include "store/shared_store.h"
#include "wire/resp_reply.h"

namespace weir::store::redis {

// Encodes one store request as a call of a Lua script, and decodes the replies to a response. Used
// for one request after the other: it keeps its buffers, so a request about buckets allocates
// nothing. Not thread-safe.
//
// The script decides and writes, and replies with the server's time and the values it found. The
// core decides again on these values. Its decision is the response, with all times and receipts; if
// the script decided otherwise, the response is an error. When the script lacks knowledge, it
// replies "again" and the command is sent once more with it: a debt converted to another price, or
// other periods of a calendar.
class LimitScript {
 public:
  // The request, and everything it borrows, must live until its response.
  void start(const StoreRequest& request, const ScriptTime& server_time);

  // Appends EVALSHA, or EVAL with the script's source after NOSCRIPT.
  void append_command(std::string& out, bool with_source) const;

  enum class ReplyResult { answered, again };
  // `answered`: the response is complete. `again`: the command has changed, and has to be sent
  // again.
  ReplyResult on_reply(std::span<const wire::RespValue> reply, StoreResponse& response);

 private:
  // Knowledge about an item from the reply of an earlier round.
  struct ItemHint {
    std::string expected{};     // if the key still has this text …
    std::string replacement{};  // … the script uses this one instead, or writes it
    std::int64_t rest_at = 0;
    bool exchanges = false;   // a refund at another price: write the replacement
    Instant calendar_time{};  // chooses the calendar's periods that the script gets
  };
  struct FoundValues;
  // A limit as the take script gets it, packed in one argument: numbers that are exact as doubles.
  struct PackedLimit {
    char letter = 'b';
    std::uint64_t stamp = 0;  // of a bucket
    std::uint8_t count = 0;   // number of `numbers` in use
    std::array<std::int64_t, 6> numbers{};
    friend bool operator==(const PackedLimit&, const PackedLimit&) = default;
  };

  void carry_over_receipt(std::size_t i);
  void write_command();
  bool pack_limits();
  std::optional<PackedLimit> pack(std::size_t i) const;
  void write_packed();
  void write_item(std::size_t i);
  void write_look(std::size_t i);
  void write_debit(std::size_t i);
  void write_refund(std::size_t i);
  void write_last_refund(std::size_t i);
  void write_untouched(std::size_t i);
  void write_record(std::size_t i);
  void write_terms(const core::Limit& limit, const core::Ask& ask, std::size_t i);
  void write_clock();
  void write_lease_end(std::size_t i);
  void write_start(std::size_t i);
  std::string_view text_of(const core::Limit& limit, const StoredState& remembered);
  Permits refund_of(std::size_t i) const;

  ReplyResult prepare_next_round(std::span<const wire::RespValue> reply, Instant now,
                                 StoreResponse& response);
  void note_last_refund(std::size_t i, std::string_view text);
  void prepare_exchange(std::size_t i, StoredState stored, std::string_view text, Instant now);
  bool read_found(std::span<const wire::RespValue> reply, FoundValues& found) const;
  void answer_settle(FoundValues& found, StoreResponse& response) const;
  void answer_take(FoundValues& found, bool admitted, StoreResponse& response) const;
  const StoreItem& item(std::size_t i) const { return request_.items[i]; }

  StoreRequest request_{};
  const LuaScript* script_ = nullptr;
  int round_ = 0;
  std::uint64_t test_birth_ = 0;  // birth of keys that a test creates
  Instant test_time_{};           // a test's time, rounded to what the limits count
  std::array<ItemHint, core::kMaxLimits> hints_{};
  CommandArguments keys_{};
  CommandArguments arguments_{};
  std::vector<PackedLimit> packed_{};  // of this request
  std::vector<PackedLimit>
      packed_arguments_{};  // that arguments_ encodes, if it encodes nothing else
  std::string scratch_{};
};

}  // namespace weir::store::redis
