#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/file_descriptor.h"
#include "net/memory.h"
#include "net/poller.h"
#include "net/protocol.h"

namespace weir::net {

class ProtocolConnection;

// One connection in a ReadBatch: the bytes that were read from it, and its responses.
struct BatchEntry {
  ProtocolConnection* connection = nullptr;
  std::string_view input{};
  std::size_t used = 0;  // bytes of `input` that the protocol has consumed
  std::string out{};     // responses to send
};

// Connections that are served together, in three passes: read from all, process all, send to all.
// The kernel's receive path, its send path and our own code do not fit into the instruction cache
// together. One pass each loads each of them once per batch instead of once per connection.
class ReadBatch {
 public:
  explicit ReadBatch(LoopMemory& memory) : memory_(memory) {}

  // A buffer of kReadSize bytes for the next read. Serves the current entries first if there is no
  // space left.
  char* buffer();
  // Adds a connection for which `size` bytes were read into the last buffer().
  void add(ProtocolConnection& connection, std::size_t size);
  // Serves all entries and empties the batch. Counts the memory that the connections hold then, and
  // sheds the largest ones if all loops together exceed their limit.
  void serve();
  // Frees output buffers that grew large.
  void shrink();

  static constexpr std::size_t kReadSize = 64 << 10;

 private:
  static constexpr std::size_t kMaxEntries = 16;

  LoopMemory& memory_;
  std::array<BatchEntry, kMaxEntries> entries_{};
  std::size_t count_ = 0;
  std::vector<char> input_ = std::vector<char>(4 * kReadSize);
  std::size_t used_ = 0;  // bytes of `input_`
};

// State that all connections of one loop share. Used by the loop's thread only.
struct LoopState {
  LoopMemory memory;
  Poller poller{};
  int now_seconds = 0;                          // the loop's clock: timeouts are whole seconds
  std::vector<ProtocolConnection*> closed{};    // to be destroyed at the end of the iteration
  std::vector<ProtocolConnection*> woken{};     // have output, though no input has come
  std::deque<ProtocolConnection*> run_queue{};  // used up their turn, and have input left

  // Buffers belong to the loop, not to connections: an idle connection needs none.
  ReadBatch batch{memory};
  BatchEntry empty_entry{};  // for a connection that is served without new input
};

// A socket and the Protocol that it speaks. Reads, lets the protocol respond, writes, and only then
// reads again: nothing is read from a peer that does not take its responses (backpressure). Bytes
// that were read wait in the loop's ReadBatch until that is served.
// If an allocation fails while an event is served, this connection is closed and the others go on.
// Used by the loop's thread only.
class ProtocolConnection final : public EventHandler, public Waker, public MemoryHolder {
 public:
  // `socket` is non-blocking.
  ProtocolConnection(FileDescriptor socket, const ListenerOptions& options, const Peer& peer,
                     LoopState& loop);
  ProtocolConnection(const ProtocolConnection&) = delete;
  ProtocolConnection& operator=(const ProtocolConnection&) = delete;

  // Registers the socket with the poller; false if the system refuses. Call once, before anything
  // else.
  bool open();

  void on_ready() override;
  void on_out_of_memory() noexcept override;
  void shed() noexcept override;
  // First pass over a batch entry: passes the input to the protocol.
  void process(BatchEntry& entry);
  // Second pass: sends the responses. Joins the run queue if the turn is used up and input is left.
  void send_responses(BatchEntry& entry);
  void wake() override;
  // Called after wake(): lets the protocol write output.
  void resume();
  // Called when it was taken from the run queue: continues with the input that it has kept.
  void resume_queued();
  // Called several times a second: ends the connection if a timeout has passed.
  void check_timeouts();
  // Graceful shutdown: answers the input that has arrived, then ends.
  void shut_down();

  // Index in the loop's list of connections.
  std::size_t index = 0;

 private:
  enum class ConnectionState { reading, waiting, queued, writing, draining, closed };

  // Runs one event; closes the connection if an allocation fails in it.
  void guard(const auto& event);
  void read();
  void drain();
  void serve();
  void do_process(BatchEntry& entry);
  void do_send_responses(BatchEntry& entry);
  void do_check_timeouts();
  void count_memory();
  void keep_unread(const BatchEntry& entry);
  void enqueue(bool responded);
  void wait_for_input(bool responded);
  void on_event_while_waiting();
  bool send(std::string_view output);
  void resume_sending();
  void end();
  void end_if_idle();
  void send_final_output();
  void release_memory();
  void close() noexcept;
  void set_state(ConnectionState state);
  void set_interest(Interest interest);

  FileDescriptor socket_;
  const ListenerOptions& options_;
  LoopState& loop_;
  std::unique_ptr<Protocol> protocol_;  // null while the connection drains
  ConnectionState state_ = ConnectionState::reading;
  Interest interest_ = Interest::read_edge;

  std::string pending_input_;  // read, and not consumed yet
  std::string unsent_;         // output that the socket has not accepted

  int waiting_since_ = 0;  // now_seconds when the current timeout began
  bool in_message_ = false;
  bool shutting_down_ = false;
  bool woken_ = false;
};

}  // namespace weir::net
