#include "server/links.h"

#include <stdexcept>

#include "store/shared.h"
#include "weir/async_engine.h"

namespace weir::server {

namespace {

// Of an engine without a fleet.
class NoLink final : public Link {
 public:
  int descriptor() const noexcept override { return -1; }
  void run_ready() override {}
  void flush() override {}
  void wait(Nanos) override {}

 private:
  store::SharedStore& store() noexcept override { std::terminate(); }
};

thread_local Link* own_link = nullptr;

}  // namespace

Link& link_of_this_thread() {
  static NoLink none;
  return own_link != nullptr ? *own_link : none;
}

LinkCompanion::LinkCompanion(Fleet& fleet, Engine& engine)
    : engine_(engine), link_(fleet.connect()) {
  own_link = link_.get();
}

LinkCompanion::~LinkCompanion() {
  AsyncEngine(engine_, *link_).return_leases();
  own_link = nullptr;
}

}  // namespace weir::server
