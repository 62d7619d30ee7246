#pragma once

#include <array>
#include <chrono>
#include <mutex>
#include <optional>

struct ssl_ctx_st;

namespace weir::net {

// The keys with which a server encrypts TLS session tickets (RFC 5077, RFC 8446 4.6.1). A stolen
// key decrypts every connection that was resumed with it. So a key is used for an hour, accepted
// for another hour, and then wiped. Thread-safe.
class TicketKeys {
 public:
  using SteadyClock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kLifetime = std::chrono::hours{1};

  using Name = std::array<unsigned char, 16>;
  struct TicketKey {
    Name name{};
    std::array<unsigned char, 32> cipher{};
    std::array<unsigned char, 32> mac{};
    SteadyClock::time_point created{};

    ~TicketKey();
  };
  struct FoundKey {
    TicketKey key;
    bool is_current = false;  // otherwise the client should get a new ticket
  };

  // The key for a new ticket; nothing if the random number generator fails.
  std::optional<TicketKey> current(SteadyClock::time_point now);
  // The key of a ticket; nothing if it is unknown or too old.
  std::optional<FoundKey> find(const Name& name, SteadyClock::time_point now);

 private:
  void rotate(SteadyClock::time_point now);

  std::mutex mutex_;
  std::optional<TicketKey> current_;
  std::optional<TicketKey> previous_;
};

// Makes a context use rotating ticket keys of its own. False if out of memory.
bool rotate_ticket_keys(ssl_ctx_st* context);

}  // namespace weir::net
