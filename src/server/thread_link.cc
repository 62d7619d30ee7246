#include "server/thread_link.h"

#include <stdexcept>

#include "store/shared_store.h"
#include "weir/async_engine.h"

namespace weir::server {

namespace {

// The link of an engine without a fleet, which never uses it.
class DisconnectedLink final : public Link {
 public:
  int descriptor() const noexcept override { return -1; }
  void run_ready() override {}
  void flush() override {}
  void wait(Nanos) override {}

 private:
  store::SharedStore& store() noexcept override { std::terminate(); }
};

thread_local Link* thread_link = nullptr;

}  // namespace

Link& link_of_this_thread() {
  static DisconnectedLink none;
  return thread_link != nullptr ? *thread_link : none;
}

ThreadLink::ThreadLink(Fleet& fleet, Engine& engine) : engine_(engine), link_(fleet.connect()) {
  thread_link = link_.get();
}

ThreadLink::~ThreadLink() {
  AsyncEngine(engine_, *link_).return_leases();
  thread_link = nullptr;
}

}  // namespace weir::server
