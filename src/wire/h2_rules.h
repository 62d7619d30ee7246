#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::wire {

// Names of fields that HTTP/2 has rules about, or that are asked for with every request.
enum class H2Name : std::uint8_t {
  other,
  method,
  scheme,
  path,
  authority,
  unknown_pseudo,  // starts with a colon, and is none of the four
  host,
  te,
  of_http1,  // says something about a connection of HTTP/1
  content_length,
  content_type,
  authorization,
  cookie,
  expect,
};
H2Name h2_name_of(std::string_view name);

// Whether fields make a request (RFC 9113, 8.2 and 8.3), looked at one by one. What they would not
// let pass could be something else to whoever is told of it in the words of HTTP/1.
class H2Rules {
 public:
  // Of what is behind the body.
  static H2Rules of_trailers();

  // Whether the field may stand there. `checked`: its letters are known to be good.
  bool allow(H2Name known, std::string_view name, std::string_view value, bool checked);

  // Whether all there were make a request.
  bool make_request() const;

  // The declared length of the body.
  std::optional<std::uint64_t> length() const { return length_; }

 private:
  bool allow_once(H2Name known);
  bool allow_length(std::string_view digits);
  bool has(H2Name known) const { return (seen_ >> static_cast<unsigned>(known) & 1) != 0; }

  std::uint32_t seen_ = 0;  // a bit for each name
  bool of_trailers_ = false;
  bool pseudo_may_come_ = true;
  bool is_connect_ = false;
  bool path_is_absolute_ = false;
  bool path_is_star_ = false;
  bool is_options_ = false;
  bool is_http_ = false;  // the scheme
  std::optional<std::uint64_t> length_;
};

}  // namespace weir::wire
