#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/h2_frames.h"
#include "wire/http1.h"

// (The library's header stays in the source.)
struct nghttp2_session;

namespace weir::wire {

// What one peer may have at a time.
struct H2Limits {
  std::uint32_t streams = 256;    // requests under way; above: refused
  std::size_t header = 16 << 10;  // as HTTP/2 counts it, 32 bytes more for each field; above: 431
  std::size_t fields = 100;       // how many; above: 431
  std::size_t body = 1 << 20;     // of one request; above: 413
  std::size_t window = 0;         // of one that is not taken yet, if it is in parts; 0: all of it
  std::size_t dropped = 4 << 20;  // of a body that nobody wants; above: the stream ends
  std::size_t bodies = 2 << 20;   // of all that are not whole yet: the connection's window
  std::size_t unsent = 4 << 20;   // of answers that are not taken; above: the connection ends
};

// A field of an answer; the name in lower case.
struct H2Field {
  std::string_view name;
  std::string_view value;
  bool lasting = true;  // the texts outlive the stream: they need not be copied
};

class H2Machine;
struct H2Callbacks;

// Something of whoever answers, that lives as long as the stream.
class H2Guest {
 public:
  virtual ~H2Guest() = default;
};

// A request, and what has been made of its answer. Its address stays the same while it is open.
class H2Stream {
 public:
  std::int32_t id() const { return id_; }
  // Borrows from the stream; without its body until that is whole.
  const HttpRequest& request() const { return request_; }
  // What is wrong with it, as a status of HTTP; 0: nothing.
  int flaw() const { return flaw_; }
  std::string_view reason() const { return reason_; }

  // Of a request that is taken in parts: what has come, for the taker to erase. The peer may send
  // as much more as was erased (H2Machine::took).
  std::string& parts() { return body_; }
  // Whether nothing more will come.
  bool is_whole() const { return whole_; }
  // What its body is said to be, if that is said.
  std::optional<std::uint64_t> length() const { return length_; }
  // Of a request that is taken in parts: what came behind its body, as lines of HTTP/1.
  const std::string& request_trailers() const { return request_trailers_; }
  // Whether the peer waits to be told to send the body. Who takes parts does that (100).
  bool expects_continue() const { return noted_.expects_continue && !whole_; }
  // Whether an answer has begun.
  bool is_answered() const { return started_; }
  // Of the answer, what is not sent.
  std::size_t unsent() const { return counted_ - sent_; }

  // Where the body of the answer is written to.
  std::string answer;
  std::unique_ptr<H2Guest> guest;

 private:
  friend class H2Machine;
  friend struct H2Callbacks;

  void clear();

  using Place = HttpFields::Place;
  // Of the fields that are asked for most.
  struct Noted {
    Place method, path, authority, host, content_type, authorization, length;
    bool has_authority = false, has_host = false, expects_continue = false;
    int cookies = 0;
  };

  std::int32_t id_ = 0;
  std::size_t at_ = 0;  // its place in the machine's list
  HttpRequest request_;
  int flaw_ = 0;
  std::string_view reason_;

  // What comes.
  std::string text_;  // of the header
  std::vector<HttpFields::Places> places_;
  Noted noted_;
  std::size_t header_size_ = 0;
  std::optional<std::uint64_t> length_;
  std::string request_trailers_;
  std::string body_;
  std::size_t dropped_ = 0;  // bytes of it that were not wanted
  std::size_t held_ = 0;     // bytes of windows that the body is in
  bool in_parts_ = false;    // the handler sees it as it comes
  bool whole_ = false;
  bool told_ = false;   // the handler has seen it
  bool waits_ = false;  // for the rest of it, or for an answer
  bool taken_back_ = false;

  // What goes.
  bool started_ = false;
  bool finished_ = false;    // nothing more will be added
  bool resting_ = false;     // all of it is sent, and more is to come
  std::size_t sent_ = 0;     // of the answer
  std::size_t counted_ = 0;  // of it, as to be sent
  std::string trailer_text_;
  std::vector<H2Field> trailers_;
};

// Who answers.
class H2Handler {
 public:
  virtual ~H2Handler() = default;

  // Whether a request is to be shown as it comes, whose header is whole.
  virtual bool takes_parts(const H2Stream& stream) = 0;
  // A request is whole, or something is wrong with it; or, of one that is taken in parts, the
  // header is, or more has come. May answer it at once, or later, unless it is gone.
  virtual void on_request(H2Stream& stream) = 0;
  // The stream has ended, answered or not.
  virtual void on_gone(H2Stream& stream) = 0;
};

// The server's side of an HTTP/2 connection: bytes in, requests out; answers in, bytes out.
// Without I/O. Not thread-safe.
//
// nghttp2 knows the protocol; what a stranger can make it and us do and keep is limited here:
// fields, bodies, streams, answers that are not taken, and frames that cost the peer nothing (see
// h2_frames.h). Answers can be given in any order.
class H2Machine {
 public:
  explicit H2Machine(H2Handler& handler, const H2Limits& limits = {});
  ~H2Machine();
  H2Machine(const H2Machine&) = delete;
  H2Machine& operator=(const H2Machine&) = delete;

