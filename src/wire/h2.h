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

#include "wire/abuse_budget.h"
#include "wire/h2_hpack.h"
#include "wire/h2_rules.h"
#include "wire/http1.h"
#include "wire/reset_history.h"

namespace weir::wire {

// Limits for one peer.
struct H2Limits {
  std::uint32_t streams = 256;    // requests under way; above: refused
  std::size_t header = 16 << 10;  // as HTTP/2 counts it, 32 bytes more for each field; above: 431
  std::size_t fields = 100;       // how many; above: 431
  std::size_t body = 1 << 20;     // of one request; above: 413
  std::size_t window = 0;         // of one that is not taken yet, if it is in parts; 0: all of it
  std::size_t dropped = 4 << 20;  // of a body that nobody wants; above: the stream ends
  std::size_t bodies = 2 << 20;   // of all that are not whole yet: the connection's window
  std::size_t headers = 2 << 20;  // of all requests under way; above: the next are refused
  std::size_t unsent = 4 << 20;   // of answers that are not taken; above: the next are refused
  // For a request to become whole, and for some of its answer to be taken; 0: any time.
  std::int64_t seconds = 20;
};

class Http2Server;
class H2StreamList;

// Something of whoever answers, that lives as long as the stream.
class StreamData {
 public:
  virtual ~StreamData() = default;
};

// A request, and what has been made of its answer. Its address stays the same while it is open.
class H2Stream {
 public:
  std::int32_t id() const { return id_; }
  // Borrows from the stream; without its body until that is whole.
  const HttpRequest& request() const { return request_; }
  // The HTTP status with which it must be refused; 0: it is valid.
  int flaw() const { return flaw_; }
  std::string_view reason() const { return reason_; }

  // Of a request that is taken in parts: what has come, for the taker to erase. The peer may send
  // as much more as was erased (Http2Server::took).
  std::string& parts() { return body_; }
  // Whether nothing more will come.
  bool is_whole() const { return whole_; }
  // The declared length of the body, if any.
  std::optional<std::uint64_t> length() const { return length_; }
  // Of a request that is taken in parts: what came behind its body, as lines of HTTP/1.
  const std::string& request_trailers() const { return request_trailers_; }
  // Whether the peer waits to be told to send the body. Who takes parts does that (100).
  bool expects_continue() const { return noted_.expects_continue && !whole_; }
  // Whether an answer has begun.
  bool is_answered() const { return said_ != Said::nothing; }
  // Whether there is nothing to be added to it.
  bool is_finished() const { return said_ >= Said::all; }
  // Of the answer, what is not sent.
  std::size_t unsent() const { return counted_ - sent_; }

  // Where the body of the answer is written to.
  std::string answer;
  std::unique_ptr<StreamData> guest;

 private:
  friend class Http2Server;
  friend class H2StreamList;

  // How much has been said in answer, by whoever answers; and, at last, to the peer.
  enum class Said { nothing, some, all, sent };

  void clear();
  std::size_t memory() const;
  // Whether it is for the peer to do something.
  bool keeps_waiting() const {
    return unsent() > 0 || (!whole_ && (!in_parts_ || said_ == Said::sent));
  }

  using Slice = HttpFields::Slice;
  // Of the fields that are asked for most.
  struct Noted {
    Slice method, path, authority, host, content_type, authorization;
    bool has_authority = false, has_host = false, expects_continue = false;
    int cookies = 0;
  };

  std::int32_t id_ = 0;
  std::size_t at_ = 0;              // its place in the machine's list
  H2Stream* next_found_ = nullptr;  // among those that are looked for at the same place
  HttpRequest request_;
  int flaw_ = 0;
  std::string_view reason_;

