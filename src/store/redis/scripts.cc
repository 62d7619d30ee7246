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

// Where a script finds the time that a test gives.
constexpr std::string_view kGivenFirst = "local given = ARGV[1]\n";
constexpr std::string_view kGivenSecond = "local given = ARGV[2]\n";
constexpr std::string_view kGivenEighth = "local given = ARGV[8]\n";

constexpr std::size_t kAlgorithms = std::variant_size_v<core::Limit>;

std::string sha1_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    throw std::runtime_error("SHA-1, by which Redis calls scripts, is not to be had from OpenSSL");
  }
  static constexpr std::string_view hex = "0123456789abcdef";
  std::string name;
  for (unsigned int i = 0; i < size; ++i) name += {hex[digest[i] >> 4], hex[digest[i] & 15]};
  return name;
}

Script with_sha1(std::string source) {
  Script script{.source = std::move(source)};
  script.sha1 = sha1_of(script.source);
  return script;
}

Script general(Algorithms algorithms) {
  // In the order of the variant; windows and quotas are in one file.
  static const std::array<std::string_view, kAlgorithms> files = {
      lua::kBucket, lua::kNginx, lua::kSmooth,  lua::kWindow, lua::kSliding,
      lua::kWindow, lua::kLog,   lua::kHolders, lua::kCell};
  std::string source{kGivenFirst};
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

// The text for a limit, with its number in the place of each @ and its letter in that of each ~.
std::string for_limit(std::size_t number, char letter, std::string_view text) {
  std::string out;
  for (const char c : text) {
    c == '@' ? void(out += std::to_string(number)) : out.push_back(c == '~' ? letter : c);
  }
  return out;
}

// How struct.unpack reads what a limit is told, the names of that, and what is done with it.
struct TakePart {
  std::string_view format;
  std::string_view names;
  std::string text;
};
TakePart take_part(char letter) {
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
    const TakePart part = take_part(letters[i]);
    format += part.format;
    if (i > 0) names += ", ";
    add(names, part.names);
    add(decisions, part.text);
    add(charges, lua::kCharge);
    add(found, " .. '\\n' .. (text@ or '')");
  }
  std::string source{kGivenSecond};
  source.append(lua::kClock).append(lua::kTake);
  source += "local " + names + " = struct.unpack('" + format + "', ARGV[1])\n" + decisions;
  source += "if outcome == '1' then\n" + charges + "end\n";
  return source + "return outcome .. ' ' .. clock[1] .. ' ' .. clock[2]" + found + "\n";
}

}  // namespace

Script assemble(std::initializer_list<std::string_view> parts) {
  std::string source;
  for (const std::string_view part : parts) source += part;
  return with_sha1(std::move(source));
}

const Script& take_script(std::string_view letters) {
  static std::map<std::string, const Script, std::less<>> made;
  static std::mutex making;
  const std::lock_guard lock(making);
  const auto found = made.find(letters);
  if (found != made.end()) return found->second;
  return made.emplace(letters, with_sha1(take(letters))).first->second;
}

const Script& reset_script() {
  static const Script script = assemble({kGivenFirst, lua::kClock, lua::kReset});
  return script;
}

const Script& leave_script() {
  static const Script script = assemble({kGivenFirst, lua::kClock, lua::kLeave});
  return script;
}

const Script& membership_script() {
  static const Script script = assemble({kGivenEighth, lua::kClock, lua::kMembership});
  return script;
}

const Script& lend_script(std::size_t algorithm) {
  using namespace lua;
  static const Script bucket = assemble({kGivenFirst, kClock, kHead, kBucket, kLoanBucket, kLend});
  static const Script window = assemble({kGivenFirst, kClock, kHead, kWindow, kLoanWindow, kLend});
  static const Script sliding =
      assemble({kGivenFirst, kClock, kHead, kSliding, kLoanSliding, kLend});
  if (algorithm == core::Limit(core::Bucket{}).index()) return bucket;
  return algorithm == core::Limit(core::Sliding{}).index() ? sliding : window;
}

const Script& general_script(Algorithms algorithms) {
  static std::array<std::atomic<const Script*>, std::size_t{1} << kAlgorithms> made{};
  static std::array<std::unique_ptr<const Script>, std::size_t{1} << kAlgorithms> kept;
  static std::mutex making;
  std::atomic<const Script*>& place = made[algorithms];
  if (const Script* script = place.load(std::memory_order_acquire)) return *script;
  const std::lock_guard lock(making);
  if (kept[algorithms] == nullptr) {
    kept[algorithms] = std::make_unique<const Script>(general(algorithms));
    place.store(kept[algorithms].get(), std::memory_order_release);
  }
  return *kept[algorithms];
}

}  // namespace weir::store::redis
