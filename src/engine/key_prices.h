#pragma once

#include "core/price_history.h"
#include "engine/rules.h"

namespace weir::engine {

// The price history of one limit for one key, from the epochs of its policy. Borrows the policy and
// the texts of the subject.
class KeyPrices final : public core::PriceHistory {
 public:
  KeyPrices(const CompiledPolicy& policy, const policy::Subject& subject, std::uint64_t identity)
      : policy_(policy), subject_(subject), identity_(identity) {}

  std::size_t size() const override { return policy_.epochs->size(); }
  std::optional<core::PriceEpoch> epoch(std::size_t i) const override;
  std::optional<core::EmissionInterval> pace_of(std::uint64_t stamp) const override {
    return policy_.registry != nullptr ? policy_.registry->pace_of(stamp) : std::nullopt;
  }

 private:
  const CompiledPolicy& policy_;
  policy::Subject subject_;
  std::uint64_t identity_;  // of the limit
};

// The prices of a node's share of a limit (core/node_share.h): each permit takes as many times as
// long as there are nodes. Borrows the prices of the whole limit.
class SharePrices final : public core::PriceHistory {
 public:
  SharePrices(const core::PriceHistory& whole, Permits nodes) : whole_(whole), nodes_(nodes) {}

  std::size_t size() const override { return whole_.size(); }
  std::optional<core::PriceEpoch> epoch(std::size_t i) const override;

 private:
  const core::PriceHistory& whole_;
  Permits nodes_;
};

}  // namespace weir::engine