  // Input.
  std::string text_;        // of the header
  std::size_t header_ = 0;  // how much of that counts
  std::vector<HttpFields::FieldSlices> places_;
  Noted noted_;
  std::optional<std::uint64_t> length_;
  std::uint64_t come_ = 0;  // bytes of the body
  std::string request_trailers_;
  std::string body_;
  std::size_t most_body_ = 0;  // bytes of it that are kept
  std::size_t memory_ = 0;     // bytes of all texts, as counted
  std::size_t dropped_ = 0;    // bytes of it that were not wanted
  std::size_t held_ = 0;       // bytes of windows that the body is in
  std::int64_t window_ = 0;    // what more may come
  std::int64_t used_up_ = 0;   // what has come and is done with, that the peer was not told of
  bool in_parts_ = false;      // the handler sees it as it comes
  bool whole_ = false;
  bool told_ = false;            // the handler has seen it
  bool waits_ = false;           // for the rest of it, or for an answer
  std::int64_t late_since_ = 0;  // the second in which the peer began to keep us waiting; 0: it may
                                 // be now

  // Output.
  std::int64_t peer_window_ = 0;  // what more may be sent
  H2StreamList* list_ = nullptr;  // that it is in, between these two
  H2Stream* before_ = nullptr;
  H2Stream* behind_ = nullptr;
  Said said_ = Said::nothing;
  bool closed_ = false;      // nothing more comes or goes of it
  bool well_ = true;         // ... though nothing went wrong
  std::size_t sent_ = 0;     // of the answer
  std::size_t counted_ = 0;  // of it, as to be sent
  std::string trailer_text_;
  std::vector<H2Field> trailers_;
};

// Streams in a row, each in at most one list.
class H2StreamList {
 public:
  bool empty() const { return first_ == nullptr; }
  H2Stream& first() const { return *first_; }
  void add(H2Stream& stream);
  // Also if it is in no list.
  static void remove(H2Stream& stream);

 private:
  H2Stream* first_ = nullptr;
  H2Stream* last_ = nullptr;
};

// Handles requests.
class H2Handler {
 public:
  virtual ~H2Handler() = default;

  // Whether a request is to be shown as it comes, whose header is whole.
  virtual bool takes_parts(const H2Stream& stream) = 0;
  // Bytes of a body that are kept for a request whose header is whole; more are answered with 413,
  // as are more than H2Limits::body. 0: the request is answered now, and nothing of its body is
  // kept.
  virtual std::size_t most_body(const H2Stream& stream) = 0;
  // A request is whole, or something is wrong with it; or, of one that is taken in parts, the
  // header is, or more has come. May answer it at once, or later, unless it is gone.
  virtual void on_request(H2Stream& stream) = 0;
  // The stream has ended, answered or not.
  virtual void on_gone(H2Stream& stream) = 0;
};

// The server's side of an HTTP/2 connection: bytes in, requests out; answers in, bytes out.
// Without I/O. Not thread-safe.
//
// Frames, streams and windows are taken care of here, fields are packed and unpacked by nghttp2.
// (Its sessions can do all of it, and took most of the time that a call of gRPC takes: see
// bench/RESULTS.md, where a bare loop around one is beside us.) What a stranger can make us do and
// keep is limited: fields, bodies, streams, answers that are not taken, and frames that cost the
// peer nothing (h2_patience.h). Answers can be given in any order.
class Http2Server {
 public:
  explicit Http2Server(H2Handler& handler, const H2Limits& limits = {});
  ~Http2Server();
  Http2Server(const Http2Server&) = delete;
  Http2Server& operator=(const Http2Server&) = delete;

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
  // There will be no more. (Said again, it changes nothing.)
  void finish(H2Stream& stream, std::span<const H2Field> trailers = {});
  // Takes the stream away from the peer.
  void reset(H2Stream& stream, H2Error error = H2Error::cancel);
  // The one of that number, or null if it has ended.
  H2Stream* find(std::int32_t id) const;

  // A request whose stream has ended is still being worked on, or no longer. Counts as a stream
  // while it is: whoever gives up its requests cannot have more of them that way.
  void note_orphan() { ++orphans_; }
  void forget_orphan() { --orphans_; }

  // All that are open, in no order.
  std::span<H2Stream* const> streams() const { return streams_; }

