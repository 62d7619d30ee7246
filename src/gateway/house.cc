#include "gateway/house.h"

#include <utility>

#include "gateway/prober.h"
#include "gateway/session.h"

namespace weir::gateway {

House::House(net::Ground& ground, Common& common)
    : ground_(ground),
      common_(common),
      engine_(common.engine, common.link()),
      links_(ground),
      most_((common.client.max_connections + common.threads - 1) / common.threads),
      probes_(common.houses.fetch_add(1) == 0) {}

House::~House() {
  for (const auto& visitor : visitors_) visitor->close();
}

const std::shared_ptr<const Routing>& House::routing() {
  const std::uint64_t version = common_.routing.version();
  if (version != version_) {
    version_ = version;
    routing_ = common_.routing.get();
  }
  return routing_;
}

void House::admit(net::Descriptor socket, const net::Peer& peer) {
  static const std::string both = "h2 http/1.1";
  static const std::string one = "http/1.1";
  net::Stream stream = common_.tls != nullptr ? net::Stream(std::move(socket), common_.tls->get(),
                                                            common_.http2 ? both : one)
                                              : net::Stream(std::move(socket));
  auto session = std::make_unique<Session>(*this, std::move(stream), peer);
  session->place = visitors_.size();
  visitors_.push_back(std::move(session));
}

void House::leave(Visitor& visitor) noexcept {
  const std::size_t place = visitor.place;
  if (place >= visitors_.size() || visitors_[place].get() != &visitor) return;
  ground_.bury(std::move(visitors_[place]));
  if (place + 1 != visitors_.size()) {
    visitors_[place] = std::move(visitors_.back());
    visitors_[place]->place = place;
  }
  visitors_.pop_back();
  ++ground_.left;
}

void House::replace(Visitor& visitor, std::unique_ptr<Visitor> by) {
  by->place = visitor.place;
  ground_.bury(std::exchange(visitors_[visitor.place], std::move(by)));
}

void House::look_around() {
  links_.sweep();
  farewells_.look_around();
  if (probes_) look_after_probers();
}

// One for each server that is to be asked. Those that go on, go on.
void House::look_after_probers() {
  const std::shared_ptr<const Routing> now = routing();
  if (probed_version_ == version_ || now == nullptr) return;
  probed_version_ = version_;
  std::vector<std::unique_ptr<Prober>> next;
  const auto add = [&](const std::shared_ptr<Backend>& backend) {
    if (!backend || !backend->service().health.active) return;
    for (Server& server : backend->servers()) {
      const auto is_it = [&](const auto& p) { return p && &p->server() == &server; };
      if (std::ranges::find_if(next, is_it) != next.end()) continue;
      const auto old = std::ranges::find_if(probers_, is_it);
      next.push_back(old != probers_.end() ? std::move(*old)
                                           : std::make_unique<Prober>(ground_, backend, server));
    }
  };
  for (const Routing::Place& place : now->places) {
    add(place.backend);
    add(place.fallback);
  }
  for (auto& prober : probers_) {
    if (prober) ground_.bury(std::move(prober));
  }
  probers_ = std::move(next);
}

// (Who has nothing to do leaves, and another one takes its place.)
void House::shut_down() {
  draining_ = true;
  for (std::size_t i = visitors_.size(); i > 0; --i) visitors_[i - 1]->shut_down();
}

}  // namespace weir::gateway
