#include "store/redis/scripts.h"

#include <openssl/evp.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "core/limit.h"
#include "store/redis/lua_sources.h"

namespace weir::store::redis {

namespace {

// The argument in which a script gets a test's time.
constexpr std::string_view kTimeInFirst = "local given = ARGV[1]\n";
constexpr std::string_view kTimeInSecond = "local given = ARGV[2]\n";
constexpr std::string_view kTimeInEighth = "local given = ARGV[8]\n";

constexpr std::size_t kAlgorithms = std::variant_size_v<core::Limit>;

std::string sha1_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL does not provide SHA-1, which identifies scripts in Redis");
  }
  static constexpr std::string_view hex = "0123456789abcdef";
  std::string name;
  for (unsigned int i = 0; i < size; ++i) name += {hex[digest[i] >> 4], hex[digest[i] & 15]};
  return name;
}

LuaScript with_sha1(std::string source) {
  LuaScript script{.source = std::move(source)};
  script.sha1 = sha1_of(script.source);
  return script;
}

LuaScript general(AlgorithmSet algorithms) {
  // In the order of core::Limit's alternatives; windows and quotas share a file.
  static const std::array<std::string_view, kAlgorithms> files = {
      lua::kBucket, lua::kNginx, lua::kSmooth,  lua::kWindow, lua::kSliding,
      lua::kWindow, lua::kLog,   lua::kHolders, lua::kCell};
  std::string source{kTimeInFirst};
  source += lua::kClock;
  source += lua::kHead;
  bool has_windows = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool is_window = files[i].data() == lua::kWindow.data();
    if ((algorithms >> i & 1) == 0 || (is_window && has_windows)) continue;
    has_windows = has_windows || is_window;
    source += files[i];
  }
  source += lua::kMain;
  return with_sha1(std::move(source));
}

// Instantiates a template for a limit: replaces each @ by its number and each ~ by its letter.
std::string for_limit(std::size_t number, char letter, std::string_view text) {
  std::string out;
  for (const char c : text) {
    c == '@' ? void(out += std::to_string(number)) : out.push_back(c == '~' ? letter : c);
  }
  return out;
}

// One limit of a take script: the struct.unpack format of its parameters, their names, and its
// code.
struct LimitTemplate {
  std::string_view format;
  std::string_view names;
  std::string code;
};
LimitTemplate limit_template(char letter) {
  using namespace lua;
  const auto window = [](std::string_view span) {
    return std::string(kTakeWindow).append(span).append(kCountWindow);
  };
  if (letter == 'b') {
    return {"dddds", "parts@, cost@, most@, since@, rate@", std::string(kTakeBucket)};
  }
  if (letter == 'w') return {"ddd", "period@, cost@, room@", window(kAlignedWindow)};
  return {"dddddd", "start@, second@, third@, fourth@, cost@, room@", window(kListedWindow)};
}

std::string take(std::string_view letters) {
  std::string format = "<";
  std::string names;
  std::string decisions;
  std::string charges;
  std::string found;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const auto add = [number = i + 1, letter = letters[i]](std::string& to, std::string_view text) {
      to += for_limit(number, letter, text);
    };
    const LimitTemplate limit = limit_template(letters[i]);
    format += limit.format;
    if (i > 0) names += ", ";
    add(names, limit.names);
    add(decisions, limit.code);
    add(charges, lua::kCharge);
    add(found, " .. '\\n' .. (text@ or '')");
  }
  std::string source{kTimeInSecond};
  source.append(lua::kClock).append(lua::kTake);
  source += "local " + names + " = struct.unpack('" + format + "', ARGV[1])\n" + decisions;
  source += "if outcome == '1' then\n" + charges + "end\n";
  return source + "return outcome .. ' ' .. clock[1] .. ' ' .. clock[2]" + found + "\n";
}

}  // namespace

LuaScript assemble(std::initializer_list<std::string_view> parts) {
  std::string source;
  for (const std::string_view part : parts) source += part;
  return with_sha1(std::move(source));
}

const LuaScript& take_script(std::string_view letters) {
  static std::map<std::string, const LuaScript, std::less<>> scripts;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto found = scripts.find(letters);
  if (found != scripts.end()) return found->second;
  return scripts.emplace(letters, with_sha1(take(letters))).first->second;
}

const LuaScript& reset_script() {
  static const LuaScript script = assemble({kTimeInFirst, lua::kClock, lua::kReset});
  return script;
}

const LuaScript& leave_script() {
  static const LuaScript script = assemble({kTimeInFirst, lua::kClock, lua::kLeave});
  return script;
}

const LuaScript& membership_script() {
  static const LuaScript script = assemble({kTimeInEighth, lua::kClock, lua::kMembership});
  return script;
}

const LuaScript& lease_script(std::size_t algorithm) {
  using namespace lua;
  static const LuaScript bucket =
      assemble({kTimeInFirst, kClock, kHead, kBucket, kLeaseBucket, kLease});
  static const LuaScript window =
      assemble({kTimeInFirst, kClock, kHead, kWindow, kLeaseWindow, kLease});
  static const LuaScript sliding =
      assemble({kTimeInFirst, kClock, kHead, kSliding, kLeaseSliding, kLease});
  if (algorithm == core::Limit(core::Bucket{}).index()) return bucket;
  return algorithm == core::Limit(core::SlidingCounter{}).index() ? sliding : window;
}

const LuaScript& general_script(AlgorithmSet algorithms) {
  static std::array<std::atomic<const LuaScript*>, std::size_t{1} << kAlgorithms> scripts{};
  static std::array<std::unique_ptr<const LuaScript>, std::size_t{1} << kAlgorithms> owned;
  static std::mutex mutex;
  std::atomic<const LuaScript*>& slot = scripts[algorithms];
  if (const LuaScript* script = slot.load(std::memory_order_acquire)) return *script;
  const std::lock_guard lock(mutex);
  if (owned[algorithms] == nullptr) {
    owned[algorithms] = std::make_unique<const LuaScript>(general(algorithms));
    slot.store(owned[algorithms].get(), std::memory_order_release);
  }
  return *owned[algorithms];
}

}  // namespace weir::store::redis
