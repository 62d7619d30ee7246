#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "gateway/claim.h"
#include "gateway/counts.h"
#include "gateway/link.h"
#include "gateway/routing.h"
#include "gateway/visitor.h"
#include "net/ground.h"
#include "net/tls_context.h"
#include "weir/async_engine.h"

namespace weir::gateway {

class Prober;

// What all threads of a gateway share.
struct Common {
  Engine& engine;
  std::function<Link&()> link;           // of the thread that calls: the way to the fleet
  const net::CurrentTls* tls = nullptr;  // none: clients come without
  ClientLimits client{};
  std::size_t threads = 1;
  std::uint16_t port = 0;
  bool http2 = true;  // may be spoken
  CurrentRouting routing{};
  Counts counts{};
  std::atomic<std::size_t> houses{0};
  // Told of somebody with whom there is no TLS.
  std::function<void(const net::Peer&, std::string_view why)> no_tls{};
};

// The clients of one thread, and the connections to servers that they share.
class House final : public net::Resident {
 public:
  House(net::Ground& ground, Common& common);
  ~House() override;

  void admit(net::Descriptor socket, const net::Peer& peer) override;
  bool has_room() const override { return visitors_.size() < most_; }
  void look_around() override;
  void shut_down() override;
  bool is_alone() const override { return visitors_.empty(); }

  net::Ground& ground() { return ground_; }
  Common& common() { return common_; }
  AsyncEngine& engine() { return engine_; }
  Links& links() { return links_; }
  Farewells& farewells() { return farewells_; }
  const std::shared_ptr<const Routing>& routing();
  bool is_draining() const { return draining_; }
  // It has ended.
  void leave(Visitor& visitor) noexcept;
  // Its connection is somebody else's from now on.
  void replace(Visitor& visitor, std::unique_ptr<Visitor> by);

 private:
  void look_after_probers();

  net::Ground& ground_;
  Common& common_;
  AsyncEngine engine_;
  Links links_;
  Farewells farewells_;
  const std::size_t most_;
  const bool probes_;  // one of them does it for all
  std::shared_ptr<const Routing> routing_;
  std::uint64_t version_ = 0;
  std::uint64_t probed_version_ = 0;
  std::vector<std::unique_ptr<Visitor>> visitors_;
  std::vector<std::unique_ptr<Prober>> probers_;
  bool draining_ = false;
};

}  // namespace weir::gateway
