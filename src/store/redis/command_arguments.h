#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/redis/scripts.h"
#include "store/redis/state_text.h"

namespace weir::store::redis {

// The arguments of a command, as RESP bulk strings. Keeps its buffer when cleared.
class CommandArguments {
 public:
  void clear() {
    bytes_.clear();
    count_ = 0;
  }

  CommandArguments& text(std::string_view text);
  // One argument: `text` followed by `suffix`.
  CommandArguments& text(std::string_view text, std::string_view suffix);
  CommandArguments& number(std::int64_t number);
  CommandArguments& pair(const SecondsAndParts& pair) {
    return number(pair.seconds).number(pair.sub);
  }

  std::size_t count() const { return count_; }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::size_t count_ = 0;
};

// Appends the command that runs a script: EVALSHA, or EVAL with the source after NOSCRIPT. At most
// 99 keys.
void append_eval(std::string& out, const LuaScript& script, bool with_source,
                 const CommandArguments& keys, const CommandArguments& arguments);

}  // namespace weir::store::redis
