#include "calendar.h"

namespace weir::core {

namespace {

using std::chrono::hours;

class UnevenDays : public Calendar {
 public:
  Span span_at(Instant t) const override {
    const Instant round{t.time_since_epoch() - t.time_since_epoch() % Nanos{hours{72}}};
    const Nanos into = t - round;
    if (into < hours{23}) return {round, round + hours{23}};
    if (into < hours{47}) return {round + hours{23}, round + hours{47}};
    return {round + hours{47}, round + hours{72}};
  }
};

}  // namespace

std::shared_ptr<const Calendar> uneven_days() { return std::make_shared<UnevenDays>(); }

}  // namespace weir::core
