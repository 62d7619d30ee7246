#include "store/redis/channel.h"

#include <utility>

#include "store/redis/steady.h"

namespace weir::store::redis {

Channel::Channel(net::Poller& poller, const MachineOptions& options, ServerAddress address,
                 LinkCounts& counts, const Log& log, Listener& listener, Guide* guide)
    : address_(std::move(address)),
      counts_(counts),
      listener_(listener),
      machine_(options, counts, log, steady_now(), guide),
      transport_(poller, address_, *this) {}

Channel::~Channel() { machine_.end(); }

// Whatever comes of sending may change what the machine wants, and the other way round.
void Channel::turn() {
  if (lacks_connection()) transport_.connect();
  turn_without_connecting();
  if (lacks_connection()) transport_.connect();
  hang_up_if_wanted();
}

// The machine may want the next connection from now on. The last one ends before that, or it would
// pass for the next, on which the machine would wait in vain.
void Channel::on_time(Nanos now) {
  hang_up_if_wanted();
  machine_.on_time(now);
}

void Channel::turn_without_connecting() {
  hang_up_if_wanted();
  send();
  hang_up_if_wanted();
}

void Channel::connect_to(const Place& place) {
  address_.host = place.host;
  address_.port = place.port;
  machine_.rename(address_.shown());
  transport_.connect();
}

// (Also if it could not even begin to connect.)
void Channel::hang_up_if_wanted() {
  if (!machine_.wants_connection() && !transport_.is_idle()) transport_.close();
}

void Channel::send() {
  const std::string_view unsent = machine_.unsent();
  if (unsent.empty() || !transport_.is_open()) return;
  if (machine_.is_ready()) counts_.flushes.add();
  const std::size_t sent = transport_.send(unsent);
  if (transport_.is_open()) machine_.on_sent(sent);
}

// ---- The transport

void Channel::on_connected() { machine_.on_connected(steady_now()); }

void Channel::on_bytes(std::string_view bytes) {
  const Nanos now = steady_now();
  listener_.on_heard(now);
  machine_.on_bytes(bytes, now);
}

void Channel::on_writable() { send(); }

void Channel::on_disconnected(Failure failure, std::string_view why) {
  listener_.on_cut();
  machine_.on_disconnected(why, steady_now(), failure);
}

}  // namespace weir::store::redis