  // Lets what is under way be finished: tells the peer to come with new requests to somebody else.
  // Requests that it sent before it received GOAWAY are still answered.
  void drain();
  // Does not wait for the peer to have heard of it.
  void drain_now();
  bool is_draining() const { return drain_ != Drain::no; }
  // Ends it, after a last word.
  void give_up(H2Error error);

  // Whether there is something to send.
  bool has_more() const;
  // Nothing more will come of it.
  bool is_over() const;
  // Whether the peer, or somebody who was asked, is waited for.
  bool in_message() const { return in_frame() || unfinished_ > 0 || unsent_ > 0; }
  // Whether fields, or a frame that is no part of a body, have begun to come and not ended.
  bool in_header() const { return preface_ < kPreface.size() || !kept_.empty() || block_.open; }
  // Of answers, what is not sent.
  std::size_t unsent() const { return unsent_; }
  // Bytes that it holds: of requests, of answers, and of fields that both sides remember.
  std::size_t memory() const {
    return kHpackMemory + kept_.capacity() + queue_.capacity() +
           streams_.size() * sizeof(H2Stream) + memory_;
  }
  // The input does not begin with the HTTP/2 preface.
  bool is_no_http2() const { return no_http2_; }

  static constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  // Not an answer, but the last word to somebody who is not let in.
  static std::string refusal(H2Error error, std::string_view why);

 private:
  enum class Drain { no, told, last };

  // Memory of nghttp2 per connection, with the tables of both directions full.
  static constexpr std::size_t kHpackMemory = 12 << 10;

  // How the end of a drain is known from other pings.
  static constexpr std::string_view kDrainPing = "weirdone";

  // Fields that are being read.
  struct Block {
    enum class Of { nothing, request, trailers };

    std::int32_t id = 0;  // of the stream
    bool ends = false;    // the request ends with it
    bool open = false;    // there is more of it in the next frame
    int continuations = 0;
    Of of = Of::nothing;         // nobody's: they only have to be unpacked
    H2Stream* stream = nullptr;  // if they are somebody's
    H2Rules rules{};
    bool good = true;      // so far
    bool bearable = true;  // as to how much there is of it
    std::size_t size = 0;
  };
  // A body that is being read.
  struct Data {
    std::int32_t id = 0;
    std::size_t left = 0;     // bytes of the frame
    std::size_t padding = 0;  // the last ones of these
    bool ends = false;
  };
  struct ReceiveWindow {
    std::int64_t size = 0;
    std::int64_t left = size;
    std::int64_t used_up = 0;  // done with, and the peer was not told
  };

  // Frames that come.
  bool in_frame() const {
    return (preface_ > 0 && preface_ < kPreface.size()) || !kept_.empty() || data_.left > 0;
  }
  void look_who_is_late(std::int64_t now);
  bool read_preface(std::string_view& input);
  void read_frame(std::string_view& input);
  std::size_t look_at_frame(std::string_view input);
  void on_frame(const H2FrameHead& head, std::string_view payload);
  void on_headers(const H2FrameHead& head, std::string_view payload);
  void on_continuation(const H2FrameHead& head, std::string_view payload);
  void on_reset(const H2FrameHead& head);
  void on_settings(const H2FrameHead& head, std::string_view payload);
  void on_ping(const H2FrameHead& head, std::string_view payload);
  void on_goaway(const H2FrameHead& head);
  void on_window(const H2FrameHead& head, std::string_view payload);
  void use_setting(H2Setting setting, std::uint32_t value);
  void use_peer_window(std::uint32_t size);
  void use_own_window();
  std::size_t begin_data(const H2FrameHead& head, std::string_view input);
  void go_on_with_data(std::string_view& input);
  void pass_over(std::size_t bytes);
  void end_data();

