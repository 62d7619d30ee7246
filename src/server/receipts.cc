#include "server/receipts.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <system_error>

namespace weir::server {

std::string random_name() {
  std::array<std::uint64_t, 2> bits{};
  if (getrandom(bits.data(), sizeof bits, 0) != sizeof bits) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

std::string Receipts::keep(Receipt receipt) {
  std::string name = random_name();
  const std::lock_guard lock(mutex_);
  kept_.emplace(name, std::move(receipt));
  oldest_first_.push_back(name);
  if (oldest_first_.size() > most_) {
    kept_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
  return name;
}

std::optional<Verdict> Receipts::settle(Engine& engine, const Request& request,
                                        std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(std::string{name});
  if (found == kept_.end()) return std::nullopt;
  return engine.settle(request, found->second);
}

}  // namespace weir::server
