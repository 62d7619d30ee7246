// A key is admitted exactly the permits that the rates of each moment have granted, for any changes
// of its limit. Limits change by reloads, overrides that come and go, schedules, orders, policies
// that are removed and come back, and restarts. Keys may be unused over any number of changes.

#include "changes.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/folder.h"
#include "weir/clock.h"

namespace weir::changes {
namespace {

class World {
 public:
  explicit World(bool on_file) : on_file_(on_file) {
    path_ = folder_ / "state";
    open();
    rates_.set(settings_, clock_.now());
  }

  void perform(const Step& step) {
    if (step.op == Step::Op::take) return take(kKeys[step.key], step.number);
    if (step.op == Step::Op::wait) return wait(time_of(step));
    if (step.op == Step::Op::restart) return restart(step);
    if (change(settings_, step, clock_.now())) replace();
  }

 private:
  void open() {
    MemoryOptions memory{.bytes = std::size_t{1} << (on_file_ ? 22 : 18)};
    if (on_file_) memory.state_file = path_;
    auto opened = Engine::open(policies_under(settings_), {.memory = memory, .clock = &clock_});
    if (!opened) throw std::logic_error(opened.error().message);
    engine_.emplace(*std::move(opened));
  }

  // A process ends or is killed. Before the next one starts time may pass, and the file may be
  // edited.
  void restart(const Step& step) {
    if (!on_file_) return;
    const std::string left_behind = path_ + ".killed";
    const bool is_killed = step.number % 5 == 0;
    if (is_killed) std::filesystem::copy_file(path_, left_behind);
    engine_.reset();
    if (is_killed) std::filesystem::rename(left_behind, path_);
    // (For an edited policy the next process cannot know when orders have ended before, unless the
    // last process noted it. A rate that is not in force at the time may be edited unnoticed.)
    const bool shows = settings_.present && settings_.at_night == 0;
    const bool is_edited = step.number % 3 == 0 && !is_killed && shows;
    if (step.number % 2 == 0) pass_without_process(time_of(step), is_edited);
    if (is_edited) settings_.usual = rate_of(step) + (rate_of(step) == settings_.usual ? 1000 : 0);
    open();
    rates_.set(settings_, clock_.now());
  }

  // Schedules and orders end as planned, unless the policy was edited. Then the rates in force at
  // the end continue.
  void pass_without_process(Nanos time, bool is_edited) {
    Settings away = settings_;
    away.present = away.present && !is_edited;
    rates_.set(away, clock_.now());
    wait(time);
  }

  void replace() {
    engine_->replace(policies_under(settings_));
    rates_.set(settings_, clock_.now());
  }

  void wait(Nanos time) {
    clock_.advance(time);
    reference_.advance({&rates_}, clock_.now());
    rates_.follow(clock_.now());
  }

  void take(const std::string& key, int number) {
    if (!settings_.present) return;
    const Permits all = rates_.at(key, clock_.now());
    const long double left = reference_.left(all, key);
    const Permits permits = std::max<Permits>(all * (number + 1) / 1000, 1);
    const Verdict verdict = engine_->take({.policy = "p", .key = key, .permits = permits});
    RC_LOG() << key << " takes " << permits << " of " << static_cast<double>(left)
             << (verdict ? ": admitted" : ": refused") << "\n";
    if (verdict) {
      RC_ASSERT(static_cast<long double>(permits) <= left + kRounding);
      reference_.take(key, permits);
    } else {
      RC_ASSERT(static_cast<long double>(permits) > left - kRounding);
    }
  }

  const bool on_file_;
  support::Folder folder_;
  std::string path_;
  ManualClock clock_;
  Settings settings_{};
  Rates rates_{};
  Reference reference_{clock_.now()};
  std::optional<Engine> engine_;
};

void check_world(bool on_file, int cases) {
  core::check(
      [on_file] {
        World world(on_file);
        for (const Step& one :
             *rc::gen::scale(2.0, rc::gen::container<std::vector<Step>>(step()))) {
          world.perform(one);
        }
      },
      cases);
}

TEST(Changes, AdmitWhatTheRatesOfEachMomentGrant) { check_world(false, 1000); }

// The note in the state file tells the next process the rates that were in force.
TEST(Changes, AdmitWhatTheRatesOfEachMomentGrantOverRestarts) { check_world(true, 300); }

}  // namespace
}  // namespace weir::changes