  // Fields.
  void begin_block();
  void unpack(std::string_view piece, bool last);
  void add_field(const HpackDecoder::DecodedField& field);
  void add_request_field(H2Name known, std::string_view name, std::string_view value);
  static bool add_pseudo_field(H2Stream& stream, H2Name known, std::string_view value);
  static void note_field(H2Stream::Noted& noted, H2Name known, HttpFields::Slice place,
                         std::string_view value);
  void add_trailer(std::string_view name, std::string_view value);
  void end_block();
  static void join_cookies(H2Stream& stream);
  void make_request(H2Stream& stream);
  void find_flaw(H2Stream& stream, int status, std::string_view reason);

  // Requests.
  bool is_full() const;
  void begin_request(std::int32_t id);
  void end_header(H2Stream& stream, bool ends);
  void add_body(H2Stream& stream, std::string_view bytes);
  void end_request(H2Stream& stream);
  void drop(H2Stream& stream, std::size_t bytes);
  void tell(H2Stream& stream);
  void forget_body(H2Stream& stream);
  void no_longer_waits(H2Stream& stream);
  void credit_connection(std::size_t bytes);
  void credit_stream(H2Stream& stream, std::size_t bytes);
  void tell_of_credit();
  void tell_of_credit(H2Stream& stream);

  // Answers.
  void submit(H2Stream& stream, std::span<const H2Field> fields, bool has_body);
  void append_block(std::string& out, std::int32_t id, std::span<const H2Field> fields, bool ends);
  void count_unsent(H2Stream& stream);
  void make_ready(H2Stream& stream);
  void send_some(H2Stream& stream, std::string& out);

  // Streams.
  void count_memory(H2Stream& stream);
  H2Stream*& place_of(std::int32_t id) const;
  H2Stream* find_any(std::int32_t id) const;
  bool is_idle(std::int32_t id) const;
  bool may_go_on(std::int32_t id) const;
  void close(H2Stream& stream);
  void end_stream(H2Stream& stream);
  void end_streams();
  void say(H2Type type, std::uint8_t flags, std::int32_t stream, std::string_view payload);
  void say_number(H2Type type, std::int32_t stream, std::uint32_t number);
  void say_reset(std::int32_t stream, H2Error error);
  void say_goodbye(std::int32_t last, H2Error error);

  H2Handler& handler_;
  const H2Limits limits_;
  AbuseBudget abuse_budget_;
  HpackDecoder unpacker_;
  HpackEncoder packer_;

  // Input.
  std::size_t preface_ = 0;      // bytes of it that have come
  bool had_settings_ = false;    // the peer's
  bool knows_settings_ = false;  // it has said that it knows ours
  std::string kept_;             // a frame that is not whole, unless it is of a body
  Block block_;
  Data data_;
  ReceiveWindow window_;
  std::int64_t own_window_ = 0;  // of a new stream, what may come
  bool all_checked_ = true;      // no field that was ever unpacked was other than it may be

  // Output.
  std::string queue_;                 // frames that no window keeps back
  H2StreamList ready_;                // that have something to send
  H2StreamList blocked_;              // that would, if the connection's window were open
  std::int64_t peer_window_ = 0;      // of the connection
  std::int64_t peer_new_window_ = 0;  // of a new stream

  std::vector<H2Stream*> streams_;
  mutable std::array<H2Stream*, 64> places_{};  // of all streams, by their numbers
  std::vector<H2Stream*> ending_;               // that are closed, each once
  ResetHistory reset_history_;                  // that we have reset
  std::int32_t last_come_ = 0;                  // the largest number
  std::int32_t last_begun_ = 0;                 // ... of a request that was not passed over
  std::size_t orphans_ = 0;
  std::size_t unfinished_ = 0;  // requests that are not whole, or not answered
  std::size_t headers_ = 0;     // bytes of requests' headers
  std::size_t unsent_ = 0;      // bytes of answers
  std::size_t memory_ = 0;      // bytes of streams' texts
  std::int64_t second_ = 0;     // when somebody last looked who is late
  Drain drain_ = Drain::no;
  bool peer_leaves_ = false;
  bool gave_up_ = false;  // after the last word nothing is said
  bool no_http2_ = false;
};

}  // namespace weir::wire
