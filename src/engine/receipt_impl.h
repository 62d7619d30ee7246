#pragma once

#include <span>
#include <string>
#include <vector>

#include "store/memory/table.h"
#include "store/shared.h"
#include "weir/engine.h"

namespace weir {
inline namespace v0 {

// What was taken under each limit, by the fingerprint of the limit and the key: the limit's
// position may be another one when the policies have changed since, and of another key, or in the
// table of another engine, nothing was taken.
struct Receipt::Impl {
  struct Entry {
    store::Fingerprint key;
    bool shared = false;       // it was the fleet that admitted it
    bool lent = false;         // it was paid from a purse
    std::uint64_t mark = 0;    // of that purse
    std::uint32_t resets = 0;  // that its key had seen, on this node
    store::SharedReceipt receipt{};
  };
  std::vector<Entry> entries;
  std::string name;  // for the fleet, once something is to be given back to it; nobody else has it

  // What was admitted on this node.
  void add(std::span<const store::Item> items, std::span<const std::uint32_t> resets,
           std::span<const core::Receipt> receipts) {
    entries.reserve(entries.size() + items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      entries.push_back(
          {.key = items[i].key, .resets = resets[i], .receipt = {.receipt = receipts[i]}});
    }
  }

  // A settle was answered by all that it concerns: the next one is another one.
  void on_answered() {
    for (Entry& entry : entries) entry.receipt.repeated = 0;
  }

  Entry* find(const store::Fingerprint& key) {
    for (Entry& entry : entries) {
      if (entry.key == key) return &entry;
    }
    return nullptr;
  }
};

}  // namespace v0
}  // namespace weir
