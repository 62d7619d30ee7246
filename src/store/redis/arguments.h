#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "store/redis/scripts.h"
#include "store/redis/text.h"

namespace weir::store::redis {

// Arguments of a command, as they are sent. Keeps its buffer.
class Arguments {
 public:
  void clear() {
    bytes_.clear();
    count_ = 0;
  }

  Arguments& text(std::string_view text);
  Arguments& text(std::string_view text, std::string_view more);
  Arguments& number(std::int64_t number);
  Arguments& pair(const Pair& pair) { return number(pair.seconds).number(pair.sub); }

  std::size_t count() const { return count_; }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::size_t count_ = 0;
};

// The command that runs a script: by its name, or with its source after NOSCRIPT. At most 99 keys.
void append_eval(std::string& out, const Script& script, bool with_source, const Arguments& keys,
                 const Arguments& arguments);

}  // namespace weir::store::redis