  // Uses up all of the input. `now` is in seconds, of any clock that does not go back.
  void receive(std::string_view input, std::int64_t now);
  // Appends what is to be sent, and stops when there is `enough` in `out`.
  void send(std::string& out, std::size_t enough);

  // Some of the parts were erased, while the handler was not told of them.
  void took(H2Stream& stream);

  // Something before the answer. `fields` start with ":status", which is 1xx.
  void hint(H2Stream& stream, std::span<const H2Field> fields);
  // An answer without a body. `fields` start with ":status".
  void respond(H2Stream& stream, std::span<const H2Field> fields);
  // The beginning of one whose body is in `stream.answer`, or will be.
  void start(H2Stream& stream, std::span<const H2Field> fields);
  // There is more in `stream.answer`.
  void go_on(H2Stream& stream);
  // There will be no more.
  void finish(H2Stream& stream, std::span<const H2Field> trailers = {});
  // Takes the stream away from the peer.
  void reset(H2Stream& stream, std::uint32_t error = kCancel);
  // The one of that number, or null if it has ended.
  H2Stream* find(std::int32_t id) const;

  // A request whose stream has ended is still being worked on, or no longer. Counts as a stream
  // while it is: whoever gives up its requests cannot have more of them that way.
  void note_orphan() { ++orphans_; }
  void forget_orphan() { --orphans_; }

  // All that are open, in no order.
  std::span<H2Stream* const> streams() const { return streams_; }

  // Lets what is under way be finished: tells the peer to come with new requests to somebody else.
  // What it had sent before it knew is still answered.
  void drain();
  // Does not wait for the peer to have heard of it.
  void drain_now();
  bool is_draining() const { return drain_ != Drain::no; }
  // Ends it, after a last word.
  void give_up(std::uint32_t error);

  // Whether there is something to send.
  bool has_more() const;
  // Nothing more will come of it.
  bool is_over() const;
  // Whether the peer, or somebody who was asked, is waited for.
  bool in_message() const { return frames_.in_frame() || unfinished_ > 0 || unsent_ > 0; }
  // Whether fields, or a frame that is no part of a body, have begun to come and not ended.
  bool in_header() const { return frames_.in_header(); }
  // Of answers, what is not sent.
  std::size_t unsent() const { return unsent_; }
  // What it has received does not start as HTTP/2 does.
  bool is_no_http2() const { return no_http2_; }

  static constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  // Not an answer, but the last word to somebody who is not let in.
  static std::string refusal(std::uint32_t error, std::string_view why);

  // Errors of the protocol that are said from outside.
  static constexpr std::uint32_t kNoError = 0;
  static constexpr std::uint32_t kInternalError = 2;
  static constexpr std::uint32_t kCancel = 8;
  static constexpr std::uint32_t kCalm = 11;  // ENHANCE_YOUR_CALM

 private:
  friend struct H2Callbacks;
  enum class Drain { no, told, last };

  // What the library tells.
  bool begin_request(std::int32_t id);
  void begin_trailers(std::int32_t id);
  bool add_field(std::string_view name, std::string_view value);
  bool add_trailer(std::string_view name, std::string_view value);
  void end_header(H2Stream& stream, bool ends);
  void add_body(H2Stream& stream, std::string_view bytes);
  void end_request(H2Stream& stream);
  void drop(H2Stream& stream, std::size_t bytes);
  void end_stream(H2Stream& stream, bool well);
  std::ptrdiff_t read_answer(H2Stream& stream, std::uint8_t* to, std::size_t most,
                             std::uint32_t& flags);

  static void join_cookies(H2Stream& stream);
  void make_request(H2Stream& stream);
  void find_flaw(H2Stream& stream, int status, std::string_view reason);
  void tell(H2Stream& stream);
  void forget_body(H2Stream& stream);
  void no_longer_waits(H2Stream& stream);
  void submit(H2Stream& stream, std::span<const H2Field> fields, bool has_body);
  void count_unsent(H2Stream& stream);

  H2Handler& handler_;
  const H2Limits limits_;
  H2FrameCounter frames_;
  nghttp2_session* session_ = nullptr;
  H2Stream* reading_ = nullptr;         // whose header is being read
  H2Stream* trailing_ = nullptr;        // whose trailers are, if they are wanted
  mutable H2Stream* latest_ = nullptr;  // that was looked for
  std::size_t trailer_size_ = 0;
  std::vector<H2Stream*> streams_;
  std::size_t orphans_ = 0;
  std::size_t unfinished_ = 0;  // requests that are not whole, or not answered
  std::size_t unsent_ = 0;      // bytes of answers
  Drain drain_ = Drain::no;
  bool over_ = false;
  bool no_http2_ = false;
};

}  // namespace weir::wire
