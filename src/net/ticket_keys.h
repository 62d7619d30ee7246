#pragma once

#include <array>
#include <chrono>
#include <mutex>
#include <optional>

struct ssl_ctx_st;

namespace weir::net {

// The keys with which a server encrypts session tickets (RFC 5077, RFC 8446 4.6.1). A stolen key
// reads every connection that was resumed with it, so a key is used for an hour, accepted for
// another one, and then wiped. Thread-safe.
class TicketKeys {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kLifetime = std::chrono::hours{1};

  using Name = std::array<unsigned char, 16>;
  struct Key {
    Name name{};
    std::array<unsigned char, 32> cipher{};
    std::array<unsigned char, 32> mac{};
    Clock::time_point since{};

    ~Key();
  };
  struct Found {
    Key key;
    bool is_current = false;  // if not, the client should get a new ticket
  };

  // The key for a new ticket; nothing if the system has no random numbers.
  std::optional<Key> current(Clock::time_point now);
  // The key of a ticket; nothing if it is unknown or too old.
  std::optional<Found> find(const Name& name, Clock::time_point now);

 private:
  void rotate(Clock::time_point now);

  std::mutex mutex_;
  std::optional<Key> current_;
  std::optional<Key> previous_;
};

// Makes a context use keys of its own that rotate. False if there is no memory.
bool rotate_ticket_keys(ssl_ctx_st* context);

}  // namespace weir::net
