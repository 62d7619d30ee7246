#include "gateway/path_readings.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/ascii.h"
#include "wire/http1_text.h"

namespace weir::gateway {

namespace {

constexpr int kMaxDecodings = 2;
// Bound the work for one path. Legitimate paths have a handful of readings.
constexpr std::size_t kMaxReadings = 48;
constexpr std::size_t kMaxBytes = 128 << 10;

constexpr wire::CharSet kPlain{"-._~"};  // unreserved: the same with and without an escape
// Characters that servers treat differently when they are escaped.
constexpr std::string_view kDisputed = "/\\;?#%";

bool is_control_byte(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// The character of an escape at the front of `text`, if there is a valid one.
std::optional<char> escaped_at_front(std::string_view text) {
  if (text.size() < 3 || text[0] != '%') return std::nullopt;
  const int high = hex_value(text[1]);
  const int low = hex_value(text[2]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

bool is_read_alike_by_all(std::string_view sent) {
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const char c = sent[i];
    const char next = i + 1 < sent.size() ? sent[i + 1] : ' ';
    if (c == ';' || c == '\\' || is_control_byte(c)) return false;
    if (c == '/' && (next == '/' || next == '.')) return false;
    if (c != '%') continue;
    const auto escaped = escaped_at_front(sent.substr(i));
    if (!escaped || is_control_byte(*escaped) || kPlain.has(*escaped) ||
        kDisputed.find(*escaped) != std::string_view::npos) {
      return false;
    }
    i += 2;
  }
  return true;
}

bool must_be_refused(std::string_view text) {
  if (std::ranges::any_of(text, is_control_byte)) return true;
  while (!text.empty()) {
    const std::string_view segment = text.substr(0, text.find('/'));
    if (segment == "." || segment == "..") return true;
    text.remove_prefix(std::min(segment.size() + 1, text.size()));
  }
  return false;
}

// ---- Steps that servers apply to a path. Each returns the path after one step.

struct Decoding {
  bool slashes = true;  // decodes %2F and %5C
  bool plain = true;    // decodes unreserved characters (%61)
};

std::string decoded(std::string_view text, Decoding decoding) {
  std::string out;
  while (!text.empty()) {
    const auto escaped = escaped_at_front(text);
    const bool is_slash = escaped && (*escaped == '/' || *escaped == '\\');
    const bool stays =
        escaped && ((is_slash && !decoding.slashes) || (kPlain.has(*escaped) && !decoding.plain));
    const std::size_t size = escaped ? 3 : 1;
    if (stays) {
      for (const char c : text.substr(0, size)) out += upper(c);
    } else {
      out += escaped.value_or(text[0]);
    }
    text.remove_prefix(size);
  }
  return out;
}

std::string without_parameters(std::string_view text) {
  std::string out;
  bool in_parameter = false;
  for (const char c : text) {
    if (c == ';') in_parameter = true;
    if (c == '/') in_parameter = false;
    if (!in_parameter) out += c;
  }
  return out;
}

std::string with_slashes_for_backslashes(std::string_view text) {
  std::string out{text};
  std::ranges::replace(out, '\\', '/');
  return out;
}

std::string with_single_slashes(std::string_view text) {
  std::string out{text};
  const auto both_are_slashes = [](char a, char b) { return a == '/' && b == '/'; };
  out.erase(std::unique(out.begin(), out.end(), both_are_slashes), out.end());
  return out;
}

std::string up_to_query(std::string_view text) {
  return std::string{text.substr(0, text.find_first_of("?#"))};
}

// ---- All readings

// Applies every step to every reading until no new reading appears (fixed point).
class Readings {
 public:
  // False if the request must be refused.
  bool find(std::string_view sent) {
    if (!add(std::string{sent}, 0)) return false;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!take_steps(i)) return false;
    }
    return true;
  }

  // Only decoded paths: no server matches a path before it decodes it.
  std::vector<std::string> take_decoded() {
    std::vector<std::string> texts;
    for (Reading& reading : all_) {
      if (reading.decodings > 0) texts.push_back(std::move(reading.text));
    }
    return texts;
  }

 private:
  struct Reading {
    std::string text;
    int decodings = 0;
  };

  bool take_steps(std::size_t position) {
    constexpr std::array steps{without_parameters, with_slashes_for_backslashes,
                               with_single_slashes};
    constexpr std::array decodings{Decoding{}, Decoding{.slashes = false}, Decoding{.plain = false},
                                   Decoding{.slashes = false, .plain = false}};
    const Reading reading = all_[position];
    for (const auto& step : steps) {
      if (!add(step(reading.text), reading.decodings)) return false;
    }
    if (reading.decodings > 0 && !add(up_to_query(reading.text), reading.decodings)) return false;
    if (reading.decodings == kMaxDecodings) return true;
    for (const Decoding decoding : decodings) {
      if (!add(decoded(reading.text, decoding), reading.decodings + 1)) return false;
    }
    return true;
  }

  // (A reading with fewer decodings yields at least the same readings: the new one is redundant.)
  bool add(std::string text, int decodings) {
    const bool known = std::ranges::any_of(all_, [&](const Reading& reading) {
      const bool leads_as_far =
          reading.decodings <= decodings && (reading.decodings > 0 || decodings == 0);
      return leads_as_far && reading.text == text;
    });
    if (known) return true;
    bytes_ += text.size();
    if (all_.size() == kMaxReadings || bytes_ > kMaxBytes || must_be_refused(text)) return false;
    all_.push_back({std::move(text), decodings});
    return true;
  }

  std::vector<Reading> all_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::optional<std::vector<std::string>> other_readings(std::string_view sent) {
  if (is_read_alike_by_all(sent)) return std::vector<std::string>{};
  Readings readings;
  if (!readings.find(sent)) return std::nullopt;
  return readings.take_decoded();
}

}  // namespace weir::gateway
